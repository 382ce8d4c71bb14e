/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The linked queue: an MCS list of waiters, joined at the tail by one exchange
 * (tail.h). The policies that keep a list (mcs, shfl, cna, mcscr) are built from these
 * functions.
 *
 * Paper: the queue of ShflLock, SOSP'19 section 4.2.1 and figure 4 (which is
 *	that of Mellor-Crummey and Scott, TOCS 1991), with parking as in section
 *	4.2.2 and figures 6 and 7.
 * Deviations
 *  D1	A node leaves the queue when its thread gets the word (as in the paper),
 *	and never waits for a successor that has exchanged the tail but not yet
 *	linked itself (figure 4 lines 38-39 spin there, inside the critical
 *	section, for as long as that thread is preempted). Instead the leaver
 *	marks its `next` as LEFT; the successor finds the mark when it links, is
 *	the head, and frees the node.
 *  D2	Waiters give up (timed locks): see ABANDONED below.
 *  D3	SPINNING does not forbid to park: it grants one more budget. All spinning
 *	is bounded.
 *  D4	A sleeper that becomes the head is not woken in the critical section
 *	(figure 6 line 11), but moved, asleep, to the lock's word, where the unlock
 *	wakes it. If its socket has CPUs to spare it has been roused before.
 *  D11	Waiters that a condition variable's broadcast has put here wake in a
 *	window: each that wakes rouses some behind it before it tries the word, and
 *	one that is awake before its turn takes the word if it can. So the time that
 *	a wake-up takes is not spent once a waiter. The window grows with each that
 *	gets the word or its turn awake, or that a free word has waited for, and shrinks with each
 *	that has to sleep again. (On two CPUs a slow lock says nothing by being free, and its heads rouse
 *	somebody seldom, once that has been in vain often.) The
 *	first ones are woken by who has put them here, when it has let the lock go
 *	(pthread/cond-signal.c).
 *	(4.2.2 wakes one successor, by the waiter as well.)
 *	So do others that have slept here, if the word is free when they are up, whether it is
 *	their turn or not: then it is not the lock that they wait for, but each other's wake-ups,
 *	one after the other, while threads that are awake have the lock many times. A queue that
 *	a holder without a CPU has left behind would never run dry again: those who come meet
 *	somebody now and then, and sleep behind the others. Not past a head that has lost patience.
 *
 * State of a waiter (`status`)
 *	from			to		by
 *	last use		WAITING		its thread, before it links
 *	WAITING			PARKED		its thread: budget spent
 *	PARKED			SPINNING	a waiter before it (rouse), or who has moved it here
 *	SPINNING		PARKED		its thread: moved here and roused, and the
 *						word was not to be had
 *	SPINNING, PARKED	WAITING		its thread, spinning again
 *	WAITING			HEAD		its thread: nobody is before it
 *	WAITING, SPINNING,
 *	PARKED			HEAD		the head that leaves (pass)
 *	WAITING, SPINNING,
 *	PARKED			ABANDONED	its thread: deadline passed, or a
 *						signal handler in it has to wait,
 *						or it looks (rt/doze.h), or it has
 *						the word, out of turn
 *	HEAD			ABANDONED	its thread, when it leaves
 *	CLAIMED			PARKED		splice, for a signal (pthread/cond-signal.c)
 *	any			ORPHAN		the child of a fork
 * Being made head and giving up are one race on one word: exactly one wins, so
 * headship is never lost. An ABANDONED node stays linked until it is passed by
 * pass() or reap(), which free it. Its thread takes another node meanwhile.
 *
 * State of `next`, beside that of tail.h
 *	successor -> another	by the head (reap, or setting aside, or shfl.c's D14), or the one shuffler
 *
 * *Those set aside* (cna, mcscr) are a second list, which the head carries along: it
 * begins at `aside` of the head, and the `hint` of its first node is its last one. Its
 * nodes are in no other way different from the others. When the queue proper is empty,
 * that list becomes the queue, or, if somebody is just joining, a queue beside it.
 *
 * Invariants
 *  I1	A node that the tail names is not freed: it is freed only after the tail
 *	was exchanged (its successor links or frees it) or reset from it.
 *  I2	Only the head writes its own `next` once linked, and of others only those that the
 *	shuffler has done with; a shuffler those behind them; there is one shuffler (shfl.c).
 *
 * Ledger
 *  O1	tail: see tail.h.
 *  O2	next: release by the successor's link (or by who reorders), acquire by
 *	who follows it: the node's constant fields are read after it.
 *  O3	status: release in crown(), acquire in wait(), and in pk_waiter_is_head() for who was about to give up: what the leaver and all
 *	shufflers before it did to the lists is seen by the new head.
 *  O4	status: release in pk_waiter_abandon(), acquire in crown() and reap(): the waiter's
 *	last use of the node comes before it is freed; and what it has done to the list as the
 *	shuffler (shfl.c) before it is followed, or those whom it has moved are lost.
 * What the lock protects needs none of these: the word orders critical sections.
 *
 * Lifetime: see admit.h and arena.h. A wake-up may come after the node has been
 * reused: its new user tolerates that as any futex sleeper does. A move (D4) may
 * not: the kernel compares the status, with its count of uses, before it.
 * Cost: nothing for a lock, idle or contended, beyond the 16 bytes that pthread_mutex_t
 *	has; a waiting thread its record (rt/arena.h). tests/process/memory prints them. */
#ifndef PK_LIST_H
#define PK_LIST_H

#include <stdbool.h>

#include "admit/aux.h"
#include "admit/tail.h"
#include "base/await.h"
#include "rt/doze.h"
#include "rt/spin.h"
#include "rt/thread.h"

enum { PK_LIST_GONE = 64 }; /* so many are looked past */

/* What a waiter does each round besides looking at its status. */
typedef void pk_list_poll(struct pk_queue *q, struct pk_waiter *w);

/* Wake n, if it sleeps, so that it is awake when its turn comes. For the head
 * and its successor, or a shuffler and a node behind it: n cannot leave. */
PK_INLINE void pk_list_rouse(struct pk_waiter *by, struct pk_waiter *n)
{
	uint32_t seen = pk_load_relaxed(&n->status);

	if (pk_state(seen) != PK_PARKED || pk_waiter_manner(n) == PK_SLEEPS || !pk_spin_room(n->socket))
		return;
	/* relaxed: only the status itself is told */
	if (pk_cas_relaxed(&n->status, &seen, pk_in_state(seen, PK_SPINNING))) {
		pk_futex_wake(&n->status, 1);
		pk_count(by, PK_STAT_roused);
	}
}

/* Who is linked behind w, or null. */
PK_INLINE struct pk_waiter *pk_list_next(const struct pk_waiter *w)
{
	struct pk_waiter *n = pk_load_acquire(&w->next); /* O2 */

	/* Nor, behind a node that has been moved on meanwhile, what pull.h has there. */
	return pk_is_mark(n) ? NULL : n;
}

PK_INLINE bool pk_list_gone(const struct pk_waiter *w)
{
	return pk_state(pk_load_acquire(&w->status)) == PK_ABANDONED; /* O4 */
}

/* The successor of the head w, or null; abandoned ones are taken out first. */
PK_INLINE struct pk_waiter *pk_list_reap(struct pk_waiter *w)
{
	struct pk_waiter *n = pk_list_next(w);

	while (n && pk_list_gone(n)) {
		struct pk_waiter *after = pk_list_next(n);

		if (!after)
			return NULL;		   /* the tail: somebody may be joining it */
		pk_store_release(&w->next, after); /* O2 */
		w->hint = NULL;			   /* it may have been n */
		pk_waiter_free(n);
		n = after;
	}
	return n;
}

/* w gives its place up, as pk_waiter_abandon(). Who is behind it and has slept since before it was put there would look
 * too late (rt/doze.h): it is woken, and looks for itself from then on. Those in between have given up, and may be in
 * another queue by now, so there is an end to it; to be woken harms nobody. */
PK_INLINE bool pk_list_abandon(struct pk_waiter *w)
{
	struct pk_waiter *n = pk_list_next(w);

	for (unsigned i = 0; i < PK_LIST_GONE && n && pk_list_gone(n); i++)
		n = pk_list_next(n);
	if (!pk_waiter_abandon(w))
		return false;
	if (n && pk_waiter_manner(n) == PK_UNTIMED)
		pk_futex_wake(&n->status, 1);
	return true;
}

/* Sleep until the status is no longer PARKED; false when the deadline passed
 * first. `waiting`: the status to park from. */
PK_INLINE bool pk_list_park(struct pk_waiter *w, uint32_t waiting, const struct pk_deadline *deadline)
{
	const uint32_t parked = pk_in_state(waiting, PK_PARKED);
	int late;

	if (!pk_cas_relaxed(&w->status, &waiting, parked))
		return true;
	pk_spin_missed(w);
	pk_count(w, PK_STAT_parked);
	w->slept = true;
	do
		late = pk_doze(&w->status, parked, deadline);
	while (!late && pk_load_relaxed(&w->status) == parked);
	return !late;
}

/* The window of a queue: how many sleepers behind a waiter that has woken are woken ahead of
 * their turn (D11). One at least by the head: else each waits for a whole wake-up, and there is nobody by
 * whom it could be seen that sections are short. Where they are long that one sleeps again, and
 * costs no more than glibc's waiters, who are all woken. In the hints of `aux` is what is beyond. */
enum {
	PK_LIST_WINDOW_MAX = 8,
	/* The hints beyond: how often somebody was roused in vain, since the window is closed, on two CPUs; */
	PK_LIST_VAIN = PK_LIST_WINDOW_MAX,
	/* that often: one head in so many still rouses if the lock is slow. */
	PK_LIST_COLD = 15,
	PK_LIST_PROBE = 8,
};

PK_INLINE unsigned pk_list_window(struct pk_queue *q)
{
	unsigned hint = pk_aux_hint(q, PK_HINT_WINDOW);

	return hint < PK_LIST_VAIN ? 1u + hint : 1;
}

PK_INLINE void pk_list_widen(struct pk_queue *q)
{
	unsigned n = pk_list_window(q);

	if (n < PK_LIST_WINDOW_MAX)
		pk_aux_set_hint(q, PK_HINT_WINDOW, (uint16_t)n);
}

PK_INLINE void pk_list_narrow(struct pk_queue *q)
{
	unsigned hint = pk_aux_hint(q, PK_HINT_WINDOW);

	if (hint && hint < PK_LIST_VAIN)
		pk_aux_set_hint(q, PK_HINT_WINDOW, (uint16_t)(hint / 2));
	else if (hint < PK_LIST_COLD && pk_spin_cramped())
		pk_aux_set_hint(q, PK_HINT_WINDOW, (uint16_t)(hint ? hint + 1 : PK_LIST_VAIN));
}

/* Whether w, of a slow lock, is to rouse nobody: who gets it keeps it, asleep perhaps, and those who were roused have slept again. */
PK_INLINE bool pk_list_is_cold(struct pk_queue *q, struct pk_waiter *w)
{
	return pk_aux_hint(q, PK_HINT_WINDOW) == PK_LIST_COLD &&
	       pk_uses(pk_load_relaxed(&w->status)) % PK_LIST_PROBE;
}

/* Wake x before its turn, if it sleeps in a queue. */
PK_INLINE void pk_list_call(struct pk_record *by, struct pk_waiter *x)
{
	uint32_t seen = pk_load_relaxed(&x->status);

	if (pk_state(seen) == PK_PARKED && pk_cas_relaxed(&x->status, &seen, pk_in_state(seen, PK_SPINNING))) {
		pk_futex_wake(&x->status, 1);
		pk_count_in(by, PK_STAT_roused);
	}
}

/* Wake n behind w. w need not be the head, so those behind it may be moved,
 * and be in another queue by the time that they are looked at: being roused harms
 * nobody. */
PK_INLINE void pk_list_wake_ahead(struct pk_waiter *w, unsigned n)
{
	for (struct pk_waiter *x = pk_list_next(w); x && n; n--, x = pk_list_next(x))
		pk_list_call(w->record, x);
}

/* w has slept, and the lock is free: it has waited for w, and would for those behind it. */
PK_INLINE void pk_list_hurry(struct pk_queue *q, struct pk_waiter *w)
{
	if (!pk_list_next(w))
		return;
	pk_list_widen(q);
	pk_list_wake_ahead(w, pk_list_window(q) - 1);
}

/* The same for one whose turn it is. That says little of a slow lock: its window is for those to widen who have overtaken. */
PK_INLINE void pk_list_hurry_head(struct pk_queue *q, struct pk_waiter *w)
{
	unsigned n = pk_list_window(q) - 1;

	if (!pk_spin_cramped() || !pk_doze_is_slow())
		pk_list_hurry(q, w);
	else if (!pk_list_is_cold(q, w))
		pk_list_wake_ahead(w, n ? n : 1);
}

/* w has been woken before its turn. True: it has the word, out of turn. */
PK_INLINE bool pk_list_overtake(struct pk_queue *q, struct pk_waiter *w)
{
	if (!pk_doze_sees_free())
		return false;
	pk_list_hurry(q, w);
	return pk_waiters_idle(w->record) > 1 && pk_doze_take(); /* or it could not queue next time (pthread/turn.c) */
}

/* Wait in the queue until w is the head. `whole`: q is the lock's own queue, of which one may be woken, and take the word,
 * before its turn (D11): PK_STOLEN. */
PK_INLINE enum pk_entered pk_list_wait_in(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline,
					  pk_list_poll *poll, bool whole)
{
	const bool stays = pk_waiter_stays(w); /* not to be read any more once it is abandoned */
	unsigned granted = pk_spin_begin(w), budget = granted;
	bool roused = false;

	for (;;) {
		uint32_t status = pk_load_acquire(&w->status); /* O3 */
		enum pk_state state = pk_state(status);

		if (state >= PK_HEAD) {
			stays ? pk_spin_end(w) : pk_spin_served(w, granted - budget);
			if (state == PK_HEAD && whole && w->slept && pk_doze_sees_free())
				pk_list_hurry_head(q, w);
			return state == PK_HEAD ? PK_IS_HEAD : PK_ORPHANED;
		}
		if (poll)
			poll(q, w);
		if (state == PK_SPINNING) {
			if (whole && w->slept && pk_list_overtake(q, w))
				return PK_STOLEN;
			roused = whole;
			/* fails only if the state is final now */
			if (pk_cas_relaxed(&w->status, &status, pk_in_state(status, PK_WAITING))) {
				w->slept = false; /* it is awake before its turn, so nobody has moved it to the word */
				budget = granted = pk_spin_begin(w);
			}
		} else if (pk_spent(&budget)) {
			if (roused) { /* in vain */
				roused = false;
				pk_list_narrow(q);
			}
			if ((stays && pk_list_park(w, status, deadline)) ||
			    !(stays ? pk_list_abandon(w) : pk_waiter_abandon(w)))
				continue;
			pk_spin_missed(w);
			if (!stays)
				return PK_OUT;
			pk_count(w, PK_STAT_timedout);
			return PK_TIMED_OUT;
		}
	}
}

/* The same in what is not the lock's own queue. */
PK_INLINE enum pk_entered pk_list_wait(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline,
				       pk_list_poll *poll)
{
	return pk_list_wait_in(q, w, deadline, poll, false);
}

/* n comes after w, which leaves: those set aside are its to carry. */
PK_INLINE void pk_list_inherit(struct pk_waiter *n, const struct pk_waiter *w)
{
	n->aside = w->aside;
	if (w->aside) /* or else the batch is n's own, which may be looking at it */
		n->batch = w->batch;
}

PK_INLINE enum pk_entered pk_list_enter_in(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline,
					   pk_list_poll *poll, bool whole)
{
	struct pk_waiter *prev, *seen = NULL;

	w->hint = w->aside = NULL;
	w->batch = 0;
	w->slept = false;
	pk_store_relaxed(&w->shuffler, 0);
	pk_store_relaxed(&w->next, NULL);
	pk_waiter_begin(w, PK_WAITING);
	w->queue = q;
	prev = pk_tail_join(q, w);
	if (prev) {
		if (pk_cas_acq_rel(&prev->next, &seen, w)) /* O2 */
			return pk_list_wait_in(q, w, deadline, poll, whole);
		pk_waiter_free(prev); /* LEFT: D1 */
	}
	/* relaxed: nobody but our own signal handlers looks at a head's status */
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_HEAD));
	return PK_IS_HEAD;
}

