/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The pure parts of the BPF programs as ordinary functions, for tests on the host. */
#include <linux/types.h>
#include <string.h>

#include "copa.h"
#include "westwood.h"
#include "window.h"

_Static_assert(sizeof(struct copa) <= 512, "tests hold it in 64 words");
_Static_assert(sizeof(struct westwood) <= 104, "tests hold it in 13 words");

void alcc_host_copa_start(struct copa *c, __u64 now, __u32 delta)
{
	memset(c, 0, sizeof(*c));
	copa_start(c, now, delta);
}

void alcc_host_copa_timeout(struct copa *c, __u64 now)
{
	copa_timeout(c, now);
}

void alcc_host_copa_ack(struct copa *c, __u64 now, __u32 rtt, __u32 acked, __u32 lost,
			__u32 may_grow)
{
	struct copa_ack a = {
		.now = now, .rtt = rtt, .acked = acked, .lost = lost, .may_grow = may_grow,
	};

	copa_on_ack(c, &a);
}

__u64 alcc_host_copa_cwnd(const struct copa *c)
{
	return c->cwnd;
}

__u64 alcc_host_copa_pacing_rate(const struct copa *c, __u32 mss)
{
	return copa_pacing_rate(c, mss);
}

void alcc_host_window_start(struct window *w, __u64 now, __u32 delivered, __u32 cwnd)
{
	window_start(w, now, delivered, cwnd);
}

int alcc_host_window_is_steered(struct window *w, __u64 now, __u32 beat)
{
	return window_is_steered(w, now, beat);
}

void alcc_host_window_round(struct window *w, __u32 delivered, __u32 in_flight)
{
	window_round(w, delivered, in_flight);
}

__u32 alcc_host_window_allowed(const struct window *w, __u32 wish, __u32 clamp, int repairing)
{
	return window_allowed(w, wish, clamp, repairing);
}

int alcc_host_window_quota_holds(const struct window *w, __u64 now, __u32 beat)
{
	return window_quota_holds(w, now, beat);
}

__u32 alcc_host_window_until(__u32 wish, __u32 until, __u32 sent, __u32 in_flight)
{
	return window_until(wish, until, sent, in_flight);
}

__u64 alcc_host_window_paced(__u64 rate, __u32 mss)
{
	return window_paced(rate, mss);
}

void alcc_host_westwood_measure(struct westwood *w, __u64 now, __u32 rtt, __u32 acked)
{
	westwood_measure(w, now, rtt, acked);
}

__u32 alcc_host_westwood_grow(struct westwood *w, __u32 cwnd, __u32 ssthresh, __u32 acked)
{
	return westwood_grow(w, cwnd, ssthresh, acked);
}

__u32 alcc_host_westwood_ssthresh(struct westwood *w, __u32 cwnd)
{
	return westwood_ssthresh(w, cwnd);
}

__u32 alcc_host_westwood_bdp(const struct westwood *w)
{
	return westwood_bdp(w);
}

__u32 alcc_host_westwood_timeout(struct westwood *w)
{
	return westwood_timeout(w);
}
