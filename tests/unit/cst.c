/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The queue of sockets and the queues in the sockets, step by step: each waiter is a thread that sleeps as soon as it
 * has to wait, and the heads leave one at a time. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admit/aux.h"
#include "admit/list.h"
#include "rt/config.h"
#include "rt/storey.h"
#include "rt/topology.h"
#include "unit.h"

extern const struct pk_admit_ops pk_cst;

enum { MAX = 16, SOCKETS = 4, USERS = PK_BAY_USERS_MAX };

/* What the policy keeps in a bay, by position. */
enum { LOCAL_TAIL = 0, NEXT = 3 };

static struct pk_queue queue;
static int word = 1;
static int *held; /* what those who leave pass on */

/* The policy's clock (local.am). */
static uint64_t now = 5;
uint64_t __wrap_pk_clock_us(void);

uint64_t __wrap_pk_clock_us(void)
{
	return now;
}

/* Who is woken is faster than who has woken it. */
int __real_pk_futex_wake(const void *w, int n);
int __wrap_pk_futex_wake(const void *w, int n);

int __wrap_pk_futex_wake(const void *w, int n)
{
	int woken = __real_pk_futex_wake(w, n);

	usleep(1000);
	return woken;
}

enum { WAITS, ENTERED, GONE };

static struct guest {
	struct pk_waiter *w;
	pthread_t thread;
	sem_t may_leave;
	const struct pk_deadline *deadline;
	enum pk_entered how;
	int state;
	bool stirred; /* asleep, but its status says otherwise */
} guest[MAX];
static int count;

static void *visit(void *arg)
{
	struct guest *g = arg;

	g->how = pk_cst.enter(&queue, g->w, g->deadline);
	pk_store_release(&g->state, ENTERED);
	sem_wait(&g->may_leave);
	if (g->how == PK_IS_HEAD)
		pk_cst.leave(&queue, g->w, held);
	pk_store_release(&g->state, GONE);
	return NULL;
}

static int state_of(int i)
{
	return pk_load_acquire(&guest[i].state);
}

static bool sleeps(int i)
{
	return pk_state(pk_load_acquire(&guest[i].w->status)) == PK_PARKED;
}

static struct pk_waiter *node_of(unsigned socket)
{
	struct pk_waiter *w = pk_waiter_take(pk_record_take());

	w->socket = (uint8_t)socket;
	w->policy = PK_POLICY_cst;
	w->manner = PK_STAYS;
	return w;
}

/* The next guest, a thread of that socket, comes, and is inside or sleeps. */
static int arrive_until(unsigned socket, const struct pk_deadline *deadline, bool stays)
{
	struct guest *g = &guest[count];

	if (!count) {
		pk_incarnation_next();
		pk_sockets = SOCKETS;
	}
	g->w = node_of(socket);
	g->w->manner = stays ? PK_STAYS : PK_LEAVES;
	g->deadline = deadline;
	sem_init(&g->may_leave, 0, 0);
	ck_assert_int_eq(pthread_create(&g->thread, NULL, visit, g), 0);
	while (state_of(count) == WAITS && !sleeps(count))
		sched_yield();
	return count++;
}

static int arrive(unsigned socket)
{
	return arrive_until(socket, NULL, true);
}

/* One for each letter, which is its socket. */
static void arrive_all(const char *sockets)
{
	while (*sockets)
		arrive((unsigned)(*sockets++ - 'A'));
}

/* Whether that guest has something to do yet. Who was moved to the word has not. */
static bool is_busy(int i)
{
	return state_of(i) == WAITS && !sleeps(i) && !guest[i].stirred && !(held && pk_waiter_is_head(guest[i].w));
}

/* It leaves, and those whom this concerns do what is theirs. */
static void let_go(int i)
{
	sem_post(&guest[i].may_leave);
	while (state_of(i) != GONE)
		sched_yield();
	for (int k = 0; k < count; k++)
		while (is_busy(k))
			sched_yield();
}

