/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Copa (NSDI 2018, section 2, default mode), one acknowledgement at a time, in integers.
 *
 * Pure: state and measurements in, window and pacing rate out. The BPF program includes this file,
 * and so does a host build that replays the same acknowledgements through it and through `cc`.
 *
 * It is `copa:profile=paper,mode=default` with two simplifications:
 *
 *  - One acknowledgement moves the window once, in proportion to the segments it acknowledges.
 *    `cc` decides anew for each segment.
 *  - A windowed minimum keeps at most 16 values, 1/16 of the window apart. `cc` keeps 128.
 */
#pragma once

#include "minimum.h"

#define COPA_MIN_CWND (2 * ONE)
#define COPA_INITIAL_CWND (10 * ONE)
/* Microseconds over which the minimum RTT holds (section 2). */
#define COPA_MIN_RTT_WINDOW 10000000ULL
/* Weight of a sample in the smoothed RTT: 2^-4. */
#define COPA_SRTT_SHIFT 4
/* Periods in one direction before the velocity doubles (section 2.1). */
#define COPA_HOLD 3
/* More than this share lost is congestion: 3 of 10, judged over more than 20 segments. */
#define COPA_LOSS_TENTHS 3
#define COPA_LOSS_SEGMENTS 20

enum copa_direction { COPA_NONE, COPA_UP, COPA_DOWN };

struct copa {
	__u64 cwnd; /* ONE per packet; 0: not started */
	__u64 srtt; /* us << COPA_SRTT_SHIFT; 0: no sample yet */
	__u64 period_began; /* us */
	__u64 period_cwnd;
	__u64 loss_checked; /* us */
	__u32 delta; /* 2^-16 */
	__u32 velocity; /* 2^-8: delta * cwnd bounds it, which is no integer */
	__u32 same; /* periods in this direction */
	__u32 direction;
	__u32 slow_start;
	__u32 lost, seen; /* segments since the last look at losses */
	__u32 latest; /* us */
	__u32 standing, minimum; /* us */
	struct minimum standing_rtt, minimum_rtt;
};

struct copa_ack {
	__u64 now; /* us, above 0 */
	__u32 rtt; /* us; 0: no sample */
	__u32 acked; /* segments */
	__u32 lost; /* segments newly marked as lost */
	__u32 may_grow; /* the window was what held the sender back */
};

PURE void copa_velocity_restart(struct copa *c, __u64 now)
{
	c->velocity = 1 << 8;
	c->direction = COPA_NONE;
	c->same = 0;
	c->period_began = now;
	c->period_cwnd = c->cwnd;
}

PURE void copa_start(struct copa *c, __u64 now, __u32 delta)
{
	c->cwnd = COPA_INITIAL_CWND;
	c->delta = delta;
	c->slow_start = 1;
	c->loss_checked = now;
	copa_velocity_restart(c, now);
}

/* A retransmission timeout: begin again, but keep what is known of the path. */
PURE void copa_timeout(struct copa *c, __u64 now)
{
	c->cwnd = COPA_MIN_CWND;
	c->slow_start = 1;
	copa_velocity_restart(c, now);
}

/* Heavy loss is judged once in a round trip. */
PURE void copa_weigh_losses(struct copa *c, __u64 now)
{
	if (c->seen <= COPA_LOSS_SEGMENTS || now - c->loss_checked <= c->latest)
		return;
	if ((__u64)c->lost * 10 > (__u64)c->seen * COPA_LOSS_TENTHS) {
		c->cwnd = c->cwnd * 7 / 10;
		if (c->cwnd < COPA_MIN_CWND)
			c->cwnd = COPA_MIN_CWND;
	}
	c->lost = 0;
	c->seen = 0;
	c->loss_checked = now;
}

