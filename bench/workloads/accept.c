/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Servers that take turns in sleeping, with a mutex held, until there is something to do, as behind an accept mutex.
 *
 * Something comes each -H, whether somebody waits for it or not: what nobody has waited for is there at once. So the rate is the same
 * under any lock that keeps up, and what tells them apart is the processor time. */
#include "bench.h"

#include <errno.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct timespec comes; /* with the mutex held */
static uint64_t taken, outside;

static void accept_one(void)
{
	comes.tv_nsec += (long)(bench.held % 1000000000);
	comes.tv_sec += (time_t)(bench.held / 1000000000) + comes.tv_nsec / 1000000000;
	comes.tv_nsec %= 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &comes, NULL) == EINTR)
		;
	taken++;
}

static void run(struct worker *w)
{
	for (; !bench_over(); w->done++) {
		bench_wait_begins(w);
		w->wrong += pthread_mutex_lock(&mutex) != 0;
		bench_wait_ends(w);
		accept_one();
		w->wrong += pthread_mutex_unlock(&mutex) != 0;
		bench_work(outside);
	}
}

static uint64_t play(void)
{
	struct worker sum;

	outside = bench_rounds(bench.outside);
	clock_gettime(CLOCK_MONOTONIC, &comes);
	sum = bench_contend(run);
	return sum.wrong + (taken != sum.done);
}

const struct workload workload_accept = {
	.name = "accept",
	.what = "servers: one at a time sleeps for -H, with the mutex held",
	.options = "nHo",
	.start = {.threads = 8, .held = 100000, .outside = 20000},
	.play = play,
};
