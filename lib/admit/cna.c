/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* cna: compact NUMA-aware lock. Two queues in one word: waiters of other sockets than
 * the holder's are set aside for a while.
 *
 * Paper: Dice and Kogan, EuroSys'19, sections 4 to 6 and figures 2 to 5. The main queue
 *	is list.h's; the secondary one is list.h's list of those set aside.
 * Deviations (D1-D4 and D11 are in list.h)
 *  D21	The next one is chosen when the head gets the word, not when it lets it go
 *	(figure 4): so has the Linux kernel's CNA, whose lock state is a word, too. The
 *	search (figure 5) is done while the head waits, off the critical path.
 *  D22	Shuffle reduction (section 6) without a random number: a head that gets the word
 *	at once has not searched, and as long as nobody is set aside it does not then
 *	either: contention is light. (PARKADE_REDUCTION draws as the paper does, too.)
 *  D23	The long-term fairness threshold is a number of hand-overs, drawn when the first
 *	waiter is set aside, and counted down (the last optimisation of section 6). Its
 *	mean is PARKADE_BATCH, not 65536: a hand-over to a thread that sleeps takes up
 *	to a hundred times as long as those of the paper. For the same reason time
 *	counts, too.
 *  D24	The socket is not encoded in the link (section 6): it stands in the same cache
 *	line as the status and the link, which the search needs anyway.
 *
 * State of the head: `shuffler` is 1 once it has found a successor of its own socket,
 * `hint` says how far it has searched, if it has not.
 *
 * Invariants, beside list.h's
 *  I21	Only the head changes the links of the main queue behind it, and only those that
 *	it has found set: the last node's never.
 *  I22	Every node set aside is of another socket than the heads since the first one
 *	was (unless the successor gives up in the very moment). So the head that finds
 *	nobody of its own socket brings all of them back, and they are next.
 *  I23	`hint` of the head is linked: only the head itself unlinks there (I4).
 *
 * Ledger: list.h's; `aside` and `batch` are told with the headship (O3).
 * Progress: a search ends at the tail or at the first waiter of the head's socket.
 * Fairness: who is set aside is brought back after 2 * PARKADE_BATCH hand-overs or 20 ms
 *	at the latest; in the main queue it is first come, first served.
 * Cost: see list.h: nothing for a lock, its record for a waiting thread. */
#include "admit/list.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/topology.h"

enum { ASIDE_US = 20000 };

/* 1 to 2 * mean, on average mean. The number of uses of a node serves as the seed. */
static uint32_t draw(const struct pk_waiter *w, uint32_t mean)
{
	uint64_t seed = (uint64_t)pk_load_relaxed(&w->status) << 32 | w->id;

	return 1 + (uint32_t)((seed * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (2 * (uint64_t)mean));
}

/* Put the waiters from first to last, which stand between w and `next`, aside. */
static void set_aside(struct pk_waiter *w, struct pk_waiter *first, struct pk_waiter *last, struct pk_waiter *next)
{
	pk_store_release(&w->next, next); /* O2 */
	pk_store_relaxed(&last->next, NULL);
	if (w->aside) {
		pk_store_release(&w->aside->hint->next, first); /* O2 */
	} else {
		w->aside = first;
		w->batch = draw(w, pk_knob(batch));
		first->batch = (uint32_t)pk_clock_us(); /* since when */
	}
	w->aside->hint = last;
	pk_count(w, PK_STAT_aside);
}

/* Bring all of them back, before n, the successor of w. */
static void bring_back(struct pk_waiter *w, struct pk_waiter *n)
{
	pk_store_release(&w->aside->hint->next, n); /* O2 */
	pk_store_release(&w->next, w->aside);	    /* O2 */
	w->aside->hint = NULL;
	w->aside->batch = 0;
	w->aside = NULL;
}

/* Have the next waiter of w's socket be w's successor, if there is one. */
static void search(struct pk_waiter *w)
{
	struct pk_waiter *first = pk_list_reap(w), *last = w->hint ? w->hint : first, *cur;

	if (!first)
		return;
	if (first->socket == w->socket)
		pk_store_relaxed(&w->shuffler, 1);
	while (!pk_load_relaxed(&w->shuffler) && (cur = pk_list_next(last))) {
		struct pk_waiter *after;

		if (cur->socket == w->socket && !pk_list_gone(cur)) {
			set_aside(w, first, last, cur);
			w->hint = NULL;
			pk_store_relaxed(&w->shuffler, 1);
			return;
		}
		if (pk_list_gone(cur) && (after = pk_list_next(cur))) {
			pk_store_release(&last->next, after); /* O2 */
			pk_waiter_free(cur);
		} else {
			last = cur;
		}
	}
	w->hint = last;
}

static bool is_due(const struct pk_waiter *w)
{
	return !w->batch || (uint32_t)pk_clock_us() - w->aside->batch > ASIDE_US;
}

/* Nobody is set aside, and it is not worth while to begin with it. */
static bool is_light(const struct pk_waiter *w)
{
	return !w->aside && draw(w, pk_knob(reduction)) > 2;
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
	if (n && pk_sockets > 1 && !pk_load_relaxed(&w->shuffler) && !is_light(w)) {
		search(w);
		n = pk_list_next(w);
	}
	if (n)
		pk_list_rouse(w, n);
	return 0;
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	if (w->aside) { /* D22 */
		struct pk_waiter *n;

		if (!pk_load_relaxed(&w->shuffler))
			search(w);
		n = pk_list_next(w);
		if (n && (n->socket != w->socket || is_due(w)))
			bring_back(w, n);
		else if (w->batch)
			w->batch--;
	}
	pk_list_pass(q, w, held);
}

static void splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held)
{
	pk_list_splice(q, first, last, held, PK_POLICY_cna);
}

const struct pk_admit_ops pk_cna = {PK_POLICY_cna, true, enter, tend, leave, splice, pk_list_settle, NULL, NULL};
