/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Concurrency Kit's spin locks in the place of pthread mutexes, as a contestant of `parkade bench'.
 *
 * Needs libck-dev:  cc -O2 -shared -fPIC -DLOCK=ticket -o ck.so bench/peers/ck.c
 * and then:         parkade bench --contestant glibc --contestant ck=ck.so --only 'grid:*'
 *
 * LOCK is one that needs nothing but its word: fas, cas, ticket. It lives in the mutex's first bytes, all zero when it
 * is free. No condition variable works with such a mutex, and who waits spins: with more threads than CPUs it shows why
 * programs do not do that. */
#include <ck_spinlock.h>
#include <errno.h>
#include <pthread.h>

#ifndef LOCK
#define LOCK ticket
#endif
#define GLUE(lock, verb) ck_spinlock_##lock##_##verb
#define EXPAND(lock, verb) GLUE(lock, verb)
#define CK(verb) EXPAND(LOCK, verb)

int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	(void)attr;
	CK(init)((void *)m);
	return 0;
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	CK(lock)((void *)m);
	return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
	return CK(trylock)((void *)m) ? 0 : EBUSY;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	CK(unlock)((void *)m);
	return 0;
}