/* The head; -1 if nobody waits, either. */
static int head(void)
{
	bool waits;

	do {
		waits = false;
		for (int i = 0; i < count; i++) {
			int state = state_of(i);

			if (state == ENTERED && guest[i].how == PK_IS_HEAD)
				return i;
			waits |= state == WAITS;
		}
		sched_yield();
	} while (waits);
	return -1;
}

/* Let them all pass; their numbers. */
static const char *order(void)
{
	static char text[3 * MAX + 1];
	char *end = text;

	text[0] = 0;
	for (int i; (i = head()) >= 0;) {
		end += sprintf(end, "%s%x", end == text ? "" : " ", (unsigned)i);
		let_go(i);
	}
	return text;
}

static struct pk_bay *bay_of(unsigned socket)
{
	return pk_bay_next(socket, &queue, NULL);
}

static unsigned users(unsigned socket)
{
	struct pk_bay *bay = bay_of(socket);

	return bay ? pk_bay_users(bay, &queue) : 0;
}

/* Nobody is left, and nothing of them: no node, no bay, nothing in a bay. */
static void check_idle(void)
{
	ck_assert_uint_eq(queue.tail, 0);
	ck_assert_uint_eq(queue.aux, 0);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(guest[i].w->busy, 0);
	for (uint32_t n = 0; n < SOCKETS * PK_BAY_SETS * PK_BAY_WAYS; n++) {
		const struct pk_bay *bay = pk_bay_numbered(n);
		static const struct pk_bay none;

		ck_assert(!bay || memcmp(bay, &none, sizeof(none)) == 0);
	}
}

/* A number names a bay, and its socket's only. */
START_TEST(numbers)
{
	ck_assert_ptr_null(pk_bay_numbered(0));
	for (unsigned s = 0; s < PK_SOCKETS_MAX; s++) {
		struct pk_bay *bay = pk_bay_enter(s, &queue);

		ck_assert_ptr_eq(pk_bay_numbered(pk_bay_number(s, bay)), bay);
		ck_assert_uint_eq(pk_bay_number(s, bay) / (PK_BAY_SETS * PK_BAY_WAYS), s);
	}
	ck_assert_ptr_null(pk_bay_numbered(PK_BAYS_MAX));
}
END_TEST

/* As long as a socket may keep the turn its waiters are next, in their order; then the socket that came next. */
START_TEST(order_of_sockets)
{
	static const struct {
		int batch;
		const char *sockets, *order;
	} runs[] = {
		{1024, "A", "0"},
		{1024, "AAAA", "0 1 2 3"},
		{1, "AAAA", "0 1 2 3"},
		{1024, "ABABCA", "0 2 5 1 3 4"},
		{1024, "ACBCBA", "0 5 1 3 2 4"},
		{2, "ABAABABBB", "0 2 3 1 4 6 5 7 8"},
		{1, "ABCABCABC", "0 3 1 4 2 5 6 7 8"},
		{1, "AAAABB", "0 1 4 5 2 3"},
	};

	pk_config.batch = runs[_i].batch;
	arrive_all(runs[_i].sockets);
	ck_assert_str_eq(order(), runs[_i].order);
	check_idle();
}
END_TEST

/* Time ends a turn, too, but it counts from when another socket waits. */
START_TEST(long_turn)
{
	pk_config.batch = 1024;
	arrive_all("AAAAAA");
	let_go(head());
	now += 15000;
	arrive_all("B");
	now += 15000;
	let_go(head());
	ck_assert_int_eq(head(), 2);
	let_go(head());
	now += 20000;
	let_go(head());
	ck_assert_int_eq(head(), 4);
	now += 2;
	ck_assert_str_eq(order(), "4 6 5");
	check_idle();
}
END_TEST