PK_INLINE enum pk_entered pk_list_enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline,
					pk_list_poll *poll)
{
	return pk_list_enter_in(q, w, deadline, poll, true);
}

/* Move n, asleep, to the word that we hold (D4). False if it has to be woken.
 * `head`: its status. */
PK_INLINE bool pk_list_move(struct pk_waiter *n, uint32_t head, int *held)
{
	int seen = 1;

	/* Only we let the word go, so it is 1 or 2 throughout. A program may have
	 * another thread unlock what is not its own all the same: then we leave
	 * the word alone, and whoever sleeps there is woken. */
	if (!pk_cas_relaxed(held, &seen, 2) && seen != 2)
		return false;
	/* Moved only while it is the head that we made: it may have woken for a
	 * reason of its own, timed out, and sleep in another queue by now. */
	if (!pk_futex_move(&n->status, head, held))
		return false;
	if (pk_unlikely(pk_load_relaxed(held) != 2))
		pk_futex_wake(held, 1);
	return true;
}

/* Make n the head; false if it has given up. `was`: its status until then. */
PK_INLINE bool pk_list_crown(struct pk_waiter *n, uint32_t *was)
{
	*was = pk_load_acquire(&n->status); /* O4 */
	do {
		if (pk_state(*was) == PK_ABANDONED)
			return false;
	} while (!pk_cas_acq_rel(&n->status, was, pk_in_state(*was, PK_HEAD))); /* O3, O4 */
	return true;
}

