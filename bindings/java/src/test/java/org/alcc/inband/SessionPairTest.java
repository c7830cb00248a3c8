// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Random;
import org.alcc.cc.Controller;
import org.alcc.cc.Fixed;
import org.junit.Test;

/** Two sessions in virtual time, over a pipe that delays and cuts. */
public class SessionPairTest {
    private static final long MS = 1_000_000;
    private static final byte[] NONE = new byte[0];

    /** One direction of the stream below. */
    private static final class Pipe {
        final ArrayDeque<byte[]> pieces = new ArrayDeque<byte[]>();
        final ArrayDeque<Long> due = new ArrayDeque<Long>();
    }

    private static final class Pair {
        final Session[] ends = new Session[2];
        final Pipe[] to = {new Pipe(), new Pipe()};
        final Random random;
        final long oneWay;
        long now;

        Pair(long seed, long oneWay, Settings opener, Settings acceptor) {
            random = new Random(seed);
            this.oneWay = oneWay;
            ends[0] = new Session(true, 0, opener);
            ends[1] = new Session(false, 0, acceptor);
        }

        int say(int who, byte[] data, int from, int n) {
            ByteBuffer out = ByteBuffer.allocate(Session.LEAST_OUTPUT + random.nextInt(60_000));
            int taken = ends[who].output(now, data, from, n, out);
            int at = 0;
            while (at < out.position()) {
                int piece = Math.min(1 + random.nextInt(5000), out.position() - at);
                to[1 - who].pieces.add(Arrays.copyOfRange(out.array(), at, at + piece));
                to[1 - who].due.add(now + oneWay);
                at += piece;
            }
            return taken;
        }

        /** The next millisecond. */
        void step() {
            now += MS;
            for (int who = 0; who < 2; who++) {
                while (!to[who].due.isEmpty() && to[who].due.peek() <= now) {
                    long at = to[who].due.remove();
                    ends[who].received(at, at, now, ByteBuffer.wrap(to[who].pieces.remove()));
                    assertNull(ends[who].error());
                }
                if (ends[who].nextTimer() <= now) {
                    ends[who].timer(now);
                }
            }
        }
    }

    private static Settings settings(int window) {
        return new Settings(new Fixed(window)).segment(1448);
    }

    /** Both send at once through buffers of this size, and read in pieces. */
    private static long bothSend(long seed, int buffer, int bytes) {
        Pair p = new Pair(seed, 10 * MS, settings(50).receiveBuffer(buffer), settings(50).receiveBuffer(buffer));
        byte[][] data = {new byte[bytes], new byte[bytes / 2]};
        byte[][] got = {new byte[bytes / 2], new byte[bytes]};
        int[] sent = {0, 0};
        int[] have = {0, 0};
        p.random.nextBytes(data[0]);
        p.random.nextBytes(data[1]);
        while (!(p.ends[0].isDone() && p.ends[1].isDone() && p.ends[0].isAtEnd() && p.ends[1].isAtEnd())) {
            p.step();
            assertTrue("stuck at " + sent[0] + " and " + sent[1], p.now < 200_000 * MS);
            for (int who = 0; who < 2; who++) {
                int n = Math.min(data[who].length - sent[who], 1 + p.random.nextInt(30_000));
                sent[who] += p.say(who, data[who], sent[who], n);
                if (sent[who] == data[who].length) {
                    p.ends[who].end();
                }
                assertTrue(p.ends[who].unread() <= buffer);
                if (p.random.nextInt(4) == 0) {
                    int most = Math.min(got[who].length - have[who], 1 + p.random.nextInt(40_000));
                    have[who] += p.ends[who].read(p.now, got[who], have[who], most);
                }
            }
        }
        assertTrue(Arrays.equals(data[0], got[1]));
        assertTrue(Arrays.equals(data[1], got[0]));
        return p.now / MS;
    }

    @Test
    public void bothDirectionsArriveHoweverTheyAreCut() {
        for (int seed = 0; seed < 20; seed++) {
            bothSend(seed, 1 << 20, 300_000);
        }
    }

    @Test
    public void aFullBufferStopsTheSenderAndReadingLetsItGoOn() {
        for (int seed = 0; seed < 20; seed++) {
            bothSend(seed, 10_000, 200_000);
        }
    }

    /** The credit never holds a whole segment, and the application always has more than one. */
    @Test
    public void aBufferOfLessThanASegmentDoesNotLockUp() {
        Pair p = new Pair(1, MS, settings(50), settings(50).receiveBuffer(1024));
        byte[] data = new byte[20_000];
        byte[] got = new byte[data.length];
        p.random.nextBytes(data);
        int have = 0;
        int sent = 0;
        while (have < data.length) {
            p.step();
            assertTrue("stuck at " + sent, p.now < 10_000 * MS);
            sent += p.say(0, data, sent, data.length - sent);
            have += p.ends[1].read(p.now, got, have, data.length - have);
            p.say(1, NONE, 0, 0);
        }
        assertTrue(Arrays.equals(data, got));
    }

