/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A CLOCK_REALTIME that somebody sets: how far it is off, as a function of the time since boot. */
#ifndef JUMPS_H
#define JUMPS_H

#include <stdint.h>

enum { JUMPS_AHEAD_NS = 3000000 };

/* An hour back, right again, a little ahead, a little back: each for 40 ms. */
static inline int64_t jump_ns(int64_t monotonic_ns)
{
	static const int64_t off[] = {0, -3600000000000, 0, JUMPS_AHEAD_NS, -50000000};

	return off[monotonic_ns / 40000000 % (int64_t)(sizeof(off) / sizeof(off[0]))];
}

#endif
