/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How loss-based windows grow, in packets: the same for every algorithm here, and on every host. */
#pragma once

#include "pure.h"

#define GROWTH_MAX (1U << 16)

/* No threshold (TCP_INFINITE_SSTHRESH of the kernel). */
#define GROWTH_NO_SSTHRESH 0x7fffffffU

/* Packets. */
struct growth {
	__u32 cwnd, ssthresh;
};

/* None of the controls here answers with another threshold. */
PURE int growth_is_answer(__u32 ssthresh)
{
	return ssthresh == GROWTH_NO_SSTHRESH || (ssthresh >= GROWTH_MIN_SSTHRESH && ssthresh <= GROWTH_MAX);
}

/*
 * Window and threshold where a program was not run that the stack asked for one: it takes for the
 * answer what its stack held before. `prior` is the window of before the losses, `left` the answer
 * that it should have had.
 */
PURE void growth_mend(struct growth *w, __u32 prior, __u32 left)
{
	if (!growth_is_answer(w->ssthresh)) {
		w->ssthresh = left;
		w->cwnd = w->cwnd < left ? w->cwnd : left;
	}
	if (w->cwnd > GROWTH_MAX)
		w->cwnd = prior < GROWTH_MAX ? prior : GROWTH_MAX;
}

PURE __u32 growth_bounded(__u32 cwnd)
{
	return cwnd < GROWTH_MAX ? cwnd : GROWTH_MAX;
}

/* A packet per acknowledged segment up to the threshold. Returns the segments left. */
PURE __u32 growth_slow_start(struct growth *w, __u32 acked)
{
	__u32 fast = 0;

	if (w->cwnd < w->ssthresh)
		fast = w->ssthresh - w->cwnd < acked ? w->ssthresh - w->cwnd : acked;
	w->cwnd = growth_bounded(w->cwnd + fast);
	return acked - fast;
}

/*
 * By how many packets the window grows at one per `period` (above 0) segments. `credit` are those
 * that have not moved it yet. What was counted under a longer period is worth one packet at most.
 */
PURE __u32 growth_credit(__u32 *credit, __u32 acked, __u32 period)
{
	__u32 before = *credit, grown = 0;

	if (before >= period) {
		before = 0;
		grown = 1;
	}
	before += acked;
	*credit = before % period;
	return grown + before / period;
}
