/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* backoff: no queue. Waiters try the lock word at growing intervals, then sleep on it. A
 * NUMA-oblivious baseline.
 *
 * Paper: Agarwal and Cherian, ISCA 1989, and Anderson, TPDS 1990; as a baseline and the
 *	global lock of C-BO-MCS in Cohort (TOPC'15 sections 3.3 and 4).
 * Deviations
 *  D61	Everybody is a head of its own: the queue stays empty, and the interval is spent
 *	in tend(). Who has spent PARKADE_SPIN rounds, or finds no room among the spinners of
 *	its socket (rt/spin.h), sleeps on the word as in glibc.
 *
 * State of a waiter: HEAD. `batch` is the interval, in rounds.
 * Fairness: none; the papers' own complaint.
 * Cost: nothing for a lock, its record for a waiting thread. */
#include "admit/backoff.h"

enum { SHORTEST = 4, LONGEST = 1024 };

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	(void)q;
	return pk_back_off(w, word, SHORTEST, LONGEST);
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)q;
	(void)held;
	pk_back_off_leave(w);
}

const struct pk_admit_ops pk_backoff = {
	PK_POLICY_backoff, true, pk_back_off_enter, tend, leave, NULL, NULL, NULL, NULL};
