/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The waiters of a process-private condition variable: a list, in order of arrival, with a lock of its own, which is held for a few
 * instructions for each waiter that is touched.
 *
 * The object names the first and the last one (rt/arena.h). Who comes names the one before it (`hint`), and touches nothing but its
 * own node and the object: it holds the mutex, and each node is a line that is far. `next` is made by whoever goes through the
 * list, for those who have come since (pk_cond_link_up()).
 *
 * Fork: a lock or a list of another incarnation is a thread's that the child does not
 * have, and counts as free and empty. */
#ifndef PK_PTHREAD_COND_LIST_H
#define PK_PTHREAD_COND_LIST_H

#include "base/layout.h"
#include "rt/arena.h"

/* The last waiter, or null. What does not belong here is the parent's, or was copied
 * along with another object. Both ends are looked at: a handler may fork between the two stores. */
PK_INLINE struct pk_waiter *pk_cond_last(const struct pk_cond *c)
{
	bool ours = c->at == pk_cond_here(c) && pk_waiter_named(c->waiters.aux);

	return ours ? pk_waiter_named(pk_load_relaxed(&c->waiters.tail)) : NULL;
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

/* Take the list's lock, and let it go: nothing of the object is touched then, but for its address. */
void pk_cond_take(struct pk_cond *c);
void pk_cond_let_go(struct pk_cond *c);

/* w comes, and is the last one. The lock is taken for it. */
void pk_cond_list(struct pk_cond *c, struct pk_waiter *w);

/* w goes. The lock is the caller's. */
void pk_cond_unlist(struct pk_cond *c, struct pk_waiter *w);

/* Make `next` of those who have come since that was done the last time. */
void pk_cond_link_up(struct pk_cond *c);

/* The one behind w, or null. */
PK_INLINE struct pk_waiter *pk_cond_after(struct pk_cond *c, const struct pk_waiter *w)
{
	if (!w->next)
		pk_cond_link_up(c);
	return w->next;
}

#endif
