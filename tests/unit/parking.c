/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Where waiters sleep, parking by socket (pthread/lot.c), and how many may spin (rt/spin.c). */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admit/ticket.h"
#include "pthread/lot.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/futex.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "../stats/sleepers.h"
#include "nodes.h"

static struct pk_gate gate;

/* Nobody here has slept for long (local.am), however slow the machine is. */
enum { PATIENCE_US = 50000000 };
struct timespec __real_pk_clock_after(uint64_t us);
struct timespec __wrap_pk_clock_after(uint64_t us);

struct timespec __wrap_pk_clock_after(uint64_t us)
{
	return __real_pk_clock_after(us < PATIENCE_US ? PATIENCE_US : us);
}

/* The clock, where it stands still. */
static uint64_t stands_at;
uint64_t __real_pk_clock_us(void);
uint64_t __wrap_pk_clock_us(void);

uint64_t __wrap_pk_clock_us(void)
{
	uint64_t now = pk_load_relaxed(&stands_at);

	return now ? now : __real_pk_clock_us();
}

static void go_on_for(uint64_t us)
{
	pk_store_relaxed(&stands_at, pk_clock_us() + us);
}

/* ---- parking by socket ---- */

enum { COHORTS = 4 };

static enum pk_manner manner[COHORTS];
static pid_t tid[COHORTS];
static bool back[COHORTS];

static void *sleep_in_lot(void *number)
{
	unsigned cohort = (unsigned)(uintptr_t)number;
	struct timespec until = pk_clock_after(10000000);

	pk_store_release(&tid[cohort], gettid());
	manner[cohort] = pk_lot_park(&gate, cohort, &until);
	pk_store_release(&back[cohort], true);
	return NULL;
}

/* A gate in whose queue somebody is. */
static void make_busy(const char *topology)
{
	pk_incarnation_next();
	pk_topology_read("", topology);
	pk_spin_setup();
	pk_lot_setup("auto");
	pk_levels_read("", "");
	pk_lot_divide();
	node[0] = new_node(&pk_mcs);
	gate.queue.tail = pk_waiter_name(node[0]);
}

/* Until a thread sleeps in the lot. */
static void await_asleep(unsigned cohort, const pid_t *id)
{
	while (!pk_bay_next(cohort, &gate.queue.aux, NULL) || !(pk_load_relaxed(&gate.flags) & PK_FLAG_LOT))
		usleep(100);
	do
		usleep(1000);
	while (!sleepers_sleeps(pk_load_acquire(id)));
}

static pthread_t sleeper(unsigned cohort)
{
	pthread_t thread;

	pk_store_relaxed(&back[cohort], false);
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_in_lot, (void *)(uintptr_t)cohort), 0);
	await_asleep(cohort, &tid[cohort]);
	ck_assert(!pk_load_acquire(&back[cohort]));
	return thread;
}

/* Nobody is called while the queue is busy; then those of the caller's own socket, until they have had their turn, and
 * in the end the flag is gone. */
