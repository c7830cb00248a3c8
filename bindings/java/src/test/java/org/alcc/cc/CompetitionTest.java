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

    /** A drain three seconds after the last one, which delivered {@code rate} packets a second, leaves {@code left}. */
    private void drain(double rate, long left) {
        now += 3000 * MS;
        competition.delivered(rate * 3);
        competition.drained(now, DrainsTest.ended(left == 0 ? 100 : left, left), 40 * MS, false, 10);
    }

    private void fourDrains(long left) {
        competition.start(0);
        drain(2000, left);
        drain(1000, left);
        drain(500, left);
        assertEquals(0, competition.window(), 0);
        drain(200, left);
    }

    /**
     * No loss cuts it. A packet per round trip, which lasts window / rate: after t its square has grown by 2 rate t. An
     * hour at 200 packets a second makes 202 packets 1217, six seconds of the flow's own rate. It ends with the others.
     */
    @Test
    public void withoutACutItGrowsWithTheRootOfTheTime() {
        fourDrains(61);
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
