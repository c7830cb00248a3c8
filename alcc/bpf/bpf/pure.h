/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the pure parts share: windows in fixed point, and loops that the verifier takes. */
#pragma once

#include "constants.h"

#define PURE static inline __attribute__((always_inline))
/*
 * The same for what is long: a function of its own, which the verifier looks at once, for all
 * callers. So a pointer may be null for all it knows, and the result is a number.
 */
#ifdef __bpf__
#define PURE_CALL __attribute__((noinline))
#else
#define PURE_CALL static __attribute__((noinline, unused))
#endif

/* Windows that are no whole number of packets count in units of 2^-20. */
#define ONE (1ULL << 20)
#define MAX_CWND (ONE << 16)

/* Longer RTT samples count as this long, so that no product overflows. Microseconds. */
#define MAX_RTT 60000000U

/*
 * Calls `body` (__u32 i, void *state) for 0, 1, ..., `count` - 1, until it returns 1. The verifier
 * looks at the body once; of a plain loop it would follow every turn.
 */
#ifdef __bpf__
#define LOOP(count, body, state) bpf_loop(count, body, state, 0)
#else
#define LOOP(count, body, state)                                                                   \
	for (__u32 turn = 0; turn < (count); turn++)                                               \
		if (body(turn, state))                                                             \
			break
#endif

/* A value that anybody may have written; 0 is the default. */
PURE __u32 bounded(__u32 value, __u32 least, __u32 most, __u32 otherwise)
{
	if (!value)
		return otherwise;
	return value < least ? least : value > most ? most : value;
}
