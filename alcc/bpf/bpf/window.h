/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A window that user space sets: how much of it is allowed, and whether anybody still sets it.
 * Pure functions, without the kernel. Windows in packets, times in microseconds.
 */
#pragma once

#include <linux/types.h>

#define WINDOW_LEAST 2
#define WINDOW_MOST 65536
/* Longest time of acknowledgements without an answer from user space. */
#define WINDOW_PATIENCE 500000
/* After such a pause the next answer may take its time again: an idle program sleeps. */
#define WINDOW_PAUSE 250000

/* Silence after which a quota is old, and only the window counts. */
#define WINDOW_QUOTA_HOLDS 100000

/* With such a smoothed RTT a raised window waits for an acknowledgement, on the average half of it. */
#define WINDOW_NEAR 1000

/*
 * Packets per second at least. The stack waits out the pause after a packet whatever is set in the
 * meantime: at one byte per second that would be half an hour.
 */
#define WINDOW_SLOWEST 10

/*
 * Any user may choose BBR, so BBR is the measure of what a wish may get (bbr(9), tcp_bbr.c): rates in
 * 2^-24 packets per microsecond, gains in 2^-8.
 */
#define WINDOW_RATE_SHIFT 24
#define WINDOW_GAIN_SHIFT 8
#define WINDOW_GAIN_ONE 256
#define WINDOW_GAIN_START 739 /* 2.89: doubles in a round trip */
#define WINDOW_GAIN_WINDOW 384
#define WINDOW_GAIN_RATE 512
/* Round trips whose highest rate counts, with as many before them. */
#define WINDOW_ROUNDS 5
/* A shorter round trip is one within a machine, where acknowledgements wait for a processor. */
#define WINDOW_RTT_LEAST 2000
/* Packets that may always be in flight, until a timeout or a round of losses. */
#define WINDOW_FEW 10
#define WINDOW_NO_CEILING 0xffffffff

struct window {
	__u64 answered;
	__u64 last_ack;
	__u32 beat; /* of the last answer */
	__u32 ends; /* packets delivered or lost in total at this round's end */
	__u32 flight; /* packets in flight at its beginning */
	__u32 lost; /* packets lost in total at its beginning */
	__u32 first; /* the window until a rate is known */
	__u32 rate; /* the highest of these rounds */
	__u32 rate_before; /* and of those before */
	__u32 ceiling; /* a larger window has lost too much lately */
	__u32 start_rate; /* of the last round that was clearly faster */
	__u8 rounds;
	__u8 plateau; /* rounds since then; WINDOW_PLATEAU: it does not start any more */
	__u8 sampled; /* this round has said how fast the path is */
};

#define WINDOW_PLATEAU 3

/* A round that lost more packets than this, and more than this part of the flight, was too full. */
#define WINDOW_LOSSES 2
#define WINDOW_LOSS_SHIFT 4
/* From then on the window rises by this part in a round. */
#define WINDOW_RISE_SHIFT 5

/* Report of the stack about an acknowledgement. */
struct window_ack {
	__u64 interval; /* us, in which `packets` were delivered */
	__u32 packets; /* 0: nobody knows */
	__u32 delivered; /* packets in total */
	__u32 lost;
	__u32 in_flight;
	__u32 rtt; /* us, the shortest of all */
	int limited; /* by what the program had to send */
};

/* A connection taken over in mid-life that has lost packets has started before. */
static inline void window_start(struct window *w, __u64 now, __u32 delivered, __u32 lost, __u32 cwnd)
{
	w->answered = now;
	w->last_ack = now;
	w->beat = 0;
	w->flight = cwnd;
	w->ends = delivered + lost + cwnd;
	w->lost = lost;
	w->first = cwnd > WINDOW_FEW ? cwnd : WINDOW_FEW;
	w->rate = 0;
	w->rate_before = 0;
	w->ceiling = lost && cwnd > WINDOW_FEW ? cwnd : WINDOW_NO_CEILING;
	w->start_rate = 0;
	w->rounds = 0;
	w->plateau = lost ? WINDOW_PLATEAU : 0;
	w->sampled = 0;
}

/* With each acknowledgement. Is the window still somebody's? */
static inline int window_is_steered(struct window *w, __u64 now, __u32 beat)
{
	if (beat != w->beat || now - w->last_ack > WINDOW_PAUSE)
		w->answered = now;
	w->beat = beat;
	w->last_ack = now;
	return now - w->answered <= WINDOW_PATIENCE;
}

/*
 * Does the quota still hold? A program that has ended leaves a quota that is used up, and what the
 * kernel has left to send would go two packets per round trip.
 */
static inline int window_quota_holds(const struct window *w, __u64 now, __u32 beat)
{
	return beat != w->beat || now - w->answered <= WINDOW_QUOTA_HOLDS;
}

static inline __u32 window_rate(const struct window *w)
{
	return w->rate > w->rate_before ? w->rate : w->rate_before;
}

