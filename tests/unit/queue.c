/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The linked queue and the shuffling, step by step in one thread: nodes are put into a queue by hand, and one call's
 * effect on the order, the roles and the nodes' fate is looked at. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admit/list.h"
#include "base/layout.h"
#include "rt/config.h"
#include "rt/topology.h"
#include "unit.h"

extern const struct pk_admit_ops pk_shfl, pk_mcs;

enum { MAX = 16 };

static struct pk_queue queue;
static struct pk_waiter *node[MAX];
static int count;
static int word = 1;

/* A queue of one node for each letter, which is its socket; a small one is of another cohort there. */
static void line_up(const char *sockets)
{
	pk_incarnation_next();
	pk_sockets = 4;
	count = (int)strlen(sockets);
	for (int i = 0; i < count; i++) {
		struct pk_waiter *w = node[i] = pk_waiter_take(pk_record_take());

		w->status = PK_WAITING;
		w->next = NULL;
		w->hint = NULL;
		w->batch = 0;
		w->shuffler = 0;
		w->queue = &queue;
		w->socket = (uint8_t)((sockets[i] | 0x20) - 'a');
		w->cohort = sockets[i] >= 'a';
		w->manner = PK_LEAVES;
		w->slept = false;
		if (i > 0)
			node[i - 1]->next = w;
	}
	node[0]->status = PK_HEAD;
	queue.tail = pk_waiter_name(node[count - 1]);
}

/* The queue from node i on, as the numbers of the nodes. */
static const char *order(int i)
{
	static char text[3 * MAX + 1];
	char *end = text;

	for (struct pk_waiter *w = node[i]; w; w = w->next) {
		int n = 0;

		while (node[n] != w)
			ck_assert_int_lt(++n, count);
		ck_assert_int_lt(end - text, 3 * MAX);
		end += sprintf(end, "%s%x", end == text ? "" : " ", (unsigned)n);
	}
	return text;
}

static int shuffler(void)
{
	int who = -1;

	for (int i = 0; i < count; i++)
		if (node[i]->shuffler == 1) {
			ck_assert_int_eq(who, -1);
			who = i;
		}
	return who;
}

/* Those of the head's socket come forward, in their order; the last of them is the next shuffler. So does the last one
 * of the queue, which ends with another one then. _i: but not if somebody is just joining behind it, or it was put there
 * asleep. */
START_TEST(groups_by_socket)
{
	line_up("ABACABA");
	if (_i == 1)
		queue.tail = pk_waiter_name(pk_waiter_take(pk_record_take()));
	if (_i == 2)
		node[6]->manner = PK_UNTIMED;
	uint64_t tail = queue.tail;

	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), _i ? "0 2 4 1 3 5 6" : "0 2 4 6 1 3 5");
	ck_assert_int_eq(shuffler(), _i ? 4 : 6);
	ck_assert_uint_eq(node[_i ? 4 : 6]->batch, _i ? 3 : 4);
	ck_assert_ptr_eq(node[_i ? 4 : 6]->hint, node[5]);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_shuffled), _i ? 2 : 3);
	ck_assert_uint_eq(queue.tail, _i ? tail : pk_waiter_name(node[5]));
}
END_TEST

/* A head that leaves with the word, and has not shuffled, does so for one of its socket, if it is among the next few and
 * somebody there spins. */
START_TEST(leaver_looks)
{
	struct pk_waiter *spinner = pk_waiter_take(pk_record_take());

	line_up("ABBABA");
	pk_shfl.leave(&queue, node[0], &word); /* nobody spins on its socket */
	ck_assert_uint_eq(pk_state(node[1]->status), PK_HEAD);
	spinner->socket = 0;
	spinner->manner = PK_CALLED;
	pk_spin_begin(spinner);
	line_up("ABBABA");
	pk_shfl.leave(&queue, node[0], &word);
	ck_assert_uint_eq(pk_state(node[3]->status), PK_HEAD);
	ck_assert_str_eq(order(3), "3 1 2 4 5");
	ck_assert_int_eq(shuffler(), 3);
	line_up("ABBBBBBBBAB");
	pk_shfl.leave(&queue, node[0], &word);
	ck_assert_uint_eq(pk_state(node[1]->status), PK_HEAD);
	line_up("ABA");
	pk_shfl.leave(&queue, node[0], NULL); /* it gives up */
	ck_assert_uint_eq(pk_state(node[1]->status), PK_HEAD);
}
END_TEST

