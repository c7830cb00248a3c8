/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Copa (NSDI 2018, section 2) in the form `tuned` of `cc`, one acknowledgement at a time, in
 * integers. `copa/settings.rs` there has the why of what is not in the paper.
 *
 * Pure: state and measurements in, window and pacing rate out. The BPF program includes this file,
 * and so does a host build that replays the same acknowledgements through it and through `cc`.
 *
 * Simplifications:
 *
 *  - One acknowledgement moves the window once, in proportion to the segments it acknowledges.
 *    `cc` decides anew for each segment.
 *  - A windowed minimum keeps fewer values.
 */
#pragma once

#include "drains.h"
#include "rates.h"
#include "route.h"

/* Time for which gaps between acknowledgements are remembered. */
#define COPA_GAPS ((__u64)COPA_BUNCHES_OVER)
/* Weight of a sample in the smoothed RTT: 2^-4. */
#define COPA_SRTT_SHIFT __builtin_ctz(COPA_SMOOTHING_OF)

enum copa_direction { COPA_NONE, COPA_UP, COPA_DOWN };

struct copa {
	__u64 cwnd; /* ONE per packet; 0: not started */
	__u64 srtt; /* us << COPA_SRTT_SHIFT; 0: no sample yet */
	__u64 period_began; /* us */
	__u64 period_cwnd;
	__u64 loss_checked; /* us */
	__u64 heard; /* us: the last acknowledgement; 0: never */
	/* When an overload was last measured, and to what it may drain the window; 0: never. */
	__u64 overload_at, overload_to;
	__u32 drained_rate; /* what the path delivered when the drain began; 2^-8 packets per second */
	__u32 delta; /* 2^-16 */
	__u32 velocity; /* 2^-8: delta * cwnd bounds it, which is no integer */
	__u32 same; /* periods in this direction */
	__u32 direction;
	__u32 slow_start;
	__u32 lost, seen; /* segments since the last look at losses */
	__u32 lossy; /* more than persistent losses at that look */
	__u32 latest; /* us */
	__u32 standing, minimum; /* us */
	__u32 longest_gap; /* us: between acknowledgements */
	struct minimum standing_rtt;
	struct minimum gaps; /* COPA_GAPS less each gap: the smallest is of the longest */
	struct drains drains;
	struct route route;
};

struct copa_ack {
	__u64 now; /* us, above 0 */
	__u64 sent_at; /* us: of the packet that `rtt` is of */
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
	c->cwnd = COPA_INITIAL * ONE;
	c->delta = delta;
	c->slow_start = 1;
	c->loss_checked = now;
	drains_start(&c->drains, now);
	copa_velocity_restart(c, now);
}

/* A retransmission timeout: begin again, but keep what is known of the path, unless it is old. */
PURE void copa_timeout(struct copa *c, __u64 now)
{
	c->cwnd = COPA_MIN_WINDOW * ONE;
	c->slow_start = 1;
	copa_velocity_restart(c, now);
	if (c->heard && now - c->heard >= COPA_SILENCE) {
		__builtin_memset(&c->standing_rtt, 0, sizeof(c->standing_rtt));
		__builtin_memset(&c->drains, 0, sizeof(c->drains));
		drains_start(&c->drains, now);
		__builtin_memset(&c->route, 0, sizeof(c->route));
		c->overload_at = 0;
	}
}

/* Heavy loss is judged once in a round trip. */
PURE void copa_weigh_losses(struct copa *c, __u64 now)
{
	__u32 lossy;

	if (c->seen <= COPA_JUDGED || now - c->loss_checked <= c->latest)
		return;
	lossy = (__u64)c->lost * COPA_PERSISTENT_LOSS_OF > (__u64)c->seen * COPA_PERSISTENT_LOSS;
	if ((lossy && c->lossy) || (__u64)c->lost * COPA_HEAVY_LOSS_OF > (__u64)c->seen * COPA_HEAVY_LOSS) {
		c->cwnd = c->cwnd * COPA_BETA / COPA_BETA_OF;
		if (c->cwnd < COPA_MIN_WINDOW * ONE)
			c->cwnd = COPA_MIN_WINDOW * ONE;
	}
	c->lossy = lossy;
	c->lost = 0;
	c->seen = 0;
	c->loss_checked = now;
}

/* Rate of the window. After a change of path the smoothed RTT may still be that of the old one. */
PURE __u32 copa_rate(const struct copa *c)
{
	__u64 rtt = c->srtt >> COPA_SRTT_SHIFT, rate;

	if (rtt < c->drains.base)
		rtt = c->drains.base;
	rate = c->cwnd * 1000000 / (rtt ? rtt : 1) >> 12;
	return rate < 1U << 30 ? rate : 1U << 30;
}

