/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The policies but for shfl and mcs (queue.c), step by step in one thread; then all of them by turns, while threads
 * queue. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admit/levels.h"
#include "admit/list.h"
#include "admit/pull.h"
#include "admit/ticket.h"
#include "base/layout.h"
#include "pthread/lot.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/topology.h"
#include "unit.h"

extern const struct pk_admit_ops pk_shfl, pk_mcs, pk_cna, pk_mcscr, pk_clh, pk_hem, pk_hemctr, pk_tkt, pk_ptl,
	pk_backoff, pk_hbo;

enum { MAX = 16 };

static struct pk_queue queue;
static struct pk_waiter *node[MAX];
static int count;
static int word = 1;

static struct pk_waiter *node_of(struct pk_record *record, const struct pk_admit_ops *ops)
{
	struct pk_waiter *w = pk_waiter_take(record);

	ck_assert_ptr_nonnull(w);
	w->policy = ops->policy;
	w->queue = NULL;
	w->manner = PK_STAYS;
	return w;
}

static struct pk_waiter *new_node(const struct pk_admit_ops *ops)
{
	return node_of(pk_record_take(), ops);
}

/* Of a policy that links: one node for each letter, which is its socket; the first is the head. */
static void line_up(const struct pk_admit_ops *ops, const char *sockets)
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
		w->socket = (uint16_t)(*s - 'A');
		if (count > 0)
			node[count - 1]->next = w;
		count++;
	}
	queue.tail = pk_waiter_name(node[count - 1]);
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

/* Who is the head: exactly one of the nodes. */
static int head(void)
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
static void leave(const struct pk_admit_ops *ops)
{
	int h = head();

	ck_assert_int_ge(h, 0);
	node[h]->status = PK_ABANDONED;
	ops->leave(&queue, node[h], NULL);
	ck_assert_uint_eq(node[h]->busy, 0);
}

static void all_free(void)
{
	ck_assert_uint_eq(queue.tail, 0);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(node[i]->busy, 0);
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
	usleep(25000);
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
		usleep(6000);
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

/* ---- two policies in one queue ---- */

/* Who finds a waiter of another policy at the tail is the head of a queue of its own; that one's queue ends there. */
START_TEST(strangers)
{
	static const struct pk_admit_ops *const others[] = {&pk_mcs, &pk_clh, &pk_hem};
	const struct pk_admit_ops *ops = others[_i];
	struct pk_waiter *w;

	line_up(&pk_cna, "ABA");
	pk_cna.tend(&queue, node[0], &word);
	w = new_node(ops);
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_eq(node[2]->next, PK_END);
	leave(&pk_cna);
	ck_assert_int_eq(head(), 2);
	leave(&pk_cna);
	ck_assert_int_eq(head(), 1); /* those set aside are not forgotten */
	ck_assert_ptr_eq(node[1]->next, PK_END);
	leave(&pk_cna);
	ck_assert_int_eq(head(), -1);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(w));
	ops->leave(&queue, w, NULL);
	all_free();
	ck_assert_uint_eq(w->busy, 0);
}
END_TEST

/* The same for one that is at the tail alone, whether it leaves before (_i & 4) or after the other one has come. */
START_TEST(strangers_first)
{
	static const struct pk_admit_ops *const firsts[] = {&pk_mcs, &pk_clh, &pk_hem, &pk_hemctr};
	const struct pk_admit_ops *ops = firsts[_i & 3];
	struct pk_waiter *w, *late;

	pk_incarnation_next();
	w = new_node(ops);
	late = new_node(&pk_shfl);
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_IS_HEAD);
	if (_i & 4) {
		queue.tail = pk_waiter_name(late); /* on its way */
		ops->leave(&queue, w, NULL);
		ck_assert_uint_eq(w->busy, 1);
		queue.tail = pk_waiter_name(w);
	}
	ck_assert_int_eq(pk_shfl.enter(&queue, late, NULL), PK_IS_HEAD);
	if (!(_i & 4))
		ops->leave(&queue, w, NULL);
	ck_assert_uint_eq(w->busy, 0);
	pk_shfl.leave(&queue, late, NULL);
	ck_assert_uint_eq(late->busy, 0);
	ck_assert_uint_eq(queue.tail, 0);
}
END_TEST

