/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* mcs: one queue in order of arrival; the NUMA-oblivious baseline.
 *
 * Paper: Mellor-Crummey and Scott, TOCS 1991, in the form that ShflLock gives it
 *	(lock state decoupled from the queue); all of it is in list.h.
 * Fairness: first come, first served among those who queue, unless they sleep and the lock waits for them (list.h, D11).
 * Cost: see list.h. */
#include "admit/levels.h"
#include "admit/list.h"

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_list_enter(q, w, deadline, NULL);
}

static enum pk_entered enter_level(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_list_enter_in(q, w, deadline, NULL, false);
}

static bool rouse(struct pk_waiter *w)
{
	struct pk_waiter *n = pk_list_reap(w);

	if (n)
		pk_list_rouse(w, n);
	return n;
}

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	(void)q;
	(void)word;
	rouse(w);
	return 0;
}

static bool pass(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)q;
	return pk_list_hand(w, held);
}

static bool flee(struct pk_queue *q, struct pk_waiter *w)
{
	(void)q;
	if (pk_waiter_abandon(w))
		return true;
	if (!pk_waiter_is_head(w))
		return true;
	/* relaxed: for the thread itself, whose handler this is */
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ABANDONED));
	return false;
}

static void splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held)
{
	pk_list_splice(q, first, last, held, PK_POLICY_mcs);
}

const struct pk_admit_ops pk_mcs = {PK_POLICY_mcs, true, enter, tend, pk_list_pass, splice, pk_list_settle, NULL, NULL};
const struct pk_basic pk_basic_mcs = {enter_level, pk_list_pass, pass, flee, rouse};
