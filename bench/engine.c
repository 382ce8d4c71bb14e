/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads, clocks and memory of parkade-bench; the contract is in bench.h.
 *
 * Paper: Dice and Kogan, EuroSys 2019, section 7.1.1, for the fairness factor; of an odd number of threads the middle
 * one counts to both halves. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	STACK = 64 * 1024,
	EVERY = 16,	 /* short operations: so many for one whose wait is measured */
	SHORT_NS = 1000, /* and this is short */
	TRIES = 40,	 /* of the calibration */
	TRY_ROUNDS = 200000
};

struct bench_options bench;
struct worker *bench_workers;
atomic_bool bench_stop __attribute__((aligned(BENCH_LINE)));

static pthread_barrier_t ready __attribute__((aligned(BENCH_LINE)));
static void (*run_worker)(struct worker *);
static uint64_t begun, begun_cpu;
static unsigned every;

uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void bench_nap(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

double bench_calibrate(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t start = bench_now(), ns;

		bench_work(TRY_ROUNDS);
		ns = bench_now() - start;
		least = ns < least ? ns : least;
	}
	return (double)TRY_ROUNDS / (double)least;
}

uint64_t bench_rounds(uint64_t ns)
{
	return (uint64_t)((double)ns * bench.speed);
}

void *bench_memory(size_t count, size_t size)
{
	void *p = aligned_alloc(BENCH_LINE, (count * size + BENCH_LINE - 1) / BENCH_LINE * BENCH_LINE);

	if (!p)
		bench_fail("%m");
	return memset(p, 0, count * size);
}

/* A number of kilobytes in /proc/self/status, as bytes. */
static double status_bytes(const char *name)
{
	char line[256];
	double kilobytes = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			kilobytes = strtod(line + strlen(name), NULL);
	if (file)
		fclose(file);
	return kilobytes * 1024;
}

double bench_resident(void)
{
	return status_bytes("VmRSS:");
}

double bench_resident_most(void)
{
	return status_bytes("VmHWM:");
}

int bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void bench_wait_begins(struct worker *w)
{
	if (w->turn++ % every)
		w->called = 0;
	else
		w->called = bench_now();
}

void bench_wait_ends(struct worker *w)
{
	if (w->called)
		histogram_add(w->waits, bench_now() - w->called);
}

static pthread_t create(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t id;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if ((errno = pthread_create(&id, &attr, run, arg)))
		bench_fail("pthread_create: %m");
	pthread_attr_destroy(&attr);
	return id;
}

pthread_t *bench_start(int n, void *(*run)(void *))
{
	pthread_t *id = bench_memory((size_t)n, sizeof(*id));

	for (intptr_t i = 0; i < n; i++)
		id[i] = create(run, (void *)i);
	return id;
}

void bench_join(pthread_t *id, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(id[i], NULL);
	free(id);
}

void bench_begin(void)
{
	begun = bench_now();
	begun_cpu = cpu_now();
}

void bench_rate(double operations)
{
	bench_put("rate", operations * 1e9 / (double)(bench_now() - begun));
	bench_put("cpu_ns", operations > 0 ? (double)(cpu_now() - begun_cpu) / operations : 0);
}

static void *worker_main(void *arg)
{
	pthread_barrier_wait(&ready);
	run_worker(arg);
	return NULL;
}

static void put_fairness(double sum)
{
	int n = bench.threads;
	double *done = bench_memory((size_t)n, sizeof(*done)), half;

	for (int i = 0; i < n; i++)
		done[i] = (double)bench_workers[i].done;
	qsort(done, (size_t)n, sizeof(*done), bench_by_value);
	half = n % 2 ? done[n / 2] / 2 : 0;
	for (int i = n - n / 2; i < n; i++)
		half += done[i];
	bench_put("fairness", sum > 0 ? half / sum : 0);
	bench_put("least", done[0]);
	free(done);
}

static void put_waits(const struct histogram *waits)
{
	if (!histogram_total(waits))
		return;
	bench_put("p50_ns", (double)histogram_quantile(waits, 0.5));
	bench_put("p99_ns", (double)histogram_quantile(waits, 0.99));
	bench_put("p999_ns", (double)histogram_quantile(waits, 0.999));
	bench_put("longest_ns", (double)waits->longest);
}

struct worker bench_contend(void (*run)(struct worker *w))
{
	struct worker sum = {.waits = bench_memory(1, sizeof(struct histogram))};

	run_worker = run;
	every = bench.held + bench.outside < SHORT_NS ? EVERY : 1;
	bench_workers = bench_memory((size_t)bench.threads, sizeof(*bench_workers));
	pthread_barrier_init(&ready, NULL, (unsigned)bench.threads + 1);
	for (int i = 0; i < bench.threads; i++) {
		struct worker *w = &bench_workers[i];

		*w = (struct worker){.number = i, .random = (uint64_t)i << 32};
		w->waits = bench_memory(1, sizeof(*w->waits));
		w->id = create(worker_main, w);
	}
	bench_begin();
	pthread_barrier_wait(&ready);
	bench_nap(bench.seconds);
	atomic_store_explicit(&bench_stop, true, memory_order_relaxed);
	for (int i = 0; i < bench.threads; i++) {
		struct worker *w = &bench_workers[i];

		pthread_join(w->id, NULL);
		sum.done += w->done;
		sum.wrong += w->wrong;
		sum.added += w->added;
		histogram_merge(sum.waits, w->waits);
	}
	bench_rate((double)sum.done);
	put_fairness((double)sum.done);
	put_waits(sum.waits);
	return sum;
}
