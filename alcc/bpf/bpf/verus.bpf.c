/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Verus as a congestion control of the kernel: `alcc_verus`, by struct_ops. The state lives in
 * socket storage, because the stack's private area (104 bytes) is too small.
 */
#include "paced.h"

#include "options.h"
#include "verus.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* R: at least, 1.5, and at most, 20. In units of 2^-8. */
#define RATIO_LEAST 384
#define RATIO_MOST (20 << 8)

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct verus);
} state SEC(".maps");

static __always_inline struct verus *verus_of(struct sock *sk)
{
	return bpf_sk_storage_get(&state, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/* `v` is zero. */
static __always_inline void begin(struct verus *v, struct sock *sk, __u64 now)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	verus_start(v, now, OPTION(sk, ratio, RATIO_LEAST, RATIO_MOST, VERUS_RATIO << 8));
	v->window = window_before(tp, VERUS_START * ONE);
	v->lost = tp->lost;
}

SEC("struct_ops")
void BPF_PROG(alcc_verus_init, struct sock *sk)
{
	struct verus *v;

	/* A new one is zero. */
	bpf_sk_storage_delete(&state, sk);
	v = verus_of(sk);
	if (v)
		begin(v, sk, now_us());
	begin_paced(sk);
}

SEC("struct_ops")
void BPF_PROG(alcc_verus_state, struct sock *sk, __u8 new_state)
{
	struct verus *v;

	if (new_state != TCP_CA_LOSS)
		return;
	v = verus_of(sk);
	if (v && v->window)
		verus_timeout(v, now_us());
}

static __always_inline void control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct verus *v = verus_of(sk);
	struct verus_ack ack = {};
	__u64 rate;

	/* Without memory for the state the window stays as it is. */
	if (!v)
		return;
	ack.now = now_us();
	if (!v->window)
		begin(v, sk, ack.now);
	verus_tick(v, ack.now);
	ack.rtt = rs->rtt_us > 0 ? rs->rtt_us : 0;
	ack.sent_at = ack.now - (ack.rtt ? ack.rtt : v->rtt);
	ack.acked = rs->acked_sacked;
	ack.idle = rs->is_app_limited;
	ack.in_flight = rs->prior_in_flight;
	if (rs->delivered > 0 && rs->interval_us > 0)
		ack.rate = ((__u64)rs->delivered << 8) * 1000000 / rs->interval_us;
	if (tp->lost != v->lost) {
		verus_lost(v, ack.now, ack.sent_at, tp->lost - v->lost);
		v->lost = tp->lost;
	}
	if (ack.acked)
		verus_acked(v, &ack);
	verus_note(v, ack.now);
	set_window(tp, verus_cwnd(v));
	rate = verus_pacing_rate(v, tp->mss_cache);
	if (rate)
		set_rate(sk, rate);
}

/* The stack has found that packets arrived which it took for lost (time stamps, D-SACK, F-RTO). */
static __always_inline void undone(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct verus *v = verus_of(sk);

	if (!v || !v->window)
		return;
	verus_undone(v);
	set_window(tp, verus_cwnd(v));
}

PACED(verus, undone)
