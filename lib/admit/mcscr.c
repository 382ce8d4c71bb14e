/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* mcscr: Malthusian lock. No more waiters circulate than keep the lock busy; the others
 * are set aside, and sleep.
 *
 * Paper: Dice, Malthusian Locks, EuroSys'17: concurrency restriction for an MCS lock. The
 *	peer for more threads than CPUs in CNA section 3 and ShflLock section 2.
 * Deviations (D1-D4 and D11 are in list.h)
 *  D31	Waiters are culled by the head: while it waits and when it gets the word, not
 *	when it lets it go.
 *  D32	The eldest one is let back after PARKADE_BATCH hand-overs or 1 ms, instead of
 *	with a probability of 1/1000 at each hand-over: those to sleepers take long.
 *
 * Those set aside are a stack, linked both ways: `aside` is the youngest one, `next` is
 * the next older one, `hint` the next younger one, and that of the youngest the eldest.
 *
 * Invariants: list.h's.
 *  I31	Only nodes whose `next` is set are culled: never the tail's.
 * Ledger: list.h's; `aside` and `batch` are told with the headship (O3).
 * Fairness: the youngest of those set aside comes back first, when the queue runs dry;
 *	the eldest every PARKADE_BATCH hand-overs and every millisecond, so each of N
 *	waiters within N ms or so. NUMA-oblivious.
 * Cost: see list.h: nothing for a lock, its record for a waiting thread. */
#include "admit/list.h"
#include "rt/clock.h"
#include "rt/config.h"

enum { EVERY_US = 1000 };

static void push(struct pk_waiter *w, struct pk_waiter *x)
{
	struct pk_waiter *younger = w->aside;

	x->hint = younger ? younger->hint : x;
	pk_store_release(&x->next, younger); /* O2 */
	/* When one was let back last: `batch` of the eldest. */
	if (younger) {
		younger->hint = x;
	} else {
		w->batch = pk_knob(batch);
		x->batch = (uint32_t)pk_clock_us();
	}
	w->aside = x;
}

static struct pk_waiter *pop_youngest(struct pk_waiter *w)
{
	struct pk_waiter *x = w->aside;

	w->aside = pk_list_next(x);
	if (w->aside)
		w->aside->hint = x->hint;
	return x;
}

static struct pk_waiter *pop_eldest(struct pk_waiter *w)
{
	struct pk_waiter *x = w->aside->hint, *younger = x->hint;

	if (x == w->aside)
		return pop_youngest(w);
	pk_store_release(&younger->next, NULL); /* O2 */
	w->aside->hint = younger;
	younger->batch = (uint32_t)pk_clock_us();
	return x;
}

/* Take one of the stack that has not given up; null if there is none. */
static struct pk_waiter *pop(struct pk_waiter *w, struct pk_waiter *which(struct pk_waiter *w))
{
	while (w->aside) {
		struct pk_waiter *x = which(w);

		x->hint = NULL;
		if (!pk_list_gone(x))
			return x;
		pk_waiter_free(x);
	}
	return NULL;
}

static bool is_due(const struct pk_waiter *w)
{
	return !w->batch || (uint32_t)pk_clock_us() - w->aside->hint->batch > EVERY_US;
}

/* Set the successor n aside, if there is one behind it to take its place. */
static struct pk_waiter *cull(struct pk_waiter *w, struct pk_waiter *n)
{
	struct pk_waiter *next = pk_list_next(n);

	if (!next)
		return n;
	pk_store_release(&w->next, next); /* O2 */
	push(w, n);
	pk_count(w, PK_STAT_aside);
	return next;
}

/* The queue is empty: the youngest one is to be next. If somebody is just joining that
 * is the next one, and it stays where it was. */
static void refill(struct pk_queue *q, struct pk_waiter *w)
{
	uint32_t batch = w->batch;
	struct pk_waiter *x = pop(w, pop_youngest);

	if (!x)
		return;
	pk_store_relaxed(&x->next, NULL);
	if (pk_tail_cut(q, w, x)) {
		pk_store_release(&w->next, x); /* O2 */
	} else {
		push(w, x);
		w->batch = batch;
	}
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_list_enter(q, w, deadline, NULL);
}

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	struct pk_waiter *n = pk_list_reap(w);

	(void)q;
	(void)word;
	if (n)
		pk_list_rouse(w, cull(w, n));
	return 0;
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_waiter *n = pk_list_reap(w), *x;

	if (w->aside && w->batch)
		w->batch--;
	if (n && w->aside && is_due(w)) {
		x = pop(w, pop_eldest);
		w->batch = pk_knob(batch);
		if (x) {
			pk_store_release(&x->next, n); /* O2 */
			pk_store_release(&w->next, x); /* O2 */
		}
	} else if (n) {
		cull(w, n);
	} else if (w->aside && !pk_load_relaxed(&w->next)) {
		refill(q, w);
	}
	pk_list_pass(q, w, held);
}

static void splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held)
{
	pk_list_splice(q, first, last, held, PK_POLICY_mcscr);
}

const struct pk_admit_ops pk_mcscr = {PK_POLICY_mcscr, true, enter, tend, leave, splice, pk_list_settle, NULL, NULL};
