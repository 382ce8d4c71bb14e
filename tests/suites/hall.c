/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What suites of condition variables share; the contract is in hall.h. */

#include "hall.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 30, CHILD_SECONDS = 50 };

/* ---- calls, and what is always wanted of them ---- */

void want_errno(const char *what, int line)
{
	if (errno != ERRNO_MARK)
		complain("line %d: %s: errno became %d", line, what, errno);
}

void want_held(const pthread_mutex_t *m, int line)
{
	int tid = gettid(), owner = m->__data.__owner;

	if (owner == INT_MAX) /* inherited, and not consistent yet; but the word says it */
		owner = m->__data.__lock & 0x3fffffff;
	if (!m->__data.__lock || owner != tid)
		complain("line %d: the mutex is not held: lock %#x, owner %d, and I am %d", line, m->__data.__lock,
			 m->__data.__owner, tid);
}

void want_fields(const pthread_mutex_t *m, int owner, unsigned count, unsigned nusers, int line)
{
	if (m->__data.__owner != owner || m->__data.__count != count || m->__data.__nusers != nusers ||
	    !m->__data.__lock != !owner)
		complain("line %d: the mutex has lock %d, owner %d, count %u, nusers %u; wanted: owner %d, count %u, "
			 "nusers %u",
			 line, m->__data.__lock, m->__data.__owner, m->__data.__count, m->__data.__nusers, owner, count,
			 nusers);
}

static bool in_child;

void stop_if_complained(void)
{
	if (complained() && in_child)
		child_exit();
	assert_no_complaint();
}

void be_patient(uint64_t since, const char *what, int line)
{
	uint64_t ns = now_ns() - since;

	if (ns > PATIENCE_S * (uint64_t)1000000000)
		complain("line %d: in %d s it has not come to pass that %s", line, PATIENCE_S, what);
	stop_if_complained();
	if (ns < 50000)
		sched_yield();
	else
		sleep_us(30);
}

