/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Mutexes on machines of one socket, some of whose CPUs may spin: who takes the word at once, who waits for it without a place in
 * the queue (pthread/turn.c), and for whom it is not worth to spin (pthread/word.c, rt/spin.c). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "admit/list.h"
#include "pthread/lot.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/futex.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "../stats/sleepers.h"
#include "gate.h"
#include "nodes.h"

static void make(const char *topology, const char *parking)
{
	make_with("shfl", topology, parking);
	no_trials();
}

/* How often the thread has done that. */
static uint64_t count_of(unsigned stat)
{
	return pk_thread_record()->stat[stat];
}

/* The thread has had the word as a head, and it is back. */
static void come_back(void)
{
	pk_self.won.word = &word;
	pk_self.won.rounds = pk_self.won.waited = 0;
	pk_self.won.ns = pk_clock_ns();
}

static void let_one_queue(void)
{
	node[0] = new_node(&pk_shfl);
	ck_assert_int_eq(pk_shfl.enter(&gate.queue, node[0], NULL), PK_IS_HEAD);
}

/* ---- who takes the word at once ---- */

/* Nobody is in the queue, and the word is free. _i: with one socket it is taken; not by who comes back at once, who is to be a
 * head; nor with two sockets, nor if a head has lost patience, nor where nobody may spin. */
START_TEST(takes_the_word)
{
	struct pk_site at = site(true);

	make(_i == 2 ? "2x8" : _i == 4 ? "1x2" : "1x8", "auto");
	gate.flags = _i == 3 ? PK_FLAG_QUEUE : 0;
	for (unsigned n = 0; n < TRIES; n++) {
		word = 0;
		if (_i == 1)
			come_back();
		ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
		ck_assert_int_eq(word, 1);
		if (_i != 1 || count_of(PK_STAT_entered)) /* it may be held up on its way */
			break;
	}
	ck_assert_uint_eq(count_of(PK_STAT_entered), _i != 0);
	ck_assert_uint_eq(count_of(PK_STAT_bypassed), 0);
	if (_i == 0) {
		ck_assert_uint_eq(count_of(PK_STAT_stolen), 1);
		ck_assert_ptr_eq(pk_self.won.word, &word);
		ck_assert_uint_eq(pk_self.won.ns, pk_self.came);
	}
}
END_TEST

/* ---- who waits without a place ---- */

static pid_t tid;

static void await_asleep(void)
{
	while (!sleepers_sleeps(pk_load_acquire(&tid)))
		sched_yield();
}

static struct pk_waiter *chain;
static uint64_t entered, bypassed;

static void *wait_for_it(void *at)
{
	pk_store_release(&tid, gettid());
	pk_self.chain = chain;
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	entered = count_of(PK_STAT_entered);
	bypassed = count_of(PK_STAT_bypassed);
	pk_self.chain = NULL;
	ck_assert_ptr_eq(pk_self.won.word, bypassed ? &word : pk_self.won.word);
	return NULL;
}

/* Somebody is in the queue. One socket: others sleep at the word. Else, or if its users come back at once, or its head has lost
 * patience, or waiters are to sleep in the queue, or it is no mutex, or by another policy, or with others of a broadcast behind it,
 * they queue. */
