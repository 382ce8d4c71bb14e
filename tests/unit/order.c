/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Whether it pays to queue for a mutex: to put the queue in order, on machines of several sockets; or to have a head (admit/order.h). And who stays
 * away from it if not (pthread/turn.c, pthread/word.c). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "admit/list.h"
#include "admit/order.h"
#include "pthread/lot.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/futex.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "../stats/sleepers.h"
#include "gate.h"
#include "nodes.h"

/* No group of a socket ends by its size. */
static void make(const char *policy, const char *topology, const char *parking)
{
	make_with(policy, topology, parking);
	no_trials();
	pk_config.batch = 1000;
}

static unsigned order(void)
{
	return pk_aux_hint(&gate.queue, PK_HINT_ORDER);
}

static void set_order(unsigned value)
{
	pk_aux_set_hint(&gate.queue, PK_HINT_ORDER, value);
	ck_assert_uint_eq(order(), value);
}

/* ---- what is learnt ---- */

/* A queue of another name. */
static const struct pk_queue *elsewhere(void)
{
	static struct pk_queue queues[2]; /* neighbours have different ones */
	const struct pk_queue *other;

	pk_order_sees(&queues[0], false);
	other = &queues[pk_order_names(&gate.queue)];
	pk_self.ordered.seen = 0;
	return other;
}

/* A thread that has seen so many hand-overs, or heads, tells of so many to other sockets, or that are passed over. */
static void tell(unsigned far)
{
	const unsigned enough = pk_order_enough();

	for (unsigned n = 0; n < enough; n++)
		ck_assert_int_eq(pk_order_sees(&gate.queue, n < far), n == enough - 1);
	pk_order_tell(&gate.queue);
	ck_assert_uint_eq(pk_self.ordered.seen, 0);
	ck_assert_uint_eq(pk_self.ordered.far, 0);
}

/* Of 48 hand-overs 3 may go to the other socket of two, 9 to others of four, 16 of eight, and 10 to other cache groups, and those make up for
 * as many that go there beyond; but what a thread tells once is no more than two, either way. With one socket, of 24 heads 3 may be passed over. */
START_TEST(is_weighed)
{
	static const struct {
		const char *topology;
		unsigned enough, bound, most; /* of far ones, in 32ths; and as whole ones */
		bool caches;
	} table[] = {{"2x4", 48, 96, 3, false},
		     {"4x4", 48, 288, 9, false},
		     {"8x4", 48, 512, 16, false},
		     {"8x4", 48, 341, 10, true},
		     {"1x8", 24, 109, 3, false}};
	const unsigned bound = table[_i].bound, most = table[_i].most;

	make("shfl", table[_i].topology, "auto");
	pk_sockets_are_caches = table[_i].caches;
	ck_assert_uint_eq(pk_order_enough(), table[_i].enough);
	tell(0);
	ck_assert_uint_eq(order(), 0);
	set_order(100);
	tell(most + 1);
	ck_assert_uint_eq(order(), 100 + (most + 1) * 32 - bound);
	tell(most);
	ck_assert_uint_eq(order(), 100 + (most + 1) * 32 - bound - (bound - most * 32));
	set_order(1);
	tell(most - 1);
	ck_assert_uint_eq(order(), 0);
	set_order(1000);
	tell(0);
	ck_assert_uint_eq(order(), 1000 - PK_ORDER_CLIP);
	set_order(0);
	for (int n = 0; n < PK_ORDER_LIMIT / PK_ORDER_CLIP; n++) {
		ck_assert(pk_order_pays(&gate.queue));
		tell(PK_ORDER_SEEN);
	}
	ck_assert(!pk_order_pays(&gate.queue));
	set_order(PK_ORDER_LIMIT - 1);
	tell(PK_ORDER_SEEN);
	ck_assert_uint_eq(order(), PK_ORDER_LIMIT);
	/* Then only waits count. */
	for (unsigned value = PK_ORDER_LIMIT; value < PK_ORDER_MOST; value += 100) {
		set_order(value);
		tell(_i % 2 ? 0 : PK_ORDER_SEEN);
		ck_assert_uint_eq(order(), value);
	}
}
END_TEST