/* The next shuffler resumes where the last one stopped. */
START_TEST(resumes)
{
	line_up("ABABAAB");
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), "0 2 4 5 1 3 6");
	ck_assert_int_eq(shuffler(), 5);
	/* Two more arrive. */
	struct pk_waiter *more = pk_waiter_take(pk_record_take()), *last = pk_waiter_take(pk_record_take());

	more->socket = 0;
	last->socket = 1;
	more->status = last->status = PK_WAITING;
	more->shuffler = last->shuffler = 0;
	more->next = last;
	node[6]->next = more;
	node[count++] = more;
	node[count++] = last;
	/* The head has no role any more; the shuffler becomes the head. */
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), "0 2 4 5 1 3 6 7 8");
	pk_shfl.leave(&queue, node[0], NULL);
	pk_shfl.leave(&queue, node[2], NULL);
	pk_shfl.leave(&queue, node[4], NULL);
	ck_assert_uint_eq(pk_state(node[5]->status), PK_HEAD);
	pk_shfl.tend(&queue, node[5], &word);
	ck_assert_str_eq(order(5), "5 7 1 3 6 8");
	ck_assert_int_eq(shuffler(), 7);
}
END_TEST

/* Only the head that starts a group shuffles, and never beyond the bound. */
START_TEST(bounded)
{
	pk_config.batch = 3;
	line_up("ABABABABB");
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), "0 2 4 1 3 5 6 7 8");
	ck_assert_int_eq(shuffler(), 4);
	pk_shfl.leave(&queue, node[0], NULL);
	pk_shfl.tend(&queue, node[2], &word); /* not its role */
	pk_shfl.leave(&queue, node[2], NULL);
	pk_shfl.tend(&queue, node[4], &word); /* the bound is reached */
	ck_assert_str_eq(order(4), "4 1 3 5 6 7 8");
	ck_assert_int_eq(shuffler(), -1);
	pk_shfl.leave(&queue, node[4], NULL);
	pk_shfl.tend(&queue, node[1], &word); /* the next group */
	ck_assert_uint_eq(node[1]->batch, 1);
	ck_assert_str_eq(order(1), "1 3 5 6 7 8");
}
END_TEST

/* A head whose successor is of another cohort has the first of its own go before that which spins, and has one of the group behind
 * it: not the last one, from where the shuffler goes on. None is overtaken by who has come 17 later, nor one put there asleep, who
 * does not change its place either, nor loses the one before it. */
START_TEST(prefers_near)
{
	static const struct {
		const char *queue;
		int parked, gone, untimed, late; /* which node is like that, if not 0 */
		uint32_t by;
		const char *order;
	} table[] = {
		{"AaaAAA", 0, 0, 0, 0, 0, "0 3 1 2 4 5"},
		{"AaAaAA", 0, 0, 0, 0, 0, "0 2 1 3 4 5"},
		{"AaBABAA", 0, 0, 0, 0, 0, "0 3 1 5 6 2 4"}, /* the first one of another socket is not of the group */
		{"AaaAA", 0, 0, 0, 0, 0, "0 1 2 3 4"},	      /* the last one of the group */
		{"AaAA", 2, 0, 0, 0, 0, "0 1 2 3"},
		{"AAaAA", 0, 0, 0, 0, 0, "0 1 2 3 4"}, /* the next one is near */
		{"AaaaaA", 0, 0, 0, 0, 0, "0 1 2 3 4 5"},
		{"AaaAAAA", 3, 0, 0, 0, 0, "0 4 1 2 3 5 6"},
		{"AaaAAAA", 0, 3, 0, 0, 0, "0 4 1 2 3 5 6"},
		{"AaaAAAA", 0, 0, 1, 0, 0, "0 1 2 3 4 5 6"},
		{"AaaAAAA", 0, 0, 3, 0, 0, "0 1 2 3 4 5 6"},
		{"AaaAAAA", 0, 0, 4, 0, 0, "0 1 2 3 4 5 6"},
		{"AaaAAAA", 0, 0, 2, 0, 0, "0 3 1 2 4 5 6"},
		{"AaaAAA", 0, 0, 0, 3, 16, "0 3 1 2 4 5"},
		{"AaaAAA", 0, 0, 0, 3, 17, "0 1 2 3 4 5"},
		{"AbaAAA", 0, 0, 0, 0, 0, "0 3 2 4 5 1"}, /* the shuffler has moved it */
	};
	int role;

	line_up(table[_i].queue);
	pk_shfl.tend(&queue, node[0], &word);
	role = shuffler();
	if (table[_i].parked)
		node[table[_i].parked]->status = PK_PARKED;
	if (table[_i].gone)
		node[table[_i].gone]->status = PK_ABANDONED;
	if (table[_i].untimed)
		node[table[_i].untimed]->manner = PK_UNTIMED;
	if (table[_i].late)
		node[table[_i].late]->batch = node[1]->batch + table[_i].by;
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), table[_i].order);
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), table[_i].order);
	ck_assert_int_eq(shuffler(), role);
	pk_shfl.leave(&queue, node[0], NULL);
	ck_assert_uint_eq(pk_state(node[table[_i].order[2] - '0']->status), PK_HEAD);
}
END_TEST

