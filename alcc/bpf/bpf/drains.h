/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The smallest RTT, and when to send less than the path holds so that it can be seen: `Drains` of
 * `cc`, which says why. Times in microseconds. All sockets of a host see one clock, so that its
 * flows drain together.
 */
#pragma once

#include "minimum.h"

enum drained { DRAINS_NOTHING, DRAINS_BEGIN, DRAINS_AGAIN, DRAINS_END };

struct drains {
	__u64 base_at; /* when the smallest RTT was last seen */
	__u64 empty_at; /* when the path was last seen empty */
	__u64 turn; /* multiples of the period so far */
	__u64 since; /* of the drain */
	__u32 was; /* the smallest RTT then, or when it rose; 0: no drain yet */
	__u32 draining;
	__u32 unsure; /* the smallest RTT may be that of a queue */
	__u32 base; /* the smallest RTT; 0: none yet */
	__u32 recent; /* that of the last second; 0: none yet */
	__u32 recent_before; /* of the drain under way: that of the second before it */
	__u32 lowest; /* and the smallest RTT in it */
	__u32 before; /* queueing when the last drain began: that of the smallest RTT of a second */
	__u32 left; /* and what it left; 0 if the smallest RTT rose after it */
	__u32 held; /* the smallest RTT may not rise: others may keep the queue */
	struct minimum recent_rtt;
};

PURE void drains_start(struct drains *d, __u64 now)
{
	d->empty_at = now;
	d->base_at = now;
}

/* Returns how much of `rtt`, which is above 0, is queueing. */
PURE __u32 drains_sample(struct drains *d, __u64 now, __u32 rtt, __u32 same, __u32 empty)
{
	__u32 queueing;

	if (!d->base || rtt < d->base)
		d->base = rtt;
	if (d->draining && rtt < d->lowest)
		d->lowest = rtt;
	d->recent = minimum_insert(&d->recent_rtt, now, rtt, DRAINS_RECENT);
	queueing = rtt - d->base;
	if (queueing <= same)
		d->base_at = now;
	if (queueing <= empty)
		d->empty_at = now;
	return queueing;
}

/*
 * The drain that has just ended emptied a longer route: the smallest RTT is that of the last second. It
 * does not wait until the shorter one was not seen for long.
 */
PURE void drains_rise(struct drains *d, __u64 now)
{
	d->left = 0;
	d->base = d->recent;
	d->was = d->base;
	d->base_at = now;
}

/*
 * A packet sent at `sent_at` is back. No drain begins unless `may`: at every n-th multiple of the
 * period, with 0 at once.
 */
PURE enum drained drains_step(struct drains *d, __u64 now, __u64 sent_at, int may, __u32 every)
{
	__u64 turn = now / DRAINS_PERIOD;
	int turned = turn != d->turn && turn % (every ? every : 1) == 0;
	int fell = d->base + d->base / DRAINS_FELL + DRAINS_GRAIN < d->was;

	d->turn = turn;
	if (!d->draining) {
		if (!may || (every && !turned))
			return DRAINS_NOTHING;
		if (every && !d->unsure && !fell && now - d->empty_at <= DRAINS_PERIOD / DRAINS_MISSED)
			return DRAINS_NOTHING;
		d->draining = 1;
		d->since = now;
		d->was = d->base;
		d->recent_before = d->recent;
		d->lowest = MAX_RTT;
		return DRAINS_BEGIN;
	}
	if (sent_at < d->since)
		return DRAINS_NOTHING;
	if (fell) {
		d->since = now;
		d->was = d->base;
		return DRAINS_AGAIN;
	}
	d->draining = 0;
	d->unsure = 0;
	d->empty_at = now;
	d->before = d->recent_before > d->base ? d->recent_before - d->base : 0;
	d->left = d->lowest > d->base ? d->lowest - d->base : 0;
	if (now - d->base_at > DRAINS_MEMORY && !d->held)
		drains_rise(d, now);
	return DRAINS_END;
}
