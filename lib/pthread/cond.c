/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Process-private condition variables; the contract is in cond.h.
 *
 * Waiters stand in a list, in order of arrival, the first and the last one named by the
 * object (rt/arena.h). Who comes names the one before it (`hint`), and touches nothing but its
 * own node and the object: it holds the mutex, and each node is a line that is far. `next` is made by
 * whoever goes through the list, for those who have come since (link_up()). The list has a lock of
 * its own, held for a few instructions for each waiter that is touched. Everything
 * else happens in the waiter's status, on which it sleeps.
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
 * there when it is another one's is woken for nothing.
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
 *  C1	lock: acquire when the list is taken, release when it is let go: the list,
 *	and the nodes in it as their threads initialised them.
 *  C2	status: release by the signal, acquire by the waiter: the signal's last use
 *	of the node comes before its thread uses it again; its `queue` and `next`
 *	come with the headship.
 *  C3	Cancellation: pthread_cancel sets glibc's flag, then `cancelled`, and then
 *	looks for a BLOCKED node; the waiter becomes BLOCKED and then looks at
 *	`cancelled`. A full fence between on both sides: at least one sees the other.
 *	Who sees `cancelled` acquires it, and so sees glibc's flag when it acts.
 *  C4	status: release by who claims, acquire by the waiter: the look at the owner of its mutex
 *	(owned()) comes before a waiter that gives up has had the mutex, and frees it.
 * What the program protects with the mutex is ordered by the mutex.
 *
 * Fork: a lock or a list of another incarnation is a thread's that the child does not
 * have, and counts as free and empty. */
#include "pthread/cond.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "admit/list.h"
#include "pthread/cond-shared.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
#include "pthread/trial.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/control.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/fork.h"
#include "rt/hall.h"
#include "rt/probe.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"
#include "rt/watch.h"

enum {
	/* The lock's word: 0, or the holder's incarnation and these. */
	LOCKED = 1,
	CONTENDED = 2, /* somebody may sleep on it */
	INCARNATION_SHIFT = 2,
	/* How long to wait for it awake: it is held for less. So long is a signal half done, too. */
	LOCK_ROUNDS = 100,
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
	/* After so many waits with a timer a thread sleeps without one, until it has to be roused. */
	CALM = 64,
	/* Broadcasts without the mutex to so many at least, so many times in a row: the next ones are to sleep together. */
	CROWD = 4,
	APART = 2,
	/* With the mutex held to so many, and no more than that with one socket or several. */
	CROWD_HELD = 3,
	HELD_NEAR = 16,
	HELD_FAR = 5,
	/* So many at most, or a signal to one of them would wake many who have its bit, for nothing. */
	CROWD_MOST = 256,
	/* In `called`. */
	BY_SIGNAL = 1,
	BY_BROADCAST = 2,
	/* With fewer other waiters it is not worth while to try how to wait for the mutex. */
	OTHERS = 2,
	/* Not who has had to wait for the mutex then by so much more than every third time; for so many waits. */
	CROWDED = 30,
	ALOOF = 1000,
	/* How long a thread without a node sleeps at a time. */
	DOZE_US = 1000,
};

/* ---- the list ---- */

/* The last waiter, or null. What does not belong here is the parent's, or was copied
 * along with another object. Both ends are looked at: a handler may fork between the two stores. */
static struct pk_waiter *last_of(const struct pk_cond *c)
{
	bool ours = c->at == (uintptr_t)c && pk_waiter_named(c->waiters.aux);

	return ours ? pk_waiter_named(pk_load_relaxed(&c->waiters.tail)) : NULL;
}

static void set_last(struct pk_cond *c, const struct pk_waiter *w)
{
	pk_store_relaxed(&c->waiters.tail, w ? pk_waiter_name(w) : 0);
}

/* Where there is a last one. Null: a handler has forked since that was seen. */
static struct pk_waiter *first_of(const struct pk_cond *c)
{
	return pk_waiter_named(c->waiters.aux);
}

/* The first waiter, or null, for who goes through the list: not who stands in another one by now, since a copy of the object was
 * kept, and brought back. */
static struct pk_waiter *front_of(const struct pk_cond *c)
{
	struct pk_waiter *w = last_of(c) ? first_of(c) : NULL;

	return w && w->queue == &c->waiters ? w : NULL;
}

static void set_first(struct pk_cond *c, const struct pk_waiter *w)
{
	c->waiters.aux = pk_waiter_name(w);
}

static void count(struct pk_cond *c, uint32_t n)
{
	pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) + n * PK_COND_WAITER);
}

