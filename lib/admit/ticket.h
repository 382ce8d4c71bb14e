/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Tickets: who waits draws a number, and is the head when the number shown is its own.
 * tkt and ptl are built from these functions; they differ in where waiters look.
 *
 * State, in `aux` (aux.h), of 29 bits
 *	next << 15 | shown << 2 | DEAD | SLEEPERS
 *	none (0)	(1, 0, 0)		who comes first; its number is 0, it is the head
 *	next		next + 1		who comes later; its number is `next`
 *	shown		shown + 1		the head, when it leaves
 *	(n, n - 1, any)	none (0)		the same, if nobody is behind it
 *	SLEEPERS	1			who is about to sleep on `aux` (tkt)
 *	DEAD		1			who gives up: its number will be shown to nobody
 *
 * State of a waiter (`status`); `batch` is its number
 *	from		to		by
 *	last use	WAITING		its thread, which draws a number
 *	WAITING		HEAD		its thread: its number is shown
 *	WAITING		ABANDONED	its thread, for a handler that has to wait, or its end
 *	HEAD		ABANDONED	its thread, when it leaves
 *	ABANDONED	DEAD		its thread: nobody comes for its number
 *	DEAD		ABANDONED	who shows that number, or its thread if it is shown
 *	any		ORPHAN		the child of a fork
 * Who takes a number from DEAD shows the next one. To find it all records and contexts (levels.h) are
 * looked through; so it is for signal handlers that wait, threads that end and looks (rt/doze.h), and timed
 * waits do not draw a number (not abortable). Nor does who comes when all are taken.
 *
 * Ledger
 *  O1	aux: see aux.h; is_up(), and die() where it finds its number shown, acquire what who
 *	shows it has released; and who shows a number what die() has counted, with DEAD.
 *  O2	status: release in pk_waiter_abandon(), which the exchange to DEAD passes on, acquire in bury_at(): the
 *	node's queue and number. The node may be in use anew by then; who exchanges the status, which counts the
 *	uses, knows that it was not.
 * Waiting: who waits looks more and more seldom while the number shown stays (pk_ticket_pause): `aux` lies in the
 *	lock's line. Proportional back-off, as in the paper of tkt.c (TOCS 1991, section 2.2), but in the time that has gone
 *	by: between cohorts the next number may be a hundred hand-overs away.
 * Fairness: first come, first served among those who queue.
 * Cost: as list.h: nothing for a lock, its record for a waiting thread. */
#ifndef PK_TICKET_H
#define PK_TICKET_H

#include "admit/aux.h"
#include "base/await.h"
#include "rt/clock.h"
#include "rt/doze.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/thread.h"

enum {
	PK_TICKET_BITS = 13,
	PK_TICKET_MASK = (1 << PK_TICKET_BITS) - 1,
	PK_TICKET_SLEEPERS = 1,
	PK_TICKET_DEAD = 2,
	PK_TICKET_FLAGS = PK_TICKET_SLEEPERS | PK_TICKET_DEAD,
	PK_TICKET_SHOWN = 2, /* where the number begins */
	PK_TICKET_NEXT = PK_TICKET_SHOWN + PK_TICKET_BITS,
	PK_TICKET_LOOK_US = 100000, /* after so long a sleeper looks again */
	PK_TICKET_GAP_NS = 1000,    /* between two looks of a spinner, at most, */
	PK_TICKET_GAP_SHARE = 8,    /* and this part of the time that the number has stayed */
};

_Static_assert((uint32_t)PK_TICKET_MASK << PK_TICKET_NEXT <= PK_AUX_STATE, "the tickets have no room in `aux`");

PK_INLINE uint32_t pk_ticket_shown(uint64_t aux)
{
	return (uint32_t)aux >> PK_TICKET_SHOWN & PK_TICKET_MASK;
}

PK_INLINE uint32_t pk_ticket_next(uint64_t aux)
{
	return (uint32_t)aux >> PK_TICKET_NEXT & PK_TICKET_MASK;
}

PK_INLINE uint64_t pk_ticket_state(const struct pk_queue *q, enum pk_aux_kind kind, uint32_t next, uint32_t shown,
				   uint32_t flags)
{
	return pk_aux_of(q, kind,
			 (next & PK_TICKET_MASK) << PK_TICKET_NEXT | (shown & PK_TICKET_MASK) << PK_TICKET_SHOWN |
				 flags);
}

/* Draw a number; false if there is none to be had. */
PK_INLINE bool pk_ticket_draw(struct pk_queue *q, struct pk_waiter *w, enum pk_aux_kind kind)
{
	uint64_t aux = pk_load_relaxed(&q->aux), want;
	uint32_t next;

	pk_waiter_begin(w, PK_WAITING);
	w->slept = false;
	pk_store_relaxed(&w->queue, q);
	do {
		uint32_t shown = 0, flags = 0;

		next = 0;
		if (pk_aux_exact(q, aux)) {
			if (!pk_aux_is(q, aux, kind))
				return false;
			next = pk_ticket_next(aux);
			shown = pk_ticket_shown(aux);
			flags = (uint32_t)aux & PK_TICKET_FLAGS;
			if (((next + 1 - shown) & PK_TICKET_MASK) == 0)
				return false;
		}
		want = pk_ticket_state(q, kind, next + 1, shown, flags);
	} while (!pk_cas_acq_rel(&q->aux, &aux, want)); /* O1: who comes */
	pk_store_relaxed(&w->batch, next);
	return true;
}

