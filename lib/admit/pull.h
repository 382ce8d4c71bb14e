/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The implicit queue: each waiter knows its predecessor only, and waits for a word in the
 * predecessor's node. clh and hem are built from these functions.
 *
 * State of `next`, which here is that word
 *	null -> sleeper		by the successor, which is about to sleep on its own status: its
 *				node, marked. By another one that has come to wait here, if the
 *				first has given up
 *	null, sleeper, FLED, END -> LEFT	by its thread, when it leaves: the successor is the head,
 *				and frees the node
 *	null, sleeper, FLED, END -> node	by its thread, which gives up: the successor waits for that one,
 *				the predecessor, and frees the node
 *	null, sleeper, FLED -> END	by a successor of another policy (tail.h): the node's thread
 *				frees it
 *	null, sleeper -> FLED	by the successor, which is about to give up
 *	FLED -> null, sleeper	by one that has come in its place
 * There is one successor at most, as a queue has one tail. FLED is the successor-aborted flag
 * of A-C-BO-CLH (Cohort 3.4.2): who passes the lock on to a live waiter only (pass) changes
 * null or sleeper to LEFT, so it knows of each that has given up, or that one finds LEFT.
 *
 * State of `status`
 *	WAITING, SPINNING -> PARKED	by its thread
 *	PARKED -> WAITING	by its thread
 *	PARKED -> SPINNING	by the predecessor that it waits for, or has waited for
 *	WAITING, SPINNING -> HEAD		by its thread
 *	WAITING, SPINNING, PARKED -> ABANDONED	by its thread: its deadline, a handler that has to wait, or its end
 *	ABANDONED -> HEAD	by its thread, which finds LEFT instead of a place to give up
 *	any -> ORPHAN		in the child of a fork
 * Who gives up at the tail makes its predecessor the tail again. If that one is just leaving
 * its node stays until somebody comes (for good if the lock is destroyed before): clh and hem
 * do not have timed waiters, a-c-bo-clh has.
 *
 * Ledger
 *  O1	tail: see tail.h.
 *  O2	next: release when it becomes LEFT, or a node, acquire by the successor, who frees the
 *	node after that (and O1 of arena.h). Who gives up at the tail releases that instead (tail.h).
 *  O3	status and next: a sleeper is PARKED and then looks at `next`; who leaves changes
 *	`next` and then looks at the status. A full fence between on both sides.
 * Lifetime: the node of a predecessor is there until its successor has seen LEFT. After
 *	LEFT its thread uses the address only, for the wake-up.
 * Cost: as list.h: nothing for a lock, its record for a waiting thread. */
#ifndef PK_PULL_H
#define PK_PULL_H

#include "admit/tail.h"
#include "base/await.h"
#include "rt/doze.h"
#include "rt/spin.h"
#include "rt/thread.h"

/* Whether the node's thread still has its place: no LEFT, no node. */
PK_INLINE bool pk_pull_stays(const struct pk_waiter *next)
{
	return !next || next == PK_FLED || pk_is_sleeper(next);
}

/* What stands in prev's `next`. */
typedef struct pk_waiter *pk_pull_poll(struct pk_waiter *prev);

/* Have prev's `next` name w as its sleeper; false if prev is not to be waited for. */
PK_INLINE bool pk_pull_mark(struct pk_waiter *prev, struct pk_waiter *w)
{
	struct pk_waiter *mark = (struct pk_waiter *)((uintptr_t)w | PK_SLEEPER), *seen = NULL;

	while (seen != mark && !pk_cas_release(&prev->next, &seen, mark))
		if (!pk_pull_stays(seen))
			return false;
	return true;
}

/* Wake a sleeper. It may have seen by itself what it sleeps for: then this reaches a later
 * use of the node, in whatever queue; everywhere SPINNING means no more than to look again. */
PK_INLINE void pk_pull_rouse(const struct pk_waiter *mark)
{
	struct pk_waiter *s = (struct pk_waiter *)((uintptr_t)mark & ~PK_SLEEPER);
	uint32_t seen;

	pk_fence(); /* O3 */
	seen = pk_load_relaxed(&s->status);
	if (pk_state(seen) == PK_PARKED && pk_cas_relaxed(&s->status, &seen, pk_in_state(seen, PK_SPINNING)))
		pk_futex_wake(&s->status, 1);
}

