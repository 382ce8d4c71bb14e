/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Whose users a lock has, by when they come back for it (pthread/word.c): who says that they do so at once, who is taken for one that does,
 * alone, and who has used it all the time until then, and is to be one of a few in its queue (pthread/turn.c). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "pthread/lot.h"
#include "pthread/turn.h"
#include "pthread/word.h"
#include "rt/clock.h"
#include "rt/park.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "../stats/sleepers.h"
#include "gate.h"
#include "nodes.h"

enum { REASON_US = 31 }; /* who misses later than that costs a place of its own */

/* The thread got the word so long ago, after so long a spin; and has stolen it `stolen` ns after that, or not. */
struct past {
	uint64_t ns;
	unsigned spun;
	int64_t stolen;
};

static void come(const struct past *p)
{
	uint64_t now = pk_clock_ns();

	pk_self.won.word = &word;
	pk_self.won.ns = now - p->ns - p->spun;
	pk_self.won.rounds = pk_rounds_in(p->spun);
	pk_self.won.waited = 0;
	pk_self.stolen.word = p->stolen ? &word : NULL;
	pk_self.stolen.ns = pk_self.won.ns + (uint64_t)p->stolen;
}

static void make(const char *topology)
{
	make_with("shfl", topology, "auto");
	no_trials();
}

static void let_one_queue(void)
{
	node[0] = new_node(&pk_shfl);
	ck_assert_int_eq(pk_shfl.enter(&gate.queue, node[0], NULL), PK_IS_HEAD);
}

/* Who is back within a microsecond says so, but not if it has spun for so long that it may as well have been away for some. */
START_TEST(says_what_is_sure)
{
	static const struct {
		struct past past;
		bool says;
	} table[] = {{{0, 0, 0}, true}, {{0, 2000, 0}, true}, {{0, 16000, 0}, false}};
	struct pk_site at = site(true);
	struct timespec past = {0, 0};
	struct pk_deadline deadline = {&past, CLOCK_MONOTONIC};
	bool soon = false;

	make("2x8");
	let_one_queue();
	word = 1;
	for (unsigned n = 0; n < TRIES && !(soon && (!table[_i].says || gate.flags & PK_FLAG_BACK)); n++) {
		come(&table[_i].past);
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
		soon |= pk_self.soon;
	}
	ck_assert(soon);
	ck_assert_int_eq(!(gate.flags & PK_FLAG_BACK), !table[_i].says);
}
END_TEST

/* Alone, who had waited for half of the time until it is back, within 2 us, has come back, with one socket or several; with several also
 * within 3, or who had waited for a third of less than 2. */
START_TEST(comes_back_alone)
{
	enum { HELD_UP = 190 }; /* if it is later than that, in ns */
	static const struct {
		const char *topology;
		uint64_t ns;
		unsigned waited;
		bool back, late;
	} table[] = {
		{"1x8", 1600, 900, true, false},  {"2x8", 1600, 900, true, true},   {"1x8", 1600, 600, false, false},
		{"2x8", 1600, 600, false, true},  {"2x8", 1600, 500, false, false}, {"1x8", 2400, 1300, false, false},
		{"2x8", 2400, 1300, false, true}, {"2x8", 2400, 1100, false, false}, {"2x8", 3100, 3000, false, false},
	};
	struct pk_site at = site(true);
	bool known = false;

	make(table[_i].topology);
	for (unsigned n = 0; n < TRIES && !known; n++) {
		come(&(struct past){table[_i].ns, 0, 0});
		pk_self.won.waited = table[_i].waited;
		pk_word_come(&at);
		known = pk_self.came - pk_self.won.ns < table[_i].ns + HELD_UP;
	}
	if (!known) {
		printf("SKIP: the clock takes too long here\n");
		return;
	}
	ck_assert_int_eq(pk_self.back, table[_i].back);
	ck_assert_int_eq(pk_self.late, table[_i].late);
}
END_TEST

static pid_t tid;
static struct pk_record *record;
static struct past past;

static void *wait_for_it(void *at)
{
	record = pk_thread_record();
	come(&past);
	pk_store_release(&tid, gettid());
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	return NULL;
}

static struct pk_waiter *spinner(unsigned socket)
{
	struct pk_waiter *w = new_node(&pk_mcs);

	w->socket = (uint8_t)socket;
	w->manner = PK_CALLED;
	ck_assert_uint_ne(pk_spin_begin(w), 0);
	return w;
}

/* On each socket, whichever this one is, all places but one are lost, and so many spin. */
static void fill(unsigned spinners)
{
	for (unsigned s = 0; s < pk_sockets; s++) {
		while (pk_spin_rooms(s) > 1) {
			pk_spin_missed(spinner(s));
			usleep(REASON_US);
		}
		for (unsigned n = 0; n < spinners; n++)
			spinner(s);
		ck_assert(!pk_spin_room(s));
	}
}

/* How often a waiter with such a past has queued, by the time when it sleeps in the lot. */
static uint64_t queued(uint64_t flags)
{
	struct pk_site at = site(true);
	pthread_t thread;
	uint64_t entered;

	gate = (struct pk_gate){.flags = flags};
	let_one_queue();
	word = 1;
	tid = 0;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &at), 0);
	while (!pk_load_acquire(&tid) || !sleepers_sleeps(pk_load_acquire(&tid)))
		sched_yield();
	entered = record->stat[PK_STAT_entered];
	ck_assert_uint_gt(record->stat[PK_STAT_parked], 0);
	pk_store_release(&word, 0);
	pk_shfl.leave(&gate.queue, node[0], NULL);
	pk_lot_check(&gate, 0);
	pthread_join(thread, NULL);
	return entered;
}

/* Nobody has room to spin. One that has used the lock for long, whose users come back at once, spins in the queue all the same, unless
 * four do so, or as many as may, if that is less; others sleep in the lot. */
START_TEST(is_one_of_few)
{
	static const struct {
		const char *topology;
		uint64_t flags;
		struct past past;
		unsigned spinners;
		bool queues;
	} table[] = {
		{"2x8", PK_FLAG_BACK, {20000, 0, 0}, 1, true},
		{"2x8", PK_FLAG_BACK, {20000, 10000, 0}, 3, true},
		{"2x8", PK_FLAG_BACK, {20000, 0, 0}, 4, false},
		{"2x4", PK_FLAG_BACK, {20000, 0, 0}, 2, true},
		{"2x4", PK_FLAG_BACK, {20000, 0, 0}, 3, false},
		{"2x8", 0, {20000, 0, 0}, 1, false},
		{"2x8", PK_FLAG_BACK, {4000, 0, 0}, 1, false},
		{"2x8", PK_FLAG_BACK, {200000, 0, 0}, 1, false},
		{"2x8", PK_FLAG_BACK, {20000, 0, 1000}, 1, false},
		{"2x8", PK_FLAG_BACK, {20000, 0, -1000}, 1, true},
		{"1x8", PK_FLAG_BACK, {20000, 0, 0}, 1, true},
	};
	uint64_t n = 2;

	make(table[_i].topology);
	fill(table[_i].spinners);
	past = table[_i].past;
	/* It may be held up on its way. */
	for (unsigned tries = 0; tries < 100 && n != table[_i].queues; tries++)
		n = queued(table[_i].flags);
	ck_assert_uint_eq(n, table[_i].queues);
}
END_TEST

UNIT("few", {says_what_is_sure, 3}, {comes_back_alone, 9}, {is_one_of_few, 11})
