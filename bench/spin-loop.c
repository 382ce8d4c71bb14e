/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that take one spin lock, work, let it go, and work: how often, at what cost, and how evenly.
 *
 * usage: spin-loop THREADS SECONDS [HELD [OUTSIDE]]
 *
 * HELD and OUTSIDE are rounds of an empty loop. Plain pthread calls: the same program runs on glibc and under the
 * library. Exit status 1 if the lock did not exclude. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_spinlock_t lock;
	unsigned long guarded __attribute__((aligned(64)));
	atomic_bool stop __attribute__((aligned(64)));
	int held, outside;
} field __attribute__((aligned(64))) = {.held = 4};

struct count {
	unsigned long done;
} __attribute__((aligned(64)));

static void work(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

static void *loop(void *arg)
{
	unsigned long n = 0;

	for (; !atomic_load_explicit(&field.stop, memory_order_relaxed); n++) {
		pthread_spin_lock(&field.lock);
		field.guarded++;
		work(field.held);
		pthread_spin_unlock(&field.lock);
		work(field.outside);
	}
	((struct count *)arg)->done = n;
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
		fprintf(stderr, "usage: spin-loop THREADS SECONDS [HELD [OUTSIDE]]\n");
		return 2;
	}
	field.held = argc > 3 ? atoi(argv[3]) : field.held;
	field.outside = argc > 4 ? atoi(argv[4]) : field.outside;

	pthread_t *id = calloc((size_t)threads, sizeof(*id));
	struct count *count = aligned_alloc(64, (size_t)threads * sizeof(*count));

	pthread_spin_init(&field.lock, PTHREAD_PROCESS_PRIVATE);
	begin = now();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&id[i], NULL, loop, &count[i])) {
			perror("spin-loop: pthread_create");
			return 2;
		}
	usleep((useconds_t)(duration * 1e6));
	atomic_store(&field.stop, true);
	for (int i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		sum += count[i].done;
		least = count[i].done < least ? count[i].done : least;
	}
	duration = now() - begin;
	getrusage(RUSAGE_SELF, &used);
	printf("%.3f million/s, %.0f ns of CPU each, least busy thread %lu\n", (double)sum / duration * 1e-6,
	       (seconds(used.ru_utime) + seconds(used.ru_stime)) * 1e9 / (double)sum, least);
	if (sum != field.guarded)
		printf("the lock did not exclude: %lu of %lu were counted\n", field.guarded, sum);
	free(id);
	free(count);
	return sum != field.guarded;
}
