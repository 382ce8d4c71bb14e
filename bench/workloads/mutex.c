/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that lock one mutex, work, unlock it, and work.
 *
 * Paper: LBench (Dice, Marathe and Shavit, TOPC 2015, section 4.1): a critical section that writes some cache lines,
 * and work outside of it. With no lines it writes a word beside the mutex, by which it is seen whether that excludes.
 */
#include "bench.h"

#include <errno.h>

static struct {
	pthread_mutex_t mutex;
	uint64_t guarded;
} shared __attribute__((aligned(BENCH_LINE)));

static struct {
	uint64_t word;
} __attribute__((aligned(BENCH_LINE))) * line;

static uint64_t held, outside;

static void run(struct worker *w)
{
	for (; !bench_over(); w->done++) {
		bench_wait_begins(w);
		w->wrong += pthread_mutex_lock(&shared.mutex) != 0;
		bench_wait_ends(w);
		shared.guarded++;
		for (int i = 0; i < bench.lines; i++)
			line[i].word++;
		bench_work(held);
		w->wrong += pthread_mutex_unlock(&shared.mutex) != 0;
		bench_work(outside);
	}
}

static uint64_t play(void)
{
	static const int kind[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
				   PTHREAD_MUTEX_ADAPTIVE_NP};
	pthread_mutexattr_t attr;
	struct worker sum;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, kind[bench.kind]);
	if ((errno = pthread_mutex_init(&shared.mutex, &attr)))
		bench_fail("pthread_mutex_init: %m");
	line = bench_memory((size_t)bench.lines + 1, sizeof(*line));
	held = bench_rounds(bench.held);
	outside = bench_rounds(bench.outside);
	sum = bench_contend(run);
	for (int i = 0; i < bench.lines; i++)
		sum.wrong += line[i].word != sum.done;
	return sum.wrong + (shared.guarded != sum.done);
}

static const char *const kinds[] = {"normal", "recursive", "errorcheck", "adaptive", NULL};

const struct workload workload_mutex = {
	.name = "mutex",
	.what = "threads lock one mutex (LBench)",
	.options = "nHolk",
	.start = {.threads = 4},
	.kinds = kinds,
	.play = play,
};
