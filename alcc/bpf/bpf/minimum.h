/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The smallest value of a sliding window of time: at most 16 values, 1/16 of the window apart. */
#pragma once

#include "pure.h"

struct minimum {
	__u64 at[MINIMUM_BUCKETS]; /* us; 0: no value here */
	__u32 value[MINIMUM_BUCKETS];
};

/* Inserts `value`, forgets what is older than `window`, returns the minimum. */
PURE_CALL __u32 minimum_insert(struct minimum *m, __u64 now, __u32 value, __u64 window)
{
	__u64 newest = 0;
	__u32 least = value;
	int empty = -1;

	if (!m)
		return value;
#pragma unroll
	for (int i = 0; i < MINIMUM_BUCKETS; i++) {
		if (m->at[i] && (m->value[i] >= value || now - m->at[i] > window))
			m->at[i] = 0;
		if (!m->at[i]) {
			empty = i;
			continue;
		}
		if (m->at[i] > newest)
			newest = m->at[i];
		if (m->value[i] < least)
			least = m->value[i];
	}
	if (newest && now - newest <= window / MINIMUM_BUCKETS)
		return least;
#pragma unroll
	for (int i = 0; i < MINIMUM_BUCKETS; i++)
		if (i == empty) {
			m->at[i] = now;
			m->value[i] = value;
		}
	return least;
}