START_TEST(waits_without_a_place)
{
	static const struct {
		const char *policy, *topology, *parking;
		uint64_t flags;
		bool marks, chain, apart;
		int spin; /* or 0 */
	} table[] = {
		{"shfl", "1x8", "auto", 0, true, false, true, 0},
		{"shfl", "1x8", "auto", PK_FLAG_SLOW, true, false, true, 0},
		{"shfl", "1x8", "auto", PK_FLAG_BACK, true, false, false, 0},
		{"shfl", "1x8", "auto", PK_FLAG_QUEUE, true, false, false, 0},
		{"shfl", "1x8", "queue", 0, true, false, false, 0},
		{"shfl", "1x8", "auto", 0, false, false, false, 0},
		{"shfl", "2x8", "auto", 0, true, false, false, 0},
		{"shfl", "1x2", "auto", 0, true, false, false, 0},
		{"mcs", "1x8", "auto", 0, true, false, false, 0},
		{"shfl", "1x8", "auto", 0, true, true, false, 0},
		{"shfl", "1x8", "auto", 0, true, false, false, 200}, /* nobody can tell who comes back */
	};
	struct pk_site at = site(table[_i].marks);
	pthread_t thread;

	make_with(table[_i].policy, table[_i].topology, table[_i].parking);
	no_trials();
	gate.flags = table[_i].flags;
	if (table[_i].spin)
		pk_config.spin = table[_i].spin;
	chain = table[_i].chain ? new_node(&pk_shfl) : NULL;
	let_one_queue();
	word = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &at), 0);
	while (!pk_load_acquire(&node[0]->next) && pk_load_acquire(&word) == 1)
		sched_yield();
	ck_assert_int_eq(!pk_load_acquire(&node[0]->next), table[_i].apart);
	if (table[_i].apart)
		await_asleep();
	pk_shfl.leave(&gate.queue, node[0], &word);
	pk_lot_check(&gate, 0);
	pk_store_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(bypassed, table[_i].apart);
	ck_assert_int_eq(entered > 0, !table[_i].apart);
	if (table[_i].apart)
		ck_assert_int_eq(word, 2); /* it has slept */
}
END_TEST

/* Who comes back at once tells the others, and who does not 64 times in a row doubts it, if that has not been tried. _i: with several sockets, too, though nobody waits
 * apart there. */
START_TEST(tells_who_comes_back)
{
	struct pk_gate gate2 = {.flags = 0};
	int word2 = 1;
	struct pk_site at = site(true), at2 = {&word2, &gate2, SPIN, true, NULL, NULL, NULL};
	struct timespec past = {0, 0};
	struct pk_deadline deadline = {&past, CLOCK_MONOTONIC};

	make(_i ? "2x8" : "1x8", "auto");
	let_one_queue();
	word = 1;
	ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
	ck_assert_uint_eq(gate.flags & PK_FLAG_BACK, 0);
	for (unsigned n = 0; n < TRIES && !(gate.flags & PK_FLAG_BACK); n++) {
		come_back();
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
	}
	ck_assert_uint_ne(gate.flags & PK_FLAG_BACK, 0);
	/* It is back, though not so soon, after the first forty; for a microsecond, so it may be held up. */
	for (unsigned n = 0; n < TRIES && (!n || pk_self.doubts); n++) {
		pk_self.won.word = NULL;
		for (unsigned i = 0; i < 40 && !n; i++)
			ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
		pk_self.won.word = &word;
		pk_self.won.waited = 5000;
		pk_self.won.rounds = 0;
		pk_self.won.ns = pk_clock_ns() - 1000;
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
		gate.flags |= PK_FLAG_BACK; /* for the one that is held up for the 64th time */
	}
	ck_assert_uint_eq(pk_self.doubts, 0);
	pk_self.won.word = NULL;
	for (unsigned n = 1; n <= 64; n++) {
		ck_assert_uint_ne(gate.flags & PK_FLAG_BACK, 0);
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
	}
	ck_assert_uint_eq(gate.flags & PK_FLAG_BACK, 0);
	/* Unless it has been tried, and to queue is better: what a trial has found only a trial takes back. */
	gate.flags |= PK_FLAG_BACK | PK_FLAG_PROVED;
	for (unsigned n = 1; n <= 130; n++)
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
	ck_assert_uint_ne(gate.flags & PK_FLAG_BACK, 0);
	/* By another policy nothing is tried, so it is doubted. */
	ck_assert(pk_policy_select("mcs") == PK_POLICY_mcs);
	for (unsigned n = 1; n <= 130; n++)
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
	ck_assert_uint_eq(gate.flags & PK_FLAG_BACK, 0);
	ck_assert(pk_policy_select("shfl") == PK_POLICY_shfl);
	gate.flags &= ~PK_FLAG_PROVED;
	pk_self.doubts = 0;
	/* That it comes back at once for another lock does not matter. */
	gate.flags |= PK_FLAG_BACK;
	for (unsigned n = 1; n <= 64; n++) {
		ck_assert_uint_ne(gate.flags & PK_FLAG_BACK, 0);
		ck_assert_int_eq(pk_turn_wait(&at, &deadline), ETIMEDOUT);
		pk_self.won.word = &word2;
		pk_self.won.ns = pk_clock_ns();
		ck_assert_int_eq(pk_turn_wait(&at2, &deadline), ETIMEDOUT);
		if (!pk_self.soon) { /* it was held up, which is a doubt */
			gate.flags |= PK_FLAG_BACK;
			pk_self.doubts = 0;
			n = 0;
		}
	}
	ck_assert_uint_eq(gate.flags & PK_FLAG_BACK, 0);
}
END_TEST

