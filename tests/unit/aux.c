/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What policies keep in the queue's second word, step by step in one thread: tickets, those who back off as a part of
 * compositions, hints. */
#include "admit/levels.h"
#include "admit/ticket.h"
#include "nodes.h"

/* ---- backoff, as a part of compositions ---- */

/* Who is counted and wants to give up takes the lock if it is free: it has been passed to somebody. */
START_TEST(bo_passes)
{
	struct pk_waiter *first, *second;

	pk_incarnation_next();
	queue.aux = 0;
	first = new_node(&pk_mcs);
	second = new_node(&pk_mcs);
	ck_assert_int_eq(pk_basic_bo.enter(&queue, first, NULL), PK_IS_HEAD);
	ck_assert(!pk_basic_bo.pass(&queue, first, NULL));
	queue.aux += 4; /* one waits */
	second->status = PK_WAITING;
	second->queue = &queue;
	ck_assert(pk_basic_bo.pass(&queue, first, NULL));
	ck_assert_uint_eq(first->busy, 0);
	ck_assert(!pk_basic_bo.flee(&queue, second));
	first = new_node(&pk_mcs);
	first->status = PK_WAITING;
	first->queue = &queue;
	queue.aux += 4;
	ck_assert(pk_basic_bo.flee(&queue, first)); /* it is held: nobody is there to pass it to */
	ck_assert_uint_eq(first->busy, 0);
	ck_assert(!pk_basic_bo.pass(&queue, second, NULL));
	pk_basic_bo.leave(&queue, second, NULL);
	ck_assert_uint_eq(second->busy, 0);
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* ---- tickets ---- */

static const struct pk_admit_ops *const tickets[] = {&pk_tkt, &pk_ptl};
static const enum pk_aux_kind kinds[] = {PK_AUX_TKT, PK_AUX_PTL};

static void draw(const struct pk_admit_ops *ops, int n, enum pk_aux_kind kind)
{
	pk_incarnation_next();
	for (count = 0; count < n; count++) {
		node[count] = new_node(ops);
		ck_assert(pk_ticket_draw(&queue, node[count], kind));
	}
	node[0]->status = PK_HEAD;
}

START_TEST(tickets_in_order)
{
	const struct pk_admit_ops *ops = tickets[_i];

	draw(ops, 3, kinds[_i]);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			ck_assert_int_eq(pk_ticket_is_up(&queue, node[k]), k == i);
		ops->leave(&queue, node[i], NULL);
		ck_assert_uint_eq(node[i]->busy, 0);
		ck_assert_int_eq(pk_queue_busy(&queue), i < 2);
	}
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* The numbers wrap around, and run out. */
START_TEST(tickets_wrap)
{
	const struct pk_admit_ops *ops = tickets[_i];
	struct pk_waiter *w;

	pk_incarnation_next();
	queue.aux = pk_ticket_state(&queue, kinds[_i], PK_TICKET_MASK, PK_TICKET_MASK - 1, 0);
	w = new_node(ops);
	ck_assert(pk_ticket_draw(&queue, w, kinds[_i]));
	ck_assert_uint_eq(w->batch, PK_TICKET_MASK);
	pk_ticket_advance(&queue, kinds[_i]);
	ck_assert(pk_ticket_is_up(&queue, w));
	ops->leave(&queue, w, NULL);
	ck_assert_uint_eq(queue.aux, 0);

	queue.aux = pk_ticket_state(&queue, kinds[_i], 4, 5, 0);
	w = new_node(ops);
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_REFUSED);
	ck_assert_uint_eq(w->busy, 0);
	ck_assert_uint_eq(queue.aux, pk_ticket_state(&queue, kinds[_i], 4, 5, 0));
}
END_TEST

