/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* mcs: one queue in order of arrival; the NUMA-oblivious baseline.
 *
 * Paper: Mellor-Crummey and Scott, TOCS 1991, in the form that ShflLock gives it
 *	(lock state decoupled from the queue); all of it is in list.h.
 * Fairness: first come, first served among those who queue.
 * Cost: see list.h. */
#include "admit/list.h"

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
		pk_list_rouse(w, n);
	return 0;
}

static void splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held)
{
	pk_list_splice(q, first, last, held, PK_POLICY_mcs);
}

const struct pk_admit_ops pk_mcs = {PK_POLICY_mcs, true, enter, tend, pk_list_pass, splice, pk_list_settle, NULL};
