/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The waiters of a process-private condition variable: a list, in order of arrival, with a lock of its own, which is held for a few
 * instructions for each waiter that is touched.
 *
 * The object names the first and the last one (rt/arena.h). Who comes names the one before it (`hint`), and touches nothing but its
 * own node and the object: it holds the mutex, and each node is a line that is far. `next` is made by whoever goes through the
 * list, for those who have come since (pk_cond_link_up()).
 *
 * Ledger (cond.c has the rest)
 *  C1	lock: acquire when the list is taken, release when it is let go: the list,
 *	and the nodes in it as their threads initialised them.
 *
 * Fork: a lock or a list of another incarnation is a thread's that the child does not
 * have, and counts as free and empty. */
#ifndef PK_PTHREAD_COND_LIST_H
#define PK_PTHREAD_COND_LIST_H

#include <limits.h>

#include "base/await.h"
#include "base/layout.h"
#include "rt/arena.h"
#include "rt/fork.h"
#include "rt/futex.h"

enum {
	/* The lock's word: 0, or the holder's incarnation and these. */
	PK_COND_LOCKED = 1,
	PK_COND_CONTENDED = 2, /* somebody may sleep on it */
	PK_COND_INCARNATION_SHIFT = 2,
	/* How long to wait for it awake: it is held for less. */
	PK_COND_LOCK_ROUNDS = 100,
};

/* The last waiter, or null. What does not belong here is the parent's, or was copied
 * along with another object. Both ends are looked at: a handler may fork between the two stores. */
PK_INLINE struct pk_waiter *pk_cond_last(const struct pk_cond *c)
{
	bool ours = c->at == (uintptr_t)c && pk_waiter_named(c->waiters.aux);

	return ours ? pk_waiter_named(pk_load_relaxed(&c->waiters.tail)) : NULL;
}

PK_INLINE void pk_cond_set_last(struct pk_cond *c, const struct pk_waiter *w)
{
	pk_store_relaxed(&c->waiters.tail, w ? pk_waiter_name(w) : 0);
}

/* Where there is a last one. Null: a handler has forked since that was seen. */
PK_INLINE struct pk_waiter *pk_cond_first(const struct pk_cond *c)
{
	return pk_waiter_named(c->waiters.aux);
}

/* The first waiter, or null, for who goes through the list: not who stands in another one by now, since a copy of the object was
 * kept, and brought back. */
PK_INLINE struct pk_waiter *pk_cond_front(const struct pk_cond *c)
{
	struct pk_waiter *w = pk_cond_last(c) ? pk_cond_first(c) : NULL;

	return w && w->queue == &c->waiters ? w : NULL;
}

PK_INLINE void pk_cond_set_first(struct pk_cond *c, const struct pk_waiter *w)
{
	c->waiters.aux = pk_waiter_name(w);
}

PK_INLINE void pk_cond_count(struct pk_cond *c, uint32_t n)
{
	pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) + n * PK_COND_WAITER);
}

/* Take the list's lock. */
static inline void pk_cond_take(struct pk_cond *c)
{
	unsigned budget = PK_COND_LOCK_ROUNDS;
	uint32_t mine, want;

	if (pk_unlikely(!pk_incarnation()))
		pk_fork_begin_child(); /* it must not change while we hold the lock */
	mine = want = pk_incarnation() << PK_COND_INCARNATION_SHIFT | PK_COND_LOCKED;
	for (;;) {
		uint32_t seen = pk_load_relaxed(&c->lock);

		if ((seen & ~(uint32_t)PK_COND_CONTENDED) != mine) {	   /* free, or a ghost's */
			if (pk_cas_acquire(&c->lock, &seen, want)) /* C1 */
				break;
		} else if (pk_spent(&budget) &&
			   (seen & PK_COND_CONTENDED || pk_cas_relaxed(&c->lock, &seen, mine | PK_COND_CONTENDED))) {
			pk_futex_wait(&c->lock, mine | PK_COND_CONTENDED, NULL);
			want = mine | PK_COND_CONTENDED; /* others may sleep there still */
		}
	}
	if (pk_unlikely(!pk_cond_last(c) && pk_load_relaxed(&c->waiters.tail))) {
		pk_cond_set_last(c, NULL);
		c->passed = 0;
		pk_store_relaxed(&c->refs, pk_load_relaxed(&c->refs) & (PK_COND_WAITER - 1));
	}
}

/* Let it go. Nothing of the object is touched after the exchange, but for its address. */
static inline void pk_cond_let_go(struct pk_cond *c)
{
	bool destroyer = pk_load_relaxed(&c->refs) & PK_COND_DESTROYER;

	if (pk_unlikely(pk_xchg_release(&c->lock, 0) & PK_COND_CONTENDED)) /* C1 */
		pk_futex_wake(&c->lock, 1);
	if (pk_unlikely(destroyer))
		pk_futex_wake(&c->refs, INT_MAX);
}

/* Add w, as the last one. */
static inline void pk_cond_list(struct pk_cond *c, struct pk_waiter *w)
{
	pk_store_relaxed(&w->next, NULL); /* relaxed: who walks a chain late loads it, too */
	pk_cond_take(c);
	w->hint = pk_cond_last(c);
	if (!w->hint) {
		c->at = (uintptr_t)c;
		pk_cond_set_first(c, w);
	}
	pk_cond_set_last(c, w);
	pk_cond_count(c, 1);
	pk_cond_let_go(c);
}

/* Each names the next one, but for the last: the newest do not yet. In a child that a handler has forked since, the first one is nobody. */
static inline void pk_cond_link_up(struct pk_cond *c)
{
	const struct pk_waiter *first = pk_cond_first(c);

	for (struct pk_waiter *w = pk_cond_last(c); w && w != first && w->hint && w->hint->next != w; w = w->hint)
		pk_store_relaxed(&w->hint->next, w);
}

/* The one behind w, or null. */
PK_INLINE struct pk_waiter *pk_cond_after(struct pk_cond *c, const struct pk_waiter *w)
{
	if (!w->next)
		pk_cond_link_up(c);
	return w->next;
}

/* Take w out. The lock is the caller's. */
static inline void pk_cond_unlist(struct pk_cond *c, struct pk_waiter *w)
{
	struct pk_waiter *first = pk_cond_first(c), *next = pk_cond_after(c, w);

	if (next && w == first)
		pk_cond_set_first(c, next);
	else if (next)
		next->hint = w->hint;
	else if (w == first)
		c->passed = 0;
	if (w != first && w->hint)
		pk_store_relaxed(&w->hint->next, next);
	if (!next)
		pk_cond_set_last(c, w == first ? NULL : w->hint);
	pk_cond_count(c, -1u);
}

#endif
