/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Verus (SIGCOMM 2015) in the form `tuned` of `cc`, one acknowledgement at a time, in integers. The
 * settings and their reasons stand in `verus/settings.rs`, what flows do in company in
 * `verus/company.rs`.
 *
 * Pure: the BPF program includes this file, and so does a host build. Times in microseconds.
 * Simplifications:
 *
 *  - The curve is that of profile.h.
 *  - Epochs end on acknowledgements: there are no timers.
 *  - Equation 5 is a window: what it lets settle in flight, by acknowledgements and not by epochs.
 *  - What was known when a packet was sent is looked up by its time of sending, to 4 ms.
 *  - A windowed extreme keeps at most 16 values.
 */
#pragma once

#include "drains.h"
#include "loss_rate.h"
#include "profile.h"
#include "rates.h"

#define VERUS_MS 1000U
#define VERUS_EPOCH (10 * VERUS_MS)
/* R, and the least base delay that it refers to. */
#define VERUS_RATIO 6
#define VERUS_MIN_BASE (20 * VERUS_MS)
/* Steps of the delay estimate, down and up. */
#define VERUS_DOWN (1 * VERUS_MS)
#define VERUS_UP (2 * VERUS_MS)
#define VERUS_REFIT 1000000U
#define VERUS_START (10 * ONE)
#define VERUS_FORGET_FROM 100
/* Never fewer in flight by the measured rate; the floor under the window, packets. */
#define VERUS_CAP_FLOOR (4 * ONE)
#define VERUS_MIN_FLOOR (2 * ONE)
#define VERUS_MAX_FLOOR (50 * ONE)
/* A queue this much longer than the one seen contradicts nothing. */
#define VERUS_STALE_FLOOR (10 * VERUS_MS)
#define VERUS_STALE 4
/* Windows that extremes of the queue are of. */
#define VERUS_QUEUE_MEMORY 3000000U
#define VERUS_DEPTH_MEMORY 30000000U
#define VERUS_LONG_PATH (100 * VERUS_MS)
/* What was sent when: one label per 4096 us. */
#define VERUS_SLOT 12
#define VERUS_LABELS 256

/* The largest value of a sliding window of time. */
struct verus_max {
	struct minimum of; /* of what is missing to MAX_RTT */
	__u32 value;
};

struct verus {
	__u64 window; /* W, 2^-20 packets; 0: not started */
	__u64 ceiling; /* the same, after losses; 0: none */
	__u64 floor; /* the same */
	__u64 next_epoch, epoch_at, heard, refit_at;
	__u64 repair_point, cut_point, hold, drained_at, reduced, by_chance, episode; /* 0: none */
	__u64 contradicted; /* since; 0: not */
	__u64 loss_rate; /* 2^-31 */
	__u64 slot; /* of the newest label */
	__u32 lasted; /* the last epoch */
	__u32 d_est, d_min, d_max, rtt, newest; /* us; 0: none yet */
	__u32 rate, newest_rate; /* packets per second, 2^-8 */
	__u32 slow_start, relearning, repairing, may_cut, idle, deep, overlooked;
	__u32 forget_from; /* slots to forget at the next fit; 0: none */
	__u32 in_flight; /* packets */
	/* For the BPF program: the stack's counter at the last acknowledgement. */
	__u32 lost;
	struct drains drains;
	struct verus_max near, longest, deepest;
	__u16 labels[VERUS_LABELS];
	struct profile profile;
};

struct verus_ack {
	__u64 now;
	__u64 sent_at; /* of the packet that `rtt` is of */
	__u32 rtt; /* 0: no sample */
	__u32 acked; /* segments */
	__u32 idle; /* the application was what held the sender back */
	__u32 rate; /* packets per second, 2^-8; 0: not known */
	__u32 in_flight; /* packets before it */
};

PURE void verus_max_insert(struct verus_max *m, __u64 now, __u32 value, __u64 window)
{
	m->value = MAX_RTT - minimum_insert(&m->of, now, MAX_RTT - value, window);
}

PURE __u32 verus_base(const struct verus *v)
{
	return v->d_min > VERUS_MIN_BASE ? v->d_min : VERUS_MIN_BASE;
}

PURE __u32 verus_packets(const struct verus *v)
{
	return v->window > ONE ? v->window >> 20 : 1;
}