static void *queue_by(void *at)
{
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	return pk_thread_record();
}

/* Who queues says of which cache group it is. */
START_TEST(says_its_cache)
{
	struct pk_site at = site(true);
	unsigned others = 0;

	make("2x2x4x1@thread", "auto");
	pk_levels_read("", "cache,node");
	pk_lot_divide();
	let_one_queue();
	for (unsigned n = 0; n < 4; n++) {
		pthread_t thread;
		struct pk_waiter *w;
		struct pk_record *r;
		unsigned cohort, socket;

		word = 1;
		pk_record_take(); /* each is on another CPU */
		ck_assert_int_eq(pthread_create(&thread, NULL, queue_by, &at), 0);
		while (!(w = pk_load_acquire(&node[0]->next)))
			sched_yield();
		cohort = w->cohort;
		socket = w->socket;
		pk_shfl.leave(&gate.queue, node[0], &word);
		pk_store_release(&word, 0);
		pk_futex_wake(&word, 1);
		pthread_join(thread, (void **)&r);
		ck_assert_uint_eq(socket, pk_socket_here(r->index));
		ck_assert_uint_eq(cohort, pk_lot_cohort(socket, r->index));
		others += cohort != socket;
		let_one_queue();
	}
	ck_assert_uint_gt(others, 0);
}
END_TEST

static unsigned naps;
int __real_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us);
int __wrap_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us);

int __wrap_pk_futex_wait_for(const void *on, uint32_t expected, unsigned us)
{
	naps += us == PK_NAP_US;
	return __real_pk_futex_wait_for(on, expected, us);
}

static void *wait_apart(void *at)
{
	pk_store_release(&tid, gettid());
	ck_assert_int_eq(pk_word_wait(at, &pk_shfl, NULL, false, NULL), 0);
	ck_assert_int_eq(word, 2);
	return NULL;
}

/* Who has slept 32 times in one wait, as it was woken while others took the word, tells them. _i: 31 are not enough. */
START_TEST(tells_what_was_in_vain)
{
	struct pk_site at = site(true);
	pthread_t thread;

	make("1x8", "auto");
	word = 2;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_apart, &at), 0);
	for (unsigned n = 1; n < (_i ? 31 : 32); n++)
		while (pk_futex_wake(&word, 1) != 1)
			sched_yield();
	await_asleep();
	pk_store_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(!(gate.flags & PK_FLAG_BACK), _i);
}
END_TEST

/* Who waits apart looks now and then, as those in queues do: who was to wake it may be held up. */
START_TEST(looks)
{
	struct pk_site at = site(true);
	pthread_t thread;

	make("1x8", "auto");
	pk_config.look = 20;
	pk_doze_setup(pk_turn_look);
	word = 2;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_apart, &at), 0);
	await_asleep();
	pk_store_release(&word, 0); /* and it is not woken */
	pthread_join(thread, NULL);
}
END_TEST

static void *wait_as_head(void *at)
{
	pk_store_release(&tid, gettid());
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	return NULL;
}

/* A head that is woken in vain naps, if those who have the lock come back at once (_i). Else others may sleep at the word, for whom it
 * has been woken. */
