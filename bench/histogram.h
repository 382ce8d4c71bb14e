/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A histogram of times with logarithmic buckets: of any length, each known to a sixteenth.
 *
 * All zero is empty. One thread adds to it. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_FINE = 16, HISTOGRAM_BUCKETS = 61 * HISTOGRAM_FINE };

struct histogram {
	uint32_t count[HISTOGRAM_BUCKETS];
	uint64_t longest;
};

void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* How many there are. */
uint64_t histogram_total(const struct histogram *h);

/* The time that a share of all, from 0 to 1, do not exceed: the upper end of its bucket, and at most the longest. 0 of
 * nothing. */
uint64_t histogram_quantile(const struct histogram *h, double share);

#endif
