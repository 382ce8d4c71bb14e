/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The slow side of mutexes; the contract is in mutex.h.
 *
 * Every way to wait ends in pk_word_wait(): a queue only decides who may wait
 * there. So a thread that cannot queue (no memory, too early, too late, the
 * child of a fork) goes there directly and nothing else changes. */
#include "pthread/mutex.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "pthread/word.h"
#include "rt/real.h"
#include "rt/topology.h"

/* glibc's function serves this kind, or all kinds (PARKADE_POLICY=glibc). */
static bool to_glibc(struct pk_mutex *m)
{
	return (pk_load_relaxed(&m->kind) & PK_KIND_OWN_WAY) || (!pk_self.tid && !pk_thread_start());
}

static bool is_type(struct pk_mutex *m, int type)
{
	return (pk_load_relaxed(&m->kind) & PK_KIND_TYPE) == PK_KIND_VALUE(type);
}

/* The head has the word, or gave up. A flag that is set is its own or stale. */
static void leave(struct pk_mutex *m, const struct pk_admit_ops *ops, struct pk_waiter *w)
{
	if (pk_unlikely(pk_load_relaxed(&m->kind) & PK_FLAG_QUEUE))
		pk_and_relaxed(&m->kind, ~PK_FLAG_QUEUE);
	ops->leave(&m->queue, w);
}

/* Wait for the word by way of the queue. 0 or ETIMEDOUT. */
static PK_NOINLINE int wait_turn(struct pk_mutex *m, const struct pk_deadline *deadline)
{
	const struct pk_admit_ops *ops = pk_load_acquire(&pk_admit);
	struct pk_record *r = ops ? pk_thread_record() : NULL;
	struct pk_waiter *w = r ? pk_waiter_take(r) : NULL;
	int ret;

	if (!w) {
		if (r)
			pk_store_relaxed(&r->stat[PK_STAT_bypassed], r->stat[PK_STAT_bypassed] + 1);
		return pk_word_wait(m, NULL, NULL, deadline);
	}
	w->socket = (uint16_t)pk_socket_here(r->index);
	pk_count(w, PK_STAT_entered);
	switch (ops->enter(&m->queue, w, deadline)) {
	case PK_TIMED_OUT:
		return ETIMEDOUT;
	case PK_ORPHANED:
		return pk_word_wait(m, NULL, NULL, deadline);
	case PK_IS_HEAD:
		break;
	}
	ret = pk_word_wait(m, ops, w, deadline);
	leave(m, ops, w);
	return ret;
}

/* The word, at once or by waiting. 0, ETIMEDOUT or EINVAL. */
PK_INLINE int acquire(struct pk_mutex *m, const struct pk_deadline *deadline)
{
	if (!(pk_load_relaxed(&m->kind) & PK_FLAG_QUEUE) && !pk_load_relaxed(&m->lock) && pk_mutex_take(m))
		return 0;
	/* POSIX: looked at only by those who must wait */
	if (deadline && (unsigned long)deadline->abstime->tv_nsec >= 1000000000)
		return EINVAL;
	return wait_turn(m, deadline);
}

/* One more level of a recursive mutex that the caller owns. */
static int deepen(struct pk_mutex *m)
{
	if (m->count == UINT_MAX)
		return EAGAIN;
	m->count++;
	return 0;
}

static int lock_kind(struct pk_mutex *m, const struct pk_deadline *deadline)
{
	int tid = pk_self.tid;
	bool recursive = is_type(m, PTHREAD_MUTEX_RECURSIVE_NP);
	int ret;

	/* Another thread's owner is never our tid, however stale it is read. */
	if (pk_load_relaxed(&m->owner) == tid) {
		if (recursive)
			return deepen(m);
		if (is_type(m, PTHREAD_MUTEX_ERRORCHECK_NP))
			return EDEADLK;
	}
	ret = acquire(m, deadline);
	if (ret)
		return ret;
	if (recursive)
		m->count = 1;
	return pk_mutex_own(m, tid);
}

int pk_mutex_lock_slow(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);

	if (pk_unlikely(to_glibc(m)))
		return pk_real()->pthread_mutex_lock(mutex);
	return lock_kind(m, NULL);
}

int pk_mutex_trylock_slow(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	bool recursive;

	if (pk_unlikely(to_glibc(m)))
		return pk_real()->pthread_mutex_trylock(mutex);
	recursive = is_type(m, PTHREAD_MUTEX_RECURSIVE_NP);
	if (recursive && pk_load_relaxed(&m->owner) == pk_self.tid)
		return deepen(m);
	/* A head that lost patience keeps others from waiting in front of it,
	 * but a trylock of a free mutex has to succeed. */
	if (!pk_mutex_take(m))
		return EBUSY;
	if (recursive)
		m->count = 1;
	return pk_mutex_own(m, pk_self.tid);
}

int pk_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abstime)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	struct pk_deadline deadline = {abstime, clock};

	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	if (pk_unlikely(to_glibc(m)))
		return pk_real()->pthread_mutex_clocklock(mutex, clock, abstime);
	return lock_kind(m, &deadline);
}

int pk_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *abstime)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	struct pk_deadline deadline = {abstime, CLOCK_REALTIME};

	if (pk_unlikely(to_glibc(m)))
		return pk_real()->pthread_mutex_timedlock(mutex, abstime);
	return lock_kind(m, &deadline);
}

int pk_mutex_unlock_slow(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);

	if (pk_unlikely(to_glibc(m)))
		return pk_real()->pthread_mutex_unlock(mutex);
	if (!is_type(m, PTHREAD_MUTEX_ADAPTIVE_NP)) {
		/* RECURSIVE or ERRORCHECK: the owner's only */
		if (pk_load_relaxed(&m->owner) != pk_self.tid || !pk_load_relaxed(&m->lock))
			return EPERM;
		if (is_type(m, PTHREAD_MUTEX_RECURSIVE_NP) && --m->count)
			return 0;
	}
	return pk_mutex_release(m);
}

void pk_mutex_wake(struct pk_mutex *m)
{
	pk_futex_wake(&m->lock, 1);
}

int pk_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	if (attr)
		return pk_real()->pthread_mutex_init(mutex, attr);
	/* What glibc's does with the default attributes, without asking for it:
	 * allocators initialise mutexes before anything can be looked up. */
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

int pk_mutex_destroy(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);

	if (kind & PK_KIND_OWN_WAY)
		return pk_real()->pthread_mutex_destroy(mutex);
	if (m->nusers)
		return EBUSY;
	pk_store_relaxed(&m->kind, kind | PK_KIND_ANY); /* __kind: -1 */
	return 0;
}

int pk_mutex_consistent(pthread_mutex_t *mutex)
{
	return pk_real()->pthread_mutex_consistent(mutex);
}

int pk_mutex_getprioceiling(const pthread_mutex_t *mutex, int *ceiling)
{
	return pk_real()->pthread_mutex_getprioceiling(mutex, ceiling);
}

int pk_mutex_setprioceiling(pthread_mutex_t *mutex, int ceiling, int *old)
{
	return pk_real()->pthread_mutex_setprioceiling(mutex, ceiling, old);
}
