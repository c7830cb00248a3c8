/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BIC (Xu, Harfoush and Rhee, INFOCOM 2004), one acknowledgement at a time, in integers.
 *
 * Pure: the BPF program includes this file, and so does a host build that replays the same
 * acknowledgements through it and through `cc`. It is `bic:profile=linux`. The host of the control
 * repairs losses; here stand the search for the window of the last loss, and what a loss leaves.
 */
#pragma once

#include "growth.h"

/* A bound of segments per acknowledgement, in sixteenths, against overflow. */
#define BIC_MAX_RATIO (1U << 24)

struct bic {
	__u64 found_at; /* us: when the period was computed; 0: not yet */
	__u32 found_for; /* and for which window */
	__u32 last_max; /* packets */
	__u32 period; /* a packet more per this many acknowledgements */
	__u32 credit; /* acknowledgements that have not moved the window yet */
	__u32 ratio; /* segments per acknowledgement, in sixteenths, averaged */
	__u32 repairing;
};

PURE void bic_start(struct bic *b)
{
	b->found_at = 0;
	b->found_for = 0;
	b->last_max = 0;
	b->period = 1;
	b->credit = 0;
	b->ratio = ACK_RATIO_DELAYED;
}

/* An acknowledgement for `segments`; not while losses are repaired. */
PURE void bic_measure(struct bic *b, __u32 segments)
{
	__u32 ratio = b->ratio - b->ratio / 16;

	b->ratio = segments < BIC_MAX_RATIO - ratio ? ratio + segments : BIC_MAX_RATIO;
}

PURE __u32 bic_segments(const struct bic *b, __u32 cwnd)
{
	__u32 last = b->last_max, step;

	if (cwnd < last) {
		step = (last - cwnd) / BIC_PART;
		if (step <= 1)
			return cwnd * BIC_SMOOTH / BIC_PART;
		return cwnd / (step > BIC_MAX_STEP ? BIC_MAX_STEP : step);
	}
	if (cwnd < last + BIC_PART)
		return cwnd * BIC_SMOOTH / BIC_PART;
	if (cwnd < last + BIC_MAX_STEP * (BIC_PART - 1))
		return cwnd * (BIC_PART - 1) / (cwnd - last);
	return cwnd / BIC_MAX_STEP;
}

/* Acknowledgements per packet more. */
PURE __u32 bic_period(const struct bic *b, __u32 cwnd)
{
	__u32 period;

	if (cwnd <= BIC_LOW_WINDOW)
		return cwnd ? cwnd : 1;
	period = bic_segments(b, cwnd);
	if (!b->last_max && period > BIC_FIRST_PERIOD)
		period = BIC_FIRST_PERIOD;
	period = (__u64)period * 16 / (b->ratio ? b->ratio : 1);
	return period ? period : 1;
}

/* `now` in microseconds, above 0. Where acknowledgements are delayed, their ratio knows. */
PURE void bic_grow(struct bic *b, struct growth *w, __u64 now, __u32 acked)
{
	__u32 credit = b->credit;

	if (w->cwnd < w->ssthresh) {
		growth_slow_start(w, acked);
		return;
	}
	if (!b->found_at || b->found_for != w->cwnd || now - b->found_at > BIC_STALE) {
		b->found_at = now;
		b->found_for = w->cwnd;
		b->period = bic_period(b, w->cwnd);
	}
	w->cwnd = growth_bounded(w->cwnd + growth_credit(&credit, 1, b->period ? b->period : 1));
	b->credit = credit;
}

PURE __u32 bic_ssthresh(struct bic *b, __u32 cwnd)
{
	__u32 left = cwnd <= BIC_LOW_WINDOW ? cwnd / 2 : (__u64)cwnd * BIC_BETA / 1024;

	/* Somebody else needs room if it was not reached again. */
	b->last_max = cwnd < b->last_max ? (__u64)cwnd * (1024 + BIC_BETA) / 2048 : cwnd;
	b->found_at = 0;
	b->credit = 0;
	return left > GROWTH_MIN_SSTHRESH ? left : GROWTH_MIN_SSTHRESH;
}
