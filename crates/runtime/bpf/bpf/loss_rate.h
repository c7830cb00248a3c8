/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The share of packets that is lost, averaged over about 128 packets, in units of 2^-31. */
#pragma once

#include "pure.h"

#define LOSS_RATE_ONE (1ULL << 31)
/* Per cent. */
#define LOSS_RATE(share) ((share) * LOSS_RATE_ONE / 100)

/* exp(-n / 128) for n = 1, 2, 4, ..., 2048. */
static const __u32 loss_rate_powers[] = {
	2130771797U, 2114189999U, 2081412522U, 2017374191U, 1895147667U, 1672461946U,
	1302514673U, 790015084U, 290630307U, 39332535U, 720400U, 241U,
};

PURE_CALL __u64 loss_rate_left(__u32 packets)
{
	__u64 left = LOSS_RATE_ONE;

	if (packets > 4095)
		packets = 4095;
	/* Without a branch: the verifier would follow both ways of each. */
#pragma unroll
	for (int i = 0; i < 12; i++) {
		__u64 counts = -(__u64)(packets >> i & 1);

		__asm__ volatile("" : "+r"(counts));
		left = left * (LOSS_RATE_ONE - ((LOSS_RATE_ONE - loss_rate_powers[i]) & counts)) >> 31;
	}
	return left;
}

PURE __u64 loss_rate_delivered(__u64 share, __u32 packets)
{
	return share * loss_rate_left(packets) >> 31;
}

PURE __u64 loss_rate_lost(__u64 share, __u32 packets)
{
	__u64 gone = LOSS_RATE_ONE - loss_rate_left(packets), rest = LOSS_RATE_ONE - share;

	return share + (gone * rest >> 31);
}
