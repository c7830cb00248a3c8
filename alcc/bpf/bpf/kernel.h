/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The kernel's types that these programs touch, with the members they touch and no others. The
 * loader finds each member's place in the running kernel by its name (CO-RE), so order and gaps
 * mean nothing here, and one object runs on every kernel from 6.1 on.
 */
#pragma once

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_NOTSENT_LOWAT 25
#define CC_NAME 16

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__u16 skc_num;
	__be16 skc_dport;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
	struct socket *sk_socket;
};

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 notsent_lowat;
	__u32 snd_cwnd_clamp;
	__u32 snd_nxt;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 delivered;
	__u32 lost;
	__u32 prior_cwnd;
	/* Time of the stack's last reading of the clock, which comes first for each packet: us and ns. */
	__u64 tcp_mstamp;
	__u64 tcp_clock_cache;
};

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
};

struct ack_sample {
	__u32 pkts_acked;
	int rtt_us;
};

/* Report of the stack to a congestion control with each acknowledgement (include/net/tcp.h). */
struct rate_sample {
	long rtt_us;
	__u32 prior_in_flight;
	__u32 acked_sacked;
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	int losses;
	bool is_app_limited;
};

struct inode {
	unsigned long i_ino;
};

struct socket_alloc {
	struct inode vfs_inode;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};

#pragma clang attribute pop

/* Filled by name from the kernel's type; members that are missing here are zero there. */
struct tcp_congestion_ops {
	__u32 flags;
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, int event);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[CC_NAME];
};

/* tcp_congestion_ops.flags: a user without privileges may choose it. */
#define TCP_CONG_NON_RESTRICTED 1

/* sock_common.skc_state: it waits for connections. */
#define TCP_LISTEN 10

/* sock.sk_pacing_status: TCP paces by a timer of its own, without the fq qdisc. */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

/*
 * inet_connection_sock.icsk_ca_state: after a mark; while losses are repaired; after a
 * retransmission timeout.
 */
#define TCP_CA_CWR 2
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4

/*
 * What the stack reports to cwnd_event: it sends with nothing in flight; so late that it reduced the
 * window; losses are repaired; a retransmission timeout.
 */
#define CA_EVENT_TX_START 0
#define CA_EVENT_CWND_RESTART 1
#define CA_EVENT_COMPLETE_CWR 2
#define CA_EVENT_LOSS 3
