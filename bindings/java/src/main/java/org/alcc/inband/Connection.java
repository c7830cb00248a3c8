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
 * A connected socket with in-band acknowledgements, read and written like any stream. Both ends need one.
 *
 * <pre>{@code
 * try (Connection c = Connection.connect(new Socket(host, 9700), new Settings(new Mdi()))) {
 *     c.getOutputStream().write(bytes);     // waits while the algorithm holds back
 *     c.finish(30000);                      // every byte, and the end, is acknowledged
 * }
 * }</pre>
 *
 * <p>The thread that writes makes the frames and gives them to the socket. One more thread per connection always reads
 * the socket, as the format requires. It also writes acknowledgements. While much is in flight, a waiting writer reads
 * them instead. Any socket can be used, also an {@code SSLSocket}. From then on, only the connection may read it, write
 * it or set its timeout. One thread may read while another one writes. Calls throw an {@link AlccException} with the
 * reason why the connection ended.
 */
public final class Connection implements Closeable {
    /** Frames of one write to the socket, bytes. */
    private static final int OUTPUT = 64 * 1024 + Session.LEAST_OUTPUT;
    private static final int INPUT = 64 * 1024;
    /** A writer that reads looks up after this. Each time-out costs an exception. */
    private static final long MAX_LEAD = 20_000_000;
    /**
     * Time without a read after which the reader thread takes over; earlier if a call waits for data, or writers stop.
     */
    private static final long MAX_UNREAD = 250_000_000;
    private static final long MAX_UNREAD_WANTED = 20_000_000;
    private static final byte[] NOTHING = new byte[0];
    private static final long NEVER = Long.MAX_VALUE;

    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;
    private final Session session;
    private final ReentrantLock lock = new ReentrantLock();
    /** A call waits for payload, or for room, an acknowledgement or the socket. */
    private final Condition readable = lock.newCondition();
    private final Condition writable = lock.newCondition();
    /** A call waits until no other is busy. */
    private final Condition free = lock.newCondition();
    /** The reader waits for others to read no more. */
    private final Condition idle = lock.newCondition();
    /** The helper waits for something to say. */
    private final Condition wanted = lock.newCondition();
    private final ByteBuffer frames = ByteBuffer.allocate(OUTPUT);
    private final int sendBuffer;
    private final long silence;
    private final long handshake;
    /** A thread writes to the socket, without the lock. It looks for answers before it leaves. */
    private boolean busy;
    /** A thread reads the socket, without the lock. */
    private boolean reading;
    private boolean readerWaits;
    /** Threads that wait for data of the peer's. */
    private int wanting;
    private long readAt;
    /** Acknowledgements come all the time: a writer that waits reads them itself, each so often. */
    private boolean streamsOut;
    private long readInterval;
    /** Timeout of reads, milliseconds. */
    private int timeout;
    private boolean closed;
    /** The socket is closed. */
    private boolean over;
    /** True if progress is required while a call waits. */
    private boolean expectsProgress;
    /** Calls of the application that wait. */
    private int calls;
    /** Progress at the last check, and the time since which it is unchanged or the first of these calls waits. */
    private long moved;
    private long movedAt;
    private boolean hasHelper;
    /** Buffer of the reading thread. */
    private final byte[] read = new byte[INPUT];
    private final InputStream input = new Streams.Input(this);
    private final OutputStream output = new Streams.Output(this);

    /**
     * A connection at the end that opened the socket: it sends first.
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
     * A connection at the end that accepted the socket: it sends nothing until the peer has.
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
            settings.segment(Settings.segment(socket));
        }
        session = new Session(opener, now(), settings);
        try {
            // Acknowledgements must not wait for Nagle.
            socket.setTcpNoDelay(true);
            socket.setKeepAlive(true);
            if (socket instanceof SSLSocket) {
                new Handshake((SSLSocket) socket, handshake).run();
            }
            socket.setSoTimeout((int) Math.max(Math.min(handshake, silence) / 4_000_000, 1));
            sendBuffer = socket.getSendBufferSize();
            in = socket.getInputStream();
            out = socket.getOutputStream();
        } catch (AlccException e) {
            throw e;
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

    static long now() {
        return System.nanoTime() & Long.MAX_VALUE;
    }

    /**
     * Requires progress whenever a call waits: if no payload arrives and nothing is acknowledged for
     * {@link Settings#silence}, the connection ends with SILENT. Without this call, a peer may be idle or give no
     * credit for ever. {@code Transfer} and {@code Resuming} call this.
     */
    public void expectProgress() {
        lock.lock();
        expectsProgress = true;
        lock.unlock();
    }

    /** Lock held: a call of the application begins, which may wait. */
    private void enter() {
        if (calls++ == 0) {
            movedAt = now();
        }
    }

    /**
     * Lock held: ends it if a call has waited too long. The reader checks this, because a writer may wait in the
     * socket.
     */
    private void checkProgress(long now) {
        long progress = session.progress();
        if (progress != moved || calls == 0) {
            moved = progress;
            movedAt = now;
        } else if (expectsProgress && now - movedAt >= silence) {
            session.stalled(now - movedAt);
        }
    }

