/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether others keep a queue that no drain empties, and the window that competes with them:
 * `Competition` of Budget in `cc`, which says why. Times in microseconds, rates in packets per second
 * and units of 2^-8.
 */
#pragma once

#include "drains.h"
#include "rates.h"

/* Higher rates count as this high, so that no product overflows. */
#define COMPETITION_MAX_RATE (1U << 30)

struct competition {
	__u64 window; /* 2^-20 packets; 0: this flow does not compete */
	__u64 drained_at;
	__u64 began_at;
	__u64 cut_at; /* 0: no loss since it began */
	__u32 kept; /* drains in turn that left the queue as it was */
	__u32 rate; /* the mean from drain to drain, each counting half of the one after it */
	__u32 best; /* the largest rate from drain to drain, of those in turn */
	__u32 delivered; /* packets since the last drain */
};

PURE void competition_start(struct competition *c, __u64 now)
{
	c->drained_at = now;
}

PURE __u32 competition_every(const struct competition *c)
{
	return c->window ? COMPETITION_EVERY : 1;
}

/* A drain has ended: the rate since the one before it. */
PURE __u32 competition_measure(struct competition *c, __u64 now)
{
	__u64 span = now - c->drained_at, rate;

	if (span < COMPETITION_SHORTEST)
		span = COMPETITION_SHORTEST;
	rate = ((__u64)c->delivered << 8) * 1000000 / span;
	if (rate > COMPETITION_MAX_RATE)
		rate = COMPETITION_MAX_RATE;
	c->rate = c->rate ? ((__u64)c->rate + rate) / 2 : rate;
	c->delivered = 0;
	c->drained_at = now;
	return rate;
}

/* Queue that draining siblings may leave of flows with such a rate, us. */
PURE __u64 competition_siblings(__u32 rate)
{
	return ROUTE_SIBLINGS * 256ULL * 1000000 / (rate > 256 ? rate : 256);
}

/* A part of the budget: what a drain leaves is a queue of others. */
PURE int competition_stands(__u64 left, __u32 delay)
{
	return left * ROUTE_STANDS_OF > (__u64)ROUTE_STANDS * delay;
}

/*
 * Does what the last drain left show others? It stands, as what was there before the drain, and is more
 * than siblings leave. A slow flow cannot tell. While it competes, a part of what there was is its own.
 */
PURE int competition_shows(const struct competition *c, const struct drains *d, __u32 delay)
{
	__u64 left = d->left, before = d->before, siblings = competition_siblings(c->rate);

	if (siblings > (__u64)COMPETITION_SLOW * delay || left <= siblings)
		return 0;
	if (!competition_stands(left < before ? left : before, delay))
		return 0;
	return !c->window || left * COMPETITION_STILL_OF > before * COMPETITION_STILL;
}

/* A drain has ended; `delay` is 0 if for long nothing came back in it. The window would be `product`. */
PURE_CALL int competition_drained(struct competition *c, const struct drains *d, __u64 now,
				  __u32 delay, __u64 product)
{
	__u64 in_flight;
	__u32 rate;

	if (!c || !d)
		return 0;
	rate = competition_measure(c, now);
	if (!delay || !competition_shows(c, d, delay)) {
		c->kept = 0;
		c->best = 0;
		c->window = 0;
		return 0;
	}
	if (!c->window && (__u64)d->left * COMPETITION_AS_IT_WAS_OF <= (__u64)d->before * COMPETITION_AS_IT_WAS)
		return 0;
	if (c->kept < COMPETITION_DRAINS)
		c->kept++;
	if (c->best < rate)
		c->best = rate;
	if (c->kept < COMPETITION_DRAINS || c->window)
		return 0;
	/*
	 * In a deep buffer others have taken most of the rate by now, and a window of what is left would return
	 * too slowly.
	 */
	rate = (__u64)d->left * COMPETITION_DEEP_OF > (__u64)delay * COMPETITION_DEEP && c->best > c->rate ? c->best : c->rate;
	in_flight = packets_in(rate, (__u64)d->base + d->left);
	c->window = in_flight > product ? in_flight : product;
	if (c->window > MAX_CWND)
		c->window = MAX_CWND;
	c->began_at = now;
	c->cut_at = 0;
	return 0;
}

/*
 * A packet more per round trip of a window that was full, of which `cwnd` may be in flight. After a first
 * loss it is one more for each second since the last cut, up to a part of the window.
 */
PURE void competition_grow(struct competition *c, __u64 now, __u32 acked, __u64 cwnd)
{
	__u64 uncut = c->cut_at ? now - c->cut_at : 0, each, most;

	if (!c->window || cwnd < ONE)
		return;
	/* Units of 2^-10 packets. */
	each = ((1000000 + uncut) << 10) / 1000000;
	most = (c->window >> 10) * COMPETITION_FASTEST / COMPETITION_FASTEST_OF;
	if (most < 1 << 10)
		most = 1 << 10;
	if (each > most)
		each = most;
	c->window += ONE * acked * each / (cwnd >> 10);
	if (c->window > MAX_CWND)
		c->window = MAX_CWND;
}

/*
 * A packet is lost. Those sent before the last cut or soon after it say nothing new, nor do those of
 * before the competition.
 */
PURE void competition_lost(struct competition *c, __u64 now, __u64 sent_at, __u64 least)
{
	if (!c->window || sent_at < (c->cut_at ? c->cut_at : c->began_at))
		return;
	if (c->cut_at && now - c->cut_at < COMPETITION_APART)
		return;
	c->cut_at = now;
	c->window = c->window / COMPETITION_BETA_OF * COMPETITION_BETA;
	if (c->window < least)
		c->window = least;
}
