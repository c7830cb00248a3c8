// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/**
 * Whether the route became longer. Its window then carries less than the rate, so the rate falls from drain to drain;
 * and neither that nor the drains shorten the round trip. What siblings leave in a drain is no longer route, nor is
 * what stands as a queue of others would. But after a jump of the round trip it is one whatever stands.
 */
final class Route {
    /** The mean rate when the last drain ended, packets per second. */
    private double rate;
    /** Sending time and round trip of the newest packet; zero before the first. */
    private long newestSentAt;
    private long newest;
    /** Time of the last jump of the round trip, or -1, the value before the first, and the middle: a shorter one ends it. */
    private long jumpedAt = -1;
    private long from;
    private long middle;
    /** The mean rate then, which the longer route carries, and until when that is assumed, or -1. */
    private double before;
    private long carriedUntil = -1;

    /** A packet is back, outside of drains; its round trip is known to {@code error}, the mean rate is {@code mean}. */
    void look(long now, long sentAt, long rtt, long delay, long error, double mean) {
        long was = newest;
        long gap = Math.max(sentAt - newestSentAt, 0);
        newest = rtt;
        newestSentAt = sentAt;
        if (jumpedAt >= 0 && rtt < middle) {
            // What an outage or a queue added is gone. What stays may be the route's.
            long stays = Math.max(rtt - from, 0);
            jumpedAt = stays > delay / ROUTE_JUMP ? now : -1;
            middle = from + stays / 2;
        }
        if (was == 0 || rtt - was <= delay / ROUTE_JUMP + (gap + error) * ROUTE_GAP) {
            return;
        }
        if (jumpedAt >= 0) {
            // A route is longer in both directions: acknowledgements show it first, packets half a round trip later.
            long rise = Math.max(rtt - from, 0);
            if (rise > (middle - from) * 2 + delay / ROUTE_JUMP) {
                jumpedAt = now;
                middle = from + rise / 2;
            }
        } else {
            jumpedAt = now;
            from = was;
            middle = from + (rtt - was) / 2;
            if (carriedUntil < 0) {
                before = mean;
            }
        }
    }

    /** Rate of the shorter route, packets per second. */
    double before() {
        return before;
    }

    boolean isInDoubt() {
        return jumpedAt >= 0;
    }

    /** True if the jump lasts: a drain shows whether the route is longer. */
    boolean isDue(long now) {
        return jumpedAt >= 0 && now - jumpedAt > ROUTE_LASTS;
    }

    /** The longer route carries what the shorter one carried, until that is measured. */
    void carry(long until) {
        carriedUntil = until;
    }

    void pass(long now) {
        if (now >= carriedUntil) {
            carriedUntil = -1;
        }
    }

    double carried() {
        return carriedUntil < 0 ? 0 : before;
    }

    /**
     * A drain has ended; the mean rate is {@code mean}, and round trips are known to {@code error}. {@code lost}: nothing
     * came back for long, so what the drain left is not known. A jump is drained again if so, and if a flow too fast to
     * have many siblings has removed a queue but not the jump.
     */
    boolean isLonger(long now, Drains drains, long delay, long error, boolean lost, double mean) {
        boolean fell = mean < rate * ROUTE_FELL;
        rate = mean;
        long left = drains.left();
        long siblings = (long) (ROUTE_SIBLINGS / Math.max(mean, 1) * 1e9);
        boolean longer = left > siblings && left <= (long) (delay * ROUTE_STANDS);
        boolean flat = Math.abs(drains.before() - left) <= ROUTE_FLAT + error;
        boolean jumped = jumpedAt >= 0 && left > delay / ROUTE_SAME + error;
        boolean remains = siblings < delay / ROUTE_FAST && !flat && drains.base() + left >= middle;
        jumpedAt = jumpedAt >= 0 && (lost || remains) ? now : -1;
        if (!jumped) {
            before = mean;
        }
        // Where siblings are many, a flow is slow, and their queue passes for a route, too.
        boolean alone = before * (delay / ROUTE_FAST / 1e9) > ROUTE_SIBLINGS;
        boolean sure = error <= ROUTE_SURE;
        boolean told = sure || alone && error * ROUTE_JUMP <= left;
        return flat && (jumped && told || fell && longer && sure) && !lost;
    }
}
