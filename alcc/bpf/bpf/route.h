/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether the route became longer: `Route` of Budget in `cc`. Its window then carries less than the rate,
 * so the rate falls from drain to drain; and neither that nor the drains shorten the RTT. What siblings
 * leave in a drain is no longer route, nor is what stands as a queue of others would. But after a jump of the RTT it is
 * one whatever stands. Times in microseconds, rates in packets per second and units of 2^-8.
 */
#pragma once

#include "competition.h"

struct route {
	__u64 sent_at; /* of the newest packet; 0: none yet */
	__u64 jumped_at; /* 0: the RTT did not jump */
	__u64 carried_until; /* a longer route carries `before` until then; 0: none does */
	__u32 rtt; /* of the newest packet */
	__u32 from; /* the RTT before the first jump */
	__u32 middle; /* between that and the last one; an RTT below ends it */
	__u32 before; /* the mean rate as it jumped */
	__u32 rate; /* the mean when the last drain ended */
};

/*
 * A packet is back, outside of drains; the mean rate is `mean`. The middle of a jump is that from `at_most`, if the RTT
 * before had more than that: a flow's own queue, which may shrink meanwhile.
 */
PURE void route_look(struct route *r, __u64 now, __u64 sent_at, __u32 rtt, __u32 at_most, __u32 delay, __u32 mean)
{
	__u64 sent_before = r->sent_at;
	__u64 gap = sent_at > sent_before ? sent_at - sent_before : 0;
	__u32 was = r->rtt;

	r->sent_at = sent_at;
	r->rtt = rtt;
	if (r->jumped_at && rtt < r->middle) {
		/* Delay of an outage or a queue is gone. The rest may be the route's. */
		__u32 stays = rtt > r->from ? rtt - r->from : 0;

		r->jumped_at = stays > delay / ROUTE_JUMP ? now : 0;
		r->middle = r->from + stays / 2;
	}
	if (!sent_before || rtt <= was || rtt - was <= delay / ROUTE_JUMP + gap * ROUTE_GAP)
		return;
	if (r->jumped_at) {
		/* A route is longer in both directions: ACKs show it first, packets half a round trip later. */
		__u32 rise = rtt > r->from ? rtt - r->from : 0;

		if (rise > (r->middle - r->from) * 2 + delay / ROUTE_JUMP) {
			r->jumped_at = now;
			r->middle = r->from + rise / 2;
		}
		return;
	}
	r->jumped_at = now;
	r->from = was < at_most ? was : at_most;
	r->middle = r->from + (rtt - was) / 2;
	if (!r->carried_until)
		r->before = mean;
}

/* The jump lasts: a drain tells whether the route is longer. */
PURE int route_is_due(const struct route *r, __u64 now)
{
	return r->jumped_at && now - r->jumped_at > ROUTE_LASTS;
}

PURE void route_pass(struct route *r, __u64 now)
{
	if (now >= r->carried_until)
		r->carried_until = 0;
}

/* The longer route carries what the shorter one carried, until that is measured. */
PURE __u32 route_carried(const struct route *r, __u32 mean)
{
	return r->carried_until && r->before > mean ? r->before : mean;
}

/*
 * A drain has ended; the mean rate is `rate`, 0: only a jump tells. `lost`: for long nothing came back in it. A jump is
 * drained again if so, and if a flow too fast to have many siblings has removed a queue but not the jump.
 */
PURE int route_is_longer(struct route *r, __u64 now, const struct drains *d, __u32 delay, int lost, __u32 rate)
{
	__u64 left = d->left, before = d->before;
	int fell = (__u64)rate * ROUTE_FELL_OF < (__u64)r->rate * ROUTE_FELL;
	int jumped = r->jumped_at && left > delay / ROUTE_SAME;
	int flat = before <= left + ROUTE_FLAT && left <= before + ROUTE_FLAT;
	__u64 siblings = competition_siblings(rate);
	int remains = siblings < delay / ROUTE_FAST && !flat && d->base + left >= r->middle;

	r->rate = rate;
	r->jumped_at = r->jumped_at && (lost || remains) ? now : 0;
	if (!jumped)
		r->before = rate;
	if (lost || !flat)
		return 0;
	if (jumped)
		return 1;
	if (!fell)
		return 0;
	return left > siblings && !competition_stands(left, delay);
}