/* A socket whose waiters come back while another has the turn queues anew, behind those that came before. */
START_TEST(comes_back)
{
	pk_config.batch = 1024;
	arrive_all("ABC");
	let_go(head());
	ck_assert_uint_eq(users(0), 0);
	arrive_all("AB");
	ck_assert_str_eq(order(), "1 4 2 3");
	check_idle();
}
END_TEST

/* The next socket has taken the tail but has not linked itself: the turn lies in the bay, which stays, until it does;
 * the leaver waits for nobody. */
START_TEST(turn_lies_for_joiner)
{
	struct pk_bay *joiner;
	uint64_t aux;

	arrive_all("A");
	aux = queue.aux;
	joiner = pk_bay_enter(1, &queue);
	queue.aux = pk_aux_of(&queue, PK_AUX_CST, pk_bay_number(1, joiner));
	let_go(0);
	ck_assert_uint_eq(users(0), 1);
	ck_assert_uint_eq(guest[0].w->busy, 0);
	queue.aux = aux; /* so that enter exchanges it again */
	arrive(1);
	ck_assert_int_eq(head(), 1);
	ck_assert_uint_eq(users(0), 0);
	let_go(1);
	pk_bay_leave(joiner, &queue);
	check_idle();
}
END_TEST

/* The same, but one of the old socket is faster. It has the turn again; the other one is next. */
START_TEST(turn_lies_for_own)
{
	struct pk_bay *joiner;
	uint64_t aux;

	pk_config.batch = 1024;
	arrive_all("A");
	aux = queue.aux;
	joiner = pk_bay_enter(1, &queue);
	queue.aux = pk_aux_of(&queue, PK_AUX_CST, pk_bay_number(1, joiner));
	let_go(0);
	arrive(0);
	ck_assert_int_eq(head(), 1);
	ck_assert_uint_eq(users(0), 1);
	queue.aux = aux;
	arrive(1);
	ck_assert_int_eq(head(), 1);
	pk_bay_leave(joiner, &queue);
	ck_assert_str_eq(order(), "1 2");
	check_idle();
}
END_TEST

/* The same at the end of a batch: the first waiter of the old socket, which is woken for it, finds the turn there. */
START_TEST(turn_lies_at_end_of_batch)
{
	struct pk_bay *joiner;
	uint64_t aux;

	pk_config.batch = 1;
	arrive_all("AAA");
	let_go(0);
	ck_assert_int_eq(head(), 1);
	aux = queue.aux;
	joiner = pk_bay_enter(1, &queue);
	queue.aux = pk_aux_of(&queue, PK_AUX_CST, pk_bay_number(1, joiner));
	let_go(1);
	ck_assert_int_eq(head(), 2);
	queue.aux = aux;
	arrive(1);
	pk_bay_leave(joiner, &queue);
	ck_assert_str_eq(order(), "2 3");
	check_idle();
}
END_TEST

/* One of the socket has taken the local tail but has not linked itself: the turn goes to the other socket, and the
 * late one is first in its own when it does. */
START_TEST(left)
{
	struct pk_waiter *late = node_of(0);
	struct pk_bay *bay;

	pk_config.batch = 1024;
	arrive_all("AB");
	bay = pk_bay_enter(0, &queue);
	bay->unused[LOCAL_TAIL] = pk_waiter_name(late);
	let_go(0);
	ck_assert_ptr_eq(guest[0].w->next, PK_LEFT);
	ck_assert_uint_eq(guest[0].w->busy, 1);
	ck_assert_int_eq(head(), 1);
	bay->unused[LOCAL_TAIL] = pk_waiter_name(guest[0].w); /* so that enter exchanges it again */
	arrive(0);
	ck_assert_uint_eq(guest[0].w->busy, 0);
	pk_bay_leave(bay, &queue);
	ck_assert_str_eq(order(), "1 2");
	check_idle();
}
END_TEST

static const struct timespec past = {1, 0};
static const struct pk_deadline deadline = {&past, CLOCK_MONOTONIC};

