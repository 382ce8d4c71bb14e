/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A thread pool: one thread gives out tasks, a round at a time, the others do them and it waits for the last. */
#include "bench.h"

enum { TASKS = 64 }; /* in a round */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, none = PTHREAD_COND_INITIALIZER;
static int waiting, unfinished;
static bool closed;

static void give_out(struct worker *w)
{
	while (!bench_over()) {
		pthread_mutex_lock(&mutex);
		unfinished = TASKS;
		pthread_mutex_unlock(&mutex);
		for (int i = 0; i < TASKS; i++) {
			pthread_mutex_lock(&mutex);
			waiting++;
			pthread_cond_signal(&more);
			pthread_mutex_unlock(&mutex);
		}
		pthread_mutex_lock(&mutex);
		while (unfinished)
			pthread_cond_wait(&none, &mutex);
		pthread_mutex_unlock(&mutex);
		w->added += TASKS;
	}
	pthread_mutex_lock(&mutex);
	closed = true;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&mutex);
}

static void run(struct worker *w)
{
	uint64_t task = bench_rounds(bench.outside);

	if (w->number == 0) {
		give_out(w);
		return;
	}
	pthread_mutex_lock(&mutex);
	for (;;) {
		while (!waiting && !closed)
			pthread_cond_wait(&more, &mutex);
		if (closed)
			break;
		waiting--;
		pthread_mutex_unlock(&mutex);
		bench_work(task);
		w->done++;
		pthread_mutex_lock(&mutex);
		if (--unfinished == 0)
			pthread_cond_signal(&none);
	}
	pthread_mutex_unlock(&mutex);
}

static uint64_t play(void)
{
	struct worker sum;

	bench.threads++; /* the one that gives out */
	sum = bench_contend(run);
	return sum.done != (uint64_t)sum.added;
}

const struct workload workload_pool = {
	.name = "pool",
	.what = "a pool of N threads and one that gives them tasks of -o",
	.options = "no",
	.start = {.threads = 4, .outside = 1000},
	.play = play,
};
