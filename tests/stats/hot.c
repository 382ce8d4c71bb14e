/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waits for locks so often as it says: tests/stats/report compares that with the library's statistics.
 *
 *	hot [fork|name|read]
 *
 * The main thread holds a lock until all others sleep, which have said that they are about to lock it: so each of them
 * waits, once. Prints a line for each object: what waited_for_* calls it, how often threads got it after a wait, and
 *how often their time was over. With `fork' a child does the same and prints nothing; with `name' the hot lock gets a
 *name. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARKADE_OPTIONAL
#include "parkade.h"
#include "stats/sleepers.h"

enum { THREADS = 4, HOT = 25, COOL = 2, LATE = 3 };

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER, cool = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
static int signalled;

__attribute__((noinline, noclone)) static void *waited_for_hot(void *unused)
{
	sleepers_about_to_wait();
	pthread_mutex_lock(&hot);
	pthread_mutex_unlock(&hot);
	return unused;
}

__attribute__((noinline, noclone)) static void *waited_for_cool(void *unused)
{
	sleepers_about_to_wait();
	pthread_mutex_lock(&cool);
	pthread_mutex_unlock(&cool);
	return unused;
}

__attribute__((noinline, noclone)) static void *waited_late(void *unused)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 1000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	sleepers_about_to_wait();
	if (pthread_mutex_timedlock(&cool, &soon) != ETIMEDOUT)
		abort();
	return unused;
}

__attribute__((noinline, noclone)) static void *waited_to_read(void *unused)
{
	sleepers_about_to_wait();
	pthread_rwlock_rdlock(&shared);
	pthread_rwlock_unlock(&shared);
	return unused;
}

__attribute__((noinline, noclone)) static void *waited_to_write(void *unused)
{
	sleepers_about_to_wait();
	pthread_rwlock_wrlock(&shared);
	pthread_rwlock_unlock(&shared);
	return unused;
}

__attribute__((noinline, noclone)) static void *waited_for_condition(void *unused)
{
	pthread_mutex_lock(&outer);
	sleepers_about_to_wait();
	while (!signalled)
		pthread_cond_wait(&condition, &outer);
	pthread_mutex_unlock(&outer);
	return unused;
}

static void start(pthread_t *threads, int n, void *(*body)(void *))
{
	sleepers_expect(n);
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, body, NULL))
			abort();
}

static void end(pthread_t *threads, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void wait_for_mutex(pthread_mutex_t *mutex, int n, void *(*body)(void *), int rounds)
{
	pthread_t threads[THREADS];

	for (int r = 0; r < rounds; r++) {
		pthread_mutex_lock(mutex);
		start(threads, n, body);
		if (body == waited_late)
			end(threads, n);
		else
			sleepers_await();
		pthread_mutex_unlock(mutex);
		if (body != waited_late)
			end(threads, n);
	}
}

static void wait_for_rwlock(void *(*body)(void *))
{
	pthread_t threads[THREADS];

	pthread_rwlock_wrlock(&shared);
	start(threads, THREADS, body);
	sleepers_await();
	pthread_rwlock_unlock(&shared);
	end(threads, THREADS);
}

static void wait_for_signal(void)
{
	pthread_t threads[2];

	start(threads, 2, waited_for_condition);
	sleepers_await();
	pthread_mutex_lock(&outer);
	signalled = 1;
	pthread_cond_broadcast(&condition); /* two: they are moved; one would be woken at once, and might have to wait for the mutex */
	pthread_mutex_unlock(&outer);
	end(threads, 2);
}

static void wait_for_all(int hot_rounds)
{
	wait_for_mutex(&hot, THREADS, waited_for_hot, hot_rounds);
	wait_for_mutex(&cool, 1, waited_for_cool, COOL);
	wait_for_mutex(&cool, 1, waited_late, LATE);
	wait_for_rwlock(waited_to_read);
	wait_for_rwlock(waited_to_write);
	wait_for_signal();
}

/* The same by parkade_lock_stats(): what, the error, and its numbers in order. */
static void read_one(const char *what, const void *lock)
{
	struct parkade_lock_stats s[2];
	int ret;

	memset(s, 0xa5, sizeof(s));
	ret = parkade_lock_stats(lock, s, sizeof(s[0]));
	printf("%s %d", what, ret);
	for (unsigned i = 0; !ret && i < sizeof(s[0]) / sizeof(uint64_t); i++)
		printf(" %llu", (unsigned long long)((uint64_t *)s)[i]);
	putchar('\n');
	/* A caller of another release, with fewer fields or with more. */
	if (!ret && (parkade_lock_stats(lock, &s[1], sizeof(uint64_t)) || s[1].got != s[0].got || s[1].late + 1 == 1 ||
		     parkade_lock_stats(lock, s, sizeof(s)) || s[1].got || s[1].sleeps))
		abort();
	if (ret && s[0].got != UINT64_C(0xa5a5a5a5a5a5a5a5))
		abort();
}

static void read_all(void)
{
	read_one("hot", &hot);
	read_one("cool", &cool);
	read_one("shared", &shared);
	read_one("condition", &condition);
	read_one("nobody", &outer + 1);
	printf("size %d\n", parkade_lock_stats(&hot, NULL, 0));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "name") && parkade_lock_name) {
		parkade_lock_name(&hot, "the name of a lock that was there before");
		parkade_lock_name(&hot, "the \"hot\" lock\n");
	}
	wait_for_all(HOT);
	if (argc > 1 && !strcmp(argv[1], "read")) {
		read_all();
		fflush(stdout);
		if (!fork())
			return read_one("child", &hot), 0;
		wait(NULL);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "fork")) {
		pid_t child = fork();

		if (!child) {
			signalled = 0;
			wait_for_all(1);
			return 0;
		}
		waitpid(child, NULL, 0);
	}
	printf("waited_for_hot mutex %d 0\n", THREADS * HOT);
	printf("waited_for_cool mutex %d %d\n", COOL, LATE);
	printf("waited_to_read read %d 0\n", THREADS);
	printf("waited_to_write write %d 0\n", THREADS);
	printf("waited_for_condition condition 2 0\n");
	return 0;
}
