// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.junit.Assert.assertEquals;

import org.junit.Test;

/** With what a competition begins. The budget is 40 ms, the smallest round trip too. */
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

    /** Of 2000, 1000, 500 and 200 the mean that forgets is 600. */
    @Test
    public void inAShallowBufferItBeginsWithTheRateOfLate() {
        fourDrains(59);
        assertEquals(600 * 0.099, competition.window(), 1e-6);
    }

    @Test
    public void inADeepBufferItBeginsWithTheBestRate() {
        fourDrains(61);
        assertEquals(2000 * 0.101, competition.window(), 1e-6);
    }

    @Test
    public void whatWasBestBeforeThePathWasEmptyIsForgotten() {
        competition.start(0);
        drain(10_000, 100);
        drain(1000, 0);
        for (int i = 0; i < 4; i++) {
            drain(1000, 100);
        }
        // The mean of late is still above the best since.
        assertEquals(1281.25 * 0.14, competition.window(), 1e-6);
    }
}
