// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/**
 * The smallest round trip, and when to send less than the path holds so that it can be seen. Drains begin at multiples
 * of three seconds of the host's clock. So the flows of one host drain together, and all see the path empty.
 */
final class Drains {
    /** Results of {@link #step}. */
    static final int NOTHING = 0;
    static final int BEGINS = 1;
    static final int AGAIN = 2;
    static final int ENDS = 3;

    private boolean known;
    private long base;
    private long baseAt;
    private final Windowed recent = new Windowed(false);
    private long emptyAt;
    /** The smallest round trip may be that of a queue. */
    private boolean unsure;
    private long turn;
    private boolean draining;
    private long since;
    private long was;
    /** Values of the drain in progress: the smallest of the second before it, and the smallest in it. */
    private long recentBefore;
    private long lowest;
    private long before;
    private long left;
    private boolean held;

    void start(long now) {
        emptyAt = now;
        baseAt = now;
    }

    /** Zero before the first sample. */
    long base() {
        return base;
    }

    /** The smallest of the last second; zero before the first sample. */
    long recent() {
        return recent.get();
    }

    boolean isDraining() {
        return draining;
    }

    /** Queueing when the last drain began: that of the smallest round trip of a second. */
    long before() {
        return before;
    }

    /** Queueing that the last drain left; zero if the smallest round trip rose after it. */
    long left() {
        return left;
    }

    /** While {@code held}, the smallest round trip does not rise: others may keep the queue. */
    void hold(boolean held) {
        this.held = held;
    }

    void doubt() {
        unsure = true;
    }

    /** Returns the queueing delay. Up to {@code empty} the path was empty, up to {@code same} as short as ever. */
    long sample(long now, long rtt, long error, long same, long empty) {
        base = known ? Math.min(base, rtt) : rtt;
        known = true;
        recent.insert(now, rtt, DRAINS_RECENT);
        if (draining) {
            lowest = Math.min(lowest, rtt);
        }
        long queueing = Math.max(rtt - base, 0);
        long above = Math.max(queueing - error, 0);
        if (above <= same) {
            baseAt = now;
        }
        if (above <= empty) {
            emptyAt = now;
        }
        return queueing;
    }

    /**
     * Processes the return of a packet sent at {@code sentAt}. A drain begins only if {@code may}, and at every
     * multiple {@code every} of the period; 0: at once.
     */
    int step(long now, long sentAt, boolean may, int every) {
        boolean turned = now / DRAINS_PERIOD != turn && now / DRAINS_PERIOD % Math.max(every, 1) == 0;
        turn = now / DRAINS_PERIOD;
        boolean fell = base + base / DRAINS_FELL + DRAINS_GRAIN < was;
        if (!draining) {
            boolean missed = unsure || fell || now - emptyAt > DRAINS_PERIOD / DRAINS_MISSED;
            if (!may || every != 0 && !(turned && missed)) {
                return NOTHING;
            }
            begin(now);
            recentBefore = recent.get();
            lowest = Long.MAX_VALUE;
            return BEGINS;
        }
        if (sentAt < since) {
            return NOTHING;
        }
        if (fell) {
            begin(now);
            return AGAIN;
        }
        draining = false;
        unsure = false;
        emptyAt = now;
        before = Math.max(recentBefore - base, 0);
        left = Math.max(lowest - base, 0);
        if (now - baseAt > DRAINS_MEMORY && !held) {
            rise(now);
        }
        return ENDS;
    }

    /** The drain that has just ended emptied a longer route: the smallest round trip is that of the last second. */
    void rise(long now) {
        left = 0;
        base = recent.get();
        known = !recent.isEmpty();
        was = base;
        baseAt = now;
    }

    private void begin(long now) {
        draining = true;
        since = now;
        was = base;
    }
}
