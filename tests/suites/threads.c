/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite threads: threads that come and go, many at once, and locking in the last moments of a thread's life.
 *
 * It would catch a thread record that is lost with its thread (growth), one that is given back too early (a
 * destructor still locks) or twice, a fixed number of threads, a lock that is a cancellation point, and a process
 * that needs its first thread.
 */

#include "suite.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	pthread_mutex_t m;
	volatile unsigned long count;
	volatile int inside;
} hall = {.m = PTHREAD_MUTEX_INITIALIZER};

static void hall_pass(uint32_t luck)
{
	MUST(pthread_mutex_lock(&hall.m));
	if (hall.inside)
		complain("two inside");
	hall.inside = 1;
	hall.count++;
	if (luck % 16 == 0)
		sched_yield();
	hall.inside = 0;
	MUST(pthread_mutex_unlock(&hall.m));
}

/* ---- 100,000 short threads ---- */

enum { SHORT_THREADS = 100000, WAVE = 16, WARM = 10 * WAVE, SMALL_STACK = 64 * 1024, PASSES = 4 };

/* Below one cache line for each thread after the warm-up, above what the allocator and the kernel do alone. */
enum { GROWTH_KIB = 512 };

static pthread_t small_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SMALL_STACK);
	rc = pthread_create(&thread, &attr, run, arg);
	if (rc) {
		say("pthread_create: %s", strerror(rc));
		exit(EXIT_FAILURE);
	}
	pthread_attr_destroy(&attr);
	return thread;
}

static void *short_life(void *arg)
{
	uint32_t luck = (uintptr_t)arg * 2654435761u | 1;

	for (int i = 0; i < PASSES; i++)
		hall_pass(dice(&luck));
	return NULL;
}

/*
 * Lives through lives of the given kind in waves; fails if memory grew after the warm-up, its first fifth.  Where that
 * is slow (huge spin budgets on few CPUs) the time ends it.  Returns how many there were.
 */
static int no_growth(void *(*life)(void *), int lives, uint64_t ms)
{
	uint64_t start = now_ns(), limit = suite_scale(ms) * 1000000;
	int warm = 0, n;
	struct memory before = {0, 0}, after;
	pthread_t wave[WAVE];

	mallopt(M_ARENA_MAX, 1); /* the allocator's own growth is not the question */
	for (n = 0; n < 2 * WARM || (n < lives && now_ns() - start < limit); n += WAVE) {
		if (!before.mapped && (n >= lives / 5 || (n >= WARM && now_ns() - start > limit / 5))) {
			before = memory_now();
			warm = n;
		}
		for (int i = 0; i < WAVE; i++)
			wave[i] = small_thread(life, (void *)(uintptr_t)(n + i + 1));
		for (int i = 0; i < WAVE; i++)
			pthread_join(wave[i], NULL);
		if (complained())
			break;
	}
	assert_no_complaint();
	after = memory_now();
	say("threads: %d after the first %d: %+ld KiB touched, %+ld KiB mapped", n - warm, warm,
	    after.touched - before.touched, after.mapped - before.mapped);
	ck_assert_msg(after.touched - before.touched <= GROWTH_KIB, "%ld KiB more are touched after %d threads",
		      after.touched - before.touched, n - warm);
	ck_assert_msg(after.mapped - before.mapped <= GROWTH_KIB, "%ld KiB more are mapped after %d threads",
		      after.mapped - before.mapped, n - warm);
	return n;
}

START_TEST(short_threads)
{
	int lives = no_growth(short_life, suite_scale(SHORT_THREADS), 30000);

	ck_assert_uint_eq(hall.count, (unsigned long)lives * PASSES);
	ck_assert_int_ne(suite_entered(), 0);
}
END_TEST

/* ---- destructors ---- */

enum { ROUNDS = 4, KEYS = 3 }; /* PTHREAD_DESTRUCTOR_ITERATIONS */

extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso);
extern void *__dso_handle;

static pthread_key_t keys[KEYS];
static _Thread_local int rounds_left[KEYS];
static atomic_ulong key_destructions, tls_destructions;

