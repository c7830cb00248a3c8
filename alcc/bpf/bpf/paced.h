/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What controls share that set window and rate with each acknowledgement (cong_control). */
#pragma once

#include "pacing.h"
#include "pure.h"
#include "unsent.h"

static __always_inline __u64 now_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

/* A control taken over: no threshold, because PRR is off, and the stack paces. */
static __always_inline void begin_paced(struct sock *sk)
{
	((struct tcp_sock *)sk)->snd_ssthresh = 0x7fffffff;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* With half of the window unused nothing has tested it (RFC 9002, section 7.8). */
static __always_inline bool window_was_used(const struct rate_sample *rs, __u64 cwnd)
{
	return (__u64)rs->prior_in_flight << 21 >= cwnd;
}

/* A connection taken over in mid-life keeps its window, `least` at least. 2^-20 packets. */
static __always_inline __u64 window_before(const struct tcp_sock *tp, __u64 least)
{
	__u64 cwnd = (__u64)tp->snd_cwnd << 20;

	if (cwnd > MAX_CWND)
		cwnd = MAX_CWND;
	return cwnd > least ? cwnd : least;
}

/* `cwnd` in 2^-20 packets. */
static __always_inline void set_window(struct tcp_sock *tp, __u64 cwnd)
{
	__u32 most = tp->snd_cwnd_clamp, packets = cwnd >> 20;

	tp->snd_cwnd = packets < most ? packets : most;
}

/* For a control that a loss which was none leaves as it is. */
static __always_inline void nothing_undone(struct sock *sk) {}

/* PRR is off for a control with cong_control: a threshold changes nothing, an undo what `undone` does. */
#define PACED_CALLBACKS(name, undone)                                                              \
	SEC("struct_ops")                                                                          \
	__u32 BPF_PROG(alcc_##name##_ssthresh, struct sock *sk)                                    \
	{                                                                                          \
		return ((struct tcp_sock *)sk)->snd_ssthresh;                                      \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	__u32 BPF_PROG(alcc_##name##_undo, struct sock *sk)                                        \
	{                                                                                          \
		undone(sk);                                                                        \
		return ((struct tcp_sock *)sk)->snd_cwnd;                                          \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(alcc_##name##_control, struct sock *sk, __u32 ack, int flag,                 \
		      const struct rate_sample *rs)                                                \
	{                                                                                          \
		control(sk, rs);                                                                   \
		unsent_follow(sk);                                                                 \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(alcc_##name##_control_old, struct sock *sk, const struct rate_sample *rs)    \
	{                                                                                          \
		control(sk, rs);                                                                   \
		unsent_follow(sk);                                                                 \
	}

/*
 * Two forms, and the loader takes the one that fits. Linux 6.10 added two arguments to
 * cong_control; Linux 6.4 added links, which end a registration when their pin goes.
 */
#define PACED_OPS(name_of, control_of)                                                             \
	{                                                                                          \
		.init = (void *)alcc_##name_of##_init,                                             \
		.ssthresh = (void *)alcc_##name_of##_ssthresh,                                     \
		.undo_cwnd = (void *)alcc_##name_of##_undo,                                        \
		.set_state = (void *)alcc_##name_of##_state, .cong_control = (void *)control_of,   \
		.flags = TCP_CONG_NON_RESTRICTED, .name = "alcc_" #name_of,                        \
	}

#define PACED(name, undone)                                                                        \
	PACED_CALLBACKS(name, undone)                                                              \
                                                                                                   \
	SEC("?.struct_ops.link")                                                                   \
	struct tcp_congestion_ops ops = PACED_OPS(name, alcc_##name##_control);                    \
                                                                                                   \
	SEC("?.struct_ops")                                                                        \
	struct tcp_congestion_ops ops_old = PACED_OPS(name, alcc_##name##_control_old);
