// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/**
 * Budget keeps in flight what the path may deliver in its smallest round trip. To that it adds a queueing delay that
 * the user names. What it does, and why, stands in {@code docs/budget.md}.
 */
public final class Budget extends Controller {
    private static final double LOG_2 = Math.log(2);

    private final long delay;
    private long mss = 1448;
    private boolean starting = true;
    private double window = BUDGET_INITIAL;
    /** Fraction added to a small window before it is rounded down to whole packets: 0 to 1. */
    private double phase;
    private final Service service = new Service();
    private final Drains drains = new Drains();
    private final Competition competition = new Competition();
    private final Route route = new Route();
    private long refilled;
    private double unanswered;
    private long silentAt = NONE;
    private long patience;
    private long queueing;
    /** Values of the start: the shortest wait of this round trip, its number of packets, and its beginning. */
    private long least = Long.MAX_VALUE;
    private int samples;
    private long roundFrom;
    private long ackedAt = -1;

    /** The algorithm with a budget of 40 ms. */
    public Budget() {
        this((int) (BUDGET_DELAY / 1_000_000));
    }

    /**
     * @param millis queueing delay to aim at, 1 to 10000
     * @throws IllegalArgumentException if it is another number
     */
    public Budget(int millis) {
        if (millis < 1 || millis > 10_000) {
            throw new IllegalArgumentException("a delay is 1 to 10000 ms, found " + millis);
        }
        delay = millis * 1_000_000L;
    }

    @Override
    public void start(long now, int segment, long seed) {
        mss = segment;
        drains.start(now);
        competition.start(now);
    }

    /** Takes the round trips in. True if the first packet had waited behind no packet of its flow. */
    private boolean look(long now, AckBatch batch) {
        boolean known = false;
        boolean starved = false;
        for (int i = 0; i < batch.count(); i++) {
            long rtt = batch.rtt(i);
            if (rtt == 0) {
                continue;
            }
            queueing = drains.sample(now, rtt, batch.rttError(), delay / ROUTE_SAME, delay / BUDGET_EMPTY);
            long above = Math.max(queueing - batch.rttError(), 0);
            if (starting && batch.sentAt(i) >= roundFrom) {
                least = Long.MAX_VALUE;
                samples = 0;
                roundFrom = now;
            }
            least = Math.min(least, above);
            samples++;
            if (!starting && !drains.isDraining()) {
                route.look(now, batch.sentAt(i), rtt, delay, batch.rttError(), service.mean());
            }
            if (!known) {
                known = true;
                starved = ackedAt >= 0 && now - ackedAt + DRAINS_GRAIN >= above;
            }
            int every = route.isDue(now) ? 0 : competition.every();
            boolean may = !starting && (every == 0 || !route.isInDoubt());
            int what = drains.step(now, batch.sentAt(i), may, every);
            if (what == Drains.BEGINS) {
                unanswered = 0;
            } else if (what == Drains.ENDS) {
                drained(now, batch.rttError());
            }
        }
        ackedAt = now;
        patience = Math.max((drains.base() + queueing) * BUDGET_PATIENCE, DRAINS_GRAIN);
        silentAt = drains.isDraining() ? now + patience : NONE;
        return starved;
    }

    /** A drain has ended: did it empty a route that is longer now, or does a queue of others stand? */
    private void drained(long now, long error) {
        boolean lost = unanswered > 0;
        if (route.isLonger(now, drains, delay, error, lost, service.mean())) {
            drains.rise(now);
            route.carry(now + drains.base() * BUDGET_CARRIED + BUDGET_REFILL);
        }
        refilled = now + drains.base() + BUDGET_REFILL;
        competition.drained(now, drains, delay, lost, product());
        drains.hold(competition.suspects());
        if (competition.window() > 0) {
            drains.doubt();
        }
    }

    private double wanted() {
        double base = drains.base() / 1e9;
        double budget = delay / 1e9;
        if (drains.isDraining()) {
            return Math.max(service.mean() * (base - budget), BUDGET_PACKETS) + unanswered;
        }
        return Math.max(product(), competition.window());
    }

    /** The window outside of drains, with no others. */
    private double product() {
        double base = drains.base() / 1e9;
        double budget = delay / 1e9;
        double mean = Math.max(service.mean(), route.carried());
        double doublings = Math.log(Math.max(mean / BUDGET_FAST, 1)) / LOG_2;
        double ofHigh = service.high() * (base + budget / BUDGET_OF_HIGH) - mean * (budget * BUDGET_YIELD * doublings);
        double beyond = doublings - BUDGET_NEUTRAL;
        double ofMean = mean * (base + budget / BUDGET_OF_MEAN - budget * BUDGET_YIELD_OF_MEAN * beyond);
        return Math.max(Math.max(ofHigh, ofMean) + BUDGET_PACKETS, BUDGET_SMALLEST);
    }

    private void follow() {
        window = Math.min(Math.max(wanted(), 1), BUDGET_LARGEST);
    }

    @Override
    public void acked(long now, AckBatch batch) {
        double packets = 0;
        for (int i = 0; i < batch.count(); i++) {
            double each = batch.length(i) / (double) mss;
            packets += each;
            phase = (phase + each * BUDGET_GOLDEN) % 1.0;
        }
        competition.delivered(packets);
        long base = drains.base();
        long rtt = base + queueing;
        boolean starved = look(now, batch);
        // What an application did not send says nothing about the path, nor does a drain and how the queue fills again.
        boolean idle = batch.isLimitedByApplication() && !batch.isLimitedByWindow();
        boolean drained = drains.isDraining() || now < refilled;
        if ((idle || drained) && !starting) {
            service.pass(now);
            follow();
            return;
        }
        route.pass(now);
        service.delivered(now, packets, base, rtt, starved);
        if (batch.isLimitedByWindow()) {
            competition.grow(packets, window);
        }
        if (starting) {
            if (Parts.isWindowUsed(batch, Parts.windowBytes(window, mss))) {
                window = Math.min(window + packets, BUDGET_LARGEST);
            }
            if (samples < BUDGET_FIRST || least <= delay / ROUTE_SAME) {
                return;
            }
            starting = false;
            // Its smallest round trip may be that of a queue.
            drains.doubt();
        }
        follow();
    }

    @Override
    public void timer(long now) {
        if (now >= silentAt) {
            unanswered += BUDGET_PACKETS;
            patience *= BUDGET_PATIENCE;
            silentAt = now + patience;
            follow();
        }
    }

    @Override
    public long nextTimer() {
        return silentAt;
    }

    @Override
    public long window() {
        // The last packet, of which a part is in a small window, is in flight for that part of the acknowledgements.
        boolean whole = starting || drains.isDraining() || window >= BUDGET_SMALL;
        return Parts.windowBytes(whole ? window : window + phase, mss);
    }

    @Override
    public long rate() {
        long recent = drains.recent();
        return starting || recent == 0 ? 0 : Parts.pacingRate(window / (Math.max(recent, DRAINS_GRAIN) / 1e9), mss);
    }

    @Override
    public long burst() {
        return mss;
    }
}
