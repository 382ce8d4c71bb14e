/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Process-private condition variables; the contract is in cond.h.
 *
 * A waiter is a node in the object's list (cond-list.h), and sleeps on its status, or with a crowd in a hall (rt/hall.h). Whoever signals
 * it wakes it, or moves it, asleep, to its mutex (cond-signal.c).
 *
 * State of a waiter (`status`), beside those of admit/list.h
 *	from		to		by
 *	last use	BLOCKED		its thread, before it lists itself
 *	BLOCKED		CLAIMED		a signal, which takes it from the list
 *	BLOCKED		LEAVING		its thread: deadline passed, a signal handler
 *					in it has to wait, its end; or pthread_cancel
 *	CLAIMED		SIGNALLED	that signal: it is to lock the mutex itself
 *	CLAIMED		PARKED		the mutex's holder: it is in the queue
 *	CLAIMED		HEAD		the mutex's holder, who is before it in the
 *					chain, or moves it alone: it is to wait for the word
 *	CLAIMED		ABANDONED	its thread, for a handler that has to wait; or when
 *					it has been behind another one for long (rt/doze.h)
 *	any		ORPHAN		the child of a fork
 * To be signalled and to leave are one race on one word: exactly one wins, so no
 * signal is lost on a waiter that has timed out or been cancelled, and none is given
 * to two. A waiter in state LEAVING is still listed, and takes itself out.
 *
 * Destruction: a waiter that has been signalled never touches the object again, nor
 * does a signal after it has let go of the list. One that is LEAVING does, and
 * destroy waits for it.
 *
 * Ledger
 *  C1	is cond-list.c's.
 *  C2	status: release by the signal, acquire by the waiter: the signal's last use
 *	of the node comes before its thread uses it again; its `queue` and `next`
 *	come with the headship.
 *  C3	Cancellation: pthread_cancel sets glibc's flag, then `cancelled`, and then
 *	looks for a BLOCKED node; the waiter becomes BLOCKED and then looks at
 *	`cancelled`. A full fence between on both sides: at least one sees the other.
 *	Who sees `cancelled` acquires it, and so sees glibc's flag when it acts.
 *  C4	status: release by who claims, acquire by the waiter: the look at the owner of its mutex
 *	(cond-signal.c, owned()) comes before a waiter that gives up has had the mutex, and frees it.
 * What the program protects with the mutex is ordered by the mutex. */
#include "pthread/cond.h"

#include <errno.h>
#include <string.h>

#include "base/await.h"
#include "base/unwind.h"
#include "pthread/cond-list.h"
#include "pthread/cond-signal.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
#include "pthread/trial.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/control.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/hall.h"
#include "rt/probe.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"
#include "rt/watch.h"

enum {
	/* After so many waits with a timer a thread sleeps without one, until it has to be roused. */
	CALM = 64,
	/* So many at most, or a signal to one of them would wake many who have its bit, for nothing. */
	CROWD_MOST = 256,
	/* With fewer other waiters it is not worth while to try how to wait for the mutex. */
	OTHERS = 2,
	/* Not who has had to wait for the mutex then by so much more than every third time; for so many waits. */
	CROWDED = 30,
	ALOOF = 1000,
	/* A signal is half done for no longer than so many rounds. */
	PASSING = 100,
	/* How long a thread without a node sleeps at a time. */
	DOZE_US = 1000,
};

static bool stop_waiting(struct pk_waiter *w)
{
	uint32_t seen = pk_load_relaxed(&w->status);

	return pk_state(seen) == PK_BLOCKED && pk_cas_relaxed(&w->status, &seen, pk_in_state(seen, PK_LEAVING));
}

/* Who is before it in the chain may be held up: if the mutex is free, or after long, it goes for that by itself. As where
 * a look gives up a place (pthread/turn.c), not with its last node. */
static void stop_following(struct pk_waiter *w)
{
	uint32_t seen = pk_load_relaxed(&w->status);

	if (pk_state(seen) == PK_CLAIMED && pk_self.waits == w && pk_waiters_idle(w->record) &&
	    (!pk_load_relaxed(pk_self.wanted.word) || pk_self.wanted.looks >= PK_DOZE_LAST))
		pk_cas_release(&w->status, &seen, pk_in_state(seen, PK_ABANDONED)); /* C2 */
}

/* Sleep until something has become of w. ETIMEDOUT: it leaves for the deadline. Without one it wakes now and then all
 * the same, or is roused: it may have been signalled, and depend on others since (rt/doze.h). */