static void take(struct pk_cond *c)
{
	unsigned budget = LOCK_ROUNDS;
	uint32_t mine, want;

	if (pk_unlikely(!pk_incarnation()))
		pk_fork_begin_child(); /* it must not change while we hold the lock */
	mine = want = pk_incarnation() << INCARNATION_SHIFT | LOCKED;
	for (;;) {
		uint32_t seen = pk_load_relaxed(&c->lock);

		if ((seen & ~(uint32_t)CONTENDED) != mine) {	   /* free, or a ghost's */
			if (pk_cas_acquire(&c->lock, &seen, want)) /* C1 */
				break;
		} else if (pk_spent(&budget) &&
			   (seen & CONTENDED || pk_cas_relaxed(&c->lock, &seen, mine | CONTENDED))) {
			pk_futex_wait(&c->lock, mine | CONTENDED, NULL);
			want = mine | CONTENDED; /* others may sleep there still */
		}
	}
	if (pk_unlikely(!last_of(c) && pk_load_relaxed(&c->waiters.tail))) {
		set_last(c, NULL);
		c->passed = 0;
		pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) & (PK_COND_WAITER - 1));
	}
}

/* Nothing of the object is touched after the exchange, but for its address. */
static void let_go(struct pk_cond *c)
{
	bool destroyer = pk_load_relaxed(&c->refs) & PK_COND_DESTROYER;

	if (pk_unlikely(pk_xchg_release(&c->lock, 0) & CONTENDED)) /* C1 */
		pk_futex_wake(&c->lock, 1);
	if (pk_unlikely(destroyer))
		pk_futex_wake(&c->refs, INT_MAX);
}

static void list(struct pk_cond *c, struct pk_waiter *w)
{
	pk_store_relaxed(&w->next, NULL); /* relaxed: who walks a chain late loads it, too */
	take(c);
	w->hint = last_of(c);
	if (!w->hint) {
		c->at = (uintptr_t)c;
		set_first(c, w);
	}
	set_last(c, w);
	count(c, 1);
	let_go(c);
}

/* Each names the next one, but for the last: the newest do not yet. In a child that a handler has forked since, the first one is nobody. */
static void link_up(struct pk_cond *c)
{
	const struct pk_waiter *first = first_of(c);

	for (struct pk_waiter *w = last_of(c); w && w != first && w->hint && w->hint->next != w; w = w->hint)
		pk_store_relaxed(&w->hint->next, w);
}

/* The one behind w, or null. */
static struct pk_waiter *after(struct pk_cond *c, const struct pk_waiter *w)
{
	if (!w->next)
		link_up(c);
	return w->next;
}

static void unlist(struct pk_cond *c, struct pk_waiter *w)
{
	struct pk_waiter *first = first_of(c), *next = after(c, w);

	if (next && w == first)
		set_first(c, next);
	else if (next)
		next->hint = w->hint;
	else if (w == first)
		c->passed = 0;
	if (w != first && w->hint)
		pk_store_relaxed(&w->hint->next, next);
	if (!next)
		set_last(c, w == first ? NULL : w->hint);
	count(c, -1u);
}

/* ---- signals ---- */

/* The waiter is to be signalled, unless it is leaving: then false. */
static bool claim(struct pk_cond *c, struct pk_waiter *w)
{
	uint32_t seen = pk_load_relaxed(&w->status);

	if (pk_state(seen) != PK_BLOCKED || !pk_cas_release(&w->status, &seen, pk_in_state(seen, PK_CLAIMED))) /* C4 */
		return false;
	unlist(c, w);
	w->hint = NULL;
	w->queue = NULL; /* and of no mutex's yet */
	pk_store_relaxed(&w->next, NULL);
	return true;
}

static struct pk_mutex *mutex_of(struct pk_queue *home)
{
	return (struct pk_mutex *)((char *)home - offsetof(struct pk_mutex, queue));
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
	struct pk_waiter *first = front_of(c);
	struct pk_queue *home = first ? first->home : NULL;

	return home && is_owner(mutex_of(home)) ? home : NULL;
}

static unsigned socket_here(void)
{
	return pk_socket_here(pk_self.record ? pk_self.record->index : 0);
}

/* PARKADE_COND=local: a waiter of the caller's socket among the first ones, or null. */
static struct pk_waiter *claim_local(struct pk_cond *c)
{
	unsigned socket = socket_here();
	struct pk_waiter *first = front_of(c), *w = first;

