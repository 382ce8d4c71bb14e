/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The simulated machine by itself: what sequences of accesses made by hand cost, who runs
 * when, and that a run is the same each time. */
#include <check.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "sim/engine.h"
#include "sim/kernel.h"
#include "sim/lines.h"
#include "sim/main.h"

uint64_t sim_warm, sim_end_of_load, sim_trace_from, sim_trace_to;

void sim_start_over(void)
{
}

void sim_trace(const char *format, ...)
{
	(void)format;
}

long hn_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* Numbers that tell what was paid for: 2 packages of 2 nodes of 2 groups of 2 cores of 2. */
static const struct sim_machine machine = {
	.packages = 2,
	.nodes = 2,
	.groups = 2,
	.cores = 2,
	.threads = 2,
	.mhz = 1000,
	.at = {{1, 1, 1}, {20, 30, 40}, {200, 300, 400}, {2000, 3000, 4000}, {20000, 30000, 40000}},
	.local = 500,
	.remote = 5000,
	.share = 50,
	.atomic = 7,
	.relax = 10,
	.syscall = 100,
	.futex = 100,
	.wake = 1000,
	.wakeup = 5000,
	.change = 2000,
	.quantum = 1000,
	.granularity = 500,
	.cpus = 32,
	.all_cores = 16,
	.all_nodes = 4,
	.width = {2, 4, 8, 16, 32},
};

static char *memory; /* lines that nobody has touched */

static void setup(void)
{
	sim_machine = machine;
	sim_engine_setup(1);
	sim_lines_setup();
	memory = sim_memory(1 << 16);
}

static uint64_t cost(enum hn_kind kind, unsigned line)
{
	uint64_t since = sim_time();

	sim_line_access(
		&(struct hn_access){.kind = kind, .order = __ATOMIC_ACQ_REL, .size = 8, .p = memory + line * SIM_LINE});
	return sim_time() - since;
}

static void run(void)
{
	ck_assert_int_eq(sim_run(UINT64_MAX / 2), SIM_FINISHED);
}

/* ---- where threads begin ---- */

/* Each CPU once, none of those that are to spare: one group of the two of a node. */
static void places(bool spread, unsigned groups)
{
	bool taken[32] = {false};
	unsigned cpu;

	for (unsigned n = 0; n < sim_cpus_in_use(); n++) {
		cpu = sim_place(n, spread);
		ck_assert_uint_lt(cpu, 32);
		ck_assert(!taken[cpu]);
		taken[cpu] = true;
		ck_assert_uint_lt(cpu % machine.width[SIM_NODE] / machine.width[SIM_CACHE], groups);
	}
}

START_TEST(places_to_spare)
{
	places(false, 2);
	places(true, 2);
	/* A second thread of a core comes after all cores; the packages in turn, or one after the other. */
	ck_assert_uint_eq(sim_place(1, false), 2);
	ck_assert_uint_eq(sim_place(1, true), 16);
	ck_assert_uint_eq(sim_place(16, false), 1);
	sim_machine.spare = 1;
	ck_assert_uint_eq(sim_cpus_in_use(), 16);
	places(false, 1);
	places(true, 1);
	ck_assert_uint_eq(sim_place(2, false), 8);
	ck_assert_uint_eq(sim_place(8, false), 1);
	ck_assert_uint_eq(sim_place(8, true), 1);
}
END_TEST

/* ---- one thread, then another one at each distance ---- */

static uint64_t costs[8];

static void one(unsigned number)
{
	(void)number;
	costs[0] = cost(HN_LOAD, 0); /* from memory of its own node */
	costs[1] = cost(HN_LOAD, 0);
	costs[2] = cost(HN_ADD, 0); /* alone with it, but not to write */
	costs[3] = cost(HN_ADD, 0);
	costs[4] = cost(HN_STORE, 1); /* does not wait */
	costs[5] = cost(HN_LOAD, 1);
	costs[6] = cost(HN_ADD, 0); /* waits for the store */
}

START_TEST(alone)
{
	sim_spawn(one, 0, 0);
	run();
	ck_assert_uint_eq(costs[0], 500);
	ck_assert_uint_eq(costs[1], 1);
	ck_assert_uint_ge(costs[2], 40 + 7 - 10);
	ck_assert_uint_le(costs[2], 40 + 7 + 10);
	ck_assert_uint_eq(costs[3], 7);
	ck_assert_uint_eq(costs[4], 1);
	ck_assert_uint_eq(costs[5], 1);
	ck_assert_uint_ge(costs[6], 500);
	ck_assert_uint_eq(sim_fetches, 2);
}
END_TEST

