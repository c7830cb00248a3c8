/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The share of packets that is lost, averaged over about 128 packets, in units of 2^-32. */
#pragma once

#include "pure.h"

#define LOSS_RATE_ONE (1ULL << 32)
/* Per cent. */
#define LOSS_RATE(share) ((share) * LOSS_RATE_ONE / 100)

/* exp(-n / 128) for n = 1, 2, 4, ..., 2048. */
static const __u32 loss_rate_powers[] = {
	4261543595U, 4228379999U, 4162825044U, 4034748382U, 3790295335U, 3344923893U,
	2605029347U, 1580030168U, 581260615U, 78665070U, 1440801U, 483U,
};

PURE __u64 loss_rate_left(__u32 packets)
{
	__u64 left = LOSS_RATE_ONE;

	if (packets > 4095)
		packets = 4095;
#pragma unroll
	for (int i = 0; i < 12; i++)
		if (packets >> i & 1)
			left = left * loss_rate_powers[i] >> 32;
	return left;
}

PURE __u64 loss_rate_delivered(__u64 share, __u32 packets)
{
	__u64 left = loss_rate_left(packets);

	return left == LOSS_RATE_ONE ? share : share * left >> 32;
}

PURE __u64 loss_rate_lost(__u64 share, __u32 packets)
{
	__u64 gone = LOSS_RATE_ONE - loss_rate_left(packets), rest = LOSS_RATE_ONE - share;

	/* Either may be all of it, and then the product is 2^64. */
	return share + (gone >> 1) * rest / (LOSS_RATE_ONE >> 1);
}