START_TEST(lot_calls)
{
	pthread_t thread[2];

	make_busy("2x3");
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

/* Of so many sleepers, one in each cohort, just those are back, or on their way, whose bits are set. */
static void check_back(unsigned sleepers, unsigned expected)
{
	for (unsigned c = 0; c < sleepers; c++)
		while (expected >> c & 1 && !pk_load_acquire(&back[c]))
			usleep(100);
	usleep(20000);
	for (unsigned c = 0; c < sleepers; c++)
		ck_assert(expected >> c & 1 || !pk_load_acquire(&back[c]));
}

/* Where cache groups share sockets, waiters sleep by group: first those of the caller's are called, then the others of its
 * socket, together, then others. Who is to stay in the queue is of each of the other groups in turn. */
START_TEST(lot_groups)
{
	enum { ALL = (1 << COHORTS) - 1 };
	pthread_t thread[COHORTS];

	make_busy("2x2x3x1");
	for (unsigned serial = 0; serial < 2; serial++)
		ck_assert_uint_eq(pk_lot_cohort(0, serial), pk_cohort_here(PK_COHORT_CACHE, serial));
	for (unsigned c = 0; c < COHORTS; c++)
		thread[c] = sleeper(c);
	for (unsigned k = 0; k < COHORTS; k++) {
		unsigned next = (2 + k) % COHORTS ? (2 + k) % COHORTS : 1; /* 2, 3, not itself, 1 */
		struct pk_record counts = {.turns = 0};

		counts.turns += 256 * (k + 1);
		pk_lot_rotate(&gate, 0, counts.turns);
		check_back(COHORTS, 1u << next);
		pthread_join(thread[next], NULL);
		ck_assert_int_eq(manner[next], PK_STAYS);
		thread[next] = sleeper(next);
	}
	gate.queue.tail = 0;
	pk_lot_check(&gate, 1);
	check_back(COHORTS, 1 << 1);
	pk_lot_check(&gate, 1);
	check_back(COHORTS, 1 << 1 | 1 << 0);
	pk_lot_check(&gate, 1);
	check_back(COHORTS, ALL & ~(1 << 3));
	pk_lot_check(&gate, 1);
	check_back(COHORTS, ALL);
	for (unsigned c = 0; c < COHORTS; c++)
		pthread_join(thread[c], NULL);
	pk_lot_check(&gate, 1);
	ck_assert_uint_eq(gate.flags, 0);
}
END_TEST

/* The neighbours are called together, as many as there is room for; after its turn, the next group alone. Groups of two CPUs
 * are none. */
START_TEST(lot_neighbours)
{
	pthread_t thread[COHORTS];

	pk_config.batch = 4;
	make_busy("1x4x3x1");
	for (unsigned c = 1; c < COHORTS; c++)
		thread[c] = sleeper(c);
	gate.queue.tail = 0;
	pk_lot_check(&gate, 2);
	pthread_join(thread[2], NULL);
	check_back(COHORTS, 1 << 2);
	pk_lot_check(&gate, 2);
	check_back(COHORTS, 1 << 1 | 1 << 2 | 1 << 3);
	pthread_join(thread[1], NULL);
	pthread_join(thread[3], NULL);
	gate.queue.tail = pk_waiter_name(node[0]);
	for (unsigned c = 0; c < COHORTS; c++)
		thread[c] = sleeper(c);
	pk_bay_next(3, &gate.queue.aux, NULL)->lead = 1; /* of 4, a quarter */
	gate.queue.tail = 0;
	pk_lot_check(&gate, 3);
	check_back(COHORTS, 1 << 0);
	while (gate.flags)
		pk_lot_check(&gate, 0);
	for (unsigned c = 0; c < COHORTS; c++)
		pthread_join(thread[c], NULL);
	make_busy("2x2x2x1");
	ck_assert_uint_eq(pk_lot_cohort(1, 0), 1);
}
END_TEST

/* A head whose handler has to wait gives its place up: nobody is in the queue then, and sleepers have to be told. */
START_TEST(lot_is_told_by_handlers)
{
	const struct pk_admit_ops *ops = _i ? &pk_tkt : &pk_mcs;
	struct pk_waiter *w;
	pthread_t thread;
	int word = 2;

	make_busy("2x3");
	gate.queue.tail = 0;
	w = new_node(ops);
	ck_assert_int_eq(ops->enter(&gate.queue, w, NULL), PK_IS_HEAD);
	if (_i) { /* its number is up, and it has not seen that */
		struct pk_waiter *last = w;

		w = new_node(ops);
		ck_assert(pk_ticket_draw(&gate.queue, w, PK_AUX_TKT));
		ops->leave(&gate.queue, last, NULL);
	}
	thread = sleeper(0);
	pk_doze_begin(w, &word, &gate.flags, NULL);
	pk_store_relaxed(&pk_self.asleep, true);
	pk_turn_step_back();
	pthread_join(thread, NULL);
	ck_assert_int_eq(manner[0], PK_CALLED);
}
END_TEST

static struct {
	int word;
	int cpu;
	pid_t tid;
	unsigned socket; /* that it queued for at last */
} traveller;

static void *travel(void *unused)
{
	struct pk_site at = {&traveller.word, &gate, 300, true, NULL, NULL, NULL};
	cpu_set_t one;

	(void)unused;
	CPU_ZERO(&one);
	CPU_SET(traveller.cpu, &one);
	ck_assert_int_eq(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	pk_store_release(&traveller.tid, gettid());
	pk_turn_wait(&at, NULL);
	traveller.socket = pk_thread_record()->node[0].socket;
	return NULL;
}

/* A thread that wakes on another socket than it fell asleep on waits there. */
START_TEST(lot_moves)
{
	cpu_set_t all, one;
	pthread_t thread;
	int cpu[2] = {-1, -1};

	pk_topology_read("", "2x1");
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_policy_select("mcs");
	pk_lot_setup("socket");
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int n = 0; n < CPU_SETSIZE; n++) {
		CPU_ZERO(&one);
		CPU_SET(n, &one);
		if (CPU_ISSET(n, &all) && !sched_setaffinity(0, sizeof(one), &one))
			cpu[pk_socket_here(0)] = n;
	}
	sched_setaffinity(0, sizeof(all), &all);
	if (cpu[0] < 0 || cpu[1] < 0) {
		printf("SKIP: one CPU\n");
		return;
	}
	node[0] = new_node(&pk_mcs);
	gate.queue.tail = pk_waiter_name(node[0]);
	traveller.word = 1;
	traveller.cpu = cpu[0];
	ck_assert_int_eq(pthread_create(&thread, NULL, travel, NULL), 0);
	await_asleep(0, &traveller.tid);
	CPU_ZERO(&one);
	CPU_SET(cpu[1], &one);
	ck_assert_int_eq(pthread_setaffinity_np(thread, sizeof(one), &one), 0);
	pk_store_relaxed(&traveller.word, 0);
	gate.queue.tail = 0;
	pk_lot_check(&gate, 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(traveller.word, 1);
	ck_assert_uint_eq(traveller.socket, 1);
}
END_TEST

/* Who finds the queue dry does not sleep; who has slept long enough, or finds no bay, is to queue for good. */
START_TEST(lot_refuses)
{
	struct timespec past = {1, 0}, until = pk_clock_after(10000000);

	make_busy("2x3");
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

	make_busy("2x3");
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

enum { AMONG = 9 };

static pid_t id;
static unsigned up;

static void *sleep_among(void *unused)
{
	struct timespec until = pk_clock_after(10000000);

	pk_store_release(&id, gettid());
	ck_assert_int_eq(pk_lot_park(&gate, 0, &until), PK_CALLED);
	pk_add_release(&up, 1);
	return unused;
}

/* It calls more where few of its socket spin, and there is room; but with one socket, or where users come back at once. */
START_TEST(lot_calls_more)
{
	static const struct {
		const char *topology;
		unsigned spinners;
		uint64_t flags;
		unsigned called;
	} table[] = {{"2x16", 0, 0, 8}, {"2x16", 3, 0, 8},	       {"2x16", 4, 0, 1}, {"2x4", 0, 0, 4},
		     {"2x4", 2, 0, 2},	{"2x16", 0, PK_FLAG_BACK, 1}, {"1x16", 0, 0, 1}};
	pthread_t thread[AMONG];
	unsigned n;

	make_busy(table[_i].topology);
	for (n = 0; n < table[_i].spinners; n++) {
		struct pk_waiter *w = new_node(&pk_mcs);

		w->socket = 0;
		w->manner = PK_CALLED;
		ck_assert_uint_ne(pk_spin_begin(w), 0);
	}
	for (n = 0; n < AMONG; n++) {
		id = 0;
		ck_assert_int_eq(pthread_create(&thread[n], NULL, sleep_among, NULL), 0);
		await_asleep(0, &id);
	}
	gate.flags |= table[_i].flags;
	pk_lot_rotate(&gate, 0, 64);
	while (pk_load_acquire(&up) < table[_i].called)
		usleep(100);
	usleep(20000);
	ck_assert_uint_eq(pk_load_acquire(&up), table[_i].called);
	gate.queue.tail = 0;
	while (pk_load_acquire(&up) < AMONG) {
		pk_lot_check(&gate, 0);
		usleep(1000);
	}
	for (n = 0; n < AMONG; n++)
		pthread_join(thread[n], NULL);
}
END_TEST

/* Where waiters sleep: by PARKADE_PARKING, by whether anybody may spin on that socket, and by what heads have found. */
START_TEST(lot_adapts)
{
	struct pk_site at = {NULL, &gate, 300, true, NULL, NULL, NULL};
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

/* ---- spinners ---- */

/* Half of a socket's CPUs spin at most, or seven of eight where there are other sockets; fewer when waiters spin in vain, and again more for each 32 that do not. Who
 * has been called does so in any case, and who is to sleep in none. */
START_TEST(spinners_learn)
{
	enum { REASON_US = 31 };
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
		usleep(REASON_US);
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
	pk_topology_read("", "2x15");
	pk_spin_setup();
	ck_assert_uint_eq(pk_spin_limit(1), 13);
	pk_topology_read("", "2x3");
	pk_spin_setup();
	ck_assert_uint_eq(pk_spin_limit(1), 2);
}
END_TEST

/* Those who spin in vain within 30 us cost one place together. */
START_TEST(spinners_miss_together)
{
	enum { REASON_US = 31, TRIES = 1000 };
	struct pk_waiter *w;
	uint64_t began, took;

	pk_topology_read("", "1x8");
	w = new_node(&pk_mcs);
	w->socket = 0;
	w->manner = PK_LEAVES;
	for (int i = 0; i < TRIES; i++) {
		usleep(REASON_US); /* it is another time */
		pk_spin_setup();
		began = pk_clock_us();
		for (int n = 0; n < 3; n++) {
			pk_spin_begin(w);
			pk_spin_missed(w);
		}
		took = pk_clock_us() - began;
		if (took >= REASON_US - 1)
			continue; /* preempted */
		ck_assert_uint_eq(pk_spin_rooms(0), 3);
		return;
	}
	ck_abort_msg("never within 30 us");
}
END_TEST

/* Who finds that it has spun without a CPU says so, for a while: others sleep in the queue then, and those in the lot are
 * called, whoever is in the queue. _i: not if it was to spin for so long. */
START_TEST(spinners_are_crowded)
{
	struct pk_site at = {NULL, &gate, 300, true, NULL, NULL, NULL};
	bool crowded = !_i;
	struct pk_waiter *w;
	pthread_t thread;

	make_busy("1x8");
	ck_assert_uint_ne(pk_rounds_in(1000), 0); /* or nobody could tell */
	if (_i)
		pk_config.spin = (int)pk_rounds_in(150000);
	w = new_node(&pk_mcs);
	w->socket = 0;
	w->manner = PK_LEAVES;
	thread = sleeper(0);
	go_on_for(0);
	ck_assert(!pk_spin_crowded());
	for (int n = 0; n < 4; n++) {
		ck_assert_uint_ne(pk_spin_begin(w), 0);
		go_on_for(n % 2 ? 300 : 100);
		n < 2 ? pk_spin_end(w) : pk_spin_missed(w);
		if (n % 2) {
			ck_assert_int_eq(pk_spin_crowded(), crowded);
			go_on_for(11000); /* and again */
		}
		ck_assert(!pk_spin_crowded());
	}
	pk_lot_check(&gate, 0);
	usleep(20000);
	ck_assert(!pk_load_acquire(&back[0]));
	pk_spin_begin(w);
	go_on_for(1000000);
	pk_spin_end(w);
	if (crowded)
		ck_assert_int_eq(pk_lot_manner(&at, 0), PK_STAYS);
	else
		gate.queue.tail = 0;
	pk_lot_check(&gate, 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(manner[0], crowded ? PK_STAYS : PK_CALLED);
	pk_topology_read("", "2x8"); /* where it says little */
	pk_spin_setup();
	pk_config.spin = 300;
	go_on_for(11000);
	pk_spin_begin(w);
	go_on_for(300);
	pk_spin_end(w);
	ck_assert(!pk_spin_crowded());
}
END_TEST

/* ---- who naps before it queues ---- */

static struct {
	int word;
	unsigned naps; /* that were in vain */
} napper;

/* Forks in the middle of a nap, if it is to: the child finds a head that has lost patience, so it is to queue. */
static bool forks;
static pid_t child;
int __real_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us);
int __wrap_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us);

int __wrap_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us)
{
	int ret = __real_pk_futex_wait_for(word, expected, us);

	if (forks) {
		forks = false;
		child = fork();
		if (!child)
			gate.flags |= PK_FLAG_QUEUE;
		napper.word = 0;
	}
	return ret;
}

static void make_few_cpus(const char *topology)
{
	pk_config.spin = 300;
	pk_topology_read("", topology);
	pk_config.parking = "queue";
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_policy_select("mcs");
	pk_lot_setup("queue");
	while (!pk_rounds_in(1000)) /* to find out how long a round is, even on a busy machine */
		;
	napper.word = 1;
}

/* The first in the queue. */
static void let_one_queue(void)
{
	node[0] = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, node[0], NULL), PK_IS_HEAD);
}