/* A thread that comes to several locks by turns sees what it needs of one of them, and of another one if that does not come again. */
START_TEST(one_at_a_time)
{
	struct pk_queue queues[7] = {{0}}, *other = queues + 1;
	int tells = 0;

	make("shfl", "2x4", "auto");
	for (unsigned n = 0; n < PK_ORDER_SEEN; n++) {
		tells += pk_order_sees(queues, true);
		for (unsigned i = 0; i < 6; i++)
			ck_assert(!pk_order_sees(&other[i], false) || tells);
	}
	ck_assert_int_eq(tells, 1);
	ck_assert_uint_eq(pk_self.ordered.far, PK_ORDER_SEEN);
	pk_order_tell(queues);
	for (unsigned n = 0; n < 20; n++)
		pk_order_sees(queues, true);
	for (unsigned n = 0; n < 255; n++)
		ck_assert(!pk_order_sees(&other[0], true));
	ck_assert_uint_eq(pk_self.ordered.seen, 20);
	for (unsigned n = 1; n < PK_ORDER_SEEN; n++)
		ck_assert(!pk_order_sees(&other[0], false));
	ck_assert(pk_order_sees(&other[0], false));
	ck_assert_uint_eq(pk_self.ordered.far, 0);
	pk_order_tell(&other[0]);
	/* Nothing is left of the one before. */
	ck_assert(!pk_order_sees(queues, false));
	ck_assert_uint_eq(pk_self.ordered.seen, 1);
}
END_TEST

/* So many waits apart, and it is tried again. */
START_TEST(is_tried_again)
{
	make("shfl", "2x4", "auto");
	set_order(PK_ORDER_LIMIT - 1);
	pk_order_bypassed(&gate.queue); /* somebody else had it tried again meanwhile */
	ck_assert_uint_eq(order(), PK_ORDER_LIMIT - 1);
	set_order(PK_ORDER_LIMIT);
	for (unsigned n = PK_ORDER_LIMIT; n < PK_ORDER_MOST; n++) {
		ck_assert(!pk_order_pays(&gate.queue));
		pk_order_bypassed(&gate.queue);
	}
	ck_assert(pk_order_pays(&gate.queue));
	ck_assert_uint_eq(order(), 0);
}
END_TEST

/* It does not touch the other hints, nor they it. */
START_TEST(is_kept_apart)
{
	make("shfl", "2x4", "auto");
	pk_aux_set_hint(&gate.queue, PK_HINT_WINDOW, PK_LIST_WINDOW_MAX - 1);
	pk_aux_set_hint(&gate.queue, PK_HINT_SINCE, 0xabcd);
	set_order(PK_ORDER_MOST - 1);
	ck_assert_uint_eq(pk_aux_hint(&gate.queue, PK_HINT_WINDOW), PK_LIST_WINDOW_MAX - 1);
	ck_assert_uint_eq(pk_aux_hint(&gate.queue, PK_HINT_SINCE), 0xabcd);
	pk_aux_set_hint(&gate.queue, PK_HINT_WINDOW, 1);
	pk_aux_set_hint(&gate.queue, PK_HINT_SINCE, 2);
	ck_assert_uint_eq(order(), PK_ORDER_MOST - 1);
}
END_TEST

/* A head with the lock leaves, and after 48 times tells of these hand-overs, by the sockets of the two; not with one socket, nor where nobody would
 * stay away, nor of one that leaves without the lock, or alone, or to one that has given up. */
START_TEST(hand_overs_count)
{
	static const struct {
		const char *topology, *parking;
		bool held;
		const char *sockets; /* of the head, and of those behind it; in lower case: it has given up */
		int counts;
	} table[] = {
		{"2x4", "auto", true, "AB", 64},  {"2x4", "auto", true, "BB", -64},  {"2x4", "auto", true, "AbA", 0},
		{"2x4", "queue", true, "AB", 0},  {"1x8", "auto", true, "AA", 0},    {"2x2", "auto", true, "AB", 0},
		{"2x4", "auto", false, "AB", 0},  {"2x4", "auto", true, "A", 0},
	};
	enum { BEFORE = 100, TIMES = 3 * PK_ORDER_SEEN };
	int counted = 0;

	make("shfl", table[_i].topology, table[_i].parking);
	for (unsigned n = 0; n < TIMES; n++) {
		struct pk_waiter *prev = NULL, *first = NULL;
		bool gave_up = false;

		memset(&gate, 0, sizeof(gate));
		set_order(BEFORE);
		word = 1;
		for (const char *s = table[_i].sockets; *s; s++) {
			struct pk_waiter *w = new_node(&pk_shfl);

			w->socket = (uint8_t)((*s | 0x20) - 'a');
			w->batch = 1; /* it shuffles nobody */
			w->hint = w->aside = NULL;
			w->shuffler = 0;
			w->slept = false;
			pk_store_relaxed(&w->next, NULL);
			pk_waiter_begin(w, s == table[_i].sockets ? PK_HEAD : PK_WAITING);
			w->queue = &gate.queue;
			ck_assert_ptr_eq(pk_tail_join(&gate.queue, w), prev);
			if (prev)
				pk_store_relaxed(&prev->next, w);
			if (*s >= 'a')
				gave_up = pk_waiter_abandon(w);
			first = first ? first : w;
			prev = w;
		}
		ck_assert_int_eq(gave_up, table[_i].sockets[1] == 'b');
		pk_shfl.leave(&gate.queue, first, table[_i].held ? &word : NULL);
		ck_assert(order() == BEFORE || (int)order() == BEFORE + table[_i].counts);
		counted += order() != BEFORE;
		if (prev != first)
			pk_shfl.leave(&gate.queue, prev, NULL);
	}
	ck_assert_int_eq(counted, table[_i].counts ? TIMES / PK_ORDER_SEEN : 0);
}
END_TEST

