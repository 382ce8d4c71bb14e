/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What calls cost that nobody disturbs, in a process of one thread, or of several of which the others sleep.
 *
 * The rate is that of the tenth percentile of batches: one that was interrupted does not count, nor do those while a
 * neighbour had its share of the core. */
#include "bench.h"

#include <stdlib.h>

enum { BATCH = 2000, MOST = 200000 };

static pthread_mutex_t mutex __attribute__((aligned(BENCH_LINE)));
static pthread_rwlock_t rwlock __attribute__((aligned(BENCH_LINE))) = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond __attribute__((aligned(BENCH_LINE))) = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin __attribute__((aligned(BENCH_LINE)));

static int lock_pair(void)
{
	return pthread_mutex_lock(&mutex) | pthread_mutex_unlock(&mutex);
}

static int try_pair(void)
{
	return pthread_mutex_trylock(&mutex) | pthread_mutex_unlock(&mutex);
}

static int read_pair(void)
{
	return pthread_rwlock_rdlock(&rwlock) | pthread_rwlock_unlock(&rwlock);
}

static int write_pair(void)
{
	return pthread_rwlock_wrlock(&rwlock) | pthread_rwlock_unlock(&rwlock);
}

static int signal_nobody(void)
{
	return pthread_cond_signal(&cond);
}

static int broadcast_nobody(void)
{
	return pthread_cond_broadcast(&cond);
}

static int spin_pair(void)
{
	return pthread_spin_lock(&spin) | pthread_spin_unlock(&spin);
}

/* The loops are told apart when they are compiled, so that no indirect call is measured. */
#define BATCH_OF(call)                                                                                                 \
	static int batch_##call(void)                                                                                  \
	{                                                                                                              \
		int wrong = 0;                                                                                         \
		for (int i = 0; i < BATCH; i++)                                                                        \
			wrong |= call();                                                                               \
		return wrong;                                                                                          \
	}
BATCH_OF(lock_pair)
BATCH_OF(try_pair)
BATCH_OF(read_pair)
BATCH_OF(write_pair)
BATCH_OF(signal_nobody)
BATCH_OF(broadcast_nobody)
BATCH_OF(spin_pair)

static const char *const kinds[] = {"mutex",  "recursive", "errorcheck", "adaptive", "trylock", "rdlock",
				    "wrlock", "signal",	   "broadcast",	 "spin",     NULL};
static const struct {
	int (*batch)(void);
	int type; /* of the mutex */
} call[] = {
	{batch_lock_pair, PTHREAD_MUTEX_NORMAL},
	{batch_lock_pair, PTHREAD_MUTEX_RECURSIVE},
	{batch_lock_pair, PTHREAD_MUTEX_ERRORCHECK},
	{batch_lock_pair, PTHREAD_MUTEX_ADAPTIVE_NP},
	{batch_try_pair, PTHREAD_MUTEX_NORMAL},
	{batch_read_pair, 0},
	{batch_write_pair, 0},
	{batch_signal_nobody, 0},
	{batch_broadcast_nobody, 0},
	{batch_spin_pair, 0},
};

static pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *arg)
{
	pthread_mutex_lock(&end);
	pthread_mutex_unlock(&end);
	return arg;
}

static uint64_t play(void)
{
	double *ns = bench_memory(MOST, sizeof(*ns));
	pthread_mutexattr_t attr;
	uint64_t limit, wrong = 0;
	pthread_t *id;
	int n = 0;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, call[bench.kind].type);
	pthread_mutex_init(&mutex, &attr);
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_lock(&end);
	id = bench_start(bench.threads - 1, sleeper);
	limit = bench_now() + (uint64_t)(bench.seconds * 1e9);
	do {
		uint64_t begun = bench_now();

		wrong += call[bench.kind].batch() != 0;
		ns[n++] = (double)(bench_now() - begun) / BATCH;
	} while (n < MOST && bench_now() < limit);
	pthread_mutex_unlock(&end);
	bench_join(id, bench.threads - 1);
	qsort(ns, (size_t)n, sizeof(*ns), bench_by_value);
	bench_put("rate", 1e9 / ns[n / 10]);
	bench_put("cpu_ns", ns[n / 10]); /* it does not sleep */
	bench_put("median_ns", ns[n / 2]);
	bench_put("least_ns", ns[0]);
	bench_put("batches", n);
	return wrong;
}

const struct workload workload_alone = {
	.name = "alone",
	.what = "one thread calls; the other N - 1 of the process sleep",
	.options = "nk",
	.start = {.threads = 1},
	.kinds = kinds,
	.play = play,
};
