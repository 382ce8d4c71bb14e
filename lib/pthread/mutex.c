/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The slow side of mutexes; the contract is in mutex.h. */
#include "pthread/mutex.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "pthread/attr.h"
#include "pthread/cond.h"
#include "pthread/trial.h"
#include "pthread/turn.h"
#include "rt/probe.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"
#include "rt/watch.h"

/* It is not to be overtaken, or is tried (trial.h). */
#define MARKED (PK_FLAG_QUEUE | PK_FLAG_TRIED)

/* The thread has a tid, and the kind is one that we serve. If not, begin() gives
 * it one, or says that glibc's function is to be called. */
PK_INLINE bool is_ours(uint64_t kind, int tid)
{
	return pk_likely(!(kind & PK_KIND_OWN_WAY) && tid);
}

static PK_COLD bool begin(uint64_t kind)
{
	return !(kind & PK_KIND_OWN_WAY) && pk_thread_start();
}

PK_INLINE bool is_type(uint64_t kind, int type)
{
	return (kind & PK_KIND_TYPE) == PK_KIND_VALUE(type);
}

/* One more level of a recursive mutex that the caller owns. */
PK_INLINE int deepen(struct pk_mutex *m)
{
	if (pk_unlikely(m->count == UINT_MAX))
		return EAGAIN;
	m->count++;
	return 0;
}

/* The word is ours: what is left to be written for each kind. */
PK_INLINE int own(struct pk_mutex *m, uint64_t kind, int tid)
{
	if (pk_likely(is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP)))
		m->count = 1;
	return pk_mutex_own(m, tid);
}

/* `seen`: its gate as it is, or null. A recursive mutex has no owner before it has a count: a handler may lock it. */
static struct pk_site site(struct pk_mutex *m, const struct pk_gate *seen)
{
	uint64_t kind = seen ? seen->flags : pk_load_relaxed(&m->kind);
	bool near = (uintptr_t)m / PK_CACHE_LINE == (uintptr_t)&m->owner / PK_CACHE_LINE;

	return (struct pk_site){
		&m->lock, pk_mutex_gate(m), pk_spin_head(), true, NULL, near && !is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP) ? &m->owner : NULL,
		seen,
	};
}

int pk_mutex_lock_wait(struct pk_mutex *m, const struct pk_deadline *deadline)
{
	const struct pk_gate seen = pk_gate_look(pk_mutex_gate(m));
	struct pk_site at = site(m, &seen);
	struct pk_watched watched;
	uint64_t kind;
	bool watch;
	int ret;

	/* POSIX: looked at only by those who must wait */
	if (deadline && (unsigned long)deadline->abstime->tv_nsec >= 1000000000)
		return EINVAL;
	if (!deadline)
		PK_PROBE1(mutex_entry, m);
	else if (deadline->clock == CLOCK_REALTIME)
		PK_PROBE2(mutex_timedlock_entry, m, deadline->abstime);
	else
		PK_PROBE3(mutex_clocklock_entry, m, deadline->clock, deadline->abstime);
	watch = pk_watch_begin(&watched);
	ret = pk_turn_wait(&at, deadline);
	/* An impatient head has others queue, but who can have the mutex at once must not be told that it is late
	 * (POSIX, pthread_mutex_timedlock). */
	if (pk_unlikely(ret) && pk_mutex_take(m))
		ret = 0;
	if (pk_unlikely(watch))
		pk_watch_end(&watched, PK_WATCH_MUTEX, m, ret);
	if (ret)
		return ret;
	if (deadline)
		PK_PROBE1(mutex_timedlock_acquired, m);
	else
		PK_PROBE1(mutex_acquired, m);
	kind = pk_load_relaxed(&m->kind);
	if (pk_unlikely(kind & PK_FLAG_TRIED))
		pk_trial_count(pk_mutex_gate(m));
	return own(m, kind, pk_self.tid);
}

/* Whether the caller has the mutex already, of a kind that minds; *ret: what lock returns then. */
PK_INLINE bool has_it(struct pk_mutex *m, uint64_t kind, int tid, int *ret)
{
	/* Another thread's owner is never our tid, however stale it is read. */
	if (pk_load_relaxed(&m->owner) != tid)
		return false;
	*ret = is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP) ? deepen(m) : EDEADLK;
	return is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP) || is_type(kind, PTHREAD_MUTEX_ERRORCHECK_NP);
}

/* It is MARKED. To look at a mutex before it is taken takes its line twice, which the usual way does
 * not: what is tried is to be like that. */
