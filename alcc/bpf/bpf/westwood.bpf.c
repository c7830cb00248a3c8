/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Westwood+ as a congestion control of the kernel: `alcc_westwood`, by struct_ops.
 *
 * It has no cong_control: the stack repairs losses itself (PRR, RFC 6937), and one form fits all
 * kernels. The state fits in the stack's private area.
 */
#include "stack.h"

#include "westwood.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

_Static_assert(sizeof(struct westwood) <= 104, "the stack's private area holds it");

static __always_inline struct westwood *westwood_of(struct sock *sk)
{
	return (struct westwood *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops")
void BPF_PROG(alcc_westwood_init, struct sock *sk)
{
	struct westwood *w = westwood_of(sk);

	w->first = 0;
	w->second = 0;
	w->since = 0;
	w->segments = 0;
	w->least = 0;
	w->credit = 0;
	w->delivered = ((struct tcp_sock *)sk)->delivered;
	begin_growth((struct tcp_sock *)sk);
}

SEC("struct_ops")
void BPF_PROG(alcc_westwood_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct westwood *w = westwood_of(sk);
	__u32 delivered = tp->delivered;
	int rtt = sample->rtt_us;

	MEND(tp, westwood_ssthresh(westwood_of(sk), window_of_before(tp)));
	unsent_follow(sk);
	westwood_measure(w, bpf_ktime_get_ns() / 1000, rtt > 0 ? rtt : 0, delivered - w->delivered);
	w->delivered = delivered;
}

SEC("struct_ops")
void BPF_PROG(alcc_westwood_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct growth g = growth_of(tp);

	if (!window_was_tested(tp, acked))
		return;
	westwood_grow(westwood_of(sk), &g, acked);
	take_over(tp, &g);
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_westwood_ssthresh, struct sock *sk)
{
	return westwood_ssthresh(westwood_of(sk), ((struct tcp_sock *)sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(alcc_westwood_event, struct sock *sk, int event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (event == CA_EVENT_COMPLETE_CWR) {
		struct growth g;

		g.ssthresh = westwood_bdp(westwood_of(sk));
		g.cwnd = g.ssthresh;
		take_over(tp, &g);
	} else if (event == CA_EVENT_LOSS) {
		tp->snd_ssthresh = westwood_timeout(westwood_of(sk));
	}
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_westwood_undo, struct sock *sk)
{
	return window_undone((struct tcp_sock *)sk);
}

#define OPS                                                                                        \
	{                                                                                          \
		.init = (void *)alcc_westwood_init, .ssthresh = (void *)alcc_westwood_ssthresh,    \
		.cong_avoid = (void *)alcc_westwood_avoid,                                         \
		.pkts_acked = (void *)alcc_westwood_acked,                                         \
		.cwnd_event = (void *)alcc_westwood_event,                                         \
		.undo_cwnd = (void *)alcc_westwood_undo, .flags = TCP_CONG_NON_RESTRICTED,         \
		.name = "alcc_westwood",                                                           \
	}

/* The second is for kernels without links of struct_ops. */
SEC("?.struct_ops.link")
struct tcp_congestion_ops ops = OPS;

SEC("?.struct_ops")
struct tcp_congestion_ops ops_old = OPS;