    /** A window of 50 segments and a round trip of 20 ms carry 3.6 MB a second. */
    @Test
    public void theWindowDecidesHowFast() {
        long ms = bothSend(3, 1 << 20, 1_000_000);
        assertTrue(ms + " ms", ms > 270 && ms < 420);
    }

    /** Otherwise the peer, whose data was read, finds the stream cut. */
    @Test
    public void anEndThatLeavesAcknowledgesTheDataItHasRead() {
        for (boolean reads : new boolean[] {true, false}) {
            Pair p = new Pair(1, MS, settings(50), settings(50));
            p.say(0, NONE, 0, 0);
            for (int i = 0; i < 100; i++) {
                p.step();
                p.say(1, NONE, 0, 0);
            }
            // The second is acknowledged 5 ms after the first, if nothing else happens.
            for (int i = 0; i < 4; i++) {
                p.step();
                if (i == 0 || i == 2) {
                    p.say(0, new byte[100], 0, 100);
                }
                p.say(1, NONE, 0, 0);
            }
            byte[] got = new byte[200];
            assertEquals(reads ? 200 : 100, p.ends[1].read(p.now, got, 0, reads ? 200 : 100));
            p.ends[1].end();
            p.say(1, NONE, 0, 0);
            p.step();
            p.say(0, NONE, 0, 0);
            p.step();
            assertTrue(p.ends[1].isFinished());
            p.ends[1].letGo();
            p.say(1, NONE, 0, 0);
            p.step();
            p.ends[0].ended();
            p.ends[0].end();
            assertEquals(reads, p.ends[0].isFinished());
            assertEquals(reads, p.ends[0].error() == null);
        }
    }

    @Test
    public void whatTheReceiverHoldsBackIsNotInTheRoundTrip() {
        Pair p = new Pair(1, 20 * MS, settings(50), settings(50));
        p.say(0, NONE, 0, 0);
        for (int i = 0; i < 100; i++) {
            p.step();
            p.say(1, NONE, 0, 0);
        }
        // Two frames 2 ms apart: the second is acknowledged when the delay of 5 ms is over.
        for (int i = 0; i < 200; i++) {
            p.step();
            if (i == 0 || i == 2) {
                p.say(0, new byte[100], 0, 100);
            }
            p.say(1, NONE, 0, 0);
        }
        Stats stats = p.ends[0].stats();
        assertEquals(0, stats.inFlight());
        assertEquals(40 * MS, stats.latestRtt());
        assertEquals(40 * MS, stats.smallestRtt());
        assertTrue(stats.toString(), stats.toString().contains("latestRtt=" + 40 * MS + ","));
    }

    @Test
    public void sequencesGoOnBeyondTwoToTheThirtyTwo() {
        Sending sending = new Sending(1448, settings(1_000_000), 0);
        sending.open(0, 1L << 40);
        byte[] block = new byte[1 << 20];
        ByteBuffer out = ByteBuffer.allocate((1 << 20) + 4096);
        long now = 0;
        while (sending.position() < 1L << 32) {
            out.clear();
            now += MS;
            assertEquals(block.length, sending.output(now, block, 0, block.length, out, 0));
            assertNull(sending.acknowledged(now, now, now, new Ack(sending.position(), 1 << 20, 0, 0, new int[0])));
        }
        long position = sending.position();
        out.clear();
        sending.output(now, block, 0, 10, out, 0);
        assertEquals((int) position, out.getInt(4));
        assertTrue(position > 1L << 32);
    }

    @Test
    public void aPeerThatDoesNotAnswerIsGivenUp() {
        Pair p = new Pair(1, MS, settings(50).silence(3000), settings(50));
        p.say(0, NONE, 0, 0);
        p.step();
        p.say(1, NONE, 0, 0);
        p.step();
        p.say(0, new byte[100], 0, 100);
        assertEquals(p.now + 3000 * MS, p.ends[0].nextTimer());
        p.now += 3000 * MS;
        p.ends[0].timer(p.now);
        assertEquals(AlccException.Kind.SILENT, p.ends[0].error().kind());
        assertEquals(Controller.NONE, p.ends[0].nextTimer());
        // CLOSE with reason 4.
        p.say(0, NONE, 0, 0);
        byte[] close = p.to[1].pieces.getLast();
        assertEquals(5, close[0]);
        assertEquals(4, close[8]);
    }

    @Test
    public void aReceiverModuleIsRefusedWithReasonThree() throws Exception {
        Session end = new Session(false, 0, settings(50));
        end.received(0, 0, 0, ByteBuffer.wrap(new Preface(4096, 5000, 1448, "sprout").encode()));
        assertEquals(AlccException.Kind.RECEIVER_MODULE, end.error().kind());
        ByteBuffer out = ByteBuffer.allocate(4096);
        end.output(0, NONE, 0, 0, out);
        out.flip();
        Preface.decode(out);
        assertEquals(5, out.get());
        assertEquals(3, out.get(out.position() + 7));
    }
}
