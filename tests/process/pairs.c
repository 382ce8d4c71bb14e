/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * pairs N [threaded]: N uncontended operations of each sort on each kind of mutex, each sort in a function of its own
 * (KIND_OPERATION, and `empty' for what the loop costs), for a profiler that counts instructions by function.
 *
 * With a second argument another thread exists meanwhile, asleep. OWN is a NORMAL mutex that has a policy of its own,
 * where the library is there.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define PARKADE_OPTIONAL
#include "parkade.h"

typedef void measured(pthread_mutex_t *mutex, long n);

#define LOOP(name, operation)                                                                                          \
	__attribute__((noinline)) void name(pthread_mutex_t *mutex, long n)                                            \
	{                                                                                                              \
		for (long i = 0; i < n; i++) {                                                                         \
			__asm__ volatile("" : : "r"(mutex) : "memory");                                                \
			operation;                                                                                     \
		}                                                                                                      \
	}

#define KIND(kind)                                                                                                     \
	LOOP(kind##_lock, (pthread_mutex_lock(mutex), pthread_mutex_unlock(mutex)))                                    \
	LOOP(kind##_trylock, (void)(pthread_mutex_trylock(mutex), pthread_mutex_unlock(mutex)))

measured empty, NORMAL_lock, NORMAL_trylock, RECURSIVE_lock, RECURSIVE_trylock, ERRORCHECK_lock, ERRORCHECK_trylock,
	ADAPTIVE_lock, ADAPTIVE_trylock, OWN_lock, OWN_trylock;
LOOP(empty, (void)0)
KIND(NORMAL)
KIND(RECURSIVE)
KIND(ERRORCHECK)
KIND(ADAPTIVE)
KIND(OWN)

static const struct kind {
	int type;
	measured *lock, *trylock;
} kinds[] = {
	{PTHREAD_MUTEX_NORMAL, NORMAL_lock, NORMAL_trylock},
	{PTHREAD_MUTEX_RECURSIVE, RECURSIVE_lock, RECURSIVE_trylock},
	{PTHREAD_MUTEX_ERRORCHECK, ERRORCHECK_lock, ERRORCHECK_trylock},
	{PTHREAD_MUTEX_ADAPTIVE_NP, ADAPTIVE_lock, ADAPTIVE_trylock},
	{PTHREAD_MUTEX_NORMAL, OWN_lock, OWN_trylock},
};

static void *sleep_on(void *unused)
{
	pause();
	return unused;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 0;
	pthread_mutex_t warm = PTHREAD_MUTEX_INITIALIZER;
	pthread_t other;

	if (n <= 0 || (argc > 2 && pthread_create(&other, NULL, sleep_on, NULL) != 0))
		return 1;
	/* The first call of a function pays for finding it. */
	pthread_mutex_lock(&warm);
	pthread_mutex_unlock(&warm);
	if (pthread_mutex_trylock(&warm) != 0 || pthread_mutex_unlock(&warm) != 0)
		return 1;
	empty(&warm, n);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		pthread_mutexattr_t attribute;
		pthread_mutex_t mutex;
		pthread_mutexattr_init(&attribute);
		pthread_mutexattr_settype(&attribute, kinds[i].type);
		if (kinds[i].lock == OWN_lock && parkade_mutexattr_setpolicy_np &&
		    parkade_mutexattr_setpolicy_np(&attribute, "mcs") != 0)
			return 1;
		pthread_mutex_init(&mutex, &attribute);
		kinds[i].lock(&mutex, n);
		kinds[i].trylock(&mutex, n);
		if (pthread_mutex_destroy(&mutex) != 0)
			return 1;
	}
	return 0;
}
