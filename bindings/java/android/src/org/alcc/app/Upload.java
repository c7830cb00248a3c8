// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import org.alcc.cc.Controller;
import org.alcc.inband.Connection;
import org.alcc.inband.Settings;
import org.alcc.inband.Stats;
import org.alcc.transfer.Resuming;

/**
 * One file on its way to one server, through pauses, lost connections and other networks. Knows nothing of Android, so
 * that plain tests drive it. Safe for several threads; no call waits for the network.
 */
final class Upload {
    enum State {
        /** It was not begun. */
        READY,
        /** Bytes are on their way. */
        SENDING,
        /** There is no connection; a new one is tried. */
        WAITING,
        PAUSED,
        /** The receiver has everything, and its hash is right. */
        DONE,
        FAILED
    }

    /** Limit of a pause: a receiver keeps its data for an hour, so a longer pause is an error. */
    private static final long PATIENCE_MS = 600_000;
    private static final int CONNECT_MS = 10_000;
    private static final long SAMPLE_MS = 250;
    private static final int SAMPLES = 2400;

    private final Job job;
    private final long size;
    private final Resuming resuming;
    private final Curve curve = new Curve(SAMPLES);
    private State state = State.READY;
    private String problem = "";
    /** The sending thread; if it is another one, this thread must end. */
    private Thread worker;
    private Thread sampler;
    private Socket socket;
    private Connection connection;
    /** Bytes that the receiver had when the connection began. */
    private long before;
    private long acked;
    private int connections;
    private long began;

    /**
     * @param source the file's content from its beginning, for each connection
     * @param session 16 random bytes, stored if the upload should be resumable after the end of the program
     * @param known whether the session may have sent something before
     */
    Upload(Job job, Resuming.Source source, long size, byte[] session, boolean known) {
        this.job = job;
        this.size = size;
        resuming = new Resuming(new Opener(), source, size, session, known);
    }

    /** Begins, or resumes after a pause or a failure. */
    synchronized void start() {
        if (state == State.READY || state == State.PAUSED || state == State.FAILED) {
            if (began == 0) {
                began = System.nanoTime();
            }
            problem = "";
            state = State.WAITING;
            launch(worker);
            if (sampler == null) {
                sampler = thread(new Sampler(), "alcc-samples");
            }
        }
    }

    /** Pauses; the receiver keeps its data. */
    synchronized void pause() {
        if (state == State.SENDING || state == State.WAITING) {
            state = State.PAUSED;
            stop();
        }
    }

    /** The old network is gone, or a better one is available: resumes over a new connection at once. */
    synchronized void networkChanged() {
        if (state == State.SENDING || state == State.WAITING) {
            Thread old = worker;
            stop();
            state = State.WAITING;
            launch(old);
        }
    }

    private static Thread thread(Runnable what, String name) {
        Thread thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void launch(Thread old) {
        Worker next = new Worker(old);
        worker = new Thread(next, "alcc-upload");
        worker.setDaemon(true);
        worker.start();
    }

    /** Ends the worker and its waits. */
    private void stop() {
        worker.interrupt();
        if (connection != null) {
            // Closing may have to wait for a lock; the caller must not.
            final Connection closing = connection;
            connection = null;
            thread(new Runnable() {
                @Override public void run() {
                    closing.close();
                }
            }, "alcc-close");
        }
        if (socket != null) {
            try {
                socket.close();
            } catch (IOException e) {
                // It is gone either way.
            }
            socket = null;
        }
    }

    synchronized State state() {
        return state;
    }

    /** Reason of the failure or of the missing connection; empty if there is none. */
    synchronized String problem() {
        return problem;
    }

    /** Bytes of the file that the receiver has. */
    synchronized long acknowledged() {
        measure();
        return state == State.DONE ? size : acked;
    }

    long size() {
        return size;
    }

    Job job() {
        return job;
    }

    Curve curve() {
        return curve;
    }

    /** Number of connections that have been opened. */
    synchronized int connections() {
        return connections;
    }

    /** True while a thread of it may do something. */
    synchronized boolean isBusy() {
        return state == State.SENDING || state == State.WAITING;
    }

    private Stats measure() {
        if (connection == null) {
            return null;
        }
        Stats stats = connection.stats();
        acked = Math.min(Math.max(acked, before + stats.sent() - stats.inFlight()), size);
        return stats;
    }

    private synchronized void sample() {
        Stats stats = measure();
        long millis = (System.nanoTime() - began) / 1_000_000;
        if (stats == null) {
            curve.add(millis, state == State.DONE ? size : acked, 0, 0, -1, 0);
        } else {
            long window = stats.window() == Controller.NONE ? -1 : stats.window();
            curve.add(millis, acked, stats.latestRtt() / 1000, stats.smallestRtt() / 1000, window, stats.inFlight());
        }
    }

    private synchronized void ended(IOException why) {
        if (worker != Thread.currentThread()) {
            return;
        }
        connection = null;
        socket = null;
        if (why == null) {
            state = State.DONE;
        } else if (state != State.PAUSED) {
            state = State.FAILED;
            problem = String.valueOf(why.getMessage());
        }
    }

    /** For the user: something went wrong that another connection may mend. */
    private synchronized void trouble(IOException why) {
        if (worker == Thread.currentThread() && state == State.WAITING) {
            problem = String.valueOf(why.getMessage());
        }
    }

    private final class Worker implements Runnable {
        private final Thread old;

        Worker(Thread old) {
            this.old = old;
        }

        @Override
        public void run() {
            IOException why = null;
            try {
                if (old != null) {
                    old.join();
                }
                resuming.send(PATIENCE_MS);
            } catch (InterruptedException e) {
                why = new InterruptedIOException("interrupted");
            } catch (IOException e) {
                why = e;
            } catch (RuntimeException e) {
                // A revoked permission for the file, for example: it is said, and the app lives.
                why = new IOException(e.getClass().getSimpleName() + ": " + e.getMessage(), e);
            }
            ended(why);
        }
    }

    private final class Opener implements Resuming.Opener {
        @Override
        public Connection open() throws IOException {
            Socket fresh = new Socket();
            synchronized (Upload.this) {
                if (worker != Thread.currentThread() || state == State.PAUSED) {
                    throw new InterruptedIOException("paused");
                }
                state = State.WAITING;
                socket = fresh;
                connection = null;
            }
            Connection open = null;
            try {
                fresh.connect(new InetSocketAddress(InetAddress.getByName(job.host), job.port), CONNECT_MS);
                open = Connection.connect(fresh, new Settings(job.controller()));
            } catch (IOException e) {
                fresh.close();
                trouble(e);
                throw e;
            }
            synchronized (Upload.this) {
                if (worker != Thread.currentThread() || state == State.PAUSED) {
                    open.close();
                    throw new InterruptedIOException("paused");
                }
                connections++;
                connection = open;
                socket = null;
                before = resuming.has();
                problem = "";
                state = State.SENDING;
            }
            return open;
        }
    }

    private final class Sampler implements Runnable {
        @Override
        public void run() {
            try {
                do {
                    if (isBusy()) {
                        sample();
                    }
                    Thread.sleep(SAMPLE_MS);
                } while (goesOn());
            } catch (InterruptedException e) {
                // Nobody interrupts it but to end it.
            }
        }

        private boolean goesOn() {
            synchronized (Upload.this) {
                if (state == State.SENDING || state == State.WAITING) {
                    return true;
                }
                sample();
                sampler = null;
                return false;
            }
        }
    }
}
