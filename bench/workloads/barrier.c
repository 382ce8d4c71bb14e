/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that work and meet, by a barrier of a mutex and a condition variable, as programs make them themselves.
 *
 * Paper: streamcluster in the ShflLock paper (Kashyap et al., SOSP 2019, section 6.2): most of its time goes into
 * pthread_mutex_trylock() of such a barrier. A thread that arrives tries the mutex a few times before it locks it;
 * those that wait look at the generation a few times before they sleep. */
#include "bench.h"

enum { TRIES = 50, LOOKS = 200 };

static pthread_mutex_t mutex __attribute__((aligned(BENCH_LINE))) = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here __attribute__((aligned(BENCH_LINE))) = PTHREAD_COND_INITIALIZER;
static int here;
static bool last_round;
static atomic_uint generation __attribute__((aligned(BENCH_LINE)));

static void lock(void)
{
	for (int i = 0; i < TRIES; i++)
		if (pthread_mutex_trylock(&mutex) == 0)
			return;
	pthread_mutex_lock(&mutex);
}

/* False: it was the last time. */
static bool meet(void)
{
	unsigned mine = atomic_load(&generation);
	bool go_on;

	lock();
	if (++here == bench.threads) {
		here = 0;
		last_round = bench_over();
		atomic_store(&generation, mine + 1);
		pthread_cond_broadcast(&all_here);
		go_on = !last_round;
		pthread_mutex_unlock(&mutex);
		return go_on;
	}
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < LOOKS && atomic_load(&generation) == mine; i++)
		bench_work(4);
	lock();
	while (atomic_load(&generation) == mine)
		pthread_cond_wait(&all_here, &mutex);
	go_on = !last_round;
	pthread_mutex_unlock(&mutex);
	return go_on;
}

static void run(struct worker *w)
{
	uint64_t outside = bench_rounds(bench.outside);

	do {
		bench_work(outside);
		w->done++;
	} while (meet());
}

static uint64_t play(void)
{
	uint64_t wrong = 0;

	bench_contend(run);
	for (int i = 1; i < bench.threads; i++)
		wrong += bench_workers[i].done != bench_workers[0].done;
	return wrong;
}

const struct workload workload_barrier = {
	.name = "barrier",
	.what = "threads work for -o and meet at a barrier with trylock (streamcluster)",
	.options = "no",
	.start = {.threads = 4, .outside = 5000},
	.play = play,
};
