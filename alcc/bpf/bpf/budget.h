/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Budget, one acknowledgement at a time, in integers: what the path may deliver in its smallest RTT,
 * and a delay that the user names. docs/budget.md has the why of every number.
 *
 * Pure: the BPF program includes this file, and so does a host build that replays the same
 * acknowledgements through it and through `cc`. It is `budget`, but a windowed minimum keeps fewer
 * values, and packets that come together count by the newest. Times in microseconds.
 */
#pragma once

#include "competition.h"
#include "drains.h"
#include "losses.h"
#include "rates.h"
#include "route.h"
#include "service.h"

struct budget {
	__u64 cwnd; /* 2^-20 packets; 0: not started */
	__u64 unanswered; /* the same: what else may be in flight because nothing came back */
	__u64 refilled; /* when the queue is full again after the last drain */
	__u64 acked_at; /* 0: never */
	__u64 silent_at; /* in a drain: nothing came back for long if it has not by then; 0: no drain */
	__u64 patience;
	__u32 delay;
	__u32 queueing;
	__u32 doublings; /* of the mean rate beyond BUDGET_FAST, 2^-16 */
	__u32 starting; /* doubling per round trip until a queue forms */
	/* Of the start: the shortest wait of this round trip, of how many packets, and its begin. */
	__u32 least, samples;
	/* For the BPF program: the stack's count of lost packets at the last acknowledgement, */
	__u32 lost;
	__u32 repairing; /* and whether it is in an episode of losses */
	__u32 phase; /* what is added to a small window before it is cut to whole packets, 2^-32 */
	struct route route;
	__u64 round_from;
	struct losses losses;
	struct competition competition;
	struct drains drains;
	struct service service;
};

struct budget_ack {
	__u64 now;
	__u64 sent_at; /* of the packet that `rtt` is of */
	__u32 rtt; /* 0: no sample */
	__u32 acked; /* segments */
	__u32 used; /* half of the window was in flight */
	__u32 full; /* it held the sender back: no more fitted into it */
	__u32 idle; /* the application was */
};

PURE void budget_start(struct budget *b, __u64 now, __u32 delay)
{
	b->cwnd = BUDGET_INITIAL * ONE;
	b->losses.limit = MAX_CWND;
	b->delay = delay;
	b->starting = 1;
	drains_start(&b->drains, now);
	competition_start(&b->competition, now);
}

PURE __u64 budget_less(__u64 packets, __u64 yielded)
{
	return packets > yielded ? packets - yielded : 0;
}

/* The window outside of drains. */
PURE_CALL __u64 budget_product(const struct budget *b)
{
	__u64 doubling, high, wanted;
	__u32 mean, base, delay;

	if (!b)
		return BUDGET_SMALLEST * ONE;
	mean = route_carried(&b->route, b->service.mean);
	base = b->drains.base;
	delay = b->delay;
	doubling = packets_in(mean, delay) >> 16;
	high = packets_in(b->service.high, base + delay / BUDGET_OF_HIGH);
	high = budget_less(high, doubling * b->doublings * BUDGET_YIELD / BUDGET_YIELD_OF);
	wanted = packets_in(mean, base + delay / BUDGET_OF_MEAN);
	wanted += doubling * BUDGET_NEUTRAL * BUDGET_YIELD_OF_MEAN / BUDGET_YIELD_OF_MEAN_OF;
	wanted = budget_less(wanted, doubling * b->doublings * BUDGET_YIELD_OF_MEAN / BUDGET_YIELD_OF_MEAN_OF);
	if (wanted < high)
		wanted = high;
	wanted += BUDGET_PACKETS * ONE;
	return wanted > BUDGET_SMALLEST * ONE ? wanted : BUDGET_SMALLEST * ONE;
}

PURE __u64 budget_drained(const struct budget *b)
{
	__u32 base = b->drains.base;
	__u64 left = base > b->delay ? packets_in(b->service.mean, base - b->delay) : 0;

	return (left > BUDGET_PACKETS * ONE ? left : BUDGET_PACKETS * ONE) + b->unanswered;
}

