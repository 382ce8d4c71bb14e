/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Joining a queue at its tail, by one exchange.
 *
 * The tail names the last waiter, of this process's incarnation, and its policy. What
 * else it may name counts as no predecessor: a ghost, a node of another queue (the lock
 * was copied while somebody queued), and a waiter of another policy: the policy in force
 * has changed. That one is told that nobody will follow it (END), and the queue goes on
 * in two parts; their heads meet at the word.
 *
 * State of `next`, of the policies that queue here
 *	any -> null		by its thread, before it queues
 *	null -> successor	by the successor, if its policy links
 *	null -> END		by a successor of another policy
 *	null -> LEFT		by the one that leaves: its successor, who has not
 *				been seen yet, frees the node
 * Exactly one of them is first, and so it is known who frees the node: who finds END or
 * LEFT there. (pull.h has three more.)
 *
 * Ledger
 *  O1	tail: the exchange releases the node's initialisation to its successor's
 *	exchange, which acquires it.
 *  O2	next: acq_rel of END and LEFT: who frees the node comes after the other's use. */
#ifndef PK_TAIL_H
#define PK_TAIL_H

#include "admit/admit.h"

#define PK_LEFT ((struct pk_waiter *)1)
#define PK_END ((struct pk_waiter *)2)
#define PK_FLED ((struct pk_waiter *)3) /* pull.h */
/* The node with this bit set in its address: pull.h. */
#define PK_SLEEPER ((uintptr_t)4)

/* No node: one of these. */
PK_INLINE bool pk_is_mark(const struct pk_waiter *next)
{
	return (uintptr_t)next & 7;
}

PK_INLINE bool pk_is_sleeper(const struct pk_waiter *next)
{
	return (uintptr_t)next & PK_SLEEPER;
}

/* Tell prev that nobody will follow it. */
PK_INLINE void pk_tail_end(struct pk_waiter *prev)
{
	struct pk_waiter *seen = NULL;

	/* Who has left is ours to free. So is who has given up, and names its own
	 * predecessor (pull.h): that one is told instead. */
	while (!pk_cas_acq_rel(&prev->next, &seen, PK_END)) /* O2 */
		if (seen && seen != PK_FLED && !pk_is_sleeper(seen)) {
			pk_waiter_free(prev);
			if (seen == PK_LEFT)
				return;
			prev = seen;
			seen = NULL;
		}
}

/* Put w at the tail of q, or the chain that it is the last of; returns whom it joins
 * behind, or null. */
PK_INLINE struct pk_waiter *pk_tail_join(struct pk_queue *q, struct pk_waiter *w)
{
	uint64_t name = pk_xchg_acq_rel(&q->tail, pk_waiter_name(w)); /* O1 */
	struct pk_waiter *prev = pk_waiter_named(name);

	/* w itself: an earlier use, in what this lock is a copy of */
	if (!prev || prev == w || prev->queue != q)
		return NULL;
	if (pk_likely(pk_name_policy(name) == w->policy))
		return prev;
	pk_tail_end(prev);
	return NULL;
}

/* Make the queue end with `last`, or be empty (null), if w is its last one. */
PK_INLINE bool pk_tail_cut(struct pk_queue *q, const struct pk_waiter *w, const struct pk_waiter *last)
{
	uint64_t name = pk_waiter_name(w);
	/* Of the same incarnation: a handler may fork here, and the child has no such waiters. */
	uint64_t end = last ? (name & ~(uint64_t)UINT32_MAX) | (uint32_t)pk_waiter_name(last) : 0;

	/* release: who joins next starts after us (O1). acquire: if it is the last one again because who had joined
	 * behind it has given up (pull.h), that one has read its node, which is to be used anew. */
	return pk_load_relaxed(&q->tail) == name && pk_cas_acq_rel(&q->tail, &name, end);
}

#endif
