// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.alcc.cc.Controller;

/**
 * One end of a connection without I/O: bytes in, bytes out, time as an argument. It is for streams other than sockets;
 * use {@link Connection} or {@link ChannelConnection} for sockets.
 *
 * <p>The host passes received bytes ({@link #received}, {@link #ended}, {@link #failed}), calls {@link #timer} when
 * {@link #nextTimer} is due, and sends the bytes of {@link #output}. The peer's frames are checked, and memory is
 * bounded by the {@link Settings}. Times are nanoseconds that never decrease. Not safe for several threads.
 */
public final class Session {
    /** A buffer for {@link #output} has at least this much room, bytes. */
    public static final int LEAST_OUTPUT = 2048;

    private final Receiving receiving;
    private final Sending sending;
    private final Settings settings;
    private final boolean opener;
    private final long began;
    private final FrameReader reader = new FrameReader();
    private ByteBuffer preface = ByteBuffer.allocate(Preface.MAX_LENGTH);
    private boolean prefaceSent;
    private boolean open;
    private long heardAt;
    private AlccException error;
    /** The reason of a CLOSE that has yet to leave; -1: none. */
    private int pendingClose = -1;
    /** The stream below has ended in good order. */
    private boolean streamOver;
    private long bytesIn;
    private long bytesOut;

    /**
     * One end of a connection.
     *
     * @param opener true: this end opened the connection and speaks first
     * @param now nanoseconds
     * @param settings for this connection alone, as they hold the controller
     */
    public Session(boolean opener, long now, Settings settings) {
        this.opener = opener;
        this.settings = settings;
        began = now;
        int segment = settings.segment == Settings.UNKNOWN ? 1448 : settings.segment;
        receiving = new Receiving(this, settings.receiveBuffer, settings.ackDelay);
        sending = new Sending(segment, settings, now);
    }

    /** @return true when the peer's preface has come and nothing has failed */
    public boolean isOpen() {
        return open && error == null;
    }

    /** @return why it failed; null: it has not */
    public AlccException error() {
        return error;
    }

    /** @return true when all that was given out, and the end, is acknowledged */
    public boolean isFinished() {
        return streamOver && sending.isEnding() || sending.isEndAcknowledged();
    }

    /** @return true when both directions have ended and nothing is left to say */
    public boolean isDone() {
        return isFinished() && receiving.peerEnded() && (streamOver || receiving.hasToldAll());
    }

    /** @return payload bytes that {@link #read} would give */
    public int unread() {
        return receiving.unread();
    }

    /** @return true when the peer will send no more and all of it has been read */
    public boolean isAtEnd() {
        return receiving.peerEnded() && receiving.unread() == 0;
    }

    /** @return true if a writer that found no room may find some now, or an error */
    public boolean isWritable() {
        return error != null || open && !sending.isBlocked();
    }

    /** @return what the connection did and knows */
    public Stats stats() {
        Flow flow = sending.flow();
        return new Stats(sending.sent(), receiving.received(), bytesOut, bytesIn, flow == null ? 0 : flow.inFlight(),
            flow == null ? 0 : flow.window(), flow == null ? 0 : flow.rate(), flow == null ? 0 : flow.latest(),
            flow == null ? 0 : flow.smoothed(), flow == null ? 0 : flow.smallest(),
            flow == null ? 0 : flow.gateClosed());
    }

    /**
     * Bytes have come. Payload waits for {@link #read}. If something is wrong, it is {@link #error()} afterwards.
     *
     * @param since until then nothing of it had come, nanoseconds
     * @param at all of it had come
     * @param now the time
     * @param in all of it is taken
     */
    public void received(long since, long at, long now, ByteBuffer in) {
        received(since, at, at, now, in);
    }

    /** The same for acknowledgements that may have arrived since {@code heard}, the last check. */
    void received(long since, long heard, long at, long now, ByteBuffer in) {
        if (error != null || !in.hasRemaining()) {
            return;
        }
        bytesIn += in.remaining();
        try {
            if (!open && !preface(now, in)) {
                return;
            }
            heardAt = now;
            receiving.begin(heard, at, now);
            reader.feed(in, receiving);
        } catch (AlccException e) {
            fail(e);
        }
        receiving.end(Math.min(since, at), Math.min(at, now), now);
    }