pid_t child_begin(void)
{
	pid_t child = fork();

	if (child == 0) {
		in_child = true;
		alarm(CHILD_SECONDS);
	} else if (child < 0) { /* and who kills -1 kills everybody */
		say("fork: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	return child;
}

int wait_by(enum way way, pthread_cond_t *c, pthread_mutex_t *m)
{
	struct timespec real = {LONG_MAX, 999999999}, monotonic = deadline(CLOCK_MONOTONIC, 1000000000000);

	errno = ERRNO_MARK;
	switch (way) {
	case TIMEDWAIT:
		return pthread_cond_timedwait(c, m, &real);
	case CLOCKWAIT:
		return pthread_cond_clockwait(c, m, CLOCK_MONOTONIC, &monotonic);
	case CLOCKWAIT_REAL:
		return pthread_cond_clockwait(c, m, CLOCK_REALTIME, &real);
	default:
		return pthread_cond_wait(c, m);
	}
}

void want_untouched(const void *what, size_t size)
{
	const unsigned char *byte = what;

	for (size_t i = 0; i < size; i++)
		if (byte[i] != 0xff) {
			complain("byte %zu was touched after the end, and is %#x", i, byte[i]);
			return;
		}
}

/* ---- what is made ---- */

const struct special specials[SPECIALS] = {
	{"plain", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE},
	{"robust", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE},
	{"priority-inheriting", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT},
	{"robust, inheriting", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT},
	{"process-shared", PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE},
	{"robust, process-shared", PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE},
	{"priority-protecting", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_PROTECT},
};

bool special_make(pthread_mutex_t *m, int type, int which)
{
	const struct special *s = &specials[which];
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	pthread_mutexattr_t attr;
	int rc;

	MUST(pthread_mutexattr_init(&attr));
	MUST(pthread_mutexattr_settype(&attr, type));
	MUST(pthread_mutexattr_setpshared(&attr, s->shared));
	MUST(pthread_mutexattr_setrobust(&attr, s->robust));
	MUST(pthread_mutexattr_setprotocol(&attr, s->protocol));
	rc = pthread_mutex_init(m, &attr);
	MUST(pthread_mutexattr_destroy(&attr));
	if (rc == ENOTSUP) {
		say("SKIP: there are no %s mutexes here", s->name);
		return false;
	}
	MUST(rc);
	/* Only such threads may lock those; the ones that are made from here on inherit it. */
	if (which == PROTECT && pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) == EPERM) {
		say("SKIP: no right to use SCHED_FIFO: no %s mutex", s->name);
		return false;
	}
	return true;
}

void cond_make(pthread_cond_t *c, int shared, clockid_t clock)
{
	pthread_condattr_t attr;

	MUST(pthread_condattr_init(&attr));
	MUST(pthread_condattr_setpshared(&attr, shared));
	MUST(pthread_condattr_setclock(&attr, clock));
	CALL(pthread_cond_init(c, &attr), 0);
	MUST(pthread_condattr_destroy(&attr));
}

void lock(void *m)
{
	MUST(pthread_mutex_lock(m));
}

void unlock(void *m)
{
	MUST(pthread_mutex_unlock(m));
}

/* ---- the hall ---- */

void hall_come_in(struct hall *h)
{
	MUST(pthread_mutex_lock(&h->m));
	HELD(&h->m);
	atomic_store(&h->tid, gettid());
	atomic_fetch_add(&h->waiting, 1);
}

void hall_wait(struct hall *h)
{
	while (!atomic_load(&h->tickets) && !complained()) {
		CALL(wait_by(h->way, &h->c, &h->m), 0);
		HELD(&h->m);
		atomic_fetch_add(&h->returns, 1);
	}
	atomic_fetch_sub(&h->waiting, 1);
	atomic_fetch_add(&h->out, 1);
	atomic_fetch_sub(&h->tickets, 1); /* last: who sees it gone sees the others changed */
	MUST(pthread_mutex_unlock(&h->m));
}

void hall_ended(void *hall)
{
	struct hall *h = hall;

	HELD(&h->m);
	atomic_fetch_sub(&h->waiting, 1);
	atomic_fetch_add(&h->cancelled, 1);
	MUST(pthread_mutex_unlock(&h->m));
}

void hall_wait_mortal(struct hall *h, void (*ended)(void *))
{
	hall_come_in(h);
	pthread_cleanup_push(ended, h);
	hall_wait(h);
	pthread_cleanup_pop(0);
}

void hall_guest(int index, void *hall)
{
	(void)index;
	hall_come_in(hall);
	hall_wait(hall);
}

void hall_regular(int index, void *hall)
{
	struct hall *h = hall;

	do
		hall_guest(index, h);
	while (!atomic_load(&h->closed) && !complained());
}

void hall_gather(struct hall *h, int n)
{
	SOON(atomic_load(&h->waiting) == n);
	MUST(pthread_mutex_lock(&h->m));
	HELD(&h->m);
	if (atomic_load(&h->waiting) != n)
		complain("%d are in the hall, not %d", atomic_load(&h->waiting), n);
}

void hall_call(struct hall *h, enum how how, int tickets)
{
	bool held = how == SIGNAL_HELD || how == BROADCAST_HELD;

	atomic_fetch_add(&h->tickets, tickets);
	if (!held)
		MUST(pthread_mutex_unlock(&h->m));
	if (how == BROADCAST_HELD || how == BROADCAST_FREE)
		CALL(pthread_cond_broadcast(&h->c), 0);
	else
		CALL(pthread_cond_signal(&h->c), 0);
	if (held) {
		HELD(&h->m);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

void hall_want_forgetful(struct hall *h)
{
	struct timespec soon = deadline(CLOCK_MONOTONIC, 300000);

	MUST(pthread_mutex_lock(&h->m));
	CALL(pthread_cond_signal(&h->c), 0);
	CALL(pthread_cond_broadcast(&h->c), 0);
	CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	HELD(&h->m);
	MUST(pthread_mutex_unlock(&h->m));
	CALL(pthread_cond_signal(&h->c), 0);
	CALL(pthread_cond_broadcast(&h->c), 0);
	soon = deadline(CLOCK_MONOTONIC, 300000);
	MUST(pthread_mutex_lock(&h->m));
	CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	MUST(pthread_mutex_unlock(&h->m));
}

void hall_use(struct hall *h)
{
	struct team *t = team_start(4, hall_guest, h);
	int out = atomic_load(&h->out);

	hall_gather(h, 4);
	hall_call(h, SIGNAL_HELD, 1);
	SOON(atomic_load(&h->out) == out + 1);
	hall_gather(h, 3);
	hall_call(h, SIGNAL_FREE, 1);
	SOON(atomic_load(&h->out) == out + 2);
	hall_gather(h, 2);
	hall_call(h, BROADCAST_HELD, 2);
	SOON(atomic_load(&h->out) == out + 4);
	team_join(t);
	t = team_start(4, hall_guest, h);
	hall_gather(h, 4);
	hall_call(h, BROADCAST_FREE, 4);
	SOON(atomic_load(&h->out) == out + 8);
	team_join(t);
	hall_want_forgetful(h);
}

/* ---- a hall whose robust mutex is inherited ---- */

void inherit(int index, void *arg)
{
	struct estate *e = arg;
	struct timespec then;
	int rc;
	(void)index;

	hall_come_in(&e->h);
	then = deadline(CLOCK_MONOTONIC, e->ahead);
	rc = e->ahead ? pthread_cond_clockwait(&e->h.c, &e->h.m, CLOCK_MONOTONIC, &then)
		      : wait_by(e->h.way, &e->h.c, &e->h.m);
	atomic_store(&e->back, true);
	if (rc == ENOTRECOVERABLE) { /* not held, and nobody will ever hold it */
		atomic_fetch_add(&e->lost, 1);
		WANT(pthread_mutex_lock(&e->h.m), ENOTRECOVERABLE);
		return;
	}
	HELD(&e->h.m);
	atomic_fetch_add(rc == 0 ? &e->fine : rc == ETIMEDOUT ? &e->late : &e->dead, 1);
	if (rc == EOWNERDEAD && e->heals)
		MUST(pthread_mutex_consistent(&e->h.m));
	else if (rc != 0 && rc != EOWNERDEAD && !(rc == ETIMEDOUT && e->ahead))
		complain("an heir's wait returned %d", rc);
	MUST(pthread_mutex_unlock(&e->h.m));
}

void bequeath(int index, void *arg)
{
	struct estate *e = arg;

	(void)index;
	MUST(pthread_mutex_lock(&e->h.m));
	for (int i = 0; i < 2; i++)
		CALL(pthread_cond_signal(&e->h.c), 0);
	CALL(pthread_cond_broadcast(&e->h.c), 0);
}