/* The numbers of those who have given up are shown to nobody: one, several, the last one, and the one that is shown. */
START_TEST(tickets_die)
{
	const struct pk_admit_ops *ops = tickets[_i];

	draw(ops, 5, kinds[_i]);
	ops->give_up(&queue, node[1]);
	ops->give_up(&queue, node[2]);
	ops->give_up(&queue, node[4]);
	ck_assert_uint_eq(node[1]->busy, 1);
	ops->leave(&queue, node[0], NULL);
	ck_assert(pk_ticket_is_up(&queue, node[3]));
	ck_assert_uint_eq(node[1]->busy + node[2]->busy, 0);
	ck_assert_uint_eq(node[4]->busy, 1);
	ops->leave(&queue, node[3], NULL);
	ck_assert_uint_eq(node[4]->busy, 0);
	ck_assert_uint_eq(queue.aux, 0);

	draw(ops, 2, kinds[_i]);
	ops->leave(&queue, node[0], NULL);
	ops->give_up(&queue, node[1]); /* is up, and has not seen it */
	ck_assert_uint_eq(node[1]->busy, 0);
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* State of another process, of another lock, and of another policy. */
START_TEST(tickets_of_others)
{
	const struct pk_admit_ops *ops = tickets[_i];
	struct pk_queue copy;
	struct pk_waiter *w;

	draw(ops, 2, kinds[_i]);
	copy = queue;
	w = new_node(ops);
	ck_assert(!pk_queue_busy(&copy));
	ck_assert_int_eq(ops->enter(&copy, w, NULL), PK_IS_HEAD);
	ops->leave(&copy, w, NULL);
	ck_assert_uint_eq(copy.aux, 0);

	w = new_node(tickets[!_i]);
	ck_assert_int_eq(tickets[!_i]->enter(&queue, w, NULL), PK_REFUSED);
	ck_assert_uint_eq(w->busy, 0);
	ck_assert(pk_queue_busy(&queue));

	pk_incarnation_next();
	ck_assert(!pk_queue_busy(&queue));
	w = new_node(ops);
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_IS_HEAD);
	ops->leave(&queue, w, NULL);
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* What is left behind in a free node of another policy is no dead number. */
START_TEST(tickets_and_old_nodes)
{
	const struct pk_admit_ops *ops = tickets[_i];
	struct pk_waiter *old;

	draw(ops, 3, kinds[_i]);
	old = new_node(&pk_cna);
	old->queue = &queue;
	old->shuffler = 1;
	old->batch = 1;
	pk_waiter_free(old);
	ops->give_up(&queue, node[2]);
	ops->leave(&queue, node[0], NULL);
	ck_assert(pk_ticket_is_up(&queue, node[1]));
	ck_assert(pk_queue_busy(&queue));
	ops->leave(&queue, node[1], NULL);
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* A head whose handler forks just as it leaves: what it finds in the child is not its own. */
START_TEST(tickets_forked)
{
	const struct pk_admit_ops *ops = tickets[_i];
	uint64_t ghost;

	draw(ops, 3, kinds[_i]);
	ghost = queue.aux;
	pk_incarnation_next();
	ops->leave(&queue, node[0], NULL);
	ck_assert_uint_eq(queue.aux, ghost);
	ck_assert(!pk_queue_busy(&queue));
	ops->give_up(&queue, node[1]);
	ck_assert_uint_eq(queue.aux, ghost);
}
END_TEST

/* One whose handler gives its number up while another handler forks: in the child its node stays an orphan, and no
 * number is dead. */
START_TEST(tickets_orphaned)
{
	uint32_t dead = pk_tickets_dead;
	uint64_t before;

	draw(tickets[_i], 3, kinds[_i]);
	before = queue.aux;
	ck_assert(pk_waiter_abandon(node[1]));
	node[1]->status = pk_in_state(node[1]->status, PK_ORPHAN);
	ck_assert(pk_ticket_die(&queue, node[1], kinds[_i]));
	ck_assert_int_eq(pk_state(node[1]->status), PK_ORPHAN);
	ck_assert_uint_eq(pk_tickets_dead, dead);
	ck_assert_uint_eq(queue.aux, before);
}
END_TEST

/* ---- hints ---- */

/* Hints are kept apart, never touch exact state, and are lost to it. */
START_TEST(hints)
{
	pk_incarnation_next();
	queue.aux = 0;
	pk_aux_set_hint(&queue, PK_HINT_WINDOW, 0xd);
	pk_aux_set_hint(&queue, PK_HINT_SOCKET, 7);
	ck_assert_uint_eq(pk_aux_hint(&queue, PK_HINT_WINDOW), 0xd);
	ck_assert_uint_eq(pk_aux_hint(&queue, PK_HINT_SOCKET), 7);
	ck_assert(!pk_queue_busy(&queue));
	draw(&pk_tkt, 2, PK_AUX_TKT);
	pk_aux_set_hint(&queue, PK_HINT_SOCKET, 3);
	ck_assert_uint_eq(pk_aux_hint(&queue, PK_HINT_SOCKET), 0);
	ck_assert(pk_ticket_is_up(&queue, node[0]));
	pk_incarnation_next(); /* a ghost's */
	pk_aux_set_hint(&queue, PK_HINT_SOCKET, 3);
	ck_assert_uint_eq(queue.aux, UINT64_C(3) << PK_HINT_SOCKET);
}
END_TEST

UNIT("aux", {bo_passes, 1}, {tickets_in_order, 2}, {tickets_wrap, 2}, {tickets_die, 2}, {tickets_of_others, 2},
     {tickets_and_old_nodes, 2}, {tickets_forked, 2}, {tickets_orphaned, 2}, {hints, 1})
