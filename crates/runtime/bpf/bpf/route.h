/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether the route became longer: `Route` of Budget in `cc`. Its window then carries less than the rate,
 * so the rate falls from drain to drain; and neither that nor the drains shorten the RTT. What siblings
 * leave in a drain is no longer route, nor is what stands as a queue of others would. Times in
 * microseconds, rates in packets per second and units of 2^-8.
 */
#pragma once

#include "competition.h"

/*
 * The RTT before a drain and the least in it are the same if the second is lower or higher by no more than
 * this.
 */
#define ROUTE_LOWER 2000
#define ROUTE_HIGHER 3000

struct route {
	__u32 rate; /* the mean when the last drain ended */
};

/* A drain has ended; the mean rate is `rate`. `lost`: for long nothing came back in it. */
PURE int route_is_longer(struct route *r, const struct drains *d, __u32 delay, int lost, __u32 rate)
{
	__u64 left = d->left, before = d->before;
	/* To no more than 95 %. */
	int fell = rate * 100ULL < r->rate * 95ULL;

	r->rate = rate;
	if (!fell || lost || before > left + ROUTE_LOWER || left > before + ROUTE_HIGHER)
		return 0;
	return left > competition_siblings(rate) && !competition_stands(left, delay);
}