/* The child has a record of its own. */
START_TEST(forked_in_a_nap)
{
	struct pk_site at = {&napper.word, &gate, 300, true, NULL, NULL, NULL};
	struct pk_record *r;
	int status;

	make_few_cpus("1x2");
	let_one_queue();
	r = pk_thread_record();
	ck_assert_ptr_nonnull(r);
	forks = true;
	ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
	ck_assert(!forks);
	if (!child)
		_exit(pk_self.record == r		       ? 2
		      : r->stat[PK_STAT_entered]	       ? 3
		      : pk_self.record->stat[PK_STAT_entered] ? 0
							       : 4);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

static void *wait_for_it(void *timed)
{
	struct timespec soon = pk_clock_after(0); /* the wrapper's: far away */
	struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	struct pk_site at = {&napper.word, &gate, 300, true, NULL, NULL, NULL};

	pk_self.napped = 0;
	ck_assert_int_eq(pk_turn_wait(&at, timed ? &deadline : NULL), 0);
	napper.naps = pk_self.napped;
	return NULL;
}

/* Where nobody may spin, and not with a deadline. _i: there; with a deadline; where there is no room to spin. */
START_TEST(naps_where_cpus_are_few)
{
	pthread_t thread;

	make_few_cpus(_i == 2 ? "1x8" : "1x2");
	for (int i = 0; i < 6 && _i == 2; i++)
		ck_assert_uint_gt(pk_spin_begin(new_node(&pk_mcs)), 0);
	ck_assert(!pk_spin_room(0));
	let_one_queue();
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, _i == 1 ? &napper : NULL), 0);
	while (!pk_load_acquire(&node[0]->next)) /* it has queued */
		sched_yield();
	pk_mcs.leave(&gate.queue, node[0], &napper.word);
	pk_store_release(&napper.word, 0);
	pk_futex_wake(&napper.word, 1);
	pthread_join(thread, NULL);
	ck_assert_int_ne(napper.word, 0);
	ck_assert_uint_eq(napper.naps, _i == 0);
}
END_TEST

UNIT("parking", {lot_calls, 1}, {lot_groups, 1}, {lot_neighbours, 1}, {lot_is_told_by_handlers, 2}, {lot_moves, 1},
     {lot_refuses, 1}, {lot_rotates, 1}, {lot_calls_more, 7}, {lot_adapts, 1}, {spinners_learn, 1}, {spinners_miss_together, 1},
     {spinners_are_crowded, 2}, {naps_where_cpus_are_few, 3}, {forked_in_a_nap, 1})
