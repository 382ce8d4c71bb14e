/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* hem, hemctr: Hemlock. Each waiter polls its predecessor's grant word, and acknowledges
 * the grant. NUMA-oblivious baselines.
 *
 * Paper: Dice and Kogan, Hemlock, SPAA'21; as a building block in CLoF (SOSP'21 section
 *	2.1), where `ctr` is its coherence-traffic reduction: polling with a
 *	compare-and-swap has the line in the right state for the acknowledgement, at the
 *	cost of x86's locked instructions (and is bad on Arm, the same section says).
 *	The queue is pull.h's.
 * Deviations
 *  D43	The grant word is the node's, not the thread's: a thread that holds several locks
 *	does not have to wait until an earlier grant has been acknowledged, which a
 *	preempted successor would make long.
 *  D44	The acknowledgement is what frees the node; so nobody waits for it.
 * Fairness: first come, first served among those who queue.
 * Cost: see pull.h. */
#include "admit/levels.h"
#include "admit/pull.h"

static struct pk_waiter *poll_ctr(struct pk_waiter *prev)
{
	struct pk_waiter *granted = PK_LEFT;

	/* O2. The failure acquires nothing: who has given up is looked at once more. */
	if (!pk_cas_acquire(&prev->next, &granted, NULL) && !pk_pull_stays(granted))
		granted = pk_load_acquire(&prev->next); /* O2 */
	return granted;
}

static struct pk_waiter *poll(struct pk_waiter *prev)
{
	struct pk_waiter *seen = pk_load_acquire(&prev->next); /* O2 */

	return seen == PK_LEFT ? poll_ctr(prev) : seen;
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_pull_enter(q, w, deadline, poll);
}

static enum pk_entered enter_ctr(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_pull_enter(q, w, deadline, poll_ctr);
}

const struct pk_admit_ops pk_hem = {PK_POLICY_hem, false, enter,	   NULL, pk_pull_leave,
				    NULL,	   NULL,  pk_pull_give_up, NULL};
const struct pk_admit_ops pk_hemctr = {PK_POLICY_hemctr, false, enter_ctr, NULL, pk_pull_leave, NULL, NULL,
				       pk_pull_give_up,	 NULL};
const struct pk_basic pk_basic_hem = {enter, pk_pull_leave, pk_pull_pass, pk_pull_flee, NULL};