PK_INLINE bool pk_ticket_is_up(const struct pk_queue *q, const struct pk_waiter *w)
{
	return pk_ticket_shown(pk_load_acquire(&q->aux)) == w->batch; /* O1 */
}

/* The number behind the one that was shown then, or -1. */
PK_INLINE int pk_ticket_after(uint64_t aux)
{
	uint32_t n = (pk_ticket_shown(aux) + 1) & PK_TICKET_MASK;

	return n == pk_ticket_next(aux) ? -1 : (int)n;
}

/* How many numbers are dead and have not been shown yet, in all queues: as long as there is
 * none nobody has to be looked for. */
extern uint32_t pk_tickets_dead;

/* Whether w has that number, dead, and it is ours to pass. */
PK_INLINE bool pk_ticket_bury_at(struct pk_waiter *w, const struct pk_queue *q, uint32_t number)
{
	uint32_t dead = pk_load_acquire(&w->status); /* O2 */

	if (pk_state(dead) != PK_DEAD || pk_load_relaxed(&w->queue) != q || pk_load_relaxed(&w->batch) != number ||
	    !pk_cas_relaxed(&w->status, &dead, pk_in_state(dead, PK_ABANDONED)))
		return false;
	pk_sub_relaxed(&pk_tickets_dead, 1);
	pk_waiter_free(w);
	return true;
}

/* Whether the number is a dead one, and ours to pass. */
static bool pk_ticket_bury(const struct pk_queue *q, uint32_t number)
{
	uint32_t known;

	if (!pk_load_relaxed(&pk_tickets_dead))
		return false;
	known = pk_arena_known();
	for (uint32_t i = 0; i < known; i++)
		for (unsigned k = 0; k < PK_RECORD_NODES; k++)
			if (pk_ticket_bury_at(&pk_record_nth(i)->node[k], q, number))
				return true;
	known = pk_contexts_known();
	for (uint32_t i = 0; i < known; i++) {
		struct pk_waiter *w = pk_context_nth(i);

		if (w && pk_ticket_bury_at(w, q, number))
			return true;
	}
	return false;
}

/* Show the next number; returns the state before that, or 0 if the state is not ours (a
 * handler has forked). */
PK_INLINE uint64_t pk_ticket_advance(struct pk_queue *q, enum pk_aux_kind kind)
{
	uint64_t aux = pk_load_relaxed(&q->aux), want;
	uint32_t next, shown;

	do {
		if (pk_unlikely(!pk_aux_is(q, aux, kind)))
			return 0;
		next = pk_ticket_next(aux);
		shown = pk_ticket_shown(aux) + 1;
		want = pk_ticket_state(q, kind, next, shown, (uint32_t)aux & PK_TICKET_FLAGS);
		if (((next - shown) & PK_TICKET_MASK) == 0)
			want = 0;
	} while (!pk_cas_acq_rel(&q->aux, &aux, want)); /* O1: who leaves */
	return aux;
}

/* Wake who has that number, if it sleeps. `aux`: the state before it was shown. */
typedef void pk_ticket_call(struct pk_queue *q, uint32_t number, uint64_t aux);

/* Show the next number that is not dead. A dead one is called, too: its thread may have
 * gone to sleep with it, before a handler gave it up. */
PK_INLINE void pk_ticket_show(struct pk_queue *q, enum pk_aux_kind kind, pk_ticket_call *call)
{
	bool dead;

	do {
		uint64_t aux = pk_ticket_advance(q, kind);
		int next = aux ? pk_ticket_after(aux) : -1;

		dead = next >= 0 && aux & PK_TICKET_DEAD && pk_ticket_bury(q, (uint32_t)next);
		if (next >= 0)
			call(q, (uint32_t)next, aux);
	} while (dead);
}

/* Show the next number, if that is known to be no dead one; false if not, or nobody waits. */
PK_INLINE bool pk_ticket_pass(struct pk_queue *q, struct pk_waiter *w, enum pk_aux_kind kind, pk_ticket_call *call)
{
	uint64_t aux = pk_load_relaxed(&q->aux), want;
	int next;

	do {
		next = pk_ticket_after(aux);
		if (pk_unlikely(!pk_aux_is(q, aux, kind)) || next < 0 || aux & PK_TICKET_DEAD)
			return false;
		want = pk_ticket_state(q, kind, pk_ticket_next(aux), (uint32_t)next, (uint32_t)aux & PK_TICKET_FLAGS);
	} while (!pk_cas_acq_rel(&q->aux, &aux, want)); /* O1: who hands over */
	pk_waiter_free(w);
	call(q, (uint32_t)next, aux);
	return true;
}

