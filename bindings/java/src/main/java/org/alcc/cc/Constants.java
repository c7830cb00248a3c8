// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/**
 * Constants of the Rust forms, which have the reasons. Written by {@code make constants}. Times are in nanoseconds.
 */
final class Constants {
    private Constants() { }

    /** Largest window, bytes: more than any path holds. */
    static final long PARTS_LARGEST = 1099511627776L;
    /** Smallest pacing rate, bit/s. */
    static final int PARTS_SLOWEST = 8000;
    /** Largest pacing rate, bit/s. */
    static final long PARTS_FASTEST = 1000000000000L;
    /** Drains begin at multiples of this on the host's clock. */
    static final long DRAINS_PERIOD = 3000000000L;
    /** None begins if the path was seen empty in this part of a period before it. */
    static final int DRAINS_MISSED = 2;
    /** A smallest RTT that was not seen for so long may be one of another path. */
    static final long DRAINS_MEMORY = 10000000000L;
    /** After a drain the smallest RTT is that of so long. */
    static final long DRAINS_RECENT = 1000000000L;
    /** Below this difference two RTTs are the same. */
    static final long DRAINS_GRAIN = 1000000L;
    /** A drain goes on if the smallest RTT fell by more than this part of it, and GRAIN. */
    static final int DRAINS_FELL = 20;
    /** Queueing up to this part of the named delay is none. */
    static final int ROUTE_SAME = 10;
    /** What a drain finds and leaves is a queue of others from this part of the named delay on. */
    static final double ROUTE_STANDS = 0.75;
    /** Packets that siblings may leave in a drain. */
    static final double ROUTE_SIBLINGS = 5.0;
    /** An RTT that a drain lowers by up to so much is the same. */
    static final long ROUTE_LOWER = 2000000L;
    /** An RTT that a drain raises by up to so much is the same. */
    static final long ROUTE_HIGHER = 3000000L;
    /** Siblings' queue passes for a route if RTTs are not known so well. */
    static final long ROUTE_SURE = 1000000L;
    /** The rate has fallen if it is below this part of that at the last drain. */
    static final double ROUTE_FELL = 0.95;
    /** A jump is more than this part of the named delay, and so many times the gap between the packets. */
    static final int ROUTE_JUMP = 4;
    /** A jump that lasts for so long is drained at once. */
    static final long ROUTE_LASTS = 1100000000L;
    /** A flow that brings more than SIBLINGS in this part of the named delay has few siblings. */
    static final int ROUTE_FAST = 2;
    /** Buckets of a window: they bound the memory of a filter. */
    static final int MINIMUM_BUCKETS = 128;
    /** The queueing delay to aim at. */
    static final long BUDGET_DELAY = 40000000L;
    /** First window, packets. */
    static final double BUDGET_INITIAL = 10.0;
    /** Smallest window outside of drains, packets. */
    static final double BUDGET_SMALLEST = 4.0;
    /** Packets beyond the product. */
    static final double BUDGET_PACKETS = 2.0;
    /** No window is larger, packets. */
    static final double BUDGET_LARGEST = 1000000000.0;
    /** The part of the budget beside the smallest RTT, with the quantile. */
    static final double BUDGET_OF_HIGH = 5.0;
    /** The part of the budget beside the smallest RTT, with the mean. */
    static final double BUDGET_OF_MEAN = 2.0;
    /** A flow yields beyond so many packets per second: there PACKETS hold no shares apart. */
    static final double BUDGET_FAST = 1000.0;
    /** The part of the budget that it yields per doubling, with the quantile. */
    static final double BUDGET_YIELD = 0.025;
    /** The part of the budget that it yields per doubling, with the mean. */
    static final double BUDGET_YIELD_OF_MEAN = 0.05;
    /** Doublings, to 1600 packets per second, at which the mean neither gains nor yields. */
    static final double BUDGET_NEUTRAL = 0.6780719051126377;
    /** Smaller windows have a phase, packets. */
    static final double BUDGET_SMALL = 100.0;
    /** What a packet adds to the phase, modulo 1: the golden ratio, spread evenly. */
    static final double BUDGET_GOLDEN = 0.618033988749895;
    /** The start is over when so many packets of a round trip have waited, and all of them. */
    static final int BUDGET_FIRST = 8;
    /** The path was seen empty if no more than this part of the budget was queueing. */
    static final int BUDGET_EMPTY = 4;
    /** After a drain the queue fills again for so long, and a smallest RTT. */
    static final long BUDGET_REFILL = 100000000L;
    /** A longer route carries the old rate for so many smallest RTTs, and REFILL. */
    static final int BUDGET_CARRIED = 3;
    /** So many RTTs without an ACK make a drain silent, and so many times that the next. */
    static final int BUDGET_PATIENCE = 2;
    /** Resolution of what is measured: a bucket. */
    static final long SERVICE_BUCKET = 10000000L;
    /** Buckets that are kept: what the longest mean needs. */
    static final int SERVICE_KEPT = 200;
    /** The long mean is over this part of the flow's age. */
    static final int SERVICE_OF_AGE = 5;
    /** The long mean is over so many buckets at least: an unequal start is soon forgotten. */
    static final int SERVICE_LEAST = 50;
    /** The short mean is over a round trip of at least so long. */
    static final long SERVICE_TRIP = 100000000L;
    /** Samples of which the quantile is taken: a second of them. */
    static final int SERVICE_SAMPLES = 100;
    /** The quantile. */
    static final double SERVICE_QUANTILE = 0.95;
    /** A sample is over the smallest RTT, at least this part of the present one. */
    static final int SERVICE_OF_TRIP = 4;
    /** What a sample is worth during which the queue held no packet of this flow. */
    static final float SERVICE_STARVED = 1.3f;
    /** A silence counts as no more than so many smallest RTTs. */
    static final int SERVICE_SILENCE = 4;
    /** So many drains in turn left the queue as it was: others keep it. */
    static final int COMPETITION_DRAINS = 4;
    /** A rate is measured over so long at least. */
    static final long COMPETITION_SHORTEST = 100000000L;
    /** If SIBLINGS take longer than so many budgets, the flow is too slow to tell others from them. */
    static final double COMPETITION_SLOW = 2.0;
    /** As it was: more than this part of what there was before the drain. */
    static final double COMPETITION_AS_IT_WAS = 0.85;
    /** While this flow competes: a drain that leaves less shows nobody else. */
    static final double COMPETITION_STILL = 0.3;
    /** While this flow competes, it drains only at every so many multiples of the period. */
    static final int COMPETITION_EVERY = 4;
    /** From so many budgets on the buffer is deep. */
    static final double COMPETITION_DEEP = 1.5;
    /** 1/packets in the queue. */
    static final double COPA_DELTA = 0.18;
    /** Queueing up to this is none: a host cannot tell it from its own delays. */
    static final long COPA_FLOOR = 500000L;
    /** First window, packets. */
    static final double COPA_INITIAL = 10.0;
    /** Smallest window, packets. */
    static final double COPA_MIN_WINDOW = 2.0;
    /** Largest window, packets. */
    static final double COPA_MAX_WINDOW = 1000000000.0;
    /** Weight of a sample in the smoothed RTT (genericCC). */
    static final double COPA_SMOOTHING = 0.0625;
    /** RTTs are compared with those of the last ten seconds at most. */
    static final long COPA_MIN_RTT_OVER = 10000000000L;
    /** Times a window per standing RTT (section 2.1). */
    static final double COPA_PACING_GAIN = 2.0;
    /** Periods in one direction before the velocity doubles (section 2.1). */
    static final int COPA_HOLD = 3;
    /** At exactly the target the window grows. */
    static final double COPA_SLACK = 1e-12;
    /** Times 1/delta: where "far above the target" begins. */
    static final double COPA_OVERLOAD = 5.0;
    /** Far above the target each packet takes off so many. */
    static final double COPA_DRAIN_STEP = 0.5;
    /** What a drain leaves of the bandwidth-delay product. */
    static final double COPA_DRAIN_GAIN = 0.75;
    /** The path is nearly empty within this part of the minimum RTT above it. */
    static final int COPA_NEARLY_EMPTY = 10;
    /** Pacing credit, within two to ten packets. */
    static final long COPA_BURST = 1000000L;
    /** A record of at most so many segments has a step for each. */
    static final int COPA_EACH_SEGMENT = 64;
    /** A longer one has so many steps. */
    static final int COPA_STEPS = 8;
    /** Bunching of ACKs is remembered for so long. */
    static final long COPA_BUNCHES_OVER = 1000000000L;
    /** What tells a longer route from the queue of others, as Budget's delay does. */
    static final long COPA_DELAY = 40000000L;
    /** RTTs that are known less well do not show a longer route: siblings' queue would pass for one. */
    static final long COPA_SURE = 1000000L;
    /** From one change of the window to the next. */
    static final long MDI_EPOCH = 5000000L;
    /** First window, packets. */
    static final double MDI_START = 10.0;
    /** The delay before the first sample, ms. */
    static final double MDI_FIRST_DELAY = 20.0;
    /** What a change is reckoned of, at least. */
    static final double MDI_MIN_SCALE = 1.01;
    /** Largest window, packets. */
    static final double MDI_MAX_WINDOW = 10000.0;
    /** Slow start ends at an RTT of so many times the smallest. */
    static final double MDI_EXIT = 1.25;
    /** Slow start ends at an RTT of so many ms above the smallest. */
    static final double MDI_EXIT_MS = 5.0;
    /** In flight stays below so many windows. */
    static final double MDI_FLIGHT = 1.25;
    /** Weight of a sample in the smoothed RTT (Verus). */
    static final double MDI_SMOOTHING = 0.125;
    /** More states than any published table has. */
    static final int MDI_MAX_STATES = 2048;
    /** What the sum of a distribution may be off. */
    static final double MDI_TOLERANCE = 1e-6;
    /** More bounds of levels than anybody needs. */
    static final int MDI_MOST = 16;
}