PURE_CALL int copa_sample(struct copa *c, __u64 now, __u64 sent_at, __u32 rtt)
{
	__u64 stand, srtt, bunch;
	__u32 nearly;

	if (!c)
		return 0;
	if (rtt > MAX_RTT)
		rtt = MAX_RTT;
	if (!c->slow_start && !c->drains.draining)
		route_look(&c->route, now, sent_at, rtt, MAX_RTT, COPA_DELAY, copa_rate(c));
	c->latest = rtt;
	if (c->srtt)
		c->srtt = c->srtt + rtt - (c->srtt >> COPA_SRTT_SHIFT);
	else
		c->srtt = (__u64)rtt << COPA_SRTT_SHIFT;
	srtt = c->srtt >> COPA_SRTT_SHIFT;
	nearly = c->drains.base / COPA_NEARLY_EMPTY;
	if (nearly < COPA_FLOOR)
		nearly = COPA_FLOOR;
	drains_sample(&c->drains, now, rtt, nearly, nearly);
	c->minimum = c->drains.base;
	/* A whole bunch of acknowledgements, if they come in bunches. */
	stand = srtt / 2 > COPA_FLOOR ? srtt / 2 : COPA_FLOOR;
	bunch = c->longest_gap < srtt ? c->longest_gap : srtt;
	if (stand < bunch)
		stand = bunch;
	if (stand > COPA_MIN_RTT_OVER)
		stand = COPA_MIN_RTT_OVER;
	c->standing = minimum_insert(&c->standing_rtt, now, rtt, stand);
	return 0;
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

PURE __u32 copa_whole_queueing(const struct copa *c)
{
	return c->standing > c->minimum ? c->standing - c->minimum : 0;
}

/* From the floor to twice the floor it rises from nothing to all of it. */
PURE __u32 copa_queueing(const struct copa *c)
{
	__u32 whole = copa_whole_queueing(c);
	__u32 above = whole > COPA_FLOOR ? 2 * (whole - COPA_FLOOR) : 0;

	return whole < above ? whole : above;
}

/* Packets. */
PURE __u64 copa_wanted(const struct copa *c)
{
	return (ONE << 16) / c->delta;
}

/* Would more packets than wanted be in the queue without the floor? */
PURE int copa_is_below_floor(const struct copa *c)
{
	__u64 whole = copa_whole_queueing(c);

	return whole <= COPA_FLOOR && c->cwnd * whole > copa_wanted(c) * c->standing;
}

/* cwnd * queueing delay / RTT packets stand in the queue; 1/delta are wanted there. */
PURE __u64 copa_queue(const struct copa *c)
{
	return c->standing ? c->cwnd * copa_queueing(c) / c->standing : 0;
}

/* The measurement is a round trip old. Then half of the packets now in flight were. */
PURE void copa_leave_slow_start(struct copa *c, __u64 now)
{
	__u64 window = c->cwnd - copa_queue(c), queueing = copa_queueing(c);
	__u64 target = queueing ? copa_wanted(c) * c->standing / queueing : MAX_CWND;

	if (target > c->cwnd)
		target = c->cwnd;
	if (window < target)
		window = target;
	c->cwnd = window / 2 > COPA_MIN_WINDOW * ONE ? window / 2 : COPA_MIN_WINDOW * ONE;
	c->slow_start = 0;
	/* The minimum may be that of the others' queue. */
	c->drains.unsure = 1;
	c->overload_at = now;
	c->overload_to = c->cwnd;
	copa_velocity_restart(c, now);
}

/* The window at which an overload's drain ends. A change shows after a round trip: it holds for one. */
PURE __u64 copa_drained_to(struct copa *c, __u64 now, __u64 queue)
{
	if (!c->overload_at || now - c->overload_at >= c->srtt >> COPA_SRTT_SHIFT) {
		c->overload_at = now;
		c->overload_to = c->cwnd - queue + copa_wanted(c);
	}
	return c->overload_to;
}

PURE_CALL int copa_step(struct copa *c, const struct copa_ack *a)
{
	__u64 queue, wanted, step, most, to, delta_cwnd;
	__u32 way;

	if (!c || !a)
		return 0;
	queue = copa_queue(c);
	wanted = copa_wanted(c);
	way = queue <= wanted ? COPA_UP : COPA_DOWN;
	if (c->slow_start) {
		if (way == COPA_UP) {
			if (a->may_grow)
				c->cwnd += a->acked * ONE;
			goto bound;
		}
		copa_leave_slow_start(c, a->now);
		queue = copa_queue(c);
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
	/* Up to the floor no queue says when to stop: who arrives there fast goes far beyond. */
	if (copa_is_below_floor(c)) {
		c->velocity = 1 << 8;
		c->same = 0;
	}
	delta_cwnd = c->cwnd * c->delta >> 16;
	most = (delta_cwnd > ONE ? delta_cwnd : ONE) >> 12;
	if (c->velocity > most)
		c->velocity = most;
	step = ((__u64)c->velocity << 32) / (delta_cwnd ? delta_cwnd : 1) * a->acked;
	if (way == COPA_UP) {
		c->cwnd += a->may_grow ? step : 0;
		goto bound;
	}
	if (queue > COPA_OVERLOAD * wanted) {
		/* Half a packet per packet, until what the queue held too much is taken off. */
		to = copa_drained_to(c, a->now, queue);
		most = c->cwnd > to ? c->cwnd - to : 0;
		if (most > a->acked * ONE * COPA_DRAIN_STEP / COPA_DRAIN_STEP_OF)
			most = a->acked * ONE * COPA_DRAIN_STEP / COPA_DRAIN_STEP_OF;
		if (step < most)
			step = most;
	}
	c->cwnd = c->cwnd > step ? c->cwnd - step : 0;
bound:
	if (c->cwnd < COPA_MIN_WINDOW * ONE)
		c->cwnd = COPA_MIN_WINDOW * ONE;
	if (c->cwnd > MAX_CWND)
		c->cwnd = MAX_CWND;
	return 0;
}

/* Capacity of the path, by the rate before the drain, in `part` of COPA_DRAIN_GAIN_OF. */
PURE void copa_hold(struct copa *c, __u32 part)
{
	__u64 path = packets_in(c->drained_rate, c->drains.base) * part / COPA_DRAIN_GAIN_OF;

	if (path > MAX_CWND)
		path = MAX_CWND;
	c->cwnd = path > COPA_MIN_WINDOW * ONE ? path : COPA_MIN_WINDOW * ONE;
}

/* True in a drain, which sets the window. */
PURE_CALL int copa_drain(struct copa *c, const struct copa_ack *a)
{
	int due, may;

	if (!c || !a)
		return 0;
	due = route_is_due(&c->route, a->now);
	may = !c->slow_start && (due || !c->route.jumped_at);
	switch (drains_step(&c->drains, a->now, a->sent_at, may, !due)) {
	case DRAINS_BEGIN:
		c->drained_rate = copa_rate(c);
		break;
	case DRAINS_END:
		/* A longer route carries what the shorter one carried. */
		if (route_is_longer(&c->route, a->now, &c->drains, COPA_DELAY, 0, c->drained_rate)) {
			drains_rise(&c->drains, a->now);
			c->minimum = c->drains.base;
			if (c->drained_rate < c->route.before)
				c->drained_rate = c->route.before;
		}
		copa_hold(c, COPA_DRAIN_GAIN_OF);
		copa_velocity_restart(c, a->now);
		/* The queue that is seen now was before the drain. */
		c->overload_at = a->now;
		c->overload_to = c->cwnd;
		break;
	default:
		break;
	}
	if (c->drains.draining)
		copa_hold(c, COPA_DRAIN_GAIN);
	return c->drains.draining;
}

PURE_CALL int copa_gap(struct copa *c, __u64 now)
{
	__u64 gap;

	if (!c)
		return 0;
	gap = now - c->heard;
	if (c->heard && gap) {
		if (gap > COPA_GAPS)
			gap = COPA_GAPS;
		c->longest_gap = COPA_GAPS - minimum_insert(&c->gaps, now, COPA_GAPS - gap, COPA_GAPS);
	}
	c->heard = now;
	return 0;
}

/* Losses come before the acknowledgement that disclosed them, as in `cc`. */
PURE void copa_on_ack(struct copa *c, const struct copa_ack *a)
{
	if (a->lost) {
		c->lost += a->lost;
		c->seen += a->lost;
		if (c->slow_start)
			copa_leave_slow_start(c, a->now);
		copa_weigh_losses(c, a->now);
	}
	if (a->acked) {
		copa_gap(c, a->now);
		c->seen += a->acked;
		copa_weigh_losses(c, a->now);
		if (a->rtt)
			copa_sample(c, a->now, a->sent_at, a->rtt);
		if (c->srtt && !copa_drain(c, a))
			copa_step(c, a);
	}
}

/* Bytes per second; 0: not known yet. */
PURE __u64 copa_pacing_rate(const struct copa *c, __u32 mss)
{
	if (!c->standing)
		return 0;
	/* 2^36 * 2^16 bytes are 2^52: microseconds come in after the shift. */
	return (COPA_PACING_GAIN * c->cwnd * mss >> 20) * 1000000 / c->standing;
}