/* Make w's number a dead one. False if it is shown: then w has to leave. */
PK_INLINE bool pk_ticket_die(struct pk_queue *q, struct pk_waiter *w, enum pk_aux_kind kind)
{
	uint64_t aux = pk_load_acquire(&q->aux); /* O1: what comes with the number, if it is shown */
	uint32_t seen = pk_load_relaxed(&w->status), dead = pk_in_state(seen, PK_DEAD);

	pk_add_relaxed(&pk_tickets_dead, 1);
	if (pk_state(seen) == PK_ORPHAN || !pk_cas_relaxed(&w->status, &seen, dead)) { /* O2 */
		pk_sub_relaxed(&pk_tickets_dead, 1);
		return true; /* a handler has forked, and this is the child */
	}
	do {
		if (!pk_aux_is(q, aux, kind))
			return true; /* it has been shown and passed, and the queue is empty */
		if (pk_ticket_shown(aux) == w->batch) {
			if (!pk_cas_relaxed(&w->status, &dead, pk_in_state(dead, PK_ABANDONED)))
				return true;
			pk_sub_relaxed(&pk_tickets_dead, 1);
			return false;
		}
	} while (!pk_cas_acq_rel(&q->aux, &aux, aux | PK_TICKET_DEAD)); /* O1 */
	return true;
}

/* Sleepers are told apart by their numbers, as far as the kernel's 32 bits go. */
PK_INLINE uint32_t pk_ticket_bit(uint32_t number)
{
	return UINT32_C(1) << number % 32;
}

/* Sleep on that word for a while. The number may just have been given up by a handler, or
 * be now, in a child of fork at that, and the same word may come again, in a bay for
 * another lock. So the sleep has an end, and is not taken up again after a handler. */
PK_INLINE void pk_ticket_doze(const uint32_t *word, uint32_t expected, uint32_t bit)
{
	struct timespec end = pk_clock_after(PK_TICKET_LOOK_US);

	pk_futex_wait_bits(word, expected, bit, &(struct pk_deadline){&end, CLOCK_MONOTONIC});
}

/* What a spinner has seen: the number shown, and for how many rounds. */
struct pk_ticket_seen {
	uint32_t shown;
	unsigned rounds;
};

/* Look away for a while that fits what has been seen. */
PK_INLINE void pk_ticket_pause(const struct pk_queue *q, struct pk_ticket_seen *seen, unsigned widest, unsigned *budget)
{
	uint32_t shown = pk_ticket_shown(pk_load_relaxed(&q->aux));
	unsigned gap;

	if (shown != seen->shown)
		*seen = (struct pk_ticket_seen){shown, 0};
	gap = seen->rounds / PK_TICKET_GAP_SHARE;
	gap = gap < widest ? gap : widest;
	seen->rounds += 1 + gap;
	while (gap-- && *budget > 1)
		pk_spent(budget);
}

/* Sleep, or not, until there is something to look at. */
typedef void pk_ticket_sleep(struct pk_queue *q, struct pk_waiter *w);

PK_INLINE enum pk_entered pk_ticket_wait(struct pk_queue *q, struct pk_waiter *w, pk_ticket_sleep *sleep)
{
	unsigned budget = pk_ticket_is_up(q, w) ? 0 : pk_spin_begin(w);
	unsigned widest = budget ? pk_rounds_in(PK_TICKET_GAP_NS) : 0;
	struct pk_ticket_seen seen = {0, 0};

	for (;;) {
		/* First this: a dead number may be shown, for a moment. */
		if (pk_unlikely(pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD)) {
			pk_spin_end(w);
			return PK_ORPHANED;
		}
		if (pk_ticket_is_up(q, w))
			break;
		if (widest)
			pk_ticket_pause(q, &seen, widest, &budget);
		if (!pk_spent(&budget))
			continue;
		pk_spin_missed(w);
		pk_count(w, PK_STAT_parked);
		pk_store_relaxed(&pk_self.asleep, true);
		sleep(q, w);
		pk_store_relaxed(&pk_self.asleep, false);
		if (!pk_ticket_is_up(q, w))
			pk_doze_over();
	}
	pk_spin_end(w);
	/* relaxed: nobody but our own signal handlers looks at a head's status */
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_HEAD));
	return PK_IS_HEAD;
}

/* w has no number: whoever looks at the node from within the thread sees no place. */
PK_INLINE enum pk_entered pk_ticket_refused(struct pk_waiter *w)
{
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ABANDONED));
	pk_waiter_free(w);
	return PK_REFUSED;
}

PK_INLINE enum pk_entered pk_ticket_enter(struct pk_queue *q, struct pk_waiter *w, enum pk_aux_kind kind,
					  pk_ticket_sleep *sleep)
{
	if (pk_ticket_draw(q, w, kind))
		return pk_ticket_wait(q, w, sleep);
	return pk_ticket_refused(w);
}

#endif
