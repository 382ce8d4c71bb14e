/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Mutexes: POSIX pthread_mutex_*, in place in pthread_mutex_t.
 *
 * Sources: POSIX.1-2017 (pthread_mutex_lock, _timedlock, _destroy), and glibc's
 * behaviour where POSIX leaves it open: each function returns what glibc's
 * returns and leaves the same fields behind. NORMAL, RECURSIVE, ERRORCHECK and
 * ADAPTIVE mutexes are served here; robust, priority-inheriting, -protecting and
 * process-shared ones go to glibc's function. errno is never changed. None of
 * them is a cancellation point.
 *
 * Lifetime: unlock's last access to the mutex is the exchange that frees it (and
 * its address for a wake-up), so the next owner may destroy and unmap it. */
#ifndef PK_PTHREAD_MUTEX_H
#define PK_PTHREAD_MUTEX_H

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/atomic.h"
#include "base/layout.h"
#include "rt/futex.h"
#include "rt/thread.h"

#ifdef HAVE_SYS_SINGLE_THREADED_H
#include <sys/single_threaded.h>
#define pk_single_threaded() (__libc_single_threaded)
#else
#define pk_single_threaded() 0
#endif

int pk_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int pk_mutex_destroy(pthread_mutex_t *mutex);
int pk_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *abstime);
int pk_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abstime);
int pk_mutex_consistent(pthread_mutex_t *mutex);
int pk_mutex_getprioceiling(const pthread_mutex_t *mutex, int *ceiling);
int pk_mutex_setprioceiling(pthread_mutex_t *mutex, int ceiling, int *old);

/* lock, trylock and unlock but for their usual ways: of other kinds than NORMAL,
 * in the thread's first call, and in some children of a fork (rt/thread.h). They get what the usual way has loaded. */
int pk_mutex_lock_slow(pthread_mutex_t *mutex, uint64_t kind, int tid);
int pk_mutex_trylock_slow(pthread_mutex_t *mutex, uint64_t kind, int tid);
int pk_mutex_unlock_slow(pthread_mutex_t *mutex, uint64_t kind, int tid);

/* Wait for a word that is taken. Returns as lock does, or timedlock. */
int pk_mutex_lock_wait(struct pk_mutex *m, const struct pk_deadline *deadline);

/* Wake a thread that sleeps on the word. Returns 0, as what calls it does. */
int pk_mutex_wake(struct pk_mutex *m);

/* For condition variables: unlock, and lock again, a mutex that the waiter goes on
 * using: `nusers` counts it throughout, as glibc's does.
 *
 * begin	EPERM if unlocking would say so of one of ours. *home: the queue that a
 *		signal may move the waiter into; null if glibc serves the mutex, or if
 *		the caller will hold it still (a recursive one, locked several times)
 * unlock	*user: what lock needs to know
 * settle	is lock for a waiter that has been moved: into the queue, with node w,
 *		which is no longer the caller's then; or, asleep, to the word: then it may be EAGAIN,
 *		and it is to lock */
int pk_mutex_cond_begin(pthread_mutex_t *mutex, struct pk_queue **home);
int pk_mutex_cond_unlock(pthread_mutex_t *mutex, bool *user);
int pk_mutex_cond_lock(pthread_mutex_t *mutex, bool user);
int pk_mutex_cond_settle(pthread_mutex_t *mutex, struct pk_waiter *w, bool queued, bool user);

/* Take the word if it is free. Acquire pairs with the release in unlock. */
PK_INLINE bool pk_mutex_take(struct pk_mutex *m)
{
	int seen = 0;

	if (pk_single_threaded()) {
		if (m->lock)
			return false;
		m->lock = 1;
		return true;
	}
	return pk_likely(pk_cas_acquire(&m->lock, &seen, 1));
}

/* The same for who does not wait. A look first: programs try again and again (streamcluster), and each exchange takes the
 * line from the holder. */
PK_INLINE bool pk_mutex_try(struct pk_mutex *m)
{
	return !pk_load_relaxed(&m->lock) && pk_mutex_take(m);
}

PK_INLINE int pk_mutex_own(struct pk_mutex *m, int tid)
{
	pk_store_relaxed(&m->owner, tid); /* others compare it with their tid */
	m->nusers++;
	return 0;
}

/* Let the word go, and wake a sleeper if there may be one. Nothing of the mutex
 * is touched afterwards. */
PK_INLINE int pk_mutex_release(struct pk_mutex *m)
{
	pk_store_relaxed(&m->owner, 0);
	m->nusers--;
	if (pk_single_threaded() && m->lock == 1)
		m->lock = 0;
	else if (pk_unlikely(pk_xchg_release(&m->lock, 0) > 1))
		return pk_mutex_wake(m);
	return 0;
}

/* A NORMAL mutex whose queue may be overtaken, and whose users are not counted, and a thread that has a tid. */
PK_INLINE bool pk_mutex_is_plain(uint64_t kind, int tid)
{
	const uint64_t others = PK_KIND_VALUE(0x200) | PK_FLAG_SPINS | PK_FLAG_SPINNER | PK_FLAG_LOT | PK_FLAG_SLOW |
				PK_FLAG_BACK | PK_FLAG_APART | PK_FLAG_PROVED | PK_FLAG_POLICY;

	return pk_likely(!(kind & ~others) && tid);
}

PK_INLINE int pk_mutex_lock(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);
	int tid = pk_self.tid;

	if (!pk_mutex_is_plain(kind, tid))
		return pk_mutex_lock_slow(mutex, kind, tid);
	return pk_mutex_take(m) ? pk_mutex_own(m, tid) : pk_mutex_lock_wait(m, NULL);
}

PK_INLINE int pk_mutex_trylock(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);
	int tid = pk_self.tid;

	if (!pk_mutex_is_plain(kind, tid))
		return pk_mutex_trylock_slow(mutex, kind, tid);
	return pk_mutex_try(m) ? pk_mutex_own(m, tid) : EBUSY;
}

PK_INLINE int pk_mutex_unlock(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);

	/* NORMAL, whatever else: it does not matter who unlocks. */
	if (pk_likely(!(kind & (PK_KIND_ANY & ~PK_KIND_ELISION))))
		return pk_mutex_release(m);
	return pk_mutex_unlock_slow(mutex, kind, pk_self.tid);
}

#endif
