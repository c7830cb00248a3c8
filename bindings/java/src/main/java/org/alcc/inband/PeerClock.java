// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

/**
 * When acknowledgements came that were read late. The peer says by its clock when it made one, and the quickest of late
 * say how far the clocks are apart.
 */
final class PeerClock {
    /** Good clocks drift apart by a millisecond in it, at most. */
    private static final long WINDOW = 10_000_000_000L;
    private static final int MAX_24 = (1 << 24) - 1;
    private static final long NONE = Long.MAX_VALUE;

    /** Nanoseconds of the peer's clock, which is sent modulo 2^32 microseconds. */
    private long made;
    private int last;
    private boolean begun;
    /** Smallest difference of the clocks, in this window and in the one before. */
    private long least = NONE;
    private long leastBefore = NONE;
    private long windowEnds;

    /**
     * @param since it came after that, nanoseconds
     * @param at and not later than that
     * @return when it came, as well as can be known
     */
    long arrival(long since, long at, Ack ack) {
        if (ack.hold() >= MAX_24) {
            return at;
        }
        int micros = (int) (ack.time() + ack.hold());
        made += begun ? (micros - last) * 1000L : 0;
        last = micros;
        begun = true;
        if (at >= windowEnds) {
            leastBefore = at - windowEnds < WINDOW ? least : NONE;
            least = NONE;
            windowEnds = at + WINDOW;
        }
        least = Math.min(least, at - made);
        return Math.min(Math.max(made + Math.min(least, leastBefore), since), at);
    }
}
