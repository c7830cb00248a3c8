// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Random;
import org.alcc.cc.Budget;
import org.alcc.cc.Fixed;
import org.junit.Test;

/** A sender that gets the processor late: its own lateness is no property of the path. */
public class LateReaderTest {
    private static final long MS = 1_000_000;
    private static final long STEP = MS / 10;
    private static final byte[] NONE = new byte[0];
    private static final byte[] BLOCK = new byte[65_536];
    private static final int PACKET = 1448;

    /** 100 Mbit/s one way, 0.2 ms there and back, and a peer that reads each 5 ms. */
    private static final class Link {
        static final double BYTES_PER_NANO = 100e6 / 8e9;
        final Session sender = new Session(true, 0, new Settings(new Budget()).segment(PACKET));
        final Session peer = new Session(false, 0, new Settings(new Fixed(10)).segment(PACKET));
        final ArrayDeque<byte[]> there = new ArrayDeque<byte[]>();
        final ArrayDeque<Long> arrives = new ArrayDeque<Long>();
        final ArrayDeque<byte[]> back = new ArrayDeque<byte[]>();
        final ArrayDeque<Long> returns = new ArrayDeque<Long>();
        final ByteBuffer out = ByteBuffer.allocate(66_560);
        final ByteBuffer all = ByteBuffer.allocate(1 << 20);
        final byte[] sink = new byte[1 << 20];
        long now;
        long free;
        long peerRead;
        long senderRead;
        long arrived;
        double waited;

        private void send() {
            boolean more = true;
            while (more) {
                out.clear();
                int taken = sender.output(now, BLOCK, 0, BLOCK.length, out);
                more = taken > 0;
                for (int at = 0; at < out.position(); at += PACKET) {
                    byte[] packet = Arrays.copyOfRange(out.array(), at, Math.min(at + PACKET, out.position()));
                    waited += Math.max(free - now, 0) * (double) packet.length;
                    free = Math.max(free, now) + (long) (packet.length / BYTES_PER_NANO);
                    there.add(packet);
                    arrives.add(free + MS / 10);
                }
            }
        }

        private void read() {
            all.clear();
            while (!returns.isEmpty() && returns.peek() <= now) {
                returns.remove();
                all.put(back.remove());
            }
            all.flip();
            sender.received(senderRead, senderRead, now, now, all);
            senderRead = now;
            assertNull(sender.error());
            sender.timer(now);
        }

        private void peer() {
            all.clear();
            while (!arrives.isEmpty() && arrives.peek() <= now) {
                arrives.remove();
                byte[] packet = there.remove();
                arrived += packet.length;
                all.put(packet);
            }
            all.flip();
            if (all.hasRemaining()) {
                peer.received(peerRead, now, now, all);
                peer.read(now, sink, 0, sink.length);
                assertNull(peer.error());
            }
            peerRead = now;
            out.clear();
            peer.output(now, NONE, 0, 0, out);
            if (out.position() > 0) {
                back.add(Arrays.copyOf(out.array(), out.position()));
                returns.add(now + MS / 10);
            }
        }

        /** The sender runs at these distances. Returns the share of the link that was used. */
        double run(long until, Gaps gaps) {
            long from = now;
            long before = arrived;
            waited = 0;
            long next = now;
            long peers = now;
            for (; now < until; now += STEP) {
                if (now >= peers) {
                    peer();
                    peers = now + 5 * MS;
                }
                if (now >= next) {
                    read();
                    send();
                    next = now + gaps.next(now);
                }
            }
            return (arrived - before) / (BYTES_PER_NANO * (now - from));
        }

        /** Mean wait in the queue of what was sent in the last run, milliseconds. */
        double delay(double share, long took) {
            return waited / (share * BYTES_PER_NANO * took) / MS;
        }
    }

    /** Times at which the sender runs: after {@code base}, and later by an exponential time of mean {@code late}. */
    private static final class Gaps {
        final Random random = new Random(1);
        final double base;
        final double late;
        /** Milliseconds of each second in which it does not run. */
        final int pause;

        Gaps(double base, double late, int pause) {
            this.base = base;
            this.late = late;
            this.pause = pause;
        }

        long next(long now) {
            double ms = base * (0.8 + 0.4 * random.nextDouble()) - Math.log(1 - random.nextDouble()) * late;
            long remaining = pause * MS - now % (1000 * MS);
            return Math.max((long) (ms * MS), remaining);
        }
    }

    private static void check(Gaps gaps, double least, double delay) {
        Link link = new Link();
        link.run(2000 * MS, gaps);
        double share = link.run(12_000 * MS, gaps);
        double waited = link.delay(share, 10_000 * MS);
        assertTrue("only " + share + " of the link was used", share >= least);
        assertTrue("the mean wait is " + waited + " ms", waited <= delay);
    }

    @Test
    public void inTimeTheQueueIsHalfTheBudget() {
        check(new Gaps(5, 0, 0), 0.98, 25);
    }

    /** Each wait for the processor leaves the link idle now and then. That must not add up. */
    @Test
    public void latenessIsNotASlowerPath() {
        check(new Gaps(5, 5, 0), 0.93, 25);
        check(new Gaps(5, 10, 0), 0.75, 25);
        check(new Gaps(5, 20, 0), 0.6, 25);
    }

    @Test
    public void whoComesLateSendsWhatItsPaceWasMeanwhile() {
        check(new Gaps(12, 0, 0), 0.95, 25);
        check(new Gaps(20, 0, 0), 0.7, 25);
    }

    /** The link is idle while the sender is. It is no less used and the queue no longer otherwise. */
    @Test
    public void pausesCostNoMoreThanTheyLast() {
        check(new Gaps(5, 0, 200), 0.8, 25);
    }
}
