/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite spinlock: spin locks exclude, between threads and processes, whoever's functions are used, and everybody gets
 * one in the end.
 *
 * It would catch: a lock taken without looking, a value that glibc's code does not understand, a waiter that stays in
 * line behind one that was cancelled, interrupted or forked away, memory for each lock, and a crowd that spins while
 * the holder waits for a CPU (that glibc does not promise; there it is only printed).
 */

#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CROWD = 32, LOCKS = 64, PROCESSES = 4 };

/* What glibc's functions leave in the 4 bytes: x86 counts down from 1. */
#if defined(__x86_64__) || defined(__i386__)
#define FREE 1
static bool is_held(int value)
{
	return value <= 0 && value > -1000;
}
#else
#define FREE 0
static bool is_held(int value)
{
	return value == 1;
}
#endif

struct spin_api {
	int (*lock)(pthread_spinlock_t *);
	int (*trylock)(pthread_spinlock_t *);
	int (*unlock)(pthread_spinlock_t *);
};

static const struct spin_api bound = {pthread_spin_lock, pthread_spin_trylock, pthread_spin_unlock};
static struct spin_api glibc;

/* A handle's search does not pass through preloaded objects. */
static void find_glibc(void)
{
	void *home = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!dlsym(home, "pthread_spin_lock")) /* until 2.33 */
		home = dlopen("libpthread.so.0", RTLD_LAZY);
	*(void **)&glibc.lock = dlsym(home, "pthread_spin_lock");
	*(void **)&glibc.trylock = dlsym(home, "pthread_spin_trylock");
	*(void **)&glibc.unlock = dlsym(home, "pthread_spin_unlock");
	ck_assert(glibc.lock && glibc.trylock && glibc.unlock);
	ck_assert_int_eq(glibc.lock != bound.lock, suite_preloaded());
	ck_assert_int_eq(glibc.trylock != bound.trylock, suite_preloaded());
	ck_assert_int_eq(glibc.unlock != bound.unlock, suite_preloaded());
}

/* Waiting is the library's own, and those who wait are not told to spin for milliseconds. */
static bool ours(void)
{
	const char *mode = getenv("PARKADE_SPINLOCK"), *spin = getenv("PARKADE_SPIN");

	return suite_entered() >= 0 && !(mode && strcmp(mode, "off") == 0) && (!spin || atoi(spin) <= 1000);
}

/* ---- the functions ---- */

START_TEST(values)
{
	pthread_spinlock_t l = 77;

	errno = 4711;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_spin_init(&l, i ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE), 0);
		ck_assert_int_eq(l, FREE);
		ck_assert_int_eq(pthread_spin_lock(&l), 0);
		ck_assert(is_held(l));
		ck_assert_int_eq(pthread_spin_trylock(&l), EBUSY);
		ck_assert(is_held(l));
		ck_assert_int_eq(pthread_spin_unlock(&l), 0);
		ck_assert_int_eq(l, FREE);
		ck_assert_int_eq(pthread_spin_trylock(&l), 0);
		ck_assert(is_held(l));
		ck_assert_int_eq(pthread_spin_unlock(&l), 0);
		ck_assert_int_eq(l, FREE);
		ck_assert_int_eq(pthread_spin_destroy(&l), 0);
		ck_assert_int_eq(l, FREE);
	}
	ck_assert_int_eq(errno, 4711);
}
END_TEST

/* ---- exclusion ---- */

struct guarded {
	pthread_spinlock_t l;
	volatile unsigned count;
	volatile int holder;
};

/* Shared with children. */
static struct field {
	struct guarded g[LOCKS];
	int locks;
	bool mixed; /* each call is of glibc's functions or of the bound ones, by chance */
	unsigned per_thread;
	atomic_ulong sections;
	atomic_bool over;
} * field;

