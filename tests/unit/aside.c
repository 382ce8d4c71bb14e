/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The policies that set waiters aside, cna and mcscr, step by step in one thread. */
#include <string.h>

#include "nodes.h"

static int word = 1;

/* The policies' clock (local.am): a busy machine takes its time. */
static uint64_t now = 5;
uint64_t __wrap_pk_clock_us(void);

uint64_t __wrap_pk_clock_us(void)
{
	return now;
}

static const char *chain(const struct pk_waiter *w)
{
	static char text[4][MAX + 1];
	static int turn;
	char *start = text[turn++ % 4], *end = start;

	for (; w > PK_END; w = w->next) {
		int n = 0;

		while (node[n] != w)
			ck_assert_int_lt(++n, count);
		ck_assert_int_lt(end - start, MAX);
		*end++ = "0123456789abcdef"[n];
	}
	*end = 0;
	return start;
}

/* The order in which the head changes hands until nobody is left. */
static const char *admissions(const struct pk_admit_ops *ops)
{
	static char text[MAX + 1];
	int n = 0;

	while (queue.tail) {
		int h = head();

		ck_assert_int_lt(n, MAX);
		text[n++] = "0123456789abcdef"[h];
		ops->tend(&queue, node[h], &word);
		leave(ops);
	}
	text[n] = 0;
	all_free();
	return text;
}

/* ---- cna ---- */

/* Figure 1 of the paper: waiters before the first one of the head's socket are set aside, and come back when there is
 * none any more. */
START_TEST(cna_sets_aside)
{
	line_up(&pk_cna, "ABBABA");
	pk_cna.tend(&queue, node[0], &word);
	ck_assert_str_eq(chain(node[0]), "0345");
	ck_assert_str_eq(chain(node[0]->aside), "12");
	leave(&pk_cna);
	ck_assert_int_eq(head(), 3);
	pk_cna.tend(&queue, node[3], &word);
	ck_assert_str_eq(chain(node[3]), "35");
	ck_assert_str_eq(chain(node[3]->aside), "124");
	ck_assert_ptr_eq(node[3]->aside->hint, node[4]);
	leave(&pk_cna);
	ck_assert_int_eq(head(), 5);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(node[5]));
	leave(&pk_cna);
	ck_assert_int_eq(head(), 1); /* and the queue is what had been set aside */
	ck_assert_uint_eq(queue.tail, pk_waiter_name(node[4]));
	ck_assert_str_eq(chain(node[1]), "124");
	ck_assert_ptr_null(node[1]->aside);
	ck_assert_str_eq(admissions(&pk_cna), "124");
}
END_TEST

START_TEST(cna_orders)
{
	line_up(&pk_cna, "ABCABCABCD");
	ck_assert_str_eq(admissions(&pk_cna), "0361472589");
	line_up(&pk_cna, "ABCD");
	ck_assert_str_eq(admissions(&pk_cna), "0123");
	line_up(&pk_cna, "A");
	ck_assert_str_eq(admissions(&pk_cna), "0");
}
END_TEST

/* The threshold: after `batch` hand-overs at most twice, those set aside go first. */
START_TEST(cna_is_bounded)
{
	const char *order;

	line_up(&pk_cna, "ABAAAAAAAAAAAAA");
	pk_config.batch = 2;
	order = admissions(&pk_cna);
	ck_assert_int_le(strchr(order, '1') - order, 6);
	line_up(&pk_cna, "ABAAAAAAAAAAAAA");
	order = admissions(&pk_cna);
	ck_assert_int_eq(strchr(order, '1') - order, 14);
}
END_TEST

/* Nor do they wait for longer than 20 ms, however few hand-overs that is. */
START_TEST(cna_is_timely)
{
	line_up(&pk_cna, "ABAAA");
	pk_cna.tend(&queue, node[0], &word);
	ck_assert_str_eq(chain(node[0]->aside), "1");
	now += 25000;
	leave(&pk_cna);
	ck_assert_int_eq(head(), 1);
	ck_assert_str_eq(chain(node[1]), "1234");
}
END_TEST

/* Those who have given up: skipped in the search, freed on the way, in either queue. */
START_TEST(cna_reaps)
{
	line_up(&pk_cna, "ABBABBA");
	node[3]->status = node[5]->status = PK_ABANDONED;
	pk_cna.tend(&queue, node[0], &word);
	ck_assert_str_eq(chain(node[0]), "06");
	ck_assert_str_eq(chain(node[0]->aside), "124");
	ck_assert_uint_eq(node[3]->busy + node[5]->busy, 0);
	node[1]->status = PK_ABANDONED;
	node[6]->status = PK_ABANDONED;
	leave(&pk_cna);
	ck_assert_int_eq(head(), 2);
	ck_assert_str_eq(admissions(&pk_cna), "24");
}
END_TEST

