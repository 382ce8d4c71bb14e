/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* awake: one queue in order of arrival, but a waiter that is awake goes before one that sleeps. The example of
 * doc/HACKING.md, which walks through it; tests/hacking/example puts it into a copy of the tree.
 *
 * Paper: none. The idea, to hand on to who can run at once, is in ShflLock's section 4.2.2 and Malthusian Locks.
 * Deviations: those of list.h, D1 to D4 and D11.
 * Invariants: list.h's.
 *  I91	Only nodes whose `next` is set change places: never the tail's.
 * Ledger: list.h's; `batch` of the head's successor is told with the headship (O3).
 * Fairness: a sleeper is overtaken in the queue at most OVERTAKEN times.
 * Cost: see list.h. */
#include "admit/list.h"

enum { OVERTAKEN = 4 };

/* relaxed: a hint, which may be old when it is acted on; to change places is right all the same */
static bool sleeps(const struct pk_waiter *w)
{
	return pk_state(pk_load_relaxed(&w->status)) == PK_PARKED;
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_list_enter(q, w, deadline, NULL);
}

/* While the head waits for the word: have its successor awake, if its socket has room for one more that spins. */
static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	struct pk_waiter *n = pk_list_reap(w);

	(void)q;
	(void)word;
	if (n)
		pk_list_rouse(w, n);
	return 0;
}

/* w has the word: let m, which is behind its successor n, change places with it if n sleeps and m does not. */
static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_waiter *n = pk_list_reap(w);
	struct pk_waiter *m = n ? pk_list_next(n) : NULL;
	struct pk_waiter *rest = m ? pk_list_next(m) : NULL;

	if (rest && n->batch < OVERTAKEN && sleeps(n) && !sleeps(m)) {
		n->batch++;
		pk_store_release(&n->next, rest); /* O2 */
		pk_store_release(&m->next, n);	  /* O2 */
		pk_store_release(&w->next, m);	  /* O2 */
	}
	pk_list_pass(q, w, held);
}

static void splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held)
{
	pk_list_splice(q, first, last, held, PK_POLICY_awake);
}

const struct pk_admit_ops pk_awake = {PK_POLICY_awake, true, enter, tend, leave, splice, pk_list_settle, NULL, NULL};
