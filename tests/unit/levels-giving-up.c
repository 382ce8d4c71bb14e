/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Composed policies: who gives up its place, or has a deadline that passes, at each of the levels. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "pthread/turn.h"
#include "guests.h"

static void nothing(int number)
{
	(void)number;
}

/* What a handler in the sleeping guest does that has to wait, twice, or waits and ends its thread then. */
static void give_up(int i)
{
	struct pk_queue *low = guest[i].w->queue;

	ops->give_up(low, guest[i].w);
	ops->give_up(low, guest[i].w);
}

/* And then returns to the sleep, which goes on if the kernel finds the word as it was. */
static void go_on(int i)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
	while (state_of(i) == WAITS) {
		pthread_kill(guest[i].thread, SIGUSR1);
		usleep(1000);
	}
	ck_assert_int_eq(guest[i].how, PK_ORPHANED);
}

/* Who gives up is passed over, wherever it waits: among others, as the last one, and as the first of its cohort, who
 * waits for the lock of the cache group, of the node, of all; others of its cohort then do so. A letter in lower case
 * gives up, at once or when all have come. */
START_TEST(gives_up)
{
	static const char *const runs[][2] = {
		{"Aa", "0"},	   {"AaA", "0 2"},    {"AaaA", "0 3"}, {"Ab", "0"},
		{"AbB", "0 2"},	   {"Ac", "0"},	      {"AcC", "0 2"},  {"AcD", "0 2"},
		{"Ae", "0"},	   {"AeE", "0 2"},    {"AeF", "0 2"},  {"AeG", "0 2"},
		{"AEeG", "0 1 3"}, {"AeEB", "0 3 2"}, {"AbcE", "0 3"}, {"AeBE", "0 2 3"},
	};
	enum { RUNS = sizeof(runs) / sizeof(runs[0]) };
	const char *cores = runs[_i / 2 % RUNS][0];
	bool late = _i & 1;

	ck_assert_uint_eq(RUNS, 16);
	use(fair[_i / 2 / RUNS]);
	for (int i = 0; cores[i]; i++) {
		arrive_until((char)(cores[i] & ~32), NULL);
		if (cores[i] & 32 && !late) {
			give_up(i);
			go_on(i);
		}
	}
	for (int i = 0; late && cores[i]; i++)
		if (cores[i] & 32) {
			give_up(i);
			settle();
		}
	for (int i = 0; late && cores[i]; i++)
		if (cores[i] & 32)
			go_on(i);
	ck_assert_str_eq(order(), runs[_i / 2 % RUNS][1]);
	check_idle();
}
END_TEST

/* The same when it has just got the lock of its cohort, or the one that it waits for above, and has not woken: whether
 * those above are held or not, the next one gets it. */
START_TEST(given_up_as_head)
{
	static const char *const runs[][2] = {{"AAA", "2"}, {"AAE", "2"}, {"ABA", "2"}, {"ABB", "2"},
					      {"AC", ""},   {"AEE", "2"}, {"AEF", "2"}, {"AEEB", "3 2"}};
	const char *cores = runs[_i % 8][0];

	use(_i / 8 < FAIR ? fair[_i / 8] : cohorts[_i / 8 - FAIR]);
	if (_i / 8 >= FAIR && (_i % 8 == 2 || _i % 8 == 7 || _i / 8 - FAIR > 1))
		return; /* another order */
	arrive_all(cores);
	quiet = true;
	let_go(0);
	quiet = false;
	if (_i % 8 == 7) { /* it was 3's turn: the cache group's */
		ck_assert(sleeps(3));
		give_up(3);
		go_on(3);
		ck_assert_str_eq(order(), "1 2");
	} else if (_i % 8 == 2) {
		ck_assert(sleeps(2));
		give_up(2);
		go_on(2);
		ck_assert_str_eq(order(), "1");
	} else {
		ck_assert(sleeps(1));
		give_up(1);
		go_on(1);
		ck_assert_str_eq(order(), runs[_i % 8][1]);
	}
	check_idle();
}
END_TEST

/* While the handler of one that has given up goes on waiting, its context is nobody's; the cohort has another one, and
 * no third. */
START_TEST(handler_waits)
{
	use(fair[_i]);
	arrive_all("AEEE");
	give_up(1);
	settle();
	ck_assert(sleeps(2));
	give_up(2);
	while (state_of(3) == WAITS)
		sched_yield();
	ck_assert_int_eq(guest[3].how, PK_ORPHANED);
	go_on(1);
	go_on(2);
	ck_assert_str_eq(order(), "0");
	check_idle();
	arrive_all("E");
	ck_assert_str_eq(order(), "4");
	check_idle();
}
END_TEST

static const struct timespec past = {1, 0};
static const struct pk_deadline deadline = {&past, CLOCK_MONOTONIC};

/* A handler ends the thread that has got the last one of its locks, and is not the head of the whole yet: the next one
 * is. */
START_TEST(given_up_with_all)
{
	static const char *const runs[][2] = {{"AA", "1"}, {"AE", "1"}, {"A", ""}};
	const char *cores = runs[_i % 3][0];

	use(_i / 3 < FAIR ? fair[_i / 3] : cohorts[_i / 3 - FAIR]);
	arrive_all(cores);
	ck_assert_int_eq(head(), 0);
	guest[0].w->leads = true;
	pk_waiter_set_state(guest[0].w, PK_WAITING);
	give_up(0);
	guest[0].how = PK_ORPHANED;
	ck_assert_str_eq(order(), runs[_i % 3][1]);
	let_go(0);
	check_idle();
}
END_TEST

/* Abortable cohort locks: a deadline passes in the cohort, and for the first of one, alone or with others behind. */
START_TEST(times_out)
{
	static const char *const runs[][2] = {{"Aa", "0"},    {"AaA", "0 2"},	 {"Ae", "0"},	  {"AeE", "0 2"},
					      {"AEe", "0 1"}, {"AEeE", "0 1 3"}, {"AaaeE", "0 4"}};
	const char *cores = runs[_i % 7][0];

	use(_i / 7 ? "a-c-bo-bo" : "a-c-bo-clh");
	ck_assert(ops->abortable);
	for (int i = 0; cores[i]; i++) {
		bool late = cores[i] & 32;

		arrive_until((char)(cores[i] & ~32), late ? &deadline : NULL);
		while (late && state_of(i) == WAITS)
			sched_yield();
		ck_assert(!late || guest[i].how == PK_TIMED_OUT);
	}
	ck_assert_str_eq(order(), runs[_i % 7][1]);
	check_idle();
}
END_TEST

/* A thread ends, or a handler has to wait, while its node is in no queue, as there is no bay; its status is that of an
 * earlier use. */
START_TEST(no_bay)
{
	static const char *const names[] = {"hmcs", "clof:tkt-clh-hem-mcs", "c-bo-mcs", "c-tkt-tkt", "c-ptl-tkt",
					    "a-c-bo-bo", "a-c-bo-clh"};
	struct pk_waiter *w;

	use(names[_i]);
	w = node_at('A');
	w->status = pk_in_state(w->status, PK_HEAD);
	pk_turn_gone(w);
	ck_assert_int_eq(pk_state(w->status), PK_HEAD);
	ck_assert_uint_eq(w->busy, 1);
}
END_TEST

UNIT("levels-giving-up", {gives_up, 2 * 16 * FAIR}, {given_up_as_head, 8 * (FAIR + COHORTS)}, {handler_waits, FAIR},
     {given_up_with_all, 3 * (FAIR + COHORTS)}, {times_out, 14}, {no_bay, 7})
