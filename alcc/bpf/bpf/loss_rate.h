/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The share of packets that is lost, averaged over the last packets, in units of 2^-31. */
#pragma once

#include "pure.h"

#define LOSS_RATE_ONE (1ULL << 31)
/* Per cent. */
#define LOSS_RATE(share) ((share) * LOSS_RATE_ONE / 100)

/* exp(-n / LOSSES_MEMORY) for n = 1, 2, 4, ..., 8192. */
static const __u32 loss_rate_powers[] = LOSS_RATE_POWERS;

/* Packets over which it is averaged: the weight of one packet, of LOSSES_MEMORY. */
#define LOSS_RATE_SHORT (LOSSES_MEMORY / LOSS_RATE_MEMORY)
#define LOSS_RATE_LONG 1

PURE_CALL __u64 loss_rate_left(__u32 packets, __u32 count)
{
	__u64 left = LOSS_RATE_ONE;

	packets = packets < 4096 ? packets * count : 16383;
	/* Without a branch: the verifier would follow both ways of each. */
#pragma unroll
	for (int i = 0; i < 14; i++) {
		__u64 counts = -(__u64)(packets >> i & 1);

		__asm__ volatile("" : "+r"(counts));
		left = left * (LOSS_RATE_ONE - ((LOSS_RATE_ONE - loss_rate_powers[i]) & counts)) >> 31;
	}
	return left;
}

PURE __u64 loss_rate_delivered(__u64 share, __u32 packets, __u32 count)
{
	return share * loss_rate_left(packets, count) >> 31;
}

PURE __u64 loss_rate_lost(__u64 share, __u32 packets, __u32 count)
{
	__u64 gone = LOSS_RATE_ONE - loss_rate_left(packets, count), rest = LOSS_RATE_ONE - share;

	return share + (gone * rest >> 31);
}