	if (c->passed >= pk_knob(batch))
		return NULL;
	for (int i = 0; i < LOCAL_WAITERS && w; i++, w = after(c, w))
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
	for (w = front_of(c); w && !claim(c, w); w = after(c, w))
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
	for (w = front_of(c); w; w = next) {
		next = after(c, w);
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

/* The same, and wake it; the others are behind it. */
static void wake(struct pk_waiter *w)
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
		wake(w);
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
	struct pk_mutex *m = mutex_of(home);
	const struct pk_admit_ops *ops;
	struct pk_waiter *last, *next;
	unsigned n = 1;

	if (goes_apart(home, owner, first)) {
		wake_each(first);
	} else if (!owner) {
		wake(first);
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
	m = mutex_of(owned);
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

/* glibc's function is to be called. */
static bool is_glibcs(struct pk_cond *c)
{
	bool aside = pk_unlikely(!pk_self.tid) ? !pk_thread_start() : pk_unlikely(pk_thread_forwards());

	return pk_unlikely(pk_cond_is_shared(c)) ? !pk_cond_is_ours(c) : aside;
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
	ops = pk_policy_for(pk_mutex_policy(mutex_of(home)));
	return ops && ops->splice;
}

/* A crowd has been woken; or one waiter of several has, or they were moved to the mutex. */
static void note_apart(struct pk_cond *c, bool apart)
{
	unsigned seen = c->apart, times = !apart ? 0 : seen < APART ? seen + 1 : seen;

	if (times == APART && !c->hall) {
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
	if (is_glibcs(c))
		return pk_real()->pthread_cond_signal(cond);
	if (pk_cond_is_shared(c))
		return pk_cond_shared_signal(c);
	take(c);
	home = owned(c);
	w = claim_one(c);
	last = last_of(c);
	few = !last || last == first_of(c);
	if (home || last)
		note_apart(c, false);
	if (w)
		note_call(c, BY_SIGNAL);
	let_go(c);
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
	if (is_glibcs(c))
		return pk_real()->pthread_cond_broadcast(cond);
	if (pk_cond_is_shared(c))
		return pk_cond_shared_broadcast(c);
	take(c);
	home = owned(c);
	chain = claim_all(c, &n);
	if (home || n >= CROWD)
		note_apart(c, gathers(n, home));
	if (n)
		note_call(c, BY_BROADCAST);
	let_go(c);
	deliver(home, chain, true);
	return 0;
}

/* ---- waiting ---- */

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
	unsigned looks = PK_DOZE_IDLE, passing = LOCK_ROUNDS;

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
	take(c);
	unlist(c, w);
	let_go(c);
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
	wake(chain);
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
		deliver_to(s->home, is_owner(mutex_of(s->home)), next);
	return ret;
}

/* A handler that has come into the sleep ends the thread, acts on a cancellation, or jumps out. The program's cleanup
 * handlers are to find the mutex locked (POSIX, pthread_cond_wait). A signal that was meant for the thread is lost
 * with it: the object may be gone. */
static void unwound(void *wait)
{
	struct wait *s = wait;

	/* Another handler may call pthread_exit, and glibc would come here again. */
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

	if (pk_load_relaxed(&c->apart) == APART && hall < PK_HALLS && pk_load_relaxed(&c->refs) / PK_COND_WAITER < CROWD_MOST) {
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
	struct pk_mutex *m = w->home ? mutex_of(w->home) : NULL;
	const struct pk_admit_ops *ops;

	if (!pk_lot_adapts || !m || pk_load_relaxed(&c->called) != BY_SIGNAL || pk_load_relaxed(&c->refs) / PK_COND_WAITER < OTHERS ||
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
	list(c, w);
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

int pk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct pk_cond *c = pk_cond_of(cond);

	if (is_glibcs(c))
		return pk_real()->pthread_cond_wait(cond, mutex);
	return wait(c, mutex, NULL);
}

int pk_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *abstime)
{
	struct pk_cond *c = pk_cond_of(cond);
	bool monotonic = pk_load_relaxed(&c->refs) & PK_COND_MONOTONIC;
	struct pk_deadline deadline = {abstime, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME};

	if (is_glibcs(c))
		return pk_real()->pthread_cond_timedwait(cond, mutex, abstime);
	return wait(c, mutex, &deadline);
}

int pk_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abstime)
{
	struct pk_cond *c = pk_cond_of(cond);
	struct pk_deadline deadline = {abstime, clock};

	if (is_glibcs(c))
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
		wake(pk_load_relaxed(&w->next));
		pk_waiter_free(w);
		break;
	default:
		pk_turn_gone(w);
	}
}

/* ---- the object ---- */

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
	if (is_glibcs(c))
		return pk_real()->pthread_cond_destroy(cond);
	if (pk_cond_is_shared(c))
		return pk_cond_shared_destroy(c);
	take(c);
	note_apart(c, false);
	pk_hall_leave(c->hall - 1u, c);
	pk_store_relaxed(&c->hall, 0);
	while (front_of(c)) {
		uint32_t refs = pk_load_relaxed(&c->refs) | PK_COND_DESTROYER;

		pk_store_relaxed(&c->refs, refs);
		let_go(c);
		pk_futex_wait(&c->refs, refs, NULL);
		take(c);
	}
	pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) & ~PK_COND_DESTROYER);
	let_go(c);
	return 0;
}
