/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite stuck: a thread that waits for a lock is held up in a signal handler, and others want the lock meanwhile.
 *
 * It would catch: a place in a queue that keeps those behind it from a free lock, wherever it is in the queue, and however
 * they wait.
 */

#include "held-up.h"

#include <signal.h>

enum { HELD_MS = 400 };

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

/* The one that is held up has so many before it. */
enum { PLACES = 3 };

START_TEST(in_the_queue_of_a_mutex)
{
	pthread_t thread[PLACES + BEHIND];
	int victim = _i % PLACES;

	mutex_make(&hall.m, kinds[_i].type);
	held_up_begin();
	MUST(pthread_mutex_lock(&hall.m));
	for (int i = 0; i < PLACES + BEHIND; i++) {
		thread[i] = thread_start(lock_m, i % 2 ? &through : NULL);
		let_sleep();
	}
	hold_up(thread[victim]);
	MUST(pthread_mutex_unlock(&hall.m));
	SOON(atomic_load(&through) == PLACES + BEHIND - 1);
	MUST(pthread_mutex_lock(&hall.m)); /* and new ones come in */
	MUST(pthread_mutex_unlock(&hall.m));
	let_go_on();
	for (int i = 0; i < PLACES + BEHIND; i++)
		MUST(pthread_join(thread[i], NULL));
	FIELDS(&hall.m, 0, 0, 0);
	MUST(pthread_mutex_destroy(&hall.m));
}
END_TEST

/* Again and again: no thread can leave more places behind than it has nodes. */
enum { TIMES = 4 };

static atomic_int times;

static void *lock_often(void *timed)
{
	for (int i = 1; i <= TIMES; i++) {
		while (atomic_load(&times) < i)
			sleep_us(100);
		lock_m(timed);
	}
	return NULL;
}

START_TEST(in_the_way_for_long)
{
	pthread_t victim, thread[BEHIND];

	mutex_make(&hall.m, PTHREAD_MUTEX_NORMAL);
	held_up_begin();
	MUST(pthread_mutex_lock(&hall.m));
	victim = thread_start(lock_m, NULL);
	let_sleep();
	hold_up(victim);
	for (int i = 0; i < BEHIND; i++)
		thread[i] = thread_start(lock_often, i % 2 ? &through : NULL);
	for (int i = 1; i <= TIMES; i++) {
		atomic_store(&times, i);
		let_sleep();
		MUST(pthread_mutex_unlock(&hall.m));
		SOON(atomic_load(&through) == i * BEHIND);
		MUST(pthread_mutex_lock(&hall.m));
	}
	MUST(pthread_mutex_unlock(&hall.m));
	for (int i = 0; i < BEHIND; i++)
		MUST(pthread_join(thread[i], NULL));
	let_go_on();
	MUST(pthread_join(victim, NULL));
	FIELDS(&hall.m, 0, 0, 0);
	MUST(pthread_mutex_destroy(&hall.m));
}
END_TEST

/* Nobody is in a handler, but the lock is held for long. */
START_TEST(held_for_long)
{
	pthread_t thread[BEHIND];

	mutex_make(&hall.m, kinds[_i].type);
	MUST(pthread_mutex_lock(&hall.m));
	atomic_fetch_add(&inside, 1);
	for (int i = 0; i < BEHIND; i++)
		thread[i] = thread_start(lock_m, i % 2 ? &through : NULL);
	sleep_us(HELD_MS * 1000);
	ck_assert_int_eq(atomic_load(&through), 0);
	atomic_fetch_sub(&inside, 1);
	MUST(pthread_mutex_unlock(&hall.m));
	for (int i = 0; i < BEHIND; i++)
		MUST(pthread_join(thread[i], NULL));
	ck_assert_int_eq(atomic_load(&through), BEHIND);
	FIELDS(&hall.m, 0, 0, 0);
	assert_no_complaint();
	MUST(pthread_mutex_destroy(&hall.m));
}
END_TEST

static void nothing(int sig)
{
	(void)sig;
}

/* Who is behind gets a signal every now and then, as from a profiler. */
START_TEST(with_signals)
{
	pthread_t victim, behind;

	mutex_make(&hall.m, PTHREAD_MUTEX_NORMAL);
	held_up_begin();
	handle_signal(SIGUSR2, nothing);
	MUST(pthread_mutex_lock(&hall.m));
	victim = thread_start(lock_m, NULL);
	let_sleep();
	behind = thread_start(lock_m, NULL);
	let_sleep();
	hold_up(victim);
	MUST(pthread_mutex_unlock(&hall.m));
	for (uint64_t since = now_ns(); !atomic_load(&through);) {
		be_patient(since, "the one behind has the mutex", __LINE__);
		MUST(pthread_kill(behind, SIGUSR2));
		sleep_us(20000);
	}
	let_go_on();
	MUST(pthread_join(behind, NULL));
	MUST(pthread_join(victim, NULL));
	MUST(pthread_mutex_destroy(&hall.m));
}
END_TEST

