/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Constants of the Rust forms, which have the reasons. Written by 'make constants'. Times are in microseconds. What is
 * no integer is a number of parts, of which NAME_OF are one.
 */
#pragma once

/* Drains begin at multiples of this on the host's clock. */
#define DRAINS_PERIOD 3000000
/* None begins if the path was seen empty in this part of a period before it. */
#define DRAINS_MISSED 2
/* A smallest RTT that was not seen for so long may be one of another path. */
#define DRAINS_MEMORY 10000000
/* After a drain the smallest RTT is that of so long. */
#define DRAINS_RECENT 1000000
/* Below this difference two RTTs are the same. */
#define DRAINS_GRAIN 1000
/* A drain goes on if the smallest RTT fell by more than this part of it, and GRAIN. */
#define DRAINS_FELL 20
/* Queueing up to this part of the named delay is none. */
#define ROUTE_SAME 10
/* What a drain finds and leaves is a queue of others from this part of the named delay on. */
#define ROUTE_STANDS 3
#define ROUTE_STANDS_OF 4
/* Packets that siblings may leave in a drain. */
#define ROUTE_SIBLINGS 5
/* An RTT that a drain lowers by up to so much is the same. */
#define ROUTE_LOWER 2000
/* An RTT that a drain raises by up to so much is the same. */
#define ROUTE_HIGHER 3000
/* The rate has fallen if it is below this part of that at the last drain. */
#define ROUTE_FELL 95
#define ROUTE_FELL_OF 100
/* A jump is more than this part of the named delay, and so many times the gap between the packets. */
#define ROUTE_JUMP 4
/* A jump that lasts for so long is drained at once. */
#define ROUTE_LASTS 1100000
/* Buckets of a window: they bound the memory of a filter. 128 elsewhere: an ACK goes through all of them. */
#define MINIMUM_BUCKETS 16
/* Packets over which the share of losses is averaged. */
#define LOSS_RATE_MEMORY 128
/* Segments per ACK at first, in sixteenths: two, delayed ACKs. */
#define ACK_RATIO_DELAYED 32
/* Minimum ssthresh, packets (RFC 5681, eq. 4). */
#define GROWTH_MIN_SSTHRESH 2
/* The queueing delay to aim at. */
#define BUDGET_DELAY 40000
/* First window, packets. */
#define BUDGET_INITIAL 10
/* Smallest window outside of drains, packets. */
#define BUDGET_SMALLEST 4
/* Packets beyond the product. */
#define BUDGET_PACKETS 2
/* The part of the budget beside the smallest RTT, with the quantile. */
#define BUDGET_OF_HIGH 5
/* The part of the budget beside the smallest RTT, with the mean. */
#define BUDGET_OF_MEAN 2
/* A flow yields beyond so many packets per second: there PACKETS hold no shares apart. */
#define BUDGET_FAST 256000
/* The part of the budget that it yields per doubling, with the quantile. */
#define BUDGET_YIELD 1
#define BUDGET_YIELD_OF 40
/* The part of the budget that it yields per doubling, with the mean. */
#define BUDGET_YIELD_OF_MEAN 1
#define BUDGET_YIELD_OF_MEAN_OF 20
/* Doublings, to 1600 packets per second, at which the mean neither gains nor yields. */
#define BUDGET_NEUTRAL 44438
/* Smaller windows have a phase, packets. */
#define BUDGET_SMALL 100
/* What a packet adds to the phase, modulo 1: the golden ratio, spread evenly. */
#define BUDGET_GOLDEN 2654435769U
/* The start is over when so many packets of a round trip have waited, and all of them. */
#define BUDGET_FIRST 8
/* The path was seen empty if no more than this part of the budget was queueing. */
#define BUDGET_EMPTY 4
/* After a drain the queue fills again for so long, and a smallest RTT. */
#define BUDGET_REFILL 100000
/* After the start no losses are judged for so many smallest RTTs, and REFILL. */
#define BUDGET_UNJUDGED 4
/* A longer route carries the old rate for so many smallest RTTs, and REFILL. */
#define BUDGET_CARRIED 3
/* So many RTTs without an ACK make a drain silent, and so many times that the next. */
#define BUDGET_PATIENCE 2
/* Resolution of what is measured: a bucket. */
#define SERVICE_BUCKET 10000
/* Buckets that are kept: what the longest mean needs. */
#define SERVICE_KEPT 200
/* The long mean is over this part of the flow's age. */
#define SERVICE_OF_AGE 5
/* The long mean is over so many buckets at least: an unequal start is soon forgotten. */
#define SERVICE_LEAST 50
/* The short mean is over a round trip of at least so long. */
#define SERVICE_TRIP 100000
/* Samples of which the quantile is taken: a second of them. */
#define SERVICE_SAMPLES 100
/* The quantile. */
#define SERVICE_QUANTILE 95
#define SERVICE_QUANTILE_OF 100
/* A sample is over the smallest RTT, at least this part of the present one. */
#define SERVICE_OF_TRIP 4
/* What a sample is worth during which the queue held no packet of this flow. */
#define SERVICE_STARVED 13
#define SERVICE_STARVED_OF 10
/* A silence counts as no more than so many smallest RTTs. */
#define SERVICE_SILENCE 4
/* So many drains in turn left the queue as it was: others keep it. */
#define COMPETITION_DRAINS 4
/* A rate is measured over so long at least. */
#define COMPETITION_SHORTEST 100000
/* If SIBLINGS take longer than so many budgets, the flow is too slow to tell others from them. */
#define COMPETITION_SLOW 2
/* As it was: more than this part of what there was before the drain. */
#define COMPETITION_AS_IT_WAS 85
#define COMPETITION_AS_IT_WAS_OF 100
/* While this flow competes: a drain that leaves less shows nobody else. */
#define COMPETITION_STILL 30
#define COMPETITION_STILL_OF 100
/* While this flow competes, it drains only at every so many multiples of the period. */
#define COMPETITION_EVERY 4
/* From so many budgets on the buffer is deep. */
#define COMPETITION_DEEP 3
#define COMPETITION_DEEP_OF 2
/* Cuts are at least so far apart: BBR loses all the time and does not yield. */
#define COMPETITION_APART 2000000
/* What a loss leaves of the window that competes, as Cubic's. */
#define COMPETITION_BETA 7
#define COMPETITION_BETA_OF 10
/* Packets per round trip that the window grows by at most. */
#define COMPETITION_FASTEST 8
/* A test is due if this share is lost, beside what TOLERATED says. */
#define LOSSES_SHARE 4
#define LOSSES_SHARE_OF 1000
/* So many times the share that is the path's start no test. */
#define LOSSES_TOLERATED 3
#define LOSSES_TOLERATED_OF 2
/* The path loses at most this share. */
#define LOSSES_MOST 5
/* Packets over which the share is averaged. */
#define LOSSES_MEMORY 512
/* Packets over which the path's share falls to a lower one. */
#define LOSSES_FORGET 8192
/* A test lasts until so many losses would be expected. */
#define LOSSES_EXPECTED 8
/* A test lasts for so many packets at least. */
#define LOSSES_LEAST 64
/* With at most so many of those expected, sending less loses less. */
#define LOSSES_FEW 2
/* A test leaves no more than this part of the limit. */
#define LOSSES_BETA 85
#define LOSSES_BETA_OF 100
/* A test that takes longer ends with what it has seen. */
#define LOSSES_PATIENCE 3000000
/* A shorter queue cannot be told from none. */
#define LOSSES_GRAIN 250
/* A queue is as before, short or full, from this part of that on. */
#define LOSSES_HALF 2
/* Growth of the limit per RTT; a packet at least. */
#define LOSSES_RETURN 1
#define LOSSES_RETURN_OF 50
/* While this part of the full queue stands, others may share it. */
#define LOSSES_STANDS 4
/* While others may share the queue, the limit grows no faster in time than with such an RTT. */
#define LOSSES_SLOW 100000
/* The smallest limit, packets. */
#define LOSSES_SMALLEST 2
/* 1/packets in the queue. */
#define COPA_DELTA 11796
/* Queueing up to this is none: a host cannot tell it from its own delays. */
#define COPA_FLOOR 500
/* More than this share lost in each of two round trips in a row is heavy loss, too. */
#define COPA_PERSISTENT_LOSS 8
#define COPA_PERSISTENT_LOSS_OF 100
/* First window, packets. */
#define COPA_INITIAL 10
/* Smallest window, packets. */
#define COPA_MIN_WINDOW 2
#define COPA_SMOOTHING_OF 16
/* RTTs are compared with those of the last ten seconds at most. */
#define COPA_MIN_RTT_OVER 10000000
/* A silence after which what was learned is old. */
#define COPA_SILENCE 2000000
/* More than this share lost is no accident (genericCC). */
#define COPA_HEAVY_LOSS 3
#define COPA_HEAVY_LOSS_OF 10
/* Losses are judged over more than so many packets. */
#define COPA_JUDGED 20
/* What a heavy loss leaves of the window. */
#define COPA_BETA 7
#define COPA_BETA_OF 10
/* Times a window per standing RTT (section 2.1). */
#define COPA_PACING_GAIN 2
/* Periods in one direction before the velocity doubles (section 2.1). */
#define COPA_HOLD 3
/* Times 1/delta: where "far above the target" begins. */
#define COPA_OVERLOAD 5
/* Far above the target each packet takes off so many. */
#define COPA_DRAIN_STEP 1
#define COPA_DRAIN_STEP_OF 2
/* What a drain leaves of the bandwidth-delay product. */
#define COPA_DRAIN_GAIN 3
#define COPA_DRAIN_GAIN_OF 4
/* The path is nearly empty within this part of the minimum RTT above it. */
#define COPA_NEARLY_EMPTY 10
/* Bunching of ACKs is remembered for so long. */
#define COPA_BUNCHES_OVER 1000000
/* What tells a longer route from the queue of others, as Budget's delay does. */
#define COPA_DELAY 40000
/* ε: what an epoch lasts. */
#define VERUS_EPOCH 10000
/* R: the tolerated ratio of the largest to the smallest delay. */
#define VERUS_RATIO 6
/* R refers to a path of so many ms, so that unlike round trips tolerate one queue. */
#define VERUS_LIKE 40000
/* A path counts as so many times as long at least. */
#define VERUS_LONG_LEAST 64
/* A path counts as so many times as long at most. */
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
/* From one curve to the next. */
#define VERUS_REFIT 1000000
/* The first window, packets. */
#define VERUS_START 10
/* The part of the tolerated queue where equation 4 begins to push back, with the first window. */
#define VERUS_SOFT 62259
/* What a doubling of the window takes of SOFT. */
#define VERUS_YIELD 1
#define VERUS_YIELD_OF 10
/* SOFT falls to this. */
#define VERUS_LEAST_SOFT 6554
/* The part of the tolerated queue that ends slow start. */
#define VERUS_EXIT 3
#define VERUS_EXIT_OF 10
/* The part of the tolerated queue below which a queue is jitter. */
#define VERUS_JITTER 3
#define VERUS_JITTER_OF 20
/* What the cut by one sample leaves of D_est at least. */
#define VERUS_CUT 55706
/* So many times the queue seen, allowed by D_est, disprove the curve. */
#define VERUS_STALE 4
/* A slow start ended by loss forgets slots from the lost packet's label on, but none below this. */
#define VERUS_FORGET_FROM 100
/* In flight is never capped below so many packets (`tuned`). */
#define VERUS_CAP_FLOOR 4
/* How fast the rate of the cap falls to a lower sample, per epoch (`tuned`). */
#define VERUS_RATE_FALL 1
#define VERUS_RATE_FALL_OF 10
/* For so long the ceiling that a loss leaves grows by a packet per round trip. */
#define VERUS_CEILING_CALM 1000000
/* Afterwards each second without a loss adds so many to that. */
#define VERUS_CEILING_STEP 10
/* Times the rate of W in D_est (`tuned`; as Linux paces). */
#define VERUS_PACING_GAIN 2
/* A queue this much longer than the one seen contradicts nothing, ms (`tuned`). */
#define VERUS_STALE_FLOOR 10000
/* The smallest floor, packets (`tuned`). */
#define VERUS_MIN_FLOOR 2
/* The floor does not grow beyond this, packets (`tuned`). */
#define VERUS_MAX_FLOOR 50
/* A step of the floor is at most a packet, or this share of the window. */
#define VERUS_FLOOR_STEP 1
#define VERUS_FLOOR_STEP_OF 16
/* An epoch that lasts so many times as long as asked counts with its real length (`tuned`). */
#define VERUS_LATE 3
#define VERUS_LATE_OF 2
/* A queue up to this part of the smallest RTT is none. */
#define VERUS_NO_QUEUE 10
/* From this part of the smallest RTT on there is a queue. */
#define VERUS_SOME_QUEUE 4
/* A queue of this share of the longest is a long one. */
#define VERUS_LONG_QUEUE 7
#define VERUS_LONG_QUEUE_OF 10
/* The longest queue is that of so long. */
#define VERUS_MAX_QUEUE_MEMORY 3000000
/* How deep the buffer is, is remembered for so long. */
#define VERUS_DEPTH_MEMORY 30000000
/* A loss rate that counts if there is any queue. */
#define VERUS_LOSS_WITH_QUEUE 3
/* A loss rate that counts in any case. */
#define VERUS_LOSS_ALWAYS 10
/* A buffer of fewer smallest RTTs than this is short. */
#define VERUS_SHORT_BUFFER 12
#define VERUS_SHORT_BUFFER_OF 10
/* What a drain leaves of the bandwidth-delay product. */
#define VERUS_DRAIN_GAIN 3
#define VERUS_DRAIN_GAIN_OF 4
/* What the first drain leaves, packets. */
#define VERUS_MIN_DRAIN_WINDOW 2
/* Gain on the delivery rate while the queue fills again after a drain. */
#define VERUS_REFILL_GAIN 5
#define VERUS_REFILL_GAIN_OF 4
/* Above this smallest RTT only every second multiple of the period drains, ms. */
#define VERUS_LONG_PATH_MS 100000
/* A jump of the RTT is more than a quarter of this: a queue that R tolerates. */
#define VERUS_DELAY 160000
/* What D_est allows on a longer route until it is learned, ms. */
#define VERUS_ALLOWED 10000
/* D_min before the first sample, ms (program). */
#define VERUS_D_MIN_START 1000000
/* Windows from one node of the spline to the next: where the search for the divisor begins. */
#define VERUS_DIVISOR 15
/* A curve has so many nodes at least. */
#define VERUS_FEWEST 5
/* Part of the distance to the old window per round (BICTCP_B). */
#define BIC_PART 4
/* Largest step, packets per round (max_increment). */
#define BIC_MAX_STEP 16
/* Near the old window PART packets take so many rounds (smooth_part). */
#define BIC_SMOOTH 20
/* Up to this window it grows and falls as Reno's (low_window). */
#define BIC_LOW_WINDOW 14
/* What a loss leaves, of 1024 (beta). */
#define BIC_BETA 819
/* The step is computed anew after so long: 1/32 s. */
#define BIC_STALE 31250
/* Before the first loss the window grows by at least a packet per so many. */
#define BIC_FIRST_PERIOD 20
/* Fewest packets of its own in the queue. */
#define VEGAS_ALPHA 2
/* Most packets of its own in the queue. */
#define VEGAS_BETA 4
/* So many in the queue end slow start. */
#define VEGAS_GAMMA 1
/* A round of fewer samples is Reno's: they may all be delayed acknowledgements. */
#define VEGAS_SAMPLES 3
/* A sample of the rate lasts at least so long (TCP_WESTWOOD_RTT_MIN). */
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