    private boolean preface(long now, ByteBuffer in) throws AlccException {
        int before = preface.position();
        int n = Math.min(preface.remaining(), in.remaining());
        ByteBuffer some = in.duplicate();
        some.limit(some.position() + n);
        preface.put(some);
        preface.flip();
        Preface peer = Preface.decode(preface);
        if (peer == null) {
            preface.position(preface.limit()).limit(preface.capacity());
            in.position(in.limit());
            return false;
        }
        in.position(in.position() + preface.position() - before);
        preface = null;
        if (!peer.algorithm().isEmpty()) {
            heardAt = now;
            open = true;
            throw new AlccException(AlccException.Kind.RECEIVER_MODULE,
                "the peer's algorithm needs a receiver module, which this library does not have: " + peer.algorithm());
        }
        open = true;
        heardAt = now;
        receiving.interval(peer.ackDelay());
        sending.open(now, peer.credit());
        return true;
    }

    /** The stream below has ended. */
    public void ended() {
        if (error != null) {
            return;
        }
        if (open && isPeerDone()) {
            streamOver = true;
        } else {
            fail(new AlccException(AlccException.Kind.CUT, open
                ? "the connection ended in the middle of the stream"
                : "the peer ended the connection before it said anything of ALCC"));
        }
    }

    /**
     * The stream below has failed. After the peer's end, with all data acknowledged, that is an end as well.
     *
     * @param why the failure
     */
    public void failed(IOException why) {
        if (error == null && open && isPeerDone()) {
            streamOver = true;
        } else {
            fail(AlccException.stream(why));
        }
    }

    private boolean isPeerDone() {
        return receiving.peerEnded() && sending.isDataAcknowledged();
    }

    /** Ends it: the peer is notified with the next output. */
    public void abort() {
        fail(new AlccException(AlccException.Kind.GIVEN_UP, "the connection was given up at this end"));
    }

    /** The application goes: says what the page says of letting go. */
    public void letGo() {
        if (error != null) {
            return;
        }
        boolean quiet = open && sending.flow().inFlight() == 0;
        if (quiet && (receiving.peerEnded() || isFinished())) {
            sending.end();
            // The peer, whose data was read, would find the stream cut without it.
            if (receiving.unread() == 0) {
                receiving.acknowledge(Long.MIN_VALUE);
            }
        } else {
            abort();
        }
    }

    void fail(AlccException why) {
        if (error != null) {
            return;
        }
        switch (why.kind()) {
            case PROTOCOL:
                pendingClose = 2;
                break;
            case RECEIVER_MODULE:
                pendingClose = 3;
                break;
            case SILENT:
                pendingClose = open ? 4 : -1;
                break;
            case GIVEN_UP:
                pendingClose = 1;
                break;
            default:
        }
        receiving.quiet();
        error = why;
    }

    /** An acknowledgement has come. */
    void acknowledged(long since, long at, long now, Ack ack) {
        String wrong = sending.acknowledged(since, at, now, ack);
        if (wrong != null) {
            fail(AlccException.protocol(wrong));
        }
    }

    /**
     * Takes payload that has come.
     *
     * @param now nanoseconds
     * @param into takes it
     * @param at from here on
     * @param n at most this many bytes
     * @return how many; 0: nothing is there
     */
    public int read(long now, byte[] into, int at, int n) {
        int taken = receiving.read(into, at, n);
        if (isOpen()) {
            receiving.taken(now);
        }
        return taken;
    }

    /** No more will be sent: CLOSE leaves with the next output that takes all bytes of the caller's. */
    public void end() {
        if (error == null) {
            sending.end();
        }
    }

    /** @return true after {@link #end} */
    public boolean isEnding() {
        return sending.isEnding();
    }