PURE void verus_start(struct verus *v, __u64 now)
{
	v->window = VERUS_START;
	v->floor = VERUS_MIN_FLOOR;
	v->heard = now;
	v->next_epoch = (now / VERUS_EPOCH + 1) * VERUS_EPOCH;
	v->slow_start = 1;
	v->may_cut = 1;
	v->d_min = 1000 * VERUS_MS;
	v->slot = now >> VERUS_SLOT;
	drains_start(&v->drains, now);
}

struct verus_labelling {
	struct verus *verus;
	__u16 label;
};

static long verus_label(__u32 i, void *state)
{
	struct verus_labelling *l = state;

	l->verus->labels[(l->verus->slot - i) & (VERUS_LABELS - 1)] = l->label;
	return 0;
}

/* From now on packets leave under this window, or what of it is used. */
PURE_CALL int verus_note(struct verus *v, __u64 now)
{
	__u64 slot = now >> VERUS_SLOT, passed;
	struct verus_labelling l = {.verus = v};
	__u32 label, flight;

	if (!v)
		return 0;
	passed = slot - v->slot;
	label = verus_packets(v);
	flight = v->in_flight + 1;
	l.label = v->labels[v->slot & (VERUS_LABELS - 1)];
	if (passed > 1) {
		v->slot = slot - 1;
		LOOP((__u32)(passed - 1 < VERUS_LABELS ? passed - 1 : VERUS_LABELS), verus_label, &l);
	}
	v->slot = slot;
	if (label > flight)
		label = flight;
	v->labels[slot & (VERUS_LABELS - 1)] = label < 65535 ? label : 65535;
	return 0;
}

PURE __u32 verus_label_at(const struct verus *v, __u64 sent_at)
{
	__u64 slot = sent_at >> VERUS_SLOT;
	__u32 label;

	if (slot > v->slot)
		slot = v->slot;
	if (v->slot - slot >= VERUS_LABELS)
		slot = v->slot + 1;
	label = v->labels[slot & (VERUS_LABELS - 1)];
	return label ? label : 1;
}

PURE_CALL __u32 verus_delay_of(struct verus *v, __u64 window)
{
	__u32 w = window >> 20, least, delay;

	if (!v)
		return 0;
	least = v->drains.base ? v->d_min : 0;
	delay = v->profile.fitted ? profile_curve(&v->profile, w) : profile_point(&v->profile, w);
	return delay > least ? delay : least;
}

PURE_CALL __u64 verus_window_for_estimate(struct verus *v)
{
	__u32 last, known, most, found;

	if (!v)
		return ONE;
	last = v->profile.last;
	known = v->profile.largest;
	if (!v->profile.fitted)
		return v->window;
	if (known < last)
		known = last;
	most = known + (known / 8 > 2 ? known / 8 : 2);
	found = profile_window(&v->profile, v->d_est);
	return (found && found < most ? found : most) * ONE;
}

/* 1 + the soft limit x (R - 1), 2^-16: it falls by a tenth with each doubling of the window. */
PURE __u32 verus_soft_ratio(const struct verus *v)
{
	__u64 window = v->window >> 12, start = VERUS_START >> 12, soft, doubled;

	if (window >= start) {
		doubled = doublings(window, start) / 10;
		soft = doubled < 65536 ? 62259 * (65536 - doubled) >> 16 : 0;
	} else {
		doubled = doublings(start, window ? window : 1) / 10;
		soft = 62259 * (65536 + doubled) >> 16;
	}
	if (soft < 6554)
		soft = 6554;
	if (soft > 65536)
		soft = 65536;
	return 65536 + soft * (VERUS_RATIO - 1);
}

/* The RTT above which slow start ends. */
PURE __u32 verus_exit_rtt(const struct verus *v)
{
	__u32 queue = verus_base(v) * 3 / 2;

	if (queue > 250 * VERUS_MS)
		queue = 250 * VERUS_MS;
	return v->d_min + queue;
}

PURE __u32 verus_epochs(const struct verus *v)
{
	__u32 long_one = v->lasted > VERUS_EPOCH * 3 / 2 ? v->lasted : VERUS_EPOCH;
	__u32 n = (v->rtt + long_one - 1) / long_one;

	return n ? n : 1;
}

