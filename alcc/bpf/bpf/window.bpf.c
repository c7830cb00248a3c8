/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `alcc_window`: a congestion control whose window and pacing rate a program sets for its own
 * sockets, and which tells that program of each acknowledgement. By struct_ops.
 *
 * Both ways are socket storage, which user space reaches by (map, descriptor of the socket): who
 * holds a socket may steer and see it, and nobody else can name it. The kernel keeps that rule.
 */
#include "kernel.h"

#include "before.h"
#include "pacing.h"
#include "steered.h"
#include "unsent.h"
#include "window.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

/* Further fields of the kernel's structure that are used here. */
struct tcp_sock___shortest {
	struct minmax rtt_min; /* us, of the last five minutes */
};

#pragma clang attribute pop

/*
 * The program's own, in the stack's private area: what is asked for each transmission and each
 * acknowledgement must not be looked for first.
 */
struct own {
	struct window window;
	/* The knobs that are in force. */
	__u64 rate;
	__u32 wish;
	__u32 until;
};

_Static_assert(sizeof(struct own) <= 104, "the stack's private area holds it");

static __always_inline struct own *own_of(struct sock *sk)
{
	return (struct own *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u32 in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline __u32 shortest(struct sock *sk)
{
	return ((struct tcp_sock___shortest *)sk)->rtt_min.s[0].v;
}

static __always_inline void note(struct tcp_sock *tp, struct feed *f, __u64 now, __u32 rtt)
{
	__u32 flight = in_flight(tp), delivered = tp->delivered, lost = tp->lost;
	struct sample *s;

	bpf_spin_lock(&f->lock);
	s = &f->samples[f->acks & (SAMPLES - 1)];
	s->at = now;
	s->rtt = rtt;
	s->delivered = delivered;
	s->lost = lost;
	s->in_flight = flight;
	f->acks++;
	bpf_spin_unlock(&f->lock);
}

SEC("struct_ops")
void BPF_PROG(alcc_window_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct feed *f = bpf_sk_storage_get(&feed, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	struct own *o = own_of(sk);

	o->rate = 0;
	o->wish = 0;
	o->until = 0;
	window_start(&o->window, bpf_ktime_get_ns() / 1000, tp->delivered, tp->lost,
		     tp->snd_cwnd);
	/* The present values of the counters, for readers of their differences. */
	if (f)
		note(tp, f, bpf_ktime_get_ns(), 0);
	tp->snd_ssthresh = 0x7fffffff;
	/* BBR leaves the stack's own pacing switched on. */
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/* No threshold: the window is another's. */
SEC("struct_ops")
__u32 BPF_PROG(alcc_window_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(alcc_window_undo, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(alcc_window_state, struct sock *sk, __u8 new_state)
{
	if (new_state == TCP_CA_LOSS)
		window_timeout(&own_of(sk)->window, ((struct tcp_sock *)sk)->prior_cwnd);
}

static __always_inline void pace(struct sock *sk, struct own *o, __u64 rate)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	/* As the stack does for controls without a rate; srtt_us is in eighths. */
	if (!rate && tp->srtt_us)
		rate = (__u64)tp->mss_cache * tp->snd_cwnd * 16 * 1000000 / tp->srtt_us;
	if (rate)
		set_rate(sk, window_paced(&o->window, rate, tp->mss_cache));
}

/* With or without a program that steers, the window is at most what the path carries. */
static __always_inline void apply(struct sock *sk, struct own *o, const struct knobs *k)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 wish = tp->snd_cwnd;
	__u64 rate = 0;

	if (k) {
		__u32 until = window_quota_holds(&o->window, tp->tcp_mstamp, k->beat) ? k->until : 0;
		__u32 flight = in_flight(tp);

		o->wish = k->window;
		o->until = k->until;
		o->rate = rate = k->rate;
		if (k->window)
			wish = window_until(k->window, until, flight + tp->delivered + tp->lost, flight);
	}
	tp->snd_cwnd = window_allowed(&o->window, wish, tp->snd_cwnd_clamp, shortest(sk));
	pace(sk, o, rate);
}

/* Control that the socket had before, if that is known, otherwise the kernel's CUBIC. */
static __always_inline void give_back(struct sock *sk)
{
	struct before *was = bpf_sk_storage_get(&before, sk, 0, 0);
	char name[CC_NAME] = "cubic";

	if (was && was->control[0]) {
		__builtin_memcpy(name, was->control, CC_NAME);
		was->control[0] = 0;
	}
	unsent_end(sk);
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, CC_NAME)) {
		char reno[CC_NAME] = "reno";

		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, CC_NAME);
	}
}

/* The stack has read the clock for this acknowledgement. */
static __always_inline void control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct own *o = own_of(sk);
	struct feed *f = bpf_sk_storage_get(&feed, sk, 0, 0);
	struct knobs *k = bpf_sk_storage_get(&knobs, sk, 0, 0);
	struct window_ack ack;

	/* Without memory nobody can steer. */
	if (!f) {
		give_back(sk);
		return;
	}
	note(tp, f, tp->tcp_clock_cache, rs->rtt_us > 0 ? rs->rtt_us : 0);
	ack.packets = rs->delivered > 0 ? rs->delivered : 0;
	ack.interval = rs->interval_us > 0 ? rs->interval_us : 0;
	ack.delivered = tp->delivered;
	ack.lost = tp->lost;
	ack.in_flight = in_flight(tp);
	ack.rtt = shortest(sk);
	ack.limited = rs->is_app_limited;
	window_acked(&o->window, &ack);
	if (!window_is_steered(&o->window, tp->tcp_mstamp, k ? k->beat : 0)) {
		give_back(sk);
		return;
	}
	apply(sk, o, k);
	f->cwnd = tp->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(alcc_window_control, struct sock *sk, __u32 ack, int flag,
	      const struct rate_sample *rs)
{
	control(sk, rs);
}

/* Before Linux 6.10. */
SEC("struct_ops")
void BPF_PROG(alcc_window_control_old, struct sock *sk, const struct rate_sample *rs)
{
	control(sk, rs);
}

/*
 * Asked before each transmission: what user space has raised acts at once when it kicks. Not where
 * the next acknowledgement is as near as that: there it would be asked most often, for nothing.
 */
SEC("struct_ops")
__u32 BPF_PROG(alcc_window_segments, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct own *o = own_of(sk);
	struct knobs *k;
	struct feed *f;

	/* The stack's own default. */
	if (tp->packets_out && tp->srtt_us >> 3 < WINDOW_NEAR)
		return 2;
	k = bpf_sk_storage_get(&knobs, sk, 0, 0);
	if (!k || (k->window == o->wish && k->until == o->until && k->rate == o->rate))
		return 2;
	apply(sk, o, k);
	f = bpf_sk_storage_get(&feed, sk, 0, 0);
	if (f)
		f->cwnd = tp->snd_cwnd;
	return 2;
}

/* Restricted to CAP_NET_ADMIN until root names a group, or opens a door: allowed.rs. */
#define OPS(control_of)                                                                            \
	{                                                                                          \
		.init = (void *)alcc_window_init, .ssthresh = (void *)alcc_window_ssthresh,        \
		.undo_cwnd = (void *)alcc_window_undo, .set_state = (void *)alcc_window_state,     \
		.min_tso_segs = (void *)alcc_window_segments, .cong_control = (void *)control_of,  \
		.name = "alcc_window",                                                             \
	}

SEC("?.struct_ops.link")
struct tcp_congestion_ops ops = OPS(alcc_window_control);

SEC("?.struct_ops")
struct tcp_congestion_ops ops_old = OPS(alcc_window_control_old);
