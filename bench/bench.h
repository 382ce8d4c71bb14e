/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the workloads of parkade-bench share: the options of a run, threads that start and stop together, work that
 * takes a known time, and the figures that are found.
 *
 * A workload is a file that makes plain pthread calls and ends in a struct workload; workloads.c lists them. It runs in
 * a process of its own, once. play() reports with bench_put() and returns how often something was wrong: a call that
 * failed, a lock that did not exclude. Every workload puts "rate", operations a second; bench_contend() does. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "histogram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	BENCH_LINE = 128, /* bytes, two cache lines: they are fetched in pairs */
	BENCH_FIELDS = 32
};

/* The options; those that a workload names in its `options' mean something to it. */
struct bench_options {
	double seconds;		/* s */
	int threads;		/* n */
	uint64_t held, outside; /* H, o; nanoseconds */
	int lines;		/* l: cache lines written in the critical section */
	int writes;		/* w: percent */
	int objects;		/* e */
	int kind;		/* k: of the lock, an index into the names that the workload gives */
	bool after;		/* a: signal after the unlock */
	double speed;		/* rounds of an empty loop in a nanosecond */
};
extern struct bench_options bench;

/* One thread. What the others do not need is on its lines alone. */
struct worker {
	int number;
	uint64_t random;
	uint64_t done; /* operations */
	uint64_t wrong;
	int64_t added;	 /* for the workload */
	uint64_t called; /* when the wait began that is being measured, or 0 */
	unsigned turn;	 /* until the next that is measured */
	struct histogram *waits;
	pthread_t id;
} __attribute__((aligned(BENCH_LINE)));

struct workload {
	const char *name, *what;    /* a line of help */
	const char *options;	    /* letters, beside s */
	struct bench_options start; /* the defaults */
	const char *const *kinds;   /* for -k, NULL at the end */
	uint64_t (*play)(void);
};
extern const struct workload *const bench_workloads[]; /* NULL at the end */

/* Prints and ends the process with status 2. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A figure that was found. */
void bench_put(const char *name, double value);

/* Lets bench.threads threads run for bench.seconds, and puts
 *   rate      operations a second             cpu_ns     processor time for each
 *   fairness  the share of the busier half    least      operations of the thread that did the fewest
 *   p50_ns, p99_ns, p999_ns, longest_ns       waits, where they were measured
 * The sum of what the threads counted; they can be looked at until the end of the process. */
struct worker bench_contend(void (*run)(struct worker *w));
extern struct worker *bench_workers;

/* Puts rate and cpu_ns for a number of operations since bench_begin(), for workloads with threads of their own. */
void bench_begin(void);
void bench_rate(double operations);

/* N threads that call run with their number, and their end. */
pthread_t *bench_start(int n, void *(*run)(void *));
void bench_join(pthread_t *id, int n);
void bench_nap(double seconds);

/* True when threads are to stop. */
extern atomic_bool bench_stop;
static inline bool bench_over(void)
{
	return atomic_load_explicit(&bench_stop, memory_order_relaxed);
}

uint64_t bench_now(void); /* nanoseconds */

/* Around a wait: measures some of them, all where an operation is so long that the clock does not matter. */
void bench_wait_begins(struct worker *w);
void bench_wait_ends(struct worker *w);

/* Rounds of an empty loop, and how many take so long where nothing disturbs. */
static inline void bench_work(uint64_t rounds)
{
	for (; rounds; rounds--)
		__asm__ volatile("" : "+r"(rounds));
}
uint64_t bench_rounds(uint64_t ns);
double bench_calibrate(void);

/* Memory on lines of its own, zeroed and touched. */
void *bench_memory(size_t count, size_t size);

/* Bytes of memory that this process has now, and had at most. */
double bench_resident(void);
double bench_resident_most(void);

/* splitmix64, and one of 0 to n - 1. */
static inline uint64_t bench_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}
static inline uint32_t bench_below(uint32_t random, int n)
{
	return (uint32_t)((uint64_t)random * (uint32_t)n >> 32);
}

int bench_by_value(const void *a, const void *b); /* doubles, for qsort() */

#endif
