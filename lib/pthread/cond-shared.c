/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Process-shared condition variables; the contract is in cond-shared.h.
 *
 * The object holds a sequence number, which signals advance if anybody waits, and the count
 * of waiters. A waiter remembers the number that it saw with the mutex held, and sleeps
 * until there is another. Who sleeps is known to the kernel alone: a process that has been
 * killed has taken its waiters along, and no signal is spent on them. (glibc's protocol
 * counts its waiters, and a killed one blocks the object for good.)
 *
 * A signal advances the number, and then wakes one sleeper. Who has not gone to sleep yet
 * sees another number, and returns as well: wake-ups for no reason are allowed (POSIX), lost
 * ones are not. Whoever is woken returns, whatever the number: a signal that began before it
 * came may have been held up before its wake-up, and is under way still. To have that one
 * sleep on, as it may not be meant, loses signals (doc/DESIGN.md section 4).
 *
 * Ledger: a waiter is counted, and reads the number, with the mutex held, and those signals
 * that must reach it begin after that; so the mutex orders them. A waiter's last access to
 * the object is to subtract itself from the count (release), before it locks the mutex;
 * destroy waits (acquire) for them, but not for ever, since killed waiters remain counted.
 * A signal touches nothing after the number, but for the address.
 *
 * Cancellation: glibc's asynchronous one, around the system call alone. A waiter that is
 * cancelled cannot know whether it has just been woken, so it signals in its turn; and so it
 * does when a handler has come into its sleep, and ends the thread, or jumps out. */
#include "pthread/cond-shared.h"

#include <errno.h>
#include <limits.h>

#include "base/unwind.h"
#include "pthread/mutex.h"
#include "rt/clock.h"
#include "rt/real.h"
#include "rt/thread.h"

enum {
	/* How long destroy waits for waiters that may be dead. One that is merely held up for longer (a handler that
	 * forks, a machine that is overloaded, SIGSTOP) subtracts itself from memory that is something else by then. */
	DESTROY_US = 3000000,
};

struct shared_wait {
	struct pk_cond *c;
	pthread_mutex_t *mutex;
	bool user;     /* of the mutex */
	uint32_t seen; /* the number */
	int tid;       /* the thread: another one in the child of a handler that has forked */
	struct _pthread_cleanup_buffer frame;
};

/* A child that comes back to its parent's wait has not been counted: the object may be both's. */
static void retire(const struct shared_wait *s)
{
	if (s->tid && s->tid != pk_thread_number())
		return;
	if (pk_sub_release(&s->c->refs, PK_COND_WAITER) & PK_COND_DESTROYER)
		pk_futex_wake_shared(&s->c->refs, INT_MAX);
}

/* The wait is over, without a return. */
static void unwound(void *arg)
{
	struct shared_wait *s = arg;
	struct pk_record *r = pk_self.record;
	int type;

	_pthread_cleanup_pop(&s->frame, 0);
	pk_real()->pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	if (r && pk_load_acquire(&r->cancelled)) /* not by a jump */
		pk_thread_acts(true);
	pk_cond_shared_signal(s->c);
	retire(s);
	pk_mutex_cond_lock(s->mutex, s->user);
}

/* Sleep while the number is the one that was seen, until a wake-up: 0; or ETIMEDOUT. */
static int sleep_shared(struct shared_wait *s, const struct pk_deadline *deadline)
{
	int type, late;

	_pthread_cleanup_push(&s->frame, unwound, s);
	pk_real()->pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	do
		late = pk_futex_wait_shared(&s->c->sequence, s->seen, deadline);
	while (late == EINTR);
	pk_real()->pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	_pthread_cleanup_pop(&s->frame, 0);
	return late;
}

int pk_cond_shared_wait(struct pk_cond *c, pthread_mutex_t *mutex, const struct pk_deadline *deadline)
{
	struct shared_wait s = {.c = c, .mutex = mutex};
	struct pk_queue *home;
	int ret = pk_mutex_cond_begin(mutex, &home);
	int late;

	if (ret)
		return ret;
	s.tid = pk_thread_number(); /* else a handler in the middle of the wait might find another one */
	pk_add_relaxed(&c->refs, PK_COND_WAITER);
	s.seen = pk_load_relaxed(&c->sequence);
	ret = pk_mutex_cond_unlock(mutex, &s.user);
	if (ret) {
		retire(&s);
		return ret;
	}
	late = sleep_shared(&s, deadline);
	retire(&s);
	ret = pk_mutex_cond_lock(mutex, s.user);
	return ret ? ret : late;
}

int pk_cond_shared_signal(struct pk_cond *c)
{
	if (pk_load_relaxed(&c->refs) < PK_COND_WAITER)
		return 0;
	pk_add_release(&c->sequence, 1);
	pk_futex_wake_shared(&c->sequence, 1);
	return 0;
}

int pk_cond_shared_broadcast(struct pk_cond *c)
{
	if (pk_load_relaxed(&c->refs) < PK_COND_WAITER)
		return 0;
	pk_add_release(&c->sequence, 1);
	pk_futex_wake_shared(&c->sequence, INT_MAX);
	return 0;
}

int pk_cond_shared_destroy(struct pk_cond *c)
{
	uint64_t until = pk_clock_us() + DESTROY_US;
	struct timespec end = {(time_t)(until / 1000000), (long)(until % 1000000 * 1000)};
	struct pk_deadline deadline = {&end, CLOCK_MONOTONIC};
	uint32_t refs;

	do
		refs = pk_or_acquire(&c->refs, PK_COND_DESTROYER) | PK_COND_DESTROYER;
	while (refs >= PK_COND_WAITER && pk_futex_wait_shared(&c->refs, refs, &deadline) != ETIMEDOUT);
	return 0;
}
