/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Mutexes of all types, protocols and kinds: who has one, who wants it, what is called; the contract is in calls.h. */
#include "calls.h"

#include <threads.h>

enum { TID_BITS = 0x3fffffff };

struct mutex mutexes[MUTEXES];

static bool in_kernel(const struct mutex *m)
{
	return m->robust || m->protocol == PTHREAD_PRIO_INHERIT;
}

/* The word of these has the owner in it. */
int holder(const struct mutex *m)
{
	if (in_kernel(m))
		return actor_of(m->m.__data.__lock & TID_BITS);
	return m->m.__data.__lock || m->m.__data.__owner ? actor_of(m->m.__data.__owner) : NOBODY;
}

/* Somebody waits to lock it. */
bool is_wanted(const struct mutex *m)
{
	for (int i = 0; i < ACTORS; i++) {
		const struct actor *a = &actors[i];

		if (!awake(i) && ((a->op == &mutex_lock_op && &mutexes[a->object] == m) ||
				  (a->op == &cond_wait_op && conds[a->at].waiter != i && &mutexes[a->with] == m)))
			return true;
	}
	return false;
}

/* Who wants it may wait for it: somebody else will let it go. */
bool can_be_had(const struct mutex *m)
{
	int h = holder(m);

	return !is_wanted(m) && (h == NOBODY || (h == GONE && m->robust) || awake(h));
}

unsigned users_of(const struct mutex *m)
{
	return m->shared == PTHREAD_PROCESS_SHARED ? 0 : m->m.__data.__nusers;
}

bool asks_for_owner(const struct mutex *m)
{
	return m->type == PTHREAD_MUTEX_RECURSIVE || m->type == PTHREAD_MUTEX_ERRORCHECK || m->robust;
}

static int mutex_init_call(struct actor *a, int n)
{
	static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
				    PTHREAD_MUTEX_ADAPTIVE_NP};
	struct mutex *m = &mutexes[n];
	uint32_t die = a->die;
	pthread_mutexattr_t attr;
	int rc;

	m->type = types[die % 4];
	m->shared = die / 4 % 4 ? PTHREAD_PROCESS_PRIVATE : PTHREAD_PROCESS_SHARED;
	m->robust = die / 16 % 4 ? PTHREAD_MUTEX_STALLED : PTHREAD_MUTEX_ROBUST;
	m->protocol = die / 64 % 8 == 0	  ? PTHREAD_PRIO_INHERIT
		      : die / 64 % 8 == 1 ? PTHREAD_PRIO_PROTECT
					  : PTHREAD_PRIO_NONE;
	if (m->protocol == PTHREAD_PRIO_PROTECT)
		m->robust = PTHREAD_MUTEX_STALLED;
	m->alive = true;
	if (die / 512 % 8 == 0) {
		m->type = PTHREAD_MUTEX_NORMAL;
		m->shared = PTHREAD_PROCESS_PRIVATE;
		m->robust = PTHREAD_MUTEX_STALLED;
		m->protocol = PTHREAD_PRIO_NONE;
		return pthread_mutex_init(&m->m, NULL);
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, m->type);
	pthread_mutexattr_setpshared(&attr, m->shared);
	pthread_mutexattr_setrobust(&attr, m->robust);
	pthread_mutexattr_setprotocol(&attr, m->protocol);
	rc = pthread_mutex_init(&m->m, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc;
}

static bool mutex_is_dead(const struct actor *a, int n)
{
	(void)a;
	return !mutexes[n].alive;
}

/* glibc's trylock breaks a robust mutex that cannot be recovered, and may leave the dead owner's name in a recursive
 * one. */
bool is_usable(const struct mutex *m)
{
	int h = holder(m), owner = m->m.__data.__owner;

	return m->alive && owner != UNRECOVERABLE &&
	       (!m->robust || h < 0 || owner == INCONSISTENT || actor_of(owner) == h);
}

static bool mutex_is_alive(const struct actor *a, int n)
{
	(void)a;
	return is_usable(&mutexes[n]);
}

static bool may_lock(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];

	if (!is_usable(m) || !can_be_had(m))
		return false;
	return holder(m) != self_of(a) || m->type == PTHREAD_MUTEX_RECURSIVE || m->type == PTHREAD_MUTEX_ERRORCHECK;
}

static int lock_call(struct actor *a, int n)
{
	return a->die % 4 ? pthread_mutex_lock(&mutexes[n].m) : mtx_lock((mtx_t *)&mutexes[n].m);
}

static int trylock_call(struct actor *a, int n)
{
	return a->die % 4 ? pthread_mutex_trylock(&mutexes[n].m) : mtx_trylock((mtx_t *)&mutexes[n].m);
}

/* The kernel finds cycles among the inheriting ones, which glibc asserts are not there. */
static bool may_lock_timed(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];
	int h = holder(m);

	return mutex_is_alive(a, n) && (m->protocol != PTHREAD_PRIO_INHERIT || h < 0 || awake(h));
}

static int timedlock_call(struct actor *a, int n)
{
	pthread_mutex_t *m = &mutexes[n].m;

	switch (a->die % 8) {
	case 0:
		return mtx_timedlock((mtx_t *)m, &past);
	case 1:
		return pthread_mutex_timedlock(m, &bad_ns);
	case 2:
		return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &bad_ns);
	case 3:
		return pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past);
	case 4:
		return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past);
	default:
		return pthread_mutex_timedlock(m, &past);
	}
}

static bool may_unlock(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];
	int h = holder(m);

	if (!is_usable(m))
		return false;
	return h == self_of(a) || asks_for_owner(m) || (h >= 0 && m->protocol == PTHREAD_PRIO_NONE);
}

static int unlock_call(struct actor *a, int n)
{
	return a->die % 4 ? pthread_mutex_unlock(&mutexes[n].m) : mtx_unlock((mtx_t *)&mutexes[n].m);
}

static bool may_destroy(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];

	(void)a;
	for (int i = 0; i < CONDS; i++)
		if (conds[i].waiter != NOBODY && conds[i].mutex == n)
			return false;
	return m->alive && !is_wanted(m) && !(m->robust && holder(m) != NOBODY);
}

static int destroy_call(struct actor *a, int n)
{
	int rc = pthread_mutex_destroy(&mutexes[n].m);

	(void)a;
	mutexes[n].alive = rc != 0;
	return rc;
}

static int consistent_call(struct actor *a, int n)
{
	(void)a;
	return pthread_mutex_consistent(&mutexes[n].m);
}

static int ceiling_call(struct actor *a, int n)
{
	int ceiling;

	(void)a;
	return pthread_mutex_getprioceiling(&mutexes[n].m, &ceiling);
}

const struct op mutex_init_op = {"init m", MUTEXES, mutex_is_dead, mutex_init_call};
const struct op mutex_lock_op = {"lock m", MUTEXES, may_lock, lock_call};
const struct op mutex_trylock_op = {"trylock m", MUTEXES, mutex_is_alive, trylock_call};
const struct op mutex_timedlock_op = {"timedlock m", MUTEXES, may_lock_timed, timedlock_call};
const struct op mutex_unlock_op = {"unlock m", MUTEXES, may_unlock, unlock_call};
const struct op mutex_destroy_op = {"destroy m", MUTEXES, may_destroy, destroy_call};
const struct op mutex_consistent_op = {"consistent m", MUTEXES, mutex_is_alive, consistent_call};
const struct op mutex_ceiling_op = {"getprioceiling m", MUTEXES, mutex_is_alive, ceiling_call};