PURE void copa_sample(struct copa *c, __u64 now, __u32 rtt)
{
	__u64 standing_window;

	if (rtt > MAX_RTT)
		rtt = MAX_RTT;
	c->latest = rtt;
	if (c->srtt)
		c->srtt = c->srtt + rtt - (c->srtt >> COPA_SRTT_SHIFT);
	else
		c->srtt = (__u64)rtt << COPA_SRTT_SHIFT;
	c->minimum = minimum_insert(&c->minimum_rtt, now, rtt, COPA_MIN_RTT_WINDOW);
	standing_window = c->srtt >> (COPA_SRTT_SHIFT + 1);
	if (standing_window > COPA_MIN_RTT_WINDOW)
		standing_window = COPA_MIN_RTT_WINDOW;
	c->standing = minimum_insert(&c->standing_rtt, now, rtt, standing_window);
}

/* A period ended: the window went up or down in it. Steady motion doubles the velocity. */
PURE void copa_period(struct copa *c, __u64 now)
{
	__u32 way = c->cwnd > c->period_cwnd ? COPA_UP : COPA_DOWN;

	if (c->direction == way) {
		if (++c->same >= COPA_HOLD && c->velocity < 1U << 30)
			c->velocity *= 2;
	} else {
		c->velocity = 1 << 8;
		c->same = 0;
		c->direction = way;
	}
	c->period_began = now;
	c->period_cwnd = c->cwnd;
}

PURE void copa_step(struct copa *c, const struct copa_ack *a)
{
	__u64 queue, step, most, delta_cwnd;
	__u32 way;

	/* cwnd * queueing delay / RTT packets stand in the queue; 1/delta are wanted there. */
	queue = c->standing ? c->cwnd * (c->standing - c->minimum) / c->standing : 0;
	way = queue <= (ONE << 16) / c->delta ? COPA_UP : COPA_DOWN;
	if (c->slow_start) {
		if (way == COPA_UP) {
			if (a->may_grow)
				c->cwnd += a->acked * ONE;
			goto bound;
		}
		c->slow_start = 0;
		copa_velocity_restart(c, a->now);
	}
	if (a->now - c->period_began >= c->standing)
		copa_period(c, a->now);
	if (c->velocity > 1 << 8 && c->direction != way) {
		c->velocity = 1 << 8;
		c->same = 0;
		c->direction = way;
		c->period_began = a->now;
		c->period_cwnd = c->cwnd;
	}
	delta_cwnd = c->cwnd * c->delta >> 16;
	most = (delta_cwnd > ONE ? delta_cwnd : ONE) >> 12;
	if (c->velocity > most)
		c->velocity = most;
	step = ((__u64)c->velocity << 32) / (delta_cwnd ? delta_cwnd : 1) * a->acked;
	if (way == COPA_UP)
		c->cwnd += a->may_grow ? step : 0;
	else
		c->cwnd = c->cwnd > step ? c->cwnd - step : 0;
bound:
	if (c->cwnd < COPA_MIN_CWND)
		c->cwnd = COPA_MIN_CWND;
	if (c->cwnd > MAX_CWND)
		c->cwnd = MAX_CWND;
}

/* Losses come before the acknowledgement that disclosed them, as in `cc`. */
PURE void copa_on_ack(struct copa *c, const struct copa_ack *a)
{
	if (a->lost) {
		c->lost += a->lost;
		c->seen += a->lost;
		copa_weigh_losses(c, a->now);
	}
	if (a->acked) {
		c->seen += a->acked;
		copa_weigh_losses(c, a->now);
		if (a->rtt)
			copa_sample(c, a->now, a->rtt);
		if (c->srtt)
			copa_step(c, a);
	}
}

/* Bytes per second; 0: not known yet. */
PURE __u64 copa_pacing_rate(const struct copa *c, __u32 mss)
{
	if (!c->standing)
		return 0;
	/* 2^36 * 2^16 bytes are 2^52: microseconds come in after the shift. */
	return (2 * c->cwnd * mss >> 20) * 1000000 / c->standing;
}
