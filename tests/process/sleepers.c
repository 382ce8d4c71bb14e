/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Sleepers of ours and of glibc's on one word: the wake-up that one of them gets, it owes to the next.
 *
 * In each round one thread holds the mutex, two others wait for it by way of the functions that the program is
 * bound to, and once the first of them holds it, a last one waits by way of glibc's own.  All must get through,
 * in whatever order.  A library whose sleeper takes the word as if nobody else slept there leaves the last one
 * asleep for ever: then we are killed by our alarm.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 10
#define SETTLE_US 20000

typedef int lock_function(pthread_mutex_t *);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static lock_function *lock_of_glibc;
static int through;

static void *wait_bound(void *unused)
{
	pthread_mutex_lock(&mutex);
	usleep(2 * SETTLE_US);
	through++;
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *wait_glibc(void *unused)
{
	lock_of_glibc(&mutex);
	through++;
	pthread_mutex_unlock(&mutex);
	return unused;
}

int main(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	lock_of_glibc = libc ? (lock_function *)dlsym(libc, "pthread_mutex_lock") : NULL;
	if (!lock_of_glibc)
		return 2;
	alarm(10);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t thread[3];

		pthread_mutex_lock(&mutex);
		for (int i = 0; i < 2; i++) {
			if (pthread_create(&thread[i], NULL, wait_bound, NULL) != 0)
				return 2;
			usleep(SETTLE_US);
		}
		pthread_mutex_unlock(&mutex);
		usleep(SETTLE_US);
		if (pthread_create(&thread[2], NULL, wait_glibc, NULL) != 0)
			return 2;
		for (int i = 0; i < 3; i++)
			pthread_join(thread[i], NULL);
	}
	printf("%d\n", through);
	return through != 3 * ROUNDS;
}
