/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a socket ran before it was taken: noted where a control is selected, used where a socket is
 * given back. All programs share the map by its pin. A listener hands it to what it accepts.
 */
#pragma once

#include "kernel.h"

struct before {
	char control[CC_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct before);
} before SEC(".maps");
