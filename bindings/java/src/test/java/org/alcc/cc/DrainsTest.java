// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

/** The stories of the tests in Rust (parts/drains.rs). */
public class DrainsTest {
    private static final long MS = 1_000_000;

    private final Drains drains = new Drains();
    private long now;

    /** A packet every 10 ms, each back after {@code rtt}, until {@code until} ms; what happened, with its ms. */
    private String until(long until, long rtt) {
        StringBuilder story = new StringBuilder();
        while (now < until * MS) {
            now += 10 * MS;
            drains.sample(now, rtt * MS, 0, 4 * MS, 10 * MS);
            int what = drains.step(now, Math.max(now - rtt * MS, 0), true, 1);
            if (what != Drains.NOTHING) {
                String[] words = {"", " begins ", " again ", " ends "};
                story.append(now / MS).append(words[what]);
            }
        }
        return story.toString().trim();
    }

    @Test
    public void whoSeesThePathEmptyNeedNotDrainUnlessInDoubt() {
        assertEquals("", until(5900, 40));
        drains.doubt();
        assertEquals("6000 begins 6040 ends", until(8900, 40));
    }

    @Test
    public void aQueueIsDrainedAtMultiplesOfThreeSeconds() {
        assertEquals("", until(100, 40));
        assertEquals("3000 begins 3140 ends 6000 begins 6140 ends", until(6500, 140));
        assertEquals(40 * MS, drains.base());
    }

    @Test
    public void aDrainGoesOnWhileTheSmallestRoundTripFalls() {
        until(2900, 140);
        drains.doubt();
        until(3010, 140);
        assertTrue(drains.isDraining());
        assertEquals("3060 again 3120 ends", until(3300, 60));
    }

    @Test
    public void theSmallestRoundTripRisesIfItWasNotSeenForTenSeconds() {
        until(100, 40);
        until(11_990, 90);
        assertEquals(40 * MS, drains.base());
        until(12_100, 90);
        assertEquals(90 * MS, drains.base());
    }
}
