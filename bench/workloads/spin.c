/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that take one spin lock, work, let it go, and work. */
#include "bench.h"

static struct {
	pthread_spinlock_t lock;
	uint64_t guarded __attribute__((aligned(BENCH_LINE)));
} shared __attribute__((aligned(BENCH_LINE)));

static uint64_t held, outside;

static void run(struct worker *w)
{
	for (; !bench_over(); w->done++) {
		bench_wait_begins(w);
		w->wrong += pthread_spin_lock(&shared.lock) != 0;
		bench_wait_ends(w);
		shared.guarded++;
		bench_work(held);
		w->wrong += pthread_spin_unlock(&shared.lock) != 0;
		bench_work(outside);
	}
}

static uint64_t play(void)
{
	struct worker sum;

	pthread_spin_init(&shared.lock, PTHREAD_PROCESS_PRIVATE);
	held = bench_rounds(bench.held);
	outside = bench_rounds(bench.outside);
	sum = bench_contend(run);
	return sum.wrong + (shared.guarded != sum.done);
}

const struct workload workload_spin = {
	.name = "spin",
	.what = "threads take one spin lock",
	.options = "nHo",
	.start = {.threads = 4},
	.play = play,
};
