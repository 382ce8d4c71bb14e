/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Signals to process-private condition variables; the contract is in cond.h, the states are in cond.c.
 *
 * *Wait morphing*: the signal of a thread that holds the mutex does not wake its waiter
 * to fight for the mutex, but moves it, asleep, into the mutex's admission queue. There
 * it is like a waiter that has parked, and wakes when its turn comes. (But for one who is
 * alone, as many are, or a few: goes_ahead(); or, moved alone, to the mutex's word, where
 * others wait there: is_apart().) A thread that does
 * not hold the mutex must not touch it, since it may be gone as soon as a waiter is let
 * loose. So it wakes those that it signals if they are few, or may spin; else the first, and the
 * others are a *chain* behind that one (`next`), which moves them when it has got the
 * mutex itself. Where the policy has no queue the next one of the chain is moved to the
 * mutex's word, and goes on likewise.
 *
 * *Crowds* sleep in a hall (rt/hall.h), not on their status, where broadcasts come without the mutex, or with it to not so many, who may spin:
 * all are woken by one call then.
 * They are never moved, nor in a chain: whoever signals one of them makes it SIGNALLED.
 *
 * State of `apart`, a hint
 *	0	1		by a broadcast to a crowd (gathers())
 *	1	2		by the next one, if a hall is to be had
 *	any	0		by a signal that leaves others waiting, any by who holds the mutex, other broadcasts by
 *				who does, destroy
 * At 2 who comes goes to the hall, unless it has been in others' way there (note_crowd()). It is kept until destroy: who sleeps
 * there when it is another one's is woken for nothing. */
#include "pthread/cond-signal.h"

#include <string.h>

#include "admit/list.h"
#include "pthread/cond-list.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
#include "rt/config.h"
#include "rt/hall.h"
#include "rt/probe.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"

enum {
	/* How many waiters a signal looks at for one of its own socket. */
	LOCAL_WAITERS = 32,
	/* Those of a broadcast are put in order by so many sockets, and cache groups. */
	CHAINS = 16,
	GROUPS = 64,
	/* Waiters that a broadcast without the mutex wakes where nobody may spin: this many, or the first of more. */
	FEW = 8,
	/* So many at most wake at once though their mutex is held, where they may spin for it. */
	AHEAD = 4,
	/* Of those whom a broadcast has moved its thread wakes so many, when it has unlocked the mutex. */
	CALLED = 16,
	/* Broadcasts without the mutex to so many at least, PK_COND_APART times in a row: the next ones are to sleep together. */
	CROWD = 4,
	/* With the mutex held to so many, and no more than that with one socket or several. */
	CROWD_HELD = 3,
	HELD_NEAR = 16,
	HELD_FAR = 5,
};

/* The waiter is to be signalled, unless it is leaving: then false. */
static bool claim(struct pk_cond *c, struct pk_waiter *w)
{
	uint32_t seen = pk_load_relaxed(&w->status);

	if (pk_state(seen) != PK_BLOCKED || !pk_cas_release(&w->status, &seen, pk_in_state(seen, PK_CLAIMED))) /* C4 */
		return false;
	pk_cond_unlist(c, w);
	w->hint = NULL;
	w->queue = NULL; /* and of no mutex's yet */
	pk_store_relaxed(&w->next, NULL);
	return true;
}

static bool is_owner(struct pk_mutex *m)
{
	return pk_self.tid && pk_load_relaxed(&m->owner) == pk_self.tid;
}

/* The home of those waiters whose mutex the caller holds, or null; before one of them is claimed. Who is listed takes the
 * list's lock before it can lock the mutex, and so the mutex is there; of who is claimed that cannot be said. Where waiters
 * have several mutexes, that of the first. */
static struct pk_queue *owned(struct pk_cond *c)
{
	struct pk_waiter *first = pk_cond_front(c);
	struct pk_queue *home = first ? first->home : NULL;

	return home && is_owner(pk_mutex_of_queue(home)) ? home : NULL;
}

static unsigned socket_here(void)
{
	return pk_socket_here(pk_self.record ? pk_self.record->index : 0);
}

/* PARKADE_COND=local: a waiter of the caller's socket among the first ones, or null. */
static struct pk_waiter *claim_local(struct pk_cond *c)
{
	unsigned socket = socket_here();
	struct pk_waiter *first = pk_cond_front(c), *w = first;

	if (c->passed >= pk_knob(batch))
		return NULL;
	for (int i = 0; i < LOCAL_WAITERS && w; i++, w = pk_cond_after(c, w))
		if (w->socket == socket && claim(c, w)) {
			c->passed += w != first;
			return w;
		}
	return NULL;
}

/* The waiter that a signal is for, taken from the list; null if nobody waits. */
static struct pk_waiter *claim_one(struct pk_cond *c)
{
	struct pk_waiter *w;