static int owner, owners;
static bool nobodys;

/* It is nobody's for a moment, and then so many others have the lock, one after the other, while the head looks after the queue. */
static unsigned hand_on(struct pk_queue *q, struct pk_waiter *w, const int *held)
{
	(void)q;
	(void)w;
	(void)held;
	if (nobodys)
		owner = nobodys = 0;
	else if (owners)
		owner = 100 + owners--;
	return 0;
}

/* A head says when it has seen another one have the lock, and when it has seen four: with one socket, for the default's locks, unless their users
 * come back at once. After 24 it tells. */
START_TEST(heads_count)
{
	static const struct {
		const char *topology, *parking;
		uint64_t flags;
		int owners; /* after the first one */
		unsigned before, seen, far;
		bool other;		/* what it has seen before is of another lock */
		enum pk_policy policy; /* 0: the default's */
	} table[] = {
		{"1x8", "auto", 0, 0, 0, 1, 0, false, 0},	 {"1x8", "auto", 0, 2, 0, 1, 0, false, 0},		    {"1x8", "auto", 0, 3, 0, 1, 1, false, 0},
		{"1x8", "auto", 0, 6, 0, 1, 1, false, 0},	 {"2x8", "auto", 0, 6, 0, 0, 0, false, 0},		    {"1x8", "auto", PK_FLAG_BACK, 6, 0, 0, 0, false, 0},
		{"1x8", "queue", 0, 6, 0, 0, 0, false, 0},	 {"1x8", "auto", 0, 6, 22, 23, 1, false, 0},	    {"1x8", "auto", 0, 6, 23, 0, 0, false, 0},
		{"1x8", "auto", 0, 6, 22, 22, 0, true, 0},	 {"1x8", "auto", 0, 6, 0, 0, 0, false, PK_POLICY_mcs},
	};
	struct pk_admit_ops ops = pk_shfl;
	struct pk_site at = site(true);
	struct timespec soon;
	const struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	const struct pk_queue *seen;
	struct pk_waiter *w;

	make("shfl", table[_i].topology, table[_i].parking);
	pk_config.spin = at.spin = 100000; /* it looks more often than it takes */
	at.owner = &owner;
	ops.tend = hand_on;
	ops.policy = table[_i].policy ? table[_i].policy : ops.policy;
	gate.flags = table[_i].flags;
	seen = table[_i].other ? elsewhere() : &gate.queue;
	for (unsigned n = 0; n < table[_i].before; n++)
		pk_order_sees(seen, false);
	set_order(500);
	owners = table[_i].owners;
	owner = 200;
	nobodys = owners > 0;
	word = 1;
	soon = pk_clock_after(1000);
	w = new_node(&pk_shfl);
	ck_assert_int_eq(pk_shfl.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	ck_assert_int_eq(pk_word_wait(&at, &ops, w, false, &deadline), ETIMEDOUT);
	ck_assert_int_eq(owners, 0);
	ck_assert_uint_eq(pk_self.ordered.seen, table[_i].seen);
	ck_assert_uint_eq(pk_self.ordered.far, table[_i].far);
	ck_assert_uint_eq(order(), table[_i].before < 23 ? 500 : 500 - PK_ORDER_CLIP);
}
END_TEST

/* ---- who stays away ---- */

static pid_t tid;
static struct pk_waiter *chain;
static uint64_t entered, bypassed, woke, came;
static bool dated;

/* It is dated, or not. */
static void *wait_for_it(void *at)
{
	pk_self.chain = chain;
	pk_thread_record();
	pk_self.bypasses = (uint8_t)((dated ? 0 : 2) - pk_self.tid); /* whether it is, if it waits apart */
	pk_store_release(&tid, gettid());
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	entered = pk_thread_record()->stat[PK_STAT_entered];
	bypassed = pk_thread_record()->stat[PK_STAT_bypassed];
	pk_self.chain = NULL;
	woke = pk_self.won.word == &word ? pk_self.won.ns : 0;
	came = pk_self.came;
	return NULL;
}

static void await_asleep(void)
{
	while (!sleepers_sleeps(pk_load_acquire(&tid)))
		sched_yield();
}

/* The order does not pay: who comes sleeps at the word, whether somebody is in the queue or not. Else, or if users of the lock come back
 * at once, or a head has lost patience, or by another policy, or where waiters are to sleep in the queue, or it is no mutex, or
 * with others of a broadcast behind it, or where nobody may spin, it queues. All that once dated, and once not. */
START_TEST(stays_away)
{
	enum { ROWS = 14 };
	static const struct {
		const char *policy, *topology, *parking;
		unsigned order;
		uint64_t flags;
		bool busy, marks, chain, apart;
	} table[ROWS] = {
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT, 0, true, true, false, true},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT, 0, false, true, false, true},
		{"shfl", "8x4", "auto", PK_ORDER_MOST - 1, PK_FLAG_SLOW, true, true, false, true},
		{"shfl", "1x8", "auto", PK_ORDER_LIMIT, 0, false, true, false, true},
		{"shfl", "1x8", "auto", PK_ORDER_LIMIT - 1, 0, false, true, false, false},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT - 1, 0, true, true, false, false},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT - 1, 0, false, true, false, false},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT, PK_FLAG_BACK, true, true, false, false},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT, PK_FLAG_QUEUE, true, true, false, false},
		{"cna", "2x8", "auto", PK_ORDER_LIMIT, 0, true, true, false, false},
		{"shfl", "2x8", "queue", PK_ORDER_LIMIT, 0, true, true, false, false},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT, 0, true, false, false, false},
		{"shfl", "2x8", "auto", PK_ORDER_LIMIT, 0, true, true, true, false},
		{"shfl", "2x2", "auto", PK_ORDER_LIMIT, 0, true, true, false, false},
	};
	const int row = _i % ROWS;
	struct pk_site at = site(table[row].marks);
	const struct pk_admit_ops *ops;
	pthread_t thread;

	dated = _i < ROWS;
	make(table[row].policy, table[row].topology, table[row].parking);
	ops = pk_policy_for(0);
	gate.flags = table[row].flags;
	set_order(table[row].order);
	chain = table[row].chain ? new_node(ops) : NULL;
	if (table[row].busy) {
		node[0] = new_node(ops);
		ck_assert_int_eq(ops->enter(&gate.queue, node[0], NULL), PK_IS_HEAD);
	}
	word = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &at), 0);
	if (table[row].busy)
		while (!pk_load_acquire(&node[0]->next) && pk_load_acquire(&word) == 1)
			sched_yield();
	else
		while (!pk_queue_busy(&gate.queue) && pk_load_acquire(&word) == 1)
			sched_yield();
	if (table[row].apart) {
		await_asleep();
		ck_assert_int_eq(pk_queue_busy(&gate.queue), table[row].busy);
		ck_assert_int_eq(pk_load_relaxed(&word), 2);
	}
	if (table[row].busy) {
		ops->leave(&gate.queue, node[0], &word);
		pk_lot_check(&gate, 0);
	}
	pk_store_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(bypassed, table[row].apart);
	ck_assert_int_eq(entered > 0, !table[row].apart);
}
END_TEST