static int sleep_blocked(struct pk_waiter *w, const struct pk_deadline *deadline)
{
	const bool together = w->manner >= PK_TOGETHER;
	const unsigned hall = together ? w->manner - PK_TOGETHER : 0;
	unsigned looks = PK_DOZE_IDLE, passing = PASSING;

	for (;;) {
		uint32_t calls = together ? pk_hall_ready(hall) : 0;
		uint32_t status = pk_load_acquire(&w->status); /* C2 */
		enum pk_state state = pk_state(status);
		bool blocked = state == PK_BLOCKED, look = false;
		int late = 0;

		if (!blocked && state != PK_CLAIMED && state != PK_PARKED)
			return 0;
		if (!blocked && w->manner == PK_ENDLESS) {
			/* If it has been awake it may see a signal that is half done, and is not behind others. (One that was roused looks the
			 * same.) A handler may give its place up, as if it slept. */
			if (state == PK_CLAIMED) {
				bool over;

				pk_store_relaxed(&pk_self.asleep, true);
				over = pk_spent(&passing);
				pk_store_relaxed(&pk_self.asleep, false);
				if (!over)
					continue;
			}
			pk_self.calm = 0;
			pk_store_relaxed(&w->manner, PK_UNTIMED); /* from now on it has one */
		}
		/* Once signalled it waits for the mutex, without a deadline. */
		if (state == PK_PARKED) {
			pk_doze(&w->status, status, NULL);
			continue;
		}
		pk_store_relaxed(&pk_self.asleep, true);
		if (together)
			late = pk_hall_sleep(hall, calls, pk_waiter_serial(w), blocked ? deadline : NULL);
		else if (blocked && (deadline || w->manner == PK_ENDLESS))
			late = pk_futex_wait(&w->status, status, deadline);
		else
			pk_doze_alone(&w->status, status, NULL, blocked ? &looks : &pk_self.wanted.looks, &look);
		pk_store_relaxed(&pk_self.asleep, false);
		if (late && stop_waiting(w))
			return late;
		if (look && !blocked)
			stop_following(w);
	}
}

static void leave(struct pk_cond *c, struct pk_waiter *w)
{
	pk_cond_take(c);
	pk_cond_unlist(c, w);
	pk_cond_let_go(c);
	pk_waiter_free(w);
}

/* Unlocking the mutex has failed: the wait does not take place. */
static void take_back(struct pk_cond *c, struct pk_waiter *w)
{
	if (stop_waiting(w) || pk_state(pk_load_relaxed(&w->status)) == PK_LEAVING) { /* or pthread_cancel has ended it */
		leave(c, w);
		return;
	}
	/* It has been signalled: by itself, as the mutex is none of ours. Whoever has done so frees the node if a handler has
	 * given it up. */
	sleep_blocked(w, NULL);
	if (pk_state(pk_load_relaxed(&w->status)) == PK_SIGNALLED)
		pk_waiter_free(w);
	pk_cond_signal((pthread_cond_t *)c);
}

/* If the thread has been cancelled it does not come back from here, but may wait in
 * the handlers that it runs. */
static void act_if_cancelled(void)
{
	bool acts = pk_self.acts;

	pk_thread_acts(true);
	pk_real()->pthread_testcancel();
	pk_thread_acts(acts);
}

/* Those behind the thread go for the mutex by themselves. */
static void wake_chain(void)
{
	struct pk_waiter *chain = pk_self.chain;

	pk_self.chain = NULL;
	pk_cond_wake(chain);
}

/* A wait that has begun. */
struct wait {
	struct pk_cond *c;
	pthread_mutex_t *mutex;
	struct pk_queue *home;
	struct pk_waiter *w;
	bool user;  /* the mutex counts the thread, which is to be taken back */
	bool watch; /* it is told of: `watched` */
	bool left;  /* it was not signalled */
	struct pk_watched watched;
	struct _pthread_cleanup_buffer frame;
};

/* How often the thread has had to wait for a lock. */
static uint64_t waits_of(const struct pk_record *r)
{
	return r->stat[PK_STAT_entered] + r->stat[PK_STAT_bypassed];
}

/* The thread, woken with others, has the mutex again, for which it has had to wait as well or has not. Where that is quick each has come and
 * gone before the next one is awake. If more than every third has to wait they are in each other's way: they would better be
 * woken one by one, or sleep in the mutex's queue. */
static void note_crowd(bool waited)
{
	if (!waited) {
		pk_self.crowded -= pk_self.crowded > 0;
	} else if ((pk_self.crowded += 2) > CROWDED) {
		pk_self.crowded = CROWDED / 2;
		pk_self.aloof = ALOOF;
	}
}

