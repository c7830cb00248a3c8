/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Westwood+ (Grieco and Mascolo, ACM CCR 2004), one acknowledgement at a time, in integers.
 *
 * Pure: the BPF program includes this file, and so does a host build that replays the same
 * acknowledgements through it and through `cc`. It is `westwood:profile=linux`. The host of the
 * control repairs losses; here stand growth, the measured rate, and what a loss leaves.
 */
#pragma once

#include "growth.h"

/* More segments in one sample count as this many, for the same reason. */
#define WESTWOOD_MAX_SEGMENTS (1U << 20)

struct westwood {
	__u64 first, second; /* the two filters: segments per microsecond, 2^-32; 0: no sample yet */
	__u64 since; /* us; 0: not started */
	__u32 segments; /* delivered in this sample */
	__u32 least; /* us; 0: not known */
	__u32 credit; /* segments that have not moved the window yet */
	__u32 delivered; /* the stack's counter at the last acknowledgement */
};

/* Capacity of the empty path, packets. */
PURE __u32 westwood_bdp(const struct westwood *w)
{
	__u64 packets = w->second * w->least >> 32;

	if (packets < GROWTH_MIN_SSTHRESH)
		return GROWTH_MIN_SSTHRESH;
	return packets < GROWTH_MAX ? packets : GROWTH_MAX;
}

/* Before the window grows. `now` and `rtt` in microseconds; rtt 0: no sample. */
PURE void westwood_measure(struct westwood *w, __u64 now, __u32 rtt, __u32 acked)
{
	__u64 least_span = rtt > (__u64)WESTWOOD_MIN_SAMPLE ? rtt : (__u64)WESTWOOD_MIN_SAMPLE;
	__u64 span, rate;

	if (!w->since)
		w->since = now;
	span = now - w->since;
	if (span > least_span) {
		rate = ((__u64)w->segments << 32) / span;
		if (w->second) {
			w->first = (7 * w->first + rate) / 8;
			w->second = (7 * w->second + w->first) / 8;
		} else {
			w->first = rate;
			w->second = rate;
		}
		w->since = now;
		w->segments = 0;
	}
	w->segments += acked;
	if (w->segments > WESTWOOD_MAX_SEGMENTS)
		w->segments = WESTWOOD_MAX_SEGMENTS;
	if (rtt > MAX_RTT)
		rtt = MAX_RTT;
	if (rtt && (!w->least || rtt < w->least))
		w->least = rtt;
}

/* Slow start, then one packet per window (RFC 5681, section 3.1). */
PURE void westwood_grow(struct westwood *w, struct growth *g, __u32 acked)
{
	__u32 credit = w->credit;

	if (!g->cwnd)
		g->cwnd = 1;
	acked = growth_slow_start(g, acked);
	if (acked)
		g->cwnd = growth_bounded(g->cwnd + growth_credit(&credit, acked, g->cwnd));
	w->credit = credit;
}

PURE __u32 westwood_ssthresh(struct westwood *w, __u32 cwnd)
{
	w->credit = 0;
	return cwnd / 2 > GROWTH_MIN_SSTHRESH ? cwnd / 2 : GROWTH_MIN_SSTHRESH;
}

/* A timeout: the new threshold. The smallest RTT is learned anew. */
PURE __u32 westwood_timeout(struct westwood *w)
{
	__u32 bdp = westwood_bdp(w);

	w->least = 0;
	return bdp;
}
