/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The recursion of composed policies: hmcs, clof:*, and the cohort locks. A thread becomes
 * the head among those of its innermost cohort, then its cohort the head among those around
 * it, up to the root; who is the head there is the head of the lock's queue.
 *
 * Papers: Dice, Marathe and Shavit, Lock Cohorting, TOPC'15, sections 2.2 and 3; Chehab et
 *	al., CLoF, SOSP'21, section 4.1 and figure 8; HMCS (Chabbi et al., PPoPP'15) is the
 *	composition of MCS locks alone (CLoF 2.2). The basic locks are those of the policies
 *	of the same names (levels.h).
 * Deviations
 *  D101	As everywhere here it is the headship of the queue that is acquired and released,
 *	and both ends lie before the critical section: see doc/DESIGN.md section 3.
 *  D102	The lock above is passed to a waiter of the cohort that has not given up, and for
 *	certain (`pass`), not to whoever was counted (CLoF 4.1.2, inc_waiters): one that is
 *	preempted before it queues, or gives up, cannot strand what it was passed. So no
 *	lock needs the count, and has_waiters is part of pass. (The count is there all the
 *	same, of the bay's users.)
 *  D103	Contexts lie beside the bay, two for each: who leaves a queue waits for nobody, so
 *	its context may be passed by a successor later on (D1 of list.h, and clh, hem). The
 *	other one joins behind that successor, so two are enough, but for a bay that has
 *	been another lock's a moment ago; then the cohort does without, as when there is
 *	no bay: its first waiter waits on the word.
 *  D104	The bound on hand-overs within a cohort is one in time, too, 20 ms from when the
 *	cohort got the lock above (as D75 in cst.c), looked at every fourth hand-over at
 *	the innermost level and at each one above.
 *  D105	Who has the lock of its cohort and gives up leaves that to the next, which queues
 *	anew; so the cohort's place above is lost.
 *
 * State of a cohort, in the bay's `unused`. All but `low` and `root` are written by the head of `low`
 *	turn	0		the cohort has not got the lock above
 *		n		it has, and has handed it on n - 1 times within
 *	high	null, context	with which it has that lock, or waits for it
 *	above	null, cohort	where that is, null for the root: its bay has this one as a user
 *	since	t		when it got the lock above, in us
 *	root	queue		of the lock: each user of the bay writes the same
 * `low` may be left with the node of one that has given up at its tail: it ends at one that
 * has left, whoever comes (pull.h).
 * State of a waiter (`status`): its basic lock's, and
 *	HEAD -> WAITING		by its thread, which is the head in its cohort (`leads`), until it is
 *				HEAD of the whole; its handlers may make something else of it
 *
 * Invariants
 *  I101	A context is used by the head of its bay's `low` alone, or by who passes it when it
 *	has been left; and by one thread, to wait with, as long as it has a record.
 *  I102	A bay has a user for each waiter of its `low` and for the head.
 *  I103	turn != 0: all the locks above are held as well. So if only some were acquired none
 *	is passed (`whole`).
 *  I104	A lock is let go before the one below it: who comes next finds turn == 0, and no
 *	context but such as are busy.
 *
 * Ledger
 *  O1	The fields of a cohort, and so the contexts: release of `low` in leave or pass,
 *	acquire of its next head (levels.h).
 *  O2	record of a context: release by the thread that has waited, acquire in
 *	pk_context_take().
 *  O3	pk_bay_leave() and pk_bay_enter(): the next user of the bay finds turn == 0.
 *
 * Lifetime: bays and contexts are never unmapped. A thread is a user of the bays from enter to
 *	leave, or until it has given up; the lock's own queue exists that long (admit.h).
 * Fork: the child finds bays and contexts empty, and who waits with one there, in a handler
 *	that has forked, finds ORPHAN. Signals: see give_up().
 * Progress: see the basic locks.
 * Fairness: that of the basic locks, between cohorts; a cohort that waits at one level has the
 *	lock after at most `bound` hand-overs, or 20 ms and a few hand-overs, in each cohort
 *	before it.
 * Cost: nothing for an idle lock; for a contended one 192 bytes of the cohort's storey for each
 *	cohort while threads of it wait; its record for a waiting thread. */
#include <stddef.h>

#include "admit/levels.h"
#include "base/await.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/thread.h"

struct cohort {
	struct pk_queue low;
	struct pk_queue *root;
	struct pk_waiter *high;
	struct cohort *above;
	uint32_t turn;
	uint32_t since;
};

_Static_assert(sizeof(struct cohort) <= sizeof(((struct pk_bay *)0)->unused), "a bay has room for a cohort");

enum {
	TURN_US = 20000, /* how long a cohort keeps the lock above */
	LOOK = 4,	 /* how many hand-overs until the innermost one looks at the clock */
};

static struct cohort *cohort_of(struct pk_bay *bay)
{
	return (struct cohort *)bay->unused;
}

static struct pk_bay *bay_of(struct cohort *co)
{
	return (struct pk_bay *)((char *)co - offsetof(struct pk_bay, unused));
}

/* Where w waits, or has waited: there is more than one level. */
static struct cohort *place_of(const struct pk_waiter *w)
{
	return (struct cohort *)w->queue;
}

static void leave_bay(struct cohort *co)
{
	pk_bay_leave(bay_of(co), pk_bay_object(bay_of(co)));
}

/* relaxed: each user of the bay writes it, the caller before. */
static struct pk_queue *root_of(const struct cohort *co)
{
	return pk_load_relaxed(&co->root);
}

/* The cohort may keep the lock above for another hand-over. */
static bool may_keep(const struct pk_composed *c, struct cohort *co, unsigned level)
{
	if (!co->turn || co->turn > (pk_load_relaxed(&pk_config_batch_given) ? pk_knob(batch) : c->bound))
		return false;
	if (level == 0 && co->turn % LOOK)
		return true;
	return (uint32_t)pk_clock_us() - co->since <= TURN_US;
}

/* Release lock[level], which is held with that node, in cohort co: pass it on where that is
 * allowed, or else what is above it first. `whole`: all above is held, or nothing. */
static void release(const struct pk_composed *c, unsigned level, struct pk_waiter *node, struct cohort *co, int *held,
		    bool whole)
{
	struct {
		struct pk_waiter *node;
		struct cohort *co;
	} below[PK_COHORTS];
	unsigned first = level;
	struct pk_queue *root = co ? root_of(co) : node->queue;

	for (;;) {
		if (level == c->root) {
			c->lock[level]->leave(root, node, held);
			break;
		}
		if (whole && pk_bay_users(bay_of(co), root_of(co)) > 1 && may_keep(c, co, level)) {
			co->turn++; /* by pass() the next head sees it */
			if (c->lock[level]->pass(&co->low, node, held)) {
				leave_bay(co);
				break;
			}
		}
		below[level].node = node;
		below[level++].co = co;
		if (!co->turn)
			break;
		node = co->high;
		co->turn = 0;
		co->high = NULL;
		if (level < c->root)
			co = co->above;
		if (pk_unlikely(!node || (!co && level < c->root)))
			return; /* a handler has forked, and this is the child */
	}
	while (level-- > first) { /* I104 */
		co = below[level].co;
		c->lock[level]->leave(&co->low, below[level].node, NULL);
		leave_bay(co);
	}
}

/* The thread waits with that context no more. */
static void drop_context(struct pk_waiter *node)
{
	pk_self.context = NULL;
	pk_store_release(&node->record, NULL); /* O2 */
}

/* w is the head in its cohort, or has given the place up, and cannot go on: away with it. */
static enum pk_entered withdraw(const struct pk_composed *c, struct pk_waiter *w, enum pk_entered how)
{
	pk_waiter_set_state(w, PK_ABANDONED);
	w->leads = false;
	release(c, 0, w, place_of(w), NULL, false);
	return how == PK_TIMED_OUT ? how : PK_ORPHANED;
}

/* w, which has got lock[level - 1] in cohort co, gets lock[level] for the cohort. `number`:
 * which of its kind that is. */
static enum pk_entered rise(const struct pk_composed *c, unsigned level, struct pk_waiter *w, struct cohort *co,
			    unsigned number, struct pk_queue *root, const struct pk_deadline *deadline)
{
	struct pk_waiter *node = pk_context_take(c->storey[level - 1] + number, bay_of(co), w->record);
	struct pk_bay *bay = NULL;
	enum pk_entered how = PK_ORPHANED;

	if (node && level < c->root) {
		number = pk_cohort_around(c->kind[level - 1], number, c->kind[level]);
		bay = pk_bay_enter(c->storey[level] + number, root);
		if (!bay) {
			pk_waiter_free(node);
			pk_store_release(&node->record, NULL); /* O2 */
		}
	}
	if (!node || (!bay && level < c->root))
		return withdraw(c, w, PK_ORPHANED);
	node->socket = w->socket;
	node->policy = w->policy;
	pk_store_relaxed(&node->manner, PK_STAYS);
	co->high = node;
	co->above = bay ? cohort_of(bay) : NULL;
	pk_self.context = node;
	how = c->lock[level]->enter(bay ? &cohort_of(bay)->low : root, node, deadline);
	w->slept |= node->slept;
	drop_context(node);
	if (how == PK_IS_HEAD) {
		co->since = (uint32_t)pk_clock_us(); /* here the word is still to be waited for */
		co->turn = 1;
		return how;
	}
	if (pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD)
		return PK_ORPHANED; /* give_up() has seen to the rest, or this is the child of a fork */
	co->high = NULL;
	if (bay)
		leave_bay(co->above);
	return withdraw(c, w, how);
}

/* w is the head in its cohort, which is the number-th of its kind: be that of the whole. */
static enum pk_entered climb(const struct pk_composed *c, struct pk_queue *q, struct pk_waiter *w, unsigned number,
			     const struct pk_deadline *deadline)
{
	struct cohort *co = place_of(w);

	if (!co->turn) {
		w->leads = true;
		pk_handlers_see();
		pk_waiter_set_state(w, PK_WAITING);
	}
	for (unsigned level = 1; !co->turn; level++) { /* I103 */
		enum pk_entered how = rise(c, level, w, co, number, q, deadline);

		if (how != PK_IS_HEAD)
			return how;
		if (level == c->root)
			break;
		number = pk_cohort_around(c->kind[level - 1], number, c->kind[level]);
		co = co->above;
		if (pk_unlikely(!co)) /* a handler has forked, and this is the child */
			return PK_ORPHANED;
		pk_store_relaxed(&co->root, q);
	}
	/* In this order: a handler in between finds the head of the whole. */
	pk_waiter_set_state(w, PK_HEAD);
	pk_handlers_see();
	w->leads = false;
	return PK_IS_HEAD;
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	const struct pk_composed *c = pk_composed_of(w->policy);
	enum pk_entered how;
	struct pk_bay *bay;
	unsigned number;

	w->leads = false;
	if (!c->root)
		return c->lock[0]->enter(q, w, deadline);
	number = pk_cohort_here(c->kind[0], w->record->index);
	bay = pk_bay_enter(c->storey[0] + number, q);
	if (!bay) {
		pk_waiter_free(w);
		return PK_ORPHANED;
	}
	/* Each of its users writes the same. turn.c asks for it as soon as w is the head there. */
	pk_store_relaxed(&cohort_of(bay)->root, q);
	how = c->lock[0]->enter(&cohort_of(bay)->low, w, deadline);
	if (how == PK_IS_HEAD)
		return climb(c, q, w, number, deadline);
	/* An orphan's bay is another process's, or give_up() has left it. */
	if (how != PK_ORPHANED)
		leave_bay(cohort_of(bay));
	return how;
}

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	const struct pk_composed *c = pk_composed_of(w->policy);
	struct cohort *co = c->root ? place_of(w) : NULL;

	(void)q;
	(void)word;
	/* Who is next: the first one that waits, from here upwards. */
	for (unsigned level = 0; w && c->lock[level]->rouse && !c->lock[level]->rouse(w) && level < c->root; level++) {
		w = co ? co->high : NULL; /* null: a handler has forked, and this is the child */
		co = co ? co->above : NULL;
	}
	return 0;
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	const struct pk_composed *c = pk_composed_of(w->policy);

	(void)q;
	if (!c->root)
		c->lock[0]->leave(w->queue, w, held);
	else if (pk_likely(pk_bay_users(bay_of(place_of(w)), q)))
		release(c, 0, w, place_of(w), held, true);
	/* else a handler has forked, and this is the child */
}