static void dirties(unsigned number)
{
	(void)number;
	cost(HN_ADD, 0);
	cost(HN_ADD, 1);
	cost(HN_LOAD, 2);
}

static void comes_after(unsigned number)
{
	(void)number;
	sim_work(1000000);
	costs[0] = cost(HN_LOAD, 0);
	costs[1] = cost(HN_ADD, 1);
	costs[2] = cost(HN_LOAD, 2);
	costs[3] = cost(HN_LOAD, 0);
}

START_TEST(at_a_distance)
{
	static const unsigned cpus[SIM_LEVELS] = {1, 2, 4, 8, 16};
	const struct sim_latency *at = &machine.at[_i];

	sim_spawn(dirties, 0, 0);
	sim_spawn(comes_after, 1, cpus[_i]);
	run();
	ck_assert_uint_eq(sim_level_of(0, cpus[_i]), _i);
	if (_i == SIM_CORE) { /* they share a cache */
		ck_assert_uint_eq(costs[0], 1);
		ck_assert_uint_eq(costs[1], 7);
		return;
	}
	ck_assert_uint_eq(costs[0], at->dirty);
	ck_assert_uint_eq(costs[1], at->write + 7);
	ck_assert_uint_eq(costs[2], at->clean);
	ck_assert_uint_eq(costs[3], 1);
	ck_assert_uint_eq(sim_transfers[_i], 3);
}
END_TEST

/* Ways differ: by no more than is said, and not always to one side. */
enum { WAYS = 100 };

static unsigned below, above;

static void dirties_many(unsigned number)
{
	(void)number;
	for (unsigned i = 0; i < WAYS; i++)
		cost(HN_ADD, i);
}

static void reads_many(unsigned number)
{
	const unsigned dirty = machine.at[SIM_SYSTEM].dirty, most = machine.at[SIM_SYSTEM].clean / 2 / 4;

	(void)number;
	sim_work(1000000);
	for (unsigned i = 0; i < WAYS; i++) {
		unsigned took = (unsigned)cost(HN_LOAD, i);

		ck_assert_uint_ge(took, dirty - most);
		ck_assert_uint_le(took, dirty + most);
		below += took < dirty - most / 2;
		above += took > dirty + most / 2;
	}
}

START_TEST(at_about_a_distance)
{
	sim_machine.vary = 25;
	sim_spawn(dirties_many, 0, 0);
	sim_spawn(reads_many, 1, 16);
	run();
	ck_assert_uint_ge(below, WAYS / 10);
	ck_assert_uint_ge(above, WAYS / 10);
}
END_TEST

/* ---- two who increment one word in turn: as often as the line can travel ---- */

static uint64_t word;
static uint64_t last;

static void in_turn(unsigned number)
{
	uint64_t *p = (uint64_t *)(void *)memory;

	for (;;) {
		cost(HN_LOAD, 0);
		if (*p >= 1000)
			break;
		if (*p % 2 == number) {
			cost(HN_ADD, 0);
			++*p;
			last = sim_now;
		} else {
			sim_line_spin(1000);
		}
	}
}

START_TEST(ping_pong)
{
	static const unsigned cpus[SIM_LEVELS] = {1, 2, 4, 8, 16};
	const struct sim_latency *at = &machine.at[_i];
	uint64_t each;

	sim_spawn(in_turn, 0, 0);
	sim_spawn(in_turn, 1, cpus[_i]);
	run();
	each = last / 1000;
	ck_assert_uint_ge(each, at->clean);
	ck_assert_uint_le(each, at->dirty + at->write + 50);
}
END_TEST

/* ---- many who want one line take turns ---- */

static void adds(unsigned number)
{
	(void)number;
	for (int i = 0; i < 100; i++) {
		cost(HN_ADD, 0);
		word++;
	}
	last = sim_now > last ? sim_now : last;
}

START_TEST(crowd)
{
	word = last = 0;
	for (unsigned i = 0; i < 8; i++)
		sim_spawn(adds, i, i * 4);
	run();
	ck_assert_uint_eq(word, 800);
	/* They live in groups of their own: a transfer takes 200 at least, half of it on the way
	 * while the others go on; who has the line gets in a few of its own before it goes. */
	ck_assert_uint_ge(last, 800 * 50);
	ck_assert_uint_le(last, 800 * 40000);
}
END_TEST

/* ---- CPUs ---- */

static uint64_t finished[8];

static void works(unsigned number)
{
	sim_work(5000000);
	finished[number] = sim_now;
}