/* Waiters that give up are passed over: behind the head, at the end, alone on a socket, first of one (what is behind it
 * gets the turn), and all of one (the turn goes on). A letter in lower case gives up. */
START_TEST(gives_up)
{
	static const char *const runs[][2] = {
		{"Aa", "0"},	  {"AaA", "0 2"},   {"AAaaA", "0 1 4"}, {"Ab", "0"},
		{"AbB", "0 2"},	  {"AbbBb", "0 3"}, {"AbC", "0 2"},	{"AbbcCbA", "0 6 4"},
		{"AbcdB", "0 4"}, {"Abcd", "0"},    {"ABaab", "0 1"},
	};

	pk_config.batch = 1 + _i % 2;
	for (const char *s = runs[_i / 2][0]; *s; s++) {
		bool stays = *s < 'a';
		int i = arrive_until((unsigned)(*s - (stays ? 'A' : 'a')), stays ? NULL : &deadline, true);

		while (!stays && state_of(i) == WAITS)
			sched_yield();
		ck_assert(stays || guest[i].how == PK_TIMED_OUT);
	}
	ck_assert_str_eq(order(), runs[_i / 2][1]);
	check_idle();
}
END_TEST

/* A signal handler gives a place up for its thread: in the line, as the first of a socket, or just when it has become
 * the head. */
START_TEST(given_up)
{
	pk_config.batch = 1024;
	arrive_all("AABB");
	pk_cst.give_up(&queue, guest[1].w);
	pk_cst.give_up(&queue, guest[2].w);
	for (int i = 1; i <= 2; i++) {
		pk_futex_wake(&guest[i].w->status, 1);
		while (state_of(i) == WAITS)
			sched_yield();
		ck_assert_int_eq(guest[i].how, PK_ORPHANED);
	}
	ck_assert_uint_eq(users(0), 1);
	ck_assert_uint_eq(users(1), 2);
	pk_cst.give_up(&queue, guest[0].w);
	guest[0].how = PK_ORPHANED;
	ck_assert_str_eq(order(), "3");
	check_idle();
}
END_TEST

/* One that would have to sleep, and does not stay, leaves the bay at once; the first of a socket stays. */
START_TEST(goes_out)
{
	pk_config.batch = 1024;
	arrive_all("A");
	arrive_until(0, NULL, false);
	while (state_of(1) == WAITS)
		sched_yield();
	ck_assert_int_eq(guest[1].how, PK_OUT);
	ck_assert_uint_eq(users(0), 1);
	arrive_until(1, NULL, false);
	ck_assert(sleeps(2));
	ck_assert_str_eq(order(), "0 2");
	check_idle();
}
END_TEST

/* An orphan does not touch its bay, which may be another's by now. */
START_TEST(orphan)
{
	arrive_all("AAB");
	for (int i = 1; i <= 2; i++) {
		struct pk_waiter *w = guest[i].w;

		pk_store_relaxed(&w->status, pk_in_state(w->status, PK_ORPHAN));
		pk_futex_wake(&w->status, 1);
		while (state_of(i) == WAITS)
			sched_yield();
		ck_assert_int_eq(guest[i].how, PK_ORPHANED);
	}
	ck_assert_uint_eq(users(0), 2);
	ck_assert_uint_eq(users(1), 1);
}
END_TEST

/* Objects whose bays are in the set of `queue`. */
static unsigned fill_set(unsigned socket)
{
	static char objects[1 << 16];
	struct pk_bay *set = pk_bay_enter(socket, &queue), *bay;
	unsigned n = 0;

	pk_bay_leave(set, &queue);
	for (size_t i = 0; i < sizeof(objects) && n < PK_BAY_WAYS; i += 8) {
		bay = pk_bay_enter(socket, &objects[i]);
		if (bay && bay >= set && bay < set + PK_BAY_WAYS)
			n++;
		else if (bay)
			pk_bay_leave(bay, &objects[i]);
	}
	return n;
}