START_TEST(naps_for_nobody)
{
	struct pk_site at = site(true);
	pthread_t thread;

	make("1x8", "auto");
	gate.flags = _i ? PK_FLAG_BACK : 0;
	word = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_as_head, &at), 0);
	while (pk_load_acquire(&word) != 2)
		sched_yield();
	await_asleep();
	pk_store_release(&word, 1);
	pk_futex_wake(&word, 1);
	while (pk_load_acquire(&word) != 2) /* after its nap, if any */
		sched_yield();
	await_asleep();
	pk_store_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(naps, _i);
}
END_TEST

static bool takes(const int *unused)
{
	return !unused;
}

/* A handler gives up the place of a head that naps, or that has just been woken, in the stead of who waits apart: that one is woken,
 * now or by the unlock. _i: the word is held, and who has it unlocks it; it is free; it stands for something else. */
START_TEST(head_passes_on)
{
	struct pk_site at = site(true);
	pthread_t thread;

	make("1x8", "auto");
	let_one_queue();
	word = 2;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_apart, &at), 0);
	await_asleep();
	pk_doze_begin(node[0], &word, &gate.flags, _i == 2 ? takes : NULL);
	pk_self.asleep = true;
	pk_store_release(&word, _i != 1);
	pk_turn_step_back();
	ck_assert(!pk_queue_busy(&gate.queue));
	if (_i != 1)
		ck_assert_int_eq(pk_load_relaxed(&word), _i == 0 ? 2 : 1);
	if (_i == 2 || (_i == 0 && pk_xchg_release(&word, 0) == 2)) {
		pk_store_release(&word, 0);
		pk_futex_wake(&word, 1);
	}
	pthread_join(thread, NULL);
}
END_TEST

/* ---- for whom it is not worth to spin ---- */

/* Thieves do not spin for a slow lock, but take the word if it is free; they do with several sockets, whose heads are far away, and
 * where nobody else spins. */
START_TEST(thieves_leave_slow_locks)
{
	static const struct {
		const char *topology;
		uint64_t flags;
		bool spins;
	} table[] = {
		{"1x8", 0, true}, {"1x8", PK_FLAG_SLOW, false}, {"2x8", PK_FLAG_SLOW, true}, {"1x2", PK_FLAG_SLOW, true},
	};
	struct pk_site at = site(true);

	make(table[_i].topology, "auto");
	gate.flags = table[_i].flags;
	ck_assert(pk_word_steal(&at));
	ck_assert_int_eq(word, 1);
	ck_assert_ptr_eq(pk_self.stolen.word, table[_i].spins ? &word : NULL); /* who spins remembers it */
}
END_TEST

/* A spinner served after 8 us costs a place, if its thread has not looked away in its last 32 waits; not with two sockets. */
START_TEST(served_late)
{
	enum { REASON_US = 31 };
	struct pk_waiter *w;
	unsigned late, early;

	make("1x8", "auto");
	late = pk_rounds_in(8000) + 1;
	early = pk_rounds_in(7000);
	w = new_node(&pk_shfl);
	w->socket = 0;
	w->manner = PK_LEAVES;
	ck_assert_uint_eq(pk_spin_rooms(0), 4);
	pk_spin_begin(w);
	pk_spin_served(w, late);
	ck_assert_uint_eq(pk_spin_rooms(0), 3);
	usleep(REASON_US);
	pk_spin_begin(w);
	pk_spin_served(w, early);
	ck_assert_uint_eq(pk_spin_rooms(0), 3);
	pk_spin_away();
	for (int n = 0; n < 32; n++) {
		pk_spin_begin(w);
		pk_spin_served(w, late);
	}
	ck_assert_uint_eq(pk_spin_rooms(0), 4); /* one more for 32 that were served */
	pk_spin_begin(w);
	pk_spin_served(w, late);
	ck_assert_uint_eq(pk_spin_rooms(0), 3);
	ck_assert_uint_eq(pk_spinners(0), 0);
	pk_config.spin = (int)pk_rounds_in(60000); /* somebody wants it */
	usleep(REASON_US);
	pk_spin_begin(w);
	pk_spin_served(w, late);
	ck_assert_uint_eq(pk_spin_rooms(0), 3);
	pk_config.spin = SPIN;
	pk_topology_read("", "2x8");
	pk_spin_setup();
	usleep(REASON_US);
	pk_spin_begin(w);
	pk_spin_served(w, late);
	ck_assert_uint_eq(pk_spin_rooms(0), 7);
}
END_TEST

