/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that lock one mutex, work, unlock it, and work: how often, at what cost, and how evenly.
 *
 * usage: lock-loop THREADS SECONDS [HELD [OUTSIDE]]
 *
 * HELD and OUTSIDE are rounds of an empty loop. Plain pthread calls: the same program runs on glibc and under the
 * library. Exit status 1 if the mutex did not exclude. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long guarded;
static atomic_bool stop;
static int held = 4, outside;

static void work(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

static void *loop(void *arg)
{
	unsigned long n = 0;

	for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) {
		pthread_mutex_lock(&mutex);
		guarded++;
		work(held);
		pthread_mutex_unlock(&mutex);
		work(outside);
	}
	*(unsigned long *)arg = n;
	return NULL;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	double duration = argc > 2 ? atof(argv[2]) : 0, begin;
	unsigned long sum = 0, least = -1UL;
	struct rusage used;

	if (threads < 1 || duration <= 0 || argc > 5) {
		fprintf(stderr, "usage: lock-loop THREADS SECONDS [HELD [OUTSIDE]]\n");
		return 2;
	}
	held = argc > 3 ? atoi(argv[3]) : held;
	outside = argc > 4 ? atoi(argv[4]) : outside;

	pthread_t *id = calloc((size_t)threads, sizeof(*id));
	unsigned long *done = calloc((size_t)threads, sizeof(*done));

	begin = now();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&id[i], NULL, loop, &done[i])) {
			perror("lock-loop: pthread_create");
			return 2;
		}
	usleep((useconds_t)(duration * 1e6));
	atomic_store(&stop, true);
	for (int i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		sum += done[i];
		least = done[i] < least ? done[i] : least;
	}
	duration = now() - begin;
	getrusage(RUSAGE_SELF, &used);
	printf("%.3f million/s, %.0f ns of CPU each, least busy thread %lu\n", (double)sum / duration * 1e-6,
	       (seconds(used.ru_utime) + seconds(used.ru_stime)) * 1e9 / (double)sum, least);
	if (sum != guarded)
		printf("the mutex did not exclude: %lu of %lu were counted\n", guarded, sum);
	free(id);
	free(done);
	return sum != guarded;
}
