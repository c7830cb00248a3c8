// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

public class PeerClockTest {
    private static final long MS = 1_000_000;
    /** Nothing relates the clocks; this one wraps within the test. */
    private static final long PEER = (1L << 32) - 3_000_000;
    private static final int[] NONE = {};

    /** An ACK made at this time of ours, which waited for {@code holdMicros} at the peer. */
    private static Ack ack(long made, int holdMicros) {
        return new Ack(0, 0, PEER + made / 1000 - holdMicros & 0xffffffffL, holdMicros, NONE);
    }

    @Test
    public void whatWasReadLateCameWhenThePeersClockSays() {
        PeerClock clock = new PeerClock();
        // Read at once: 7 ms on the way.
        assertEquals(107 * MS, clock.arrival(107 * MS, 107 * MS, ack(100 * MS, 1200)));
        for (int i = 1; i < 1000; i++) {
            long made = 100 * MS + 5 * i * MS;
            long read = made + 7 * MS + i % 4 * MS;
            assertEquals(made + 7 * MS, clock.arrival(read - 5 * MS, read, ack(made, i)), 1000);
        }
    }

    @Test
    public void itCameWhileNobodyLooked() {
        PeerClock clock = new PeerClock();
        clock.arrival(107 * MS, 107 * MS, ack(100 * MS, 0));
        // It was held up on the way: not before the last reading, and not after this one.
        assertEquals(155 * MS, clock.arrival(155 * MS, 160 * MS, ack(120 * MS, 0)));
        assertEquals(160 * MS, clock.arrival(160 * MS, 160 * MS, ack(120 * MS, 0)));
        // A quicker one: it came when it was read.
        assertEquals(203 * MS, clock.arrival(198 * MS, 203 * MS, ack(200 * MS, 0)));
        // The next is as quick.
        assertEquals(303 * MS, clock.arrival(298 * MS, 304 * MS, ack(300 * MS, 0)));
    }

    @Test
    public void clocksDrift() {
        PeerClock clock = new PeerClock();
        // 100 ppm: without forgetting, the error after ten minutes would be 60 ms.
        for (long at = MS; at < 600_000 * MS; at += 50 * MS) {
            long heard = clock.arrival(at - 20 * MS, at + at % (3 * MS), ack(at - at / 10_000, 0));
            assertTrue(at + ": " + (heard - at), Math.abs(heard - at) < 3 * MS);
        }
    }

    @Test
    public void aHoldThatIsNotKnownSaysNothing() {
        assertEquals(9 * MS, new PeerClock().arrival(MS, 9 * MS, ack(20_000 * MS, (1 << 24) - 1)));
    }
}
