// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.ByteArrayOutputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Random;
import org.alcc.cc.Budget;
import org.alcc.cc.Controller;
import org.alcc.cc.Copa;
import org.alcc.cc.Fixed;
import org.alcc.cc.Mdi;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** Both ends on one thread and one selector: nothing may wait for the other. */
public class ChannelConnectionTest {
    @Rule public final Timeout timeout = Timeout.seconds(60);

    private Selector selector;
    private ServerSocketChannel server;

    @Before
    public void listen() throws Exception {
        selector = Selector.open();
        server = ServerSocketChannel.open();
        server.socket().setReceiveBufferSize(16_384);
        server.socket().bind(new InetSocketAddress("127.0.0.1", 0));
    }

    @After
    public void done() throws Exception {
        selector.close();
        server.close();
    }

    /** One end, what it sends and what it has got. */
    private final class End {
        final ChannelConnection c;
        final SocketChannel channel;
        final ByteBuffer toSend;
        final ByteArrayOutputStream got = new ByteArrayOutputStream();
        SelectionKey key;
        boolean finished;
        boolean atEnd;

        End(SocketChannel channel, boolean opener, Settings settings, byte[] data) throws Exception {
            this.channel = channel;
            channel.socket().setSendBufferSize(16_384);
            c = new ChannelConnection(channel, opener, settings);
            toSend = ByteBuffer.wrap(data);
            key = channel.register(selector, 0);
        }

        void turn() throws Exception {
            c.run();
            ByteBuffer into = ByteBuffer.allocate(10_000);
            int n = 0;
            // Until nothing is there: no channel event reports data inside the connection.
            do {
                into.clear();
                n = atEnd ? 0 : c.read(into);
                got.write(into.array(), 0, into.position());
            } while (n > 0);
            atEnd |= n < 0;
            if (toSend.hasRemaining()) {
                c.write(toSend);
            } else {
                finished = c.finish();
            }
            if (key.isValid()) {
                key.interestOps(c.interestOps());
            }
        }
    }

    /** 0 is for ever. */
    private static long shorter(long a, long b) {
        return a == 0 || b == 0 ? a + b : Math.min(a, b);
    }

    private void both(Controller here, Controller there) throws Exception {
        byte[] up = new byte[2_000_000];
        byte[] down = new byte[700_001];
        new Random(1).nextBytes(up);
        new Random(2).nextBytes(down);
        SocketChannel client = SocketChannel.open(server.socket().getLocalSocketAddress());
        End a = new End(client, true, new Settings(here).receiveBuffer(100_000), up);
        End b = new End(server.accept(), false, new Settings(there).receiveBuffer(50_000), down);
        while (true) {
            a.turn();
            b.turn();
            if (a.finished && b.finished && a.atEnd && b.atEnd) {
                break;
            }
            // Who has data to write and no room waits for the peer: the channel, or the timer.
            selector.select(shorter(a.c.timeoutMillis(), b.c.timeoutMillis()));
            selector.selectedKeys().clear();
        }
        assertArrayEquals(up, b.got.toByteArray());
        assertArrayEquals(down, a.got.toByteArray());
        assertEquals(0, a.c.stats().inFlight());
        a.c.close();
        b.c.close();
    }

    @Test
    public void bothDirectionsOnOneThread() throws Exception {
        both(new Fixed(100), new Fixed(1));
        both(new Copa(), new Mdi());
        both(new Budget(), new Copa());
    }

    @Test
    public void aPeerThatIsNoAlccAndOneThatGoes() throws Exception {
        byte[][] says = {"HTTP/1.1 400 Bad Request\r\n".getBytes("US-ASCII"),
            new Preface(1 << 20, 5000, 1448, "").encode()};
        AlccException.Kind[] kinds = {AlccException.Kind.FOREIGN, AlccException.Kind.CUT};
        for (int i = 0; i < 2; i++) {
            SocketChannel client = SocketChannel.open(server.socket().getLocalSocketAddress());
            try (ChannelConnection c = new ChannelConnection(server.accept(), false, new Settings(new Fixed(10)))) {
                client.write(ByteBuffer.wrap(says[i]));
                client.close();
                for (int turns = 0; turns < 1000; turns++) {
                    c.run();
                    c.read(ByteBuffer.allocate(10));
                    Thread.sleep(1);
                }
                fail("no error");
            } catch (AlccException e) {
                assertEquals(kinds[i], e.kind());
            }
        }
    }

    @Test
    public void aPeerThatSaysNothingIsGivenUpByTheTimer() throws Exception {
        SocketChannel client = SocketChannel.open(server.socket().getLocalSocketAddress());
        Settings settings = new Settings(new Fixed(10)).handshake(100);
        SocketChannel accepted = server.accept();
        long began = System.nanoTime();
        try (ChannelConnection c = new ChannelConnection(accepted, false, settings)) {
            long wait = c.timeoutMillis();
            long gone = (System.nanoTime() - began) / 1_000_000;
            assertTrue(wait + " ms, " + gone + " ms gone", wait + gone >= 99 && wait <= 101);
            Thread.sleep(wait + 20);
            c.run();
            c.read(ByteBuffer.allocate(10));
            fail("no error");
        } catch (AlccException e) {
            assertEquals(AlccException.Kind.SILENT, e.kind());
        }
        client.close();
    }
}
