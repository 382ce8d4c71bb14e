/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite stuck: a thread that waits for a lock is held up in a signal handler, and others want the lock meanwhile.
 *
 * The handler blocks on what is no lock until all the others have had it, as one does that stops a thread for a garbage
 * collector.  With glibc no thread waits for one that merely waits, too.  It would catch: a place in a queue that keeps
 * those behind it from a free lock, wherever it is in the queue, however they wait, and however they came there.
 */

#include "hall.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HELD_MS = 400, SECONDS = 12, BEHIND = 4 };

static int until_all_had_it[2]; /* a pipe */
static atomic_bool in_handler;

static void block(int sig)
{
	char byte;

	(void)sig;
	atomic_store(&in_handler, true);
	if (read(until_all_had_it[0], &byte, 1) != 1)
		complain("the pipe cannot be read");
}

static void make_ready(void)
{
	ck_assert_int_eq(pipe(until_all_had_it), 0);
	handle_signal(SIGUSR1, block);
}

static void hold_up(pthread_t victim)
{
	MUST(pthread_kill(victim, SIGUSR1));
	SOON(atomic_load(&in_handler));
}

static void let_go_on(void)
{
	ck_assert_int_eq((int)write(until_all_had_it[1], "", 1), 1);
}

/* Its mutex is the one that they want. */
static struct hall hall;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int through, inside;

static void work(void)
{
	if (atomic_fetch_add(&inside, 1))
		complain("two threads have the lock");
	sleep_us(100);
	atomic_fetch_sub(&inside, 1);
}

/* Once without an end, then with one that is far away. */
static void *lock_m(void *timed)
{
	struct timespec t = deadline(CLOCK_REALTIME, INT64_C(1000000000) * 10 * SECONDS);

	MUST(timed ? pthread_mutex_timedlock(&hall.m, &t) : pthread_mutex_lock(&hall.m));
	work();
	MUST(pthread_mutex_unlock(&hall.m));
	atomic_fetch_add(&through, 1);
	return NULL;
}

/* The one that is held up has so many before it. */
enum { PLACES = 3 };

