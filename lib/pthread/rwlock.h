/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reader-writer locks: POSIX pthread_rwlock_*, in place in pthread_rwlock_t.
 *
 * Sources: POSIX.1-2017 (pthread_rwlock_rdlock, _wrlock, _unlock, _timedrdlock),
 * POSIX.1-2024 (pthread_rwlock_clockrdlock), ShflLock section 4.2.3, CST section 5.2,
 * and glibc's behaviour where POSIX leaves it open. Each returns 0 or an error number;
 * errno is never changed. None is a cancellation point.
 *
 * EDEADLK: the caller holds the lock for writing. EBUSY: try, and it cannot be had at
 * once. EAGAIN: 2^28 - 1 readers. ETIMEDOUT: the time, on CLOCK_REALTIME or the clock
 * given, has come. EINVAL: the time's nanoseconds, or the clock, are none. EPERM:
 * unlock, and nobody holds the lock.
 *
 * A thread that holds a read lock, of any rwlock, passes waiting writers, and others
 * wait behind a writer that waits for readers only for a bounded time (rwlock.c), but
 * for PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP: there readers wait behind waiting
 * writers.
 *
 * Process-shared ones, and all under PARKADE_POLICY=glibc, are glibc's.
 *
 * Lifetime: unlock's last access to the lock is the one that gives it up (and its
 * address for a wake-up), so who gets it next may destroy and unmap it. */
#ifndef PK_PTHREAD_RWLOCK_H
#define PK_PTHREAD_RWLOCK_H

#include <pthread.h>
#include <time.h>

#include "base/atomic.h"
#include "base/layout.h"
#include "pthread/mutex.h"
#include "pthread/readers.h"
#include "rt/thread.h"

int pk_rwlock_init(pthread_rwlock_t *rwlock, const pthread_rwlockattr_t *attr);
int pk_rwlock_destroy(pthread_rwlock_t *rwlock);
int pk_rwlock_tryrdlock(pthread_rwlock_t *rwlock);
int pk_rwlock_timedrdlock(pthread_rwlock_t *rwlock, const struct timespec *abstime);
int pk_rwlock_clockrdlock(pthread_rwlock_t *rwlock, clockid_t clock, const struct timespec *abstime);
int pk_rwlock_trywrlock(pthread_rwlock_t *rwlock);
int pk_rwlock_timedwrlock(pthread_rwlock_t *rwlock, const struct timespec *abstime);
int pk_rwlock_clockwrlock(pthread_rwlock_t *rwlock, clockid_t clock, const struct timespec *abstime);

/* rdlock, wrlock and unlock but for their usual ways. */
int pk_rwlock_rdlock_slow(pthread_rwlock_t *rwlock);
int pk_rwlock_wrlock_slow(pthread_rwlock_t *rwlock);
int pk_rwlock_unlock_slow(pthread_rwlock_t *rwlock);

/* Private, and the thread has a tid. */
PK_INLINE bool pk_rwlock_is_plain(const struct pk_rwlock *rw)
{
	return pk_likely(!rw->shared && pk_self.tid);
}

/* One more or one less reader in the state, which was `s`. */
PK_INLINE bool pk_rwlock_count(struct pk_rwlock *rw, uint64_t s, uint64_t want)
{
	if (pk_single_threaded()) {
		rw->state = want;
		return true;
	}
	/* acquire: the last writer's unlock; release: what we read, before the next
	 * writer's writes. Both, as either costs nothing more where it matters. */
	return pk_likely(pk_cas_acq_rel(&rw->state, &s, want));
}

PK_INLINE int pk_rwlock_rdlock(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	uint64_t s = pk_load_relaxed(&rw->state);

	if (pk_unlikely(!pk_rwlock_is_plain(rw) || (s & ~PK_RW_READERS) || s == PK_RW_READERS || pk_readers_eager ||
			!pk_rwlock_count(rw, s, s + PK_RW_READER)))
		return pk_rwlock_rdlock_slow(rwlock);
	pk_self.reads++;
	return 0;
}

PK_INLINE int pk_rwlock_wrlock(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);

	if (pk_unlikely(rw->shared || !pk_thread_settled(pk_self.tid) || pk_load_relaxed(&rw->state) ||
			!pk_rwlock_count(rw, 0, PK_RW_WRITER)))
		return pk_rwlock_wrlock_slow(rwlock);
	pk_store_relaxed(&rw->cur_writer, pk_self.tid); /* others compare it with theirs */
	return 0;
}

PK_INLINE int pk_rwlock_unlock(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	uint64_t s = pk_load_relaxed(&rw->state);

	if (!pk_rwlock_is_plain(rw))
		return pk_rwlock_unlock_slow(rwlock);
	/* Readers come and go as with glibc, but its writers wait where the state does not show it. */
	if (s == PK_RW_WRITER && pk_thread_settled(pk_self.tid) && !pk_load_relaxed(&rw->lock) &&
	    !pk_load_relaxed(&rw->credit)) {
		pk_store_relaxed(&rw->cur_writer, 0);
		if (pk_rwlock_count(rw, s, 0))
			return 0;
	} else if (!(s & ~PK_RW_READERS) && s && !pk_self.apart && pk_rwlock_count(rw, s, s - PK_RW_READER)) {
		pk_self.reads -= pk_self.reads != 0;
		return 0;
	}
	return pk_rwlock_unlock_slow(rwlock);
}

#endif
