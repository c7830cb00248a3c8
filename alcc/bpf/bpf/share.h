/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A share of the clients by a hash of their addresses, as `alcc_observe::Share` has it: a client is
 * in it always or never, whoever asks.
 */
#pragma once

#include <linux/types.h>

#include "pure.h"

/* The first number of SplitMix64 (Steele, Lea and Flood 2014) that starts at `seed`. */
PURE __u64 first_random(__u64 seed)
{
	__u64 z = seed + 0x9E3779B97F4A7C15ULL;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
	return z ^ (z >> 31);
}

/* The client at an IPv4 address in host order. */
PURE __u64 client_of_v4(__u32 address)
{
	return first_random((__u64)address | 0xFFFFULL << 32);
}

/* Only the first 64 bits of an IPv6 address count: clients change the others. */
PURE __u64 client_of_v6(__u32 first, __u32 second)
{
	return first_random((__u64)first << 32 | second);
}

/* The upper word of a number times 1000. */
PURE __u32 of_thousand(__u64 number)
{
	return ((number >> 32) * 1000 + (((number & 0xFFFFFFFF) * 1000) >> 32)) >> 32;
}

PURE int in_share(__u64 client, __u64 salt, __u16 per_mille)
{
	return of_thousand(first_random(client ^ first_random(salt))) < per_mille;
}
