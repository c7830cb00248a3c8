/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Copa as a congestion control of the kernel: `alcc_copa`, by struct_ops.
 *
 * The state lives in socket storage, because the stack's private area (104 bytes) is too small.
 */
#include "kernel.h"

#include "copa.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* delta of section 2, in units of 2^-16. */
const volatile __u32 delta = 1 << 15;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct copa);
} state SEC(".maps");

static __always_inline __u64 now_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

static __always_inline struct copa *copa_of(struct sock *sk)
{
	return bpf_sk_storage_get(&state, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("struct_ops")
void BPF_PROG(alcc_copa_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct copa *c = copa_of(sk);

	if (!c)
		return;
	__builtin_memset(c, 0, sizeof(*c));
	copa_start(c, now_us(), delta);
	/* A connection taken over in mid-life keeps its window. */
	if (tp->snd_cwnd > COPA_INITIAL_CWND >> 20)
		c->cwnd = (__u64)tp->snd_cwnd << 20;
	tp->snd_ssthresh = 0x7fffffff;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Copa has no threshold, and PRR is off for a control with cong_control. */
SEC("struct_ops")
__u32 BPF_PROG(alcc_copa_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_copa_undo, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(alcc_copa_state, struct sock *sk, __u8 new_state)
{
	struct copa *c;

	if (new_state != TCP_CA_LOSS)
		return;
	c = copa_of(sk);
	if (c && c->cwnd)
		copa_timeout(c, now_us());
}

static __always_inline void control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct copa *c = copa_of(sk);
	struct copa_ack ack = {};
	__u64 rate;

	/* Without memory for the state the window stays as it is. */
	if (!c)
		return;
	ack.now = now_us();
	if (!c->cwnd)
		copa_start(c, ack.now, delta);
	ack.rtt = rs->rtt_us > 0 ? rs->rtt_us : 0;
	ack.acked = rs->acked_sacked;
	ack.lost = rs->losses > 0 ? rs->losses : 0;
	/* With half of the window unused nothing has tested it (RFC 9002, section 7.8). */
	ack.may_grow = (__u64)rs->prior_in_flight << 21 >= c->cwnd;
	copa_on_ack(c, &ack);
	tp->snd_cwnd = c->cwnd >> 20;
	rate = copa_pacing_rate(c, tp->mss_cache);
	if (rate)
		sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

/*
 * Two forms, and the loader takes the one that fits. Linux 6.10 added two arguments to
 * cong_control; Linux 6.4 added links, which end a registration when their pin goes.
 */
SEC("struct_ops")
void BPF_PROG(alcc_copa_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	control(sk, rs);
}

SEC("struct_ops")
void BPF_PROG(alcc_copa_control_old, struct sock *sk, const struct rate_sample *rs)
{
	control(sk, rs);
}

#define OPS(control_of)                                                                            \
	{                                                                                          \
		.init = (void *)alcc_copa_init, .ssthresh = (void *)alcc_copa_ssthresh,            \
		.undo_cwnd = (void *)alcc_copa_undo, .set_state = (void *)alcc_copa_state,         \
		.cong_control = (void *)control_of, .flags = TCP_CONG_NON_RESTRICTED,              \
		.name = "alcc_copa",                                                               \
	}

SEC("?.struct_ops.link")
struct tcp_congestion_ops ops = OPS(alcc_copa_control);

SEC("?.struct_ops")
struct tcp_congestion_ops ops_old = OPS(alcc_copa_control_old);