static bool served; /* it has spun until it was the head */

static void *queue_up(void *manner)
{
	struct pk_waiter *w = node[1] = new_node(&pk_shfl);

	w->socket = 0;
	w->manner = (uint8_t)(uintptr_t)manner;
	served = false;
	if (pk_shfl.enter(&gate.queue, w, NULL) == PK_IS_HEAD) {
		served = !w->slept;
		pk_shfl.leave(&gate.queue, w, NULL);
	}
	return NULL;
}

/* That is seen in the queue; not of who would sleep in its place had it spun in vain (_i). */
START_TEST(served_late_in_the_queue)
{
	unsigned kept = 0;

	for (unsigned n = 0; n < TRIES && (!_i || kept < 20); n++) {
		uint64_t began;
		pthread_t thread;

		make("1x8", "auto"); /* four places again */
		usleep(31);
		let_one_queue();
		ck_assert_int_eq(pthread_create(&thread, NULL, queue_up, (void *)(uintptr_t)(_i ? PK_STAYS : PK_LEAVES)), 0);
		while (!pk_load_acquire(&node[0]->next))
			;
		for (began = pk_clock_ns(); pk_clock_ns() - began < 15000;)
			;
		pk_shfl.leave(&gate.queue, node[0], NULL);
		pthread_join(thread, NULL);
		if (!served) /* it was held up */
			continue;
		if (!_i && pk_spin_rooms(0) == 3)
			return;
		ck_assert_uint_eq(pk_spin_rooms(0), 4);
		kept++;
	}
	ck_assert(_i && kept);
}
END_TEST

/* ---- what is seen on coming, and what is not ---- */

static void *wait_at(void *at)
{
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	return NULL;
}

static void let_it_go(pthread_t waiter)
{
	pk_xchg_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(waiter, NULL);
}

/* Who has waited in the queue looks again when it is the head: the lock has become slow, so it sleeps soon. */
START_TEST(looks_again_as_the_head)
{
	struct pk_site at = site(true);
	pthread_t thread;

	make("1x8", "auto");
	pk_config.spin = 1 << 29; /* the head of a lock that is not slow spins for seconds */
	gate.flags = PK_FLAG_BACK;
	word = 1;
	let_one_queue();
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_at, &at), 0);
	while (!pk_load_acquire(&node[0]->next))
		;
	pk_or_relaxed(&gate.flags, PK_FLAG_SLOW);
	pk_shfl.leave(&gate.queue, node[0], NULL);
	for (int n = 0; pk_load_relaxed(&word) != 2; n++) {
		ck_assert_int_lt(n, 5000);
		usleep(1000);
	}
	let_it_go(thread);
}
END_TEST

/* A mutex may have a policy of its own. What is no mutex has other things in that byte (_i). */
START_TEST(has_its_policy)
{
	struct pk_site at = site(!_i);
	uint64_t first, last;
	pthread_t thread;

	make("1x8", "queue");
	gate.flags = (PK_POLICY_mcs + 1) * PK_FLAG_POLICY_ONE;
	word = 1;
	let_one_queue();
	first = gate.queue.tail;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_at, &at), 0);
	while ((last = pk_load_acquire(&gate.queue.tail)) == first)
		;
	ck_assert_uint_eq(pk_name_policy(last), _i ? PK_POLICY_shfl : PK_POLICY_mcs);
	pk_shfl.leave(&gate.queue, node[0], NULL);
	let_it_go(thread);
}
END_TEST

UNIT("near", {looks_again_as_the_head, 1}, {has_its_policy, 2}, {takes_the_word, 5}, {says_its_cache, 1}, {waits_without_a_place, 11}, {tells_who_comes_back, 2}, {tells_what_was_in_vain, 2}, {looks, 1},
     {naps_for_nobody, 2}, {head_passes_on, 3}, {thieves_leave_slow_locks, 4}, {served_late, 1}, {served_late_in_the_queue, 2})
