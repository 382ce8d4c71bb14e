/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* tkt: ticket lock, all waiters look at one word. A NUMA-oblivious baseline.
 *
 * Paper: Mellor-Crummey and Scott, TOCS 1991; as a baseline in Cohort (TOPC'15 section 4)
 *	and CLoF (SOSP'21 section 2). The tickets are ticket.h's.
 * Deviations
 *  D51	Who looks for long sleeps on the word, and is woken by its number.
 *  D52	A number is drawn by compare-and-swap, not fetch-and-add: the word may be a
 *	ghost's. */
#include "admit/levels.h"
#include "admit/ticket.h"

uint32_t pk_tickets_dead;

static void sleep_on_word(struct pk_queue *q, struct pk_waiter *w)
{
	uint64_t aux = pk_load_relaxed(&q->aux), want = aux | PK_TICKET_SLEEPERS;

	/* A handler may have given the number up since it was looked at: then nobody calls. */
	if (!pk_aux_is(q, aux, PK_AUX_TKT) || pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD)
		return;
	if (pk_ticket_shown(aux) != w->batch && (aux == want || pk_cas_relaxed(&q->aux, &aux, want)))
		pk_ticket_doze(pk_aux_half(q), (uint32_t)want, pk_ticket_bit(w->batch));
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	(void)deadline;
	return pk_ticket_enter(q, w, PK_AUX_TKT, sleep_on_word);
}

static void call(struct pk_queue *q, uint32_t number, uint64_t aux)
{
	if (aux & PK_TICKET_SLEEPERS && pk_futex_wake_bits(pk_aux_half(q), pk_ticket_bit(number)))
		pk_count_in(pk_self.record, PK_STAT_woken);
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)held;
	pk_waiter_free(w);
	pk_ticket_show(q, PK_AUX_TKT, call);
}

static bool pass(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)held;
	return pk_ticket_pass(q, w, PK_AUX_TKT, call);
}

static bool flee(struct pk_queue *q, struct pk_waiter *w)
{
	return pk_waiter_abandon(w) ? pk_ticket_die(q, w, PK_AUX_TKT) : !pk_waiter_is_head(w);
}

static void give_up(struct pk_queue *q, struct pk_waiter *w)
{
	if (!flee(q, w))
		leave(q, w, NULL);
}

const struct pk_admit_ops pk_tkt = {PK_POLICY_tkt, false, enter, NULL, leave, NULL, NULL, give_up, NULL};
const struct pk_basic pk_basic_tkt = {enter, leave, pass, flee, NULL};
