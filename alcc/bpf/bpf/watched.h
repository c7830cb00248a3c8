/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The connections of a trial, and the iterator that reads their counters. It visits every TCP socket of
 * a network namespace, so user space runs it only in those with open connections of the trial.
 */
#pragma once

#include "kernel.h"

/* More members of the kernel's type (CO-RE leaves out what follows the underscores). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct tcp_rack {
	__u32 rtt_us; /* of the packet that was delivered last */
};

struct tcp_sock___watched {
	__u32 snd_una;
	__u32 write_seq;
	__u32 total_retrans;
	__u32 mss_cache;
	__u64 bytes_acked;
	struct tcp_rack rack;
};

struct tcp_skb_cb {
	__u32 ack_seq;
};

struct sk_buff {
	char cb[48];
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

struct sock_common___watched {
	struct {
		struct net *net;
	} skc_net;
};

#pragma clang attribute pop

struct watched {
	__u64 cookie;
	__u64 client;
	/* As they were told last. */
	__u64 acked;
	__u32 in_flight;
	__u32 closed; /* the kernel is done with it */
	__u32 namespace;
	__u32 told; /* at all */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct watched);
} watched SEC(".maps");

/* The number of open connections in each network namespace, by the number that /proc shows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} connections SEC(".maps");

static __always_inline void add_connections(__u32 namespace, __s64 count)
{
	__u64 none = 0, *open;

	bpf_map_update_elem(&connections, &namespace, &none, BPF_NOEXIST);
	open = bpf_map_lookup_elem(&connections, &namespace);
	if (open)
		__sync_fetch_and_add(open, count);
}

static __always_inline __u32 namespace_of(struct tcp_sock *tp)
{
	return BPF_CORE_READ((struct sock_common___watched *)tp, skc_net.net, ns.inum);
}

/* A reading. */
struct counters {
	__u64 cookie;
	__u64 client;
	__u64 acked;
	__u32 in_flight; /* written and not acknowledged */
	__u32 rtt_us;
	__u32 retransmits;
	__u32 mss;
	__u64 first; /* of this connection */
};

/* The end of a transfer: all is acknowledged, or the kernel is done with the connection. */
struct ended {
	struct counters c;
	__u64 closed;
};

/* Between two looks of who reads them. */
#define ENDS 16384

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, ENDS);
	__type(value, struct ended);
} ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} ends_lost SEC(".maps");

/* False: it rests, and that was told. */
static __always_inline bool count(struct tcp_sock___watched *tp, struct watched *w,
				  struct counters *c)
{
	c->acked = BPF_CORE_READ(tp, bytes_acked);
	c->in_flight = BPF_CORE_READ(tp, write_seq) - BPF_CORE_READ(tp, snd_una);
	if (!c->in_flight && !w->in_flight && c->acked == w->acked)
		return false;
	c->cookie = w->cookie;
	c->client = w->client;
	c->rtt_us = BPF_CORE_READ(tp, rack.rtt_us);
	c->retransmits = BPF_CORE_READ(tp, total_retrans);
	c->mss = BPF_CORE_READ(tp, mss_cache);
	c->first = !w->told;
	return true;
}

SEC("iter/tcp")
int alcc_readings(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct counters c = {};
	struct tcp_sock *tp;
	struct watched *w;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	w = bpf_sk_storage_get(&watched, (struct sock *)tp, 0, 0);
	if (!w || w->closed || !count((void *)tp, w, &c))
		return 0;
	/* If it does not fit, the kernel drops it and visits the socket again. */
	if (bpf_seq_write(ctx->meta->seq, &c, sizeof(c)))
		return 0;
	w->acked = c.acked;
	w->in_flight = c.in_flight;
	w->told = 1;
	return 0;
}

static __always_inline void push(struct watched *w, struct ended *end)
{
	__u32 first = 0;
	__u64 *lost;

	w->acked = end->c.acked;
	w->in_flight = end->c.in_flight;
	w->closed = end->closed;
	w->told = 1;
	end->c.cookie = w->cookie;
	end->c.client = w->client;
	if (!bpf_map_push_elem(&ends, end, 0))
		return;
	lost = bpf_map_lookup_elem(&ends_lost, &first);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

/* A closed socket is in no table that an iterator walks. */
SEC("sockops")
int alcc_closed(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct ended end = { .closed = 1 };
	struct tcp_sock *tp;
	struct watched *w;

	if (ops->op != BPF_SOCK_OPS_STATE_CB || ops->args[1] != BPF_TCP_CLOSE || !sk)
		return 1;
	w = bpf_sk_storage_get(&watched, sk, 0, 0);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!w || !tp || w->closed)
		return 1;
	add_connections(w->namespace, -1);
	count((void *)tp, w, &end.c);
	push(w, &end);
	return 1;
}

/*
 * On a connection that is kept, all may be acknowledged between two readings only: with its last
 * acknowledgement the client asks again. So each packet to a watched connection is looked at,
 * before the stack takes it.
 */
SEC("tp_btf/tcp_probe")
int BPF_PROG(alcc_acked, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock___watched *tp = (void *)sk;
	struct tcp_skb_cb *cb = (void *)skb->cb;
	struct ended end = {};
	struct watched *w;
	__u32 ack;

	w = bpf_sk_storage_get(&watched, sk, 0, 0);
	if (!w || w->closed || !count(tp, w, &end.c))
		return 0;
	ack = BPF_CORE_READ(cb, ack_seq);
	if (!end.c.in_flight || ack != BPF_CORE_READ(tp, write_seq))
		return 0;
	end.c.acked += end.c.in_flight;
	end.c.in_flight = 0;
	push(w, &end);
	return 0;
}
