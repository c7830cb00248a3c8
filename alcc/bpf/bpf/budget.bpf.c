/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Budget as a congestion control of the kernel: `alcc_budget`, by struct_ops. The state lives in
 * socket storage, because the stack's private area (104 bytes) is too small.
 */
#include "paced.h"

#include "budget.h"
#include "options.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The queueing delay to aim at: at least and at most. Microseconds. */
#define DELAY_LEAST 1000
#define DELAY_MOST 10000000

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct budget);
} state SEC(".maps");

static __always_inline struct budget *budget_of(struct sock *sk)
{
	return bpf_sk_storage_get(&state, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/* `b` is zero. */
static __always_inline void begin(struct budget *b, struct sock *sk, __u64 now)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	budget_start(b, now, OPTION(sk, delay, DELAY_LEAST, DELAY_MOST, BUDGET_DELAY));
	b->cwnd = window_before(tp, BUDGET_INITIAL * ONE);
	b->lost = tp->lost;
}

SEC("struct_ops")
void BPF_PROG(alcc_budget_init, struct sock *sk)
{
	struct budget *b;

	/* A new one is zero. */
	bpf_sk_storage_delete(&state, sk);
	b = budget_of(sk);
	if (b)
		begin(b, sk, now_us());
	begin_paced(sk);
}

/* There are no timers here: what a silence changes waits for the stack's own. */
SEC("struct_ops")
void BPF_PROG(alcc_budget_state, struct sock *sk, __u8 new_state)
{
	struct budget *b = budget_of(sk);
	int repairing = new_state == TCP_CA_RECOVERY || new_state == TCP_CA_LOSS;

	if (!b || !b->cwnd)
		return;
	if (repairing && !b->repairing)
		losses_mark(&b->losses);
	b->repairing = repairing;
	if (new_state != TCP_CA_LOSS)
		return;
	budget_leave_start(b, now_us());
	budget_silence(b, now_us());
}

/* The stack has found that packets arrived which it took for lost (time stamps, D-SACK, F-RTO). */
static __always_inline void undone(struct sock *sk)
{
	struct budget *b = budget_of(sk);

	if (!b || !b->cwnd)
		return;
	budget_undone(b);
	set_window((struct tcp_sock *)sk, budget_window(b));
}

/*
 * What the stack lets go at once, packets: a millisecond at the pacing rate (tcp_tso_autosize). The
 * odd length is never 0, whatever the verifier knows of it.
 */
static __always_inline __u64 at_once(const struct sock *sk)
{
	__u64 packets = (sk->sk_pacing_rate >> 10) / (((struct tcp_sock *)sk)->mss_cache | 1);

	return packets > 2 ? packets : 2;
}

static __always_inline void control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct budget *b = budget_of(sk);
	struct budget_ack ack = {};
	__u64 rate;

	/* Without memory for the state the window stays as it is. */
	if (!b)
		return;
	ack.now = now_us();
	if (!b->cwnd)
		begin(b, sk, ack.now);
	ack.rtt = rs->rtt_us > 0 ? rs->rtt_us : 0;
	ack.sent_at = ack.now - ack.rtt;
	ack.acked = rs->acked_sacked;
	ack.idle = rs->is_app_limited;
	ack.used = window_was_used(rs, b->cwnd);
	ack.full = rs->prior_in_flight + at_once(sk) > b->cwnd >> 20;
	if (tp->lost != b->lost) {
		/* Lost packets were sent just before those that revealed the loss. */
		budget_lost(b, ack.now, ack.sent_at, tp->lost - b->lost);
		b->lost = tp->lost;
	}
	if (ack.acked)
		budget_acked(b, &ack);
	set_window(tp, budget_window(b));
	rate = budget_pacing_rate(b, tp->mss_cache);
	set_rate(sk, rate ? rate : ~0UL);
}

PACED(budget, undone)
