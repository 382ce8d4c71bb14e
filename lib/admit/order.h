/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Whether it pays to put a lock's queue in order: learnt for each lock, where there are several sockets.
 *
 * A queue in order keeps the lock on one socket for a while, if enough of those who wait are there. If not, nearly each
 * hand-over is to another socket, and costs more than by glibc's protocol, whose waiters sleep: those of a queue are awake,
 * look at the lock, and write to each other's nodes (sim/FINDINGS.md). What tells is how often the queue hands the lock to
 * another socket, beside how often chance would. Where the order does not pay who comes stays away from the queue
 * (pthread/turn.c); after so many such waits it is tried again.
 *
 * State of the hint, changed by who has the lock
 *	from			to		by
 *	0 to LIMIT - 1		more, LIMIT	a hand-over to another socket, if it is looked at: one in HANDED of all
 *				less, 0		the same, within a socket
 *	LIMIT to MOST - 2	one more	a wait apart from the queue, if it is counted: one in APART of all
 *	MOST - 1		AGAIN		the same
 * Below LIMIT the order pays, as far as is known. As all hints it may be lost, and a change of it, too. */
#ifndef PK_ORDER_H
#define PK_ORDER_H

#include "admit/aux.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	PK_ORDER_HANDED = 12,
	PK_ORDER_APART = 16,
	/* What one hand-over within a socket and one to another count for together. */
	PK_ORDER_WEIGHT = 32,
	/* Hundreds of threads that begin at once hand on by chance for so long; */
	PK_ORDER_LIMIT = 64 * PK_ORDER_WEIGHT,
	/* and when it is tried again most of those who are to fill the queue sleep at first. */
	PK_ORDER_AGAIN = 40 * PK_ORDER_WEIGHT,
	PK_ORDER_MOST = 4096,
};

/* Whether it is learnt: set once, by pthread/lot.c. */
extern bool pk_order_learns;

PK_INLINE bool pk_order_pays(const struct pk_queue *q)
{
	return pk_aux_hint(q, PK_HINT_ORDER) < PK_ORDER_LIMIT;
}

/* Whether this one is looked at, of so many. By a count of each thread's, and spread, as a thread may come to two locks
 * in turn; and not the same one of each, as threads may come but once. */
PK_INLINE bool pk_order_looks(unsigned one_in)
{
	return pk_order_learns && (uint16_t)((++pk_self.ordered + (unsigned)pk_self.tid) * 40503u) < 65536 / one_in;
}

/* The queue hands the lock on, within a socket or not.
 *
 * By chance (n - 1) / n of all hand-overs go to another of n sockets. The order does not pay where half of the cube of that do:
 * a sixteenth with two sockets, a fifth with four, a third with eight, as simulated (sim/FINDINGS.md). */
PK_INLINE void pk_order_handed(struct pk_queue *q, bool near)
{
	const uint64_t n = pk_sockets, others = n - 1;
	const int share = (int)(PK_ORDER_WEIGHT * others * others * others / (2 * n * n * n));
	int was = pk_aux_hint(q, PK_HINT_ORDER), is = near ? was - share : was + PK_ORDER_WEIGHT - share;

	if (was >= PK_ORDER_LIMIT)
		return;
	is = is < 0 ? 0 : is < PK_ORDER_LIMIT ? is : PK_ORDER_LIMIT;
	if (is != was)
		pk_aux_set_hint(q, PK_HINT_ORDER, (unsigned)is);
}

/* Somebody has got the lock who has stayed away from its queue, as its order does not pay. */
PK_INLINE void pk_order_bypassed(struct pk_queue *q)
{
	unsigned was = pk_aux_hint(q, PK_HINT_ORDER);

	if (was >= PK_ORDER_LIMIT)
		pk_aux_set_hint(q, PK_HINT_ORDER, was + 1 < PK_ORDER_MOST ? was + 1 : PK_ORDER_AGAIN);
}

#endif