/* ---- clh, hem ---- */

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
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_ORPHANED);
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
	ck_assert_int_eq(tickets[!_i]->enter(&queue, w, NULL), PK_ORPHANED);
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

/* Hints are kept apart, never touch exact state, and are lost to it. */
START_TEST(hints)
{
	pk_incarnation_next();
	queue.aux = 0;
	pk_aux_set_hint(&queue, PK_HINT_WINDOW, 0x1234);
	pk_aux_set_hint(&queue, PK_HINT_SOCKET, 7);
	ck_assert_uint_eq(pk_aux_hint(&queue, PK_HINT_WINDOW), 0x1234);
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

/* A lock's own policy is a number of the table, from 1; any other, and none, is the one in force. */
START_TEST(own_policy)
{
	pk_policy_select("mcs");
	ck_assert_ptr_eq(pk_policy_for(0), &pk_mcs);
	ck_assert_ptr_eq(pk_policy_for(1 + PK_POLICY_shfl), &pk_shfl);
	for (unsigned number = PK_POLICIES + 1; number < 256; number++)
		ck_assert_ptr_eq(pk_policy_for(number), &pk_mcs);
}
END_TEST

/* ---- parking by socket ---- */

static struct pk_gate gate;
static enum pk_manner manner[2];
static bool back[2];

static void *sleep_in_lot(void *number)
{
	unsigned socket = (unsigned)(uintptr_t)number;
	struct timespec until = pk_clock_after(10000000);

	manner[socket] = pk_lot_park(&gate, socket, &until);
	pk_store_release(&back[socket], true);
	return NULL;
}

/* A gate in whose queue somebody is. */
static void make_busy(void)
{
	pk_incarnation_next();
	pk_topology_read("", "2x3");
	pk_spin_setup();
	node[0] = new_node(&pk_mcs);
	gate.queue.tail = pk_waiter_name(node[0]);
}

static pthread_t sleeper(unsigned socket)
{
	pthread_t thread;

	pk_store_relaxed(&back[socket], false);
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_in_lot, (void *)(uintptr_t)socket), 0);
	while (!pk_bay_next(socket, &gate.queue.aux, NULL) || !(pk_load_relaxed(&gate.flags) & PK_FLAG_LOT))
		usleep(100);
	usleep(20000); /* asleep by now */
	ck_assert(!pk_load_acquire(&back[socket]));
	return thread;
}

/* Nobody is called while the queue is busy; then those of the caller's own socket, until they have had their turn, and
 * in the end the flag is gone. */
START_TEST(lot_calls)
{
	pthread_t thread[2];

	make_busy();
	pk_config.batch = 2; /* two are called at once where there is room for one spinner beside the head */
	thread[0] = sleeper(0);
	thread[1] = sleeper(1);
	pk_lot_check(&gate, 0);
	usleep(20000);
	ck_assert(!pk_load_acquire(&back[0]) && !pk_load_acquire(&back[1]));
	gate.queue.tail = 0;
	pk_lot_check(&gate, 0);
	pthread_join(thread[0], NULL);
	ck_assert(manner[0] == PK_CALLED && !pk_load_acquire(&back[1]));
	gate.queue.tail = pk_waiter_name(node[0]);
	/* A new one on socket 0, whose bay remembers that it has had its turn. */
	thread[0] = sleeper(0);
	pk_bay_next(0, &gate.queue.aux, NULL)->lead = 2;
	gate.queue.tail = 0;
	pk_lot_check(&gate, 0);
	pthread_join(thread[1], NULL);
	ck_assert(manner[1] == PK_CALLED && !pk_load_acquire(&back[0]));
	ck_assert(gate.flags & PK_FLAG_LOT);
	pk_lot_check(&gate, 0);
	pthread_join(thread[0], NULL);
	ck_assert_int_eq(manner[0], PK_CALLED);
	pk_lot_check(&gate, 0);
	ck_assert_uint_eq(gate.flags, 0);
}
END_TEST

