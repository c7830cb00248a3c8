/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door for containers: the maps of `alcc_window` as socket options of a level of our own, for
 * the sockets of a cgroup. Who has no file of ours and may not call bpf(2) steers and sees its own
 * sockets through it, and no others: an option belongs to the socket that it is asked of.
 *
 * Every other option of these sockets passes here, too. Its level is compared and no more.
 */
#include "kernel.h"

#include "steered.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* No level of the kernel's: include/linux/socket.h counts from 0 to some 300. */
#define DOOR_LEVEL 0x414c4343
#define DOOR_STEER 1 /* set: struct steer */
#define DOOR_FEED 2 /* get: struct told */
#define DOOR_VERSION 3 /* get: the sizes of both, so that another version is known as such */

#define IPPROTO_TCP 6

#define EINVAL 22
#define ENOMEM 12
#define ENOENT 2
#define ENOPROTOOPT 92

/* struct knobs without its lock. */
struct steer {
	__u32 beat;
	__u32 window;
	__u32 until;
	__u32 unused;
	__u64 rate;
};

/* struct feed without its lock and without what is the program's own. */
struct told {
	__u32 cwnd;
	__u32 unused;
	__u64 acks;
	struct sample samples[SAMPLES];
};

#define VERSION (sizeof(struct steer) << 16 | sizeof(struct told))

/* Return value of the call; the kernel does not see the option. */
static __always_inline int refuse(int error)
{
	bpf_set_retval(-error);
	return 0;
}

SEC("cgroup/setsockopt")
int alcc_door_set(struct bpf_sockopt *ctx)
{
	struct steer *wish;
	struct bpf_sock *sk;
	struct knobs *k;

	if (ctx->level != DOOR_LEVEL)
		return 1;
	/* The door of a cgroup above or below has done it. */
	if (ctx->optlen == -1)
		return 1;
	sk = ctx->sk;
	if (!sk || sk->protocol != IPPROTO_TCP || ctx->optname != DOOR_STEER)
		return refuse(ENOPROTOOPT);
	wish = ctx->optval;
	if (ctx->optlen != sizeof(*wish) || (void *)(wish + 1) > ctx->optval_end)
		return refuse(EINVAL);
	k = bpf_sk_storage_get(&knobs, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!k)
		return refuse(ENOMEM);
	bpf_spin_lock(&k->lock);
	k->beat = wish->beat;
	k->window = wish->window;
	k->until = wish->until;
	k->rate = wish->rate;
	bpf_spin_unlock(&k->lock);
	/* Done: the kernel's own part is left out. */
	ctx->optlen = -1;
	return 1;
}

static __always_inline int tell(struct bpf_sockopt *ctx, struct bpf_sock *sk)
{
	struct told *told = ctx->optval;
	struct feed *f;

	if (ctx->optlen != sizeof(*told) || (void *)(told + 1) > ctx->optval_end)
		return refuse(EINVAL);
	f = bpf_sk_storage_get(&feed, sk, 0, 0);
	if (!f)
		return refuse(ENOENT);
	bpf_spin_lock(&f->lock);
	told->cwnd = f->cwnd;
	told->unused = 0;
	told->acks = f->acks;
	__builtin_memcpy(told->samples, f->samples, sizeof(told->samples));
	bpf_spin_unlock(&f->lock);
	ctx->retval = 0;
	return 1;
}

SEC("cgroup/getsockopt")
int alcc_door_get(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk;
	__u32 *version;

	if (ctx->level != DOOR_LEVEL)
		return 1;
	sk = ctx->sk;
	if (!sk || sk->protocol != IPPROTO_TCP)
		return refuse(ENOPROTOOPT);
	if (ctx->optname == DOOR_FEED)
		return tell(ctx, sk);
	if (ctx->optname != DOOR_VERSION)
		return refuse(ENOPROTOOPT);
	version = ctx->optval;
	if (ctx->optlen != sizeof(*version) || (void *)(version + 1) > ctx->optval_end)
		return refuse(EINVAL);
	*version = VERSION;
	ctx->retval = 0;
	return 1;
}
