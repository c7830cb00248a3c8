/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How loss-based windows grow, in packets: the same for every algorithm here, and on every host. */
#pragma once

#include "pure.h"

/* Smallest threshold (RFC 5681, eq. 4). */
#define GROWTH_MIN 2U
#define GROWTH_MAX (1U << 16)

/* Packets. */
struct growth {
	__u32 cwnd, ssthresh;
};

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
