/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Implicit queues, in which each waiter looks at the one before it: clh, hem and hemctr, step by step in one thread. */
#include "admit/levels.h"
#include "admit/list.h"
#include "admit/pull.h"
#include "nodes.h"

static const struct pk_admit_ops *const pulls[] = {&pk_clh, &pk_hem, &pk_hemctr};

/* n nodes in line, as enter leaves them while they wait. */
static void line_up_pull(const struct pk_admit_ops *ops, int n)
{
	pk_incarnation_next();
	queue.tail = 0;
	for (count = 0; count < n; count++) {
		struct pk_waiter *w = node[count] = new_node(ops);

		w->next = NULL;
		w->status = count ? PK_WAITING : PK_HEAD;
		w->queue = &queue;
		w->hint = pk_tail_join(&queue, w);
	}
}

static struct pk_waiter *poll_pull(struct pk_waiter *prev)
{
	return pk_load_acquire(&prev->next);
}

/* Who gives up is passed over: in the middle, at the tail, several, behind the head that leaves, and as the head. */
START_TEST(pull_gives_up)
{
	const struct pk_admit_ops *ops = pulls[_i];
	struct pk_waiter *late;

	line_up_pull(ops, 4);
	ops->give_up(&queue, node[1]);
	ck_assert_uint_eq(node[1]->busy, 1); /* until its successor sees it */
	ops->give_up(&queue, node[3]);
	ops->give_up(&queue, node[2]);
	ck_assert_uint_eq(node[1]->busy + node[2]->busy + node[3]->busy, 0);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(node[0]));
	node[0]->status = PK_ABANDONED;
	ops->leave(&queue, node[0], NULL);
	ck_assert_uint_eq(node[0]->busy, 0);
	ck_assert_uint_eq(queue.tail, 0);

	/* the head leaves while who gives up makes it the tail again: it stays until somebody comes */
	line_up_pull(ops, 2);
	ops->give_up(&queue, node[1]);
	queue.tail = pk_waiter_name(node[1]);
	node[0]->status = PK_ABANDONED;
	ops->leave(&queue, node[0], NULL);
	queue.tail = pk_waiter_name(node[0]);
	late = new_node(ops);
	ck_assert_int_eq(ops->enter(&queue, late, NULL), PK_IS_HEAD);
	ck_assert_uint_eq(node[0]->busy, 0);
	ops->leave(&queue, late, NULL);
	ck_assert_uint_eq(queue.tail, 0);

	/* two between the head and one that stays */
	line_up_pull(ops, 4);
	ops->give_up(&queue, node[1]);
	ops->give_up(&queue, node[2]);
	ck_assert_ptr_eq(node[0]->next, PK_FLED);
	node[0]->status = PK_ABANDONED;
	ops->leave(&queue, node[0], NULL);
	ck_assert_int_eq(pk_pull_wait(&queue, node[3], NULL, poll_pull), PK_IS_HEAD);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(node[i]->busy, 0);
	ops->leave(&queue, node[3], NULL);
	ck_assert_uint_eq(queue.tail, 0);

	/* it has become the head in that moment */
	line_up_pull(ops, 2);
	node[0]->status = PK_ABANDONED;
	ops->leave(&queue, node[0], NULL);
	node[1]->hint = NULL;
	pk_waiter_free(node[0]);
	ops->give_up(&queue, node[1]);
	ck_assert_uint_eq(node[1]->busy, 0);
	ck_assert_uint_eq(queue.tail, 0);
}
END_TEST

/* A stranger behind one that has given up: the one before is told. */
START_TEST(pull_gives_up_before_a_stranger)
{
	const struct pk_admit_ops *ops = pulls[_i];
	struct pk_waiter *late = NULL;

	for (int first = 0; first < 2; first++) {
		line_up_pull(ops, 3);
		late = new_node(&pk_mcs);
		if (first)
			ck_assert_int_eq(pk_mcs.enter(&queue, late, NULL), PK_IS_HEAD);
		ops->give_up(&queue, node[1]);
		ops->give_up(&queue, node[2]);
		if (!first)
			ck_assert_int_eq(pk_mcs.enter(&queue, late, NULL), PK_IS_HEAD);
		ck_assert_uint_eq(node[1]->busy + node[2]->busy, 0);
		ck_assert_ptr_eq(node[0]->next, PK_END);
		ops->leave(&queue, node[0], NULL);
		ck_assert_uint_eq(node[0]->busy, 0);
		pk_mcs.leave(&queue, late, NULL);
	}
}
END_TEST

/* Passed is what somebody takes for certain: not if nobody is behind, nor if that one is about to give up. */
START_TEST(pull_passes)
{
	const struct pk_basic *basic = _i ? &pk_basic_hem : &pk_basic_clh;

	line_up_pull(pulls[_i], 1);
	ck_assert(!basic->pass(&queue, node[0], NULL));
	line_up_pull(pulls[_i], 2);
	node[0]->next = PK_FLED; /* and the tail has not been told */
	ck_assert(!basic->pass(&queue, node[0], NULL));
	node[0]->next = NULL; /* another one has come */
	ck_assert(basic->pass(&queue, node[0], NULL));
	ck_assert(!basic->flee(&queue, node[1])); /* too late */
	ck_assert_uint_eq(node[0]->busy, 0);
	basic->leave(&queue, node[1], NULL);
	ck_assert_uint_eq(queue.tail, 0);
}
END_TEST

/* A late wake-up may reach the node in another queue: there it is a second look, no more. */
START_TEST(pull_rouses)
{
	const struct pk_admit_ops *ops = pulls[_i];

	line_up_pull(ops, 2);
	node[1]->status = PK_PARKED;
	ck_assert(pk_pull_mark(node[0], node[1]));
	ck_assert_ptr_null(pk_list_next(node[0])); /* for who walks a list and has come astray */
	ops->leave(&queue, node[0], NULL);
	ck_assert_uint_eq(pk_state(node[1]->status), PK_SPINNING);
}
END_TEST

UNIT("pull", {pull_gives_up, 3}, {pull_gives_up_before_a_stranger, 3}, {pull_passes, 2}, {pull_rouses, 3})