START_TEST(in_the_queue_of_a_mutex)
{
	pthread_t thread[PLACES + BEHIND];
	int victim = _i % PLACES;

	mutex_make(&hall.m, kinds[_i].type);
	make_ready();
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
	make_ready();
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
	make_ready();
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
	make_ready();
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

enum { CROWD = 10, FEW = 4, IN_ITS_PLACE_MS = 200 };

static atomic_bool out_of_time;

static void *lock_shortly(void *arg)
{
	struct timespec t = deadline(CLOCK_MONOTONIC, INT64_C(2000000000));

	if (pthread_mutex_clocklock(&hall.m, CLOCK_MONOTONIC, &t) == 0)
		MUST(pthread_mutex_unlock(&hall.m));
	atomic_store(&out_of_time, true);
	atomic_fetch_add(&through, 1);
	return arg;
}

static void call_all(void *arg)
{
	(void)arg;
	MUST(pthread_cond_broadcast(&hall.c));
}

/* Who has waited so often, and never behind others, may sleep otherwise than one who does not know. */
enum { DRILL = 100 };

static struct hall drill = {.m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER};

static void veteran(int index, void *h)
{
	for (int i = 0; i < DRILL; i++)
		hall_guest(index, &drill);
	hall_guest(index, h);
}

static struct team *start_veterans(int n)
{
	struct team *t = team_start(n, veteran, &hall);
	int out = atomic_load(&drill.out);

	for (int i = 1; i <= n * DRILL; i++) {
		SOON(atomic_load(&drill.waiting));
		MUST(pthread_mutex_lock(&drill.m));
		hall_call(&drill, SIGNAL_FREE, 1);
		SOON(atomic_load(&drill.out) == out + i);
	}
	return t;
}

static struct team *start_guests(int n, bool drilled)
{
	return drilled ? start_veterans(n) : team_start(n, hall_guest, &hall);
}

enum called { BEHIND_TWO, BEHIND_TIMED, BEHINDS, BY_OWNER = BEHINDS, BY_OTHER, CALLS, OWNS = CALLS - BEHINDS };

/* Waiters of a condition variable are called while one thread is held up: the first one in the mutex's queue, with
 * another one between it and them, or with one whose time runs out; or the first one of themselves, called by the
 * mutex's owner or by somebody else. */
static void call_past(enum called called, bool drilled)
{
	struct team *first, *others;
	struct servant *caller = servant_hire();
	pthread_t before[2] = {0};
	bool own = called == BY_OWNER || called == BY_OTHER;
	int crowd = own ? CROWD : FEW;
	uint64_t began;

	mutex_make(&hall.m, PTHREAD_MUTEX_NORMAL);
	cond_make(&hall.c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	make_ready();
	first = start_guests(1, drilled);
	hall_gather(&hall, 1);
	MUST(pthread_mutex_unlock(&hall.m));
	others = start_guests(crowd - 1, drilled);
	hall_gather(&hall, crowd);
	for (int i = 0; !own && i < 2; i++) {
		before[i] = thread_start(i && called == BEHIND_TIMED ? lock_shortly : lock_m, NULL);
		/* Also of those who sleep beside the queue at first (PARKADE_PARKING). */
		sleep_us(IN_ITS_PLACE_MS * 1000);
	}
	atomic_store(&hall.tickets, crowd);
	if (called == BY_OTHER)
		servant_do(caller, call_all, NULL);
	else
		call_all(NULL);
	let_sleep();
	SOON(called != BEHIND_TIMED || atomic_load(&out_of_time));
	hold_up(own ? team_thread(first, 0) : before[0]);
	began = now_ns(); /* the drill may have taken long */
	MUST(pthread_mutex_unlock(&hall.m));
	SOON(atomic_load(&hall.out) >= (own ? crowd - 1 : crowd));
	SOON(own || atomic_load(&through) == 1);
	ck_assert_uint_lt(now_ns() - began, SECONDS * UINT64_C(1000000000));
	let_go_on();
	team_join(first);
	team_join(others);
	for (int i = 0; !own && i < 2; i++)
		MUST(pthread_join(before[i], NULL));
	servant_dismiss(caller);
	MUST(pthread_cond_destroy(&hall.c));
	FIELDS(&hall.m, 0, 0, 0);
	MUST(pthread_mutex_destroy(&hall.m));
}

/* Somebody who looks in time is between. */
START_TEST(behind_others)
{
	call_past((enum called)(_i % BEHINDS), _i / BEHINDS);
}
END_TEST

START_TEST(among_those_called)
{
	call_past((enum called)(BEHINDS + _i % OWNS), _i / OWNS);
}
END_TEST

/* Whether the thread sleeps, on a futex, for a time that is limited. */
static bool sleeps_with_a_timer(pid_t tid)
{
	char name[64], text[256] = "";
	unsigned long word, op, value, timeout;
	long number = -1;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", (int)tid);
	for (uint64_t since = now_ns(); number != SYS_futex; be_patient(since, "the thread sleeps", __LINE__)) {
		f = fopen(name, "r");
		if (!f || !fgets(text, sizeof(text), f)) {
			say("stuck: %s cannot be read, so it is not known how threads sleep", name);
			number = SYS_futex;
			text[0] = 0;
		} else if (sscanf(text, "%ld %lx %lx %lx %lx", &number, &word, &op, &value, &timeout) != 5) {
			number = -1; /* it runs */
		}
		if (f)
			fclose(f);
	}
	return text[0] && timeout;
}

enum { VETERANS = 5 };

/* A timer is not for nothing: who has never been behind others sleeps without. It may have seen a signal half done, and
 * taken it for that; but not one after the other. */
START_TEST(who_is_not_in_danger)
{
	bool timer = true;

	mutex_make(&hall.m, PTHREAD_MUTEX_NORMAL);
	cond_make(&hall.c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	for (int i = 0; timer && i < VETERANS; i++) {
		struct team *t = start_veterans(1);

		hall_gather(&hall, 1);
		MUST(pthread_mutex_unlock(&hall.m));
		timer = sleeps_with_a_timer(atomic_load(&hall.tid));
		MUST(pthread_mutex_lock(&hall.m));
		hall_call(&hall, SIGNAL_HELD, 1);
		team_join(t);
	}
	ck_assert(!timer);
	MUST(pthread_cond_destroy(&hall.c));
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

	make_ready();
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

	make_ready();
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
	SUITE_CASE_OF(s, behind_others, 5 * SECONDS, 2 * BEHINDS);
	SUITE_CASE_OF(s, among_those_called, 5 * SECONDS, 2 * OWNS);
	SUITE_CASE(s, who_is_not_in_danger, 5 * SECONDS);
	SUITE_CASE_OF(s, in_front_of_a_rwlock, SECONDS, BEHIND + 1);
	SUITE_CASE_OF(s, timed_past_the_front, SECONDS, 2);
	return suite_run(s);
}