static void field_make(int locks, unsigned sections, int threads)
{
	field = mmap(NULL, sizeof *field, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(field, MAP_FAILED);
	find_glibc();
	field->locks = locks;
	field->per_thread = suite_scale(sections) / threads + 1;
	for (int i = 0; i < locks; i++)
		ck_assert_int_eq(pthread_spin_init(&field->g[i].l, PTHREAD_PROCESS_SHARED), 0);
}

static void field_end(void)
{
	unsigned long count = 0;

	assert_no_complaint();
	for (int i = 0; i < field->locks; i++) {
		count += field->g[i].count;
		ck_assert_int_eq(field->g[i].l, FREE);
	}
	ck_assert_uint_eq(count, atomic_load(&field->sections));
}

static const struct spin_api *side(uint32_t luck)
{
	return field->mixed && luck & 0x100 ? &glibc : &bound;
}

static void exclude_body(int index, void *arg)
{
	uint32_t luck = 0x9e3779b9u * (index + 1) ^ getpid();
	unsigned long sections = 0;
	(void)arg;

	while (sections < field->per_thread && !complained()) {
		struct guarded *g = &field->g[dice(&luck) % field->locks];

		if (luck % 8 == 0) {
			int rc = side(dice(&luck))->trylock(&g->l);

			if (rc == EBUSY)
				continue;
			WANT(rc, 0);
		} else {
			WANT(side(dice(&luck))->lock(&g->l), 0);
		}
		if (g->holder)
			complain("two are inside");
		g->holder = index + 1;
		g->count++;
		if (luck % 1024 == 1)
			sched_yield(); /* be scheduled out while holding it */
		if (!is_held(g->l))
			complain("held, and the value is %d", g->l);
		if (g->holder != index + 1)
			complain("another came in");
		g->holder = 0;
		WANT(side(dice(&luck))->unlock(&g->l), 0);
		sections++;
	}
	atomic_fetch_add(&field->sections, sections);
}

static const struct {
	int threads, locks;
} crowds[] = {{2, 1}, {4, 1}, {8, 1}, {CROWD, 1}, {4, 3}, {CROWD, LOCKS}};

START_TEST(exclusion)
{
	field_make(crowds[_i].locks, 100000, crowds[_i].threads);
	team_run(crowds[_i].threads, exclude_body, NULL);
	field_end();
}
END_TEST

START_TEST(two_sides)
{
	field_make(crowds[_i].locks, 50000, crowds[_i].threads);
	field->mixed = true;
	team_run(crowds[_i].threads, exclude_body, NULL);
	field_end();
}
END_TEST

START_TEST(between_processes)
{
	pid_t child[PROCESSES];

	field_make(crowds[_i].locks, 50000, PROCESSES * crowds[_i].threads);
	field->mixed = true;
	for (int i = 0; i < PROCESSES; i++)
		if ((child[i] = fork()) == 0) {
			alarm(60);
			team_run(crowds[_i].threads, exclude_body, NULL);
			child_exit();
		}
	for (int i = 0; i < PROCESSES; i++)
		child_reap(child[i], "a process");
	field_end();
}
END_TEST

/* Whatever value is seen, it is one of glibc's. */
static void watch_body(int index, void *arg)
{
	if (index) {
		exclude_body(index, arg);
		atomic_store(&field->over, true);
		return;
	}
	while (!atomic_load(&field->over) && !complained()) {
		int value = __atomic_load_n(&field->g[0].l, __ATOMIC_RELAXED);

		if (value != FREE && !is_held(value))
			complain("the value is %d", value);
	}
}

START_TEST(values_at_every_instant)
{
	field_make(1, 50000, 4);
	team_run(5, watch_body, NULL);
	field_end();
}
END_TEST

/* ---- everybody gets it ---- */

static const uint64_t BOUND_NS = 2000000000;

static struct {
	pthread_spinlock_t l;
	volatile unsigned long count;
	uint64_t end_ns;
	atomic_ulong worst_ns, sections;
} run;

static void progress_body(int index, void *arg)
{
	uint64_t last = now_ns(), now, worst = 0;
	unsigned long sections = 0;
	uint32_t luck = index + 1;
	(void)arg;

	do {
		MUST(pthread_spin_lock(&run.l));
		run.count++;
		now = now_ns();
		MUST(pthread_spin_unlock(&run.l));
		worst = now - last > worst ? now - last : worst;
		last = now;
		sections++;
		for (volatile int i = dice(&luck) % 200; i > 0; i--)
			;
	} while (now < run.end_ns && !complained());
	atomic_fetch_add(&run.sections, sections);
	for (unsigned long seen = atomic_load(&run.worst_ns); seen < worst;)
		if (atomic_compare_exchange_weak(&run.worst_ns, &seen, worst))
			break;
}

START_TEST(nobody_starves)
{
	uint64_t stood_still = 0, last = now_ns();
	struct team *t;

	ck_assert_int_eq(pthread_spin_init(&run.l, PTHREAD_PROCESS_PRIVATE), 0);
	run.end_ns = now_ns() + suite_scale(1500) * 1000000;
	t = team_start(CROWD, progress_body, NULL);
	while (last < run.end_ns) {
		uint64_t now;

		sleep_us(10000);
		now = now_ns();
		if (now - last > 10000000 + stood_still)
			stood_still = now - last - 10000000;
		last = now;
	}
	team_join(t);
	assert_no_complaint();
	ck_assert_uint_eq(run.count, atomic_load(&run.sections));
	say("spinlock: %d threads, %lu sections, longest wait %.3f s; machine stood still %.3f s; yielded %lld times, "
	    "queued %lld times",
	    CROWD, run.count, atomic_load(&run.worst_ns) / 1e9, stood_still / 1e9, (long long)suite_counter("yielded"),
	    (long long)suite_counter("spun"));
	if (ours())
		ck_assert_uint_le(atomic_load(&run.worst_ns), BOUND_NS + stood_still);
}
END_TEST

/* All on one CPU, and the holder has lost it: those who wait give it back. */
static void one_cpu_body(int index, void *arg)
{
	cpu_set_t one = *(cpu_set_t *)arg;
	(void)index;

	sched_setaffinity(0, sizeof one, &one);
	while (now_ns() < run.end_ns) {
		MUST(pthread_spin_lock(&run.l));
		sched_yield();
		run.count++;
		MUST(pthread_spin_unlock(&run.l));
	}
}

START_TEST(holder_gets_the_cpu)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(pthread_spin_init(&run.l, PTHREAD_PROCESS_PRIVATE), 0);
	run.end_ns = now_ns() + 1000000000;
	team_run(8, one_cpu_body, &one);
	assert_no_complaint();
	say("spinlock: 8 threads on one CPU: %lu sections in a second", run.count);
	if (ours()) {
		ck_assert_int_gt(suite_counter("yielded"), 0);
		ck_assert_uint_ge(run.count, 500);
	}
}
END_TEST

