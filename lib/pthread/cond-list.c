/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The list of a condition variable's waiters; the contract is in cond-list.h.
 *
 * Ledger (cond.c has the rest)
 *  C1	lock: acquire when the list is taken, release when it is let go: the list,
 *	and the nodes in it as their threads initialised them. */
#include "pthread/cond-list.h"

#include <limits.h>

#include "base/await.h"
#include "rt/fork.h"
#include "rt/futex.h"

enum {
	/* The lock's word: 0, or the holder's incarnation and these. */
	LOCKED = 1,
	CONTENDED = 2, /* somebody may sleep on it */
	INCARNATION_SHIFT = 2,
	/* How long to wait for it awake: it is held for less. */
	LOCK_ROUNDS = 100,
};

static void set_last(struct pk_cond *c, const struct pk_waiter *w)
{
	pk_store_relaxed(&c->waiters.tail, w ? pk_waiter_name(w) : 0);
}

static void set_first(struct pk_cond *c, const struct pk_waiter *w)
{
	c->waiters.aux = pk_waiter_name(w);
}

static void count(struct pk_cond *c, uint32_t n)
{
	pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) + n * PK_COND_WAITER);
}

void pk_cond_take(struct pk_cond *c)
{
	unsigned budget = LOCK_ROUNDS;
	uint32_t mine, want;

	if (pk_unlikely(!pk_incarnation()))
		pk_fork_begin_child(); /* it must not change while we hold the lock */
	mine = want = pk_incarnation() << INCARNATION_SHIFT | LOCKED;
	for (;;) {
		uint32_t seen = pk_load_relaxed(&c->lock);

		if ((seen & ~(uint32_t)CONTENDED) != mine) {	   /* free, or a ghost's */
			if (pk_cas_acquire(&c->lock, &seen, want)) /* C1 */
				break;
		} else if (pk_spent(&budget) &&
			   (seen & CONTENDED || pk_cas_relaxed(&c->lock, &seen, mine | CONTENDED))) {
			pk_futex_wait(&c->lock, mine | CONTENDED, NULL);
			want = mine | CONTENDED; /* others may sleep there still */
		}
	}
	if (pk_unlikely(!pk_cond_last(c) && pk_load_relaxed(&c->waiters.tail))) {
		set_last(c, NULL);
		c->passed = 0;
		pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) & (PK_COND_WAITER - 1));
	}
}

/* Nothing of the object is touched after the exchange, but for its address. */
void pk_cond_let_go(struct pk_cond *c)
{
	bool destroyer = pk_load_relaxed(&c->refs) & PK_COND_DESTROYER;

	if (pk_unlikely(pk_xchg_release(&c->lock, 0) & CONTENDED)) /* C1 */
		pk_futex_wake(&c->lock, 1);
	if (pk_unlikely(destroyer))
		pk_futex_wake(&c->refs, INT_MAX);
}

void pk_cond_list(struct pk_cond *c, struct pk_waiter *w)
{
	pk_store_relaxed(&w->next, NULL); /* relaxed: who walks a chain late loads it, too */
	pk_cond_take(c);
	w->hint = pk_cond_last(c);
	if (!w->hint) {
		c->at = pk_cond_here(c);
		set_first(c, w);
	}
	set_last(c, w);
	count(c, 1);
	pk_cond_let_go(c);
}

/* Each names the next one, but for the last: the newest do not yet. In a child that a handler has forked since, the first one is nobody. */
void pk_cond_link_up(struct pk_cond *c)
{
	const struct pk_waiter *first = pk_cond_first(c);

	for (struct pk_waiter *w = pk_cond_last(c); w && w != first && w->hint && w->hint->next != w; w = w->hint)
		pk_store_relaxed(&w->hint->next, w);
}

void pk_cond_unlist(struct pk_cond *c, struct pk_waiter *w)
{
	struct pk_waiter *first = pk_cond_first(c), *next = pk_cond_after(c, w);

	if (next && w == first)
		set_first(c, next);
	else if (next)
		next->hint = w->hint;
	else if (w == first)
		c->passed = 0;
	if (w != first && w->hint)
		pk_store_relaxed(&w->hint->next, next);
	if (!next)
		set_last(c, w == first ? NULL : w->hint);
	count(c, -1u);
}
