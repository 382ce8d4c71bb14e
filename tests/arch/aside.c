/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A program with contended locks, for the library that stands aside: preloaded, or linked (PARKADE_LINKED).
 *
 * Prints how many sections were run under a mutex, a reader-writer lock, a spin lock and a mutex with a condition
 * variable, then "libc" if all these functions come from the C library, then what the functions of parkade.h say. A
 * section reads and writes, and sometimes yields between, so that two threads at once cost an update.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "parkade.h"

enum { THREADS = 4, ROUNDS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spinlock;
static volatile long locked, written, spun, turns;

static void section(volatile long *count, int yields)
{
	long before = *count;

	if (yields)
		sched_yield();
	*count = before + 1;
}

static void *work(void *arg)
{
	long mine = (long)(intptr_t)arg;

	for (long i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		section(&locked, i % 16 == 0);
		pthread_mutex_unlock(&mutex);
		pthread_rwlock_wrlock(&rwlock);
		section(&written, i % 16 == 0);
		pthread_rwlock_unlock(&rwlock);
		pthread_spin_lock(&spinlock);
		section(&spun, 0);
		pthread_spin_unlock(&spinlock);
	}
	for (long i = 0; i < ROUNDS / 10; i++) {
		pthread_mutex_lock(&turn_mutex);
		while (turns % THREADS != mine)
			pthread_cond_wait(&turned, &turn_mutex);
		turns++;
		pthread_cond_broadcast(&turned);
		pthread_mutex_unlock(&turn_mutex);
	}
	return NULL;
}

static int from_libc(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);
	Dl_info where;

	return function && dladdr(function, &where) && !strstr(where.dli_fname, "parkade");
}

#ifdef PARKADE_LINKED
#define OURS(name) name
#else
#define OURS(name) ((__typeof__(&name))dlsym(RTLD_DEFAULT, #name))
#endif

int main(void)
{
	static const char *const names[] = {"pthread_mutex_lock",
					    "pthread_rwlock_wrlock",
					    "pthread_spin_lock",
					    "pthread_cond_wait",
					    "pthread_cond_broadcast",
					    "mtx_lock",
					    "cnd_wait"};
	pthread_t thread[THREADS];
	uint64_t entered = 1;
	int known, unknown, libc = 1;

	pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		libc &= from_libc(names[i]);
	printf("%ld %ld %ld %ld %s", locked, written, spun, turns, libc ? "libc" : "not libc's");
	if (!dlsym(RTLD_DEFAULT, "parkade_policy")) {
		puts(" alone");
		return 0;
	}
	known = OURS(parkade_stat)("entered", &entered);
	unknown = OURS(parkade_stat)("no such counter", &entered);
	printf(" %s %s %u %u %d:%d %d\n", OURS(parkade_policy)(), OURS(parkade_version)(), OURS(parkade_sockets)(),
	       OURS(parkade_socket)(), known, (int)entered, unknown != 0);
	return 0;
}