PURE_CALL int verus_leave_slow_start(struct verus *v, __u64 now)
{
	if (!v)
		return 0;
	v->slow_start = 0;
	if (v->relearning) {
		v->relearning = 0;
		/* What was known beyond belongs to a slower path. */
		profile_forget(&v->profile, verus_packets(v) + 1);
	} else {
		v->deep = 1;
		v->drains.unsure = 1;
	}
	v->refit_at = now;
	v->newest = 0;
	return 0;
}

/* The bandwidth-delay product. */
PURE __u64 verus_product(const struct verus *v)
{
	return v->drains.base ? packets_in(v->rate, v->d_min) : 0;
}

PURE __u64 verus_drained(const struct verus *v)
{
	__u64 left = verus_product(v) * 3 / 4;

	if (v->deep)
		return VERUS_MIN_FLOOR;
	if (left > v->window)
		left = v->window;
	return left > VERUS_MIN_FLOOR ? left : VERUS_MIN_FLOOR;
}

PURE int verus_long_queue(const struct verus *v)
{
	__u32 asked = (__u64)v->longest.value * 7 / 10;

	if (asked < v->drains.base / 10)
		asked = v->drains.base / 10;
	return v->near.value >= asked;
}

/* The buffer is short, and all that is lost is lost there. */
PURE int verus_short_buffer(const struct verus *v, __u64 now)
{
	if (v->by_chance && now - v->by_chance < VERUS_QUEUE_MEMORY)
		return 0;
	return verus_long_queue(v) && (__u64)v->deepest.value * 10 < (__u64)v->drains.base * 12;
}

/* A packet sent then says nothing of a full queue: in a drain, or while the queue fills again. */
PURE int verus_refilling(const struct verus *v, __u64 sent_at)
{
	return v->drains.draining || v->hold || (v->drained_at && sent_at < v->drained_at);
}

