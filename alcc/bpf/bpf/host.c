/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The pure parts of the BPF programs as ordinary functions, for tests on the host. */
#include <linux/types.h>
#include <string.h>

#include "bic.h"
#include "budget.h"
#include "copa.h"
#include "share.h"
#include "unsent_limit.h"
#include "vegas.h"
#include "verus.h"
#include "westwood.h"
#include "window.h"

_Static_assert(sizeof(struct budget) <= 4096, "tests hold it in 512 words");
_Static_assert(sizeof(struct verus) <= 8192, "tests hold it in 1024 words");
_Static_assert(sizeof(struct copa) <= 1024, "tests hold it in 128 words");
_Static_assert(sizeof(struct bic) <= 104, "tests hold it in 13 words");
_Static_assert(sizeof(struct vegas) <= 104, "tests hold it in 13 words");
_Static_assert(sizeof(struct westwood) <= 104, "tests hold it in 13 words");

int alcc_host_growth_is_answer(__u32 ssthresh)
{
	return growth_is_answer(ssthresh);
}

void alcc_host_growth_mend(struct growth *w, __u32 prior, __u32 left)
{
	growth_mend(w, prior, left);
}

void alcc_host_bic_start(struct bic *b)
{
	bic_start(b);
}

void alcc_host_bic_measure(struct bic *b, __u32 segments)
{
	bic_measure(b, segments);
}

void alcc_host_bic_grow(struct bic *b, struct growth *w, __u64 now, __u32 acked)
{
	bic_grow(b, w, now, acked);
}

__u32 alcc_host_bic_ssthresh(struct bic *b, __u32 cwnd)
{
	return bic_ssthresh(b, cwnd);
}

void alcc_host_vegas_start(struct vegas *v, __u32 next)
{
	vegas_start(v, next);
}

void alcc_host_vegas_round(struct vegas *v, __u32 next)
{
	vegas_round(v, next);
}

void alcc_host_vegas_sample(struct vegas *v, __u32 rtt)
{
	vegas_sample(v, rtt);
}

void alcc_host_vegas_grow(struct vegas *v, struct growth *w, __u32 ack, __u32 next, __u32 acked)
{
	vegas_grow(v, w, ack, next, acked);
}

__u32 alcc_host_vegas_ssthresh(struct vegas *v, __u32 cwnd)
{
	return vegas_ssthresh(v, cwnd);
}

void alcc_host_budget_start(struct budget *b, __u64 now, __u32 delay)
{
	memset(b, 0, sizeof(*b));
	budget_start(b, now, delay);
}

void alcc_host_budget_lost(struct budget *b, __u64 now, __u64 sent_at, __u32 lost)
{
	budget_lost(b, now, sent_at, lost);
}

void alcc_host_budget_mark(struct budget *b)
{
	losses_mark(&b->losses);
}

void alcc_host_budget_undone(struct budget *b)
{
	budget_undone(b);
}

void alcc_host_budget_acked(struct budget *b, const struct budget_ack *a)
{
	budget_acked(b, a);
}

void alcc_host_budget_timeout(struct budget *b, __u64 now)
{
	budget_leave_start(b, now);
}

void alcc_host_budget_silence(struct budget *b, __u64 now)
{
	budget_silence(b, now);
}

__u64 alcc_host_budget_silent_at(const struct budget *b)
{
	return b->silent_at;
}

__u64 alcc_host_budget_cwnd(const struct budget *b)
{
	return b->cwnd;
}

__u64 alcc_host_budget_window(const struct budget *b)
{
	return budget_window(b);
}

__u64 alcc_host_budget_pacing_rate(const struct budget *b, __u32 mss)
{
	return budget_pacing_rate(b, mss);
}

void alcc_host_copa_start(struct copa *c, __u64 now, __u32 delta)
{
	memset(c, 0, sizeof(*c));
	copa_start(c, now, delta);
}

void alcc_host_copa_timeout(struct copa *c, __u64 now)
{
	copa_timeout(c, now);
}