static int lock_marked(struct pk_mutex *m, uint64_t kind, int tid, const struct pk_deadline *deadline)
{
	int ret;

	if (!is_type(kind, PTHREAD_MUTEX_NORMAL) && has_it(m, kind, tid, &ret))
		return ret;
	if (kind & PK_FLAG_QUEUE || !pk_mutex_take(m))
		return pk_mutex_lock_wait(m, deadline);
	pk_trial_count(pk_mutex_gate(m));
	return own(m, kind, tid);
}

PK_INLINE int lock_unmarked(struct pk_mutex *m, uint64_t kind, int tid, const struct pk_deadline *deadline)
{
	int ret;

	if (has_it(m, kind, tid, &ret))
		return ret;
	if (pk_unlikely(!pk_mutex_take(m)))
		return pk_mutex_lock_wait(m, deadline);
	return own(m, kind, tid);
}

PK_INLINE int lock(struct pk_mutex *m, uint64_t kind, int tid, const struct pk_deadline *deadline)
{
	return pk_unlikely(kind & MARKED) ? lock_marked(m, kind, tid, deadline) : lock_unmarked(m, kind, tid, deadline);
}

/* The functions that count call what is seldom at their end: that costs the ways past it nothing. */
static PK_NOINLINE int lock_other(pthread_mutex_t *mutex, uint64_t kind)
{
	if (is_ours(kind, pk_thread_settled(pk_self.tid)) || begin(kind))
		return lock(pk_mutex_of(mutex), kind, pk_self.tid, NULL);
	pk_turn_step_back();
	return pk_real()->pthread_mutex_lock(mutex);
}

int pk_mutex_lock_slow(pthread_mutex_t *mutex, uint64_t kind, int tid)
{
	if (pk_unlikely(kind & (PK_KIND_OWN_WAY | MARKED)) || pk_unlikely(!pk_thread_settled(tid)))
		return lock_other(mutex, kind);
	return lock_unmarked(pk_mutex_of(mutex), kind, tid, NULL);
}

int pk_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abstime)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	struct pk_deadline deadline = {abstime, clock};
	uint64_t kind = pk_load_relaxed(&m->kind);

	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	if (!is_ours(kind, pk_thread_settled(pk_self.tid)) && !begin(kind)) {
		pk_turn_step_back();
		return pk_real()->pthread_mutex_clocklock(mutex, clock, abstime);
	}
	return lock(m, kind, pk_self.tid, &deadline);
}

int pk_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *abstime)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	struct pk_deadline deadline = {abstime, CLOCK_REALTIME};
	uint64_t kind = pk_load_relaxed(&m->kind);

	if (!is_ours(kind, pk_thread_settled(pk_self.tid)) && !begin(kind)) {
		pk_turn_step_back();
		return pk_real()->pthread_mutex_timedlock(mutex, abstime);
	}
	return lock(m, kind, pk_self.tid, &deadline);
}

PK_INLINE int trylock(struct pk_mutex *m, uint64_t kind, int tid)
{
	if (is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP) && pk_load_relaxed(&m->owner) == tid)
		return deepen(m);
	/* An impatient head makes others queue, but POSIX has a trylock of a
	 * free mutex succeed. */
	if (!pk_mutex_try(m))
		return EBUSY;
	return own(m, kind, tid);
}

static PK_COLD int trylock_begin(pthread_mutex_t *mutex, uint64_t kind)
{
	return begin(kind) ? trylock(pk_mutex_of(mutex), kind, pk_self.tid) : pk_real()->pthread_mutex_trylock(mutex);
}

int pk_mutex_trylock_slow(pthread_mutex_t *mutex, uint64_t kind, int tid)
{
	return is_ours(kind, pk_thread_settled(tid)) ? trylock(pk_mutex_of(mutex), kind, tid) : trylock_begin(mutex, kind);
}

static PK_COLD int unlock_begin(pthread_mutex_t *mutex, uint64_t kind)
{
	return begin(kind) ? pk_mutex_unlock_slow(mutex, kind, pk_self.tid) : pk_real()->pthread_mutex_unlock(mutex);
}

int pk_mutex_unlock_slow(pthread_mutex_t *mutex, uint64_t kind, int tid)
{
	struct pk_mutex *m = pk_mutex_of(mutex);

	if (!is_ours(kind, tid))
		return unlock_begin(mutex, kind);
	switch (kind & PK_KIND_TYPE) {
	case PK_KIND_VALUE(PTHREAD_MUTEX_RECURSIVE_NP):
		if (pk_unlikely(pk_load_relaxed(&m->owner) != tid))
			return EPERM;
		if (pk_unlikely(--m->count))
			return 0;
		break;
	case PK_KIND_VALUE(PTHREAD_MUTEX_ERRORCHECK_NP):
		if (pk_load_relaxed(&m->owner) != tid || !pk_load_relaxed(&m->lock))
			return EPERM;
		break;
	}
	return pk_mutex_release(m);
}