	if (pk_sockets > 1 && pk_config.cond[0] == 'l' && (w = claim_local(c)))
		return w;
	c->passed = 0;
	for (w = pk_cond_front(c); w && !claim(c, w); w = pk_cond_after(c, w))
		;
	return w;
}

/* Waiters, linked by `next`. */
struct chain {
	struct pk_waiter *first, *last;
};

static void join(struct chain *a, const struct chain *b)
{
	if (!b->first)
		return;
	if (a->first)
		pk_store_relaxed(&a->last->next, b->first);
	else
		a->first = b->first;
	a->last = b->last;
}

/* Put w into the chain of its socket, behind the latest one of its cohort, if there is one. */
static void add(struct chain *to, struct pk_waiter **latest, struct pk_waiter *w)
{
	struct pk_waiter *before = *latest;

	*latest = w;
	if (!before || before == to->last || before->socket != w->socket || before->cohort != w->cohort) {
		join(to, &(struct chain){w, w});
		return;
	}
	pk_store_relaxed(&w->next, pk_load_relaxed(&before->next));
	pk_store_relaxed(&before->next, w);
}

/* All of them (`n`: how many), socket by socket, the caller's first, in each cohort by cohort, and else in order of arrival: the mutex and what it
 * protects go round the machine once then. Of very many sockets some share a chain, and of cohorts some are not kept together. */
static struct pk_waiter *claim_all(struct pk_cond *c, unsigned *count)
{
	struct chain all = {NULL, NULL}, of[CHAINS];
	struct pk_waiter *latest[GROUPS] = {NULL};
	struct pk_waiter *w, *next;
	unsigned n = pk_sockets < CHAINS ? pk_sockets : CHAINS, here = n > 1 ? socket_here() : 0;

	memset(of, 0, n * sizeof(*of));
	for (w = pk_cond_front(c); w; w = next) {
		next = pk_cond_after(c, w);
		if (claim(c, w)) {
			add(&of[w->socket % n], &latest[w->cohort % GROUPS], w);
			++*count;
		}
	}
	for (unsigned i = 0; i < n; i++)
		join(&all, &of[(here + i) % n]);
	return all.first;
}

/* The first live one of the chain is to lock the mutex by itself, and is to be woken; null: there is none. */
static struct pk_waiter *let_loose(struct pk_waiter *w)
{
	while (w) {
		uint32_t seen = pk_load_acquire(&w->status);
		struct pk_waiter *next = pk_load_relaxed(&w->next);

		/* C2. Fails if it has given up, and is at the mutex already. */
		if (pk_state(seen) == PK_CLAIMED &&
		    pk_cas_acq_rel(&w->status, &seen, pk_in_state(seen, PK_SIGNALLED))) {
			pk_count_in(pk_self.record, PK_STAT_signalled);
			return w;
		}
		if (pk_unlikely(pk_state(seen) == PK_ORPHAN))
			return NULL; /* a handler has forked, and they are the parent's */
		pk_waiter_free(w);
		w = next;
	}
	return NULL;
}

void pk_cond_wake(struct pk_waiter *w)
{
	if ((w = let_loose(w)))
		pk_futex_wake(&w->status, 1);
}

/* Let each of the chain lock the mutex by itself. */
static void wake_each(struct pk_waiter *w)
{
	for (struct pk_waiter *next; w; w = next) {
		next = pk_load_relaxed(&w->next);
		pk_store_relaxed(&w->next, NULL);
		pk_cond_wake(w);
	}
}

/* Those of the chain who sleep in the hall are woken all at once, whether the mutex is the caller's or not: they cannot be
 * moved. The others. (A waiter may have come long after it has read which hall it was.) */
static struct pk_waiter *wake_together(struct pk_waiter *w)
{
	struct chain others = {NULL, NULL};
	unsigned hall = 0;
	uint32_t bits = 0;

	for (struct pk_waiter *next; w; w = next) {
		unsigned manner = pk_waiter_manner(w);

		next = pk_load_relaxed(&w->next);
		pk_store_relaxed(&w->next, NULL);
		if (manner < PK_TOGETHER) {
			join(&others, &(struct chain){w, w});
		} else if (let_loose(w)) { /* the node is its thread's again */
			if (bits && hall != manner - PK_TOGETHER) {
				pk_hall_call(hall, bits);
				bits = 0;
			}
			hall = manner - PK_TOGETHER;
			bits |= pk_hall_bit(pk_waiter_serial(w));
		}
	}
	if (bits)
		pk_hall_call(hall, bits);
	return others.first;
}