/* No bay is to be had: no place. */
START_TEST(full_set)
{
	arrive_all("A");
	ck_assert_uint_eq(fill_set(1), PK_BAY_WAYS);
	arrive(1);
	ck_assert_int_eq(guest[1].how, PK_ORPHANED);
	ck_assert_uint_eq(guest[1].w->busy, 0);
	ck_assert_str_eq(order(), "0");
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* A socket with two bays queues twice. */
START_TEST(two_bays)
{
	struct pk_bay *bay;

	pk_config.batch = 1024;
	arrive_all("A");
	bay = bay_of(0);
	for (int i = 0; i < USERS - 2; i++)
		pk_bay_enter(0, &queue);
	arrive_all("AAABA");
	ck_assert_ptr_nonnull(pk_bay_next(0, &queue, bay));
	ck_assert_str_eq(order(), "0 1 2 3 5 4");
	for (int i = 0; i < USERS - 2; i++)
		ck_assert(pk_bay_leave(bay, &queue));
	check_idle();
}
END_TEST

/* Another policy's waiters are in the way: no place for the first of a socket, nor for those who have come behind it.
 */
START_TEST(another_policy)
{
	struct pk_waiter *first = node_of(0);
	struct pk_bay *bay;

	pk_incarnation_next();
	queue.aux = pk_aux_of(&queue, PK_AUX_TKT, 1);
	bay = pk_bay_enter(0, &queue);
	bay->unused[LOCAL_TAIL] = pk_waiter_name(first);
	count = 1;
	guest[0].w = first;
	guest[0].state = GONE;
	arrive_all("AA");
	ck_assert_ptr_eq(first->next, guest[1].w);
	first->batch = pk_bay_number(0, bay);
	pk_store_relaxed(&first->status, PK_HEAD);
	pk_cst.leave(&queue, first, NULL); /* without a turn, as if it gave up */
	for (int i = 1; i <= 2; i++) {
		while (state_of(i) == WAITS)
			sched_yield();
		ck_assert_int_eq(guest[i].how, PK_ORPHANED);
	}
	ck_assert_uint_eq(queue.aux, pk_aux_of(&queue, PK_AUX_TKT, 1));
	queue.aux = 0;
	check_idle();
}
END_TEST

/* What a copied lock, or a ghost, names is nobody. */
START_TEST(strangers)
{
	struct pk_queue copy;
	struct pk_waiter *w;

	arrive_all("A");
	copy = queue;
	w = node_of(0);
	ck_assert_int_eq(pk_cst.enter(&copy, w, NULL), PK_IS_HEAD);
	pk_cst.leave(&copy, w, NULL);
	ck_assert_uint_eq(copy.aux, 0);
	ck_assert_str_eq(order(), "0");
	check_idle();

	/* Hints are lost, and in a child of fork what is left is a ghost's. */
	pk_aux_set_hint(&queue, PK_HINT_WINDOW, 5);
	arrive_all("A");
	ck_assert_int_eq(head(), 1);
	pk_incarnation_next();
	ck_assert(!pk_aux_exact(&queue, queue.aux));
	w = node_of(1);
	ck_assert_int_eq(pk_cst.enter(&queue, w, NULL), PK_IS_HEAD);
	pk_cst.leave(&queue, w, NULL);
	ck_assert_uint_eq(queue.aux, 0);
}
END_TEST

/* Who becomes the head asleep is moved to the word that is held, within the socket and from socket to socket; but not
 * who has to queue for its socket first. */
START_TEST(moves)
{
	pk_config.batch = 1;
	arrive_all("AAAB");
	held = &word;
	let_go(0);
	ck_assert_int_eq(word, 2);
	ck_assert(pk_waiter_is_head(guest[1].w));
	ck_assert_int_eq(state_of(1), WAITS);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_moved), 1);
	pk_futex_wake(&word, 1);
	ck_assert_int_eq(head(), 1);
	let_go(1);
	while (pk_stat_sum(PK_STAT_parked) < 4) /* 2 sleeps again */
		sched_yield();
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_woken), 1);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_moved), 2);
	ck_assert(pk_waiter_is_head(guest[3].w));
	ck_assert_int_eq(state_of(3), WAITS);
	held = NULL;
	pk_futex_wake(&word, 1);
	ck_assert_str_eq(order(), "3 2");
	check_idle();
}
END_TEST

