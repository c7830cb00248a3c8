/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Constants of the Rust forms, which have the reasons. Written by 'make constants'. Times are in microseconds. A
 * fraction is stored as a number of parts, and NAME_OF parts make one.
 */
#pragma once

/* Drains begin at multiples of this on the host's clock. */
#define DRAINS_PERIOD 3000000
/* No drain begins if the path was seen empty in this part of a period before it. */
#define DRAINS_MISSED 2
/* Age at which a smallest RTT may belong to an earlier path. */
#define DRAINS_MEMORY 10000000
/* After a drain the smallest RTT is taken over this time. */
#define DRAINS_RECENT 1000000
/* RTTs that differ by less than this count as equal. */
#define DRAINS_GRAIN 1000
/* A drain continues, or is due, if the smallest RTT fell by more than this part of it, and GRAIN. */
#define DRAINS_FELL 20
/* Queueing of up to this part of the target delay counts as none. */
#define ROUTE_SAME 10
/* A queue of this part of the target delay that stands before and after a drain belongs to others. */
#define ROUTE_STANDS 3
#define ROUTE_STANDS_OF 4
/* Packets that siblings may leave in a drain. */
#define ROUTE_SIBLINGS 5
/* An RTT that a drain changes by at most this counts as unchanged. */
#define ROUTE_FLAT 3000
/* The rate has fallen if it is below this part of the rate at the last drain. */
#define ROUTE_FELL 95
#define ROUTE_FELL_OF 100
/* A jump exceeds this part of the target delay, plus a multiple of the gap between packets. */
#define ROUTE_JUMP 4
/* That multiple of the gap. */
#define ROUTE_GAP 3
/* A jump that lasts this long starts a drain at once. */
#define ROUTE_LASTS 1100000
/* A flow that sends more than SIBLINGS in this part of the target delay has few siblings. */
#define ROUTE_FAST 2
/* Buckets of a window: they bound the memory of a filter. 128 elsewhere: an ACK goes through all of them. */
#define MINIMUM_BUCKETS 16
/* Packets over which the share of losses is averaged. */
#define LOSS_RATE_MEMORY 128
/* Segments per ACK at first, in sixteenths: two, delayed ACKs. */
#define ACK_RATIO_DELAYED 32
/* Minimum ssthresh, packets (RFC 5681, eq. 4). */
#define GROWTH_MIN_SSTHRESH 2
/* Target queueing delay. */
#define BUDGET_DELAY 40000
/* First window, packets. */
#define BUDGET_INITIAL 10
/* Smallest window outside of drains, packets. */
#define BUDGET_SMALLEST 4
/* Packets beyond the bandwidth-delay product. */
#define BUDGET_PACKETS 2
/* Part of the budget added to the smallest RTT, with the quantile. */
#define BUDGET_OF_HIGH 5
/* Part of the budget added to the smallest RTT, with the mean. */
#define BUDGET_OF_MEAN 2
/* Packets per second above which a flow yields, because PACKETS no longer equalize shares. */
#define BUDGET_FAST 256000
/* Part of the budget that a flow yields per doubling of its rate, with the quantile. */
#define BUDGET_YIELD 1
#define BUDGET_YIELD_OF 40
/* Part of the budget that a flow yields per doubling of its rate, with the mean. */
#define BUDGET_YIELD_OF_MEAN 1
#define BUDGET_YIELD_OF_MEAN_OF 20
/* Doublings, to 1600 packets per second, at which the mean neither gains nor yields. */
#define BUDGET_NEUTRAL 44438
/* Windows below this have a phase, packets. */
#define BUDGET_SMALL 100
/* Phase added by each packet, modulo 1: the golden ratio spreads phases evenly. */
#define BUDGET_GOLDEN 2654435769U
/* The start ends when this number of packets of a round trip, and all of them, were queued. */
#define BUDGET_FIRST 8
/* The path counts as empty if at most this part of the budget was queueing. */
#define BUDGET_EMPTY 4
/* After a drain the queue refills for this time plus one smallest RTT. */
#define BUDGET_REFILL 100000
/* After the start, losses are ignored for this time and two smallest RTTs. */
#define BUDGET_UNJUDGED 60000
/* A longer route keeps the old rate for this number of smallest RTTs, and REFILL. */
#define BUDGET_CARRIED 3
/* RTTs without an ACK that make a drain silent, and factor for the next drain's. */
#define BUDGET_PATIENCE 2
/* Time resolution of the measurements. */
#define SERVICE_BUCKET 10000
/* Number of buckets kept, as the longest mean needs. */
#define SERVICE_KEPT 200
/* The long mean is over this part of the flow's age. */
#define SERVICE_OF_AGE 5
/* Fewest buckets of the long mean, so that an unequal start is soon forgotten. */
#define SERVICE_LEAST 50
/* Shortest round trip for the short mean. */
#define SERVICE_TRIP 100000
/* Samples from which the quantile is taken: one second of them. */
#define SERVICE_SAMPLES 100
/* The quantile. */
#define SERVICE_QUANTILE 95
#define SERVICE_QUANTILE_OF 100
/* A sample covers the smallest RTT, and at least this part of the current RTT. */
#define SERVICE_OF_TRIP 4
/* Weight of a sample taken while the queue held no packet of this flow. */
#define SERVICE_STARVED 13
#define SERVICE_STARVED_OF 10
/* Longest silence that counts, in smallest RTTs. */
#define SERVICE_SILENCE 4
/* After this number of consecutive drains that left the queue unchanged, others keep it. */
#define COMPETITION_DRAINS 4
/* Shortest time over which a rate is measured. */
#define COMPETITION_SHORTEST 100000
/* If SIBLINGS take longer than this, in budgets, the flow is too slow to distinguish siblings. */
#define COMPETITION_SLOW 2
/* A queue counts as unchanged if a drain leaves more than this part of it. */
#define COMPETITION_AS_IT_WAS 85
#define COMPETITION_AS_IT_WAS_OF 100
/* While this flow competes, a drain that leaves less shows no other flow. */
#define COMPETITION_STILL 30
#define COMPETITION_STILL_OF 100
/* While this flow competes, it drains at every multiple of this number of periods. */
#define COMPETITION_EVERY 4
/* Buffer size, in budgets, from which a buffer is deep. */
#define COMPETITION_DEEP 3
#define COMPETITION_DEEP_OF 2
/* Shortest time between two cuts: BBR loses all the time and does not yield. */
#define COMPETITION_APART 2000000
/* Part of the competing window that remains after a loss, as Cubic's. */
#define COMPETITION_BETA 7
#define COMPETITION_BETA_OF 10
/* Largest growth of the window per round trip, as a part of it, at least one packet. */
#define COMPETITION_FASTEST 3
#define COMPETITION_FASTEST_OF 100
/* Share of losses above which a test starts, subject to TOLERATED. */
#define LOSSES_SHARE 4
#define LOSSES_SHARE_OF 1000
/* A test starts only above this multiple of the share that belongs to the path. */
#define LOSSES_TOLERATED 3
#define LOSSES_TOLERATED_OF 2
/* Largest share of losses that is attributed to the path. */
#define LOSSES_MOST 5
/* Packets over which the share is averaged. */
#define LOSSES_MEMORY 512
/* Packets over which the path's share falls to a lower one. */
#define LOSSES_FORGET 8192
/* A test lasts until this number of losses would be expected. */
#define LOSSES_EXPECTED 8
/* A test lasts for at least this number of packets. */
#define LOSSES_LEAST 64
/* With at most this number of the expected losses, sending less reduces loss. */
#define LOSSES_FEW 2
/* A test reduces the limit to at most this part. */
#define LOSSES_BETA 85
#define LOSSES_BETA_OF 100
/* Longest duration of a test; then its result so far counts. */
#define LOSSES_PATIENCE 3000000
/* A shorter queue cannot be distinguished from none. */
#define LOSSES_GRAIN 250
/* A queue counts as short, full or unchanged from this part of that queue on. */
#define LOSSES_HALF 2
/* Growth of the limit per RTT, at least one packet. */
#define LOSSES_RETURN 1
#define LOSSES_RETURN_OF 50
/* Others may share the full queue while this part of it stands. */
#define LOSSES_STANDS 4
/* While others may share the queue, the limit grows by a packet in this time, or per RTT if that is longer. */
#define LOSSES_SLOW 100000
/* The smallest limit, packets. */
#define LOSSES_SMALLEST 2
/* Inverse of the packets to keep in the queue. */
#define COPA_DELTA 11796
/* Queueing of up to this counts as none: it cannot be distinguished from delays of the host. */
#define COPA_FLOOR 500
/* A larger share lost in each of two consecutive round trips also counts as heavy loss. */
#define COPA_PERSISTENT_LOSS 8
#define COPA_PERSISTENT_LOSS_OF 100
/* First window, packets. */
#define COPA_INITIAL 10
/* Smallest window, packets. */
#define COPA_MIN_WINDOW 2
#define COPA_SMOOTHING_OF 16
/* Longest time over which the smallest RTT is taken. */
#define COPA_MIN_RTT_OVER 10000000
/* After this silence, earlier measurements are discarded. */
#define COPA_SILENCE 2000000
/* A larger share lost counts as heavy loss (genericCC). */
#define COPA_HEAVY_LOSS 3
#define COPA_HEAVY_LOSS_OF 10
/* Losses are judged over more packets than this. */
#define COPA_JUDGED 20
/* Part of the window that remains after heavy loss. */
#define COPA_BETA 7
#define COPA_BETA_OF 10
/* Pacing rate, in windows per standing RTT (section 2.1). */
#define COPA_PACING_GAIN 2
/* Periods in one direction before the velocity doubles (section 2.1). */
#define COPA_HOLD 3
/* Multiple of 1/delta from which a window is "far above the target". */
#define COPA_OVERLOAD 5
/* Packets that each ACK takes off the window far above the target. */
#define COPA_DRAIN_STEP 1
#define COPA_DRAIN_STEP_OF 2
/* Window during a drain, as a part of the bandwidth-delay product. */
#define COPA_DRAIN_GAIN 3
#define COPA_DRAIN_GAIN_OF 4
/* The path is nearly empty if the RTT exceeds the minimum by at most this part. */
#define COPA_NEARLY_EMPTY 10
/* Time over which bunching of ACKs is remembered. */
#define COPA_BUNCHES_OVER 1000000
/* Queueing delay that separates a longer route from a queue of others, as Budget's target delay. */
#define COPA_DELAY 40000
/* ε: length of an epoch. */
#define VERUS_EPOCH 10000
/* R: the tolerated ratio of the largest to the smallest delay. */
#define VERUS_RATIO 6
/* RTT to which R refers, ms, so that paths with unequal RTTs tolerate the same queue. */
#define VERUS_LIKE 40000
/* Smallest ratio of a path's RTT to LIKE that counts. */
#define VERUS_LONG_LEAST 64
/* Largest ratio of a path's RTT to LIKE that counts. */
#define VERUS_LONG_MOST 1024
/* α of equation 2: weight of the old. */
#define VERUS_ALPHA 1
#define VERUS_ALPHA_OF 5
/* Weight of the old delay of a point. */
#define VERUS_POINT_WEIGHT 7
#define VERUS_POINT_WEIGHT_OF 8
/* Weight of the old smoothed RTT. */
#define VERUS_RTT_WEIGHT 7
#define VERUS_RTT_WEIGHT_OF 8
/* δ1 of equation 4, ms. */
#define VERUS_DOWN 1000
/* δ2 of equation 4, ms. */
#define VERUS_UP 2000
/* M of equation 6. */
#define VERUS_DECREASE 7
#define VERUS_DECREASE_OF 10
/* Time between two fits of the curve. */
#define VERUS_REFIT 1000000
/* The first window, packets. */
#define VERUS_START 10
/* Part of the tolerated queue from which equation 4 pushes back, with the first window. */
#define VERUS_SOFT 62259
/* Reduction of SOFT per doubling of the window. */
#define VERUS_YIELD 1
#define VERUS_YIELD_OF 10
/* Smallest SOFT. */
#define VERUS_LEAST_SOFT 6554
/* Part of the tolerated queue that ends slow start. */
#define VERUS_EXIT 3
#define VERUS_EXIT_OF 10
/* Part of the tolerated queue below which a queue counts as jitter. */
#define VERUS_JITTER 3
#define VERUS_JITTER_OF 20
/* Smallest part of D_est that remains after the cut by one sample. */
#define VERUS_CUT 55706
/* The curve is disproved if D_est allows this multiple of the measured queue. */
#define VERUS_STALE 4
/* Lowest slot that is forgotten from the lost packet's label on, if loss ends a slow start. */
#define VERUS_FORGET_FROM 100
/* Smallest cap on packets in flight (`tuned`). */
#define VERUS_CAP_FLOOR 4
/* Speed at which the rate of the cap falls to a lower sample, per epoch (`tuned`). */
#define VERUS_RATE_FALL 1
#define VERUS_RATE_FALL_OF 10
/* Time during which the ceiling after a loss grows by one packet per round trip. */
#define VERUS_CEILING_CALM 1000000
/* Packets that each later second without a loss adds to that growth. */
#define VERUS_CEILING_STEP 10
/* Pacing rate, as a multiple of W per D_est (`tuned`; as in Linux). */
#define VERUS_PACING_GAIN 2
/* A queue longer by at most this than the measured one is no contradiction, ms (`tuned`). */
#define VERUS_STALE_FLOOR 10000
/* Smallest floor, packets (`tuned`). */
#define VERUS_MIN_FLOOR 2
/* Largest floor, packets (`tuned`). */
#define VERUS_MAX_FLOOR 50
/* Largest step of the floor, as a share of the window; at least one packet. */
#define VERUS_FLOOR_STEP 1
#define VERUS_FLOOR_STEP_OF 16
/* An epoch longer than requested by this factor counts with its real length (`tuned`). */
#define VERUS_LATE 3
#define VERUS_LATE_OF 2
/* A queue of up to this part of the smallest RTT counts as none. */
#define VERUS_NO_QUEUE 10
/* Part of the smallest RTT from which there is a queue. */
#define VERUS_SOME_QUEUE 4
/* Share of the longest queue from which a queue is long. */
#define VERUS_LONG_QUEUE 7
#define VERUS_LONG_QUEUE_OF 10
/* Time over which the longest queue is taken. */
#define VERUS_MAX_QUEUE_MEMORY 3000000
/* Time for which the depth of the buffer is remembered. */
#define VERUS_DEPTH_MEMORY 30000000
/* Loss rate that counts if there is a queue. */
#define VERUS_LOSS_WITH_QUEUE 3
/* Loss rate that counts in any case. */
#define VERUS_LOSS_ALWAYS 10
/* A buffer of fewer smallest RTTs than this is short. */
#define VERUS_SHORT_BUFFER 12
#define VERUS_SHORT_BUFFER_OF 10
/* Window during a drain, as a part of the bandwidth-delay product. */
#define VERUS_DRAIN_GAIN 3
#define VERUS_DRAIN_GAIN_OF 4
/* Window during the first drain, packets. */
#define VERUS_MIN_DRAIN_WINDOW 2
/* Gain on the delivery rate while the queue refills after a drain. */
#define VERUS_REFILL_GAIN 5
#define VERUS_REFILL_GAIN_OF 4
/* Smallest RTT above which only every second multiple of the period drains, ms. */
#define VERUS_LONG_PATH_MS 100000
/* Queue that R tolerates. A rise of the RTT by more than a quarter of it counts as a jump. */
#define VERUS_DELAY 160000
/* Queueing that D_est allows on a longer route before it is learned, ms. */
#define VERUS_ALLOWED 10000
/* D_min before the first sample, ms (program). */
#define VERUS_D_MIN_START 1000000
/* Windows between two nodes of the spline: initial value of the search for the divisor. */
#define VERUS_DIVISOR 15
/* Fewest nodes of a curve. */
#define VERUS_FEWEST 5
/* Divisor of the distance to the old window: the growth per round (BICTCP_B). */
#define BIC_PART 4
/* Largest step, packets per round (max_increment). */
#define BIC_MAX_STEP 16
/* Rounds for the last PART packets below the old window (smooth_part). */
#define BIC_SMOOTH 20
/* Up to this window it grows and falls as Reno's (low_window). */
#define BIC_LOW_WINDOW 14
/* Part of the window that remains after a loss, of 1024 (beta). */
#define BIC_BETA 819
/* The step is computed again after 1/32 s. */
#define BIC_STALE 31250
/* Before the first loss the window grows by at least one packet per this many ACKed. */
#define BIC_FIRST_PERIOD 20
/* Fewest packets of this flow in the queue. */
#define VEGAS_ALPHA 2
/* Most packets of this flow in the queue. */
#define VEGAS_BETA 4
/* Packets in the queue that end slow start. */
#define VEGAS_GAMMA 1
/* A round with fewer samples is handled as Reno's: all may be delayed acknowledgements. */
#define VEGAS_SAMPLES 3
/* Shortest time of a sample of the rate (TCP_WESTWOOD_RTT_MIN). */
#define WESTWOOD_MIN_SAMPLE 50000
/* exp(-n / LOSSES_MEMORY) for n = 1, 2, 4, ..., 8192, of 2^31. */
#define LOSS_RATE_POWERS { \
	2143293437U, \
	2139111403U, \
	2130771798U, \
	2114190000U, \
	2081412522U, \
	2017374191U, \
	1895147668U, \
	1672461947U, \
	1302514674U, \
	790015084U, \
	290630308U, \
	39332535U, \
	720401U, \
	242U, \
}
