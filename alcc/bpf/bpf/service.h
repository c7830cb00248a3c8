/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a path delivers: the quantile of how it comes, and its mean. `Service` of Budget in `cc`.
 * Rates in packets per second, in units of 2^-8. Times in microseconds.
 */
#pragma once

#include "pure.h"

/* The rings are powers of two, for SERVICE_KEPT buckets and SERVICE_SAMPLES samples. */
#define SERVICE_RING 256
#define SERVICE_SAMPLE_RING 128
/* Samples above the quantile, less the one that it is. */
#define SERVICE_HIGHEST (SERVICE_SAMPLES - SERVICE_SAMPLES * SERVICE_QUANTILE / SERVICE_QUANTILE_OF)
/* Higher rates count as this high, so that no product overflows. */
#define SERVICE_MAX_RATE (1U << 30)

struct service {
	__u64 clock; /* runs while something is delivered */
	__u64 at; /* when something was last delivered; 0: never */
	__u64 bucket; /* under way; those before it are over */
	__u32 high; /* the quantile of the samples */
	__u32 mean; /* the larger of the long mean and that over a round trip */
	__u32 delivered; /* in total */
	__u32 starved; /* in this bucket the queue held no packet of this flow */
	__u32 total[SERVICE_RING]; /* delivered when each bucket was over */
	__u32 samples[SERVICE_SAMPLE_RING]; /* the rate then */
};

/* The rate over the `span` that ended with bucket `last`, or what there was of it. */
PURE_CALL __u32 service_over(const struct service *s, __u64 last, __u64 span)
{
	__u64 n = (span + SERVICE_BUCKET / 2) / SERVICE_BUCKET, rate;
	__u32 packets;

	if (!s)
		return 0;
	if (n > SERVICE_KEPT)
		n = SERVICE_KEPT;
	if (n > last + 1)
		n = last + 1;
	if (!n)
		n = 1;
	packets = s->total[last & (SERVICE_RING - 1)] - s->total[(last - n) & (SERVICE_RING - 1)];
	rate = (__u64)packets * (1000000 / SERVICE_BUCKET << 8) / n;
	return rate < SERVICE_MAX_RATE ? rate : SERVICE_MAX_RATE;
}

struct service_closing {
	struct service *service;
	__u64 from;
	__u64 span;
};

static long service_close(__u32 i, void *state)
{
	struct service_closing *c = state;
	struct service *s = c->service;
	__u64 bucket = c->from + i;
	__u64 rate;

	s->total[bucket & (SERVICE_RING - 1)] = s->delivered;
	rate = service_over(s, bucket, c->span);
	/* The path could have delivered more than there was. */
	if (s->starved)
		rate = rate * SERVICE_STARVED / SERVICE_STARVED_OF;
	s->samples[bucket & (SERVICE_SAMPLE_RING - 1)] = rate;
	return 0;
}

struct service_ranking {
	const struct service *service;
	__u64 last;
	__u32 highest[SERVICE_HIGHEST];
};

static long service_rank(__u32 i, void *state)
{
	struct service_ranking *r = state;
	__u32 value = r->service->samples[(r->last - i) & (SERVICE_SAMPLE_RING - 1)];

#pragma unroll
	for (int k = 0; k < SERVICE_HIGHEST; k++) {
		__u32 there = r->highest[k];

		r->highest[k] = value > there ? value : there;
		value = value > there ? there : value;
	}
	return 0;
}

PURE_CALL __u32 service_quantile(const struct service *s, __u64 last, __u32 known)
{
	struct service_ranking r = {.service = s, .last = last};
	__u32 at = known * SERVICE_QUANTILE / SERVICE_QUANTILE_OF, high = 0;

	if (!s || !known)
		return 0;
	LOOP(known, service_rank, &r);
	if (at > known - 1)
		at = known - 1;
#pragma unroll
	for (__u32 k = 0; k < SERVICE_HIGHEST; k++)
		if (known - 1 - at == k)
			high = r.highest[k];
	return high;
}

/* The buckets before this one are over. */
PURE_CALL int service_turn(struct service *s, __u64 bucket, __u32 base, __u32 rtt)
{
	struct service_closing c = {.service = s};
	__u64 count, age = bucket / SERVICE_OF_AGE;
	__u32 mean, trip;

	if (!s)
		return 0;
	c.from = s->bucket;
	count = bucket - s->bucket;
	/* More would be overwritten anyway. */
	if (count > SERVICE_KEPT) {
		c.from = bucket - SERVICE_KEPT;
		count = SERVICE_KEPT;
	}
	c.span = base > rtt / SERVICE_OF_TRIP ? base : rtt / SERVICE_OF_TRIP;
	LOOP((__u32)count, service_close, &c);
	s->starved = 0;
	s->bucket = bucket;
	s->high = service_quantile(s, bucket - 1,
				   bucket < SERVICE_SAMPLES ? bucket : SERVICE_SAMPLES);
	if (age < SERVICE_LEAST)
		age = SERVICE_LEAST;
	/* With more than SERVICE_KEPT buckets it takes these. */
	mean = service_over(s, bucket - 1, age * SERVICE_BUCKET);
	trip = service_over(s, bucket - 1, rtt > SERVICE_TRIP ? rtt : SERVICE_TRIP);
	s->mean = mean > trip ? mean : trip;
	return 0;
}

/* Time passes of which nothing can be said. */
PURE void service_pass(struct service *s, __u64 now)
{
	s->at = now;
}

/* `packets` were acknowledged, the last after `rtt`; `starved`: behind no packet of this flow. */
PURE void service_delivered(struct service *s, __u64 now, __u32 packets, __u32 base, __u32 rtt,
			    int starved)
{
	__u64 gap = s->at ? now - s->at : 0, bucket;
	__u64 most = base > (__u64)SERVICE_BUCKET ? base : (__u64)SERVICE_BUCKET;

	if (starved)
		s->starved = 1;
	s->at = now;
	s->clock += gap < SERVICE_SILENCE * most ? gap : SERVICE_SILENCE * most;
	bucket = s->clock / SERVICE_BUCKET;
	if (bucket > s->bucket)
		service_turn(s, bucket, base, rtt);
	s->delivered += packets;
}