/* ---- interruptions ---- */

/* Threads that wait for `door`, and count when they are in. */
static struct {
	pthread_spinlock_t door, other;
	atomic_int at_door, in, interrupted;
	pid_t child;
	bool forks;
} house;

static void house_make(void)
{
	ck_assert_int_eq(pthread_spin_init(&house.door, PTHREAD_PROCESS_PRIVATE), 0);
	ck_assert_int_eq(pthread_spin_init(&house.other, PTHREAD_PROCESS_PRIVATE), 0);
}

static void enter_body(int index, void *arg)
{
	(void)index;
	if (arg)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	atomic_fetch_add(&house.at_door, 1);
	MUST(pthread_spin_lock(&house.door));
	atomic_fetch_add(&house.in, 1);
	MUST(pthread_spin_unlock(&house.door));
}

/* Until so many wait; on a busy machine the last ones may not quite, and then less is tested. */
static void await_waiters(int n)
{
	while (atomic_load(&house.at_door) < n)
		sleep_us(100);
	sleep_us(20000);
}

/* Some are cancelled while they wait, though POSIX lets no program count on that: those behind them get in. */
START_TEST(cancelled_waiters)
{
	enum { GONE = 8, BEHIND = 8 };
	struct team *gone, *behind;

	house_make();
	ck_assert_int_eq(pthread_spin_lock(&house.door), 0);
	gone = team_start(GONE, enter_body, &house);
	await_waiters(GONE);
	behind = team_start(BEHIND, enter_body, NULL);
	await_waiters(GONE + BEHIND);
	for (int i = 0; i < GONE; i++)
		ck_assert_int_eq(pthread_cancel(team_thread(gone, i)), 0);
	team_join(gone);
	ck_assert_int_eq(atomic_load(&house.in), 0);
	ck_assert_int_eq(pthread_spin_unlock(&house.door), 0);
	team_join(behind);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&house.in), BEHIND);
	/* And the lock is as good as any. */
	team_run(8, enter_body, NULL);
	assert_no_complaint();
	ck_assert_int_eq(house.door, FREE);
}
END_TEST

/* A handler that takes another lock, and the very one for which its thread waits. */
static void on_signal(int number)
{
	(void)number;
	if (house.forks && (house.child = fork()) == 0) {
		alarm(20);
		/* Of all threads this one is left, and nobody to open. */
		MUST(pthread_spin_unlock(&house.door));
		return;
	}
	MUST(pthread_spin_lock(&house.other));
	MUST(pthread_spin_unlock(&house.other));
	atomic_fetch_add(&house.interrupted, 1);
	if (!house.forks) {
		MUST(pthread_spin_lock(&house.door));
		MUST(pthread_spin_unlock(&house.door));
	}
}

