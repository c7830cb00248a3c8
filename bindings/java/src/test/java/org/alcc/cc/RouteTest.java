// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

/** The limits of what is taken for a longer route: the vectors have only one that is, far from them. */
public class RouteTest {
    private static final long MS = 1_000_000;

    /** Two drains, with these rates; the budget is 40 ms. */
    private static boolean isLonger(long before, long left, boolean lost, double first, double second) {
        Route route = new Route();
        Drains drains = DrainsTest.ended(before, left);
        assertFalse("nothing to compare with", route.isLonger(drains, 40 * MS, false, first));
        boolean longer = route.isLonger(drains, 40 * MS, lost, second);
        assertFalse("the rate stays", route.isLonger(drains, 40 * MS, lost, second));
        return longer;
    }

    private static boolean isLonger(long before, long left) {
        return isLonger(before, left, false, 10_000, 9000);
    }

    @Test
    public void theRateFalls() {
        assertTrue(isLonger(20, 20, false, 1000, 940));
        assertFalse(isLonger(20, 20, false, 1000, 960));
        assertFalse(isLonger(20, 20, true, 1000, 940));
    }

    @Test
    public void aDrainDoesNotShortenTheRoundTrip() {
        assertTrue(isLonger(22, 20));
        assertFalse(isLonger(23, 20));
        assertTrue(isLonger(20, 23));
        assertFalse(isLonger(20, 24));
    }

    @Test
    public void whatIsAsShortAsEverAndWhatSiblingsOrOthersLeaveIsNotLonger() {
        assertTrue(isLonger(5, 5));
        assertFalse(isLonger(4, 4));
        assertTrue(isLonger(6, 6, false, 1000, 900));
        assertFalse(isLonger(5, 5, false, 1000, 900));
        assertTrue(isLonger(30, 30));
        assertFalse(isLonger(31, 31));
    }

    /** Packets in the window after a drain at six seconds: since one at three the rate is lower, the route longer. */
    private static double window(long error) {
        Budget budget = new Budget();
        budget.start(0, 1000, 1);
        AckBatch batch = new AckBatch();
        long now = 0;
        while (now < 6500 * MS) {
            boolean early = now < 3000 * MS;
            now += early ? MS : MS * 5 / 4;
            // The start ends with 110 ms. After the last drain 5 ms stand: no packet finds the path empty.
            long rtt = (now < 200 * MS ? 100 : now < 1000 * MS ? 110 : now < 6130 * MS ? 120 : 125) * MS;
            batch.begin(100_000);
            batch.add(1000, Math.max(now - rtt, 0), 0, rtt);
            batch.limited(true, false, false, false);
            batch.end(99_000, error);
            budget.acked(now, batch);
        }
        return budget.window() / 1000.0;
    }

    /** 800 packets a second, half of the budget and a little, two packets, and a part of one. */
    @Test
    public void theWindowHoldsTheLongerRouteIfRoundTripsAreKnownToAMillisecond() {
        assertEquals(115.5, window(MS), 1.5);
        assertEquals(99.5, window(2 * MS), 1.5);
    }
}
