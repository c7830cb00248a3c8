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
    /** No drain begins if the path was seen empty in this part of a period before it. */
    static final int DRAINS_MISSED = 2;
    /** Age at which a smallest RTT may belong to an earlier path. */
    static final long DRAINS_MEMORY = 10000000000L;
    /** After a drain the smallest RTT is taken over this time. */
    static final long DRAINS_RECENT = 1000000000L;
    /** RTTs that differ by less than this count as equal. */
    static final long DRAINS_GRAIN = 1000000L;
    /** A drain continues, or is due, if the smallest RTT fell by more than this part of it, and GRAIN. */
    static final int DRAINS_FELL = 20;
    /** Queueing of up to this part of the target delay counts as none. */
    static final int ROUTE_SAME = 10;
    /** A queue of this part of the target delay that stands before and after a drain belongs to others. */
    static final double ROUTE_STANDS = 0.75;
    /** Packets that siblings may leave in a drain. */
    static final double ROUTE_SIBLINGS = 5.0;
    /** An RTT that a drain changes by at most this counts as unchanged. */
    static final long ROUTE_FLAT = 3000000L;
    /** Required accuracy of RTTs: with a lower one, siblings' queue passes for a longer route. */
    static final long ROUTE_SURE = 1000000L;
    /** The rate has fallen if it is below this part of the rate at the last drain. */
    static final double ROUTE_FELL = 0.95;
    /** A jump exceeds this part of the target delay, plus a multiple of the gap between packets. */
    static final int ROUTE_JUMP = 4;
    /** That multiple of the gap. */
    static final int ROUTE_GAP = 3;
    /** A jump that lasts this long starts a drain at once. */
    static final long ROUTE_LASTS = 1100000000L;
    /** A flow that sends more than SIBLINGS in this part of the target delay has few siblings. */
    static final int ROUTE_FAST = 2;
    /** Buckets of a window: they bound the memory of a filter. */
    static final int MINIMUM_BUCKETS = 128;
    /** Target queueing delay. */
    static final long BUDGET_DELAY = 40000000L;
    /** First window, packets. */
    static final double BUDGET_INITIAL = 10.0;
    /** Smallest window outside of drains, packets. */
    static final double BUDGET_SMALLEST = 4.0;
    /** Packets beyond the bandwidth-delay product. */
    static final double BUDGET_PACKETS = 2.0;
    /** Largest window, packets. */
    static final double BUDGET_LARGEST = 1000000000.0;
    /** Part of the budget added to the smallest RTT, with the quantile. */
    static final double BUDGET_OF_HIGH = 5.0;
    /** Part of the budget added to the smallest RTT, with the mean. */
    static final double BUDGET_OF_MEAN = 2.0;
    /** Packets per second above which a flow yields, because PACKETS no longer equalize shares. */
    static final double BUDGET_FAST = 1000.0;
    /** Part of the budget that a flow yields per doubling of its rate, with the quantile. */
    static final double BUDGET_YIELD = 0.025;
    /** Part of the budget that a flow yields per doubling of its rate, with the mean. */
    static final double BUDGET_YIELD_OF_MEAN = 0.05;
    /** Doublings, to 1600 packets per second, at which the mean neither gains nor yields. */
    static final double BUDGET_NEUTRAL = 0.6780719051126377;
    /** Windows below this have a phase, packets. */
    static final double BUDGET_SMALL = 100.0;
    /** Phase added by each packet, modulo 1: the golden ratio spreads phases evenly. */
    static final double BUDGET_GOLDEN = 0.618033988749895;
    /** The start ends when this number of packets of a round trip, and all of them, were queued. */
    static final int BUDGET_FIRST = 8;
    /** The path counts as empty if at most this part of the budget was queueing. */
    static final int BUDGET_EMPTY = 4;
    /** After a drain the queue refills for this time plus one smallest RTT. */
    static final long BUDGET_REFILL = 100000000L;
    /** A longer route keeps the old rate for this number of smallest RTTs, and REFILL. */
    static final int BUDGET_CARRIED = 3;
    /** RTTs without an ACK that make a drain silent, and factor for the next drain's. */
    static final int BUDGET_PATIENCE = 2;
    /** Time resolution of the measurements. */
    static final long SERVICE_BUCKET = 10000000L;
    /** Number of buckets kept, as the longest mean needs. */
    static final int SERVICE_KEPT = 200;
    /** The long mean is over this part of the flow's age. */
    static final int SERVICE_OF_AGE = 5;
    /** Fewest buckets of the long mean, so that an unequal start is soon forgotten. */
    static final int SERVICE_LEAST = 50;
    /** Shortest round trip for the short mean. */
    static final long SERVICE_TRIP = 100000000L;
    /** Samples from which the quantile is taken: one second of them. */
    static final int SERVICE_SAMPLES = 100;
    /** The quantile. */
    static final double SERVICE_QUANTILE = 0.95;
    /** A sample covers the smallest RTT, and at least this part of the current RTT. */
    static final int SERVICE_OF_TRIP = 4;
    /** Weight of a sample taken while the queue held no packet of this flow. */
    static final float SERVICE_STARVED = 1.3f;
    /** Longest silence that counts, in smallest RTTs. */
    static final int SERVICE_SILENCE = 4;
    /** After this number of consecutive drains that left the queue unchanged, others keep it. */
    static final int COMPETITION_DRAINS = 4;
    /** Shortest time over which a rate is measured. */
    static final long COMPETITION_SHORTEST = 100000000L;
    /** If SIBLINGS take longer than this, in budgets, the flow is too slow to distinguish siblings. */
    static final double COMPETITION_SLOW = 2.0;
    /** A queue counts as unchanged if a drain leaves more than this part of it. */
    static final double COMPETITION_AS_IT_WAS = 0.85;
    /** While this flow competes, a drain that leaves less shows no other flow. */
    static final double COMPETITION_STILL = 0.3;
    /** While this flow competes, it drains at every multiple of this number of periods. */
    static final int COMPETITION_EVERY = 4;
    /** Buffer size, in budgets, from which a buffer is deep. */
    static final double COMPETITION_DEEP = 1.5;
    /** Inverse of the packets to keep in the queue. */
    static final double COPA_DELTA = 0.18;
    /** Queueing of up to this counts as none: it cannot be distinguished from delays of the host. */
    static final long COPA_FLOOR = 500000L;
    /** First window, packets. */
    static final double COPA_INITIAL = 10.0;
    /** Smallest window, packets. */
    static final double COPA_MIN_WINDOW = 2.0;
    /** Largest window, packets. */
    static final double COPA_MAX_WINDOW = 1000000000.0;
    /** Weight of a sample in the smoothed RTT (genericCC). */
    static final double COPA_SMOOTHING = 0.0625;
    /** Longest time over which the smallest RTT is taken. */
    static final long COPA_MIN_RTT_OVER = 10000000000L;
    /** Pacing rate, in windows per standing RTT (section 2.1). */
    static final double COPA_PACING_GAIN = 2.0;
    /** Periods in one direction before the velocity doubles (section 2.1). */
    static final int COPA_HOLD = 3;
    /** At exactly the target the window grows. */
    static final double COPA_SLACK = 1e-12;
    /** Multiple of 1/delta from which a window is "far above the target". */
    static final double COPA_OVERLOAD = 5.0;
    /** Packets that each ACK takes off the window far above the target. */
    static final double COPA_DRAIN_STEP = 0.5;
    /** Window during a drain, as a part of the bandwidth-delay product. */
    static final double COPA_DRAIN_GAIN = 0.75;
    /** The path is nearly empty if the RTT exceeds the minimum by at most this part. */
    static final int COPA_NEARLY_EMPTY = 10;
    /** Pacing credit, within two to ten packets. */
    static final long COPA_BURST = 1000000L;
    /** Segments up to which a record has a step for each. */
    static final int COPA_EACH_SEGMENT = 64;
    /** Steps of a longer record. */
    static final int COPA_STEPS = 8;
    /** Time over which bunching of ACKs is remembered. */
    static final long COPA_BUNCHES_OVER = 1000000000L;
    /** Queueing delay that separates a longer route from a queue of others, as Budget's target delay. */
    static final long COPA_DELAY = 40000000L;
    /** Required accuracy of RTTs: with a lower one, siblings' queue passes for a longer route. */
    static final long COPA_SURE = 1000000L;
    /** Time between two changes of the window. */
    static final long MDI_EPOCH = 5000000L;
    /** First window, packets. */
    static final double MDI_START = 10.0;
    /** Delay before the first sample, ms. */
    static final double MDI_FIRST_DELAY = 20.0;
    /** Smallest value from which a change is computed. */
    static final double MDI_MIN_SCALE = 1.01;
    /** Largest window, packets. */
    static final double MDI_MAX_WINDOW = 10000.0;
    /** Multiple of the smallest RTT at which slow start ends. */
    static final double MDI_EXIT = 1.25;
    /** RTT above the smallest at which slow start ends, ms. */
    static final double MDI_EXIT_MS = 5.0;
    /** Limit of bytes in flight, in windows. */
    static final double MDI_FLIGHT = 1.25;
    /** Weight of a sample in the smoothed RTT (Verus). */
    static final double MDI_SMOOTHING = 0.125;
    /** Largest number of states; no published table has more. */
    static final int MDI_MAX_STATES = 2048;
    /** Largest error of the sum of a distribution. */
    static final double MDI_TOLERANCE = 1e-6;
    /** Largest number of bounds between levels. */
    static final int MDI_MOST = 16;
}
