/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* An allocator behind one mutex: threads take some blocks, write to them, and give them back.
 *
 * Paper: mmicro (Dice, Marathe and Shavit, TOPC 2015, section 4.3): what a block was last written by decides where its
 * lines are, so whoever stays on its socket finds them there. Free blocks are a stack. */
#include "bench.h"

enum { BLOCK = 64, WORDS = 4, ROUND = 16 };

struct block {
	struct block *next;
	uint64_t word[BLOCK / 8 - 1];
};

static pthread_mutex_t mutex __attribute__((aligned(BENCH_LINE))) = PTHREAD_MUTEX_INITIALIZER;
static struct block *top __attribute__((aligned(BENCH_LINE)));
static uint64_t outside;

static struct block *get(struct worker *w)
{
	struct block *b;

	bench_wait_begins(w);
	w->wrong += pthread_mutex_lock(&mutex) != 0;
	bench_wait_ends(w);
	b = top;
	if (b)
		top = b->next;
	w->wrong += pthread_mutex_unlock(&mutex) != 0;
	return b;
}

static void put(struct worker *w, struct block *b)
{
	w->wrong += pthread_mutex_lock(&mutex) != 0;
	b->next = top;
	top = b;
	w->wrong += pthread_mutex_unlock(&mutex) != 0;
}

static void run(struct worker *w)
{
	struct block *mine[ROUND];
	uint64_t mark = (uint64_t)w->number + 1;

	while (!bench_over()) {
		for (int i = 0; i < ROUND; i++) {
			mine[i] = get(w);
			for (int word = 0; mine[i] && word < WORDS; word++)
				mine[i]->word[word] = mark;
			bench_work(outside);
		}
		for (int i = 0; i < ROUND; i++) {
			w->wrong += !mine[i] || mine[i]->word[WORDS - 1] != mark;
			if (mine[i])
				put(w, mine[i]);
			bench_work(outside);
		}
		w->done += 2 * ROUND;
	}
}

static uint64_t play(void)
{
	int n = bench.threads * ROUND, left = 0;
	struct block *block = bench_memory((size_t)n, sizeof(*block));
	struct worker sum;

	for (int i = 0; i < n; i++) {
		block[i].next = top;
		top = &block[i];
	}
	outside = bench_rounds(bench.outside);
	sum = bench_contend(run);
	for (struct block *b = top; b && left <= n; b = b->next)
		left++;
	return sum.wrong + (left != n);
}

const struct workload workload_alloc = {
	.name = "alloc",
	.what = "an allocator of small blocks behind one mutex (mmicro)",
	.options = "no",
	.start = {.threads = 4},
	.play = play,
};