/* A child of fork has used a node again that was its parent's: nobody is behind it. _i: which one. */
START_TEST(prefers_nobody)
{
	line_up("AaaAAA");
	pk_shfl.tend(&queue, node[0], &word);
	node[1 + _i]->next = NULL;
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), _i == 0 ? "0 1" : _i == 1 ? "0 1 2" : "0 1 2 3");
}
END_TEST

/* The walk ends when the lock becomes free. */
START_TEST(word_free)
{
	static int free_word;

	line_up("ABABAB");
	pk_shfl.tend(&queue, node[0], &free_word);
	ck_assert_str_eq(order(0), "0 1 2 3 4 5");
	ck_assert_int_eq(shuffler(), 0);
}
END_TEST

/* Abandoned nodes are taken out on the way and freed, but not the last one. */
START_TEST(shuffler_reaps)
{
	line_up("ABABAB");
	node[1]->status = node[2]->status = node[3]->status = node[5]->status = PK_ABANDONED;
	pk_shfl.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), "0 4 5");
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(node[i]->busy, i == 0 || i == 4 || i == 5);
}
END_TEST

/* mcs: the order stays; the head takes out the abandoned ones behind it. */
START_TEST(head_reaps)
{
	line_up("ABABAB");
	node[1]->status = node[2]->status = node[4]->status = PK_ABANDONED;
	pk_mcs.tend(&queue, node[0], &word);
	ck_assert_str_eq(order(0), "0 3 4 5");
	ck_assert_uint_eq(node[1]->busy + node[2]->busy, 0);
	ck_assert_uint_eq(node[4]->busy, 1);
}
END_TEST

/* Headship passes over abandoned nodes to the first live one. */
START_TEST(pass_skips)
{
	line_up("ABAB");
	node[1]->status = node[2]->status = PK_ABANDONED;
	pk_mcs.leave(&queue, node[0], NULL);
	ck_assert_uint_eq(pk_state(node[3]->status), PK_HEAD);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(node[i]->busy, i == 3);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(node[3]));
}
END_TEST

/* Nobody is left alive: the queue is empty and every node free. */
START_TEST(pass_empties)
{
	line_up("ABAB");
	node[1]->status = node[2]->status = node[3]->status = PK_ABANDONED;
	pk_mcs.leave(&queue, node[0], NULL);
	ck_assert_uint_eq(queue.tail, 0);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(node[i]->busy, 0);
}
END_TEST

/* The successor has exchanged the tail but not linked itself: the leaver does not wait, and the successor is the head
 * as soon as it does. */
