// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;
import org.alcc.cc.Controller;

/** The receiving direction of a session. */
final class Receiving implements FrameSink {
    private static final long MAX_48 = (1L << 48) - 1;
    /** Maximum number of bytes without an acknowledgement, however short the time since the last one. */
    private static final int MAX_UNTOLD = 65536;

    /** Time without data after which a peer only acknowledges, nanoseconds. */
    private static final long QUIET = 100_000_000;

    private final Session session;
    private final int buffer;
    private final Arrivals arrivals = new Arrivals();
    private final ByteQueue unread = new ByteQueue();
    private long interval;
    private long position;
    /** Limit of the peer's data, and the limit that was last announced. */
    private long edge;
    private long toldEdge;
    private boolean peerEnded;
    private long ackDue = Controller.NONE;
    private long ackedAt;
    private long arrivedAt;
    private byte[] pong;
    private long received;
    /** Values of the reading in progress. */
    private long heard;
    private long at;
    private long now;

    Receiving(Session session, int buffer, int ackDelay) {
        this.session = session;
        this.buffer = buffer;
        edge = buffer;
        toldEdge = buffer;
        interval(ackDelay);
    }

    /** The peer's wish, microseconds. */
    void interval(long micros) {
        interval = Math.min(Math.max(micros, 1000), 25_000) * 1000;
    }

    void begin(long since, long arrivedAt, long time) {
        heard = since;
        at = Math.min(arrivedAt, time);
        now = time;
    }

    void end(long since, long arrivedAt, long time) {
        if (position == arrivals.position() || session.error() != null) {
            return;
        }
        this.arrivedAt = time;
        arrivals.arrived(position, since, arrivedAt);
        extend();
        boolean soon = arrivals.untold() >= MAX_UNTOLD || arrivals.isFull();
        ackDue = Math.min(ackDue, soon ? time : Math.max(time, ackedAt + interval));
    }

    /** The peer sends no data. */
    boolean isQuiet(long time) {
        return time - arrivedAt > QUIET;
    }

    void quiet() {
        ackDue = Controller.NONE;
    }

    private void extend() {
        edge = Math.min(Math.max(edge, arrivals.position() + Math.max(buffer - unread.size(), 0)), MAX_48);
    }

    int unread() {
        return unread.size();
    }

    long received() {
        return received;
    }

    boolean peerEnded() {
        return peerEnded;
    }

    boolean hasToldAll() {
        return ackDue == Controller.NONE && arrivals.untold() == 0;
    }

    boolean hasAnswer(long time) {
        return ackDue <= time || pong != null;
    }

    void acknowledge(long time) {
        if (arrivals.untold() > 0) {
            ackDue = Math.min(ackDue, time);
        }
    }

    long ackDue() {
        return ackDue;
    }

    int read(byte[] into, int offset, int n) {
        return unread.take(into, offset, n);
    }

    /** The application has taken something: the peer may wait for credit. */
    void taken(long time) {
        extend();
        if (edge - toldEdge >= Math.max(buffer / 4, 1) && !peerEnded) {
            ackDue = Math.min(ackDue, time);
        }
    }

    void answer(long time, ByteBuffer out) {
        if (ackDue <= time) {
            ackDue = Controller.NONE;
            ackedAt = time;
            toldEdge = edge;
            FrameWriter.ack(out, arrivals.ack(time, edge));
        }
        if (pong != null) {
            FrameWriter.ping(out, true, pong);
            pong = null;
        }
    }

    private boolean isExpected(long sequence) {
        if (session.error() != null) {
            return false;
        }
        if (peerEnded) {
            session.fail(AlccException.protocol("data after the end"));
        } else if (sequence != (position & 0xffffffffL)) {
            session.fail(AlccException.protocol("a sequence number out of order: " + sequence + " at position "
                + position));
        }
        return session.error() == null;
    }

    @Override
    public void data(long sequence, byte[] tag, int payload) {
        if (!isExpected(sequence)) {
            return;
        }
        int overhead = tag.length == 0 ? 8 : 9 + tag.length;
        if (payload > 0 && position + overhead + payload > edge) {
            session.fail(AlccException.protocol("more data than was permitted"));
            return;
        }
        position += overhead;
    }

    @Override
    public void payload(ByteBuffer piece) {
        if (session.error() != null) {
            return;
        }
        position += piece.remaining();
        received += piece.remaining();
        unread.put(piece);
    }

    @Override
    public void ack(Ack ack) {
        if (session.error() == null) {
            session.acknowledged(heard, at, now, ack);
        }
    }

    @Override
    public void report(byte[] report) { }

    @Override
    public void close(long sequence, int reason, String text, int length) {
        if (session.error() != null) {
            return;
        }
        if (reason != 0) {
            session.fail(AlccException.closed(reason, text));
        } else if (isExpected(sequence)) {
            position += length;
            peerEnded = true;
            ackDue = now;
        }
    }

    @Override
    public void ping(byte[] octets) {
        pong = octets;
    }

    @Override
    public void pong(byte[] octets) { }

    @Override
    public void unknown(int type) { }
}
