/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The main part of a client of a library that locks: CLIENT THREADS SECONDS. Prints `N operations in S s'.
 *
 * Included by one file, which defines client_run(): it works until client_over() and returns how often. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t client_run(int number);

static atomic_bool client_stop;
static inline int client_over(void)
{
	return atomic_load_explicit(&client_stop, memory_order_relaxed);
}

static inline double client_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *client_thread(void *arg)
{
	return (void *)(uintptr_t)client_run((int)(intptr_t)arg);
}

static int client_main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0;
	double seconds = argc > 2 ? atof(argv[2]) : 0, begun;
	struct timespec nap = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	pthread_t id[256];
	uint64_t sum = 0;

	if (threads < 1 || threads > 256 || seconds <= 0) {
		fprintf(stderr, "usage: %s THREADS SECONDS\n", argv[0]);
		return 2;
	}
	begun = client_now();
	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&id[i], NULL, client_thread, (void *)i)) {
			perror("pthread_create");
			return 1;
		}
	nanosleep(&nap, NULL);
	atomic_store(&client_stop, 1);
	for (int i = 0; i < threads; i++) {
		void *n;

		pthread_join(id[i], &n);
		sum += (uintptr_t)n;
	}
	printf("%llu operations in %.6f s\n", (unsigned long long)sum, client_now() - begun);
	return 0;
}

#endif
