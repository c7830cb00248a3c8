/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A window that user space sets: how much of it is allowed, and whether anybody still sets it.
 * Pure functions, without the kernel. Windows in packets, times in microseconds.
 */
#pragma once

#include <linux/types.h>

#define WINDOW_LEAST 2
#define WINDOW_MOST 65536
/* So long acknowledgements may come without an answer from user space. */
#define WINDOW_PATIENCE 500000
/* After such a pause the next answer may take its time again: an idle program sleeps. */
#define WINDOW_PAUSE 250000

/* A quota of who has been silent for so long is old: the window alone holds. */
#define WINDOW_QUOTA_HOLDS 100000

/* With such a smoothed RTT a raised window waits for an acknowledgement, on the average half of it. */
#define WINDOW_NEAR 1000

/*
 * Packets per second at least. The stack waits out the pause after a packet whatever is set in the
 * meantime: at one byte per second that would be half an hour.
 */
#define WINDOW_SLOWEST 10

struct window {
	__u64 answered;
	__u64 last_ack;
	__u32 beat; /* of the last answer */
	__u32 round_began; /* packets delivered in total at this round's beginning */
	__u32 round_ends; /* and at its end */
	__u32 last_round; /* packets delivered in the last round that says how many */
	__u32 tested; /* the window was what held the sender back, in this round */
};

/* A connection taken over in mid-life has had `cwnd` delivered, as far as anybody knows. */
static inline void window_start(struct window *w, __u64 now, __u32 delivered, __u32 cwnd)
{
	w->answered = now;
	w->last_ack = now;
	w->beat = 0;
	w->round_began = delivered;
	w->round_ends = delivered + cwnd;
	w->last_round = cwnd;
	w->tested = 0;
}

/* With each acknowledgement. Is the window still somebody's? */
static inline int window_is_steered(struct window *w, __u64 now, __u32 beat)
{
	if (beat != w->beat || now - w->last_ack > WINDOW_PAUSE)
		w->answered = now;
	w->beat = beat;
	w->last_ack = now;
	return now - w->answered <= WINDOW_PATIENCE;
}

/*
 * Does the quota still hold? A program that has ended leaves a quota that is used up, and what the
 * kernel has left to send would go two packets per round trip.
 */
static inline int window_quota_holds(const struct window *w, __u64 now, __u32 beat)
{
	return beat != w->beat || now - w->answered <= WINDOW_QUOTA_HOLDS;
}

/*
 * A round ends when what was in flight at its beginning has been delivered. Where half of the
 * window was never used (RFC 9002, section 7.8), the sender was the limit and not the path: few
 * packets delivered say nothing then.
 */
static inline void window_round(struct window *w, __u32 delivered, __u32 in_flight, int tested)
{
	__u32 now = delivered - w->round_began;

	w->tested |= tested;
	if ((__s32)(delivered - w->round_ends) < 0)
		return;
	if (w->tested || now > w->last_round)
		w->last_round = now;
	w->tested = 0;
	w->round_began = delivered;
	w->round_ends = delivered + in_flight;
}

/*
 * A window that lets out no more than `until` transmissions in total, of which `sent` have left: a
 * packet that is delivered or lost makes no room for another. The numbers wrap. 0: no such limit.
 */
static inline __u32 window_until(__u32 wish, __u32 until, __u32 sent, __u32 in_flight)
{
	__s32 left = (__s32)(until - sent);
	__u32 most = in_flight + (left > 0 ? left : 0);

	return until && most < wish ? most : wish;
}

/*
 * What of a wish is allowed. While losses are repaired at most twice what the last round
 * delivered: a window far above the path would lose more than it delivers. Otherwise four times
 * that and ten, which is faster than slow start.
 */
static inline __u32 window_allowed(const struct window *w, __u32 wish, __u32 clamp, int repairing)
{
	__u64 most = (__u64)w->last_round * (repairing ? 2 : 4) + (repairing ? 0 : 10);

	if (most > WINDOW_MOST)
		most = WINDOW_MOST;
	if (clamp && most > clamp)
		most = clamp;
	if (most < WINDOW_LEAST)
		most = WINDOW_LEAST;
	if (wish < WINDOW_LEAST)
		return WINDOW_LEAST;
	return wish < most ? wish : (__u32)most;
}

/* What of a wished rate is taken; bytes per second. */
static inline __u64 window_paced(__u64 rate, __u32 mss)
{
	__u64 least = (__u64)mss * WINDOW_SLOWEST;

	return rate < least ? least : rate;
}
