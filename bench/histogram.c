/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A histogram of times with logarithmic buckets; the contract is in histogram.h.
 *
 * Below 16 ns each has a bucket; above, each power of two has 16 of them. */
#include "histogram.h"

static unsigned bucket_of(uint64_t ns)
{
	unsigned power;

	if (ns < HISTOGRAM_FINE)
		return (unsigned)ns;
	power = 63 - (unsigned)__builtin_clzll(ns); /* 4 to 63 */
	return (power - 3) * HISTOGRAM_FINE + (unsigned)(ns >> (power - 4) & (HISTOGRAM_FINE - 1));
}

/* The longest time that goes into a bucket. */
static uint64_t end_of(unsigned bucket)
{
	unsigned power = bucket / HISTOGRAM_FINE + 3;

	if (bucket < HISTOGRAM_FINE)
		return bucket;
	return ((uint64_t)(HISTOGRAM_FINE + bucket % HISTOGRAM_FINE + 1) << (power - 4)) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->count[bucket_of(ns)]++;
	if (ns > h->longest)
		h->longest = ns;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->count[i] += from->count[i];
	if (from->longest > into->longest)
		into->longest = from->longest;
}

uint64_t histogram_total(const struct histogram *h)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		total += h->count[i];
	return total;
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
	double wanted = share * (double)histogram_total(h);
	uint64_t seen = 0;

	if (wanted <= 0)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->count[i];
		if ((double)seen >= wanted)
			return end_of(i) < h->longest ? end_of(i) : h->longest;
	}
	return h->longest;
}