/* While its thread sleeps: in its cohort, or above, with a context. That one stays the thread's
 * until it has come back from the sleep, or ends. */
static void give_up(struct pk_queue *low, struct pk_waiter *w)
{
	const struct pk_composed *c = pk_composed_of(w->policy);
	struct cohort *co = (struct cohort *)low, *above;
	struct pk_waiter *node;
	unsigned level = 1;

	/* A handler that waits again, or ends its thread: w has no place any more. */
	if (pk_state(pk_load_relaxed(&w->status)) > PK_HEAD) {
		if (pk_self.exiting && pk_self.context)
			drop_context(pk_self.context);
		return;
	}
	if (!w->leads) {
		if (!c->lock[0]->flee(low, w)) {
			if (c->root)
				release(c, 0, w, co, NULL, true);
			else
				c->lock[0]->leave(low, w, NULL);
		} else if (c->root) {
			leave_bay(co);
		}
		return;
	}
	if (!pk_waiter_abandon(w))
		return;
	for (; co && co->turn; level++)
		co = co->above;
	if (!co) { /* it has got the last one, and was about to be the head */
		w->leads = false;
		release(c, 0, w, place_of(w), NULL, true);
		return;
	}
	node = co->high;
	above = co->above;
	if (!node) /* it was about to look for one */
		above = NULL;
	else if (!c->lock[level]->flee(above ? &above->low : root_of(co), node))
		release(c, level, node, above, NULL, true);
	else if (above)
		leave_bay(above);
	co->high = NULL;
	if (pk_self.exiting && node) { /* it does not come back */
		pk_spin_end(node);
		drop_context(node);
	}
	withdraw(c, w, PK_ORPHANED); /* the cohort's lock, too */
}

static struct pk_queue *root(struct pk_waiter *w)
{
	return pk_composed_of(w->policy)->root ? root_of(place_of(w)) : w->queue;
}

#define PK_COMPOSED_OPS(name, abortable)                                                                               \
	const struct pk_admit_ops pk_##name = {PK_POLICY_##name, abortable, enter, tend, leave, NULL, NULL,            \
					       give_up,		 root};

PK_COMPOSED_OPS(hmcs, false)
PK_COMPOSED_OPS(clof, false)
PK_COMPOSED_OPS(c_bo_mcs, false)
PK_COMPOSED_OPS(c_tkt_tkt, false)
PK_COMPOSED_OPS(c_ptl_tkt, false)
PK_COMPOSED_OPS(a_c_bo_bo, true)
PK_COMPOSED_OPS(a_c_bo_clh, true)
