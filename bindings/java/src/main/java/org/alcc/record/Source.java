// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

/**
 * When the packets of a load are due. The saturator keeps its own queue longer than 375 ms. As long as the end of the
 * queue is not found, it keeps it shorter than 3 s. Rust's form has the numbers and their reasons.
 */
final class Source {
    private static final long MS = 1_000_000;
    private static final long MIN_QUEUE = 375 * MS;
    private static final double MAX_QUEUE_S = 3;
    private static final double MIN_SHARE_OF_PEAK = 0.25;
    private static final double DRAIN_GAIN = 0.5;
    private static final double PROBE_GAIN = 1.25;
    private static final double STARTUP_GAIN = 2;
    /** Bit/s. */
    private static final double INITIAL_RATE = 1e6;
    private static final double MAX_LOSS = 0.1;
    private static final long LOSS_WINDOW = 1000 * MS;
    private static final long LOSS_MEMORY = 120_000 * MS;
    private static final long MAX_SILENCE = 10_000 * MS;
    private static final long KEEPALIVE = 50 * MS;
    private static final long CATCH_UP = 50 * MS;
    private static final long CATCH_UP_SATURATE = 500 * MS;

    private final long load;
    private final double bits;
    private final double limit;
    private final long to;
    private double rate = INITIAL_RATE;
    private long next;
    private long heard;
    private long since;
    private long sinceBelow;
    private long sinceReceived;
    private boolean wasFull;
    private long full;
    /** Due time of the packet that was taken last. */
    long due;
    long sent;
    long skipped;

    Source(Plan plan, long load, long from, long to) {
        this.load = load;
        bits = plan.ipLength() * 8.0;
        limit = Math.max(plan.limit, INITIAL_RATE);
        this.to = to;
        next = from;
        heard = from;
        since = from;
    }

    boolean isIdle() {
        return load == Plan.NOTHING;
    }

    /** Anything has come. */
    void heard(long now) {
        heard = Math.max(heard, now);
    }

    /** Bit/s, of an unsigned number that anybody may have written. */
    private double believed(long peer) {
        return peer < 0 ? limit : peer;
    }

    void report(long now, long roundTrip, Packet.Report r) {
        if (load != Plan.AS_MUCH_AS_FITS || r.received == 0 || r.below < 0 || r.below > sent) {
            return;
        }
        if (now - since >= LOSS_WINDOW && r.below > sinceBelow) {
            double came = Math.max(r.received - sinceReceived, 0);
            if (came / (r.below - sinceBelow) < 1 - MAX_LOSS) {
                wasFull = true;
                full = now;
            }
            since = now;
            sinceBelow = r.below;
            sinceReceived = r.received;
        }
        // In floating point nothing overflows, whatever was written.
        double own = (double) r.delay - (double) r.least;
        boolean isShort = own < MIN_QUEUE;
        double gain = isShort || !wasFull ? STARTUP_GAIN : PROBE_GAIN;
        rate = Math.min(Math.max(believed(r.peak) * gain, INITIAL_RATE), limit);
        boolean isFull = wasFull && now - full < LOSS_MEMORY;
        double other = Math.max((roundTrip - own) / 1e9, 0);
        double present = Math.max(believed(r.rate), believed(r.peak) * MIN_SHARE_OF_PEAK);
        double ahead = (sent - r.below) * bits - present * (other + MAX_QUEUE_S);
        if (!isFull && !isShort && ahead > 0) {
            rate = Math.min(Math.max(present * DRAIN_GAIN, bits / (KEEPALIVE / 1e9)), limit);
        }
    }

    /** Due time of the next packet; {@link Long#MAX_VALUE}: never. */
    long next() {
        return isIdle() || next >= to ? Long.MAX_VALUE : next;
    }

    /** The number of a packet that is due; -1: none is. */
    long take(long now) {
        due = next();
        if (due > now) {
            return -1;
        }
        boolean saturate = load == Plan.AS_MUCH_AS_FITS;
        long interval = saturate ? Math.max((long) (bits / rate * 1e9), 1) : load;
        interval = now - heard > MAX_SILENCE ? KEEPALIVE : interval;
        long arrears = saturate ? CATCH_UP_SATURATE : CATCH_UP;
        if (now - due > arrears) {
            // What a sleeping phone did not send it does not send at once.
            skipped += (now - due - arrears) / interval;
            next = now - arrears;
        }
        next += interval;
        return sent++;
    }
}
