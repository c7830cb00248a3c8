/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The connections of a trial, and their counters for who reads them. The map holds the
 * connections of one trial only, so a reading costs as much as there are of these, however many
 * sockets the machine has.
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

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

struct watched {
	__u64 cookie;
	__u64 client;
	/* As they were told last. */
	__u64 acked;
	__u32 in_flight;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct watched);
} watched SEC(".maps");

/* A reading. */
struct counters {
	__u64 cookie;
	__u64 client;
	__u64 acked;
	__u32 in_flight; /* written and not acknowledged */
	__u32 rtt_us;
	__u32 retransmits;
	__u32 mss;
};

SEC("iter/bpf_sk_storage_map")
int alcc_readings(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct tcp_sock___watched *tp = (void *)ctx->sk;
	struct watched *w = ctx->value;
	struct counters c = {};

	if (!tp || !w)
		return 0;
	c.acked = BPF_CORE_READ(tp, bytes_acked);
	c.in_flight = BPF_CORE_READ(tp, write_seq) - BPF_CORE_READ(tp, snd_una);
	/* It rests: that was told. */
	if (!c.in_flight && !w->in_flight && c.acked == w->acked)
		return 0;
	w->acked = c.acked;
	w->in_flight = c.in_flight;
	c.cookie = w->cookie;
	c.client = w->client;
	c.rtt_us = BPF_CORE_READ(tp, rack.rtt_us);
	c.retransmits = BPF_CORE_READ(tp, total_retrans);
	c.mss = BPF_CORE_READ(tp, mss_cache);
	bpf_seq_write(ctx->meta->seq, &c, sizeof(c));
	return 0;
}