/* Packets that the path carries in its shortest round trip, times `gain`. */
static inline __u32 window_carried(const struct window *w, __u32 rtt, __u32 gain)
{
	__u64 packets;

	if (rtt < WINDOW_RTT_LEAST)
		rtt = WINDOW_RTT_LEAST;
	/* 32 and 32 bits, of which 14 are shifted out before the gain comes in. */
	packets = ((__u64)window_rate(w) * rtt >> 14) * gain >>
		  (WINDOW_RATE_SHIFT - 14 + WINDOW_GAIN_SHIFT);
	return packets < WINDOW_MOST ? packets : WINDOW_MOST;
}

/* The end of a round: was it clearly faster than those before, and what did it cost? */
static inline void window_round(struct window *w, const struct window_ack *a)
{
	__u32 rate = window_rate(w), lost = a->lost - w->lost, less = w->flight - (w->flight >> 2);

	if (w->plateau < WINDOW_PLATEAU && w->sampled) {
		if (rate >= w->start_rate + (w->start_rate >> 2)) {
			w->start_rate = rate;
			w->plateau = 0;
		} else {
			w->plateau++;
		}
	}
	if (lost > WINDOW_LOSSES && lost > w->flight >> WINDOW_LOSS_SHIFT) {
		w->plateau = WINDOW_PLATEAU;
		w->ceiling = window_carried(w, a->rtt, WINDOW_GAIN_ONE);
		if (w->ceiling < less)
			w->ceiling = less;
	} else if (w->ceiling != WINDOW_NO_CEILING) {
		w->ceiling += 1 + (w->ceiling >> WINDOW_RISE_SHIFT);
		if (w->ceiling > WINDOW_MOST)
			w->ceiling = WINDOW_NO_CEILING;
	}
	if (w->sampled && ++w->rounds >= WINDOW_ROUNDS) {
		w->rounds = 0;
		w->rate_before = w->rate;
		w->rate = 0;
	}
	w->sampled = 0;
	w->flight = a->in_flight;
	w->ends = a->delivered + a->lost + a->in_flight;
	w->lost = a->lost;
}

/*
 * With each acknowledgement. A round ends when what was in flight at its beginning has been
 * delivered or lost. Where the program had too little to send only a higher rate says something.
 */
static inline void window_acked(struct window *w, const struct window_ack *a)
{
	__u64 rate = a->packets && a->interval ?
			     ((__u64)a->packets << WINDOW_RATE_SHIFT) / a->interval :
			     0;

	if (rate > 0xffffffff)
		rate = 0xffffffff;
	if (rate && (!a->limited || rate >= window_rate(w))) {
		w->sampled = 1;
		if (rate > w->rate)
			w->rate = rate;
	}
	if ((__s32)(a->delivered + a->lost - w->ends) >= 0)
		window_round(w, a);
}

/* After a retransmission timeout half of the window was too much. */
static inline void window_timeout(struct window *w, __u32 cwnd)
{
	__u32 half = cwnd >> 1;

	w->plateau = WINDOW_PLATEAU;
	if (half < w->ceiling)
		w->ceiling = half;
}

/*
 * A window that lets out no more than `until` transmissions in total, of which `sent` have left: a
 * packet that is delivered or lost makes no room for another. The numbers wrap. 0: no such limit.
 */
static inline __u32 window_until(__u32 wish, __u32 until, __u32 sent, __u32 in_flight)
{
	__s32 left = (__s32)(until - sent);
	__u32 most = in_flight + (left > 0 ? left : 0);

	return until && most < wish ? most : wish;
}

static inline __u32 window_gain(const struct window *w, __u32 gain)
{
	return w->plateau < WINDOW_PLATEAU ? WINDOW_GAIN_START : gain;
}

/*
 * What of a wish is allowed: twice what the path carries in its shortest round trip, and less where
 * that lost too much.
 */
static inline __u32 window_allowed(const struct window *w, __u32 wish, __u32 clamp, __u32 rtt)
{
	__u32 most = WINDOW_FEW + window_carried(w, rtt, window_gain(w, WINDOW_GAIN_WINDOW));

	if (!window_rate(w))
		most = w->first;
	if (most > w->ceiling)
		most = w->ceiling;
	if (most > WINDOW_MOST)
		most = WINDOW_MOST;
	if (clamp && most > clamp)
		most = clamp;
	if (most < WINDOW_LEAST)
		most = WINDOW_LEAST;
	if (wish < WINDOW_LEAST)
		return WINDOW_LEAST;
	return wish < most ? wish : most;
}

/*
 * What of a wished rate is taken; bytes per second. A little more than the path carries; before
 * anybody knows how much that is, the window alone holds.
 */
static inline __u64 window_paced(const struct window *w, __u64 rate, __u32 mss)
{
	__u64 least = (__u64)mss * WINDOW_SLOWEST;
	__u64 most = ((__u64)window_rate(w) * mss >> WINDOW_GAIN_SHIFT) *
		     window_gain(w, WINDOW_GAIN_RATE);

	/* Per microsecond, and 2^-24: first what cannot overflow. */
	most = (most >> 14) * 1000000 >> (WINDOW_RATE_SHIFT - 14);
	if (most && rate > most)
		rate = most;
	return rate < least ? least : rate;
}
