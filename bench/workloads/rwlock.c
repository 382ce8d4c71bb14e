/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that take one reader-writer lock, to read or to write, and do nothing else but empty work. */
#include "bench.h"

#include <errno.h>

static pthread_rwlock_t lock __attribute__((aligned(BENCH_LINE)));
static uint64_t guarded __attribute__((aligned(BENCH_LINE)));
static uint64_t held, outside;

static void run(struct worker *w)
{
	for (; !bench_over(); w->done++) {
		bool write = bench_below((uint32_t)bench_random(&w->random), 100) < (uint32_t)bench.writes;

		bench_wait_begins(w);
		w->wrong += (write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock)) != 0;
		bench_wait_ends(w);
		if (write) {
			guarded++;
			w->added++;
		}
		bench_work(held);
		w->wrong += pthread_rwlock_unlock(&lock) != 0;
		bench_work(outside);
	}
}

static uint64_t play(void)
{
	pthread_rwlockattr_t attr;
	struct worker sum;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, bench.kind ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
							: PTHREAD_RWLOCK_PREFER_READER_NP);
	if ((errno = pthread_rwlock_init(&lock, &attr)))
		bench_fail("pthread_rwlock_init: %m");
	held = bench_rounds(bench.held);
	outside = bench_rounds(bench.outside);
	sum = bench_contend(run);
	return sum.wrong + (guarded != (uint64_t)sum.added);
}

static const char *const kinds[] = {"readers", "writers", NULL};

const struct workload workload_rwlock = {
	.name = "rwlock",
	.what = "threads read and write lock one rwlock, nothing inside",
	.options = "nHowk",
	.start = {.threads = 2},
	.kinds = kinds,
	.play = play,
};
