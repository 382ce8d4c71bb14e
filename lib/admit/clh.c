/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* clh: one queue in order of arrival, each waiter polls its predecessor's node. A
 * NUMA-oblivious baseline.
 *
 * Paper: Craig, TR 1993, and Magnusson, Landin and Hagersten, IPPS 1994; as a baseline in
 *	Cohort (TOPC'15 section 4) and CLoF (SOSP'21 section 2). All of it is in pull.h.
 * Deviations
 *  D41	A node is freed by the successor, not taken over: nodes belong to records.
 *  D42	Who polls for long names itself in the predecessor's node, and sleeps.
 * Fairness: first come, first served among those who queue.
 * Cost: see pull.h. */
#include "admit/levels.h"
#include "admit/pull.h"

static struct pk_waiter *poll(struct pk_waiter *prev)
{
	return pk_load_acquire(&prev->next); /* O2 */
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_pull_enter(q, w, deadline, poll);
}

const struct pk_admit_ops pk_clh = {PK_POLICY_clh, false, enter,	   NULL, pk_pull_leave,
				    NULL,	   NULL,  pk_pull_give_up, NULL};
const struct pk_basic pk_basic_clh = {enter, pk_pull_leave, pk_pull_pass, pk_pull_flee, NULL};
