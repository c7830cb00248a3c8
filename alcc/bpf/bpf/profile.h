/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Verus' delay profile: the delay of each sending window, a curve through these points, and its
 * inverse. Windows in packets, delays in microseconds.
 *
 * `cc` fits a stiff spline with a node for every VERUS_DIVISOR windows, VERUS_FEWEST at least. What a
 * point says reaches some 2.5 nodes there. Here the curve is straight between 33 knots, and each knot lies on the straight
 * line that fits best to the points within that distance on either side.
 */
#pragma once

#include "pure.h"

#define PROFILE_SLOTS 512
#define PROFILE_CELLS 32
/* Half nodes around a knot whose points count; cells on either side, at least and at most. */
#define PROFILE_HALF_NODES 5
#define PROFILE_NEAREST 2
#define PROFILE_REACH 16

/* Sums over the points of a cell; x counts from the first window with a point. */
struct profile_sums {
	__u64 n, x, y, xx, xy;
};

struct profile {
	__u32 shift; /* windows per slot, as a power of two */
	__u32 largest; /* window with a point; 0: none */
	__u32 fitted;
	__u32 first, last; /* windows that the curve is made of */
	__u32 points[PROFILE_SLOTS]; /* 0: none */
	__u32 knots[PROFILE_CELLS + 1];
	__u32 highest[PROFILE_CELLS + 1]; /* up to each knot */
	struct profile_sums cells[PROFILE_CELLS];
	/*
	 * What a loop works on. It stands here and not on the stack: there the verifier would follow
	 * every turn that counts.
	 */
	__u32 w, count, low, high, value, reach;
};

#define PROFILE_OF(state) (*(struct profile **)(state))

static long profile_merge(__u32 i, void *state)
{
	struct profile *p = PROFILE_OF(state);
	__u32 low = p->points[2 * i & (PROFILE_SLOTS - 1)];
	__u32 high = p->points[(2 * i + 1) & (PROFILE_SLOTS - 1)];

	if (low && high)
		low = (__u32)(((__u64)low + high) / 2);
	p->points[i & (PROFILE_SLOTS - 1)] = i < PROFILE_SLOTS / 2 ? (low ? low : high) : 0;
	return 0;
}

/* One packet sent under window `w` had this delay. `keep` of VERUS_POINT_WEIGHT_OF of what is known stay. */
PURE_CALL int profile_update(struct profile *p, __u32 w, __u32 delay, __u32 keep)
{
	struct profile *self = p;
	__u64 slot;
	__u32 old;

	if (!p)
		return 0;
	if (w >> p->shift >= PROFILE_SLOTS) {
		/* Once per doubling. */
		LOOP(PROFILE_SLOTS, profile_merge, &self);
		p->shift++;
	}
	/* The verifier loses the bounds of a shift in 32 bits. */
	slot = (__u64)w >> (p->shift & 31);
	if (slot >= PROFILE_SLOTS)
		return 0;
	old = p->points[slot];
	p->points[slot] = old ? (__u32)(((__u64)old * keep + (__u64)delay * (VERUS_POINT_WEIGHT_OF - keep)) /
					VERUS_POINT_WEIGHT_OF) :
				delay;
	if (w > p->largest)
		p->largest = w;
	return 0;
}

static long profile_drop(__u32 i, void *state)
{
	struct profile *p = PROFILE_OF(state);
	__u32 *point = &p->points[i & (PROFILE_SLOTS - 1)];
	__u32 w = i << (p->shift & 31);

	if (w >= p->w)
		*point = 0;
	else if (*point)
		p->largest = w;
	return 0;
}

/* Forgets all windows from `w` on. */
PURE_CALL int profile_forget(struct profile *p, __u32 w)
{
	struct profile *self = p;

	if (!p)
		return 0;
	p->w = w;
	p->largest = 0;
	LOOP(PROFILE_SLOTS, profile_drop, &self);
	return 0;
}

static long profile_look(__u32 i, void *state)
{
	struct profile *p = PROFILE_OF(state);
	__u32 w = i << (p->shift & 31);

	if (!p->points[i & (PROFILE_SLOTS - 1)])
		return 0;
	if (!p->count)
		p->low = w;
	p->high = w;
	p->count++;
	return 0;
}