    private void check() throws AlccException {
        if (session.error() != null) {
            throw session.error().again();
        }
        if (closed) {
            throw new AlccException(AlccException.Kind.GIVEN_UP, "the connection was closed at this end");
        }
    }

    /** Lock held: waits until then, or until a notification. */
    private void await(Condition condition, long until) throws AlccException {
        long remaining = until - now();
        if (remaining <= 0) {
            return;
        }
        try {
            condition.awaitNanos(remaining);
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
            long then = Math.min(until, session.nextTimer());
            if (isLed()) {
                await(writable, Math.min(then, readAt + readInterval));
                lead(then);
            } else {
                await(writable, then);
            }
        }
    }

    void write(byte[] from, int offset, int length) throws AlccException {
        int at = offset;
        int remaining = length;
        lock.lock();
        try {
            enter();
            while (remaining > 0) {
                check();
                if (session.isEnding()) {
                    throw new AlccException(AlccException.Kind.GIVEN_UP, "written after the end");
                }
                long now = now();
                session.timer(now);
                boolean any = false;
                if (!busy && session.error() == null) {
                    frames.clear();
                    int taken = session.output(now, from, at, remaining, frames);
                    at += taken;
                    remaining -= taken;
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
            calls--;
            lock.unlock();
        }
    }

    int unread() {
        lock.lock();
        try {
            return session.unread();
        } finally {
            lock.unlock();
        }
    }

    int read(byte[] into, int offset, int length) throws AlccException {
        if (length == 0) {
            return 0;
        }
        lock.lock();
        try {
            enter();
            while (session.unread() == 0) {
                if (session.isAtEnd()) {
                    return -1;
                }
                check();
                wanting++;
                if (streamsOut) {
                    idle.signal();
                }
                try {
                    await(readable, session.deadline());
                } finally {
                    wanting--;
                }
                session.timer(now());
            }
            int n = session.read(now(), into, offset, length);
            if (session.ackDue() <= now()) {
                answer();
            }
            return n;
        } finally {
            calls--;
            lock.unlock();
        }
    }

    /**
     * Ends the data of this direction, and waits until all of it is acknowledged. The other direction continues.
     *
     * @param millis at most this long
     * @return true if it is acknowledged; false if the time is over, then it may be called again
     * @throws AlccException if the connection has ended before
     */
    public boolean finish(long millis) throws AlccException {
        long until = now() + TimeUnit.MILLISECONDS.toNanos(millis);
        lock.lock();
        try {
            enter();
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
            calls--;
            lock.unlock();
        }
    }

    /**
     * The stream of the peer's data. Reading waits for data; -1 is the end of the peer's data. Closing it closes the
     * connection.
     *
     * @return always the same stream
     */
    public InputStream getInputStream() {
        return input;
    }

    /**
     * The stream of data to the peer. Each write waits until the algorithm, the peer's credit and the socket have taken
     * all of it. Data are sent at once, so write in blocks of some kilobytes. Closing it closes the connection.
     *
     * @return always the same stream
     */
    public OutputStream getOutputStream() {
        return output;
    }

    /** @return counters and estimates at this instant */
    public Stats stats() {
        lock.lock();
        try {
            return session.stats();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Closes without waiting: unacknowledged data may be lost, so call {@link #finish} before. The peer is notified if
     * that does not have to wait. Calls that wait end with GIVEN_UP.
     */
    @Override
    public void close() {
        lock.lock();
        try {
            if (closed) {
                return;
            }
            letSay();
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

    /** Lock held: who is busy may say why it ends, if it does not take long. */
    private void letSay() {
        long remaining = 500_000_000;
        try {
            while (busy && session.error() != null && remaining > 0) {
                remaining = free.awaitNanos(remaining);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Lock held: wakes all waiting calls. */
    private void shut() {
        over = true;
        wanted.signalAll();
        idle.signalAll();
        readable.signalAll();
        writable.signalAll();
        try {
            socket.close();
        } catch (IOException e) {
            // It is gone either way.
        }
    }

    /**
     * Lock held: what was read goes into the session.
     *
     * @param heard acknowledgements in it may have come since then
     */
    private void take(int n, IOException failure, long since, long heard) {
        long now = now();
        // Read before these acknowledgements, which may cover everything in flight.
        boolean upload = session.isUpload(now);
        if (n > 0) {
            session.received(since, heard, now, now, ByteBuffer.wrap(read, 0, n));
        } else if (failure != null) {
            session.failed(failure);
        } else if (n < 0) {
            session.ended();
        }
        session.timer(now);
        checkProgress(now);
        if (session.inFlight() > 0) {
            // A pause would blur one's own round trips.
            session.acknowledge(now);
        }
        readAt = now;
        boolean led = streamsOut;
        // Data that has just come would else leave the reading to a writer that may wait in the socket.
        streamsOut = (upload || session.isUpload(now)) && session.isQuiet(now) && session.isOpen()
            && !(socket instanceof SSLSocket);
        readInterval = streamsOut ? session.readInterval() : 0;
        if (led && !streamsOut) {
            idle.signal();
        }
    }

    /** Lock held, called after the answers, because a caller that gets an error may close the connection. */
    private void tell() {
        if (session.unread() > 0 || session.isAtEnd()) {
            readable.signal();
        }
        if (session.isWritable()) {
            writable.signalAll();
        }
        if (session.error() != null) {
            readable.signalAll();
        }
    }

    /** Lock held: who waits to write may read. That saves to wake two threads for each acknowledgement. */
    private boolean isLed() {
        return streamsOut && !reading && !closed;
    }

    /** Lock held: reads, and waits for that no longer than until then. */
    private void lead(long until) {
        long now = now();
        if (!isLed() || until <= now || now < readAt + readInterval) {
            return;
        }
        reading = true;
        long rested = readAt;
        lock.unlock();
        int n = 0;
        boolean late = false;
        IOException failure = null;
        try {
            late = in.available() > 0;
            look(Math.min(until - now, MAX_LEAD));
            n = in.read(read);
        } catch (SocketTimeoutException e) {
            n = 0;
        } catch (IOException e) {
            failure = e;
        } finally {
            lock.lock();
            reading = false;
            if (readerWaits) {
                idle.signal();
            }
        }
        if (!closed && session.error() == null) {
            now = now();
            take(n, failure, rested, late ? rested : now);
            // Who wakes for a pause and again for what comes after it gains nothing.
            if (!late && now - rested > readInterval / 4 * 3) {
                readInterval = 0;
            }
            answer();
            tell();
        }
    }

    /** Reading waits no longer than this, nanoseconds. */
    private void look(long wait) throws IOException {
        int millis = (int) Math.max((wait + 999_999) / 1_000_000, 1);
        if (millis != timeout) {
            timeout = millis;
            socket.setSoTimeout(millis);
        }
    }

    /** Reads the socket, whatever the application does. */
    private final class Reader implements Runnable {
        private boolean isOpen;
        private final Bulk bulk = new Bulk();

        @Override
        public void run() {
            long since = now();
            long wait = patience();
            boolean rested = false;
            while (begin()) {
                int n;
                IOException failure = null;
                boolean late = false;
                try {
                    late = rested && in.available() > 0;
                    look(wait);
                    n = in.read(read);
                } catch (SocketTimeoutException e) {
                    n = 0;
                } catch (IOException e) {
                    n = -1;
                    failure = e;
                }
                long pause = end(n, failure, since, late);
                if (pause < 0) {
                    return;
                }
                since = now();
                wait = patience();
                if (pause > 0 && (bulk.isStream(n, since) || socket instanceof SSLSocket)) {
                    rest(since + pause);
                } else if (pause > 0) {
                    wait = pause;
                }
                rested = leaveItToWriters();
            }
        }

        /** Reading is this thread's, now. False: nothing is left to be read. */
        private boolean begin() {
            lock.lock();
            try {
                readerWaits = true;
                while (reading && !closed) {
                    idle.awaitUninterruptibly();
                }
                readerWaits = false;
                if (closed || session.error() != null) {
                    fall();
                    return false;
                }
                reading = true;
                return true;
            } finally {
                lock.unlock();
            }
        }

        /** As long as a writer reads often enough. True if it was at all. */
        private boolean leaveItToWriters() {
            boolean any = false;
            lock.lock();
            try {
                while (!closed && streamsOut && session.error() == null) {
                    long remaining = readAt + (wanting > 0 ? MAX_UNREAD_WANTED : MAX_UNREAD) - now();
                    if (remaining <= 0) {
                        break;
                    }
                    any = true;
                    idle.awaitNanos(remaining);
                }
            } catch (InterruptedException e) {
                // Nobody interrupts this thread but to end it.
            } finally {
                lock.unlock();
            }
            return any;
        }

        /** The reader looks at the clock four times within what a silent peer is granted. */
        private long patience() {
            return (isOpen ? silence : Math.min(silence, handshake)) / 4;
        }

        /** Returns how long to wait before the next reading; negative: over. */
        private long end(int n, IOException failure, long since, boolean late) {
            lock.lock();
            try {
                reading = false;
                if (closed) {
                    return -1;
                }
                take(n, failure, since, late ? readAt : now());
                answerWithoutWaiting();
                tell();
                if (n < 0 || session.error() != null) {
                    fall();
                    return -1;
                }
                isOpen = session.isOpen();
                long due = session.ackDue();
                return due == NEVER ? 0 : Math.max(due - now(), 0);
            } finally {
                lock.unlock();
            }
        }

        /** An error ends the socket. */
        private void fall() {
            letSay();
            if (session.error() != null) {
                shut();
            }
        }

        /** Waits, so that everything that arrives meanwhile is read and acknowledged as one. */
        private void rest(long until) {
            for (long remaining = until - now(); remaining > 0; remaining = until - now()) {
                LockSupport.parkNanos(remaining);
            }
            try {
                if (in.available() > 0) {
                    // It is acknowledged with what came before, as soon as it is read.
                    return;
                }
            } catch (IOException e) {
                // Reading says it again.
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
}