/* As if it were awake. */
static void stir(int i)
{
	struct pk_waiter *w = guest[i].w;

	guest[i].stirred = true;
	pk_store_relaxed(&w->status, pk_in_state(w->status, PK_SPINNING));
}

/* The first waiter that is awake comes before those who sleep, but is not the last one; at the end of the batch the
 * order is theirs again. */
START_TEST(passes_over_sleepers)
{
	pk_config.batch = 2;
	arrive_all("AAAAAAA");
	pk_cst.tend(&queue, guest[0].w, &word);
	stir(6);
	pk_cst.tend(&queue, guest[0].w, &word);
	ck_assert_ptr_eq(guest[0].w->next, guest[1].w);
	stir(3);
	stir(4);
	pk_cst.tend(&queue, guest[0].w, &word);
	pk_cst.tend(&queue, guest[0].w, &word); /* once is enough */
	ck_assert_ptr_eq(guest[0].w->next, guest[3].w);
	ck_assert_ptr_eq(guest[3].w->next, guest[1].w);
	ck_assert_ptr_eq(guest[1].w->next, guest[2].w);
	ck_assert_ptr_eq(guest[2].w->next, guest[4].w);
	let_go(0);
	pk_futex_wake(&guest[3].w->status, 1);
	ck_assert_int_eq(head(), 3);
	pk_cst.tend(&queue, guest[3].w, &word);
	ck_assert_ptr_eq(guest[3].w->next, guest[4].w);
	let_go(3);
	pk_futex_wake(&guest[4].w->status, 1);
	ck_assert_int_eq(head(), 4);
	stir(5);
	pk_cst.tend(&queue, guest[4].w, &word); /* the batch is over */
	ck_assert_ptr_eq(guest[4].w->next, guest[1].w);
	pk_futex_wake(&guest[5].w->status, 1);
	pk_futex_wake(&guest[6].w->status, 1);
	ck_assert_str_eq(order(), "4 1 2 5 6");
	check_idle();
}
END_TEST

/* The head rouses its successor, or the first of the next socket when that is next. */
START_TEST(rouses)
{
	pk_topology_read("", "2x8");
	pk_config.batch = 1;
	pk_config.spin = 100;
	pk_spin_setup();
	arrive_all("AAB");
	while (!sleeps(1) || !sleeps(2))
		sched_yield();
	pk_cst.tend(&queue, guest[0].w, &word);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_roused), 1);
	while (pk_stat_sum(PK_STAT_parked) < 3) /* 1 sleeps again */
		sched_yield();
	let_go(0);
	ck_assert_int_eq(head(), 1);
	pk_cst.tend(&queue, guest[1].w, &word);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_roused), 2);
	while (pk_stat_sum(PK_STAT_parked) < 4) /* 2 */
		sched_yield();
	ck_assert_str_eq(order(), "1 2");
	check_idle();
}
END_TEST

UNIT("cst", {numbers, 1}, {order_of_sockets, 8}, {long_turn, 1}, {comes_back, 1}, {turn_lies_for_joiner, 1},
     {turn_lies_for_own, 1}, {turn_lies_at_end_of_batch, 1}, {left, 1}, {gives_up, 22}, {given_up, 1}, {goes_out, 1},
     {orphan, 1}, {full_set, 1}, {two_bays, 1}, {another_policy, 1}, {strangers, 1}, {moves, 1},
     {passes_over_sleepers, 1}, {rouses, 1})