/* Have the mutex again as one that comes anew. `next`: who is behind it in a broadcast, or null; on return, if they are to be seen to. What
 * locking it says. */
static int lock_again(struct wait *s, struct pk_waiter **next)
{
	int ret;

	if (pk_unlikely(*next != NULL)) {
		wake_chain(); /* of the wait that this one, in a handler, has come into */
		pk_self.chain = *next;
	}
	ret = pk_mutex_cond_lock(s->mutex, s->user);
	if (*next && pk_self.chain != *next)
		*next = NULL; /* such a wait has woken them */
	else if (*next)
		pk_self.chain = NULL;
	return ret;
}

/* Something has become of the node: have the mutex again. What locking it says. */
static int resume(struct wait *s)
{
	struct pk_waiter *w = s->w, *next = NULL;
	enum pk_state state = pk_state(pk_load_acquire(&w->status)); /* C2 */
	bool queued;
	int ret = 0;

	s->left = state == PK_LEAVING;
	if (pk_unlikely(s->watch))
		pk_watch_end(&s->watched, PK_WATCH_COND, s->c, s->left);
	if (state == PK_SIGNALLED || (state == PK_HEAD && !w->queue))
		next = pk_load_relaxed(&w->next);
	if (s->home && state != PK_SIGNALLED && state != PK_LEAVING) {
		queued = state == PK_SPINNING || (state == PK_HEAD && w->queue);
		ret = pk_mutex_cond_settle(s->mutex, w, queued, s->user);
		pk_store_relaxed(&pk_self.waits, NULL);
		if (state == PK_HEAD && !queued) {
			if (pk_unlikely(pk_state(pk_load_relaxed(&w->status)) == PK_ORPHAN))
				next = NULL; /* a handler has forked, and they are the parent's */
			pk_waiter_free(w);
		}
		if (pk_unlikely(ret))
			ret = lock_again(s, &next);
	} else {
		const struct pk_record *r = state == PK_SIGNALLED && w->manner >= PK_TOGETHER ? w->record : NULL;
		uint64_t waits = r ? waits_of(r) : 0;

		pk_store_relaxed(&pk_self.waits, NULL);
		if (s->left)
			leave(s->c, w);
		else if (state == PK_SIGNALLED)
			pk_waiter_free(w);
		ret = lock_again(s, &next);
		if (r)
			note_crowd(waits_of(r) != waits);
	}
	if (next)
		pk_cond_pass_on(s->home, next);
	return ret;
}

/* A handler that has come into the sleep ends the thread, acts on a cancellation, or jumps out. The program's cleanup
 * handlers are to find the mutex locked (POSIX, pthread_cond_wait). A signal that was meant for the thread is lost
 * with it: the object may be gone. */
static void unwound(void *wait)
{
	struct wait *s = wait;

	_pthread_cleanup_pop(&s->frame, 0);
	pk_store_relaxed(&pk_self.asleep, false);
	stop_waiting(s->w);
	sleep_blocked(s->w, NULL);
	resume(s);
}

/* How to wait (enum pk_manner): together with others, or with a timer, or without. One costs up to an eighth of a wake-up, and to
 * rouse the thread a whole one. So who does not know waits with one, and now and then without, to find out; who is not roused then goes on so. */
static unsigned manner_for(const struct pk_cond *c, const struct pk_deadline *deadline)
{
	unsigned hall = pk_load_relaxed(&c->hall) - 1u;

	if (pk_load_relaxed(&c->apart) == PK_COND_APART && hall < PK_HALLS && pk_load_relaxed(&c->refs) / PK_COND_WAITER < CROWD_MOST) {
		if (!pk_self.aloof)
			return PK_TOGETHER + hall;
		pk_self.aloof--;
	}
	if (deadline || pk_self.calm < CALM) {
		pk_self.calm += !deadline;
		return PK_UNTIMED;
	}
	return pk_doze_looks() ? PK_ENDLESS : PK_UNTIMED;
}

/* What those who share a mutex do between two waits for a condition variable nobody sees, so it is tried how they had better wait for the mutex
 * (trial.h): where they are several who wait, for signals, and the mutex is waited for as well. The caller has it, and is to wait with node w; it is not
 * listed yet, after which it would leave the object alone. */
static void ask_for_trial(const struct pk_cond *c, const struct pk_waiter *w)
{
	struct pk_mutex *m = w->home ? pk_mutex_of_queue(w->home) : NULL;
	const struct pk_admit_ops *ops;

	if (!pk_lot_adapts || !m || pk_load_relaxed(&c->called) != PK_COND_BY_SIGNAL || pk_load_relaxed(&c->refs) / PK_COND_WAITER < OTHERS ||
	    !(pk_load_relaxed(&m->lock) > 1 || pk_queue_busy(&m->queue)))
		return;
	ops = pk_policy_for(pk_mutex_policy(m));
	if (ops && ops->policy == PK_POLICY_shfl && pk_spin_limit(w->socket))
		pk_trial_ask(pk_mutex_gate(m));
}