/* The waiter behind w, which w is taken out before; null if there is none, or it is
 * just joining. w is freed, or will be (D1). */
PK_INLINE struct pk_waiter *pk_list_unlink(struct pk_queue *q, struct pk_waiter *w)
{
	struct pk_waiter *n = pk_load_acquire(&w->next); /* O2 */
	struct pk_waiter *first = w->aside;
	bool cut = !n && pk_tail_cut(q, w, first ? first->hint : NULL);
	/* If not, n is who has come. If so, w is not ours any more. */
	bool left = !n && !cut && pk_cas_acq_rel(&w->next, &n, PK_LEFT); /* O2 */

	if (n && n != PK_END) {
		pk_list_inherit(n, w);
		first = n;
	} else if (first) {
		/* A queue of their own: who is joining may be of another policy. */
		if (!cut)
			pk_store_relaxed(&first->hint->next, PK_END); /* relaxed: crown() publishes it */
		first->hint = NULL;				      /* it was the last one, or the eldest */
	}
	if (!left)
		pk_waiter_free(w);
	return first;
}

/* n, whose status was `was`, has been made the head. `held`: the lock's word, if the
 * caller has got it. `by`: who counts it, or null. */
PK_INLINE void pk_list_wake(struct pk_waiter *n, uint32_t was, int *held, struct pk_record *by)
{
	/* SPINNING, it has been woken, or is about to be: by a thread that may be held up before it does so, if there is no timer. */
	if (pk_unlikely(pk_state(was) == PK_SPINNING && pk_waiter_manner(n) == PK_ENDLESS))
		pk_futex_wake(&n->status, 1);
	if (pk_state(was) != PK_PARKED)
		return;
	if (held && pk_list_move(n, pk_in_state(was, PK_HEAD), held)) {
		pk_count_in(by, PK_STAT_moved);
	} else {
		pk_futex_wake(&n->status, 1);
		pk_count_in(by, PK_STAT_woken);
	}
}

