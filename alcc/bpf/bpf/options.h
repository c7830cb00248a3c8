/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Options of an algorithm for one socket: `budget:delay=20ms`. Whoever holds a socket may set those of
 * that socket, by (map, descriptor), and of no other; `alcc attach` and a policy set those of all. An
 * algorithm reads them when it begins on a socket. A listener hands them to what it accepts.
 */
#pragma once

#include "kernel.h"

/* Zero: the default. */
struct options {
	__u32 delay; /* budget: us */
	__u32 delta; /* copa: 2^-16 */
	__u32 ratio; /* verus: 2^-8 */
};

/*
 * A map whose values hold a lock cannot be frozen by those who may write. Its length tells it from
 * `struct before` where the kernel reports both.
 */
struct locked_options {
	struct bpf_spin_lock lock;
	struct options options;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct locked_options);
} options SEC(".maps");

/* Each is one word, which is read and written whole without the lock. */
static __always_inline struct options *options_of(void *sk, __u64 flags)
{
	struct locked_options *o = bpf_sk_storage_get(&options, sk, 0, flags);

	return o ? &o->options : 0;
}

/* Any user may write there, so what is read is bounded. */
#define OPTION(sk, name, least, most, otherwise)                                           \
	({                                                                                 \
		struct options *asked_ = options_of(sk, 0);                                \
		bounded(asked_ ? asked_->name : 0, least, most, otherwise);                \
	})
