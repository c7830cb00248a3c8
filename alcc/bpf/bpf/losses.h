/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The limit that losses set: `Losses` of Budget in `cc`, which says why of every number. But the
 * packets that come with one acknowledgement count by the newest of them. Times in microseconds, the
 * limit in 2^-20 packets.
 */
#pragma once

#include "loss_rate.h"
#include "rates.h"

#define LOSSES_SHARE_RATE (LOSSES_SHARE * LOSS_RATE_ONE / LOSSES_SHARE_OF)
#define LOSSES_DUE(of_path)                                                                        \
	(LOSSES_SHARE_RATE + (of_path) + (of_path) * (LOSSES_TOLERATED - LOSSES_TOLERATED_OF) / LOSSES_TOLERATED_OF)
/* The path loses at most this share. */
#define LOSSES_MOST_RATE LOSS_RATE(LOSSES_MOST)

struct losses {
	__u64 rate; /* 2^-31 */
	__u64 of_path; /* the share that is the path's, 2^-31 */
	__u64 limit;
	__u64 before; /* the limit before the last episode of losses */
	__u64 cut_at;
	__u64 not_before;
	__u64 since; /* of the test; only packets sent since then count; 0: no test is under way */
	__u64 share; /* as the test began: the share, and the limit */
	__u64 limit_before;
	__u64 product; /* delivered in the smallest RTT as the test began */
	__u32 full; /* the longest queueing at losses of congestion; 0: not known */
	__u32 queueing; /* as the test began */
	__u32 short_queue; /* it counts as short up to this */
	__u32 all; /* length of the test, packets */
	__u32 left; /* packets that remain */
	__u32 few; /* with more losses than that with a short queue they are the path's */
	__u32 with_short;
};

/* Losses so far do not count, and no limit is set before `until`. */
PURE void losses_forget(struct losses *l, __u64 until)
{
	if (l->not_before < until)
		l->not_before = until;
	l->rate = 0;
	l->since = 0;
}

/*
 * The route is longer: what was taken for queueing at losses was none, and no limit is set before
 * `until`.
 */
PURE void losses_reroute(struct losses *l, __u64 until)
{
	losses_forget(l, until);
	l->limit = MAX_CWND;
	l->full = 0;
}

/* An episode of losses begins. */
PURE void losses_mark(struct losses *l)
{
	l->before = l->limit;
}

/* The losses of the last episode were none. */
PURE void losses_undo(struct losses *l)
{
	l->rate = 0;
	l->since = 0;
	if (l->limit < l->before)
		l->limit = l->before;
}

PURE int losses_are_due(const struct losses *l, __u64 now)
{
	return !l->since && now >= l->not_before && l->rate > LOSSES_DUE(l->of_path);
}

/* The limit is `most` packets at most, but never less than LOSSES_SMALLEST. */
PURE void losses_lower(struct losses *l, __u64 most)
{
	if (l->limit > most)
		l->limit = most;
	if (l->limit < LOSSES_SMALLEST * ONE)
		l->limit = LOSSES_SMALLEST * ONE;
}

/* The sender slows down from now on; `product` is delivered in the smallest RTT. Queueing of up to `none` counts as none. */
PURE void losses_begin(struct losses *l, __u64 now, __u32 queueing, __u64 product, __u32 none)
{
	/* It is above LOSSES_SHARE_RATE; the verifier wants to see that it is not 0. */
	__u64 share = l->rate > LOSSES_SHARE_RATE ? l->rate : LOSSES_SHARE_RATE;
	__u64 packets = (LOSSES_EXPECTED * LOSS_RATE_ONE + share - 1) / share;

	l->few = LOSSES_FEW;
	if (packets < LOSSES_LEAST) {
		packets = LOSSES_LEAST;
		l->few = LOSSES_LEAST / LOSSES_EXPECTED * LOSSES_FEW * share >> 31;
	}
	l->all = packets;
	l->left = packets;
	l->with_short = 0;
	l->share = share;
	l->queueing = queueing;
	l->short_queue = queueing / LOSSES_HALF < none ? queueing / LOSSES_HALF : none;
	if (l->short_queue < LOSSES_GRAIN)
		l->short_queue = LOSSES_GRAIN;
	l->limit_before = l->limit;
	l->product = product;
	l->since = now;
	l->limit = l->limit * LOSSES_BETA / LOSSES_BETA_OF;
	losses_lower(l, queueing > none ? product + BUDGET_PACKETS * ONE : product);
}

