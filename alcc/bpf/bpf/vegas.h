/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vegas (Brakmo, O'Malley and Peterson, SIGCOMM 1994), one acknowledgement at a time, in integers.
 *
 * Pure: the BPF program includes this file, and so does a host build that replays the same
 * acknowledgements through it and through `cc`. It is `vegas`. The host of the control repairs
 * losses; here stand the queue that a round has shown, and what follows from it.
 */
#pragma once

#include "growth.h"

struct vegas {
	__u32 base; /* us: the smallest RTT; 0: no sample yet */
	__u32 least; /* us: that of this round; 0: no sample yet */
	__u32 samples; /* in this round */
	__u32 round_end; /* sequence number: the round ends when more than this is acknowledged */
	__u32 credit; /* segments that have not moved Reno's window yet */
};

PURE void vegas_round(struct vegas *v, __u32 next)
{
	v->round_end = next;
	v->samples = 0;
	v->least = 0;
}

/* Later packets follow a pause, or a connection was taken over: the path may be another. */
PURE void vegas_start(struct vegas *v, __u32 next)
{
	v->base = 0;
	vegas_round(v, next);
}

/* `rtt` in microseconds; 0: no sample. */
PURE void vegas_sample(struct vegas *v, __u32 rtt)
{
	if (!rtt)
		return;
	if (rtt > MAX_RTT)
		rtt = MAX_RTT;
	if (!v->base || rtt < v->base)
		v->base = rtt;
	if (!v->least || rtt < v->least)
		v->least = rtt;
	if (v->samples < VEGAS_SAMPLES)
		v->samples++;
}

PURE void vegas_reno(struct vegas *v, struct growth *w, __u32 acked)
{
	__u32 credit = v->credit + growth_slow_start(w, acked);

	w->cwnd = growth_bounded(w->cwnd + credit / w->cwnd);
	v->credit = credit % w->cwnd;
}

/* A round is over. The queue is what of the window the smallest RTT does not explain. */
PURE void vegas_decide(struct growth *w, __u32 base, __u32 least, __u32 acked)
{
	__u64 cwnd = w->cwnd, queued = cwnd * (least - base) / base;

	if (w->cwnd < w->ssthresh) {
		if (queued > VEGAS_GAMMA) {
			__u64 most = cwnd * base / least + 1;

			w->cwnd = most < cwnd ? most : cwnd;
			w->ssthresh = w->cwnd;
		} else {
			growth_slow_start(w, acked);
		}
	} else if (queued > VEGAS_BETA) {
		w->cwnd--;
		if (w->ssthresh > w->cwnd)
			w->ssthresh = w->cwnd;
	} else if (queued < VEGAS_ALPHA && acked) {
		w->cwnd = growth_bounded(w->cwnd + 1);
	}
	if (w->cwnd < GROWTH_MIN_SSTHRESH)
		w->cwnd = GROWTH_MIN_SSTHRESH;
	if (w->ssthresh < w->cwnd * 3 / 4)
		w->ssthresh = w->cwnd * 3 / 4;
}

/*
 * `ack`: all before it has arrived; `next`: the first that was not sent yet. `acked` is 0 where the
 * window was not used.
 */
PURE void vegas_grow(struct vegas *v, struct growth *w, __u32 ack, __u32 next, __u32 acked)
{
	__u32 base = v->base, least = v->least, samples = v->samples;

	if (!w->cwnd)
		w->cwnd = 1;
	if ((__s32)(ack - v->round_end) <= 0) {
		growth_slow_start(w, acked);
		return;
	}
	vegas_round(v, next);
	if (samples < VEGAS_SAMPLES || !base || !least)
		vegas_reno(v, w, acked);
	else
		vegas_decide(w, base, least, acked);
}

PURE __u32 vegas_ssthresh(struct vegas *v, __u32 cwnd)
{
	v->credit = 0;
	return cwnd / 2 > GROWTH_MIN_SSTHRESH ? cwnd / 2 : GROWTH_MIN_SSTHRESH;
}