/* Make n, or the first live waiter behind it, the head. `held`: the lock's word, if
 * the caller has got it. `by`: who counts it, or null. */
PK_INLINE void pk_list_promote(struct pk_queue *q, struct pk_waiter *n, int *held, struct pk_record *by)
{
	uint32_t was;

	while (!pk_list_crown(n, &was)) {
		n = pk_list_unlink(q, n);
		if (!n)
			return;
	}
	pk_list_wake(n, was, held, by);
}

/* Make the next live waiter the head, if there is one that is linked; w is freed then.
 * False: w is the head still. */
PK_INLINE bool pk_list_hand(struct pk_waiter *w, int *held)
{
	struct pk_record *by = w->record;
	struct pk_waiter *n;
	uint32_t was;

	while ((n = pk_list_reap(w)))
		if (pk_list_crown(n, &was)) { /* O3 */
			pk_waiter_free(w);
			pk_list_wake(n, was, held, by);
			return true;
		}
	return false;
}

/* The head w leaves: make the next live waiter the head. `held`: the lock's word,
 * if w has got it. */
static inline void pk_list_pass(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_record *by = w->record;
	struct pk_waiter *n = pk_list_unlink(q, w);

	if (n)
		pk_list_promote(q, n, held, by);
}

/* Append sleepers on their threads' behalf, with the lock held. They join as one, and
 * then each is in the state that it would be in had it joined and parked by itself.
 * From then on a rouser may find it, even one that was on its way to an earlier use of
 * the node, and have it steal the word and leave: only that we hold it keeps it here. */
