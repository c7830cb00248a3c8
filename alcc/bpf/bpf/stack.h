/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What controls share whose losses the stack repairs itself (PRR, RFC 6937): those without
 * cong_control. One form of them fits all kernels.
 */
#pragma once

#include "kernel.h"

#include "growth.h"
#include "unsent.h"

static __always_inline struct growth growth_of(const struct tcp_sock *tp)
{
	struct growth g = {.cwnd = tp->snd_cwnd, .ssthresh = tp->snd_ssthresh};

	return g;
}

static __always_inline void take_over(struct tcp_sock *tp, const struct growth *g)
{
	__u32 most = tp->snd_cwnd_clamp;

	tp->snd_cwnd = g->cwnd < most ? g->cwnd : most;
	tp->snd_ssthresh = g->ssthresh;
}

/* With half of the window unused nothing has tested it (RFC 9002, section 7.8). */
static __always_inline bool window_was_tested(const struct tcp_sock *tp, __u32 acked)
{
	__u64 flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;

	return 2 * (flight + acked) >= tp->snd_cwnd;
}

/* The window after a loss that was none. */
static __always_inline __u32 window_undone(const struct tcp_sock *tp)
{
	__u32 cwnd = tp->snd_cwnd, prior = tp->prior_cwnd, most = tp->snd_cwnd_clamp;

	if (cwnd < prior)
		cwnd = prior;
	return cwnd < most ? cwnd : most;
}

/* The window before the losses; where that was nobody's answer either, what is out. */
static __always_inline __u32 window_of_before(const struct tcp_sock *tp)
{
	__u32 prior = tp->prior_cwnd;

	return prior <= GROWTH_MAX ? prior : growth_bounded(tp->packets_out);
}

/* With each acknowledgement: `left` is asked only where the threshold is nobody's answer. */
#define MEND(tp, left)                                                                             \
	do {                                                                                       \
		struct growth has = growth_of(tp);                                                 \
		bool answered = growth_is_answer(has.ssthresh);                                    \
                                                                                                   \
		if (answered && has.cwnd <= GROWTH_MAX)                                            \
			break;                                                                     \
		growth_mend(&has, window_of_before(tp), answered ? 0 : (left));                    \
		take_over(tp, &has);                                                               \
	} while (0)

/* A control taken over may have had a larger window. */
static __always_inline void begin_growth(struct tcp_sock *tp)
{
	struct growth g = growth_of(tp);

	g.cwnd = growth_bounded(g.cwnd);
	if (!growth_is_answer(g.ssthresh))
		g.ssthresh = GROWTH_NO_SSTHRESH;
	take_over(tp, &g);
}
