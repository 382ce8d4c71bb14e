/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Condition variables: POSIX pthread_cond_*, in place in pthread_cond_t.
 *
 * Sources: POSIX.1-2017 (pthread_cond_wait, _signal, _destroy and their rationale),
 * POSIX.1-2024 (pthread_cond_clockwait), and glibc's behaviour where POSIX leaves it
 * open. Each returns 0 or an error number; errno is never changed.
 *
 * wait, timedwait, clockwait	are cancellation points. The mutex may be of any kind.
 *	EINVAL: abstime's nanoseconds, or the clock, are none. ETIMEDOUT: the time, on
 *	the clock of the attribute or the one given, has come. EPERM, EOWNERDEAD,
 *	ENOTRECOVERABLE: what unlocking or locking the mutex said. They return
 *	without a signal only to a thread that pthread_cancel was called for while it
 *	had cancellation disabled, or that cannot be given a node (memory, a wait in
 *	a signal handler, a thread's end).
 * signal, broadcast	never fail. Whoever starts to wait after them gets nothing of
 *	them.
 * destroy	may come straight after the broadcast that ends the last wait, and waits
 *	for those who were about to leave for another reason.
 *
 * Process-shared ones that we have initialised are cond-shared.c's; other shared ones, and
 * private ones under PARKADE_POLICY=glibc, are glibc's. */
#ifndef PK_PTHREAD_COND_H
#define PK_PTHREAD_COND_H

#include <pthread.h>
#include <time.h>

#include "base/atomic.h"
#include "base/layout.h"
#include "rt/arena.h"
#include "rt/futex.h"

int pk_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int pk_cond_destroy(pthread_cond_t *cond);
int pk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int pk_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *abstime);
int pk_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abstime);

int pk_cond_signal_slow(pthread_cond_t *cond);
int pk_cond_broadcast_slow(pthread_cond_t *cond);

/* Nobody waits. relaxed: who has to be seen has listed itself with the mutex held
 * that the caller has held since. (What stands there is not 0 for a process-shared
 * one, nor for one of glibc's that has ever been waited on.) */
PK_INLINE bool pk_cond_is_idle(pthread_cond_t *cond)
{
	return !pk_load_relaxed(&pk_cond_of(cond)->waiters.tail);
}

PK_INLINE int pk_cond_signal(pthread_cond_t *cond)
{
	return pk_cond_is_idle(cond) ? 0 : pk_cond_signal_slow(cond);
}

PK_INLINE int pk_cond_broadcast(pthread_cond_t *cond)
{
	return pk_cond_is_idle(cond) ? 0 : pk_cond_broadcast_slow(cond);
}

/* The thread has let go the mutex that pk_self.moved names: wake those whom it has moved there before their turns. */
void pk_cond_call(void);

/* The thread that waits with that node is no more. */
void pk_cond_waiter_gone(struct pk_waiter *w);

/* pthread_cancel, which also ends the wait of a thread that we have put to sleep
 * (POSIX.1-2017 pthread_cancel). Returns 0 or ESRCH. */
int pk_cancel(pthread_t thread);

#endif
