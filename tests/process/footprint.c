/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What locks cost in memory beyond pthread_mutex_t, as the process's own anonymous pages tell.
 *
 *	footprint idle LOCKS	a row of mutexes: each locked once, and then contended by two threads, one after
 *				the other, as many as need be and time allows. Prints how many were, and the growth
 *				in bytes.
 *	footprint waits THREADS	so many threads that wait for one mutex, and then each for one of its own. Prints the
 *				growth in bytes for a waiting thread, and for a contended mutex beyond that.
 *
 * Memory that the program itself uses is touched before it is counted. What the library keeps for any number of
 * locks, by the thread or by the socket, is there by then, too, in the first: a mutex has been contended.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 128 * 1024, TOUCHED = 32 * 1024, NAP_NS = 1000000 };
enum { ENOUGH = 30000, FEW = 100 }; /* contended locks */
#define CONTEND_SECONDS 1.0

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap(void)
{
	nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

/* The anonymous memory of the process, in bytes: counted page by page, where RssAnon is an estimate. */
static long anonymous(void)
{
	char text[4096], *line;
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		fail("footprint: smaps_rollup");
	close(fd);
	text[n] = '\0';
	line = strstr(text, "\nAnonymous:");
	return line ? strtol(line + 11, NULL, 10) * 1024 : 0;
}

static void start(pthread_t *id, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (pthread_create(id, &attr, run, arg))
		fail("footprint: pthread_create");
	pthread_attr_destroy(&attr);
}

static __attribute__((noinline)) void touch_stack(void)
{
	char page[TOUCHED];

	memset(page, 1, sizeof(page));
	__asm__ volatile("" ::"r"(page) : "memory");
}

/* ---- idle ---- */

static pthread_mutex_t *row;
static long locks;
static atomic_long held, wanted; /* numbers of locks, from 1 */
static atomic_long contended;
static atomic_bool over;

static void meet(atomic_long *place, long number)
{
	for (int i = 1; atomic_load(place) < number && !atomic_load(&over); i++)
		if (i % 1024 == 0)
			sched_yield();
}

/* Goes along the row and holds each until the other has come for it. */
static void *lead(void *arg)
{
	for (long i = 0; i < locks && !atomic_load(&over); i++) {
		pthread_mutex_lock(&row[i]);
		atomic_store(&held, i + 1);
		meet(&wanted, i + 1);
		sched_yield(); /* on our CPU, maybe */
		for (volatile int n = 0; n < 100; n++)
			;
		pthread_mutex_unlock(&row[i]);
	}
	return arg;
}

static void *follow(void *arg)
{
	for (long i = 0; i < locks && !atomic_load(&over); i++) {
		meet(&held, i + 1);
		atomic_store(&wanted, i + 1);
		if (pthread_mutex_trylock(&row[i])) {
			atomic_fetch_add(&contended, 1);
			pthread_mutex_lock(&row[i]);
		}
		pthread_mutex_unlock(&row[i]);
	}
	return arg;
}

static void contend(long enough)
{
	pthread_t id[2];
	double end = now() + CONTEND_SECONDS;

	atomic_store(&contended, 0);
	atomic_store(&held, 0);
	atomic_store(&wanted, 0);
	atomic_store(&over, false);
	start(&id[0], lead, NULL);
	start(&id[1], follow, NULL);
	while (now() < end && atomic_load(&wanted) < locks && atomic_load(&contended) < enough)
		nap();
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(id[i], NULL);
}

static void idle(void)
{
	long before;

	row = aligned_alloc(64, ((size_t)locks * sizeof(*row) + 63) / 64 * 64);
	if (!row)
		fail("footprint: aligned_alloc");
	for (long i = 0; i < locks; i++)
		row[i] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	contend(FEW);
	before = anonymous();
	for (long i = 0; i < locks; i++) {
		pthread_mutex_lock(&row[i]);
		pthread_mutex_unlock(&row[i]);
	}
	contend(ENOUGH);
	printf("locks=%ld contended=%ld growth=%ld\n", locks, atomic_load(&contended), anonymous() - before);
	free(row);
}

/* ---- waits ---- */

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static sem_t go;
static bool apart; /* each waits for its own */
static atomic_long ready, waits;

static void *wait_for_it(void *mutex)
{
	touch_stack();
	atomic_fetch_add(&ready, 1);
	sem_wait(&go);
	mutex = apart ? mutex : &one;
	atomic_fetch_add(&waits, 1);
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
	return NULL;
}

static void until(atomic_long *count, long wanted)
{
	while (atomic_load(count) < wanted)
		nap();
}

/* How much memory so many threads take because they wait. */
static long waiting(long threads)
{
	pthread_t *id = calloc((size_t)threads, sizeof(*id));
	pthread_mutex_t *own = calloc((size_t)threads, sizeof(*own));
	long before, growth;

	if (!id || !own)
		fail("footprint: calloc");
	sem_init(&go, 0, 0);
	atomic_store(&ready, 0);
	atomic_store(&waits, 0);
	pthread_mutex_lock(&one);
	for (long i = 0; i < threads; i++) {
		pthread_mutex_lock(&own[i]);
		start(&id[i], wait_for_it, &own[i]);
	}
	until(&ready, threads);
	before = anonymous();
	for (long i = 0; i < threads; i++)
		sem_post(&go);
	until(&waits, threads);
	for (int i = 0; i < 50; i++)
		nap(); /* all have got to sleep by then */
	growth = anonymous() - before;
	pthread_mutex_unlock(&one);
	for (long i = 0; i < threads; i++)
		pthread_mutex_unlock(&own[i]);
	for (long i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	free(own);
	free(id);
	return growth;
}

/* In a child each, as what the first one took stays. */
static void waits_of(long threads)
{
	int report[2];
	long growth[2];

	if (pipe(report))
		fail("footprint: pipe");
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (child < 0)
			fail("footprint: fork");
		if (child == 0) {
			apart = i;
			growth[0] = waiting(threads);
			_exit(write(report[1], growth, sizeof(growth[0])) != sizeof(growth[0]));
		}
		if (read(report[0], &growth[i], sizeof(growth[i])) != sizeof(growth[i]))
			fail("footprint: read");
	}
	printf("waiter=%.1f lock=%.1f\n", (double)growth[0] / (double)threads,
	       (double)(growth[1] - growth[0]) / (double)threads);
}

int main(int argc, char **argv)
{
	long n = argc == 3 ? atol(argv[2]) : 0;

	locks = n;
	if (n > 0 && !strcmp(argv[1], "idle"))
		idle();
	else if (n > 0 && !strcmp(argv[1], "waits"))
		waits_of(n);
	else
		return 2;
	return 0;
}