/* Wait with node w. */
static int wait_listed(struct pk_cond *c, pthread_mutex_t *mutex, struct pk_queue *home, struct pk_waiter *w,
		       const struct pk_deadline *deadline)
{
	struct pk_record *r = w->record;
	struct wait s;
	int late, ret;

	pk_count(w, PK_STAT_blocked);
	w->home = home;
	w->socket = (uint8_t)pk_socket_here(r->index);
	ask_for_trial(c, w);
	w->cohort = (uint8_t)pk_lot_cohort(w->socket, r->index);
	pk_store_relaxed(&w->manner, (uint8_t)manner_for(c, deadline));
	w->slept = true; /* it may be moved to the word */
	w->queue = &c->waiters;
	w->policy = PK_POLICY_word; /* none, until it is moved */
	w->batch = 0;
	pk_store_relaxed(&w->shuffler, 0);
	/* release: pthread_cancel reads of the record what was written before */
	pk_store_release(&w->status, pk_in_state(pk_load_relaxed(&w->status) + PK_STATE_MASK + 1, PK_BLOCKED));
	pk_cond_list(c, w);
	pk_doze_begin(w, &pk_mutex_of(mutex)->lock, NULL, NULL);
	pk_fence(); /* C3 */
	if (pk_unlikely(pk_load_acquire(&r->cancelled)) && !pk_self.acts)
		stop_waiting(w);
	s.c = c;
	s.mutex = mutex;
	s.home = home;
	s.w = w;
	ret = pk_mutex_cond_unlock(mutex, &s.user);
	if (pk_unlikely(ret)) {
		pk_store_relaxed(&pk_self.waits, NULL);
		take_back(c, w);
		return ret;
	}
	s.watch = pk_watch_begin(&s.watched);
	_pthread_cleanup_push(&s.frame, unwound, &s);
	late = sleep_blocked(w, deadline);
	_pthread_cleanup_pop(&s.frame, 0);
	ret = resume(&s);
	/* Nobody has signalled us, so it is pthread_cancel's doing, most likely. */
	if (s.left && !late)
		act_if_cancelled();
	return ret ? ret : late;
}

static void doze_unwound(void *wait)
{
	struct wait *s = wait;

	_pthread_cleanup_pop(&s->frame, 0);
	pk_mutex_cond_lock(s->mutex, s->user);
}

/* Wait without a node: in short sleeps, each of which may be the last. */
static PK_COLD int doze(pthread_mutex_t *mutex, const struct pk_deadline *deadline)
{
	static const int nobody;
	uint64_t until = pk_clock_us() + DOZE_US;
	struct timespec soon = {(time_t)(until / 1000000), (long)(until % 1000000 * 1000)};
	struct pk_deadline nap = {&soon, CLOCK_MONOTONIC};
	struct wait s = {.mutex = mutex};
	int ret = pk_mutex_cond_unlock(mutex, &s.user);

	if (ret)
		return ret;
	pk_count_in(pk_self.record, PK_STAT_dozed);
	_pthread_cleanup_push(&s.frame, doze_unwound, &s);
	while (!pk_futex_wait(&nobody, 0, &nap))
		;
	_pthread_cleanup_pop(&s.frame, 0);
	ret = pk_mutex_cond_lock(mutex, s.user);
	act_if_cancelled();
	if (!ret && deadline && pk_clock_passed(deadline->clock, deadline->abstime))
		ret = ETIMEDOUT;
	return ret;
}

static int wait_private(struct pk_cond *c, pthread_mutex_t *mutex, const struct pk_deadline *deadline)
{
	struct pk_record *r = pk_thread_record();
	struct pk_waiter *w;
	struct pk_queue *home;
	int ret = pk_mutex_cond_begin(mutex, &home);

	if (ret)
		return ret;
	/* acquire: glibc's flag was set before ours, so testcancel sees it (C3) */
	if (r && pk_unlikely(pk_load_acquire(&r->cancelled)))
		pk_store_relaxed(&r->cancelled, false);
	act_if_cancelled();
	w = r && !pk_self.waits ? pk_waiter_take(r) : NULL;
	if (pk_unlikely(!w))
		return doze(mutex, deadline);
	return wait_listed(c, mutex, home, w, deadline);
}

