/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A chained hash table behind one reader-writer lock, looked up and changed.
 *
 * Paper: Kashyap et al., SOSP 2019, section 6.3 and figure 11 (g), (h).
 *
 * Every key has its node from the start, linked in or not, so nothing is allocated with the lock held, and under a lock
 * that is broken chains go wrong but no node is ever freed memory. */
#include "bench.h"

#include <errno.h>

struct node {
	struct node *next;
	uint32_t key;
};

static pthread_rwlock_t lock __attribute__((aligned(BENCH_LINE))) = PTHREAD_RWLOCK_INITIALIZER;
static struct {
	struct node *node, **bucket;
	int buckets;
	int64_t entries;
} table __attribute__((aligned(BENCH_LINE)));

static uint64_t outside;

/* The link to the node with this key, or the last. A broken lock may close a chain to a ring: no chain is that long. */
static struct node **find(uint32_t key)
{
	struct node **link = &table.bucket[key % (uint32_t)table.buckets];

	for (int i = 0; *link && (*link)->key != key && i < bench.objects; i++)
		link = &(*link)->next;
	return link;
}

/* Puts the key in, or takes it out where it is in: by how many entries there are more. */
static int toggle(uint32_t key)
{
	struct node **link = find(key), *n = &table.node[key];

	if (*link == n) {
		*link = n->next;
		table.entries--;
		return -1;
	}
	n->key = key;
	link = &table.bucket[key % (uint32_t)table.buckets];
	n->next = *link;
	*link = n;
	table.entries++;
	return 1;
}

static void run(struct worker *w)
{
	for (; !bench_over(); w->done++) {
		uint64_t random = bench_random(&w->random);
		uint32_t key = bench_below((uint32_t)random, bench.objects);
		bool write = bench_below((uint32_t)(random >> 32), 100) < (uint32_t)bench.writes;

		bench_wait_begins(w);
		w->wrong += (write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock)) != 0;
		bench_wait_ends(w);
		if (write)
			w->added += toggle(key);
		else
			w->wrong += *find(key) && (*find(key))->key != key;
		w->wrong += pthread_rwlock_unlock(&lock) != 0;
		bench_work(outside);
	}
}

static uint64_t play(void)
{
	int64_t before, entries = 0;
	struct worker sum;

	table.buckets = (bench.objects + 3) / 4;
	table.bucket = bench_memory((size_t)table.buckets, sizeof(*table.bucket));
	table.node = bench_memory((size_t)bench.objects, sizeof(*table.node));
	for (uint32_t key = 0; key < (uint32_t)bench.objects; key += 2)
		toggle(key);
	before = table.entries;
	outside = bench_rounds(bench.outside);
	sum = bench_contend(run);
	for (uint32_t key = 0; key < (uint32_t)bench.objects; key++)
		entries += *find(key) != NULL;
	return sum.wrong + (entries != table.entries || entries != before + sum.added);
}

const struct workload workload_hash = {
	.name = "hash",
	.what = "a hash table behind one rwlock",
	.options = "nowe",
	.start = {.threads = 4, .outside = 20, .writes = 1, .objects = 4096},
	.play = play,
};
