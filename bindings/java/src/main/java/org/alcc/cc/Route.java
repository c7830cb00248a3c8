// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/**
 * Whether the route became longer. Its window then carries less than the rate, so the rate falls from drain to drain;
 * and neither that nor the drains shorten the round trip. What siblings leave in a drain is no longer route, nor is
 * what stands as a queue of others would. Every constant stands with its reason in
 * {@code crates/core/cc/src/algorithms/budget/route.rs}.
 */
final class Route {
    private static final long LOWER = 2_000_000;
    private static final long HIGHER = 3_000_000;
    private static final double FELL = 0.95;

    /** The mean rate when the last drain ended, packets per second. */
    private double rate;

    /**
     * A drain has ended; the mean rate is {@code mean}. {@code unsure}: what the drain left is not known well, but the
     * next drain compares its rate with this one.
     */
    boolean isLonger(Drains drains, long delay, boolean unsure, double mean) {
        boolean fell = mean < rate * FELL;
        rate = mean;
        long before = drains.before();
        long left = drains.left();
        boolean flat = before <= left + LOWER && left <= before + HIGHER;
        long siblings = (long) (Competition.SIBLINGS / Math.max(mean, 1) * 1e9);
        boolean longer = left > siblings && left <= (long) (delay * Competition.STANDS);
        return fell && flat && longer && !unsure;
    }
}
