/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The actors' threads, how they end, and the children that they fork; the contract is in calls.h. */
#include "calls.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ERRNO_MARK = 4242 };

struct actor actors[ACTORS];

int self_of(const struct actor *a)
{
	return (int)(a - actors);
}

void note(struct actor *a, const char *format, ...)
{
	size_t used = strlen(a->log);
	va_list args;

	va_start(args, format);
	vsnprintf(a->log + used, sizeof a->log - used, format, args);
	va_end(args);
}

int actor_of(int tid)
{
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].tid == tid)
			return i;
	return tid ? GONE : NOBODY;
}

bool awake(int actor)
{
	return actor >= 0 && !atomic_load(&actors[actor].busy);
}

static void *act(void *actor)
{
	struct actor *a = actor;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	a->tid = (pid_t)syscall(SYS_gettid);
	sem_post(&a->ready);
	do {
		while (sem_wait(&a->go))
			;
		errno = ERRNO_MARK;
		a->rc = a->op->call(a, a->object);
		a->errno_kept = errno == ERRNO_MARK;
		atomic_store(&a->busy, false);
	} while (!atomic_load(&a->ended));
	return NULL;
}

void begin(struct actor *a)
{
	memset(a->reads, 0, sizeof a->reads);
	a->pending = false;
	a->at = NOBODY;
	atomic_store(&a->ended, false);
	if (pthread_create(&a->thread, NULL, act, a))
		abort();
	while (sem_wait(&a->ready))
		;
}

/* Lets go of all that the actor has. */
static void release_all(struct actor *a)
{
	for (int i = 0; i < MUTEXES; i++)
		while (mutexes[i].alive && holder(&mutexes[i]) == self_of(a)) {
			int rc = pthread_mutex_unlock(&mutexes[i].m);

			note(a, " unlock m%d %d", i, rc);
			if (rc)
				break;
		}
	for (int i = 0; i < RWLOCKS; i++)
		for (; rwlocks[i].alive && (a->reads[i] || rwlocks[i].rw.__data.__cur_writer == a->tid);
		     a->reads[i] -= a->reads[i] > 0)
			note(a, " unlock rw%d %d", i, pthread_rwlock_unlock(&rwlocks[i].rw));
	for (int i = 0; i < SPINS; i++)
		if (spins[i].holder == self_of(a)) {
			spins[i].holder = NOBODY;
			note(a, " unlock s%d %d", i, pthread_spin_unlock(&spins[i].s));
		}
}

void cancelled(void *actor)
{
	struct actor *a = actor;
	int state;

	/* To be cancelled in the handler would be wrong. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	note(a, " cleanup:");
	release_all(a);
	atomic_store(&a->busy, false);
}

/* n is an actor: it is cancelled in its wait, and has its mutex then; or is told of it at the next one. */
static bool may_cancel(const struct actor *a, int n)
{
	struct actor *target = &actors[n];

	(void)a;
	if (target->pending)
		return false;
	if (awake(n))
		return true;
	return target->op == &cond_wait_op && conds[target->at].waiter == n &&
	       can_be_had(&mutexes[conds[target->at].mutex]);
}

static int cancel_call(struct actor *a, int n)
{
	struct actor *target = &actors[n];

	(void)a;
	target->pending = true;
	if (!awake(n))
		conds[target->at].waiter = NOBODY;
	return pthread_cancel(target->thread);
}

static bool may_interrupt(const struct actor *a, int n)
{
	(void)a;
	return !awake(n);
}

static int interrupt_call(struct actor *a, int n)
{
	(void)a;
	return pthread_kill(actors[n].thread, SIGUSR1);
}

/* It ends with nothing but robust mutexes. */
static bool may_leave(const struct actor *a, int n)
{
	(void)n;
	for (int i = 0; i < MUTEXES; i++)
		if (mutexes[i].alive && !mutexes[i].robust && holder(&mutexes[i]) == self_of(a))
			return false;
	for (int i = 0; i < RWLOCKS; i++)
		if (rwlocks[i].alive && (a->reads[i] || writer_of(i) == self_of(a)))
			return false;
	for (int i = 0; i < SPINS; i++)
		if (spins[i].holder == self_of(a))
			return false;
	return true;
}

static int leave_call(struct actor *a, int n)
{
	(void)n;
	atomic_store(&a->ended, true);
	return 0;
}

/* The child tries everything that cannot block. */
static int child(struct actor *a)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < MUTEXES; i++) {
		struct mutex *m = &mutexes[i];
		int rc, h = m->alive ? holder(m) : NOBODY;

		if (!is_usable(m) || m->protocol != PTHREAD_PRIO_NONE)
			continue;
		rc = pthread_mutex_trylock(&m->m);
		note(a, " m%d %d", i, rc);
		if (!rc || (h == self_of(a) && asks_for_owner(m)))
			note(a, ",%d", pthread_mutex_unlock(&m->m));
		note(a, ",%d", pthread_mutex_timedlock(&m->m, &past));
		note(a, "=%u/%u", m->m.__data.__count, users_of(m));
	}
	pthread_mutex_lock(&own);
	for (int i = 0; i < CONDS; i++)
		if (conds[i].alive && conds[i].waiter == NOBODY)
			note(a, " c%d %d,%d,%d", i, pthread_cond_signal(&conds[i].c),
			     pthread_cond_timedwait(&conds[i].c, &own, &past), pthread_cond_broadcast(&conds[i].c));
	for (int i = 0; i < RWLOCKS; i++)
		if (rwlocks[i].alive && !is_wanted_rw(i))
			note(a, " rw%d %d,%d", i, pthread_rwlock_tryrdlock(&rwlocks[i].rw),
			     pthread_rwlock_trywrlock(&rwlocks[i].rw));
	return write(STDOUT_FILENO, a->log, strlen(a->log)) < 0;
}

static bool may_fork(const struct actor *a, int n)
{
	(void)a;
	(void)n;
	return true;
}

static int fork_call(struct actor *a, int n)
{
	pid_t pid = fork();
	int status = 0;

	(void)n;
	if (!pid) {
		note(a, "  child:");
		status = child(a);
		_exit(status || write(STDOUT_FILENO, "\n", 1) != 1);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	errno = ERRNO_MARK;
	return status;
}

const struct op cancel_op = {"cancel ", ACTORS, may_cancel, cancel_call};
const struct op interrupt_op = {"interrupt ", ACTORS, may_interrupt, interrupt_call};
const struct op leave_op = {"end", 1, may_leave, leave_call};
const struct op fork_op = {"fork", 1, may_fork, fork_call};
