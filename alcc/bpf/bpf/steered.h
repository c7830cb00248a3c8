/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Settings of a program for a socket of its own, and reports about it: socket storage, reached
 * through the maps themselves (window.bpf.c) or through socket options (door.bpf.c).
 */
#pragma once

#include "kernel.h"

/* Acknowledgements that are remembered. */
#define SAMPLES 32

/* Values from user space. A map whose values hold a lock cannot be frozen by those who may write. */
struct knobs {
	struct bpf_spin_lock lock;
	__u32 beat; /* another one with each update */
	__u32 window; /* packets; 0: as it is */
	__u32 until; /* largest number of transmissions in total; 0: no such limit */
	__u64 rate; /* bytes per second; 0: twice the window per round trip */
};

struct sample {
	__u64 at; /* ns, monotonic clock */
	__u32 rtt; /* us; 0: none */
	__u32 delivered; /* packets, in total */
	__u32 lost; /* packets, in total */
	__u32 in_flight; /* packets */
};

/* Values for user space. */
struct feed {
	struct bpf_spin_lock lock;
	__u32 cwnd; /* in force */
	__u64 acks; /* in total; the newest sample is at (acks - 1) modulo SAMPLES */
	struct sample samples[SAMPLES];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct knobs);
} knobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct feed);
} feed SEC(".maps");
