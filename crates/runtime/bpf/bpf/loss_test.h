/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Does sending less lose less? Whoever asks sends LOSS_TEST_PART of what is delivered while a test
 * is under way. The same as `LossTest` of `cc`; docs/budget.md has the why of the numbers. But the
 * packets that come with one acknowledgement count by the newest of them. Times in microseconds.
 */
#pragma once

#include "loss_rate.h"

/* A test is due from this share on: four in a thousand. */
#define LOSS_TEST_SHARE (4 * LOSS_RATE_ONE / 1000)
/* It lasts until so many losses would be expected, and so many packets at least. */
#define LOSS_TEST_EXPECTED 8
#define LOSS_TEST_LEAST 64
/* With at most so many of those expected, sending less loses less. */
#define LOSS_TEST_FEW 2
/* After losses that went on the next one waits so many times as long as this one took. */
#define LOSS_TEST_PAUSE 8
#define LOSS_TEST_LONGEST 128
/* A test that takes longer than 3 s judges by what it has seen. */
#define LOSS_TEST_PATIENCE 3000000ULL

enum { LOSS_TEST_NOTHING, LOSS_TEST_OF_CONGESTION, LOSS_TEST_OF_PATH };

struct loss_test {
	__u64 rate; /* 2^-31 */
	__u64 not_before;
	__u64 since; /* only packets sent since then count; 0: no test is under way */
	__u32 all; /* it lasts for so many packets */
	__u32 left; /* so many packets more */
	__u32 few; /* with more losses than that they go on as before */
	__u32 lost;
	__u32 pause;
	__u32 part; /* 0, 1, 2: all, nine, eight tenths */
};

/* What was lost so far says nothing, and no test is due before `until`. */
PURE void loss_test_forget(struct loss_test *t, __u64 until)
{
	if (t->not_before < until)
		t->not_before = until;
	t->rate = 0;
	t->since = 0;
}

PURE int loss_test_is_due(const struct loss_test *t, __u64 now)
{
	return !t->since && now >= t->not_before && t->rate > LOSS_TEST_SHARE;
}

/* The part of the delivered rate that a test leaves, in tenths. */
PURE __u32 loss_test_part(const struct loss_test *t)
{
	return t->part < 2 ? 10 - t->part : 8;
}

/* What is sent from now on is less. */
PURE void loss_test_begin(struct loss_test *t, __u64 now)
{
	__u64 share = t->rate > LOSS_TEST_SHARE ? t->rate : LOSS_TEST_SHARE;
	__u64 packets = (LOSS_TEST_EXPECTED * LOSS_RATE_ONE + share - 1) / share;

	t->few = LOSS_TEST_FEW;
	if (packets < LOSS_TEST_LEAST) {
		packets = LOSS_TEST_LEAST;
		t->few = LOSS_TEST_LEAST / LOSS_TEST_EXPECTED * LOSS_TEST_FEW * share >> 31;
	}
	t->all = packets;
	t->left = packets;
	t->lost = 0;
	t->since = now;
}

PURE int loss_test_count(struct loss_test *t, __u64 now, __u64 sent_at, __u32 packets, __u32 lost)
{
	__u64 seen;
	int late, found;

	if (!t->since || sent_at < t->since)
		return LOSS_TEST_NOTHING;
	t->left = t->left > packets ? t->left - packets : 0;
	t->lost += lost;
	late = now - t->since > LOSS_TEST_PATIENCE;
	/* How many of the packets are back, all of them unless it is late. */
	seen = late ? t->all - t->left : t->all;
	if ((__u64)t->lost * t->all > t->few * seen) {
		__u32 pause = t->pause ? t->pause : LOSS_TEST_PAUSE;

		t->not_before = now + (now - t->since) * pause;
		t->pause = pause < LOSS_TEST_LONGEST ? 2 * pause : LOSS_TEST_LONGEST;
		t->part = t->part < 2 ? t->part + 1 : 0;
		found = LOSS_TEST_OF_PATH;
	} else if (late || !t->left) {
		t->pause = LOSS_TEST_PAUSE;
		found = LOSS_TEST_OF_CONGESTION;
	} else {
		return LOSS_TEST_NOTHING;
	}
	t->since = 0;
	t->rate = 0;
	return found;
}

/* Packets arrived, or were lost; what the test under way has found, if it is over. */
PURE int loss_test_delivered(struct loss_test *t, __u64 now, __u64 sent_at, __u32 packets)
{
	t->rate = loss_rate_delivered(t->rate, packets, LOSS_RATE_LONG);
	return loss_test_count(t, now, sent_at, packets, 0);
}

PURE int loss_test_lost(struct loss_test *t, __u64 now, __u64 sent_at, __u32 packets)
{
	t->rate = loss_rate_lost(t->rate, packets, LOSS_RATE_LONG);
	return loss_test_count(t, now, sent_at, packets, packets);
}