PK_INLINE void pk_list_splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held,
			      enum pk_policy policy)
{
	uint64_t tail = pk_load_relaxed(&q->tail);
	struct pk_waiter *prev, *seen = NULL;

	for (struct pk_waiter *w = first; w; w = pk_load_relaxed(&w->next)) {
		uint32_t claimed = pk_load_relaxed(&w->status);

		/* Strangers are found out by join(), but for these. */
		if (pk_unlikely(pk_waiter_named(tail) == w))
			pk_cas_relaxed(&q->tail, &tail, 0);
		w->policy = policy;
		w->aside = NULL;
		w->queue = q;
		/* release: O3, for who is roused. Fails if it has given up. */
		if (pk_state(claimed) == PK_CLAIMED)
			pk_cas_release(&w->status, &claimed, pk_in_state(claimed, PK_PARKED));
	}
	prev = pk_tail_join(q, last);
	if (pk_unlikely(pk_state(pk_load_relaxed(&last->status)) == PK_ORPHAN)) {
		/* A handler has forked, and they are the parent's: the tail may name one as ours. */
		tail = pk_waiter_name(last);
		pk_cas_relaxed(&q->tail, &tail, 0);
		return;
	}
	if (prev) {
		if (pk_cas_acq_rel(&prev->next, &seen, first)) /* O2 */
			return;
		pk_waiter_free(prev); /* LEFT: D1 */
	}
	pk_list_promote(q, first, held, pk_self.record);
}

