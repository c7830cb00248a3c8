// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.alcc.cc.Fixed;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** Two connections of this library. */
public class ConnectionTest {
    private static final int BYTES = 3_000_000;

    @Rule public final Timeout timeout = Timeout.seconds(60);

    private static byte[] content(int seed) {
        byte[] content = new byte[BYTES];
        new Random(seed).nextBytes(content);
        return content;
    }

    private static Socket small(Socket socket) throws Exception {
        socket.setSendBufferSize(8192);
        return socket;
    }

    private static byte[] writesFirstAndReadsLater(Connection c, byte[] content) throws Exception {
        c.getOutputStream().write(content);
        byte[] got = new byte[BYTES];
        new DataInputStream(c.getInputStream()).readFully(got);
        assertTrue(c.finish(20_000));
        assertEquals(-1, c.getInputStream().read());
        return got;
    }

    /** Both write more than the sockets hold before either reads: who reads the socket never waits for who writes. */
    @Test
    public void bothWriteFirst() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(2);
        try (ServerSocket server = new ServerSocket()) {
            // So little that a writer soon waits in the socket.
            server.setReceiveBufferSize(8192);
            server.bind(new InetSocketAddress("127.0.0.1", 0));
            for (final int window : new int[] {1, 30, 1_000_000, 2, 1_000_000, 1_000_000}) {
                Socket socket = new Socket();
                socket.setReceiveBufferSize(8192);
                socket.setSendBufferSize(8192);
                socket.connect(server.getLocalSocketAddress());
                Settings one = new Settings(new Fixed(window));
                Settings other = new Settings(new Fixed(window));
                try (final Connection a = Connection.connect(socket, one);
                        final Connection b = Connection.accept(small(server.accept()), other)) {
                    Future<byte[]> there = threads.submit(new Callable<byte[]>() {
                        @Override public byte[] call() throws Exception {
                            return writesFirstAndReadsLater(b, content(2));
                        }
                    });
                    Future<byte[]> here = threads.submit(new Callable<byte[]>() {
                        @Override public byte[] call() throws Exception {
                            return writesFirstAndReadsLater(a, content(1));
                        }
                    });
                    assertArrayEquals(content(2), here.get());
                    assertArrayEquals(content(1), there.get());
                    assertEquals(0, a.stats().inFlight());
                }
            }
        } finally {
            threads.shutdownNow();
        }
    }

    /** The caller may close the connection after an error: the CLOSE to the peer must not be cut off. */
    @Test
    public void theReasonLeavesBeforeTheSocketIsClosed() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1")) {
            @Override public Socket accept() throws IOException {
                Socket slow = new SlowToSend();
                implAccept(slow);
                return slow;
            }
        }; Socket peer = new Socket("127.0.0.1", server.getLocalPort());
                Connection c = Connection.accept(server.accept(), new Settings(new Fixed(20)))) {
            peer.getOutputStream().write(new Preface(4096, 5000, 1448, "sprout").encode());
            Thread.sleep(100);
            try {
                c.getInputStream().read();
                fail("no error");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.RECEIVER_MODULE, e.kind());
                c.close();
            }
            byte[] said = new byte[500];
            int n = 0;
            for (int more = 0; more >= 0; more = peer.getInputStream().read(said, n, said.length - n)) {
                n += more;
            }
            assertTrue(new String(said, 0, n, "ISO-8859-1"), new String(said, 0, n, "ISO-8859-1").contains("module"));
        }
    }

    private static final class SlowToSend extends Socket {
        @Override public OutputStream getOutputStream() throws IOException {
            final OutputStream out = super.getOutputStream();
            return new OutputStream() {
                @Override public void write(int octet) throws IOException {
                    out.write(octet);
                }

                @Override public void write(byte[] from, int at, int n) throws IOException {
                    try {
                        Thread.sleep(200);
                    } catch (InterruptedException e) {
                        throw new IOException(e);
                    }
                    out.write(from, at, n);
                }
            };
        }
    }

    /** A byte there and a byte back: no call waits for a full segment or for a timer. */
    @Test
    public void aConversationOfSingleBytesIsNotDelayed() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            Socket socket = new Socket("127.0.0.1", server.getLocalPort());
            try (Connection a = Connection.connect(socket, new Settings(new Fixed(20)));
                    Connection b = Connection.accept(server.accept(), new Settings(new Fixed(20)))) {
                // A machine that has other things to do is late in most of them, not in all.
                long best = Long.MAX_VALUE;
                for (int group = 0; group < 10; group++) {
                    long began = System.nanoTime();
                    for (int i = 0; i < 20; i++) {
                        a.getOutputStream().write(i);
                        assertEquals(i, b.getInputStream().read());
                        b.getOutputStream().write(255 - i);
                        assertEquals(255 - i, a.getInputStream().read());
                    }
                    best = Math.min(best, System.nanoTime() - began);
                }
                long us = best / 20_000;
                // An acknowledgement may be 5 ms late, data may not.
                assertTrue(us + " us", us < 4000);
                System.out.println("a byte there and a byte back: " + us + " us");
            }
        }
    }

    /** Only acknowledgements, and of these how long the newest byte had been there, microseconds. */
    private static final class Holds implements FrameSink {
        final List<Integer> holds = new ArrayList<Integer>();

        @Override public void ack(Ack ack) {
            holds.add(ack.hold());
        }

        @Override public void data(long sequence, byte[] tag, int payload) { }

        @Override public void payload(ByteBuffer piece) { }

        @Override public void report(byte[] report) { }

        @Override public void close(long sequence, int reason, String text, int length) { }

        @Override public void ping(byte[] octets) { }

        @Override public void pong(byte[] octets) { }

        @Override public void unknown(int type) { }
    }

    /** The reader pauses within a stream. It then acknowledges what came meanwhile, not what came before. */
    @Test
    public void anAcknowledgementTellsWhatCameDuringThePause() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
                Socket peer = new Socket("127.0.0.1", server.getLocalPort());
                Connection c = Connection.accept(server.accept(), new Settings(new Fixed(20)))) {
            peer.setTcpNoDelay(true);
            OutputStream out = peer.getOutputStream();
            out.write(new Preface(4096, 25_000, 1448, "").encode());
            ByteBuffer frame = ByteBuffer.allocate(8 + 2040);
            byte[] said = new byte[4096];
            ByteBuffer in = ByteBuffer.wrap(said, 0, peer.getInputStream().read(said));
            Preface.decode(in);
            Holds seen = new Holds();
            FrameReader reader = new FrameReader();
            reader.feed(in, seen);
            for (long position = 0; seen.holds.size() < 20; position += frame.capacity()) {
                frame.clear();
                FrameWriter.data(frame, position, new byte[0], 2040);
                out.write(frame.array());
                Thread.sleep(1);
                if (peer.getInputStream().available() > 0) {
                    reader.feed(ByteBuffer.wrap(said, 0, peer.getInputStream().read(said)), seen);
                }
            }
            Collections.sort(seen.holds);
            // On a busy machine some are as late as the sender.
            int hold = seen.holds.get(seen.holds.size() / 4);
            assertTrue("the newest byte waited " + hold + " of 25000 us", hold < 12_500);
        }
    }
}
