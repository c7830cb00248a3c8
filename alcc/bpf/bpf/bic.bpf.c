/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* BIC as a congestion control of the kernel: `alcc_bic`, by struct_ops. */
#include "stack.h"

#include "bic.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

_Static_assert(sizeof(struct bic) <= 104, "the stack's private area holds it");

static __always_inline struct bic *bic_of(struct sock *sk)
{
	return (struct bic *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops")
void BPF_PROG(alcc_bic_init, struct sock *sk)
{
	bic_of(sk)->repairing = 0;
	bic_start(bic_of(sk));
	begin_growth((struct tcp_sock *)sk);
}

SEC("struct_ops")
void BPF_PROG(alcc_bic_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bic *b = bic_of(sk);

	MEND(tp, bic_ssthresh(bic_of(sk), window_of_before(tp)));
	unsent_follow(sk);
	if (!b->repairing)
		bic_measure(b, sample->pkts_acked);
}

SEC("struct_ops")
void BPF_PROG(alcc_bic_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct growth g = growth_of(tp);

	if (!window_was_tested(tp, acked))
		return;
	bic_grow(bic_of(sk), &g, bpf_ktime_get_ns() / 1000, acked);
	take_over(tp, &g);
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_bic_ssthresh, struct sock *sk)
{
	return bic_ssthresh(bic_of(sk), ((struct tcp_sock *)sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(alcc_bic_state, struct sock *sk, __u8 new_state)
{
	bic_of(sk)->repairing = new_state == TCP_CA_CWR || new_state == TCP_CA_RECOVERY;
	if (new_state == TCP_CA_LOSS)
		bic_start(bic_of(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_bic_undo, struct sock *sk)
{
	return window_undone((struct tcp_sock *)sk);
}

#define OPS                                                                                        \
	{                                                                                          \
		.init = (void *)alcc_bic_init, .ssthresh = (void *)alcc_bic_ssthresh,              \
		.cong_avoid = (void *)alcc_bic_avoid, .pkts_acked = (void *)alcc_bic_acked,        \
		.set_state = (void *)alcc_bic_state, .undo_cwnd = (void *)alcc_bic_undo,           \
		.flags = TCP_CONG_NON_RESTRICTED, .name = "alcc_bic",                              \
	}

/* The second is for kernels without links of struct_ops. */
SEC("?.struct_ops.link")
struct tcp_congestion_ops ops = OPS;

SEC("?.struct_ops")
struct tcp_congestion_ops ops_old = OPS;