/* Who finds the queue dry does not sleep; who has slept long enough, or finds no bay, is to queue for good. */
START_TEST(lot_refuses)
{
	struct timespec past = {1, 0}, until = pk_clock_after(10000000);

	make_busy();
	ck_assert_int_eq(pk_lot_park(&gate, 0, &past), PK_STAYS);
	gate.queue.tail = 0;
	ck_assert_int_eq(pk_lot_park(&gate, 0, &until), PK_CALLED);
	gate.queue.tail = pk_waiter_name(node[0]);
	for (int n = 0; n < PK_BAY_WAYS * PK_BAY_USERS_MAX; n++)
		ck_assert_ptr_nonnull(pk_bay_enter(0, &gate.queue.aux));
	ck_assert_int_eq(pk_lot_park(&gate, 0, &until), PK_STAYS);
}
END_TEST

/* One in 64 who come to a busy queue calls a sleeper of its socket; one in four of these one of another socket, who is
 * to stay in the queue; it does so once. */
START_TEST(lot_rotates)
{
	pthread_t thread[2];

	make_busy();
	thread[0] = sleeper(0);
	thread[1] = sleeper(1);
	for (unsigned turn = 1; turn < 64; turn++)
		pk_lot_rotate(&gate, 0, turn);
	usleep(20000);
	ck_assert(!pk_load_acquire(&back[0]) && !pk_load_acquire(&back[1]));
	pk_lot_rotate(&gate, 0, 64);
	pthread_join(thread[0], NULL);
	ck_assert_int_eq(manner[0], PK_CALLED);
	ck_assert(!pk_load_acquire(&back[1]));
	thread[0] = sleeper(0);
	pk_lot_rotate(&gate, 0, 256);
	pthread_join(thread[1], NULL);
	ck_assert_int_eq(manner[1], PK_STAYS);
	ck_assert(!pk_load_acquire(&back[0]));
	thread[1] = sleeper(1);
	pk_lot_rotate(&gate, 1, 128);
	pthread_join(thread[1], NULL);
	ck_assert_int_eq(manner[1], PK_CALLED);
	gate.queue.tail = 0;
	pk_lot_check(&gate, 0);
	pthread_join(thread[0], NULL);
	pk_lot_check(&gate, 0);
	ck_assert_uint_eq(gate.flags, 0);
}
END_TEST

/* Where waiters sleep: by PARKADE_PARKING, by whether anybody may spin on that socket, and by what heads have found. */
START_TEST(lot_adapts)
{
	struct pk_site at = {NULL, &gate, 300, 0, true};
	struct {
		const char *topology, *parking;
		bool slow, open;
		enum pk_manner manner;
	} table[] = {
		{"2x4", "auto", false, true, PK_LEAVES},   {"2x4", "auto", true, true, PK_SLEEPS},
		{"2x2", "auto", false, false, PK_STAYS},   {"2x2", "auto", true, false, PK_STAYS},
		{"2x4", "queue", false, false, PK_STAYS},  {"2x4", "queue", true, false, PK_STAYS},
		{"2x2", "socket", false, true, PK_LEAVES}, {"2x4", "socket", true, true, PK_LEAVES},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		pk_topology_read("", table[i].topology);
		pk_spin_setup();
		pk_lot_setup(table[i].parking);
		gate.flags = table[i].slow ? PK_FLAG_SLOW : 0;
		ck_assert_int_eq(pk_lot_open, table[i].open);
		at.marks = true;
		ck_assert_int_eq(pk_lot_manner(&at, 1), table[i].manner);
		at.marks = false; /* a reader-writer lock */
		if (!strcmp(table[i].parking, "auto"))
			ck_assert_int_eq(pk_lot_manner(&at, 1), PK_STAYS);
	}
}
END_TEST

