/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A signal handler that locks a mutex of its own while the thread it interrupted waits for another one.
 *
 * POSIX leaves this undefined; programs do it, and glibc carries it.  Signals rain on threads that queue, sleep and
 * hold; the handlers contend on their mutex among themselves.  The interrupted wait must go on, no update may be lost
 * on either side, errno and the signal mask must be as they were before every call.  Prints how many handlers ran and
 * how often theirs was contended.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6
#define MILLISECONDS 700
#define SENTINEL 4711

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static volatile long outer_total, inner_total;
static long handled, inner_contended, outer_done;
static int stop;

static void fail(const char *what)
{
	dprintf(2, "handler: %s\n", what);
	_exit(1);
}

static int same_mask(const sigset_t *a, const sigset_t *b)
{
	for (int number = 1; number < NSIG; number++)
		if (sigismember(a, number) != sigismember(b, number))
			return 0;
	return 1;
}

static void on_signal(int number)
{
	(void)number;
	int saved = errno;
	if (pthread_mutex_trylock(&inner) != 0) {
		__atomic_fetch_add(&inner_contended, 1, __ATOMIC_RELAXED);
		if (pthread_mutex_lock(&inner) != 0)
			fail("lock in the handler");
	}
	long before = inner_total;
	sched_yield();
	inner_total = before + 1;
	pthread_mutex_unlock(&inner);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	errno = saved;
}

static void *work(void *unused)
{
	sigset_t set, now;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct timespec soon;
		int timed = outer_total % 8 == 0;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec = (soon.tv_nsec + 50000) % 1000000000;
		errno = SENTINEL;
		int result = timed ? pthread_mutex_timedlock(&outer, &soon) : pthread_mutex_lock(&outer);
		if (errno != SENTINEL)
			fail("a lock changed errno");
		if (result == ETIMEDOUT && timed)
			continue;
		if (result != 0)
			fail("lock");
		long before = outer_total;
		if (before % 4 == 0)
			sched_yield();
		outer_total = before + 1;
		pthread_mutex_unlock(&outer);
		if (errno != SENTINEL)
			fail("unlock changed errno");
		__atomic_fetch_add(&outer_done, 1, __ATOMIC_RELAXED);
		if (before % 16 == 0) {
			pthread_sigmask(SIG_BLOCK, NULL, &now);
			if (!same_mask(&now, &set))
				fail("the signal mask changed");
		}
	}
	return unused;
}

int main(void)
{
	pthread_t thread[THREADS];
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct timespec start, now, pause = {0, 20000};

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, NULL) != 0)
			fail("pthread_create");
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (int i = 0; i < THREADS; i++)
			pthread_kill(thread[i], SIGUSR1);
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < MILLISECONDS);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%ld sections, %ld handlers, %ld contended\n", outer_done, handled, inner_contended);
	if (outer_total != outer_done || inner_total != handled)
		fail("updates were lost");
	if (outer_done == 0 || inner_contended == 0)
		fail("nothing was tested");
	return 0;
}
