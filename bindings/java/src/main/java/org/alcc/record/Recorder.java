// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.PortUnreachableException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * Records what a channel can carry in both directions, together with {@code alcc-lab trace record --listen}. Nothing is
 * encrypted. Saturating a fast channel for a minute takes some hundred megabytes.
 *
 * <p>{@link #record} is for one thread; the other methods are for any.
 */
public final class Recorder {
    /** Default port of the listener. */
    public static final int PORT = 9701;

    private static final long MS = 1_000_000;
    private static final int RETRY_MS = 250;
    private static final long MAX_SLEEP = 100 * MS;
    /** Time of "connection refused" without any packet after which the listener is regarded as ended. */
    private static final long MAX_REFUSED = 3000 * MS;
    private static final int RECEIVE_BUFFER = 4 << 20;
    private static final int DEFAULT_ROOM = 1 << 20;

    /** Times count from long ago: 0 means none in a packet, and no start is before it. */
    private final long origin = System.nanoTime() - 1_000_000 * MS;
    private final InetSocketAddress to;
    private final Plan plan;
    private final String label;
    private final int room;
    private final int patienceMs;
    private volatile boolean stopped;
    /** Guards the session. */
    private final Object lock = new Object();
    private Session session;
    private volatile boolean refused;

    /**
     * Keeps at most 1,048,576 arrivals (25 MB), and waits 5 s for the first answer.
     *
     * @param to address of the listener
     * @param plan what is to be recorded; for an IPv6 address its packets become as much shorter as the headers longer
     * @param label name of this client at the listener
     * @throws IllegalArgumentException if the plan is impossible
     */
    public Recorder(InetSocketAddress to, Plan plan, String label) {
        this(to, plan, label, DEFAULT_ROOM, 5000);
    }

    /**
     * A recording.
     *
     * @param to address of the listener
     * @param plan what is to be recorded; for an IPv6 address its packets become as much shorter as the headers longer
     * @param label name of this client at the listener
     * @param room maximum number of stored arrivals, of 24 bytes each; {@link Recorded#beyond} counts the others
     * @param patienceMs time to wait for the first answers, milliseconds
     * @throws IllegalArgumentException if the plan is impossible
     */
    public Recorder(InetSocketAddress to, Plan plan, String label, int room, int patienceMs) {
        this.to = to;
        this.plan = to.getAddress() instanceof Inet6Address && plan.overhead == 28 ? plan.overIpv6() : plan;
        this.label = label.replaceAll("\\p{Cntrl}", "_");
        this.room = room;
        this.patienceMs = patienceMs;
        String problem = this.plan.problem();
        if (problem != null) {
            throw new IllegalArgumentException(problem);
        }
    }

    private long now() {
        return System.nanoTime() - origin;
    }

    /** Ends it early: {@link #record} returns the part so far. */
    public void stop() {
        stopped = true;
    }

    /**
     * Finished part of warm-up and duration.
     *
     * @return 0 to 1; 1 while the listener's recording is fetched
     */
    public double progress() {
        synchronized (lock) {
            return session == null ? 0 : session.part(now());
        }
    }

    /**
     * Rate of received packets in the last second.
     *
     * @return bit/s with headers
     */
    public long rate() {
        synchronized (lock) {
            return session == null ? 0 : session.rate();
        }
    }

    /**
     * Records: it takes warm-up, duration and some seconds. At worst it ends a minute after the planned end.
     *
     * @return the recording, complete or not: see {@link Recording#end}
     * @throws RecordException if it did not begin; its kind has the reason
     */
    public Recording record() throws RecordException {
        if (to.isUnresolved()) {
            throw new RecordException(RecordException.Kind.UNKNOWN_HOST, "record with " + to.getHostName()
                + ": the name has no address: check it, and the network", null);
        }
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.setReceiveBufferSize(RECEIVE_BUFFER);
            socket.setSoTimeout(RETRY_MS);
            socket.connect(to);
            long id = agree(socket);
            synchronized (lock) {
                session = new Session(id, plan, room, now());
            }
            run(socket);
        } catch (RecordException e) {
            throw e;
        } catch (IOException e) {
            throw new RecordException(RecordException.Kind.SOCKET, "record with " + to + ": " + e.getMessage(), e);
        }
        synchronized (lock) {
            return session.recording();
        }
    }

    private static void send(DatagramSocket socket, ByteBuffer bytes) throws IOException {
        socket.send(new DatagramPacket(bytes.array(), bytes.position()));
    }

    private Packet receive(DatagramSocket socket, byte[] buffer) throws IOException {
        DatagramPacket datagram = new DatagramPacket(buffer, buffer.length);
        socket.receive(datagram);
        return Packet.decode(ByteBuffer.wrap(buffer, 0, datagram.getLength()));
    }

    /** The session's number. */
    private long agree(DatagramSocket socket) throws RecordException {
        long nonce = new SecureRandom().nextLong();
        Packet packet = new Packet(Packet.HELLO, nonce);
        ByteBuffer out = ByteBuffer.allocate(Plan.MAX_SIZE);
        byte[] buffer = new byte[Plan.MAX_SIZE + 1];
        IOException problem = null;
        long until = now() + patienceMs * MS;
        long again = now();
        while (now() < until && !stopped) {
            try {
                if (now() >= again) {
                    again = now() + RETRY_MS * MS;
                    out.clear();
                    // The path must carry the recording's packets, and no answer is longer than what asked for it.
                    packet.encode(out, plan.size);
                    send(socket, out);
                }
                Packet answer = receive(socket, buffer);
                problem = null;
                if (answer == null || answer.id != nonce) {
                    continue;
                }
                if (answer.type == Packet.CHALLENGE) {
                    packet = new Packet(Packet.START, nonce);
                    packet.cookie = answer.cookie;
                    packet.plan = plan;
                    packet.text = label;
                    again = now();
                } else if (answer.type == Packet.READY) {
                    return answer.session;
                } else if (answer.type == Packet.REFUSED) {
                    throw new RecordException(RecordException.Kind.REFUSED, "record with " + to + ": refused: "
                        + answer.text, null);
                }
            } catch (SocketTimeoutException e) {
                // Again.
            } catch (RecordException e) {
                throw e;
            } catch (IOException e) {
                problem = e;
                LockSupport.parkNanos(RETRY_MS * MS);
            }
        }
        if (stopped) {
            throw new RecordException(RecordException.Kind.STOPPED, "record with " + to + ": stopped", null);
        }
        if (problem instanceof PortUnreachableException) {
            throw new RecordException(RecordException.Kind.NOBODY_LISTENS, "record with " + to
                + ": connection refused: start 'alcc-lab trace record --listen' on that host", problem);
        }
        if (problem != null) {
            throw new RecordException(RecordException.Kind.SOCKET, "record with " + to + ": " + problem.getMessage(),
                problem);
        }
        throw new RecordException(RecordException.Kind.NO_ANSWER, "record with " + to + ": no answer for "
            + patienceMs + " ms: UDP may be blocked, or packets of " + plan.size + " bytes may not fit", null);
    }

    private void run(final DatagramSocket socket) throws IOException {
        final Thread sender = Thread.currentThread();
        Thread receiver = new Thread("alcc-record") {
            @Override public void run() {
                receiveAll(socket, sender);
            }
        };
        receiver.setDaemon(true);
        receiver.start();
        try {
            sendAll(socket);
        } finally {
            socket.close();
        }
        try {
            receiver.join();
        } catch (InterruptedException e) {
            // It ends with the socket.
            Thread.currentThread().interrupt();
        }
    }

    private void receiveAll(DatagramSocket socket, Thread sender) {
        byte[] buffer = new byte[Plan.MAX_SIZE + 1];
        while (!socket.isClosed()) {
            try {
                Packet packet = receive(socket, buffer);
                if (packet == null) {
                    continue;
                }
                synchronized (lock) {
                    session.handle(now(), packet);
                }
                if (packet.type != Packet.DATA && packet.type != Packet.REPORT) {
                    LockSupport.unpark(sender);
                }
            } catch (SocketTimeoutException e) {
                // Whether it is closed is looked at.
            } catch (PortUnreachableException e) {
                refused = true;
            } catch (IOException e) {
                // Closed, or the network is away: it may come back, and the session knows how long to wait.
                LockSupport.parkNanos(10 * MS);
            }
        }
    }

    private void sendAll(DatagramSocket socket) {
        ByteBuffer out = ByteBuffer.allocate(Plan.MAX_SIZE);
        while (true) {
            boolean due;
            long wait;
            synchronized (lock) {
                long now = now();
                if (stopped || Thread.currentThread().isInterrupted()) {
                    session.stop();
                }
                if (refused) {
                    refused = false;
                    if (now - session.heard() > MAX_REFUSED) {
                        session.lose();
                    }
                }
                out.clear();
                due = session.poll(now, out);
                wait = session.timer(now) - now;
                if (!due && session.phase() == Session.Phase.DONE) {
                    return;
                }
            }
            if (!due) {
                LockSupport.parkNanos(Math.min(wait, MAX_SLEEP));
                continue;
            }
            try {
                send(socket, out);
            } catch (PortUnreachableException e) {
                refused = true;
            } catch (IOException e) {
                // Lost, as on the way: a phone that changes its network has none for a moment.
                LockSupport.parkNanos(MS);
            }
        }
    }
}
