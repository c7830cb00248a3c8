// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLSocket;

/**
 * A connected socket with acknowledgements of our own inside, read and written like any stream. Both ends need one.
 *
 * <pre>{@code
 * try (Connection c = Connection.connect(new Socket(host, 9700), new Settings(new Mdi()))) {
 *     c.getOutputStream().write(bytes);     // waits while the algorithm holds back
 *     c.finish(30000);                      // every byte, and the end, is acknowledged
 * }
 * }</pre>
 *
 * <p>The thread that writes makes the frames and gives them to the socket. One more thread per connection reads the
 * socket always, as the format asks, and writes acknowledgements. Any socket does, an {@code SSLSocket} too. It belongs
 * to the connection from then on: nobody else may read it, write it or set its timeout. Reading and writing may be done
 * by two threads at once. Calls throw an {@link AlccException} that tells why the connection ended.
 */
public final class Connection implements Closeable {
    /** Frames of one write to the socket, bytes. */
    private static final int OUTPUT = 64 * 1024 + Session.LEAST_OUTPUT;
    private static final int INPUT = 64 * 1024;
    /** Who sends so much within so many nanoseconds streams: pauses let a reading bring more. */
    private static final int BULK = 16 * 1024;
    private static final long BULK_OVER = 10_000_000;
    private static final byte[] NOTHING = new byte[0];
    private static final long NEVER = Long.MAX_VALUE;

    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;
    private final Session session;
    private final ReentrantLock lock = new ReentrantLock();
    /** Somebody waits for payload, or for room, an acknowledgement or the socket. */
    private final Condition readable = lock.newCondition();
    private final Condition writable = lock.newCondition();
    /** Somebody waits until nobody is busy. */
    private final Condition free = lock.newCondition();
    /** The helper waits for something to say. */
    private final Condition wanted = lock.newCondition();
    /** One write of the application after the other. */
    private final Object turn = new Object();
    private final ByteBuffer frames = ByteBuffer.allocate(OUTPUT);
    private final int sendBuffer;
    private final long silence;
    private final long handshake;
    /** A thread writes to the socket, without the lock. It looks for answers before it leaves. */
    private boolean busy;
    private boolean closed;
    /** The socket is closed. */
    private boolean over;
    private boolean hasHelper;
    private final Input input = new Input();
    private final Output output = new Output();

    /**
     * The end that opened the connection: it speaks first.
     *
     * @param socket connected
     * @param settings for this connection alone
     * @return the connection; data may be written before the peer has answered
     * @throws AlccException STREAM if the socket cannot be used
     */
    public static Connection connect(Socket socket, Settings settings) throws AlccException {
        return new Connection(socket, settings, true);
    }

    /**
     * The end that accepted it: it is silent until the other has spoken.
     *
     * @param socket connected
     * @param settings for this connection alone
     * @return the connection
     * @throws AlccException STREAM if the socket cannot be used
     */
    public static Connection accept(Socket socket, Settings settings) throws AlccException {
        return new Connection(socket, settings, false);
    }

    private Connection(Socket socket, Settings settings, boolean opener) throws AlccException {
        this.socket = socket;
        silence = settings.silence;
        handshake = settings.handshake;
        if (settings.segment == Settings.UNKNOWN) {
            settings.segment(segment(socket));
        }
        session = new Session(opener, now(), settings);
        try {
            // Acknowledgements must not wait for Nagle.
            socket.setTcpNoDelay(true);
            socket.setKeepAlive(true);
            if (socket instanceof SSLSocket) {
                socket.setSoTimeout((int) (settings.handshake / 1_000_000));
                ((SSLSocket) socket).startHandshake();
            }
            socket.setSoTimeout((int) Math.max(Math.min(handshake, silence) / 4_000_000, 1));
            sendBuffer = socket.getSendBufferSize();
            in = socket.getInputStream();
            out = socket.getOutputStream();
        } catch (IOException e) {
            throw AlccException.stream(e);
        }
        Thread reader = new Thread(new Reader(), "alcc-reader");
        reader.setDaemon(true);
        reader.start();
        lock.lock();
        try {
            answer();
        } finally {
            lock.unlock();
        }
    }

    /** Bytes of frames that fill a segment. */
    static int segment(Socket socket) {
        boolean loopback = socket.getInetAddress() != null && socket.getInetAddress().isLoopbackAddress();
        return loopback ? 32_768 : 1448;
    }

    static long now() {
        return System.nanoTime() & Long.MAX_VALUE;
    }

    private void check() throws AlccException {
        if (session.error() != null) {
            throw session.error().again();
        }
        if (closed) {
            throw new AlccException(AlccException.Kind.GIVEN_UP, "the connection was closed at this end");
        }
    }

    /** Lock held: waits until then, or until somebody has a reason. */
    private void await(Condition condition, long until) throws AlccException {
        long left = until - now();
        if (left <= 0) {
            return;
        }
        try {
            condition.awaitNanos(left);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            session.abort();
            answer();
        }
    }

