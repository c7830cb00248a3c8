/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The limit of what a program writes ahead (unsent_limit.h), on sockets that `alcc attach` has
 * taken. Its mark says whose it is, so nothing has to be noted: where we begin there was none, and
 * who finds a limit of ours may follow it or take it away.
 */
#pragma once

#include "kernel.h"

#include "unsent_limit.h"

static __always_inline __u32 unsent_limit(void *socket)
{
	__u32 limit;

	/* A limit that cannot be read is not changed. */
	return bpf_getsockopt(socket, SOL_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit)) ? ~0U : limit;
}

static __always_inline void set_unsent_limit(void *socket, __u32 limit)
{
	bpf_setsockopt(socket, SOL_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit));
}

/* Unless the program has a limit of its own, or has ours already. */
static __always_inline void unsent_begin(void *socket)
{
	if (!unsent_limit(socket))
		set_unsent_limit(socket, unsent_of(UNSENT_LEAST));
}

static __always_inline void unsent_end(void *socket)
{
	if (unsent_is_own(unsent_limit(socket)))
		set_unsent_limit(socket, 0);
}

/* With each acknowledgement, after the rate is set. */
static __always_inline void unsent_follow(struct sock *sk)
{
	__u32 is = ((struct tcp_sock *)sk)->notsent_lowat, limit;

	if (!unsent_is_own(is))
		return;
	limit = unsent_followed(is, sk->sk_pacing_rate);
	if (limit != is)
		set_unsent_limit(sk, limit);
}
