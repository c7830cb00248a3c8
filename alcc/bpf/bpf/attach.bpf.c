/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Selects the congestion control of connections that exist (an iterator over the TCP sockets of a
 * network namespace) and of those to come (sock_ops on a cgroup). The programs select; nothing of
 * ours runs afterwards but the control itself.
 */
#include "kernel.h"

#include "before.h"
#include "chosen.h"
#include "share.h"
#include "unsent.h"
#include "watched.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Which connections. What is zero matches all. Filled before the programs are loaded. */
struct selection {
	char control[CC_NAME];
	__u16 port; /* local */
	__u16 family; /* of the peer's prefix */
	__u32 prefix_len; /* bits */
	__be32 prefix[4];
	__u8 by_inode; /* only sockets in `inodes` */
	__u8 restore; /* give back what was before, instead of selecting `control` */
	__u8 dry_run;
	__u8 watch; /* note every connection that matches, in the share or not */
	__u16 per_mille; /* only this share of the clients; 0: all */
	__u8 bound; /* the control follows a limit of what is written ahead */
	__u8 listening; /* only sockets that listen */
	__u64 salt;
	struct options options; /* of the control */
};
const volatile struct selection wanted = {};

/* Sockets of the processes that were named, by inode. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u8);
} inodes SEC(".maps");

/* Record of the iterator for each socket that matched. */
struct found {
	__u64 inode;
	__u32 error; /* errno, 0: done */
	__u16 local_port;
	__u16 peer_port;
	__u16 family;
	__u8 state;
	__u8 unused;
	__be32 peer[4];
	char was[CC_NAME];
	struct options had;
};

/* Byte by byte: a copy of the whole would forget that the loader fills it (volatile). */
static __always_inline void wanted_control(char name[CC_NAME])
{
#pragma unroll
	for (int i = 0; i < CC_NAME; i++)
		name[i] = wanted.control[i];
}

/* True: the socket had other options. */
static __always_inline bool ask_for_wanted(void *sk)
{
	struct options is = {
		.delay = wanted.options.delay,
		.delta = wanted.options.delta,
		.ratio = wanted.options.ratio,
	};
	bool differ = !has_options(sk, &is);

	ask_for_options(sk, &is);
	return differ;
}

static __always_inline void bound_unsent(void *socket)
{
	if (wanted.bound)
		unsent_begin(socket);
	else
		unsent_end(socket);
}

static __always_inline bool prefix_matches(__u16 family, const __be32 peer[4])
{
	__u32 left = wanted.prefix_len;

	if (!wanted.family)
		return true;
	if (family != wanted.family)
		return false;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u32 bits = left > 32 ? 32 : left;
		__u32 mask = bits ? bpf_htonl(0xffffffffU << (32 - bits)) : 0;

		if ((peer[i] ^ wanted.prefix[i]) & mask)
			return false;
		left -= bits;
	}
	return true;
}

static __always_inline __u64 client_at(__u16 family, const __be32 peer[4])
{
	if (family == AF_INET)
		return client_of_v4(bpf_ntohl(peer[0]));
	return client_of_v6(bpf_ntohl(peer[0]), bpf_ntohl(peer[1]));
}

static __always_inline bool share_has(__u64 client)
{
	return !wanted.per_mille || in_share(client, wanted.salt, wanted.per_mille);
}

static __always_inline void peer_of(struct sock_common *skc, struct found *f)
{
	__be32 *v6 = skc->skc_v6_daddr.in6_u.u6_addr32;

	f->family = skc->skc_family;
	if (f->family == AF_INET) {
		f->peer[0] = skc->skc_daddr;
	} else {
		f->peer[0] = v6[0];
		f->peer[1] = v6[1];
		f->peer[2] = v6[2];
		f->peer[3] = v6[3];
		/* An IPv4 peer of an IPv6 socket is an IPv4 peer. */
		if (!f->peer[0] && !f->peer[1] && f->peer[2] == bpf_htonl(0xffff)) {
			f->family = AF_INET;
			f->peer[0] = f->peer[3];
			f->peer[2] = 0;
			f->peer[3] = 0;
		}
	}
}

