/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Nodes of waiters that a test puts into a queue by hand, all in one thread, to look at what one call makes of them. */
#ifndef NODES_H
#define NODES_H

#include <string.h>

#include "admit/tail.h"
#include "rt/config.h"
#include "rt/topology.h"
#include "unit.h"

extern const struct pk_admit_ops pk_shfl, pk_mcs, pk_cna, pk_mcscr, pk_clh, pk_hem, pk_hemctr, pk_tkt, pk_ptl;

enum { MAX = 16 };

static struct pk_queue queue;
static struct pk_waiter *node[MAX];
static int count;

static inline struct pk_waiter *node_of(struct pk_record *record, const struct pk_admit_ops *ops)
{
	struct pk_waiter *w = pk_waiter_take(record);

	ck_assert_ptr_nonnull(w);
	w->policy = ops->policy;
	w->queue = NULL;
	w->manner = PK_STAYS;
	return w;
}

static inline struct pk_waiter *new_node(const struct pk_admit_ops *ops)
{
	return node_of(pk_record_take(), ops);
}

/* ---- policies that link ---- */

/* Of a policy that links: one node for each letter, which is its socket; the first is the head. */
static inline void line_up(const struct pk_admit_ops *ops, const char *sockets)
{
	pk_incarnation_next();
	pk_sockets = 4;
	pk_config.batch = 1000;
	pk_config.reduction = 1;
	memset(&queue, 0, sizeof(queue));
	count = 0;
	for (const char *s = sockets; *s; s++) {
		struct pk_waiter *w = node[count] = new_node(ops);

		w->status = count ? PK_WAITING : PK_HEAD;
		w->next = w->hint = w->aside = NULL;
		w->batch = 0;
		w->shuffler = 0;
		w->queue = &queue;
		w->socket = (uint8_t)(*s - 'A');
		if (count > 0)
			node[count - 1]->next = w;
		count++;
	}
	queue.tail = pk_waiter_name(node[count - 1]);
}

/* Who is the head: exactly one of the nodes. */
static inline int head(void)
{
	int who = -1;

	for (int i = 0; i < count; i++)
		if (node[i]->busy && pk_state(node[i]->status) == PK_HEAD) {
			ck_assert_int_eq(who, -1);
			who = i;
		}
	return who;
}

/* The head leaves as turn.c has it leave. */
static inline void leave(const struct pk_admit_ops *ops)
{
	int h = head();

	ck_assert_int_ge(h, 0);
	node[h]->status = PK_ABANDONED;
	ops->leave(&queue, node[h], NULL);
	ck_assert_uint_eq(node[h]->busy, 0);
}

static inline void all_free(void)
{
	ck_assert_uint_eq(queue.tail, 0);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(node[i]->busy, 0);
}

#endif
