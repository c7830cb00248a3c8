/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How controls set a pacing rate of their own. */
#pragma once

#include "kernel.h"

/*
 * Faster than this nothing is paced, bytes per second. The stack starts a timer for each full
 * segment of 64 KiB, which lasts 50 us then: the timers take a third of a saturated core, and what
 * they spread is less than a host can tell.
 */
#define FASTEST_PACED 1250000000ULL

/* Bytes per second. Who has set SO_MAX_PACING_RATE wants to be paced whatever it costs. */
static __always_inline void set_rate(struct sock *sk, __u64 rate)
{
	bool timed = rate <= FASTEST_PACED || sk->sk_max_pacing_rate != ~0UL;

	if (timed && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!timed && sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}