/* Let go and taken again, until the thread that waits for it has lost patience, where that is counted. */
static bool overtake(void)
{
	int64_t before = suite_counter("impatient");

	for (int i = 0; before >= 0 && i < 200 && suite_counter("impatient") == before; i++) {
		MUST(pthread_mutex_unlock(&hall.m));
		if (pthread_mutex_trylock(&hall.m) != 0) {
			MUST(pthread_mutex_lock(&hall.m));
			return false;
		}
		sleep_us(500);
	}
	return suite_counter("impatient") > before;
}

/* Who has lost patience has those queue who find the mutex free. Once somebody has looked, and found that it does not
 * come, that is over. */
START_TEST(in_the_way_of_new_ones)
{
	int64_t entered;
	pthread_t victim;
	bool overtaken;

	mutex_make(&hall.m, PTHREAD_MUTEX_NORMAL);
	held_up_begin();
	MUST(pthread_mutex_lock(&hall.m));
	victim = thread_start(lock_m, NULL);
	let_sleep();
	overtaken = overtake();
	say("stuck: the victim was %sovertaken for long", overtaken ? "" : "not ");
	if (overtaken)
		hold_up(victim);
	MUST(pthread_mutex_unlock(&hall.m));
	MUST(pthread_mutex_lock(&hall.m));
	MUST(pthread_mutex_unlock(&hall.m));
	entered = suite_entered();
	for (int i = 0; i < 10; i++) {
		MUST(pthread_mutex_lock(&hall.m));
		MUST(pthread_mutex_unlock(&hall.m));
	}
	if (overtaken) {
		ck_assert_int_eq(suite_entered(), entered);
		let_go_on();
	}
	MUST(pthread_join(victim, NULL));
	MUST(pthread_mutex_destroy(&hall.m));
}
END_TEST

static void *write_once(void *arg)
{
	MUST(pthread_rwlock_wrlock(&rw));
	work();
	MUST(pthread_rwlock_unlock(&rw));
	atomic_fetch_add(&through, 1);
	return arg;
}

static void *read_once(void *arg)
{
	MUST(pthread_rwlock_rdlock(&rw));
	if (atomic_load(&inside))
		complain("a reader and a writer have the lock");
	sleep_us(100);
	MUST(pthread_rwlock_unlock(&rw));
	atomic_fetch_add(&through, 1);
	return arg;
}

/* A writer that waits for a writer, with writers and a reader behind it, or with readers alone. (A reader that is held
 * up has the lock.) */
START_TEST(in_front_of_a_rwlock)
{
	pthread_t thread[1 + BEHIND];
	bool alone = _i == BEHIND;

	held_up_begin();
	MUST(pthread_rwlock_wrlock(&rw));
	for (int i = 0; i < 1 + BEHIND; i++) {
		thread[i] = thread_start(i == BEHIND || (i && alone) ? read_once : write_once, NULL);
		let_sleep();
	}
	hold_up(thread[alone ? 0 : _i]);
	MUST(pthread_rwlock_unlock(&rw));
	SOON(atomic_load(&through) == BEHIND);
	let_go_on();
	for (int i = 0; i < 1 + BEHIND; i++)
		MUST(pthread_join(thread[i], NULL));
	MUST(pthread_rwlock_destroy(&rw));
}
END_TEST

/* The lock is free, and closed if the library has it so: short deadlines are enough, as with glibc. */
START_TEST(timed_past_the_front)
{
	pthread_t victim;

	held_up_begin();
	MUST(pthread_rwlock_wrlock(&rw));
	victim = thread_start(write_once, NULL);
	let_sleep();
	hold_up(victim);
	MUST(pthread_rwlock_unlock(&rw));
	for (int i = 0; i < 4; i++) {
		struct timespec t = deadline(CLOCK_REALTIME, 50000000);

		MUST(i % 2 == _i ? pthread_rwlock_timedwrlock(&rw, &t) : pthread_rwlock_timedrdlock(&rw, &t));
		MUST(pthread_rwlock_unlock(&rw));
	}
	let_go_on();
	MUST(pthread_join(victim, NULL));
	MUST(pthread_rwlock_destroy(&rw));
}
END_TEST

int main(void)
{
	Suite *s = suite_make("stuck");

	SUITE_CASE_OF(s, in_the_queue_of_a_mutex, SECONDS, KINDS);
	SUITE_CASE(s, in_the_way_for_long, SECONDS);
	SUITE_CASE_OF(s, held_for_long, SECONDS, KINDS);
	SUITE_CASE(s, with_signals, SECONDS);
	SUITE_CASE(s, in_the_way_of_new_ones, SECONDS);
	SUITE_CASE_OF(s, in_front_of_a_rwlock, SECONDS, BEHIND + 1);
	SUITE_CASE_OF(s, timed_past_the_front, SECONDS, 2);
	return suite_run(s);
}
