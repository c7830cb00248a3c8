// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import org.alcc.cc.Fixed;
import org.alcc.transfer.Resuming;
import org.alcc.transfer.Transfer;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** Peers that keep a transfer waiting: the format allows an idle connection, a transfer has to end. */
public class StalledPeersTest {
    private static final int SILENCE = 800;

    @Rule public final Timeout timeout = Timeout.seconds(15);

    private static Settings settings() {
        return new Settings(new Fixed(100)).handshake(SILENCE).silence(SILENCE);
    }

    private static Settings patient() {
        return new Settings(new Fixed(100)).silence(60_000);
    }

    private interface Call {
        void on(Connection here) throws IOException;
    }

    private interface Peer {
        void on(Socket socket) throws Exception;
    }

    /** Each connection gets the peer in a thread of its own. */
    private static final class Server implements Closeable {
        final ServerSocket listener = new ServerSocket(0, 9, InetAddress.getByName("127.0.0.1"));
        private int connections;

        Server(final Peer peer) throws IOException {
            start(new Runnable() {
                @Override public void run() {
                    while (true) {
                        final Socket socket;
                        try {
                            socket = listener.accept();
                        } catch (IOException e) {
                            return;
                        }
                        count();
                        start(new Runnable() {
                            @Override public void run() {
                                try {
                                    peer.on(socket);
                                } catch (Exception e) {
                                    // The other end has given up.
                                }
                            }
                        });
                    }
                }
            });
        }

        private static void start(Runnable work) {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            thread.start();
        }

        private synchronized void count() {
            connections++;
        }

        synchronized int connections() {
            return connections;
        }

        Socket connect() throws IOException {
            return new Socket("127.0.0.1", listener.getLocalPort());
        }

        @Override public void close() throws IOException {
            listener.close();
        }
    }

    private static void isGivenUp(Peer peer, Call call) throws IOException {
        try (Server server = new Server(peer); Connection here = Connection.connect(server.connect(), settings())) {
            long began = System.nanoTime();
            try {
                call.on(here);
                fail("it came to an end");
            } catch (AlccException e) {
                assertEquals(e.getMessage(), AlccException.Kind.SILENT, e.kind());
            }
            long ms = (System.nanoTime() - began) / 1_000_000;
            assertTrue(ms + " ms", ms >= SILENCE * 3 / 4 && ms < 6 * SILENCE);
        }
    }

    private static final Call SENDS = new Call() {
        @Override public void on(Connection here) throws IOException {
            Transfer.send(here, new ByteArrayInputStream(new byte[300_000]), 300_000);
        }
    };

    private static final Call RECEIVES = new Call() {
        @Override public void on(Connection here) throws IOException {
            Transfer.receive(here, new ByteArrayOutputStream(), 1000);
        }
    };

    /** Reads and acknowledges everything, and answers nothing. */
    private static final Peer SINK = new Peer() {
        @Override public void on(Socket socket) throws Exception {
            Connection there = Connection.accept(socket, patient());
            InputStream in = there.getInputStream();
            byte[] piece = new byte[65_536];
            while (in.read(piece) >= 0) {
                // As it says.
            }
            Thread.sleep(30_000);
        }
    };

    /** Never silent, and never of use. */
    private static Peer pings(final long credit) {
        return new Peer() {
            @Override public void on(Socket socket) throws Exception {
                OutputStream out = socket.getOutputStream();
                out.write(new Preface(credit, 5000, 1448, "").encode());
                ByteBuffer ping = ByteBuffer.allocate(12);
                FrameWriter.ping(ping, false, new byte[8]);
                while (true) {
                    out.write(ping.array());
                    Thread.sleep(20);
                }
            }
        };
    }

    @Test
    public void aReceiverThatNeverAnswers() throws Exception {
        isGivenUp(SINK, SENDS);
    }

    @Test
    public void aReceiverThatGivesNoCredit() throws Exception {
        isGivenUp(pings(0), SENDS);
    }

    @Test
    public void aReceiverThatOnlyPings() throws Exception {
        isGivenUp(pings(1L << 40), SENDS);
    }

    @Test
    public void aSenderThatSaysNothing() throws Exception {
        isGivenUp(pings(1 << 20), RECEIVES);
    }

    @Test
    public void aSenderThatStopsAfterItsHeader() throws Exception {
        isGivenUp(new Peer() {
            @Override public void on(Socket socket) throws Exception {
                ByteBuffer header = ByteBuffer.allocate(64);
                header.put("alccsend".getBytes("US-ASCII")).put((byte) 1).put((byte) 1).putShort(12, (short) 1);
                header.putLong(16, 1000);
                Connection.accept(socket, patient()).getOutputStream().write(header.array());
                Thread.sleep(30_000);
            }
        }, RECEIVES);
    }

    @Test
    public void anIdleConnectionIsNone() throws Exception {
        try (Server server = new Server(new Peer() {
            @Override public void on(Socket socket) throws Exception {
                Thread.sleep(3 * SILENCE);
                Connection.accept(socket, patient()).getOutputStream().write(7);
                Thread.sleep(30_000);
            }
        }); Connection here = Connection.connect(server.connect(), settings().handshake(30_000))) {
            assertEquals(7, here.getInputStream().read());
        }
    }

    /** Its answer is lost: another connection asks for it. */
    @Test
    public void aResumingSenderTriesAgain() throws Exception {
        final byte[] content = new byte[300_000];
        try (final Server server = new Server(SINK)) {
            try {
                new Resuming(new Resuming.Opener() {
                    @Override public Connection open() throws IOException {
                        return Connection.connect(server.connect(), settings());
                    }
                }, new Resuming.Source() {
                    @Override public InputStream open() {
                        return new ByteArrayInputStream(content);
                    }
                }, content.length, new byte[16], false).send(2 * SILENCE);
                fail("nobody answered");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.SILENT, e.kind());
            }
            assertTrue(server.connections() + "", server.connections() >= 2);
        }
    }

    /** Each byte comes in time, and the handshake never ends. */
    @Test
    public void aTlsServerThatDrips() throws Exception {
        try (Server server = new Server(new Peer() {
            @Override public void on(Socket socket) throws Exception {
                OutputStream out = socket.getOutputStream();
                out.write(new byte[] {0x16, 3, 3, 0x40, 0});
                while (true) {
                    out.write(2);
                    Thread.sleep(SILENCE / 10);
                }
            }
        })) {
            Socket socket = server.connect();
            SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
            SSLSocket tls = (SSLSocket) factory.createSocket(socket, "127.0.0.1", socket.getPort(), true);
            long began = System.nanoTime();
            try (Connection here = Connection.connect(tls, settings())) {
                fail("a handshake of drops");
            } catch (AlccException e) {
                assertEquals(e.getMessage(), AlccException.Kind.SILENT, e.kind());
            }
            long ms = (System.nanoTime() - began) / 1_000_000;
            assertTrue(ms + " ms", ms < 4 * SILENCE);
        }
    }
}
