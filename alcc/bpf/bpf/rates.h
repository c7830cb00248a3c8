/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Arithmetic of rates, in packets per second and units of 2^-8, at most 2^30. */
#pragma once

#include "pure.h"

/* log2 of `x` / `unit` in units of 2^-16, below 2^20; 0 where x is not above unit. Both below 2^32. */
PURE_CALL __u32 doublings(__u64 x, __u64 unit)
{
	__u64 rest = (x << 31) / unit;
	__u32 log = 0;

	if (x <= unit)
		return 0;
	/* Without a branch: the verifier would follow both ways of each. */
#pragma unroll
	for (int i = 4; i >= 0; i--) {
		__u64 over = -(rest >> (31 + (1 << i))) >> 63;

		__asm__ volatile("" : "+r"(over));
		rest >>= over << i;
		log += over << (16 + i);
	}
#pragma unroll
	for (int i = 15; i >= 4; i--) {
		rest = rest * rest >> 31;
		log += (rest >> 32) << i;
		rest >>= rest >> 32;
	}
	return log;
}

/* Packets (2^-20) that a rate is in a time. 2^12 / 1000000 = 64 / 15625. */
PURE __u64 packets_in(__u32 rate, __u64 us)
{
	return rate * us * 64 / 15625;
}