static void handle(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigemptyset(&action.sa_mask);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

START_TEST(locking_handlers)
{
	struct team *t;

	house_make();
	handle();
	for (int round = 0; round < 4; round++) {
		atomic_store(&house.at_door, 0);
		atomic_store(&house.interrupted, 0);
		ck_assert_int_eq(pthread_spin_lock(&house.door), 0);
		t = team_start(8, enter_body, NULL);
		await_waiters(8);
		for (int i = 0; i < 8; i += 2)
			ck_assert_int_eq(pthread_kill(team_thread(t, i), SIGUSR1), 0);
		while (atomic_load(&house.interrupted) < 4)
			sleep_us(100);
		sleep_us(2000);
		ck_assert_int_eq(pthread_spin_unlock(&house.door), 0);
		team_join(t);
		assert_no_complaint();
	}
	ck_assert_int_eq(atomic_load(&house.in), 32);
	ck_assert_int_eq(house.other, FREE);
}
END_TEST

/* ---- fork ---- */

/* By the holder, while others wait: in the child nobody does, and new threads may. */
START_TEST(fork_by_the_holder)
{
	struct team *t;
	pid_t child;

	house_make();
	ck_assert_int_eq(pthread_spin_lock(&house.door), 0);
	t = team_start(8, enter_body, NULL);
	await_waiters(8);
	if ((child = fork()) == 0) {
		struct team *own;

		alarm(20);
		own = team_start(8, enter_body, NULL);
		sleep_us(20000);
		if (atomic_load(&house.in))
			complain("in though it was locked");
		MUST(pthread_spin_unlock(&house.door));
		team_join(own);
		if (atomic_load(&house.in) != 8)
			complain("%d were in", atomic_load(&house.in));
		child_exit();
	}
	ck_assert_int_eq(pthread_spin_unlock(&house.door), 0);
	team_join(t);
	child_reap(child, "the child");
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&house.in), 8);
}
END_TEST

/* In a handler, while the thread waits: in the child the wait goes on. */
static void fork_body(int index, void *arg)
{
	pid_t parent = getpid();

	enter_body(index, arg);
	if (getpid() != parent) {
		team_run(8, enter_body, NULL);
		if (atomic_load(&house.in) != 9)
			complain("%d were in", atomic_load(&house.in));
		child_exit();
	}
}

START_TEST(fork_in_a_handler)
{
	struct team *t;

	house_make();
	handle();
	house.forks = true;
	ck_assert_int_eq(pthread_spin_lock(&house.door), 0);
	t = team_start(6, fork_body, NULL);
	await_waiters(6);
	ck_assert_int_eq(pthread_kill(team_thread(t, 3), SIGUSR1), 0);
	while (!atomic_load(&house.interrupted))
		sleep_us(100);
	child_reap(house.child, "the child");
	ck_assert_int_eq(pthread_spin_unlock(&house.door), 0);
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&house.in), 6);
}
END_TEST

/* ---- memory ---- */

enum { MILLION = 1000000 };

static pthread_spinlock_t *million;

static void million_body(int index, void *arg)
{
	(void)index;
	(void)arg;
	for (int i = 0; i < MILLION; i++) {
		pthread_spin_lock(&million[i]);
		if (i % 4096 == 0)
			sched_yield(); /* the others come along */
		pthread_spin_unlock(&million[i]);
	}
}

START_TEST(a_million_locks)
{
	struct memory before, after;

	million = calloc(MILLION, sizeof *million);
	for (int i = 0; i < MILLION; i++)
		pthread_spin_init(&million[i], PTHREAD_PROCESS_PRIVATE);
	team_run(4, enter_body, (house_make(), NULL)); /* what threads cost, too */
	before = memory_now();
	team_run(4, million_body, NULL);
	after = memory_now();
	assert_no_complaint();
	/* A storey for each socket, at most. */
	ck_assert_int_le(after.touched - before.touched, 1024);
	for (int i = 0; i < MILLION; i++)
		ck_assert_int_eq(million[i], FREE);
	free((void *)million);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("spinlock");

	SUITE_CASE(s, values, 10);
	SUITE_CASE_OF(s, exclusion, 60, 6);
	SUITE_CASE_OF(s, two_sides, 60, 6);
	SUITE_CASE_OF(s, between_processes, 60, 2);
	SUITE_CASE(s, values_at_every_instant, 60);
	SUITE_CASE(s, nobody_starves, 60);
	SUITE_CASE(s, holder_gets_the_cpu, 60);
	SUITE_CASE(s, cancelled_waiters, 60);
	SUITE_CASE(s, locking_handlers, 60);
	SUITE_CASE(s, fork_by_the_holder, 60);
	SUITE_CASE(s, fork_in_a_handler, 60);
	SUITE_CASE(s, a_million_locks, 60);
	return suite_run(s);
}
