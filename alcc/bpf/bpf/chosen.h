/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A control with its options, chosen for somebody else's socket. */
#pragma once

#include "kernel.h"

#include "options.h"

static __always_inline bool same_name(const char a[CC_NAME], const char b[CC_NAME])
{
	char differ = 0;

	/* Without a branch for each letter, all of which the verifier would follow. */
#pragma unroll
	for (int i = 0; i < CC_NAME; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

static __always_inline bool any_option(const struct options *o)
{
	return o->delay || o->delta || o->ratio;
}

static __always_inline bool has_options(void *sk, const struct options *is)
{
	/* Not by options_of(): the compiler would compute the place within before the comparison with NULL. */
	struct locked_options *o = bpf_sk_storage_get(&options, sk, 0, 0);

	if (!o)
		return !any_option(is);
	return o->options.delay == is->delay && o->options.delta == is->delta &&
	       o->options.ratio == is->ratio;
}

/* For the next control that the socket gets. */
static __always_inline void ask_for_options(void *sk, const struct options *is)
{
	struct options *o = options_of(sk, any_option(is) ? BPF_SK_STORAGE_GET_F_CREATE : 0);

	if (o)
		*o = *is;
}

/* True: it had some. */
static __always_inline bool end_options(void *sk)
{
	struct locked_options *o = bpf_sk_storage_get(&options, sk, 0, 0);

	if (!o || !any_option(&o->options))
		return false;
	__builtin_memset(&o->options, 0, sizeof(o->options));
	return true;
}

/*
 * The stack ignores the choice of a control that a socket has already. One that shall begin anew with
 * other options gets Reno, which every kernel has, for a moment.
 */
static __always_inline void begin_anew(void *socket, const char was[CC_NAME], const char name[CC_NAME])
{
	char reno[CC_NAME] = "reno";

	if (same_name(was, name))
		bpf_setsockopt(socket, SOL_TCP, TCP_CONGESTION, reno, CC_NAME);
}