/* Two waits apart in a row, of 32, look at the clock when they come and when they are woken, and count; with one socket all look, and none
 * counts, as long as heads pay. So they do if users of the lock are said to come back at once. */
START_TEST(few_are_dated)
{
	static const struct {
		const char *topology;
		unsigned order;
		uint64_t flags;
		int dated, counted, pairs;
		bool busy;
	} table[] = {{"2x8", PK_ORDER_LIMIT, 0, 2, 2, 1, false},
		     {"1x8", PK_ORDER_LIMIT, 0, 2, 2, 1, false},
		     {"1x8", PK_ORDER_LIMIT - 1, 0, 32, 0, 0, true},
		     {"2x8", PK_ORDER_LIMIT, PK_FLAG_BACK, 32, 0, 0, false}};
	struct pk_site at = site(true);
	int times = 0, pairs = 0;
	bool last = false;

	make("shfl", table[_i].topology, "auto");
	pk_self.bypasses = (uint8_t)(250u - (unsigned)pk_self.tid); /* it begins anew amidst them */
	set_order(table[_i].order);
	gate.flags = table[_i].flags;
	gate.queue.tail = table[_i].busy ? pk_waiter_name(new_node(&pk_shfl)) : 0;
	for (int n = 0; n < 2 * PK_ORDER_APART; n++) {
		word = 0;
		pk_self.won.ns = 0;
		pk_self.came = 1;
		pk_self.soon = !table[_i].busy;
		ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
		ck_assert_int_eq(word, 1);
		if (pk_self.came) {
			times++;
			pairs += last;
			ck_assert(pk_self.won.ns || !table[_i].pairs);
		} else {
			ck_assert_uint_eq(pk_self.won.ns, 0);
		}
		last = pk_self.came;
	}
	ck_assert_int_eq(times, table[_i].dated);
	ck_assert_int_eq(table[_i].pairs ? pairs : 0, table[_i].pairs);
	ck_assert_uint_eq(order(), table[_i].order + (unsigned)table[_i].counted);
}
END_TEST