/* A head that spins in vain says so, and who gets the word by spinning takes it back. _i: with a budget during which the
 * head looks at the clock, too. */
START_TEST(lot_heads_tell)
{
	int word = 1;
	struct timespec soon = pk_clock_after(20000);
	struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	struct pk_site at = {&word, &gate, _i ? 5000 : 300, 0, true};
	struct pk_waiter *w;

	pk_config.spin = (int)at.spin;
	pk_incarnation_next();
	pk_topology_read("", "2x4");
	pk_spin_setup();
	pk_lot_setup("auto");
	w = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, true, &deadline), ETIMEDOUT);
	ck_assert(!(gate.flags & PK_FLAG_SLOW)); /* it had slept: it cannot tell */
	word = 1;
	soon = pk_clock_after(20000);
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, &deadline), ETIMEDOUT);
	ck_assert(gate.flags & PK_FLAG_SLOW);
	word = 0;
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, true, NULL), 0);
	ck_assert(gate.flags & PK_FLAG_SLOW);
	word = 0;
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, NULL), 0);
	ck_assert(!(gate.flags & PK_FLAG_SLOW));
	gate.flags |= PK_FLAG_SLOW;
	word = 0;
	ck_assert(pk_word_steal(&at));
	ck_assert(!(gate.flags & PK_FLAG_SLOW));
	at.marks = false; /* a reader-writer lock's gate is 0 when it is idle */
	soon = pk_clock_after(20000);
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, &deadline), ETIMEDOUT);
	ck_assert(!(gate.flags & PK_FLAG_SLOW));
}
END_TEST

/* Where nobody may spin in the queue the head of a slow lock sleeps at once, but for each 16th, which may find out that
 * the lock is slow no more. */
START_TEST(heads_probe)
{
	int word;
	struct pk_site at = {&word, &gate, 300, 0, true};
	struct pk_record *record = pk_record_take();
	struct pk_waiter *w;
	unsigned probes = 0;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	pk_lot_setup("auto");
	ck_assert(!pk_lot_adapts);
	for (int i = 0; i < 64; i++) {
		word = 0;
		gate.flags = PK_FLAG_SLOW;
		w = node_of(record, &pk_mcs);
		ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
		ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, NULL), 0);
		ck_assert_int_eq(word, 1);
		probes += !(gate.flags & PK_FLAG_SLOW);
		pk_mcs.leave(&gate.queue, w, &word);
	}
	ck_assert_uint_eq(probes, 64 / 16);
}
END_TEST

/* How long a head waits for a word that is free, the second time, which begins *between after the first. (Nothing of Check
 * in between: it takes microseconds.) */
static uint64_t wait_twice(struct pk_record *record, const struct pk_site *first, const struct pk_site *second, int us,
			   uint64_t *between)
{
	const struct pk_site *at[] = {first, second};
	uint64_t began, ended = 0;

	for (int i = 0; i < 2; i++) {
		struct pk_waiter *w = pk_waiter_take(record);

		w->policy = pk_mcs.policy;
		w->manner = PK_STAYS;
		*at[i]->word = 0;
		if (i && us)
			usleep((useconds_t)us);
		began = pk_clock_ns();
		*between = began - ended;
		pk_mcs.enter(&at[i]->gate->queue, w, NULL);
		pk_word_wait(at[i], &pk_mcs, w, false, NULL);
		pk_mcs.leave(&at[i]->gate->queue, w, at[i]->word);
		ended = pk_clock_ns();
	}
	return ended - began;
}

/* Who comes back at once for the word that it has had as a head that was alone leaves it to others for 40 us. Who comes
 * back later, or for another word, does not. */