/* Takes over what is wanted. */
PURE void budget_follow(struct budget *b)
{
	__u64 wanted = b->drains.draining ? budget_drained(b) : budget_product(b);

	if (wanted > b->losses.limit)
		wanted = b->losses.limit;
	if (!b->drains.draining && wanted < b->competition.window)
		wanted = b->competition.window;
	if (wanted > MAX_CWND)
		wanted = MAX_CWND;
	b->cwnd = wanted > ONE ? wanted : ONE;
}

PURE void budget_leave_start(struct budget *b, __u64 now)
{
	if (b->starting) {
		b->starting = 0;
		/* Its smallest RTT may be that of a queue. */
		b->drains.unsure = 1;
		losses_forget(&b->losses, now + 2ULL * b->drains.base + BUDGET_UNJUDGED);
	}
}

/* A round trip of the start begins with the first packet sent after the last one began. */
PURE void budget_wait(struct budget *b, const struct budget_ack *a)
{
	if (a->sent_at >= b->round_from) {
		b->least = MAX_RTT;
		b->samples = 0;
		b->round_from = a->now;
	}
	if (b->queueing < b->least)
		b->least = b->queueing;
	b->samples += a->acked;
}

/* A drain has ended: did it empty a longer route, and does a queue of others stand? */
PURE void budget_drain_ends(struct budget *b, __u64 now)
{
	int lost = b->unanswered > 0, jumped = b->route.jumped_at > 0;

	if (route_is_longer(&b->route, now, &b->drains, b->delay, lost, b->service.mean)) {
		drains_rise(&b->drains, now);
		b->route.carried_until = now + (__u64)BUDGET_CARRIED * b->drains.base + BUDGET_REFILL;
		if (jumped)
			losses_reroute(&b->losses, b->route.carried_until);
		b->doublings = doublings(route_carried(&b->route, b->service.mean), BUDGET_FAST);
	}
	b->refilled = now + b->drains.base + BUDGET_REFILL;
	competition_drained(&b->competition, &b->drains, now, lost ? 0 : b->delay,
			    budget_product(b));
	b->drains.held = b->competition.kept > 0;
	/* It ends with a drain, so the next one is due even if the path is seen empty. */
	if (b->competition.window)
		b->drains.unsure = 1;
}

/* Takes the RTT in. True if the packet had waited behind no other of this flow. */
PURE_CALL int budget_look(struct budget *b, const struct budget_ack *a)
{
	int starved = 0, may;
	__u32 rtt, every;

	if (!b || !a)
		return 0;
	rtt = a->rtt < MAX_RTT ? a->rtt : MAX_RTT;
	if (rtt) {
		b->queueing = drains_sample(&b->drains, a->now, rtt, b->delay / ROUTE_SAME, b->delay / BUDGET_EMPTY);
		if (b->starting)
			budget_wait(b, a);
		else if (!b->drains.draining)
			route_look(&b->route, a->now, a->sent_at, rtt, MAX_RTT, b->delay, b->service.mean);
		starved = b->acked_at && a->now - b->acked_at + DRAINS_GRAIN >= b->queueing;
		every = route_is_due(&b->route, a->now) ? 0 : competition_every(&b->competition);
		may = !b->starting && (!every || !b->route.jumped_at);
		switch (drains_step(&b->drains, a->now, a->sent_at, may, every)) {
		case DRAINS_BEGIN:
			b->unanswered = 0;
			break;
		case DRAINS_END:
			budget_drain_ends(b, a->now);
			break;
		default:
			break;
		}
	}
	b->acked_at = a->now;
	b->patience = BUDGET_PATIENCE * ((__u64)b->drains.base + b->queueing);
	if (b->patience < DRAINS_GRAIN)
		b->patience = DRAINS_GRAIN;
	b->silent_at = b->drains.draining ? a->now + b->patience : 0;
	return starved;
}

