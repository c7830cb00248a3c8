// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/**
 * Copa (Arun and Balakrishnan, NSDI 2018) in the project's living form. Its window aims at 1/delta packets of its own
 * in the queue, without the competitive mode.
 */
public final class Copa extends Controller {
    /** 1/packets in the queue unless another is given. */
    public static final double DELTA = COPA_DELTA;

    private final double delta;
    private long mss = 1448;
    private double window = COPA_INITIAL;
    private boolean slowStart = true;
    private boolean updated;
    private long minimum;
    private final Windowed standing = new Windowed(false);
    /** Seconds; 0: no sample. */
    private double smoothed;
    private final Windowed gaps = new Windowed(true);
    private long lastAck = -1;
    private final Drains drains = new Drains();
    private double drainedRate;
    private final Route route = new Route();
    /** Time of the last measured overload, and the window to which it may drain; -1: never. */
    private long overloadAt = -1;
    private double overloadTo;

    private double velocity;
    /** 1 up, -1 down, 0 neither. */
    private int way;
    private int same;
    private long since;
    private double windowThen;

    /** The algorithm with {@link #DELTA}. */
    public Copa() {
        this(DELTA);
    }

    /**
     * @param delta 1/packets in the queue, 0.001 to 1
     * @throws IllegalArgumentException if it is another number
     */
    public Copa(double delta) {
        if (!(delta >= 0.001 && delta <= 1)) {
            throw new IllegalArgumentException("delta is 0.001 to 1, found " + delta);
        }
        this.delta = delta;
    }

    @Override
    public void start(long now, int segment, long seed) {
        mss = segment;
        begin(now);
        drains.start(now);
    }

    private void begin(long now) {
        velocity = 1;
        way = 0;
        same = 0;
        since = now;
        windowThen = window;
    }

    private static double seconds(long nanos) {
        return nanos / 1e9;
    }

    private long smoothedNanos() {
        return (long) (smoothed * 1e9);
    }

    /** Would more packets than wanted be in the queue without the floor? */
    private boolean isBelowFloor() {
        long whole = Math.max(standing.get() - minimum, 0);
        return whole <= COPA_FLOOR && window * seconds(whole) > seconds(standing.get()) / delta;
    }

    /** From the floor to twice the floor it rises from nothing to all of it. */
    private long queueing() {
        long whole = Math.max(standing.get() - minimum, 0);
        return Math.min(whole, 2 * Math.max(whole - COPA_FLOOR, 0));
    }

    /** Packets of this flow in the queue. */
    private double queue() {
        double now = seconds(standing.get());
        return now <= 0 ? 0 : window * seconds(queueing()) / now;
    }

    private double targetWindow() {
        double queueing = seconds(queueing());
        return queueing <= 0 ? COPA_MAX_WINDOW : seconds(standing.get()) / (delta * queueing);
    }

    /** Rate of the window, packets per second. */
    private double made() {
        // After a change of path the smoothed round trip may still be that of the old one.
        return window / Math.max(smoothed, seconds(drains.base()));
    }

    private void sample(long now, long sentAt, long rtt, long error) {
        if (!slowStart && !drains.isDraining() && error <= COPA_SURE) {
            route.look(now, sentAt, rtt, COPA_DELAY, error, made());
        }
        double r = seconds(rtt);
        smoothed = smoothed == 0 ? r : smoothed + (r - smoothed) * COPA_SMOOTHING;
        long nearly = Math.max(drains.base() / COPA_NEARLY_EMPTY, COPA_FLOOR);
        drains.sample(now, rtt, error, nearly, nearly);
        minimum = drains.base();
        // The standing round trip looks over a whole bunch of acknowledgements.
        long over = Math.max(smoothedNanos() / 2, COPA_FLOOR);
        over = Math.max(Math.max(over, Math.min(gaps.get(), smoothedNanos())), error);
        standing.insert(now, rtt, Math.min(over, COPA_MIN_RTT_OVER));
    }

    private void leaveSlowStart(long now) {
        double left = Math.max(window - queue(), Math.min(targetWindow(), window));
        // What was measured is of a round trip ago. Then half of it was in flight.
        window = Math.max(left / 2, COPA_MIN_WINDOW);
        slowStart = false;
        drains.doubt();
        overload(now, window);
        begin(now);
    }

    private void overload(long at, double to) {
        overloadAt = at;
        overloadTo = to;
    }

