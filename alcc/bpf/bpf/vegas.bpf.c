/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Vegas as a congestion control of the kernel: `alcc_vegas`, by struct_ops. */
#include "stack.h"

#include "vegas.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

_Static_assert(sizeof(struct vegas) <= 104, "the stack's private area holds it");

static __always_inline struct vegas *vegas_of(struct sock *sk)
{
	return (struct vegas *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops")
void BPF_PROG(alcc_vegas_init, struct sock *sk)
{
	vegas_of(sk)->credit = 0;
	vegas_start(vegas_of(sk), ((struct tcp_sock *)sk)->snd_nxt);
	begin_growth((struct tcp_sock *)sk);
}

SEC("struct_ops")
void BPF_PROG(alcc_vegas_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	int rtt = sample->rtt_us;

	MEND(tp, vegas_ssthresh(vegas_of(sk), window_of_before(tp)));
	unsent_follow(sk);
	vegas_sample(vegas_of(sk), rtt > 0 ? rtt : 0);
}

SEC("struct_ops")
void BPF_PROG(alcc_vegas_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct growth g = growth_of(tp);

	vegas_grow(vegas_of(sk), &g, ack, tp->snd_nxt, window_was_tested(tp, acked) ? acked : 0);
	take_over(tp, &g);
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_vegas_ssthresh, struct sock *sk)
{
	return vegas_ssthresh(vegas_of(sk), ((struct tcp_sock *)sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(alcc_vegas_event, struct sock *sk, int event)
{
	__u32 next = ((struct tcp_sock *)sk)->snd_nxt;

	if (event == CA_EVENT_COMPLETE_CWR || event == CA_EVENT_LOSS)
		vegas_round(vegas_of(sk), next);
	else if (event == CA_EVENT_TX_START || event == CA_EVENT_CWND_RESTART)
		vegas_start(vegas_of(sk), next);
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_vegas_undo, struct sock *sk)
{
	return window_undone((struct tcp_sock *)sk);
}

#define OPS                                                                                        \
	{                                                                                          \
		.init = (void *)alcc_vegas_init, .ssthresh = (void *)alcc_vegas_ssthresh,          \
		.cong_avoid = (void *)alcc_vegas_avoid, .pkts_acked = (void *)alcc_vegas_acked,    \
		.cwnd_event = (void *)alcc_vegas_event, .undo_cwnd = (void *)alcc_vegas_undo,      \
		.flags = TCP_CONG_NON_RESTRICTED, .name = "alcc_vegas",                            \
	}

/* The second is for kernels without links of struct_ops. */
SEC("?.struct_ops.link")
struct tcp_congestion_ops ops = OPS;

SEC("?.struct_ops")
struct tcp_congestion_ops ops_old = OPS;
