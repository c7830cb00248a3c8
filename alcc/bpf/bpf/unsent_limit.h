/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How much a program may write ahead of a control that keeps the window (TCP_NOTSENT_LOWAT):
 * `UnsentLimit` of alcc-socket, which says why. Pure functions. Bytes.
 */
#pragma once

#include "pure.h"

/* 16 KiB, and 1 GiB, as powers of two. */
#define UNSENT_LEAST 14
#define UNSENT_MOST 30
/* Below the power of two: how a limit of ours is known from a program's own. */
#define UNSENT_MARK 0x5A5U

PURE __u32 unsent_of(__u32 exponent)
{
	return 1U << exponent | UNSENT_MARK;
}

PURE int unsent_is_own(__u32 limit)
{
	__u32 power = limit ^ UNSENT_MARK;

	return limit > 1U << UNSENT_LEAST && !(power & (power - 1));
}

/* Limit for 4 ms at `rate`, bytes per second. One step below `is`, which is ours, is `is`. */
PURE __u32 unsent_followed(__u32 is, __u64 rate)
{
	__u64 ahead = rate / 250;
	__u32 exponent = UNSENT_LEAST, limit;

	while (exponent < UNSENT_MOST && 1ULL << exponent < ahead)
		exponent++;
	limit = unsent_of(exponent);
	return (limit ^ UNSENT_MARK) << 1 == (is ^ UNSENT_MARK) ? is : limit;
}