/* What a thread has seen of a lock says nothing against its order if its users come back at once. */
START_TEST(is_excused)
{
	static const struct {
		uint64_t flags;
		bool other; /* what it has seen is of another lock */
		unsigned far;
	} table[] = {{0, false, 5}, {PK_FLAG_BACK, false, 0}, {PK_FLAG_BACK, true, 5}};
	struct pk_site at = site(true);
	const struct pk_queue *seen;

	make("shfl", "2x8", "auto");
	seen = table[_i].other ? elsewhere() : &gate.queue;
	for (unsigned n = 0; n < 5; n++)
		pk_order_sees(seen, true);
	gate.flags = table[_i].flags;
	word = 0;
	ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
	ck_assert_int_eq(word, 1);
	ck_assert_uint_eq(pk_self.ordered.seen, 5);
	ck_assert_uint_eq(pk_self.ordered.far, table[_i].far);
}
END_TEST

/* Nor does it when the order is tried again: who has waited apart has forgotten it, but what is of another lock (_i 1). With one socket, where
 * heads pay, others wait apart, too, and forget nothing (2). */
START_TEST(begins_anew)
{
	struct pk_site at = site(true);
	const struct pk_queue *seen;

	make("shfl", _i == 2 ? "1x8" : "2x8", "auto");
	set_order(_i == 2 ? 1 : PK_ORDER_LIMIT);
	seen = _i == 1 ? elsewhere() : &gate.queue;
	for (unsigned n = 0; n < 5; n++)
		pk_order_sees(seen, true);
	word = 0;
	pk_word_come(&at); /* it is dated */
	ck_assert_int_eq(pk_word_wait(&at, &pk_shfl, NULL, false, NULL), 0);
	ck_assert_uint_eq(pk_self.ordered.seen, _i ? 5 : 0);
	ck_assert_uint_eq(pk_self.ordered.far, _i ? 5 : 0);
}
END_TEST

/* From when on it is reckoned whether who has waited apart comes back: from its last wake-up. _i: it is not dated, and looks at no clock. */
START_TEST(knows_when_it_woke)
{
	struct pk_site at = site(true);
	pthread_t thread;
	uint64_t let_go;

	dated = !_i;
	make("shfl", "2x8", "auto");
	set_order(PK_ORDER_LIMIT);
	word = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &at), 0);
	while (pk_load_acquire(&word) != 2)
		sched_yield();
	await_asleep();
	let_go = pk_clock_ns();
	pk_store_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(bypassed, 1);
	ck_assert_uint_ge(woke, dated ? let_go : 0);
	ck_assert_uint_le(woke, dated ? pk_clock_ns() : 0);
	ck_assert_int_eq(came != 0, dated);
}
END_TEST

UNIT("order", {is_weighed, 5}, {one_at_a_time, 1}, {is_tried_again, 1}, {is_kept_apart, 1}, {hand_overs_count, 8}, {heads_count, 11}, {stays_away, 2 * 14},
     {few_are_dated, 4}, {is_excused, 3}, {begins_anew, 3}, {knows_when_it_woke, 2})
