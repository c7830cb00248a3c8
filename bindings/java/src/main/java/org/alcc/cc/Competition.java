// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/**
 * Detects other flows that keep a queue which no drain empties, and holds the window that competes with them. It grows
 * by a packet per round trip. Over TCP, losses are not visible, so it grows only when it is used.
 */
final class Competition {
    /** Packets; 0: this flow does not compete. */
    private double window;
    private int kept;
    private double rate;
    /** The largest rate from drain to drain, of those in turn that left the queue as it was. */
    private double best;
    private double delivered;
    private long drainedAt;

    void start(long now) {
        drainedAt = now;
    }

    /** Packets; 0 if no other flow fills the queue. */
    double window() {
        return window;
    }

    /** Drains are at multiples of the period by this. */
    int every() {
        return window > 0 ? COMPETITION_EVERY : 1;
    }

    /** The last drains may have met others. */
    boolean suspects() {
        return kept > 0;
    }

    void delivered(double packets) {
        delivered += packets;
    }

    /** A drain has ended; {@code lost}: for long nothing came back in it. The window would be {@code product}. */
    void drained(long now, Drains drains, long delay, boolean lost, double product) {
        double last = delivered / Math.max((now - drainedAt) / 1e9, COMPETITION_SHORTEST / 1e9);
        rate = rate == 0 ? last : (rate + last) / 2;
        delivered = 0;
        drainedAt = now;
        double before = drains.before() / 1e9;
        double left = drains.left() / 1e9;
        double budget = delay / 1e9;
        double siblings = ROUTE_SIBLINGS / Math.max(rate, 1);
        boolean stands = Math.min(left, before) > budget * ROUTE_STANDS;
        boolean shown = siblings <= budget * COMPETITION_SLOW && left > siblings && stands;
        if (lost || !shown || window > 0 && left <= before * COMPETITION_STILL) {
            kept = 0;
            best = 0;
            window = 0;
            return;
        }
        if (window == 0 && left <= before * COMPETITION_AS_IT_WAS) {
            return;
        }
        kept++;
        best = Math.max(best, last);
        if (kept >= COMPETITION_DRAINS && window == 0) {
            // In a deep buffer others have taken most of the rate by now.
            double from = left > budget * COMPETITION_DEEP ? Math.max(rate, best) : rate;
            window = Math.max(from * (drains.base() / 1e9 + left), product);
        }
    }

    /** {@code packets} of a window that was used are back: of {@code all} that may be in flight. */
    void grow(double packets, double all) {
        if (window > 0) {
            window += packets / Math.max(all, 1);
        }
    }
}
