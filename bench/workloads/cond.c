/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Condition variables at work: a turn that goes to and fro, one that calls all, a bounded buffer, deadlines that pass.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
	SETTLE_US = 2000, /* the waiters of a broadcast are asleep then */
	MOST = 100000,
	SLOTS = 16
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static pthread_cond_t all_in = PTHREAD_COND_INITIALIZER;

/* Signal c and unlock, in the order that was asked for. */
static void signal_unlock(pthread_cond_t *c)
{
	if (!bench.after)
		pthread_cond_signal(c);
	pthread_mutex_unlock(&mutex);
	if (bench.after)
		pthread_cond_signal(c);
}

/* ---- pingpong ---- */

static int turn;

static void pingpong_run(struct worker *w)
{
	pthread_cond_t *mine = &cond[w->number], *other = &cond[!w->number];

	for (bool last = false; !last;) {
		pthread_mutex_lock(&mutex);
		while (turn != w->number && !bench_over())
			pthread_cond_wait(mine, &mutex);
		last = bench_over();
		w->done += turn == w->number;
		turn = !w->number;
		signal_unlock(other);
	}
}

static uint64_t pingpong(void)
{
	return bench_contend(pingpong_run).wrong;
}

const struct workload workload_pingpong = {
	.name = "pingpong",
	.what = "two threads hand a turn to and fro, by two conds",
	.options = "a",
	.start = {.threads = 2},
	.play = pingpong,
};

/* ---- broadcast: from the call until all have had the mutex ---- */

static int in, out;
static unsigned generation;
static uint64_t all_out;

static void *broadcast_run(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!bench_over()) {
		unsigned before = generation;

		if (++in == bench.threads)
			pthread_cond_signal(&all_in);
		while (generation == before)
			pthread_cond_wait(&cond[0], &mutex);
		if (++out == bench.threads) {
			all_out = bench_now();
			pthread_cond_signal(&cond[1]);
		}
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

/* Nanoseconds. */
static uint64_t broadcast_once(void)
{
	uint64_t begin;

	pthread_mutex_lock(&mutex);
	while (in < bench.threads)
		pthread_cond_wait(&all_in, &mutex);
	pthread_mutex_unlock(&mutex);
	bench_nap(SETTLE_US * 1e-6);

	pthread_mutex_lock(&mutex);
	in = out = 0;
	generation++;
	if (bench.after)
		pthread_mutex_unlock(&mutex);
	begin = bench_now();
	pthread_cond_broadcast(&cond[0]);
	if (bench.after)
		pthread_mutex_lock(&mutex);
	else
		bench_work(bench_rounds(bench.held));
	while (out < bench.threads)
		pthread_cond_wait(&cond[1], &mutex);
	begin = all_out - begin;
	pthread_mutex_unlock(&mutex);
	return begin;
}

static uint64_t broadcast(void)
{
	double *ns = bench_memory(MOST, sizeof(*ns));
	pthread_t *id = bench_start(bench.threads, broadcast_run);
	uint64_t limit = bench_now() + (uint64_t)(bench.seconds * 1e9);
	int n = 0;

	bench_begin();
	do {
		ns[n++] = (double)broadcast_once();
	} while (bench_now() < limit && n < MOST);
	atomic_store(&bench_stop, true);
	broadcast_once();
	bench_join(id, bench.threads);
	bench_rate(n + 1); /* the processor time is right; the rate, with its naps, is not what is looked for */
	qsort(ns, (size_t)n, sizeof(*ns), bench_by_value);
	bench_put("rate", 1e9 / ns[n / 2]);
	bench_put("p50_ns", ns[n / 2]);
	bench_put("longest_ns", ns[n - 1]);
	bench_put("rounds", n);
	return 0;
}

const struct workload workload_broadcast = {
	.name = "broadcast",
	.what = "one thread wakes N, until all have had the mutex",
	.options = "nHa",
	.start = {.threads = 256},
	.play = broadcast,
};

/* ---- buffer ---- */

static int filled;
static bool closed;
static int producing;

static void buffer_run(struct worker *w)
{
	pthread_cond_t *not_full = &cond[0], *not_empty = &cond[1];
	bool producer = w->number % 2 == 0;
	uint64_t outside = bench_rounds(bench.outside);

	for (;;) {
		pthread_mutex_lock(&mutex);
		while (producer ? filled == SLOTS && !closed : filled == 0 && !closed)
			pthread_cond_wait(producer ? not_full : not_empty, &mutex);
		if (bench_over() && !closed) {
			closed = true;
			pthread_cond_broadcast(not_full);
			pthread_cond_broadcast(not_empty);
		}
		if (producer ? closed : filled == 0 && closed && !producing) {
			producing -= producer;
			pthread_cond_broadcast(not_empty);
			pthread_mutex_unlock(&mutex);
			return;
		}
		if (!producer && filled == 0) { /* the last producers are on their way out */
			pthread_mutex_unlock(&mutex);
			continue;
		}
		filled += producer ? 1 : -1;
		w->added += producer ? 1 : -1;
		w->done++;
		signal_unlock(producer ? not_empty : not_full);
		bench_work(outside);
	}
}

static uint64_t buffer(void)
{
	producing = (bench.threads + 1) / 2;
	return (uint64_t)llabs(bench_contend(buffer_run).added);
}

const struct workload workload_buffer = {
	.name = "buffer",
	.what = "producers (every other thread) and consumers of a bounded buffer",
	.options = "noa",
	.start = {.threads = 4},
	.play = buffer,
};

/* ---- deadlines: waits that nobody ends ---- */

static void deadline_run(struct worker *w)
{
	pthread_mutex_lock(&mutex);
	while (!bench_over()) {
		uint64_t end = bench_now() + bench.outside;
		struct timespec t = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
		int rc = pthread_cond_clockwait(&cond[0], &mutex, CLOCK_MONOTONIC, &t);

		w->wrong += rc && rc != ETIMEDOUT;
		if (rc != ETIMEDOUT)
			continue;
		w->done++;
		histogram_add(w->waits, bench_now() - end); /* how late */
	}
	pthread_mutex_unlock(&mutex);
}

static uint64_t deadline(void)
{
	return bench_contend(deadline_run).wrong;
}

const struct workload workload_deadline = {
	.name = "deadline",
	.what = "threads wait on a cond for -o each, for nobody; the waits are how late they return",
	.options = "no",
	.start = {.threads = 4, .outside = 50000},
	.play = deadline,
};
