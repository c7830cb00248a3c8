/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What lets Verus flows share a path, and tells losses of a full queue from others:
 * `verus/company.rs` of `cc` says why.
 */
#pragma once

#include "verus_state.h"

/* The bandwidth-delay product. */
PURE __u64 verus_product(const struct verus *v)
{
	return v->drains.base ? packets_in(v->rate, v->d_min) : 0;
}

PURE __u64 verus_drained(const struct verus *v)
{
	__u64 left = verus_product(v) * VERUS_DRAIN_GAIN / VERUS_DRAIN_GAIN_OF;

	if (v->deep)
		return VERUS_MIN_DRAIN_WINDOW * ONE;
	if (left > v->window)
		left = v->window;
	return left > VERUS_MIN_DRAIN_WINDOW * ONE ? left : VERUS_MIN_DRAIN_WINDOW * ONE;
}

PURE int verus_long_queue(const struct verus *v)
{
	__u32 asked = (__u64)v->longest.value * VERUS_LONG_QUEUE / VERUS_LONG_QUEUE_OF;

	if (asked < v->drains.base / VERUS_NO_QUEUE)
		asked = v->drains.base / VERUS_NO_QUEUE;
	return v->near.value >= asked;
}

/* The buffer is short, and all that is lost is lost there. */
PURE int verus_short_buffer(const struct verus *v, __u64 now)
{
	if (v->by_chance && now - v->by_chance < VERUS_MAX_QUEUE_MEMORY)
		return 0;
	return verus_long_queue(v) && (__u64)v->deepest.value * VERUS_SHORT_BUFFER_OF < (__u64)v->drains.base * VERUS_SHORT_BUFFER;
}

/* A packet sent then says nothing of a full queue: in a drain, or while the queue fills again. */
PURE int verus_refilling(const struct verus *v, __u64 sent_at)
{
	return v->drains.draining || v->hold || (v->drained_at && sent_at < v->drained_at);
}

/* Equation 6. */
PURE_CALL int verus_reduce(struct verus *v, __u64 now, __u32 label)
{
	__u64 left = label * ONE * VERUS_DECREASE / VERUS_DECREASE_OF, product;

	if (!v)
		return 0;
	product = verus_product(v);
	if (left < product && !verus_short_buffer(v, now))
		left = product;
	if (left < ONE)
		left = ONE;
	v->before.window = v->window;
	v->before.ceiling = v->ceiling;
	v->before.ceiling_at = v->ceiling_at;
	v->before.floor = v->floor;
	v->ceiling = left;
	v->ceiling_at = now;
	if (v->floor > left)
		v->floor = left;
	if (v->floor < VERUS_MIN_FLOOR * ONE)
		v->floor = VERUS_MIN_FLOOR * ONE;
	v->reduced = now;
	if (v->window > left)
		v->window = left;
	v->d_est = verus_delay_of(v, v->window);
	v->repairing = 1;
	v->repair_point = now;
	return 0;
}

/* The last reduction was for packets that have arrived after all. */
PURE_CALL int verus_undone(struct verus *v)
{
	if (!v)
		return 0;
	v->repairing = 0;
	if (!v->before.window)
		return 0;
	if (v->window < v->before.window)
		v->window = v->before.window;
	if (v->floor < v->before.floor)
		v->floor = v->before.floor;
	v->ceiling = v->before.ceiling;
	v->ceiling_at = v->before.ceiling_at;
	v->d_est = verus_delay_of(v, v->window);
	v->before.window = 0;
	return 0;
}

