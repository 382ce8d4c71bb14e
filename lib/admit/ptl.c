/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* ptl: partitioned ticket lock. Waiters look at one of eight slots, by their number, so
 * that a hand-over disturbs one waiter in eight. A NUMA-oblivious baseline.
 *
 * Paper: Dice, US patent application 2011 and SPAA'11 brief announcement; described in
 *	Cohort (TOPC'15 section 3.2 and figure 5, 8 slots in section 4). The tickets are
 *	ticket.h's.
 * Deviations
 *  D53	The slots are in a table that all locks share (an idle lock costs nothing), and
 *	hold no number, but a count of changes: who sees it change looks at the lock.
 *	Two locks that share slots disturb each other, no more.
 *  D54	Who looks for long sleeps on its slot.
 *
 * Ledger
 *  O2	changes, sleepers: both sides write one and then look at the other, sequentially
 *	consistent: who goes to sleep sees the change, or is seen.
 * Cost: as ticket.h, and a table of 32 KiB for the process. */
#include "admit/levels.h"
#include "admit/ticket.h"

enum { LOCKS = 64, SLOTS = 8 };

static struct slot {
	uint32_t changes; /* futex word */
	uint32_t sleepers;
} PK_ALIGNED(PK_CACHE_LINE) slots[LOCKS][SLOTS];

static struct slot *slot_of(const struct pk_queue *q, uint32_t number)
{
	uint64_t hash = (uint64_t)(uintptr_t)q * UINT64_C(0x9e3779b97f4a7c15);

	return &slots[(hash >> 32) % LOCKS][number % SLOTS];
}

static void sleep_on_slot(struct pk_queue *q, struct pk_waiter *w)
{
	struct slot *s = slot_of(q, w->batch);
	uint32_t changes = pk_load_seq_cst(&s->changes);

	/* A handler may have given the number up since it was looked at: then nobody calls. */
	if (pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD)
		return;
	pk_add_seq_cst(&s->sleepers, 1); /* O2 */
	if (!pk_ticket_is_up(q, w))
		pk_ticket_doze(&s->changes, changes, pk_ticket_bit(w->batch / SLOTS));
	pk_sub_relaxed(&s->sleepers, 1);
}

/* Spin on the slot, and look at the lock when it changes. */
static void spin_on_slot(struct pk_queue *q, struct pk_waiter *w)
{
	struct slot *s = slot_of(q, w->batch);
	/* First this, or a number that is shown in between costs the budget. */
	uint32_t changes = pk_load_acquire(&s->changes);
	unsigned budget = pk_ticket_is_up(q, w) ? 0 : pk_spin_begin(w);

	while (!pk_spent(&budget)) {
		uint32_t seen = pk_load_acquire(&s->changes);

		if (seen != changes && pk_ticket_is_up(q, w))
			break;
		changes = seen;
	}
	pk_spin_end(w);
}

static enum pk_entered wait(struct pk_queue *q, struct pk_waiter *w)
{
	spin_on_slot(q, w);
	return pk_ticket_wait(q, w, sleep_on_slot);
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	(void)deadline;
	if (pk_ticket_draw(q, w, PK_AUX_PTL))
		return wait(q, w);
	return pk_ticket_refused(w);
}

static void call(struct pk_queue *q, uint32_t number, uint64_t aux)
{
	struct slot *s = slot_of(q, number);

	(void)aux;
	pk_add_seq_cst(&s->changes, 1);	     /* O2 */
	if (pk_load_seq_cst(&s->sleepers) && /* O2 */
	    pk_futex_wake_bits(&s->changes, pk_ticket_bit(number / SLOTS)))
		pk_count_in(pk_self.record, PK_STAT_woken);
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)held;
	pk_waiter_free(w);
	pk_ticket_show(q, PK_AUX_PTL, call);
}

static bool pass(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)held;
	return pk_ticket_pass(q, w, PK_AUX_PTL, call);
}

static bool flee(struct pk_queue *q, struct pk_waiter *w)
{
	return pk_waiter_abandon(w) ? pk_ticket_die(q, w, PK_AUX_PTL) : !pk_waiter_is_head(w);
}

static void give_up(struct pk_queue *q, struct pk_waiter *w)
{
	if (!flee(q, w))
		leave(q, w, NULL);
}

const struct pk_admit_ops pk_ptl = {PK_POLICY_ptl, false, enter, NULL, leave, NULL, NULL, give_up, NULL};
const struct pk_basic pk_basic_ptl = {enter, leave, pass, flee, NULL};