    /** Lock held and busy: gives the frames to the socket meanwhile without the lock. */
    private void push() {
        lock.unlock();
        IOException failure = null;
        try {
            out.write(frames.array(), 0, frames.limit());
        } catch (IOException e) {
            failure = e;
        } finally {
            lock.lock();
        }
        if (failure != null) {
            session.failed(failure);
        }
    }

    /** Lock held: writes what is due and no data of the application's. Who is busy does it later. */
    private void answer() {
        if (busy) {
            return;
        }
        busy = true;
        leave();
    }

    /**
     * Lock held, and must not wait for the socket: it might be full, and the peer that would empty it might wait for
     * this thread to read. So a helper writes, unless what is unacknowledged cannot have filled the socket.
     */
    private void answerWithoutWaiting() {
        if (busy || session.inFlight() <= sendBuffer / 4) {
            answer();
        } else if (session.hasAnswer(now())) {
            if (!hasHelper) {
                hasHelper = true;
                Thread helper = new Thread(new Helper(), "alcc-helper");
                helper.setDaemon(true);
                helper.start();
            }
            wanted.signal();
        }
    }

    /** Lock held and busy: no more so, once nothing is due. */
    private void leave() {
        while (!closed) {
            frames.clear();
            session.output(now(), NOTHING, 0, 0, frames);
            frames.flip();
            if (!frames.hasRemaining()) {
                break;
            }
            push();
        }
        busy = false;
        free.signalAll();
    }

    /** Lock held: waits for room or time. Who is busy does what is due meanwhile. */
    private void sleep(long until) throws AlccException {
        if (busy) {
            await(free, Math.min(until, session.deadline()));
        } else {
            await(writable, Math.min(until, session.nextTimer()));
        }
    }