int pk_mutex_cond_begin(pthread_mutex_t *mutex, struct pk_queue **home)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);
	bool counts = is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP);

	*home = NULL;
	if (!is_ours(kind, pk_self.tid))
		return 0;
	if ((counts || is_type(kind, PTHREAD_MUTEX_ERRORCHECK_NP)) && pk_load_relaxed(&m->owner) != pk_self.tid)
		return EPERM;
	if (!counts || m->count == 1)
		*home = &m->queue;
	return 0;
}

int pk_mutex_cond_unlock(pthread_mutex_t *mutex, bool *user)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);
	bool deep = is_type(kind, PTHREAD_MUTEX_RECURSIVE_NP) && m->count > 1;

	/* Of any kind: glibc's have the owner there, too. But not of a process-shared
	 * one, where a waiter that is killed would be counted for good. (Robust ones
	 * may look shared, and are destroyed whatever the count.) Nor of nobody's. */
	*user = pk_self.tid && pk_load_relaxed(&m->owner) == pk_self.tid && !deep &&
		(kind & (PK_KIND_SHARED | PK_KIND_ROBUST)) != PK_KIND_SHARED;
	if (*user)
		m->nusers++;
	return pk_mutex_unlock(mutex);
}

/* The caller has it again, after a wait for a condition variable, for which it did not cease to be one of its users. */
static void has_it_again(struct pk_mutex *m)
{
	m->nusers--;
	if (pk_unlikely(pk_load_relaxed(&m->kind) & PK_FLAG_TRIED))
		pk_trial_count_again();
}

int pk_mutex_cond_lock(pthread_mutex_t *mutex, bool user)
{
	int ret = pk_mutex_lock(mutex);

	/* EOWNERDEAD: it is the dead owner's count that is ours now. */
	if (user && (!ret || ret == EOWNERDEAD))
		has_it_again(pk_mutex_of(mutex));
	return ret;
}

/* Who is woken ahead of its turn tries. On several sockets only once: a thief that spins takes the lock's line from the one whose turn it is,
 * and from the owner, whose way back for it is far. */
static bool steal(struct pk_queue *q)
{
	struct pk_mutex *m = (struct pk_mutex *)((char *)q - offsetof(struct pk_mutex, queue));
	struct pk_site at = site(m, NULL);
	struct pk_record *r = pk_self.record; /* null: this is the child of a handler that forked */

	return r && pk_waiters_idle(r) && (pk_sockets > 1 ? pk_word_barge(&at) : pk_word_steal(&at));
}

int pk_mutex_cond_settle(pthread_mutex_t *mutex, struct pk_waiter *w, bool queued, bool user)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	struct pk_site at = site(m, NULL);
	struct pk_watched watched;
	uint64_t kind;
	bool watch;
	int ret;

	watch = pk_watch_begin(&watched);
	ret = pk_turn_settle(&at, queued ? w : NULL, steal);
	if (pk_unlikely(watch))
		pk_watch_end(&watched, PK_WATCH_MUTEX, m, ret);
	if (pk_unlikely(ret))
		return ret;
	kind = pk_load_relaxed(&m->kind);
	if (pk_unlikely(kind & PK_FLAG_TRIED))
		pk_trial_count(pk_mutex_gate(m));
	own(m, kind, pk_self.tid);
	if (user)
		has_it_again(m);
	return 0;
}

int pk_mutex_wake(struct pk_mutex *m)
{
	PK_PROBE1(mutex_release, m);
	pk_futex_wake(&m->lock, 1);
	if (pk_self.moved.to == m)
		pk_cond_call();
	return 0;
}

int pk_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	/* glibc's attributes are the kind, and flags above it. */
	unsigned kind = attr ? *(const unsigned *)(const void *)attr : 0, policy = pk_attr_policy(kind);

	PK_PROBE1(mutex_init, mutex);
	if (policy)
		kind &= ~PK_ATTR_CEILING;
	if (PK_KIND_VALUE(kind) & PK_KIND_OWN_WAY)
		return policy ? ENOTSUP : pk_real()->pthread_mutex_init(mutex, attr);
	/* What glibc's does with the kinds that we serve, without asking for it:
	 * allocators initialise mutexes before anything can be looked up. */
	memset(mutex, 0, sizeof(*mutex));
	pk_mutex_of(mutex)->kind = PK_KIND_VALUE(kind) | policy * PK_FLAG_POLICY_ONE;
	return 0;
}

int pk_mutex_destroy(pthread_mutex_t *mutex)
{
	struct pk_mutex *m = pk_mutex_of(mutex);
	uint64_t kind = pk_load_relaxed(&m->kind);

	PK_PROBE1(mutex_destroy, mutex);
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