static long profile_clear(__u32 i, void *state)
{
	struct profile_sums *cell = &PROFILE_OF(state)->cells[i & (PROFILE_CELLS - 1)];

	cell->n = cell->x = cell->y = cell->xx = cell->xy = 0;
	return 0;
}

static long profile_add(__u32 i, void *state)
{
	struct profile *p = PROFILE_OF(state);
	__u64 y = p->points[i & (PROFILE_SLOTS - 1)];
	__u64 x = ((__u64)i << (p->shift & 31)) - p->low;
	struct profile_sums *cell;

	if (!y)
		return 0;
	cell = &p->cells[x * PROFILE_CELLS / (p->high - p->low + 1) & (PROFILE_CELLS - 1)];
	cell->n++;
	cell->x += x;
	cell->y += y;
	cell->xx += x * x;
	cell->xy += x * y;
	return 0;
}

/*
 * The best straight line at x. Of 512 points below 2^16 packets and 2^26 us, the products stay
 * below 2^62.
 */
PURE __u32 profile_line(const struct profile_sums *s, __u64 x)
{
	__u64 rising = s->n * s->xy, falling = s->x * s->y, spread = s->n * s->xx - s->x * s->x;
	__u64 steep = rising > falling ? rising - falling : falling - rising;
	__u64 middle = s->x / s->n, mean = s->y / s->n;
	__u64 off = x > middle ? x - middle : middle - x;
	int up = (rising > falling) == (x > middle);

	if (!spread)
		return mean;
	if (steep >> 52) {
		steep >>= 12;
		spread = (spread >> 12) + 1;
	}
	off = off * ((steep << 10) / spread) >> 10;
	if (!up)
		return mean > off ? mean - off : 1;
	return mean + off < MAX_RTT ? mean + off : MAX_RTT;
}

/* Cells on either side of a knot whose points count. */
PURE __u32 profile_reach(__u32 largest)
{
	__u32 half = PROFILE_HALF_NODES * PROFILE_CELLS * VERUS_DIVISOR / 2, reach;

	/* With five nodes it is more than the most. */
	if (largest < VERUS_FEWEST * VERUS_DIVISOR)
		return PROFILE_REACH;
	reach = half / (largest - VERUS_DIVISOR);
	if (reach < PROFILE_NEAREST)
		return PROFILE_NEAREST;
	return reach < PROFILE_REACH ? reach : PROFILE_REACH;
}

static long profile_knot(__u32 k, void *state)
{
	struct profile *p = PROFILE_OF(state);
	struct profile_sums s = {};
	__u64 knot = k;

#pragma unroll
	for (int j = -PROFILE_REACH; j < PROFILE_REACH; j++) {
		__u64 at = (__u64)k + j;

		/* Each is tested by itself: else the compiler shares bounds that the verifier forgets. */
		__asm__ volatile("" : "+r"(at));
		if (at < PROFILE_CELLS && (j < 0 ? -j : j + 1) <= (int)p->reach) {
			s.n += p->cells[at].n;
			s.x += p->cells[at].x;
			s.y += p->cells[at].y;
			s.xx += p->cells[at].xx;
			s.xy += p->cells[at].xy;
		}
	}
	__asm__ volatile("" : "+r"(knot));
	if (knot > PROFILE_CELLS)
		return 1;
	/* The curve stays level where nothing is known. */
	p->knots[knot] = p->value;
	if (s.n)
		p->knots[knot] = profile_line(&s, knot * (p->high - p->low) / PROFILE_CELLS);
	if (p->value < p->knots[knot])
		p->value = p->knots[knot];
	p->highest[knot] = p->value;
	return 0;
}