/* Packets were lost, the last of them sent then. Before the acknowledgement that disclosed them. */
PURE_CALL int verus_lost(struct verus *v, __u64 now, __u64 sent_at, __u32 lost)
{
	int fresh, overlooked, large, queue;
	__u32 label;

	if (!v)
		return 0;
	fresh = !v->episode || sent_at >= v->episode;
	overlooked = v->overlooked && !fresh;
	queue = v->near.value >= v->drains.base / VERUS_SOME_QUEUE;
	v->loss_rate = loss_rate_lost(v->loss_rate, lost, LOSS_RATE_SHORT);
	if (fresh) {
		v->episode = now;
		/* A loss that proves spurious belongs to this episode. */
		v->before.window = 0;
	}
	if (v->repairing || (!fresh && !overlooked))
		return 0;
	if ((v->reduced && sent_at < v->reduced) || verus_refilling(v, sent_at))
		return 0;
	large = verus_long_queue(v);
	if (!large)
		v->by_chance = now;
	/* The bursts of slow start are a queue already. */
	if (v->slow_start && !queue)
		large = 0;
	if (!large && v->loss_rate <= (queue ? LOSS_RATE(VERUS_LOSS_WITH_QUEUE) : LOSS_RATE(VERUS_LOSS_ALWAYS))) {
		v->overlooked = 1;
		return 0;
	}
	v->overlooked = 0;
	label = verus_label_at(v, sent_at);
	verus_reduce(v, now, label);
	if (v->slow_start) {
		v->forget_from = label > VERUS_FORGET_FROM ? label : VERUS_FORGET_FROM;
		verus_leave_slow_start(v, now);
	}
	return 0;
}

/* The oldest packet has timed out. It leaves again, alone. */
PURE void verus_timeout(struct verus *v, __u64 now)
{
	__u64 sent_at = v->in_flight && v->oldest ? v->oldest : v->heard;

	v->heard = now;
	v->oldest = now;
	v->before.window = 0;
	if (!verus_refilling(v, sent_at))
		verus_reduce(v, now, verus_label_at(v, sent_at));
	if (v->slow_start)
		verus_leave_slow_start(v, now);
	v->used = 1;
	verus_note(v, now);
}

/* Effect of an RTT sample on queue and drains. */
PURE_CALL int verus_see(struct verus *v, __u64 now, __u64 sent_at, __u32 rtt)
{
	__u32 base, queue, every;
	__u64 window;
	int due, flat, longer;

	if (!v)
		return 0;
	base = v->drains.base;
	if (!v->slow_start && !v->drains.draining && !v->hold)
		route_look(&v->route, now, sent_at, rtt, base, VERUS_DELAY, v->rate);
	queue = drains_sample(&v->drains, now, rtt, base / VERUS_NO_QUEUE, base / VERUS_SOME_QUEUE);
	verus_max_insert(&v->near, now, queue, base / 2 + VERUS_EPOCH);
	verus_max_insert(&v->longest, now, queue, VERUS_MAX_QUEUE_MEMORY);
	verus_max_insert(&v->deepest, now, queue, VERUS_DEPTH_MEMORY);
	if (v->hold && sent_at >= v->hold) {
		v->hold = 0;
		v->drained_at = now;
		/* The curve is that of the shorter route. */
		if (v->carried)
			v->refit_at = now;
		v->carried = 0;
	}
	due = route_is_due(&v->route, now);
	/* A drain tells only if the RTTs of a second are all of the new route. */
	flat = rtt <= v->drains.recent + ROUTE_FLAT;
	every = due && flat ? 0 : 1 + (base > VERUS_LONG_PATH_MS && !v->deep);
	if (drains_step(&v->drains, now, sent_at, !v->slow_start && (due || !v->route.jumped_at), every) ==
	    DRAINS_END) {
		longer = route_is_longer(&v->route, now, &v->drains, VERUS_DELAY, 0, 0);
		if (longer) {
			drains_rise(&v->drains, now);
			if (v->rate < v->route.before)
				v->rate = v->route.before;
		}
		v->deep = 0;
		v->drained_at = now;
		v->hold = now;
		v->d_min = v->drains.base;
		v->newest = 0;
		v->d_max = 0;
		if (longer) {
			if (v->d_est < v->d_min + VERUS_ALLOWED)
				v->d_est = v->d_min + VERUS_ALLOWED;
			window = verus_product(v);
			if (v->window < window)
				v->window = window;
			v->carried = v->window;
		}
		window = verus_window_for_estimate(v);
		if (window > v->window)
			v->window = window;
	}
	return 0;
}