/* Equation 6. */
PURE_CALL int verus_reduce(struct verus *v, __u64 now, __u32 label)
{
	__u64 left = label * ONE * 7 / 10, product;

	if (!v)
		return 0;
	product = verus_product(v);
	if (left < product && !verus_short_buffer(v, now))
		left = product;
	if (left < ONE)
		left = ONE;
	v->ceiling = left;
	if (v->floor > left)
		v->floor = left;
	if (v->floor < VERUS_MIN_FLOOR)
		v->floor = VERUS_MIN_FLOOR;
	v->reduced = now;
	if (v->window > left)
		v->window = left;
	v->d_est = verus_delay_of(v, v->window);
	v->repairing = 1;
	v->repair_point = now;
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
	queue = v->near.value >= v->drains.base / 4;
	v->loss_rate = loss_rate_lost(v->loss_rate, lost, LOSS_RATE_SHORT);
	if (fresh)
		v->episode = now;
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
	if (!large && v->loss_rate <= (queue ? LOSS_RATE(3) : LOSS_RATE(10))) {
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

PURE void verus_timeout(struct verus *v, __u64 now)
{
	__u64 sent_at = v->heard;

	v->heard = now;
	if (!verus_refilling(v, sent_at))
		verus_reduce(v, now, verus_label_at(v, sent_at));
	if (v->slow_start)
		verus_leave_slow_start(v, now);
}

/* Equations 2 to 4 for one epoch. 1: the delay is tolerable, 0: it is not, -1: nothing is known. */
PURE_CALL int verus_estimate(struct verus *v, __u64 now, __u64 silence, int no_increase)
{
	__u32 sample, old, raw, new, base, limit, share;
	__u64 soft;
	int calm;

	if (!v)
		return -1;
	sample = v->newest;
	old = v->d_max;
	base = verus_base(v);
	limit = VERUS_RATIO * base;
	soft = (__u64)base * verus_soft_ratio(v) >> 16;
	v->newest = 0;
	if (!sample && silence <= old)
		return -1;
	raw = sample ? sample : silence;
	if (!raw || silence > MAX_RTT)
		return -1;
	if (!old)
		old = raw;
	new = ((__u64)old + 4 * (__u64)raw) / 5;
	calm = new <= soft && raw <= limit;
	if (raw > limit) {
		if (v->may_cut) {
			share = ((__u64)limit << 16) / raw;
			if (share < 55706)
				share = 55706;
			if (v->d_est > limit)
				v->d_est = limit;
			v->d_est = (__u64)v->d_est * share >> 16;
			v->may_cut = 0;
			v->cut_point = now;
		}
	} else if (new > soft) {
		v->d_est = v->d_est > VERUS_UP ? v->d_est - VERUS_UP : 0;
	} else if (raw > old && raw - v->d_min >= (limit - base) * 3 / 20) {
		v->d_est = v->d_est > VERUS_DOWN ? v->d_est - VERUS_DOWN : 0;
	} else if (!no_increase) {
		v->d_est += VERUS_UP;
	}
	if (v->d_est < v->d_min)
		v->d_est = v->d_min;
	if (v->d_est > limit)
		v->d_est = limit;
	v->d_max = new;
	return sample && !no_increase ? calm : -1;
}

/* Whether the curve is out of date: the estimate far above what the path does, for two RTTs. */
PURE int verus_contradicted(struct verus *v, __u64 now)
{
	__u32 seen = v->newest, queue;

	if (!seen)
		return 0;
	queue = seen > v->d_min ? seen - v->d_min : 0;
	if (seen >= verus_exit_rtt(v) || v->idle || v->repairing ||
	    v->d_est <= v->d_min + VERUS_STALE * queue + VERUS_STALE_FLOOR ||
	    (v->ceiling && v->window >= v->ceiling)) {
		v->contradicted = 0;
		return 0;
	}
	if (!v->contradicted)
		v->contradicted = now;
	return now - v->contradicted > 2 * (__u64)v->rtt;
}

/* False: too little is known for a first curve. */
PURE int verus_fit(struct verus *v, __u64 now)
{
	if (now < v->refit_at)
		return 1;
	v->refit_at = now + VERUS_REFIT;
	if (v->forget_from)
		profile_forget(&v->profile, v->forget_from);
	v->forget_from = 0;
	if (!profile_fit(&v->profile) && !v->profile.fitted) {
		/* Without a curve the estimate would grow for ever. */
		v->slow_start = 1;
		v->repairing = 0;
		v->ceiling = 0;
		return 0;
	}
	return 1;
}

PURE_CALL int verus_move(struct verus *v, int tolerable)
{
	__u64 window, epochs;

	if (!v)
		return 0;
	window = verus_window_for_estimate(v);
	epochs = verus_epochs(v);
	if (v->ceiling) {
		v->ceiling += (ONE + v->ceiling / 50) / epochs;
		if (window > v->ceiling)
			window = v->ceiling;
		if (v->ceiling > MAX_CWND)
			v->ceiling = 0;
	}
	if (tolerable == 1)
		v->floor += ONE / epochs;
	else if (tolerable == 0)
		v->floor -= v->floor * 3 / 10 / epochs;
	if (v->floor > VERUS_MAX_FLOOR)
		v->floor = VERUS_MAX_FLOOR;
	if (v->floor < VERUS_MIN_FLOOR)
		v->floor = VERUS_MIN_FLOOR;
	v->window = window > v->floor ? window : v->floor;
	return 0;
}

PURE_CALL int verus_epoch(struct verus *v, __u64 now)
{
	int no_increase, tolerable = -1;
	__u64 silence;

	if (!v)
		return 0;
	silence = now - v->heard;
	v->lasted = now - v->epoch_at < MAX_RTT ? now - v->epoch_at : MAX_RTT;
	v->epoch_at = now;
	if (v->newest_rate > v->rate)
		v->rate = v->newest_rate;
	else if (!v->drains.draining && !v->hold)
		v->rate -= (v->rate - v->newest_rate) / 10;
	if (v->slow_start || !verus_fit(v, now))
		return 0;
	if (v->drains.draining) {
		v->contradicted = 0;
		v->window = verus_drained(v);
		return 0;
	}
	if (verus_contradicted(v, now)) {
		v->contradicted = 0;
		v->slow_start = 1;
		v->relearning = 1;
		return 0;
	}
	no_increase = v->idle;
	v->idle = 0;
	if (!v->hold && !(no_increase && !v->in_flight))
		tolerable = verus_estimate(v, now, silence, no_increase);
	return verus_move(v, tolerable);
}

/* Ends an epoch that is over. */
PURE void verus_tick(struct verus *v, __u64 now)
{
	if (now < v->next_epoch)
		return;
	v->next_epoch = (now / VERUS_EPOCH + 1) * VERUS_EPOCH;
	verus_epoch(v, now);
}

/* What an RTT says of queue and drains. */
PURE_CALL int verus_see(struct verus *v, __u64 now, __u64 sent_at, __u32 rtt)
{
	__u32 base, queue;

	if (!v)
		return 0;
	base = v->drains.base;
	queue = drains_sample(&v->drains, now, rtt, base / 10, base / 4);
	verus_max_insert(&v->near, now, queue, base / 2 + VERUS_EPOCH);
	verus_max_insert(&v->longest, now, queue, VERUS_QUEUE_MEMORY);
	verus_max_insert(&v->deepest, now, queue, VERUS_DEPTH_MEMORY);
	if (v->hold && sent_at >= v->hold) {
		v->hold = 0;
		v->drained_at = now;
	}
	if (drains_step(&v->drains, now, sent_at, !v->slow_start,
			1 + (base > VERUS_LONG_PATH && !v->deep)) == DRAINS_END) {
		__u64 window;

		v->deep = 0;
		v->drained_at = now;
		v->hold = now;
		v->d_min = v->drains.base;
		v->newest = 0;
		v->d_max = 0;
		window = verus_window_for_estimate(v);
		if (window > v->window)
			v->window = window;
	}
	return 0;
}

PURE void verus_sample(struct verus *v, __u32 rtt)
{
	if (rtt > v->newest)
		v->newest = rtt;
	v->rtt = v->rtt ? (7 * (__u64)v->rtt + rtt) / 8 : rtt;
	if (rtt < v->d_min)
		v->d_min = rtt;
}

PURE_CALL int verus_acked(struct verus *v, const struct verus_ack *a)
{
	__u32 rtt, label, delay;

	if (!v || !a)
		return 0;
	rtt = a->rtt < MAX_RTT ? a->rtt : 0;
	label = verus_label_at(v, a->sent_at);
	v->heard = a->now;
	v->in_flight = a->in_flight > a->acked ? a->in_flight - a->acked : 0;
	if (a->idle)
		v->idle = 1;
	if (a->rate)
		v->newest_rate = a->rate < 1U << 30 ? a->rate : 1U << 30;
	if (v->slow_start && rtt > verus_exit_rtt(v)) {
		/* The label's delay is bearable: stay there. */
		v->window = label * ONE;
		v->d_est = rtt > v->d_min ? rtt : v->d_min;
		verus_leave_slow_start(v, a->now);
	}
	if (v->repairing && a->sent_at >= v->repair_point && label <= verus_packets(v)) {
		v->repairing = 0;
		v->newest = 0;
	}
	if (rtt) {
		verus_sample(v, rtt);
		v->loss_rate = loss_rate_delivered(v->loss_rate, a->acked, LOSS_RATE_SHORT);
		verus_see(v, a->now, a->sent_at, rtt);
	}
	if (v->repairing) {
		v->window += a->acked * ONE / verus_packets(v);
		delay = verus_delay_of(v, v->window);
		if (v->d_est > delay)
			v->d_est = delay;
	} else if (rtt && !a->idle) {
		profile_update(&v->profile, label, rtt, v->relearning ? 0 : 7);
	}
	if (!v->cut_point || a->sent_at >= v->cut_point)
		v->may_cut = 1;
	/* A window that nothing tests does not grow. */
	if (v->slow_start && v->window <= 2 * ONE * label)
		v->window += a->acked * ONE;
	if (v->window > MAX_CWND)
		v->window = MAX_CWND;
	return 0;
}

/* What may be in flight. Equation 5 settles slightly above W with few epochs in a round trip. */
PURE_CALL __u64 verus_cwnd(const struct verus *v)
{
	__u64 n, window, cap;

	if (!v)
		return ONE;
	n = verus_epochs(v);
	window = v->window;
	if (v->slow_start || v->drains.draining)
		return window;
	if (n > 2)
		window += window / (n * (n - 1) - 1);
	cap = packets_in(v->rate, VERUS_RATIO * verus_base(v));
	if (v->rate && window > cap)
		window = cap;
	if (window < VERUS_CAP_FLOOR && v->window >= VERUS_CAP_FLOOR)
		window = VERUS_CAP_FLOOR;
	return window;
}

/* Bytes per second: what refills the queue after a drain comes by no burst. 0: not known yet. */
PURE __u64 verus_pacing_rate(const struct verus *v, __u32 mss)
{
	if (!v->rtt)
		return 0;
	if (v->hold && v->rate)
		return (__u64)v->rate * mss * 5 / 4 >> 8;
	return (2 * verus_cwnd(v) * mss >> 20) * 1000000 / v->rtt;
}