/* Fits the curve. False, and the old one stays, where too few windows are known. */
PURE_CALL int profile_fit(struct profile *p)
{
	struct profile *self = p;

	if (!p)
		return 0;
	p->count = 0;
	p->low = 0;
	p->high = 0;
	LOOP(PROFILE_SLOTS, profile_look, &self);
	if (p->count < 2 || p->largest < VERUS_FEWEST)
		return 0;
	p->value = 0;
	p->reach = profile_reach(p->largest);
	LOOP(PROFILE_CELLS, profile_clear, &self);
	LOOP(PROFILE_SLOTS, profile_add, &self);
	LOOP(PROFILE_CELLS + 1, profile_knot, &self);
	p->first = p->low;
	p->last = p->high;
	p->fitted = 1;
	return 1;
}

/* Between two values, `part` of 256 on the way, perhaps beyond; at least 1. */
PURE __u32 profile_between(__u32 from, __u32 to, __s64 part)
{
	__s64 value = from + (((__s64)to - from) * part >> 8);

	if (value < 1)
		return 1;
	return value < MAX_RTT ? value : MAX_RTT;
}

/* The delay of a window by the curve. */
PURE_CALL __u32 profile_curve(const struct profile *p, __u32 w)
{
	__u64 range, at;
	__u32 cell;

	if (!p)
		return 1;
	range = p->last - p->first;
	if (!range)
		return p->knots[0];
	if (w <= p->first) {
		at = (__u64)(p->first - w) * (PROFILE_CELLS << 8) / range;
		return profile_between(p->knots[0], p->knots[1], -(__s64)at);
	}
	at = (__u64)(w - p->first) * (PROFILE_CELLS << 8) / range;
	cell = at >> 8 < PROFILE_CELLS ? at >> 8 : PROFILE_CELLS - 1;
	return profile_between(p->knots[cell & (PROFILE_CELLS - 1)],
			       p->knots[(cell & (PROFILE_CELLS - 1)) + 1], at - (cell << 8));
}

static long profile_below(__u32 i, void *state)
{
	struct profile *p = PROFILE_OF(state);

	if (i > p->w)
		return 1;
	p->value = p->points[(p->w - i) & (PROFILE_SLOTS - 1)];
	return p->value != 0;
}

/* Before the first curve: the delay of the nearest window at or below `w`; 0 if there is none. */
PURE_CALL __u32 profile_point(struct profile *p, __u32 w)
{
	struct profile *self = p;

	if (!p)
		return 0;
	p->value = 0;
	p->w = w >> (p->shift & 31);
	if (p->w >= PROFILE_SLOTS)
		p->w = PROFILE_SLOTS - 1;
	LOOP(PROFILE_SLOTS, profile_below, &self);
	return p->value;
}

static long profile_cross(__u32 k, void *state)
{
	struct profile *p = PROFILE_OF(state);

	if (k > PROFILE_CELLS || p->highest[k] > p->value)
		return 1;
	p->count = k + 1;
	return 0;
}

/* The window before the first one, from 2 up, whose delay exceeds `d`; 0 if none does. */
PURE_CALL __u32 profile_window(struct profile *p, __u32 d)
{
	struct profile *self = p;
	__u64 range, low, high, cell;
	__u32 second;

	if (!p)
		return 0;
	range = p->last - p->first;
	second = profile_curve(p, 2);
	if (second > d)
		return 1;
	p->value = d;
	p->count = 0;
	LOOP(PROFILE_CELLS + 1, profile_cross, &self);
	/* The first knot above is the right one of its cell. */
	cell = (__u64)p->count - 1;
	__asm__ volatile("" : "+r"(cell));
	if (!p->count)
		return p->first > 2 ? 2 + (__u64)(d - second) * (p->first - 2) /
						  (p->knots[0] > second ? p->knots[0] - second : 1)
				    : 1;
	if (cell < PROFILE_CELLS) {
		low = p->highest[cell];
		high = p->highest[cell + 1];
		if (high <= low)
			high = low + 1;
		return p->first + (cell * range + (d - low) * range / (high - low)) / PROFILE_CELLS;
	}
	/* Beyond what is known: a straight line. */
	low = p->knots[PROFILE_CELLS - 1];
	high = p->knots[PROFILE_CELLS];
	if (high <= low)
		return 0;
	d = d > high ? d - high : 0;
	range = p->last + d * range / (high - low) / PROFILE_CELLS;
	return range < MAX_CWND / ONE ? range : MAX_CWND / ONE;
}