static int wait(struct pk_cond *c, pthread_mutex_t *mutex, const struct pk_deadline *deadline)
{
	int type, ret;

	PK_PROBE2(cond_wait, c, mutex);
	if (deadline && (unsigned long)deadline->abstime->tv_nsec >= 1000000000)
		return EINVAL;
	/* A thread that may be cancelled anywhere must not be in here. */
	pk_real()->pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pk_control_poll();
	if (pk_unlikely(pk_cond_is_shared(c)))
		ret = pk_cond_shared_wait(c, mutex, deadline);
	else
		ret = wait_private(c, mutex, deadline);
	if (pk_unlikely(type != PTHREAD_CANCEL_DEFERRED))
		pk_real()->pthread_setcanceltype(type, &type);
	return ret;
}

/* Whether glibc's function is to be called. In either case a handler gives its thread's place up, as those behind it may be about to
 * signal. */
static bool waits_as_glibc(struct pk_cond *c)
{
	pk_turn_step_back();
	return pk_cond_is_glibcs(c);
}

int pk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct pk_cond *c = pk_cond_of(cond);

	if (waits_as_glibc(c))
		return pk_real()->pthread_cond_wait(cond, mutex);
	return wait(c, mutex, NULL);
}

int pk_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *abstime)
{
	struct pk_cond *c = pk_cond_of(cond);
	bool monotonic = pk_cond_flags(c) & PK_COND_MONOTONIC;
	struct pk_deadline deadline = {abstime, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME};

	if (waits_as_glibc(c))
		return pk_real()->pthread_cond_timedwait(cond, mutex, abstime);
	return wait(c, mutex, &deadline);
}

int pk_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abstime)
{
	struct pk_cond *c = pk_cond_of(cond);
	struct pk_deadline deadline = {abstime, clock};

	if (waits_as_glibc(c))
		return pk_real()->pthread_cond_clockwait(cond, mutex, clock, abstime);
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	return wait(c, mutex, &deadline);
}

void pk_cond_waiter_gone(struct pk_waiter *w)
{
	wake_chain();
	if (!w)
		return;
	if (w->policy != PK_POLICY_word) { /* in a lock's queue */
		pk_turn_gone(w);
		return;
	}
	pk_waiter_abandon(w);
	switch (pk_state(pk_load_acquire(&w->status))) {
	case PK_LEAVING:
		leave((struct pk_cond *)((char *)w->queue - offsetof(struct pk_cond, waiters)), w);
		break;
	case PK_HEAD:
		if (w->queue) {
			pk_turn_gone(w);
			break;
		}
		__attribute__((fallthrough));
	case PK_SIGNALLED:
		pk_cond_wake(pk_load_relaxed(&w->next));
		pk_waiter_free(w);
		break;
	default:
		pk_turn_gone(w);
	}
}

int pk_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	struct pk_cond *c = pk_cond_of(cond);
	int ret;

	PK_PROBE2(cond_init, c, attr);
	if (!attr) {
		memset(cond, 0, sizeof(*cond));
		return 0;
	}
	/* It leaves the flags of the attributes, and zero otherwise. */
	ret = pk_real()->pthread_cond_init(cond, attr);
	/* While nobody knows what is set it is glibc's, which every partner can use. */
	if (!ret && pk_cond_is_shared(c) && pk_load_acquire(&pk_config_is_read) && pk_config.cond_shared[0] == 'p' &&
	    strcmp(pk_load_relaxed(&pk_config.policy), "glibc"))
		pk_store_relaxed(&c->waiters.tail, PK_COND_OURS);
	return ret;
}

int pk_cond_destroy(pthread_cond_t *cond)
{
	struct pk_cond *c = pk_cond_of(cond);

	PK_PROBE1(cond_destroy, c);
	if (pk_cond_is_glibcs(c))
		return pk_real()->pthread_cond_destroy(cond);
	if (pk_cond_is_shared(c))
		return pk_cond_shared_destroy(c);
	pk_cond_take(c);
	pk_store_relaxed(&c->apart, 0);
	pk_hall_leave(c->hall - 1u, c);
	pk_store_relaxed(&c->hall, 0);
	while (pk_cond_front(c)) {
		uint32_t refs = pk_load_relaxed(&c->refs) | PK_COND_DESTROYER;

		pk_store_relaxed(&c->refs, refs);
		pk_cond_let_go(c);
		pk_futex_wait(&c->refs, refs, NULL);
		pk_cond_take(c);
	}
	pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) & ~PK_COND_DESTROYER);
	pk_cond_let_go(c);
	return 0;
}