START_TEST(looks_away)
{
	enum { TRIES = 200, SHORT = 30000, AT_ONCE = 1000 };
	int word, other;
	struct pk_site at = {&word, &gate, 300, 0, true}, elsewhere = {&other, &gate, 300, 0, true};
	struct pk_record *record = pk_record_take();
	unsigned soon = 0, back = 0, late = 0, strange = 0;
	uint64_t between;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	pk_lot_setup("auto");
	wait_twice(record, &elsewhere, &elsewhere, 0, &between); /* and find out how long a round is */
	for (int i = 0; i < TRIES; i++) {
		uint64_t plain = wait_twice(record, &at, &elsewhere, 0, &between);
		bool away = wait_twice(record, &at, &at, 0, &between) > SHORT;
		bool at_once = between + plain < AT_ONCE; /* under an emulator it is not */

		soon += at_once;
		back += at_once && away;
		strange += plain > SHORT;
		late += wait_twice(record, &at, &at, 10, &between) > SHORT;
	}
	ck_assert_int_eq(word + other, 2);
	if (!soon)
		printf("SKIP: nobody can come back at once on such a slow machine\n");
	/* Each can be preempted, within the second call, too. */
	ck_assert_uint_ge(back, soon / 2);
	ck_assert_uint_lt(late, TRIES / 2);
	ck_assert_uint_lt(strange, TRIES / 2);
}
END_TEST

/* Half of a socket's CPUs spin at most; fewer when waiters spin in vain, and again more for each 32 that do not. Who
 * has been called does so in any case, and who is to sleep in none. */
START_TEST(spinners_learn)
{
	struct pk_waiter *w;

	pk_topology_read("", "1x8");
	pk_spin_setup();
	w = new_node(&pk_mcs);
	w->socket = 0;
	ck_assert_uint_eq(pk_spin_limit(0), 4);
	ck_assert_uint_eq(pk_spin_rooms(0), 4);
	for (unsigned left = 3; left > 0; left--) {
		w->manner = PK_LEAVES;
		ck_assert_uint_ge(pk_spin_begin(w), 300);
		ck_assert_uint_eq(pk_spinners(0), 1);
		pk_spin_missed(w);
		ck_assert_uint_eq(pk_spin_rooms(0), left);
	}
	ck_assert_uint_ne(pk_spin_begin(w), 0);
	pk_spin_missed(w);
	ck_assert_uint_eq(pk_spin_rooms(0), 1); /* one may always try */
	for (int i = 0; i < 32; i++) {
		ck_assert_uint_eq(pk_spin_rooms(0), 1);
		ck_assert_uint_ne(pk_spin_begin(w), 0);
		pk_spin_end(w);
	}
	ck_assert_uint_eq(pk_spin_rooms(0), 2);
	w->manner = PK_SLEEPS;
	ck_assert_uint_eq(pk_spin_begin(w), 0);
	pk_spin_end(w);
	ck_assert_uint_eq(pk_spinners(0), 0);
	pk_topology_read("", "1x2");
	pk_spin_setup();
	w->manner = PK_STAYS;
	ck_assert_uint_eq(pk_spin_begin(w), 0);
	w->manner = PK_CALLED;
	ck_assert_uint_ne(pk_spin_begin(w), 0);
	pk_spin_end(w);
	pk_topology_read("", "1x64");
	pk_spin_setup();
	ck_assert_uint_eq(pk_spin_limit(0), 16);
}
END_TEST

/* ---- all of them ---- */

static struct {
	struct pk_gate gate;
	int word;
	long sections; /* guarded by it */
	int stop;
} lock;

static void *contend(void *timed)
{
	struct pk_site at = {&lock.word, &lock.gate, pk_spin_head(), 0, true};
	long mine = 0;

	while (!pk_load_relaxed(&lock.stop)) {
		struct timespec soon;
		struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
		int seen = 0;

		clock_gettime(CLOCK_MONOTONIC, &soon);
		soon.tv_nsec += 100000;
		if (soon.tv_nsec >= 1000000000) {
			soon.tv_sec++;
			soon.tv_nsec -= 1000000000;
		}
		if (!pk_cas_acquire(&lock.word, &seen, 1) && pk_turn_wait(&at, timed ? &deadline : NULL) != 0)
			continue;
		lock.sections++;
		mine++;
		for (unsigned n = 20; !pk_spent(&n);)
			;
		if (pk_xchg_release(&lock.word, 0) > 1)
			pk_futex_wake(&lock.word, 1);
	}
	return (void *)mine;
}