void alcc_host_copa_ack(struct copa *c, const struct copa_ack *a)
{
	copa_on_ack(c, a);
}

__u64 alcc_host_copa_cwnd(const struct copa *c)
{
	return c->cwnd;
}

__u32 alcc_host_bounded(__u32 value, __u32 least, __u32 most, __u32 otherwise)
{
	return bounded(value, least, most, otherwise);
}

__u64 alcc_host_copa_pacing_rate(const struct copa *c, __u32 mss)
{
	return copa_pacing_rate(c, mss);
}

void alcc_host_verus_start(struct verus *v, __u64 now, __u32 ratio)
{
	memset(v, 0, sizeof(*v));
	verus_start(v, now, ratio);
}

void alcc_host_verus_tick(struct verus *v, __u64 now)
{
	verus_tick(v, now);
}

void alcc_host_verus_lost(struct verus *v, __u64 now, __u64 sent_at, __u32 lost)
{
	verus_lost(v, now, sent_at, lost);
}

void alcc_host_verus_acked(struct verus *v, const struct verus_ack *a)
{
	verus_acked(v, a);
	verus_note(v, a->now);
}

void alcc_host_verus_timeout(struct verus *v, __u64 now)
{
	verus_timeout(v, now);
}

void alcc_host_verus_undone(struct verus *v)
{
	verus_undone(v);
}

/* Number of windows whose delay it knows. */
__u32 alcc_host_verus_points(const struct verus *v)
{
	__u32 known = 0;

	for (int i = 0; i < PROFILE_SLOTS; i++)
		known += v->profile.points[i] != 0;
	return known;
}

__u64 alcc_host_verus_window(const struct verus *v)
{
	return v->window;
}

__u64 alcc_host_verus_cwnd(const struct verus *v)
{
	return verus_cwnd(v);
}

__u64 alcc_host_verus_pacing_rate(const struct verus *v, __u32 mss)
{
	return verus_pacing_rate(v, mss);
}

void alcc_host_window_start(struct window *w, __u64 now, __u32 delivered, __u32 lost, __u32 cwnd)
{
	window_start(w, now, delivered, lost, cwnd);
}

int alcc_host_window_is_steered(struct window *w, __u64 now, __u32 beat)
{
	return window_is_steered(w, now, beat);
}

void alcc_host_window_acked(struct window *w, const struct window_ack *a)
{
	window_acked(w, a);
}

void alcc_host_window_timeout(struct window *w, __u32 cwnd)
{
	window_timeout(w, cwnd);
}

__u32 alcc_host_window_allowed(const struct window *w, __u32 wish, __u32 clamp, __u32 rtt)
{
	return window_allowed(w, wish, clamp, rtt);
}

int alcc_host_window_quota_holds(const struct window *w, __u64 now, __u32 beat)
{
	return window_quota_holds(w, now, beat);
}

__u32 alcc_host_window_until(__u32 wish, __u32 until, __u32 sent, __u32 in_flight)
{
	return window_until(wish, until, sent, in_flight);
}

__u64 alcc_host_window_paced(const struct window *w, __u64 rate, __u32 mss)
{
	return window_paced(w, rate, mss);
}

void alcc_host_westwood_measure(struct westwood *w, __u64 now, __u32 rtt, __u32 acked)
{
	westwood_measure(w, now, rtt, acked);
}

void alcc_host_westwood_grow(struct westwood *w, struct growth *g, __u32 acked)
{
	westwood_grow(w, g, acked);
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

__u64 alcc_host_client_of_v4(__u32 address)
{
	return client_of_v4(address);
}

__u64 alcc_host_client_of_v6(__u32 first, __u32 second)
{
	return client_of_v6(first, second);
}

int alcc_host_in_share(__u64 client, __u64 salt, __u16 per_mille)
{
	return in_share(client, salt, per_mille);
}

int alcc_host_unsent_is_own(__u32 limit)
{
	return unsent_is_own(limit);
}

__u32 alcc_host_unsent_followed(__u32 is, __u64 rate)
{
	return unsent_followed(is, rate);
}