/* Spin in the queue, if there is room; true when w is the head. */
PK_INLINE bool pk_list_spin(struct pk_waiter *w)
{
	unsigned budget = pk_spin_begin(w);
	bool crowned;

	do
		crowned = pk_waiter_is_head(w);
	while (!crowned && !pk_spent(&budget));
	crowned ? pk_spin_end(w) : pk_spin_missed(w);
	return crowned;
}

static inline enum pk_entered pk_list_settle(struct pk_queue *q, struct pk_waiter *w, const int *word, pk_steal *steal)
{
	for (;;) {
		uint32_t status = pk_load_acquire(&w->status); /* O3, as in wait() */

		switch (pk_state(status)) {
		case PK_HEAD:
			/* The lock has waited for it: those behind it are to be woken earlier. */
			if (w->slept && !pk_load_relaxed(word) && pk_list_next(w))
				pk_list_widen(q);
			pk_list_wake_ahead(w, pk_list_window(q));
			return PK_IS_HEAD;
		case PK_SPINNING:
			/* Before its turn: not the one that a head wakes in any case, or each would wake the
			 * next one, and all of them sleep again. */
			pk_list_wake_ahead(w, pk_list_window(q) - 1);
			if (steal(q)) {
				pk_list_widen(q);
				return PK_STOLEN;
			}
			if (pk_list_spin(w)) {
				w->slept = false; /* as above */
				pk_list_widen(q);
				continue;
			}
			pk_list_narrow(q);
			break;
		case PK_PARKED: /* woken for no reason */
			break;
		default:
			return PK_ORPHANED;
		}
		pk_list_park(w, status, NULL);
	}
}

#endif