/* The first live one of the chain is next at the word, which the caller has. */
static void follow(struct pk_waiter *w, int *held)
{
	uint32_t was;

	while (!pk_list_crown(w, &was)) { /* C2 */
		struct pk_waiter *next = pk_load_relaxed(&w->next);

		pk_waiter_free(w);
		if (!next)
			return;
		w = next;
	}
	pk_count_in(pk_self.record, PK_STAT_morphed);
	if (!pk_list_move(w, pk_in_state(was, PK_HEAD), held))
		pk_futex_wake(&w->status, 1);
}

/* Whether all of a chain are woken to fight for the mutex: it is glibc's, or one that its waiter still holds; or it is not
 * the caller's, and they are few, or may spin for it: a wake-up takes longer than a short section, so they hardly meet. */
static bool goes_apart(const struct pk_queue *home, bool owner, const struct pk_waiter *w)
{
	unsigned n = 0;

	if (!home || (!owner && pk_spin_limit(w->socket)))
		return true;
	while (!owner && w && n++ < FEW)
		w = pk_load_relaxed(&w->next);
	return !w;
}

/* The thread, which holds m, has put a chain of n at the head of its queue. The first one wakes by the unlock of m: until
 * it runs, and wakes others, CPUs would be idle. So pk_cond_call() wakes them, too. It is called with m let go, when they
 * may have left, or wait for something else, or be the parent's before a fork: being roused harms nobody (list.h). Nor does
 * it if the unlock wakes nobody, and the thread calls them when it lets go another mutex at that address. */
static void call_later(const struct pk_mutex *m, struct pk_waiter *first, unsigned n)
{
	if (n < 2 || pk_state(pk_load_relaxed(&first->status)) != PK_HEAD)
		return; /* others come first */
	pk_self.moved.to = m;
	pk_self.moved.first = first;
	pk_self.moved.count = n < CALLED ? n : CALLED;
}

void pk_cond_call(void)
{
	struct pk_waiter *w = pk_self.moved.first;

	pk_self.moved.to = NULL;
	for (unsigned n = pk_self.moved.count; w && n; n--, w = pk_list_next(w))
		pk_list_call(pk_self.record, w);
}

/* The waiter, which is claimed or in a mutex's queue by now, is behind others. If it sleeps without a timer it is to
 * wake, and to sleep with one (rt/doze.h). It may have left and wait for something else: that harms nobody (list.h). */
static void rouse(const struct pk_waiter *w)
{
	if (pk_waiter_manner(w) == PK_ENDLESS)
		pk_futex_wake(&w->status, 1);
}

/* Who is moved alone is to wait as those do who wait for m, the caller's: at its word, or in its queue (pthread/trial.h). */
static bool is_apart(const struct pk_mutex *m, const struct pk_admit_ops *ops)
{
	return (pk_load_relaxed(&m->kind) & (PK_FLAG_APART | PK_FLAG_QUEUE)) == PK_FLAG_APART && ops->policy == PK_POLICY_shfl;
}

/* Those of the chain, who wait with the same mutex, have been signalled. Unless the caller is its owner they may have
 * given up meanwhile, and the mutex may be gone. */
static void deliver_to(struct pk_queue *home, bool owner, struct pk_waiter *first)
{
	struct pk_mutex *m = pk_mutex_of_queue(home);
	const struct pk_admit_ops *ops;
	struct pk_waiter *last, *next;
	unsigned n = 1;

	if (goes_apart(home, owner, first)) {
		wake_each(first);
	} else if (!owner) {
		pk_cond_wake(first);
	} else if ((ops = pk_policy_for(pk_mutex_policy(m))) && ops->splice && /* its holder may look at it */
		   (pk_load_relaxed(&first->next) || !is_apart(m, ops))) {
		for (last = first; pk_count_in(pk_self.record, PK_STAT_morphed), next = pk_load_relaxed(&last->next); n++)
			last = next;
		ops->splice(home, first, last, &m->lock);
		/* SPINNING is not awake yet. A head is woken as any other (pk_list_wake()). */
		if (pk_state(pk_load_relaxed(&first->status)) < PK_HEAD)
			rouse(first);
		/* All have given up meanwhile: somebody may have gone to the lot because of them. */
		if (pk_unlikely(!pk_queue_busy(home)) && pk_lot_open)
			pk_lot_check_here(pk_mutex_gate(m));
		call_later(m, first, n);
	} else {
		follow(first, &m->lock);
	}
}

void pk_cond_pass_on(struct pk_queue *home, struct pk_waiter *chain)
{
	deliver_to(home, is_owner(pk_mutex_of_queue(home)), chain);
}

/* Who was alone, or one of two, is woken at once, though the caller holds its mutex: hardly anybody else is there to fight for it, and
 * by the time that the waiter is up the mutex has been let go. To move it would cost a system call before the one that wakes
 * it, and both threads wait for that; and a second one would be woken only when the first one is up. So are a few, where they may spin: in the queue each would take lines from one another while the
 * others wait for it (sim/FINDINGS.md). */