/* Who is joining when the head leaves becomes a head; those set aside are a queue beside that one. */
START_TEST(cna_left)
{
	struct pk_waiter *late = new_node(&pk_cna);

	line_up(&pk_cna, "ABA");
	pk_cna.tend(&queue, node[0], &word);
	leave(&pk_cna);
	ck_assert_int_eq(head(), 2);
	late->socket = 1;
	queue.tail = pk_waiter_name(late); /* it has exchanged the tail */
	node[2]->status = PK_ABANDONED;
	pk_cna.leave(&queue, node[2], NULL);
	ck_assert_uint_eq(node[2]->busy, 1);
	ck_assert_int_eq(head(), 1);
	ck_assert_ptr_eq(node[1]->next, PK_END);
	queue.tail = pk_waiter_name(node[2]); /* so that enter exchanges it again */
	ck_assert_int_eq(pk_cna.enter(&queue, late, NULL), PK_IS_HEAD);
	ck_assert_uint_eq(node[2]->busy, 0);
	leave(&pk_cna);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(late));
	pk_cna.leave(&queue, late, NULL);
	all_free();
}
END_TEST

/* The search goes on where it has found the end. */
START_TEST(cna_resumes)
{
	line_up(&pk_cna, "ABB");
	pk_cna.tend(&queue, node[0], &word);
	ck_assert_ptr_null(node[0]->aside);
	ck_assert_ptr_eq(node[0]->hint, node[2]);
	node[3] = new_node(&pk_cna);
	node[3]->status = PK_WAITING;
	node[3]->next = NULL;
	node[3]->socket = 0;
	node[3]->queue = &queue;
	node[2]->next = node[3];
	queue.tail = pk_waiter_name(node[3]);
	count = 4;
	pk_cna.tend(&queue, node[0], &word);
	ck_assert_str_eq(chain(node[0]), "03");
	ck_assert_str_eq(chain(node[0]->aside), "12");
	ck_assert_str_eq(admissions(&pk_cna), "0312");
}
END_TEST

/* PARKADE_REDUCTION: one head of so many searches, by chance, while nobody is set aside; whoever has some goes on. */
START_TEST(cna_reduces)
{
	static const struct {
		int reduction, fewest, most;
	} rows[] = {{1, 1000, 1000}, {10, 50, 200}, {1000, 0, 10}};
	int searches = 0;

	for (uint32_t uses = 0; uses < 1000; uses++) {
		line_up(&pk_cna, "ABABA");
		node[0]->status = uses * (PK_STATE_MASK + 1) | PK_HEAD;
		pk_config.reduction = rows[_i].reduction;
		pk_cna.tend(&queue, node[0], &word);
		if (node[0]->aside) {
			searches++;
			leave(&pk_cna);
			pk_cna.tend(&queue, node[2], &word);
			ck_assert_str_eq(chain(node[2]->aside), "13");
		}
		admissions(&pk_cna);
	}
	ck_assert_int_ge(searches, rows[_i].fewest);
	ck_assert_int_le(searches, rows[_i].most);
}
END_TEST

/* ---- mcscr ---- */

/* One waiter is enough to keep the lock busy; the youngest of the others comes back first. */
START_TEST(mcscr_culls)
{
	line_up(&pk_mcscr, "AAAAA");
	for (int i = 0; i < 5; i++)
		pk_mcscr.tend(&queue, node[0], &word);
	ck_assert_str_eq(chain(node[0]), "04");
	ck_assert_str_eq(chain(node[0]->aside), "321");
	ck_assert_ptr_eq(node[0]->aside->hint, node[1]); /* the eldest */
	leave(&pk_mcscr);
	ck_assert_int_eq(head(), 4);
	leave(&pk_mcscr);
	ck_assert_int_eq(head(), 3);
	ck_assert_str_eq(chain(node[3]->aside), "21");
	ck_assert_str_eq(admissions(&pk_mcscr), "321");
}
END_TEST

/* The eldest comes back after `batch` hand-overs (_i 0) or 1 ms (1), though the queue is never empty. */
START_TEST(mcscr_is_fair)
{
	line_up(&pk_mcscr, "AAAAAAAA");
	pk_config.batch = _i ? 1000 : 2;
	pk_mcscr.tend(&queue, node[0], &word);
	pk_mcscr.tend(&queue, node[0], &word);
	ck_assert_str_eq(chain(node[0]->aside), "21");
	if (_i)
		now += 6000;
	else
		leave(&pk_mcscr); /* to 4; 3 is set aside */
	leave(&pk_mcscr);
	ck_assert_int_eq(head(), 1);
	ck_assert_int_eq((int)strlen(admissions(&pk_mcscr)), _i ? 7 : 6);
}
END_TEST

START_TEST(mcscr_reaps)
{
	line_up(&pk_mcscr, "AAAAA");
	for (int i = 0; i < 5; i++)
		pk_mcscr.tend(&queue, node[0], &word);
	node[3]->status = node[1]->status = node[4]->status = PK_ABANDONED;
	leave(&pk_mcscr);
	ck_assert_str_eq(admissions(&pk_mcscr), "2");
}
END_TEST

UNIT("aside", {cna_sets_aside, 1}, {cna_orders, 1}, {cna_is_bounded, 1}, {cna_is_timely, 1}, {cna_reaps, 1},
     {cna_left, 1}, {cna_resumes, 1}, {cna_reduces, 3}, {mcscr_culls, 1}, {mcscr_is_fair, 2}, {mcscr_reaps, 1})
