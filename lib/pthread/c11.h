/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* C11's mutexes and condition variables (ISO C11 7.26.3 and 7.26.4): glibc's mtx_t is a
 * pthread_mutex_t and its cnd_t a pthread_cond_t, so these only translate results.
 *
 * thrd_busy	mtx_trylock: it is held
 * thrd_timedout	mtx_timedlock, cnd_timedwait: the time on CLOCK_REALTIME has come
 * thrd_nomem	never, but for what glibc's mtx_init says
 * thrd_error	whatever else; thrd_success otherwise */
#ifndef PK_PTHREAD_C11_H
#define PK_PTHREAD_C11_H

#include <errno.h>
#include <threads.h>

#include "pthread/cond.h"
#include "pthread/mutex.h"
#include "rt/real.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t),
	       "C11's objects are not those of pthreads");

PK_INLINE int pk_thrd_result(int err)
{
	switch (err) {
	case 0:
		return thrd_success;
	case EBUSY:
		return thrd_busy;
	case ETIMEDOUT:
		return thrd_timedout;
	case ENOMEM:
		return thrd_nomem;
	default:
		return thrd_error;
	}
}

PK_INLINE int pk_mtx_init(mtx_t *mutex, int type)
{
	return pk_real()->mtx_init(mutex, type);
}

PK_INLINE void pk_mtx_destroy(mtx_t *mutex)
{
	pk_mutex_destroy((pthread_mutex_t *)mutex);
}

PK_INLINE int pk_mtx_lock(mtx_t *mutex)
{
	return pk_thrd_result(pk_mutex_lock((pthread_mutex_t *)mutex));
}

PK_INLINE int pk_mtx_trylock(mtx_t *mutex)
{
	return pk_thrd_result(pk_mutex_trylock((pthread_mutex_t *)mutex));
}

PK_INLINE int pk_mtx_timedlock(mtx_t *mutex, const struct timespec *abstime)
{
	return pk_thrd_result(pk_mutex_timedlock((pthread_mutex_t *)mutex, abstime));
}

PK_INLINE int pk_mtx_unlock(mtx_t *mutex)
{
	return pk_thrd_result(pk_mutex_unlock((pthread_mutex_t *)mutex));
}

PK_INLINE int pk_cnd_init(cnd_t *cond)
{
	return pk_thrd_result(pk_cond_init((pthread_cond_t *)cond, NULL));
}

PK_INLINE void pk_cnd_destroy(cnd_t *cond)
{
	pk_cond_destroy((pthread_cond_t *)cond);
}

PK_INLINE int pk_cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return pk_thrd_result(pk_cond_wait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex));
}

PK_INLINE int pk_cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *abstime)
{
	return pk_thrd_result(pk_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, abstime));
}

PK_INLINE int pk_cnd_signal(cnd_t *cond)
{
	return pk_thrd_result(pk_cond_signal((pthread_cond_t *)cond));
}

PK_INLINE int pk_cnd_broadcast(cnd_t *cond)
{
	return pk_thrd_result(pk_cond_broadcast((pthread_cond_t *)cond));
}

#endif