/* Losses come before the acknowledgement that disclosed them, as in `cc`. */
PURE_CALL int budget_lost(struct budget *b, __u64 now, __u64 sent_at, __u32 lost)
{
	__u64 product, left;

	if (!b)
		return 0;
	product = packets_in(b->service.mean, b->drains.base);
	left = product > b->cwnd / 2 ? product : b->cwnd / 2;
	losses_lost(&b->losses, now, sent_at, lost, b->queueing, left);
	competition_lost(&b->competition, now, sent_at, BUDGET_SMALLEST * ONE);
	if (!b->starting && losses_are_due(&b->losses, now)) {
		losses_begin(&b->losses, now, b->queueing, product, b->delay / ROUTE_SAME);
		budget_follow(b);
	}
	budget_leave_start(b, now);
	return 0;
}

/* The losses of the last episode were none. */
PURE_CALL int budget_undone(struct budget *b)
{
	if (!b)
		return 0;
	losses_undo(&b->losses);
	budget_follow(b);
	return 0;
}

PURE_CALL int budget_acked(struct budget *b, const struct budget_ack *a)
{
	int starved, drained;
	__u32 base, rtt;

	if (!b || !a)
		return 0;
	b->competition.delivered += a->acked;
	b->phase += a->acked * BUDGET_GOLDEN;
	base = b->drains.base;
	rtt = base + b->queueing;
	losses_delivered(&b->losses, a->now, a->sent_at, a->acked, b->queueing);
	starved = budget_look(b, a);
	drained = b->drains.draining || a->now < b->refilled;
	/* An idle sender measures nothing of the path, nor does a drain and the time after it. */
	if ((a->idle || drained) && !b->starting) {
		service_pass(&b->service, a->now);
		budget_follow(b);
		return 0;
	}
	route_pass(&b->route, a->now);
	service_delivered(&b->service, a->now, a->acked, base, rtt, starved);
	if (a->full)
		competition_grow(&b->competition, a->now, a->acked, b->cwnd);
	b->doublings = doublings(route_carried(&b->route, b->service.mean), BUDGET_FAST);
	if (b->starting) {
		if (a->used)
			b->cwnd += a->acked * ONE;
		if (b->cwnd > MAX_CWND)
			b->cwnd = MAX_CWND;
		if (b->samples < BUDGET_FIRST || b->least <= b->delay / ROUTE_SAME)
			return 0;
		budget_leave_start(b, a->now);
	}
	budget_follow(b);
	losses_grow(&b->losses, a->acked, b->cwnd, rtt, b->queueing);
	return 0;
}

/* In a drain of which nothing came back its packets or their acknowledgements were lost. */
PURE void budget_silence(struct budget *b, __u64 now)
{
	if (!b->silent_at || now < b->silent_at)
		return;
	b->unanswered += BUDGET_PACKETS * ONE;
	if (b->unanswered > MAX_CWND)
		b->unanswered = MAX_CWND;
	b->patience = b->patience < MAX_RTT ? BUDGET_PATIENCE * b->patience : MAX_RTT;
	b->silent_at = now + b->patience;
	budget_follow(b);
}

/* Limit of packets in flight, 2^-20 packets: the stack takes the whole ones. */
PURE __u64 budget_window(const struct budget *b)
{
	if (b->starting || b->drains.draining || b->cwnd >= BUDGET_SMALL * ONE)
		return b->cwnd;
	return b->cwnd + (b->phase >> 12);
}

/* Bytes per second, over the smallest RTT of the last second; 0: as fast as it goes. */
PURE __u64 budget_pacing_rate(const struct budget *b, __u32 mss)
{
	__u32 rtt = b->drains.recent > DRAINS_GRAIN ? b->drains.recent : DRAINS_GRAIN;

	if (b->starting || !b->drains.recent)
		return 0;
	return (b->cwnd * mss >> 20) * 1000000 / rtt;
}