/* The policy changes all the time, while threads queue, some of them with deadlines. Nobody is lost, exactly one at a
 * time has the lock, and nothing is left behind. _i: whether they sleep by socket. */
START_TEST(switches)
{
	enum { THREADS = 8, CHANGES = 20, MICROSECONDS = 1500000 };
	static const char *const names[] = {
#define PK_POLICY(name, spelled, ops, doc) spelled,
#include "rt/policy.def"
#undef PK_POLICY
	};
	static const char *const clofs[] = {"clof:tkt-mcs-clh-hem", "clof:mcs-tkt", "clof:hem-tkt-mcs", "clof:clh-clh"};
	unsigned busy = 0, changes = 0;
	long sections = 0;
	uint64_t end;
	pthread_t thread[THREADS];

	pk_config_read(NULL);
	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_lot_open = _i;
	for (long i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, contend, i % 4 ? NULL : (void *)1), 0);
	/* Any one may follow any other: not in the table's order only. */
	for (end = pk_clock_us() + MICROSECONDS; pk_clock_us() < end; changes++) {
		pk_policy_select(changes % 5 ? names[changes * 7 % (PK_POLICIES - 1) + changes / 100 % 2]
					     : clofs[changes / 5 % (sizeof(clofs) / sizeof(clofs[0]))]);
		usleep(changes % 3 * 200);
	}
	pk_store_relaxed(&lock.stop, 1);
	for (int i = 0; i < THREADS; i++) {
		void *mine;

		pthread_join(thread[i], &mine);
		sections += (long)mine;
	}
	ck_assert_uint_gt(changes, CHANGES);
	ck_assert_int_gt(sections, CHANGES);
	ck_assert_int_eq(lock.sections, sections);
	ck_assert_int_eq(lock.word, 0);
	ck_assert(!pk_queue_busy(&lock.gate.queue));
	ck_assert_uint_eq(lock.gate.flags & ~PK_FLAG_SLOW, 0);
	for (uint32_t i = 0; i < pk_arena_known(); i++)
		busy += PK_RECORD_NODES - pk_waiters_idle(pk_record_nth(i));
	for (uint32_t i = 0; i < pk_contexts_known(); i++) {
		struct pk_waiter *w = pk_context_nth(i);

		busy += w && (w->busy || w->record);
	}
	ck_assert_uint_eq(busy, 0);
	for (unsigned s = 0; s < PK_SOCKETS_MAX + pk_contexts_known() / (PK_BAYS * PK_BAY_CONTEXTS); s++) {
		ck_assert_ptr_null(pk_bay_next(s, &lock.gate.queue, NULL));
		ck_assert_ptr_null(pk_bay_next(s, &lock.gate.queue.aux, NULL));
	}
}
END_TEST

UNIT("policies", {cna_sets_aside, 1}, {cna_orders, 1}, {cna_is_bounded, 1}, {cna_is_timely, 1}, {cna_reaps, 1},
     {cna_left, 1}, {cna_resumes, 1}, {mcscr_culls, 1}, {mcscr_is_fair, 2}, {mcscr_reaps, 1}, {strangers, 3},
     {strangers_first, 8}, {pull_gives_up, 3}, {pull_gives_up_before_a_stranger, 3}, {pull_passes, 2}, {bo_passes, 1},
     {tickets_in_order, 2}, {tickets_wrap, 2}, {tickets_die, 2}, {tickets_of_others, 2}, {tickets_and_old_nodes, 2},
     {tickets_forked, 2}, {pull_rouses, 3}, {hints, 1}, {own_policy, 1}, {lot_calls, 1}, {lot_refuses, 1},
     {lot_rotates, 1}, {lot_adapts, 1}, {lot_heads_tell, 2}, {heads_probe, 1}, {looks_away, 1}, {spinners_learn, 1}, {switches, 2})