static void key_destructor(void *value)
{
	uintptr_t key = (uintptr_t)value - 1;

	atomic_fetch_add(&key_destructions, 1);
	hall_pass(0);
	hall_pass(1);
	if (--rounds_left[key] > 0)
		pthread_setspecific(keys[key], value); /* once more, please */
}

/* As a C++ compiler destroys thread_local objects: before the keys' destructors. */
static void tls_destructor(void *object)
{
	(void)object;
	atomic_fetch_add(&tls_destructions, 1);
	hall_pass(0);
	hall_pass(1);
}

static void *life_with_destructors(void *arg)
{
	uintptr_t n = (uintptr_t)arg;

	if (n % 3)
		hall_pass(n);
	for (uintptr_t key = 0; key < KEYS; key++) {
		rounds_left[key] = ROUNDS;
		pthread_setspecific(keys[key], (void *)(key + 1));
	}
	__cxa_thread_atexit_impl(tls_destructor, NULL, &__dso_handle);
	if (n % 3 == 2)
		hall_pass(n); /* for n % 3 == 0, a destructor is the first to lock in this thread */
	if (n % 5 == 0)
		pthread_exit(NULL);
	return NULL;
}

START_TEST(destructors)
{
	int lives;

	for (int i = 0; i < KEYS; i++)
		ck_assert_int_eq(pthread_key_create(&keys[i], key_destructor), 0);
	lives = no_growth(life_with_destructors, suite_scale(12000), 8000);
	ck_assert_uint_eq(atomic_load(&key_destructions), (unsigned long)lives * KEYS * ROUNDS);
	ck_assert_uint_eq(atomic_load(&tls_destructions), lives);
}
END_TEST

/* ---- many at once ---- */

enum { MANY = 1000 };

static atomic_int many_ready;

static void *one_of_many(void *arg)
{
	uint32_t luck = (uintptr_t)arg;

	atomic_fetch_add(&many_ready, 1);
	hall_pass(dice(&luck));
	for (int i = 0; i < 5; i++) {
		struct timespec t = deadline(CLOCK_REALTIME, dice(&luck) % 20000000);
		int rc = pthread_mutex_timedlock(&hall.m, &t);

		if (rc == 0)
			MUST(pthread_mutex_unlock(&hall.m));
		else
			WANT(rc, ETIMEDOUT);
	}
	hall_pass(luck);
	return NULL;
}

START_TEST(a_thousand_at_once)
{
	int size = suite_scale(MANY);
	pthread_t *thread = calloc(size, sizeof *thread);

	ck_assert_int_eq(pthread_mutex_lock(&hall.m), 0);
	for (int i = 0; i < size; i++)
		thread[i] = small_thread(one_of_many, (void *)(uintptr_t)(i + 1));
	while (atomic_load(&many_ready) < size)
		sleep_us(1000);
	sleep_us(20000);
	ck_assert_int_eq(pthread_mutex_unlock(&hall.m), 0);
	for (int i = 0; i < size; i++)
		pthread_join(thread[i], NULL);
	assert_no_complaint();
	ck_assert_uint_eq(hall.count, 2UL * size);
	ck_assert_int_eq(pthread_mutex_destroy(&hall.m), 0);
	free(thread);
}
END_TEST

/* ---- cancellation: lock is not a cancellation point, whatever happens while it waits ---- */

enum { VICTIMS = 8 };

static struct {
	atomic_int waiting, had_it, outlived;
	bool timed;
} fate;

static void *victim(void *arg)
{
	struct timespec t = deadline(CLOCK_REALTIME, 60000000000);
	(void)arg;

	atomic_fetch_add(&fate.waiting, 1);
	MUST(fate.timed ? pthread_mutex_timedlock(&hall.m, &t) : pthread_mutex_lock(&hall.m));
	hall.count++;
	atomic_fetch_add(&fate.had_it, 1);
	MUST(pthread_mutex_unlock(&hall.m));
	MUST(pthread_mutex_trylock(&hall.m) ? 0 : pthread_mutex_unlock(&hall.m));
	pthread_testcancel();
	atomic_fetch_add(&fate.outlived, 1);
	return NULL;
}