/* False: the deadline has passed. */
PK_INLINE bool pk_pull_sleep(struct pk_waiter *w, struct pk_waiter *prev, const struct pk_deadline *deadline)
{
	uint32_t status = pk_load_relaxed(&w->status), parked = pk_in_state(status, PK_PARKED);
	int late = 0;

	if (pk_state(status) >= PK_HEAD || !pk_cas_relaxed(&w->status, &status, parked))
		return true;
	pk_spin_missed(w);
	pk_fence(); /* O3 */
	if (pk_pull_mark(prev, w)) {
		pk_count(w, PK_STAT_parked);
		late = pk_doze(&w->status, parked, deadline);
	}
	pk_cas_relaxed(&w->status, &parked, pk_in_state(parked, PK_WAITING));
	return !late;
}

/* Give w's place up. False: it has the lock, and has to leave. For its thread, or a handler
 * in it while it sleeps. */
static inline bool pk_pull_flee(struct pk_queue *q, struct pk_waiter *w)
{
	struct pk_waiter *prev = w->hint, *seen = NULL;

	if (!pk_waiter_abandon(w))
		return !pk_waiter_is_head(w);
	while (prev && !pk_cas_acq_rel(&prev->next, &seen, PK_FLED)) /* O2 */
		if (!pk_pull_stays(seen)) {
			w->hint = seen == PK_LEFT ? NULL : seen;
			pk_waiter_free(prev);
			prev = w->hint;
			seen = NULL;
		}
	if (!prev)
		return false;
	if (pk_tail_cut(q, w, prev)) {
		pk_waiter_free(w);
		return true;
	}
	seen = pk_xchg_acq_rel(&w->next, prev); /* O2 */
	if (pk_is_sleeper(seen)) {
		pk_pull_rouse(seen);
	} else if (seen == PK_END) {
		pk_tail_end(prev);
		pk_waiter_free(w);
	}
	return true;
}

/* Wait for the predecessor, whom `hint` names. */
PK_INLINE enum pk_entered pk_pull_wait(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline,
				       pk_pull_poll *poll)
{
	unsigned budget = w->hint ? pk_spin_begin(w) : 0;
	bool late = false;

	for (struct pk_waiter *prev; (prev = w->hint);) {
		struct pk_waiter *seen;

		if (pk_unlikely(pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD)) {
			pk_spin_end(w);
			return PK_ORPHANED;
		}
		seen = poll(prev);
		if (!pk_pull_stays(seen)) {
			w->hint = seen == PK_LEFT ? NULL : seen;
			pk_waiter_free(prev);
		} else if (seen == PK_FLED) {
			pk_cas_relaxed(&prev->next, &seen, NULL); /* we have come */
		} else if (pk_spent(&budget) && !pk_pull_sleep(w, prev, deadline) &&
			   pk_state(pk_load_relaxed(&w->status)) < PK_HEAD) {
			late = true;
			if (!pk_pull_flee(q, w))
				break; /* and yet the head */
			pk_count(w, PK_STAT_timedout);
			return PK_TIMED_OUT;
		}
	}
	pk_spin_end(w);
	/* A handler may have given the place up when it was the head's already. */
	if (pk_unlikely(!late && pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD))
		return PK_ORPHANED;
	/* relaxed: nobody but our own signal handlers looks at a head's status */
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_HEAD));
	return PK_IS_HEAD;
}

PK_INLINE enum pk_entered pk_pull_enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline,
					pk_pull_poll *poll)
{
	w->slept = false;
	pk_store_relaxed(&w->next, NULL);
	pk_waiter_begin(w, PK_WAITING);
	w->queue = q;
	w->hint = pk_tail_join(q, w);
	return pk_pull_wait(q, w, deadline, poll);
}

static inline void pk_pull_leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_record *by = w->record;
	struct pk_waiter *seen;

	(void)held;
	if (pk_tail_cut(q, w, NULL)) {
		pk_waiter_free(w);
		return;
	}
	seen = pk_xchg_acq_rel(&w->next, PK_LEFT); /* O2 */
	if (seen == PK_END) {
		pk_waiter_free(w);
	} else if (pk_is_sleeper(seen)) {
		pk_pull_rouse(seen);
		pk_count_in(by, PK_STAT_woken);
	}
}

/* w, which has the lock, hands it to a waiter that takes it for certain; false: there is none,
 * or it cannot be told. */
static inline bool pk_pull_pass(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_record *by = w->record;
	struct pk_waiter *seen = NULL;

	(void)held;
	if (pk_load_relaxed(&q->tail) == pk_waiter_name(w))
		return false;
	while (!pk_cas_acq_rel(&w->next, &seen, PK_LEFT)) /* O2 */
		if (seen && !pk_is_sleeper(seen))
			return false;
	if (seen) {
		pk_pull_rouse(seen);
		pk_count_in(by, PK_STAT_woken);
	}
	return true;
}

static inline void pk_pull_give_up(struct pk_queue *q, struct pk_waiter *w)
{
	if (!pk_pull_flee(q, w))
		pk_pull_leave(q, w, NULL);
}

#endif
