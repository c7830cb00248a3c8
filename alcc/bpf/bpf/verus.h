/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Verus (SIGCOMM 2015) in the form `tuned` of `cc`, one acknowledgement at a time, in integers.
 *
 * Pure: the BPF program includes this file, and so does a host build. Times in microseconds.
 * Simplifications:
 *
 *  - The curve is that of profile.h.
 *  - Epochs end on acknowledgements: there are no timers.
 *  - Equation 5 is a window: what it lets settle in flight, by acknowledgements and not by epochs.
 *  - What was known when a packet was sent is looked up by its time of sending, to 4 ms.
 *  - A windowed extreme keeps fewer values.
 */
#pragma once

#include "verus_company.h"

/* Equations 2 to 4 for one epoch. 1: the delay is tolerable, 0: it is not, -1: nothing is known. */
PURE_CALL int verus_estimate(struct verus *v, __u64 now, __u64 silence, int no_increase)
{
	__u32 sample, old, raw, new, limit, share;
	__u64 soft;
	int calm;

	if (!v)
		return -1;
	sample = v->newest;
	old = v->d_max;
	limit = v->d_min + v->tolerated;
	soft = v->d_min + ((__u64)v->tolerated * verus_soft_part(v) >> 16);
	v->newest = 0;
	if (!sample && silence <= old)
		return -1;
	raw = sample ? sample : silence;
	if (!raw || silence > MAX_RTT)
		return -1;
	if (!old)
		old = raw;
	new = (VERUS_ALPHA * (__u64)old + (VERUS_ALPHA_OF - VERUS_ALPHA) * (__u64)raw) / VERUS_ALPHA_OF;
	calm = new <= soft && raw <= limit;
	if (raw > limit) {
		if (v->may_cut) {
			share = ((__u64)limit << 16) / raw;
			if (share < VERUS_CUT)
				share = VERUS_CUT;
			if (v->d_est > limit)
				v->d_est = limit;
			v->d_est = (__u64)v->d_est * share >> 16;
			v->may_cut = 0;
			v->cut_point = now;
		}
	} else if (new > soft) {
		v->d_est = v->d_est > VERUS_UP ? v->d_est - VERUS_UP : 0;
	} else if (raw > old && raw - v->d_min >= v->tolerated * VERUS_JITTER / VERUS_JITTER_OF) {
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

/* True if the curve is out of date: the estimate far above what the path does, for two RTTs. */
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
	__u64 window, epochs, times, step, calm;

	if (!v)
		return 0;
	window = verus_window_for_estimate(v);
	epochs = verus_epochs(v);
	times = verus_long(v);
	if (v->ceiling) {
		calm = v->epoch_at > v->ceiling_at ? v->epoch_at - v->ceiling_at : 0;
		calm = calm > VERUS_CEILING_CALM ? calm - VERUS_CEILING_CALM : 0;
		v->ceiling += (ONE + calm * VERUS_CEILING_STEP * ONE / 1000000) * times / 256 / epochs;
		if (window > v->ceiling)
			window = v->ceiling;
		if (v->ceiling > MAX_CWND)
			v->ceiling = 0;
	}
	step = ONE / 65536 * times * times;
	if (step > ONE && step > v->window * VERUS_FLOOR_STEP / VERUS_FLOOR_STEP_OF)
		step = v->window * VERUS_FLOOR_STEP / VERUS_FLOOR_STEP_OF > ONE ?
			       v->window * VERUS_FLOOR_STEP / VERUS_FLOOR_STEP_OF :
			       ONE;
	if (tolerable == 1)
		v->floor += step / epochs;
	else if (tolerable == 0)
		v->floor -= v->floor * (VERUS_DECREASE_OF - VERUS_DECREASE) / VERUS_DECREASE_OF / epochs;
	if (v->floor > VERUS_MAX_FLOOR * ONE / 256 * times)
		v->floor = VERUS_MAX_FLOOR * ONE / 256 * times;
	if (v->floor < VERUS_MIN_FLOOR * ONE)
		v->floor = VERUS_MIN_FLOOR * ONE;
	v->window = window > v->floor ? window : v->floor;
	if (v->window < v->carried)
		v->window = v->carried;
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
		v->rate -= (v->rate - v->newest_rate) * VERUS_RATE_FALL / VERUS_RATE_FALL_OF;
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

PURE void verus_sample(struct verus *v, __u32 rtt)
{
	if (rtt > v->newest)
		v->newest = rtt;
	v->rtt = v->rtt ? (VERUS_RTT_WEIGHT * (__u64)v->rtt + (VERUS_RTT_WEIGHT_OF - VERUS_RTT_WEIGHT) * rtt) /
				  VERUS_RTT_WEIGHT_OF :
			  rtt;
	if (rtt < v->d_min)
		v->d_min = rtt;
}

PURE_CALL int verus_acked(struct verus *v, const struct verus_ack *a)
{
	__u32 rtt, label, delay;

	if (!v || !a)
		return 0;
	rtt = a->rtt < MAX_RTT ? a->rtt : 0;
	if (v->first < 65535)
		v->first += a->acked < 65535 ? a->acked : 65535;
	label = verus_label_at(v, a->sent_at);
	v->heard = a->now;
	v->oldest = a->sent_at;
	v->used = a->in_flight;
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
		profile_update(&v->profile, verus_passed(v, a->sent_at, label), rtt,
			       v->relearning ? 0 : VERUS_POINT_WEIGHT);
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

/* Limit of packets in flight. Equation 5 settles slightly above W with few epochs in a round trip. */
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
	cap = packets_in(v->rate, v->d_min + v->tolerated);
	if (v->rate && window > cap)
		window = cap;
	if (window < VERUS_CAP_FLOOR * ONE && v->window >= VERUS_CAP_FLOOR * ONE)
		window = VERUS_CAP_FLOOR * ONE;
	return window;
}

/*
 * Bytes per second: what refills the queue after a drain comes by no burst. The RTT of an outage says nothing of the
 * rate that W means. 0: not known yet.
 */
PURE __u64 verus_pacing_rate(const struct verus *v, __u32 mss)
{
	__u32 over = v->rtt;

	if (!over)
		return 0;
	if (!v->slow_start && v->d_est && v->d_est < over)
		over = v->d_est;
	if (v->hold && v->rate)
		return (__u64)v->rate * mss * VERUS_REFILL_GAIN / VERUS_REFILL_GAIN_OF >> 8;
	return (VERUS_PACING_GAIN * verus_cwnd(v) * mss >> 20) * 1000000 / over;
}