START_TEST(left)
{
	struct pk_waiter *late;

	line_up("A");
	late = pk_waiter_take(pk_record_take());
	queue.tail = pk_waiter_name(late);
	pk_mcs.leave(&queue, node[0], NULL);
	ck_assert_ptr_eq(node[0]->next, PK_LEFT);
	ck_assert_uint_eq(node[0]->busy, 1);
	queue.tail = pk_waiter_name(node[0]); /* so that enter exchanges it again */
	ck_assert_int_eq(pk_mcs.enter(&queue, late, NULL), PK_IS_HEAD);
	ck_assert_uint_eq(node[0]->busy, 0);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(late));
	pk_mcs.leave(&queue, late, NULL);
	ck_assert_uint_eq(queue.tail, 0);
}
END_TEST

/* A tail that names a ghost, or a node of another queue (the mutex was copied), names nobody. */
START_TEST(strangers)
{
	struct pk_queue copy;
	struct pk_waiter *w;

	line_up("AB");
	copy = queue;
	w = pk_waiter_take(pk_record_take());
	ck_assert_int_eq(pk_shfl.enter(&copy, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_null(node[1]->next);
	pk_shfl.leave(&copy, w, NULL);
	ck_assert_uint_eq(copy.tail, 0);

	/* The copy names the very node that joins. */
	copy.tail = pk_waiter_name(w);
	ck_assert_int_eq(pk_shfl.enter(&copy, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_null(w->next);

	pk_incarnation_next();
	w = pk_waiter_take(pk_record_take());
	ck_assert_int_eq(pk_shfl.enter(&queue, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_null(node[1]->next);
}
END_TEST

/* A sleeper is moved to the word only in the use of its node that was made the head, and only to a word that is held.
 */
START_TEST(moves)
{
	const uint32_t head = PK_HEAD, later = head + PK_STATE_MASK + 1;
	int held = 1;

	line_up("A");
	node[0]->status = head;
	ck_assert(pk_list_move(node[0], head, &held));
	ck_assert_int_eq(held, 2);
	node[0]->status = later;
	ck_assert(!pk_list_move(node[0], head, &held));
	held = 0;
	ck_assert(!pk_list_move(node[0], later, &held));
	ck_assert_int_eq(held, 0);
}
END_TEST

/* A chain of n sleepers for whom a signal has come; they become the nodes behind those that there are. */
static void chain(int n)
{
	for (int i = count; i < count + n; i++) {
		struct pk_waiter *w = node[i] = pk_waiter_take(pk_record_take());

		w->status = PK_CLAIMED;
		w->next = NULL;
		w->hint = NULL;
		w->batch = 0;
		w->shuffler = 0;
		w->queue = NULL;
		w->socket = 0;
		if (i > count)
			node[i - 1]->next = w;
	}
	count += n;
}

/* Spliced sleepers stand behind those who queue already, and nobody is made the head. */
START_TEST(splices)
{
	line_up("AB");
	chain(3);
	pk_shfl.splice(&queue, node[2], node[4], &word);
	ck_assert_str_eq(order(0), "0 1 2 3 4");
	ck_assert_uint_eq(queue.tail, pk_waiter_name(node[4]));
	for (int i = 2; i < count; i++) {
		ck_assert_uint_eq(pk_state(node[i]->status), PK_PARKED);
		ck_assert_ptr_eq(node[i]->queue, &queue);
	}
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_wakes) + pk_stat_sum(PK_STAT_woken) + pk_stat_sum(PK_STAT_moved), 0);
}
END_TEST

/* Into an empty queue, or one whose last waiter has left meanwhile, or whose tail names a stranger or one of the chain
 * itself: the first live one becomes the head. The word that is held is slept on from then on. */
START_TEST(splices_head)
{
	int held = 1;

	line_up("A");
	queue.tail = 0;
	chain(3);
	pk_mcs.splice(&queue, node[1], node[3], &held);
	ck_assert_uint_eq(pk_state(node[1]->status), PK_HEAD);
	ck_assert_str_eq(order(1), "1 2 3");
	ck_assert_int_eq(held, 2);

	line_up("A");
	node[0]->next = PK_LEFT;
	chain(2);
	node[1]->status = PK_ABANDONED;
	pk_mcs.splice(&queue, node[1], node[2], &word);
	ck_assert_uint_eq(node[0]->busy + node[1]->busy, 0);
	ck_assert_uint_eq(pk_state(node[2]->status), PK_HEAD);

	line_up("A");
	chain(2);
	node[1]->queue = NULL;
	queue.tail = pk_waiter_name(node[2]);
	pk_mcs.splice(&queue, node[1], node[2], &word);
	ck_assert_uint_eq(pk_state(node[1]->status), PK_HEAD);
	ck_assert_str_eq(order(1), "1 2");
	ck_assert_uint_eq(node[2]->busy, 1);
}
END_TEST

/* All of the chain have given up: the queue is empty again. */
START_TEST(splices_nobody)
{
	line_up("A");
	queue.tail = 0;
	chain(2);
	node[1]->status = node[2]->status = PK_ABANDONED;
	pk_shfl.splice(&queue, node[1], node[2], &word);
	ck_assert_uint_eq(queue.tail, 0);
	ck_assert_uint_eq(node[1]->busy + node[2]->busy, 0);
}
END_TEST

static void *sleep_on(void *status)
{
	pk_futex_wait(status, PK_SPINNING, NULL);
	return NULL;
}

/* Who has marked a sleeper as awake stands still, and has not woken it yet. It has no timer, and becomes the head. */
START_TEST(marked_not_woken)
{
	pthread_t sleeper;

	line_up("AA");
	node[1]->status = PK_SPINNING;
	node[1]->manner = PK_ENDLESS;
	ck_assert_int_eq(pthread_create(&sleeper, NULL, sleep_on, &node[1]->status), 0);
	usleep(50000); /* if it is not asleep by then it will not be: the status is another one */
	pk_shfl.leave(&queue, node[0], &word);
	ck_assert_uint_eq(pk_state(node[1]->status), PK_HEAD);
	ck_assert_int_eq(pthread_join(sleeper, NULL), 0);
}
END_TEST

static int thefts; /* that will succeed */

static bool steal(struct pk_queue *q)
{
	ck_assert_ptr_eq(q, &queue);
	return thefts-- > 0;
}

/* One that is awake before its turn takes the word; the window behind it grows with each, up to its bound, and the
 * sleepers in it are roused. */
START_TEST(window_grows)
{
	line_up("A");
	chain(14);
	pk_mcs.splice(&queue, node[1], node[14], &word);
	for (int i = 1; i <= 12; i++) {
		int window = (i < PK_LIST_WINDOW_MAX ? i : PK_LIST_WINDOW_MAX) - 1, roused = 0; /* the other one is a head's */

		thefts = 1;
		node[i]->status = PK_SPINNING;
		ck_assert_int_eq(pk_mcs.settle(&queue, node[i], &word, steal), PK_STOLEN);
		while (i + roused < 14 && pk_state(node[i + 1 + roused]->status) == PK_SPINNING)
			roused++;
		ck_assert_int_eq(roused, window < 14 - i ? window : 14 - i);
		ck_assert_uint_eq(pk_list_window(&queue), i < PK_LIST_WINDOW_MAX ? i + 1 : PK_LIST_WINDOW_MAX);
		for (int j = i + 1; j < count; j++)
			node[j]->status = PK_PARKED;
	}
}
END_TEST

/* ---- sleepers that the lock has waited for ---- */

static uint64_t flags;

static void wait_for_word(struct pk_waiter *w, int value)
{
	word = value;
	pk_self.waits = w;
	pk_self.wanted.word = &word;
	pk_self.wanted.pass = NULL;
	pk_self.wanted.flags = &flags;
	flags = 0;
}

static int roused_behind(int i)
{
	int n = 0;

	while (i + 1 + n < count && pk_state(node[i + 1 + n]->status) == PK_SPINNING)
		n++;
	return n;
}

/* All but the head sleep. */
static void line_up_asleep(void)
{
	line_up("AAAAAAAAAAAAAA");
	for (int i = 1; i < count; i++) {
		node[i]->status = PK_PARKED;
		node[i]->manner = PK_STAYS;
		node[i]->slept = true;
	}
}

/* One that is woken before its turn, and finds the word free, takes it, and wakes those behind it, more with each; if
 * the word is taken it waits on, and if it has to sleep again fewer are woken next time. */
START_TEST(sleepers_overtake)
{
	line_up_asleep();
	for (int i = 1; i <= 2; i++) {
		wait_for_word(node[i], 0);
		node[i]->status = PK_SPINNING;
		ck_assert_int_eq(pk_list_wait_in(&queue, node[i], NULL, NULL, true), PK_STOLEN);
		ck_assert_int_eq(word, 1);
		ck_assert_int_eq(roused_behind(i), i);
		ck_assert_uint_eq(pk_list_window(&queue), (unsigned)i + 1);
	}
	wait_for_word(node[3], 1);
	ck_assert(!pk_list_overtake(&queue, node[3]));
	wait_for_word(node[3], 0); /* past a head that has lost patience */
	flags = PK_FLAG_QUEUE;
	ck_assert(!pk_list_overtake(&queue, node[3]));
	ck_assert_int_eq(word, 0);
	wait_for_word(node[3], 1); /* woken in vain */
	node[3]->status = PK_SPINNING;
	node[3]->manner = PK_LEAVES;
	ck_assert_int_eq(pk_list_wait_in(&queue, node[3], NULL, NULL, true), PK_OUT);
	ck_assert_uint_eq(pk_list_window(&queue), 2);
	wait_for_word(node[4], 0); /* what it stands for is not to be had by taking it */
	pk_self.wanted.pass = (bool (*)(const int *))1;
	ck_assert(!pk_list_overtake(&queue, node[4]));
	ck_assert_int_eq(word, 0);
	wait_for_word(node[5], 0); /* its node would be its last */
	while (pk_waiters_idle(node[5]->record) > 1)
		pk_waiter_take(node[5]->record);
	ck_assert(!pk_list_overtake(&queue, node[5]));
	ck_assert_int_eq(word, 0);
}
END_TEST

/* So does one whose turn has come when it is up, but for taking the word. _i: one that had not slept; one in what is
 * not the lock's queue; one that finds the word taken. */
START_TEST(sleepers_hurry)
{
	line_up_asleep();
	wait_for_word(node[1], _i == 3);
	node[1]->status = PK_HEAD;
	node[1]->slept = _i != 1;
	ck_assert_int_eq(pk_list_wait_in(&queue, node[1], NULL, NULL, _i != 2), PK_IS_HEAD);
	ck_assert_int_eq(word, _i == 3);
	ck_assert_int_eq(roused_behind(1), _i == 0);
	ck_assert_uint_eq(pk_list_window(&queue), _i == 0 ? 2 : 1);
}
END_TEST

/* Of a slow lock, on two CPUs, one in eight heads does, if those who were roused have slept again so often; none of them widens the
 * window, and who overtakes opens it. _i: a lock that is not slow; more CPUs. */
START_TEST(sleepers_leave_a_cold_lock)
{
	pk_topology_read("", _i == 2 ? "1x4" : "1x2");
	pk_spin_setup();
	line_up_asleep();
	for (int vain = 0; vain <= 10; vain++) {
		int roused = 0;

		for (uint32_t uses = 0; uses < PK_LIST_PROBE; uses++) {
			wait_for_word(node[1], 0);
			flags = _i == 1 ? 0 : PK_FLAG_SLOW;
			node[1]->status = uses * (PK_STATE_MASK + 1) + PK_HEAD;
			node[1]->slept = true;
			ck_assert_int_eq(pk_list_wait_in(&queue, node[1], NULL, NULL, true), PK_IS_HEAD);
			roused += roused_behind(1) > 0;
			for (int i = 2; i < count; i++)
				node[i]->status = PK_PARKED;
		}
		ck_assert_int_eq(roused, _i || vain < 8 ? PK_LIST_PROBE : 1);
		if (_i == 0)
			ck_assert_uint_eq(pk_list_window(&queue), 1);
		pk_list_narrow(&queue);
	}
	wait_for_word(node[1], 0);
	flags = PK_FLAG_SLOW;
	ck_assert(pk_list_overtake(&queue, node[1]));
	ck_assert_int_gt(roused_behind(1), 0);
	ck_assert_uint_ge(pk_list_window(&queue), 2);
}
END_TEST

/* It is its turn before it sleeps again. */
static bool crown(struct pk_queue *q)
{
	ck_assert_ptr_eq(q, &queue);
	node[1]->status = PK_HEAD;
	return false;
}

/* The same for one that is awake when it is its turn. */
START_TEST(window_grows_by_turns)
{
	line_up("A");
	chain(3);
	pk_mcs.splice(&queue, node[1], node[3], &word);
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert_uint_eq(pk_list_window(&queue), i);
		node[1]->status = PK_SPINNING;
		ck_assert_int_eq(pk_mcs.settle(&queue, node[1], &word, crown), PK_IS_HEAD);
	}
	ck_assert(!node[1]->slept); /* its unlock need not look for others */
	ck_assert_int_eq(pk_mcs.settle(&queue, node[1], &word, crown), PK_IS_HEAD);
	ck_assert_uint_eq(pk_list_window(&queue), 4);
	node[1]->slept = true;
	ck_assert_int_eq(pk_mcs.settle(&queue, node[1], &word, crown), PK_IS_HEAD); /* it was asleep, and the lock is not free */
	ck_assert_uint_eq(pk_list_window(&queue), 4);
	word = 0;
	ck_assert_int_eq(pk_mcs.settle(&queue, node[1], &word, crown), PK_IS_HEAD);
	ck_assert_uint_eq(pk_list_window(&queue), 5);
	ck_assert(node[1]->slept); /* it may have been moved to the word, and be one of several there */
	node[1]->next = NULL;
	ck_assert_int_eq(pk_mcs.settle(&queue, node[1], &word, crown), PK_IS_HEAD); /* nobody is behind it */
	ck_assert_uint_eq(pk_list_window(&queue), 5);
}
END_TEST

/* One that has to sleep again closes half of what is beyond the first, which always is roused. */
START_TEST(window_shrinks)
{
	line_up("A");
	pk_aux_set_hint(&queue, PK_HINT_WINDOW, 5);
	ck_assert_uint_eq(pk_list_window(&queue), 6);
	pk_list_narrow(&queue);
	ck_assert_uint_eq(pk_list_window(&queue), 3);
	pk_list_narrow(&queue);
	pk_list_narrow(&queue);
	pk_list_narrow(&queue);
	ck_assert_uint_eq(pk_list_window(&queue), 1);
	chain(2);
	node[0]->next = node[1];
	node[1]->status = node[2]->status = PK_PARKED;
	pk_list_wake_ahead(node[0], pk_list_window(&queue));
	ck_assert_int_eq(pk_state(node[1]->status), PK_SPINNING);
	ck_assert_int_eq(pk_state(node[2]->status), PK_PARKED);
}
END_TEST

/* A deadline in the past: the waiter gives up, its node stays until it is passed. */
START_TEST(times_out)
{
	static const struct timespec past = {1, 0};
	const struct pk_deadline deadline = {&past, CLOCK_MONOTONIC};
	struct pk_waiter *w;

	line_up("A");
	w = pk_waiter_take(pk_record_take());
	w->manner = PK_STAYS;
	ck_assert_int_eq(pk_shfl.enter(&queue, w, &deadline), PK_TIMED_OUT);
	ck_assert_uint_eq(pk_state(w->status), PK_ABANDONED);
	ck_assert_uint_eq(w->busy, 1);
	pk_shfl.leave(&queue, node[0], NULL);
	ck_assert_uint_eq(w->busy, 0);
	ck_assert_uint_eq(queue.tail, 0);
}
END_TEST

UNIT("queue", {groups_by_socket, 3}, {leaver_looks, 1}, {resumes, 1}, {bounded, 1}, {prefers_near, 16}, {prefers_nobody, 3}, {word_free, 1},
     {shuffler_reaps, 1}, {head_reaps, 1},
     {pass_skips, 1}, {pass_empties, 1}, {left, 1}, {strangers, 1}, {moves, 1}, {splices, 1}, {splices_head, 1},
     {splices_nobody, 1}, {window_grows, 1}, {window_grows_by_turns, 1}, {window_shrinks, 1}, {sleepers_overtake, 1},
     {sleepers_hurry, 4}, {sleepers_leave_a_cold_lock, 3}, {times_out, 1}, {marked_not_woken, 1})
