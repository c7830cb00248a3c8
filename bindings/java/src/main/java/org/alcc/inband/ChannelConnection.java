// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;

/**
 * A connected channel that never waits, with in-band acknowledgements: for a program with a selector.
 *
 * <pre>{@code
 * key.interestOps(c.interestOps());
 * selector.select(c.timeoutMillis());     // 0: no timer, as the selector understands it
 * c.run();                                // reads, runs timers, writes
 * c.read(into); c.write(from);            // what may be done now
 * }</pre>
 *
 * <p>It has no thread and no lock: use it from one thread at a time. Calls throw an {@link AlccException} with the
 * reason why the connection ended; data received before that can be read first.
 */
public final class ChannelConnection implements Closeable {
    private static final int OUTPUT = 64 * 1024 + Session.LEAST_OUTPUT;
    /** Bytes that one call reads at most, so that other channels have their turn. */
    private static final int MAX_READ = 512 * 1024;

    private final SocketChannel channel;
    private final Session session;
    private final ByteBuffer in = ByteBuffer.allocate(64 * 1024);
    /** Frames that the channel has yet to take, from position to limit. */
    private final ByteBuffer out = ByteBuffer.allocate(OUTPUT);
    private long readAt;
    private boolean inputOver;

    /**
     * One end.
     *
     * @param channel connected; is made non-blocking
     * @param opener true: this end opened the connection and speaks first
     * @param settings for this connection alone
     * @throws AlccException STREAM if the channel cannot be used
     */
    public ChannelConnection(SocketChannel channel, boolean opener, Settings settings) throws AlccException {
        this.channel = channel;
        if (settings.segment == Settings.UNKNOWN) {
            settings.segment(Settings.segment(channel.socket()));
        }
        readAt = Connection.now();
        session = new Session(opener, readAt, settings);
        out.limit(0);
        try {
            channel.configureBlocking(false);
            channel.socket().setTcpNoDelay(true);
            channel.socket().setKeepAlive(true);
        } catch (IOException e) {
            throw AlccException.stream(e);
        }
    }

    private void check() throws AlccException {
        if (session.error() != null) {
            throw session.error().again();
        }
    }

    /**
     * Reads the channel, runs what is due and writes what is to be said. Call it when the channel is ready or
     * {@link #timeoutMillis} are over.
     */
    public void run() {
        receive();
        session.timer(Connection.now());
        pump(null);
        if (session.error() != null && !out.hasRemaining()) {
            shut();
        }
    }

    private void receive() {
        try {
            for (int all = 0; all < MAX_READ && session.error() == null && !inputOver;) {
                in.clear();
                int n = channel.read(in);
                long now = Connection.now();
                if (n < 0) {
                    inputOver = true;
                    session.ended();
                } else if (n > 0) {
                    in.flip();
                    session.received(readAt, now, now, in);
                    all += n;
                }
                readAt = now;
                if (n <= 0) {
                    return;
                }
            }
        } catch (IOException e) {
            inputOver = true;
            session.failed(e);
        }
    }

    /** Writes what is to be said, and data as far as the channel takes it. */
    private void pump(ByteBuffer from) {
        try {
            while (true) {
                if (out.hasRemaining() && channel.write(out) == 0) {
                    return;
                }
                if (out.hasRemaining()) {
                    continue;
                }
                out.clear();
                int n = from == null ? 0 : from.remaining();
                int taken;
                if (n > 0 && from.hasArray()) {
                    int at = from.arrayOffset() + from.position();
                    taken = session.output(Connection.now(), from.array(), at, n, out);
                    from.position(from.position() + taken);
                } else if (n > 0) {
                    byte[] copy = new byte[Math.min(n, OUTPUT)];
                    from.duplicate().get(copy);
                    taken = session.output(Connection.now(), copy, 0, copy.length, out);
                    from.position(from.position() + taken);
                } else {
                    session.output(Connection.now(), new byte[0], 0, 0, out);
                }
                out.flip();
                if (!out.hasRemaining()) {
                    return;
                }
            }
        } catch (IOException e) {
            out.limit(out.position());
            session.failed(e);
        }
    }

    /**
     * What to wait for.
     *
     * @return operations of a {@link SelectionKey}
     */
    public int interestOps() {
        int read = inputOver || session.error() != null ? 0 : SelectionKey.OP_READ;
        return out.hasRemaining() ? read | SelectionKey.OP_WRITE : read;
    }

    /**
     * How long to wait for it.
     *
     * @return milliseconds, at least 1; 0: until the channel is ready
     */
    public long timeoutMillis() {
        long next = session.nextTimer();
        if (session.error() != null) {
            return 1;
        }
        return next == Long.MAX_VALUE ? 0 : Math.max((next - Connection.now() + 999_999) / 1_000_000, 1);
    }

    /**
     * Sends as much as algorithm, credit and channel let go now.
     *
     * @param from its position moves behind what was taken
     * @return how many bytes were taken; 0: none may leave now
     * @throws AlccException what ended the connection
     */
    public int write(ByteBuffer from) throws AlccException {
        check();
        if (session.isEnding()) {
            throw new AlccException(AlccException.Kind.GIVEN_UP, "written after the end");
        }
        int before = from.remaining();
        pump(from);
        return before - from.remaining();
    }

    /**
     * Takes what has come. Call it until it says 0: what is left does not make the channel ready.
     *
     * @param into takes it
     * @return how many bytes; 0: nothing is there; -1: the peer has ended its direction
     * @throws AlccException what ended the connection, after all that came before it was read
     */
    public int read(ByteBuffer into) throws AlccException {
        byte[] some = new byte[Math.min(into.remaining(), session.unread())];
        int n = session.read(Connection.now(), some, 0, some.length);
        into.put(some, 0, n);
        if (n == 0 && session.unread() == 0) {
            if (session.isAtEnd()) {
                return -1;
            }
            check();
        }
        if (session.ackDue() <= Connection.now()) {
            pump(null);
        }
        return n;
    }

    /**
     * Ends the data of this direction. Call it again after {@link #run} until it says true.
     *
     * @return true when all of it, and the end, is acknowledged
     * @throws AlccException what ended the connection before
     */
    public boolean finish() throws AlccException {
        session.end();
        pump(null);
        if (!session.isFinished()) {
            check();
        }
        return session.isFinished();
    }

    /** @return what the connection did and knows by now */
    public Stats stats() {
        return session.stats();
    }

    /**
     * Closes without waiting: unacknowledged data may be lost. The peer is notified if the channel accepts it at once.
     */
    @Override
    public void close() {
        session.letGo();
        pump(null);
        shut();
    }

    private void shut() {
        inputOver = true;
        try {
            channel.close();
        } catch (IOException e) {
            // It is gone either way.
        }
    }
}