    /** For {@code n} segments, between which the window is not looked at again. */
    private void step(long now, long n, boolean mayGrow) {
        updated = true;
        double wanted = 1 / delta;
        boolean up = queue() <= wanted + COPA_SLACK * wanted;
        if (slowStart && up) {
            window += mayGrow ? n : 0;
            return;
        }
        if (slowStart) {
            leaveSlowStart(now);
        }
        advance(now, up);
        // Up to the floor no queue says when to stop: who arrives there fast goes far beyond.
        if (isBelowFloor()) {
            velocity = 1;
            same = 0;
        }
        double room = delta * window;
        velocity = Math.min(velocity, Math.max(room, 1));
        double step = n * (velocity / room);
        if (!up && queue() > COPA_OVERLOAD / delta) {
            step = Math.max(step, Math.min(n * COPA_DRAIN_STEP, window - drainedTo(now)));
        }
        if (!up) {
            window = Math.max(window - step, COPA_MIN_WINDOW);
        } else if (mayGrow) {
            window = Math.min(window + step, COPA_MAX_WINDOW);
        }
    }

    /** A period lasts a standing round trip; a verdict against the direction begins another. */
    private void advance(long now, boolean up) {
        if (now - since >= standing.get()) {
            int went = window > windowThen ? 1 : -1;
            if (way == went) {
                same++;
                velocity = same >= COPA_HOLD ? Math.min(velocity * 2, 1e9) : velocity;
            } else {
                velocity = 1;
                same = 0;
                way = went;
            }
            since = now;
            windowThen = window;
        }
        if (velocity > 1 && way != (up ? 1 : -1)) {
            begin(now);
            way = up ? 1 : -1;
        }
    }

    /** A change shows only after a round trip, so it holds for one. */
    private double drainedTo(long now) {
        if (overloadAt < 0 || now - overloadAt >= smoothedNanos()) {
            overload(now, window - queue() + 1 / delta);
        }
        return overloadTo;
    }

    /** True in a drain, which sets the window. */
    private boolean drain(long now, long sentAt, long error) {
        boolean due = route.isDue(now);
        int what = drains.step(now, sentAt, !slowStart && (due || !route.isInDoubt()), due ? 0 : 1);
        if (what == Drains.BEGINS) {
            drainedRate = made();
        } else if (what == Drains.ENDS) {
            // A longer route carries what the shorter one carried.
            if (route.isLonger(now, drains, COPA_DELAY, error, false, drainedRate) && error <= COPA_SURE) {
                drains.rise(now);
                minimum = drains.base();
                drainedRate = Math.max(drainedRate, route.before());
            }
            window = Math.max(drainedRate * seconds(drains.base()), COPA_MIN_WINDOW);
            begin(now);
            // The queue that is seen now was before the drain.
            overload(now, window);
        }
        if (drains.isDraining()) {
            window = Math.max(drainedRate * seconds(drains.base()) * COPA_DRAIN_GAIN, COPA_MIN_WINDOW);
        }
        return drains.isDraining();
    }

    @Override
    public void acked(long now, AckBatch batch) {
        if (lastAck >= 0 && lastAck < now) {
            gaps.insert(now, now - lastAck, COPA_BUNCHES_OVER);
        }
        lastAck = now;
        boolean mayGrow = Parts.isWindowUsed(batch, window());
        for (int i = 0; i < batch.count(); i++) {
            if (batch.rtt(i) > 0) {
                sample(now, batch.sentAt(i), batch.rtt(i), batch.rttError());
            }
            if (smoothed <= 0 || drain(now, batch.sentAt(i), batch.rttError())) {
                continue;
            }
            long n = Parts.segments(batch.length(i), mss);
            long steps = n > COPA_EACH_SEGMENT ? COPA_STEPS : n;
            for (long k = 0; k < steps; k++) {
                step(now, (k + 1) * n / steps - k * n / steps, mayGrow);
            }
        }
    }

    @Override
    public void idle(long now, long idle) {
        begin(now);
        lastAck = -1;
    }

    @Override
    public long window() {
        return Parts.windowBytes(window, mss);
    }

    @Override
    public long rate() {
        double over = seconds(standing.get());
        return updated && over > 0 ? Parts.pacingRate(COPA_PACING_GAIN * window / over, mss) : 0;
    }

    @Override
    public long burst() {
        // A host that wakes a little late must be able to catch up.
        long rate = rate();
        return rate == 0 ? mss : Math.min(Math.max(rate / 8 * COPA_BURST / 1_000_000_000, 2 * mss), 10 * mss);
    }
}
