// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

/**
 * How a competition goes on that no loss ends. How one begins is among the controller vectors. The budget is 40 ms, the
 * smallest round trip too.
 */
public class CompetitionTest {
    private static final long MS = 1_000_000;

    private final Competition competition = new Competition();
    private long now;

    /** Three seconds after the last drain, with {@code rate} packets a second, one leaves {@code left} ms. */
    private void drain(double rate, long left) {
        now += 3000 * MS;
        competition.delivered(rate * 3);
        competition.drained(now, ended(left == 0 ? 100 : left, left), 40 * MS, false, 10);
    }

    /** The smallest round trip is 40 ms. Before the drain {@code before} ms stood, {@code left} ms stayed. */
    private static Drains ended(long before, long left) {
        Drains drains = new Drains();
        drains.start(0);
        drains.doubt();
        drains.sample(0, 40 * MS, 0, 0, 0);
        for (long ms = 1100; ms <= 3000; ms += 100) {
            drains.sample(ms * MS, (40 + before) * MS, 0, 0, 0);
            drains.step(ms * MS, 0, true, 1);
        }
        drains.sample(3500 * MS, (40 + left) * MS, 0, 0, 0);
        assertEquals(Drains.ENDS, drains.step(3500 * MS, 3100 * MS, true, 1));
        return drains;
    }

    /**
     * No loss cuts it. A packet per round trip, which lasts window / rate: after t its square has grown by 2 rate t. An
     * hour at 200 packets a second makes 202 packets 1217, six seconds of the flow's own rate. It ends with the others.
     */
    @Test
    public void withoutACutItGrowsWithTheRootOfTheTime() {
        competition.start(0);
        for (double rate : new double[] {2000, 1000, 500, 200}) {
            assertEquals(0, competition.window(), 0);
            drain(rate, 61);
        }
        double began = competition.window();
        double rate = 200;
        double seconds = 0;
        while (seconds < 3600) {
            double window = competition.window();
            for (int half = 0; half < 2; half++) {
                competition.grow(window / 2, window);
            }
            assertEquals(window + 1, competition.window(), 1e-9);
            seconds += window / rate;
        }
        double expected = Math.sqrt(began * began + 2 * rate * seconds);
        assertEquals(1217, expected, 2);
        assertTrue(competition.window() + " packets", Math.abs(competition.window() - expected) < 5);
        drain(rate, 0);
        assertEquals(0, competition.window(), 0);
    }
}