PURE void losses_count(struct losses *l, __u64 now, __u64 sent_at, __u32 packets, __u32 lost,
		       __u32 queueing)
{
	__u64 seen;
	int late, goes_on;

	if (!l->since || sent_at < l->since)
		return;
	l->left = l->left > packets ? l->left - packets : 0;
	if (queueing <= l->short_queue)
		l->with_short += lost;
	late = now - l->since > LOSSES_PATIENCE;
	/* The number of packets that are back: all of them unless it is late. */
	seen = late ? l->all - l->left : l->all;
	goes_on = (__u64)l->with_short * l->all > l->few * seen;
	if (!goes_on && !late && l->left)
		return;
	l->since = 0;
	if (goes_on && l->share > LOSSES_DUE(LOSSES_MOST_RATE)) {
		/* The share is not reset, so the next test follows at once while the path loses as much. */
		l->of_path = LOSSES_MOST_RATE;
		return;
	}
	l->rate = 0;
	if (goes_on) {
		l->of_path = l->share < LOSSES_MOST_RATE ? l->share : LOSSES_MOST_RATE;
		l->limit = l->limit_before;
		return;
	}
	l->full = l->queueing;
}

/* Packets arrived. */
PURE void losses_delivered(struct losses *l, __u64 now, __u64 sent_at, __u32 packets,
			   __u32 queueing)
{
	__u32 part = packets < LOSSES_FORGET ? packets : LOSSES_FORGET;

	l->rate = loss_rate_delivered(l->rate, packets, LOSS_RATE_LONG);
	if (l->of_path > l->rate)
		l->of_path -= (l->of_path - l->rate) * part / LOSSES_FORGET;
	/* After a longer wait nothing was lost, so the buffer is longer. */
	if (l->full && l->full < queueing)
		l->full = queueing;
	losses_count(l, now, sent_at, packets, 0, queueing);
}

/* Packets are lost. With a full queue `left` may stay in flight, in a test only its product. */
PURE void losses_lost(struct losses *l, __u64 now, __u64 sent_at, __u32 packets, __u32 queueing,
		      __u64 left)
{
	__u32 full = l->full;

	if (l->since) {
		full = sent_at >= l->since ? l->queueing : 0;
		left = l->product;
	}
	if (full > LOSSES_GRAIN && (__u64)LOSSES_HALF * queueing >= full) {
		if (sent_at >= l->cut_at && now >= l->not_before) {
			l->cut_at = now;
			losses_lower(l, left);
		}
		if (!l->since) {
			l->full = full < queueing ? queueing : full;
			return;
		}
	}
	l->rate = loss_rate_lost(l->rate, packets, LOSS_RATE_LONG);
	losses_count(l, now, sent_at, packets, packets, queueing);
}

/* `packets` of a window of `cwnd` are back after `rtt`: the limit grows, but not in a test. */
PURE void losses_grow(struct losses *l, __u32 packets, __u64 cwnd, __u32 rtt, __u32 queueing)
{
	__u64 step = l->limit * LOSSES_RETURN / LOSSES_RETURN_OF;
	__u32 stands = l->full / LOSSES_STANDS > LOSSES_GRAIN ? l->full / LOSSES_STANDS : LOSSES_GRAIN;

	if (l->since || l->limit >= MAX_CWND)
		return;
	if (queueing > stands)
		step = rtt < LOSSES_SLOW ? ONE * rtt / LOSSES_SLOW : ONE;
	else if (step < ONE)
		step = ONE;
	l->limit += (step * packets << 10) / (cwnd >> 10 | 1);
	if (l->limit > MAX_CWND)
		l->limit = MAX_CWND;
}