    private void write(byte[] from, int offset, int length) throws AlccException {
        int at = offset;
        int left = length;
        lock.lock();
        try {
            while (left > 0) {
                check();
                if (session.isEnding()) {
                    throw new AlccException(AlccException.Kind.GIVEN_UP, "written after the end");
                }
                long now = now();
                session.timer(now);
                boolean any = false;
                if (!busy && session.error() == null) {
                    frames.clear();
                    int taken = session.output(now, from, at, left, frames);
                    at += taken;
                    left -= taken;
                    frames.flip();
                    any = frames.hasRemaining();
                }
                if (any) {
                    busy = true;
                    push();
                    leave();
                } else if (session.error() == null) {
                    sleep(NEVER);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private int read(byte[] into, int offset, int length) throws AlccException {
        if (length == 0) {
            return 0;
        }
        lock.lock();
        try {
            while (session.unread() == 0) {
                if (session.isAtEnd()) {
                    return -1;
                }
                check();
                await(readable, session.deadline());
                session.timer(now());
            }
            int n = session.read(now(), into, offset, length);
            if (session.ackDue() <= now()) {
                answer();
            }
            return n;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Ends the data of this direction, and waits until all of it is acknowledged. The other direction goes on.
     *
     * @param millis at most this long
     * @return true if it is acknowledged; false if the time is over, then it may be called again
     * @throws AlccException what ended the connection before
     */
    public boolean finish(long millis) throws AlccException {
        long until = now() + TimeUnit.MILLISECONDS.toNanos(millis);
        lock.lock();
        try {
            session.end();
            while (!session.isFinished()) {
                check();
                long now = now();
                session.timer(now);
                answer();
                if (now >= until) {
                    return false;
                }
                if (!session.isFinished() && session.error() == null) {
                    sleep(until);
                }
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    /**
     * What the peer sends. Reading waits for data; -1 is the end that the peer has said. Closing it closes the
     * connection.
     *
     * @return always the same
     */
    public InputStream getInputStream() {
        return input;
    }

    /**
     * What is sent to the peer. Each write waits until the algorithm, the peer's credit and the socket have taken all
     * of it, and leaves at once: write in blocks of some kilobytes. Closing it closes the connection.
     *
     * @return always the same
     */
    public OutputStream getOutputStream() {
        return output;
    }

    /** @return what the connection did and knows by now */
    public Stats stats() {
        lock.lock();
        try {
            return session.stats();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Lets go: what is not acknowledged may be lost, so call {@link #finish} before. The peer is told, as far as that
     * does not have to wait. Calls that wait end with GIVEN_UP.
     */
    @Override
    public void close() {
        lock.lock();
        try {
            if (closed) {
                return;
            }
            session.letGo();
            // What the socket may not take at once is not said: the peer then finds the stream cut.
            if (!busy && session.inFlight() <= sendBuffer / 4) {
                frames.clear();
                session.output(now(), NOTHING, 0, 0, frames);
                frames.flip();
                if (frames.hasRemaining()) {
                    out.write(frames.array(), 0, frames.limit());
                }
                socket.shutdownOutput();
            }
        } catch (IOException e) {
            session.failed(e);
        } catch (UnsupportedOperationException e) {
            // TLS sockets of old versions end only as a whole.
        } finally {
            closed = true;
            shut();
            lock.unlock();
        }
    }

    /** Lock held: nobody waits any more. */
    private void shut() {
        over = true;
        wanted.signalAll();
        readable.signalAll();
        writable.signalAll();
        try {
            socket.close();
        } catch (IOException e) {
            // It is gone either way.
        }
    }

    /** Reads the socket, whatever the application does. */
    private final class Reader implements Runnable {
        private final byte[] bytes = new byte[INPUT];
        private boolean isOpen;
        private int timeout;
        /** What has come since then, and whether as much came before. */
        private long counted;
        private long count;
        private boolean streams;

        @Override
        public void run() {
            long since = now();
            while (true) {
                int n;
                IOException failure = null;
                try {
                    n = in.read(bytes);
                } catch (SocketTimeoutException e) {
                    n = 0;
                } catch (IOException e) {
                    n = -1;
                    failure = e;
                }
                long pause = take(n, failure, since);
                if (pause < 0) {
                    return;
                }
                since = now();
                try {
                    if (pause > 0 && (isStream(n, since) || socket instanceof SSLSocket)) {
                        rest(since + pause);
                        look(patience());
                    } else {
                        look(pause > 0 ? pause : patience());
                    }
                } catch (IOException e) {
                    // The next reading says the same.
                }
            }
        }

        /** A conversation is not paused for, and begins with less. */
        private boolean isStream(int n, long now) {
            long over = now - counted;
            if (over > BULK_OVER) {
                streams = count >= BULK && over < 4 * BULK_OVER;
                counted = now;
                count = 0;
            }
            count += Math.max(n, 0);
            return streams || n >= BULK;
        }

        /** The reader looks at the clock four times within what a silent peer is granted. */
        private long patience() {
            return (isOpen ? silence : Math.min(silence, handshake)) / 4;
        }

        /** Reading waits no longer than this, nanoseconds. */
        private void look(long wait) throws IOException {
            int millis = (int) Math.max((wait + 999_999) / 1_000_000, 1);
            if (millis != timeout) {
                timeout = millis;
                socket.setSoTimeout(millis);
            }
        }

        /** What was read goes into the session. Returns how long to wait before the next reading; negative: over. */
        private long take(int n, IOException failure, long since) {
            lock.lock();
            try {
                if (closed) {
                    return -1;
                }
                long now = now();
                if (n > 0) {
                    session.received(since, now, now, ByteBuffer.wrap(bytes, 0, n));
                } else if (failure != null) {
                    session.failed(failure);
                } else if (n < 0) {
                    session.ended();
                }
                session.timer(now);
                if (session.inFlight() > 0) {
                    // A pause would blur one's own round trips.
                    session.acknowledge(now);
                }
                answerWithoutWaiting();
                if (session.unread() > 0 || session.isAtEnd() || session.error() != null) {
                    readable.signal();
                }
                if (session.isWritable()) {
                    writable.signalAll();
                }
                if (n < 0 || session.error() != null) {
                    readable.signalAll();
                    writable.signalAll();
                    fall();
                    return -1;
                }
                isOpen = session.isOpen();
                long due = session.ackDue();
                return due == NEVER ? 0 : Math.max(due - now, 0);
            } finally {
                lock.unlock();
            }
        }

        /** An error ends the socket. Who is busy may say the reason first, if it does not take long. */
        private void fall() {
            long left = 500_000_000;
            try {
                while (busy && session.error() != null && left > 0) {
                    left = free.awaitNanos(left);
                }
            } catch (InterruptedException e) {
                // Nobody interrupts this thread but to end it.
            }
            if (session.error() != null) {
                shut();
            }
        }

        /** What comes meanwhile is read and acknowledged as one. */
        private void rest(long until) {
            for (long left = until - now(); left > 0; left = until - now()) {
                LockSupport.parkNanos(left);
            }
            lock.lock();
            try {
                if (!closed && session.ackDue() <= now()) {
                    answerWithoutWaiting();
                }
            } finally {
                lock.unlock();
            }
        }
    }

    /** Writes answers where the reader might have to wait. */
    private final class Helper implements Runnable {
        @Override
        public void run() {
            lock.lock();
            try {
                while (!over) {
                    if (busy || !session.hasAnswer(now())) {
                        wanted.awaitUninterruptibly();
                    } else {
                        answer();
                    }
                }
            } finally {
                lock.unlock();
            }
        }
    }

    private final class Input extends InputStream {
        private final byte[] one = new byte[1];

        @Override
        public int read() throws IOException {
            return Connection.this.read(one, 0, 1) < 0 ? -1 : one[0] & 255;
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            range(into, offset, length);
            return Connection.this.read(into, offset, length);
        }

        @Override
        public int available() {
            lock.lock();
            try {
                return session.unread();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void close() {
            Connection.this.close();
        }
    }

    private final class Output extends OutputStream {
        @Override
        public void write(int octet) throws IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] from, int offset, int length) throws IOException {
            range(from, offset, length);
            synchronized (turn) {
                Connection.this.write(from, offset, length);
            }
        }

        @Override
        public void close() {
            Connection.this.close();
        }
    }

    private static void range(byte[] array, int offset, int length) {
        if (offset < 0 || length < 0 || length > array.length - offset) {
            throw new IndexOutOfBoundsException(length + " bytes from " + offset + " of an array of " + array.length);
        }
    }
}
