/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a Verus flow knows, and what follows from that alone. The settings and their reasons stand
 * in `verus/settings.rs` of `cc`. Times in microseconds.
 */
#pragma once

#include "drains.h"
#include "loss_rate.h"
#include "profile.h"
#include "rates.h"
#include "route.h"

/* Times of transmission: one label per 4096 us. */
#define VERUS_SLOT 12
#define VERUS_LABELS 256

/* The largest value of a sliding window of time. */
struct verus_max {
	struct minimum of; /* of what is missing to MAX_RTT */
	__u32 value;
};

/* State before the last reduction, which a spurious loss restores. */
struct verus_before {
	__u64 window; /* 0: there is nothing to give back */
	__u64 ceiling, ceiling_at, floor;
};

struct verus {
	__u64 window; /* W, 2^-20 packets; 0: not started */
	__u64 ceiling; /* the same, after losses; 0: none */
	__u64 ceiling_at; /* when the loss was noticed that it is of */
	__u64 floor; /* the same */
	__u64 carried; /* the same: what a longer route carries, until a round trip of it is measured; 0: none */
	struct verus_before before;
	__u64 next_epoch, epoch_at, heard, refit_at;
	__u64 repair_point, cut_point, hold, drained_at, reduced, by_chance, episode; /* 0: none */
	__u64 contradicted; /* since; 0: not */
	__u64 loss_rate; /* 2^-31 */
	__u64 slot; /* of the newest label */
	__u64 oldest; /* about when the oldest packet in flight left */
	__u32 lasted; /* the last epoch */
	__u32 d_est, d_min, d_max, rtt, newest; /* us; 0: none yet */
	__u32 tolerated; /* queue, us: (R - 1) * VERUS_LIKE */
	__u32 rate, newest_rate; /* packets per second, 2^-8 */
	__u32 slow_start, relearning, repairing, may_cut, idle, deep, overlooked;
	__u32 forget_from; /* slots to forget at the next fit; 0: none */
	__u32 in_flight; /* packets */
	__u32 used; /* packets in flight before the last acknowledgement */
	__u32 first; /* packets acknowledged, until more than the largest label were */
	/* For the BPF program: the stack's counter at the last acknowledgement. */
	__u32 lost;
	struct drains drains;
	struct route route;
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

/* Length of this path in multiples of `VERUS_LIKE`, within bounds, 2^-8. */
PURE __u32 verus_long(const struct verus *v)
{
	__u32 times = ((__u64)v->d_min << 8) / VERUS_LIKE;

	if (times < VERUS_LONG_LEAST)
		times = VERUS_LONG_LEAST;
	return times < VERUS_LONG_MOST ? times : VERUS_LONG_MOST;
}

PURE __u32 verus_packets(const struct verus *v)
{
	return v->window > ONE ? v->window >> 20 : 1;
}

PURE void verus_start(struct verus *v, __u64 now, __u32 ratio)
{
	v->tolerated = (ratio - (1 << 8)) * VERUS_LIKE >> 8;
	v->window = VERUS_START * ONE;
	v->floor = VERUS_MIN_FLOOR * ONE;
	v->heard = now;
	v->next_epoch = (now / VERUS_EPOCH + 1) * VERUS_EPOCH;
	v->slow_start = 1;
	v->may_cut = 1;
	v->d_min = VERUS_D_MIN_START;
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

/*
 * From now on packets leave under this window, or what of it is used. What is acknowledged makes
 * room for as many packets: the last of them has as many in flight before it as there were.
 */
PURE_CALL int verus_note(struct verus *v, __u64 now)
{
	__u64 slot = now >> VERUS_SLOT, passed;
	struct verus_labelling l = {.verus = v};
	__u32 label, flight;

	if (!v)
		return 0;
	passed = slot - v->slot;
	label = verus_packets(v);
	flight = v->used ? v->used : 1;
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

/*
 * Before the first ACK no label was noted. Those packets left in a row: as many were in flight after a packet as
 * were acknowledged with it.
 */
PURE __u32 verus_label_at(const struct verus *v, __u64 sent_at)
{
	__u64 slot = sent_at >> VERUS_SLOT;
	__u32 label;

	if (slot > v->slot)
		slot = v->slot;
	if (v->slot - slot >= VERUS_LABELS)
		slot = v->slot + 1;
	label = v->labels[slot & (VERUS_LABELS - 1)];
	if (!label)
		label = v->first < verus_packets(v) ? v->first : verus_packets(v);
	return label ? label : 1;
}

/*
 * The window to learn the delay of. One that rises passes by all windows between two labels: each has its part of
 * the time.
 */
PURE __u32 verus_passed(const struct verus *v, __u64 sent_at, __u32 label)
{
	__u64 slot = sent_at >> VERUS_SLOT, within = sent_at & ((1U << VERUS_SLOT) - 1);
	__u32 before = v->labels[(slot - 1) & (VERUS_LABELS - 1)];

	if (slot > v->slot || v->slot - slot >= VERUS_LABELS - 1 || !before || before >= label)
		return label;
	return before + ((label - before) * within >> VERUS_SLOT);
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

/* The part of the tolerated queue where equation 4 pushes back, 2^-16: less per doubling. */
PURE __u32 verus_soft_part(const struct verus *v)
{
	__u64 window = (v->window >> 4) / verus_long(v), start = VERUS_START * ONE >> 12, soft, doubled;

	if (window >= start) {
		doubled = doublings(window, start) * VERUS_YIELD / VERUS_YIELD_OF;
		soft = doubled < 65536 ? VERUS_SOFT * (65536 - doubled) >> 16 : 0;
	} else {
		doubled = doublings(start, window ? window : 1) * VERUS_YIELD / VERUS_YIELD_OF;
		soft = VERUS_SOFT * (65536 + doubled) >> 16;
	}
	if (soft < VERUS_LEAST_SOFT)
		soft = VERUS_LEAST_SOFT;
	if (soft > 65536)
		soft = 65536;
	return soft;
}

/* The RTT above which slow start ends. */
PURE __u32 verus_exit_rtt(const struct verus *v)
{
	return v->d_min + v->tolerated * VERUS_EXIT / VERUS_EXIT_OF;
}

PURE __u32 verus_epochs(const struct verus *v)
{
	__u32 long_one = v->lasted > VERUS_EPOCH * VERUS_LATE / VERUS_LATE_OF ? v->lasted : VERUS_EPOCH;
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
		/* Points beyond belong to a slower path. */
		profile_forget(&v->profile, verus_packets(v) + 1);
	} else {
		v->deep = 1;
		v->drains.unsure = 1;
	}
	v->refit_at = now;
	v->newest = 0;
	return 0;
}