static bool goes_ahead(struct pk_queue *owned, const struct pk_waiter *w)
{
	struct pk_mutex *m;
	unsigned n = 0;

	for (; w; w = pk_load_relaxed(&w->next))
		if (!owned || w->home != owned || n++ >= (pk_spin_limit(w->socket) ? AHEAD : 1))
			return false;
	m = pk_mutex_of_queue(owned);
	return pk_load_relaxed(&m->lock) == 1 && !pk_queue_busy(owned) &&
	       !(pk_load_relaxed(&m->kind) & (PK_FLAG_LOT | PK_FLAG_QUEUE));
}

/* The chain has been taken from the list; nobody else waits, or one, if `few`. A program may wait with several mutexes, one after the
 * other. (At the same time it must not, says POSIX; it works all the same.) */
static void deliver(struct pk_queue *owned, struct pk_waiter *chain, bool few)
{
	chain = wake_together(chain);
	if (chain && few && goes_ahead(owned, chain)) {
		wake_each(chain);
		return;
	}
	while (chain) {
		struct pk_waiter *first = chain, *last = chain, *w;
		bool owner;

		while ((chain = pk_load_relaxed(&last->next)) && chain->home == first->home)
			last = chain;
		pk_store_relaxed(&last->next, NULL);
		owner = first->home && first->home == owned;
		for (w = goes_apart(first->home, owner, first) ? NULL : pk_load_relaxed(&first->next); w;
		     w = pk_load_relaxed(&w->next))
			rouse(w);
		deliver_to(first->home, owner, first);
	}
}

/* So many would best be woken by one call. If the caller holds their mutex (`home`, or null) they meet at it: then only who may spin
 * for it, and not more than are as fast as one by one in the mutex's queue (sim/FINDINGS.md). Where it has none they would not
 * learn that they are in each other's way: their waits are not counted. */
static bool gathers(unsigned n, struct pk_queue *home)
{
	const struct pk_admit_ops *ops;

	if (!home)
		return n >= CROWD;
	if (n < CROWD_HELD || n > (pk_sockets > 1 ? HELD_FAR : HELD_NEAR) || !pk_spin_limit(socket_here()))
		return false;
	ops = pk_policy_for(pk_mutex_policy(pk_mutex_of_queue(home)));
	return ops && ops->splice;
}

/* A crowd has been woken; or one waiter of several has, or they were moved to the mutex. */
static void note_apart(struct pk_cond *c, bool apart)
{
	unsigned seen = c->apart, times = !apart ? 0 : seen < PK_COND_APART ? seen + 1 : seen;

	if (times == PK_COND_APART && !c->hall) {
		unsigned hall = pk_hall_take(c);

		if (hall < PK_HALLS)
			pk_store_relaxed(&c->hall, (uint16_t)(hall + 1));
		else
			times = seen;
	}
	if (times != seen)
		pk_store_relaxed(&c->apart, (uint8_t)times);
}

/* Somebody is called, in that way. */
static void note_call(struct pk_cond *c, uint8_t how)
{
	if (c->called != how)
		pk_store_relaxed(&c->called, how);
}

int pk_cond_signal_slow(pthread_cond_t *cond)
{
	struct pk_cond *c = pk_cond_of(cond);
	struct pk_queue *home;
	struct pk_waiter *w, *last;
	bool few;

	PK_PROBE1(cond_signal, c);
	if (pk_cond_is_glibcs(c))
		return pk_real()->pthread_cond_signal(cond);
	if (pk_cond_is_shared(c))
		return pk_cond_shared_signal(c);
	pk_cond_take(c);
	home = owned(c);
	w = claim_one(c);
	last = pk_cond_last(c);
	few = !last || last == pk_cond_first(c);
	if (home || last)
		note_apart(c, false);
	if (w)
		note_call(c, PK_COND_BY_SIGNAL);
	pk_cond_let_go(c);
	deliver(home, w, few);
	return 0;
}

int pk_cond_broadcast_slow(pthread_cond_t *cond)
{
	struct pk_cond *c = pk_cond_of(cond);
	struct pk_queue *home;
	struct pk_waiter *chain;
	unsigned n = 0;

	PK_PROBE1(cond_broadcast, c);
	if (pk_cond_is_glibcs(c))
		return pk_real()->pthread_cond_broadcast(cond);
	if (pk_cond_is_shared(c))
		return pk_cond_shared_broadcast(c);
	pk_cond_take(c);
	home = owned(c);
	chain = claim_all(c, &n);
	if (home || n >= CROWD)
		note_apart(c, gathers(n, home));
	if (n)
		note_call(c, PK_COND_BY_BROADCAST);
	pk_cond_let_go(c);
	deliver(home, chain, true);
	return 0;
}
