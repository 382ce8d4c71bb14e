/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * packed OFFSET: four threads read and write under an rwlock that lies so many bytes behind an aligned address, as in a
 * packed struct.
 *
 * Nobody allows it, and x86 does it: glibc's lock works there, for the kernel is asked to sleep and refuses, and the
 * thread looks again.  None of its fields lies across a boundary of 64 bytes, which some machines punish.  Exit
 * status 77 on other machines.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
enum { THREADS = 4, MILLISECONDS = 200, PATIENCE_S = 15 };

static char place[256] __attribute__((aligned(256)));
static pthread_rwlock_t *lock;
static volatile long written;
static long done[THREADS];
static int stop, torn;

static void *work(void *who)
{
	for (long n = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		long before;

		if (n % 4 == 0) {
			pthread_rwlock_wrlock(lock);
			before = written;
			if (n % 64 == 0)
				usleep(50);
			written = before + 1;
			done[(long)who]++;
		} else {
			pthread_rwlock_rdlock(lock);
			before = written;
			for (volatile int i = 0; i < 200; i++)
				;
			if (before != written)
				__atomic_store_n(&torn, 1, __ATOMIC_RELAXED);
		}
		pthread_rwlock_unlock(lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long offset = argc == 2 ? atol(argv[1]) : 0, all = 0;
	pthread_t thread[THREADS];
	struct timespec until;
	const char *verdict;
	int late = 0;

	lock = (pthread_rwlock_t *)(void *)(place + offset);
	if (offset < 0 || offset > 7 || pthread_rwlock_init(lock, NULL))
		return 2;
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)i))
			return 2;
	usleep(MILLISECONDS * 1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	for (int i = 0; i < THREADS; i++)
		late |= pthread_timedjoin_np(thread[i], NULL, &until);
	for (int i = 0; i < THREADS; i++)
		all += done[i];
	verdict = late ? "hangs" : torn ? "does not exclude" : written != all ? "loses updates" : "works";
	printf("at %ld: %s\n", offset, verdict);
	fflush(stdout);
	_exit(late || torn || written != all);
}
#else
int main(void)
{
	fputs("packed: only x86 does this\n", stderr);
	return 77;
}
#endif