START_TEST(cancelled_while_waiting)
{
	int rounds = suite_scale(25);

	for (int round = 0; round < rounds; round++) {
		pthread_t thread[VICTIMS];

		fate.timed = round % 2;
		atomic_store(&fate.waiting, 0);
		ck_assert_int_eq(pthread_mutex_lock(&hall.m), 0);
		for (int i = 0; i < VICTIMS; i++)
			thread[i] = small_thread(victim, NULL);
		while (atomic_load(&fate.waiting) < VICTIMS)
			sleep_us(50);
		sleep_us(round % 4 * 1000);
		for (int i = 0; i < VICTIMS; i++)
			ck_assert_int_eq(pthread_cancel(thread[i]), 0);
		sleep_us(500);
		ck_assert_int_eq(pthread_mutex_unlock(&hall.m), 0);
		for (int i = 0; i < VICTIMS; i++) {
			void *end;

			pthread_join(thread[i], &end);
			ck_assert_ptr_eq(end, PTHREAD_CANCELED);
		}
		assert_no_complaint();
	}
	ck_assert_uint_eq(hall.count, (unsigned long)rounds * VICTIMS);
	ck_assert_int_eq(atomic_load(&fate.had_it), rounds * VICTIMS);
	ck_assert_int_eq(atomic_load(&fate.outlived), 0);
	ck_assert_int_eq(pthread_mutex_trylock(&hall.m), 0);
}
END_TEST

/* Threads that are cancelled or leave between locks, holding nothing; the others go on. */
static void *leaver(void *arg)
{
	uint32_t luck = (uintptr_t)arg * 7919 | 1;

	for (int i = 0;; i++) {
		hall_pass(dice(&luck));
		if ((uintptr_t)arg % 2 && i == 20)
			pthread_exit(NULL);
		pthread_testcancel();
	}
	return NULL;
}

START_TEST(leaving_between_locks)
{
	uint64_t end_ns = now_ns() + suite_scale(1500) * 1000000;

	for (int round = 0; round < (int)suite_scale(50) && now_ns() < end_ns; round++) {
		pthread_t thread[VICTIMS];

		for (int i = 0; i < VICTIMS; i++)
			thread[i] = small_thread(leaver, (void *)(uintptr_t)(round * VICTIMS + i));
		sleep_us(round * 37 % 1000);
		for (int i = 0; i < VICTIMS; i++)
			pthread_cancel(thread[i]); /* one that has left is still joinable */
		for (int i = 0; i < VICTIMS; i++)
			pthread_join(thread[i], NULL);
		assert_no_complaint();
	}
	ck_assert_int_eq(pthread_mutex_destroy(&hall.m), 0);
}
END_TEST

/* ---- the first thread leaves while the others contend; the last one ends the process ---- */

enum { HEIRS = 6 };

static void heir(int index, void *arg)
{
	atomic_int *left = arg;
	uint32_t luck = index + 1;

	for (int i = 0; i < 300; i++)
		hall_pass(dice(&luck));
	if (atomic_fetch_sub(left, 1) == 1) {
		if (hall.count != HEIRS * 300)
			complain("%lu passes, not %d", hall.count, HEIRS * 300);
		child_exit();
	}
}

START_TEST(first_thread_leaves)
{
	uint64_t end_ns = now_ns() + suite_scale(1500) * 1000000;

	for (int round = 0; round < (int)suite_scale(20) && now_ns() < end_ns; round++) {
		pid_t child = fork();

		if (child == 0) {
			static atomic_int left = HEIRS;

			alarm(60);
			MUST(pthread_mutex_lock(&hall.m));
			team_start(HEIRS, heir, &left);
			sleep_us(round % 3 * 1000);
			MUST(pthread_mutex_unlock(&hall.m));
			pthread_exit(NULL);
		}
		child_reap(child, "a process without its first thread");
		assert_no_complaint();
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_make("threads");

	SUITE_CASE(s, short_threads, 300);
	SUITE_CASE(s, destructors, 120);
	SUITE_CASE(s, a_thousand_at_once, 300);
	SUITE_CASE(s, cancelled_while_waiting, 120);
	SUITE_CASE(s, leaving_between_locks, 120);
	SUITE_CASE(s, first_thread_leaves, 120);
	return suite_run(s);
}
