/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Copa as a congestion control of the kernel: `alcc_copa`, by struct_ops.
 *
 * The state lives in socket storage, because the stack's private area (104 bytes) is too small.
 */
#include "paced.h"

#include "copa.h"
#include "options.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* delta of section 2: at least, 0.001, and at most, 1. In units of 2^-16. */
#define DELTA_LEAST 66
#define DELTA_MOST 65536

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct copa);
} state SEC(".maps");

static __always_inline struct copa *copa_of(struct sock *sk)
{
	return bpf_sk_storage_get(&state, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/* `c` is zero. */
static __always_inline void begin(struct copa *c, struct sock *sk, __u64 now)
{
	copa_start(c, now, OPTION(sk, delta, DELTA_LEAST, DELTA_MOST, COPA_DELTA));
}

SEC("struct_ops")
void BPF_PROG(alcc_copa_init, struct sock *sk)
{
	struct copa *c = copa_of(sk);

	if (!c)
		return;
	__builtin_memset(c, 0, sizeof(*c));
	begin(c, sk, now_us());
	c->cwnd = window_before((struct tcp_sock *)sk, COPA_INITIAL * ONE);
	begin_paced(sk);
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
		begin(c, sk, ack.now);
	ack.rtt = rs->rtt_us > 0 ? rs->rtt_us : 0;
	ack.sent_at = ack.now - ack.rtt;
	ack.acked = rs->acked_sacked;
	ack.lost = rs->losses > 0 ? rs->losses : 0;
	ack.may_grow = window_was_used(rs, c->cwnd);
	copa_on_ack(c, &ack);
	set_window(tp, c->cwnd);
	rate = copa_pacing_rate(c, tp->mss_cache);
	if (rate)
		set_rate(sk, rate);
}

PACED(copa, nothing_undone)