START_TEST(quanta)
{
	for (unsigned i = 0; i < 64; i++)
		sim_spawn(i < 8 ? works : adds, i % 8, i < 8 ? 0 : 1 + i % 31);
	/* Idle CPUs take over what waits. */
	run();
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_lt(finished[i], 5000000 * 3);
	ck_assert_uint_gt(sim_counts.switches, 0);
	ck_assert_uint_gt(sim_counts.migrated, 0);
}
END_TEST

static void works_everywhere(unsigned number)
{
	sim_work(5000000);
	finished[number % 8] = sim_now;
}

START_TEST(preemption)
{
	for (unsigned i = 0; i < 64; i++)
		sim_spawn(works_everywhere, i, i % 32);
	run();
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_uint_gt(finished[i], 5000000 * 2 - 2 * 1000000);
		ck_assert_uint_lt(finished[i], 5000000 * 2 + 100000);
	}
	ck_assert_uint_ge(sim_counts.preempted, 32 * 8);
}
END_TEST

/* ---- futexes ---- */

static int futex_word;
static long results[2];
static uint64_t woken_at, woke_at;

static long futex(int op, long value, const struct timespec *until)
{
	return hn_syscall(SYS_futex, (long)&futex_word, op | FUTEX_PRIVATE_FLAG, value, (long)until, 0, ~0L);
}

static void sleeps(unsigned number)
{
	results[number] = futex(FUTEX_WAIT_BITSET, 0, NULL);
	woken_at = sim_now;
}

static void wakes(unsigned number)
{
	sim_work(100000);
	futex_word = 1;
	woke_at = sim_now;
	results[number] = futex(FUTEX_WAKE, 1, NULL);
}

START_TEST(sleep_and_wake)
{
	sim_spawn(sleeps, 0, 0);
	sim_spawn(wakes, 1, 16);
	run();
	ck_assert_int_eq(results[0], 0);
	ck_assert_int_eq(results[1], 1);
	ck_assert_uint_ge(woken_at - woke_at, machine.wakeup + machine.wake);
	ck_assert_uint_le(woken_at - woke_at, machine.wakeup + machine.wake + 100000);
	ck_assert_uint_eq(sim_counts.parks, 1);
}
END_TEST

static void sleeps_until(unsigned number)
{
	struct timespec until = sim_clock();

	until.tv_nsec += 200000;
	woke_at = sim_now + 200000;
	results[number] = futex(FUTEX_WAIT_BITSET, 0, &until);
	woken_at = sim_now;
}

START_TEST(deadline)
{
	futex_word = 0;
	sim_spawn(sleeps_until, 0, 0);
	run();
	ck_assert_int_eq(results[0], -110); /* ETIMEDOUT */
	ck_assert_uint_ge(woken_at, 200000);
	ck_assert_uint_le(woken_at, 200000 + 20000);
}
END_TEST

/* A thread is woken, which takes a while, and its deadline passes meanwhile. */
static void wakes_late(unsigned number)
{
	sim_work(10000);
	sim_work(woke_at - sim_now - 600);
	results[number] = futex(FUTEX_WAKE, 1, NULL);
}

START_TEST(woken_at_the_deadline)
{
	sim_spawn(sleeps_until, 0, 0);
	sim_spawn(wakes_late, 1, 2);
	run();
	ck_assert_int_eq(results[1], 1);
	ck_assert_int_eq(results[0], 0);
}
END_TEST

START_TEST(deadlock)
{
	sim_spawn(sleeps, 0, 0);
	ck_assert_int_eq(sim_run(UINT64_MAX / 2), SIM_DEADLOCK);
}
END_TEST

static void endless(unsigned number)
{
	(void)number;
	for (;;)
		sim_work(1000);
}

START_TEST(no_end)
{
	sim_spawn(endless, 0, 0);
	ck_assert_int_eq(sim_run(1000000), SIM_TOO_LONG);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("simulated machine");
	TCase *lines = tcase_create("lines"), *cpus = tcase_create("cpus");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(lines, setup, NULL);
	tcase_add_test(lines, places_to_spare);
	tcase_add_test(lines, alone);
	tcase_add_loop_test(lines, at_a_distance, 0, SIM_LEVELS);
	tcase_add_test(lines, at_about_a_distance);
	tcase_add_loop_test(lines, ping_pong, 1, SIM_LEVELS);
	tcase_add_test(lines, crowd);
	suite_add_tcase(s, lines);
	tcase_add_checked_fixture(cpus, setup, NULL);
	tcase_add_test(cpus, quanta);
	tcase_add_test(cpus, preemption);
	tcase_add_test(cpus, sleep_and_wake);
	tcase_add_test(cpus, deadline);
	tcase_add_test(cpus, woken_at_the_deadline);
	tcase_add_test(cpus, deadlock);
	tcase_add_test(cpus, no_end);
	suite_add_tcase(s, cpus);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
