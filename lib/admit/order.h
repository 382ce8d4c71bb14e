/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Whether it pays to queue for a lock: learnt for each lock.
 *
 * Where there are several sockets: a queue in order keeps the lock on one of them for a while, if enough of those who wait are
 * there. If not, nearly each hand-over is to another socket, and costs more than by glibc's protocol, whose waiters sleep: those
 * of a queue are awake, look at the lock, and write to each other's nodes (sim/FINDINGS.md). What tells is how often the queue
 * hands the lock to another socket, beside how often chance would. Where the order does not pay who comes stays away from the queue
 * (pthread/turn.c); after so many such waits it is tried again.
 *
 * Where there is one: all wait apart but the head, which spins to have the lock as soon as it is let go, while sleepers wake up.
 * If others are always awake, as more threads than CPUs want it, or take it many times while the head's look is on its way, as
 * each cache group is far from the next one, it costs more than it brings. What tells is how many have had the lock while the
 * head waited. Where they are many there is no head, until that is tried again.
 *
 * Each thread counts what it hands on of one lock, and tells the lock when it has seen so many: hundreds of threads that begin at once
 * hand on by chance for a while, and have said nothing by then. What one tells counts for so much at most, so that little too much of it,
 * for long, is found nearly as soon as much.
 *
 * State of the hint, changed by who has the lock, or with one socket by who waits for it
 *	from			to		by
 *	0 to LIMIT - 1		more, LIMIT	a thread that has seen too many hand-overs to another socket, of the last SEEN of its own;
 *						or heads passed over, with one socket
 *				less, 0		the same, if they were fewer
 *	LIMIT to MOST - 2	one more	a wait apart from the queue, if it is counted: one in APART of all
 *	MOST - 1		0		the same: it is tried again, with all credit, as most of those who are to fill the queue
 *						sleep at first
 * Below LIMIT the order pays, as far as is known. As all hints it may be lost, and a change of it, too. */
#ifndef PK_ORDER_H
#define PK_ORDER_H

#include "admit/aux.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	PK_ORDER_SEEN = 48,
	PK_ORDER_APART = 16,
	/* What one hand-over within a socket and one to another count for together; */
	PK_ORDER_WEIGHT = 32,
	/* and what a thread has seen, at most, either way. */
	PK_ORDER_CLIP = 2 * PK_ORDER_WEIGHT,
	PK_ORDER_LIMIT = 20 * PK_ORDER_CLIP,
	PK_ORDER_MOST = 4096,
	/* With one socket: so many heads of a thread's own; one in so many is passed over, where heads do not pay, which is to say that
	 * so many others have had the lock meanwhile. */
	PK_ORDER_HEADS = 24,
	PK_ORDER_PASSED = 7,
	PK_ORDER_PASSES = 4,
};

#define PK_ORDER_SPREAD 2654435761u /* neighbours become far from each other, in the upper bits (Knuth) */

/* Whether it is learnt: set once, by pthread/lot.c. */
extern bool pk_order_learns;

PK_INLINE bool pk_order_pays(const struct pk_queue *q)
{
	return pk_aux_hint(q, PK_HINT_ORDER) < PK_ORDER_LIMIT;
}

/* What a thread sees of a queue before it tells. */
PK_INLINE unsigned pk_order_enough(void)
{
	return pk_sockets > 1 ? PK_ORDER_SEEN : PK_ORDER_HEADS;
}

/* What a thread calls that queue: one in 4096 has the same name. */
PK_INLINE unsigned pk_order_name(const struct pk_queue *q)
{
	return (uint32_t)((uintptr_t)q / sizeof(*q)) * PK_ORDER_SPREAD >> 20;
}

/* What the thread has seen is of that queue. */
PK_INLINE bool pk_order_names(const struct pk_queue *q)
{
	return pk_self.ordered.queue == pk_order_name(q);
}

/* The queue hands the lock on, to another socket or not, or has a head that waits; true: the thread has seen enough to tell. If it
 * comes to several locks in turn it counts for one of them at a time, and for another one if that does not come again. (Signal
 * handlers may lock: then a count may be lost.) */
PK_INLINE bool pk_order_sees(const struct pk_queue *q, bool far)
{
	if (!pk_order_names(q)) {
		if (pk_self.ordered.seen && ++pk_self.ordered.others)
			return false;
		pk_self.ordered.queue = pk_order_name(q);
		pk_self.ordered.seen = pk_self.ordered.far = 0;
	}
	pk_self.ordered.others = 0;
	pk_self.ordered.far += far;
	return ++pk_self.ordered.seen >= pk_order_enough();
}

/* A head that has been seen is passed over. */
PK_INLINE void pk_order_passes(const struct pk_queue *q)
{
	pk_self.ordered.far += pk_order_names(q) && pk_self.ordered.far < pk_self.ordered.seen;
}

/* It tells.
 *
 * The order does not pay where a sixteenth of the hand-overs for each other socket go to another one, or a third in any case, as
 * simulated; where the sockets are cache groups of one, to which the lock's way is not so long, two thirds of that (sim/FINDINGS.md). A head does
 * not pay where one in PASSED is passed over. */
PK_INLINE void pk_order_tell(struct pk_queue *q)
{
	const int others = (int)pk_sockets - 1, most = 3 * others < 16 ? 3 * others : 16, /* of 48 */
		  all = (int)pk_order_enough() * PK_ORDER_WEIGHT,
		  bound = others ? all * most * (pk_sockets_are_caches ? 2 : 3) / (48 * 3) : all / PK_ORDER_PASSED;
	int was = pk_aux_hint(q, PK_HINT_ORDER), more = (int)pk_self.ordered.far * PK_ORDER_WEIGHT - bound, is;

	pk_self.ordered.seen = pk_self.ordered.far = 0;
	if (was >= PK_ORDER_LIMIT)
		return;
	is = was + (more > PK_ORDER_CLIP ? PK_ORDER_CLIP : more < -PK_ORDER_CLIP ? -PK_ORDER_CLIP : more);
	is = is < 0 ? 0 : is < PK_ORDER_LIMIT ? is : PK_ORDER_LIMIT;
	if (is != was)
		pk_aux_set_hint(q, PK_HINT_ORDER, (unsigned)is);
}

/* The lock's users come back at once, so that its queue is of use whatever its order (pthread/turn.c): what the thread has seen of it
 * says nothing against it. */
PK_INLINE void pk_order_excuse(const struct pk_queue *q)
{
	if (pk_order_names(q))
		pk_self.ordered.far = 0;
}

/* Somebody has got the lock who has stayed away from its queue, as that does not pay, and is counted: one in APART is. What the
 * thread has seen before says nothing any more when the order is tried again (but of one that has not been counted since). */
PK_INLINE void pk_order_bypassed(struct pk_queue *q)
{
	unsigned was;

	if (!pk_order_learns)
		return;
	if (pk_order_names(q))
		pk_self.ordered.seen = pk_self.ordered.far = 0;
	was = pk_aux_hint(q, PK_HINT_ORDER);
	if (was >= PK_ORDER_LIMIT)
		pk_aux_set_hint(q, PK_HINT_ORDER, (was + 1) % PK_ORDER_MOST);
}

#endif