    /**
     * Runs what is due.
     *
     * @param now nanoseconds
     */
    public void timer(long now) {
        if (error != null) {
            return;
        }
        if (now >= deadline()) {
            long ms = (now - (open ? Math.max(heardAt, sending.busySince()) : began)) / 1_000_000;
            fail(new AlccException(AlccException.Kind.SILENT, open
                ? "nothing came from the peer for " + ms + " ms"
                : "the peer did not begin to speak ALCC within " + ms + " ms"));
        } else if (open) {
            sending.timer(now);
        }
    }

    /** Grows with each byte of payload that comes, and with each byte that is acknowledged. */
    long progress() {
        return receiving.received() + (sending.flow() == null ? 0 : sending.flow().acked());
    }

    /** Fails, because a call has waited for the peer this long without progress, nanoseconds. */
    void stalled(long nanos) {
        fail(new AlccException(AlccException.Kind.SILENT, "nothing moved for " + nanos / 1_000_000 + " ms"));
    }

    /** Time at which a silent peer is given up. */
    long deadline() {
        if (!open) {
            return began + settings.handshake;
        }
        return sending.isWaiting() && !streamOver
            ? Math.max(heardAt, sending.busySince()) + settings.silence : Controller.NONE;
    }

    /** @return nanoseconds at which {@link #timer} and then {@link #output} want to be called; never: the largest */
    public long nextTimer() {
        if (error != null) {
            return Controller.NONE;
        }
        long next = deadline();
        return open ? Math.min(next, Math.min(receiving.ackDue(), sending.nextTimer())) : next;
    }

    long inFlight() {
        return sending.flow() == null ? 0 : sending.flow().inFlight();
    }

    /** So much is under way that its acknowledgements come all the time, and nothing else comes. */
    boolean isUpload(long now) {
        return isOpen() && sending.isBulk() && isQuiet(now);
    }

    /** The peer has sent no data of late. */
    boolean isQuiet(long now) {
        return receiving.isQuiet(now);
    }

    /** Time that acknowledgements may wait to be read together, nanoseconds. */
    long readInterval() {
        return sending.readInterval();
    }

    /** There is something to say besides data. */
    boolean hasAnswer(long now) {
        return pendingClose >= 0 && prefaceSent || isOpen() && !streamOver && receiving.hasAnswer(now);
    }

    /** Acknowledges everything that has arrived with the next output. */
    void acknowledge(long now) {
        receiving.acknowledge(now);
    }

    /** @return when an acknowledgement is due, nanoseconds */
    long ackDue() {
        return error == null ? receiving.ackDue() : Controller.NONE;
    }

    /**
     * What is to be written now. What is given out counts as sent.
     *
     * @param now nanoseconds
     * @param from bytes of the application
     * @param at from here on
     * @param n this many
     * @param out big-endian, with room for {@link #LEAST_OUTPUT} bytes at least; takes frames as far as there is room
     * @return how many bytes of the application were taken
     * @throws IllegalArgumentException if there is less room
     */
    public int output(long now, byte[] from, int at, int n, ByteBuffer out) {
        if (out.remaining() < LEAST_OUTPUT) {
            throw new IllegalArgumentException("output needs room for " + LEAST_OUTPUT + " bytes, found "
                + out.remaining());
        }
        int before = out.position();
        boolean refuses = error != null && error.kind() == AlccException.Kind.VERSION;
        if (!prefaceSent && (opener || open || refuses)) {
            prefaceSent = true;
            out.put(new Preface(settings.receiveBuffer, settings.ackDelay, sending.segment(), "").encode());
        }
        if (pendingClose >= 0) {
            if (prefaceSent) {
                String words = pendingClose == 1 ? "" : error.getMessage();
                FrameWriter.close(out, sending.position(), pendingClose, words);
            }
            pendingClose = -1;
        }
        int taken = 0;
        if (isOpen() && !streamOver) {
            receiving.answer(now, out);
            taken = sending.output(now, from, at, n, out, before);
        }
        bytesOut += out.position() - before;
        return taken;
    }
}