SEC("iter/tcp")
int alcc_attach(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct found f = {};
	struct before *was;
	struct options *had;
	struct tcp_sock *tp;
	struct socket *socket;
	char name[CC_NAME] = {};

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	peer_of(skc, &f);
	f.local_port = skc->skc_num;
	f.peer_port = bpf_ntohs(skc->skc_dport);
	f.state = skc->skc_state;
	if ((wanted.port && f.local_port != wanted.port) || !prefix_matches(f.family, f.peer))
		return 0;
	if (wanted.listening && f.state != TCP_LISTEN)
		return 0;
	/* A listener would hand its control to all clients. */
	if (wanted.per_mille &&
	    (f.state == TCP_LISTEN || !share_has(client_at(f.family, f.peer))))
		return 0;
	socket = ((struct sock *)tp)->sk_socket;
	if (socket)
		bpf_probe_read_kernel(&f.inode, sizeof(f.inode),
				      &((struct socket_alloc *)socket)->vfs_inode.i_ino);
	if (wanted.by_inode && !bpf_map_lookup_elem(&inodes, &f.inode))
		return 0;
	bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, f.was, sizeof(f.was));
	had = options_of(tp, 0);
	if (had)
		f.had = *had;
	was = bpf_sk_storage_get(&before, (struct sock *)tp, 0,
				 wanted.restore || wanted.dry_run ? 0 : BPF_SK_STORAGE_GET_F_CREATE);
	if (wanted.restore) {
		if (!was || !was->control[0])
			return 0;
		__builtin_memcpy(name, was->control, CC_NAME);
	} else {
		wanted_control(name);
	}
	/* Told before it is done: what does not fit, the kernel forgets, and shows the socket again. */
	if (bpf_seq_write(ctx->meta->seq, &f, sizeof(f)) || wanted.dry_run)
		return 0;
	if (ask_for_wanted((struct sock *)tp))
		begin_anew(tp, f.was, name);
	f.error = -bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, CC_NAME);
	if (f.error) {
		/* A second record of the same socket corrects the first. */
		bpf_seq_write(ctx->meta->seq, &f, sizeof(f));
		return 0;
	}
	bound_unsent(tp);
	/* The iterator may show a socket twice: what was before its first change counts. */
	if (was && wanted.restore)
		was->control[0] = 0;
	else if (was && !was->control[0])
		__builtin_memcpy(was->control, f.was, CC_NAME);
	return 0;
}

/* For connections to come: as soon as one is established, whoever opened it. */
SEC("sockops")
int alcc_future(struct bpf_sock_ops *ops)
{
	struct before *was;
	struct watched *w;
	__be32 peer[4] = {};
	__u16 family = ops->family;
	__u64 client;
	char name[CC_NAME];

	if (ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		return 1;
	if (wanted.port && ops->local_port != wanted.port)
		return 1;
	/* The peer of an outgoing connection is not a client. */
	if (wanted.watch && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (wanted.family || wanted.per_mille) {
		__be32 v4 = ops->remote_ip4, v6 = ops->remote_ip6[0];

		/* Else the compiler chooses a place within ops, which the verifier refuses. */
		barrier_var(v4);
		barrier_var(v6);
		peer[0] = family == AF_INET ? v4 : v6;
		if (family == AF_INET6) {
			peer[1] = ops->remote_ip6[1];
			peer[2] = ops->remote_ip6[2];
			peer[3] = ops->remote_ip6[3];
			if (!peer[0] && !peer[1] && peer[2] == bpf_htonl(0xffff)) {
				family = AF_INET;
				peer[0] = peer[3];
				peer[2] = 0;
				peer[3] = 0;
			}
		}
		if (!prefix_matches(family, peer))
			return 1;
	}
	client = client_at(family, peer);
	if (wanted.watch && ops->sk) {
		w = bpf_sk_storage_get(&watched, ops->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (w) {
			w->cookie = bpf_get_socket_cookie(ops);
			w->client = client;
			bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags |
							       BPF_SOCK_OPS_STATE_CB_FLAG);
		}
	}
	if (!share_has(client))
		return 1;
	if (ops->sk) {
		was = bpf_sk_storage_get(&before, ops->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (was && !was->control[0])
			bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, was->control, CC_NAME);
	}
	wanted_control(name);
	if (ops->sk && ask_for_wanted(ops->sk)) {
		char is[CC_NAME] = {};

		bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, is, CC_NAME);
		begin_anew(ops, is, name);
	}
	if (!bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, name, CC_NAME))
		bound_unsent(ops);
	return 1;
}
