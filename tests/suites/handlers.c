/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite handlers: a thread that waits is held up or ended by a signal handler, and the others must not be.
 *
 * The handler waits for a mutex that glibc serves or that has no queue, or ends its thread, or has it cancelled, in the
 * middle of a lock or a wait; the head of a queue is overtaken, or in a handler, while the mutex is free; and, without
 * a handler, a child waits with a mutex that its parent has locked.  It would catch: a place in a queue that is kept by
 * a handler that waits somewhere else; waiters that are lost with the one that was to call them; cleanup handlers that
 * run without the mutex; a lock with a deadline that is told to be late though the mutex is free; a count of users that
 * the child has not got right.
 */

#include "hall.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 10 };

static atomic_bool in_handler;

static void interrupt(pthread_t victim)
{
	MUST(pthread_kill(victim, SIGUSR1));
	SOON(atomic_load(&in_handler));
	let_sleep();
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, other;

/* ---- the handler waits for a mutex that has no queue ---- */

enum { OF_POLICY_WORD, OF_PROCESSES, INHERITING, WITHOUT_QUEUE };

/* False, and the reason said, where there are no such mutexes. */
static bool other_make(int which)
{
	int (*set_policy)(pthread_mutexattr_t *, const char *);
	pthread_mutexattr_t attr;
	int rc = 0;

	*(void **)&set_policy = dlsym(RTLD_DEFAULT, "parkade_mutexattr_setpolicy_np");
	MUST(pthread_mutexattr_init(&attr));
	if (which == OF_POLICY_WORD && set_policy)
		MUST(set_policy(&attr, "word"));
	if (which == OF_PROCESSES)
		MUST(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	if (which == INHERITING)
		MUST(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT));
	rc = pthread_mutex_init(&other, &attr);
	MUST(pthread_mutexattr_destroy(&attr));
	if (rc == ENOTSUP)
		say("SKIP: no mutexes with priority inheritance");
	else
		MUST(rc);
	return rc == 0;
}

static void lock_other(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	MUST(pthread_mutex_lock(&other));
	MUST(pthread_mutex_unlock(&other));
}

static void *lock_m(void *arg)
{
	MUST(pthread_mutex_lock(&m));
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

static void *lock_other_then_m(void *arg)
{
	MUST(pthread_mutex_lock(&other));
	lock_m(NULL);
	MUST(pthread_mutex_unlock(&other));
	return arg;
}

/* Whoever has what the handler wants is behind the thread that it interrupts, which sleeps in the queue. */
START_TEST(handler_wants_what_is_behind)
{
	pthread_t victim, behind;

	if (!other_make(_i))
		return;
	handle_signal(SIGUSR1, lock_other);
	MUST(pthread_mutex_lock(&m));
	victim = thread_start(lock_m, NULL);
	let_sleep();
	behind = thread_start(lock_other_then_m, NULL);
	let_sleep();
	interrupt(victim);
	MUST(pthread_mutex_unlock(&m));
	thread_join(behind);
	thread_join(victim);
	lock_other_then_m(NULL); /* both are free */
	MUST(pthread_mutex_destroy(&other));
	MUST(pthread_mutex_destroy(&m));
}
END_TEST

/* ---- one of those that a broadcast has called ends before it has the mutex ---- */

enum { CROWD = 12, VICTIMS = 3 };

static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int waiting, through; /* with m held */
static bool called;

static void leave(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	pthread_exit(&in_handler);
}

/* A thread that ends in the middle of the wait has the mutex; one that ends while it locks it has not, with glibc. */
static void on_left(void *arg)
{
	(void)arg;
	if (m.__data.__owner == gettid())
		MUST(pthread_mutex_unlock(&m));
}

static void *await_call(void *arg)
{
	MUST(pthread_mutex_lock(&m));
	waiting++;
	pthread_cleanup_push(on_left, NULL);
	while (!called)
		MUST(pthread_cond_wait(&c, &m));
	pthread_cleanup_pop(0);
	through++;
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

static void *call_all(void *arg)
{
	MUST(pthread_cond_broadcast(&c));
	return arg;
}

/* m is held after it. */
static void await_waiters(int n)
{
	for (;; sleep_us(100)) {
		MUST(pthread_mutex_lock(&m));
		if (waiting == n)
			return;
		MUST(pthread_mutex_unlock(&m));
	}
}

/* Not by the owner of the mutex, so that it must not be looked at: the waiters get to it one after the other, and
 * in the middle of that one of them leaves. The others come through. */
START_TEST(one_called_leaves)
{
	int victim = _i * CROWD / VICTIMS;
	pthread_t crowd[CROWD];

	handle_signal(SIGUSR1, leave);
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = thread_start(await_call, NULL);
		await_waiters(i + 1);
		MUST(pthread_mutex_unlock(&m));
	}
	let_sleep();
	MUST(pthread_mutex_lock(&m));
	called = true;
	thread_join(thread_start(call_all, NULL));
	let_sleep();
	interrupt(crowd[victim]);
	ck_assert_int_eq(through, 0);
	MUST(pthread_mutex_unlock(&m));
	for (int i = 0; i < CROWD; i++)
		ck_assert_ptr_eq(thread_join(crowd[i]), i == victim ? (void *)&in_handler : NULL);
	ck_assert_int_eq(through, CROWD - 1);
	MUST(pthread_cond_destroy(&c));
	lock_m(NULL);
}
END_TEST

/* ---- a wait is unwound from a handler ---- */

enum { BY_CANCELLATION, BY_EXIT, UNWINDINGS, UNWOUND_CASES = UNWINDINGS * WAYS };

static atomic_bool held_by_main;

static void sleep_long(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	sleep_us(SECONDS * 1000000);
}

static void on_unwound(void *hall)
{
	if (atomic_load(&held_by_main))
		complain("a cleanup handler runs while somebody else has the mutex");
	hall_ended(hall);
}

static void *mortal_guest(void *hall)
{
	hall_wait_mortal(hall, on_unwound);
	return NULL;
}

/* Its thread waits for a call; the handler acts on a cancellation, or calls pthread_exit. As with any other end of
 * the wait the mutex is locked again first, however long that takes. */
START_TEST(unwound_by_a_handler)
{
	struct hall h = {.way = (enum way)(_i / UNWINDINGS)};
	bool by_exit = _i % UNWINDINGS == BY_EXIT;
	pthread_t victim;

	mutex_make(&h.m, PTHREAD_MUTEX_NORMAL);
	cond_make(&h.c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	handle_signal(SIGUSR1, by_exit ? leave : sleep_long);
	victim = thread_start(mortal_guest, &h);
	hall_gather(&h, 1);
	MUST(pthread_mutex_unlock(&h.m));
	SOON(is_asleep(atomic_load(&h.tid)));
	MUST(pthread_mutex_lock(&h.m));
	atomic_store(&held_by_main, true);
	interrupt(victim);
	if (!by_exit)
		MUST(pthread_cancel(victim));
	let_sleep();
	ck_assert_int_eq(atomic_load(&h.cancelled), 0);
	WANT(pthread_mutex_trylock(&h.m), EBUSY);
	HELD(&h.m);
	atomic_store(&held_by_main, false);
	MUST(pthread_mutex_unlock(&h.m));
	ck_assert_ptr_eq(thread_join(victim), by_exit ? (void *)&in_handler : PTHREAD_CANCELED);
	ck_assert_int_eq(atomic_load(&h.cancelled), 1);
	hall_use(&h);
	MUST(pthread_cond_destroy(&h.c));
	MUST(pthread_mutex_destroy(&h.m));
}
END_TEST

static sigjmp_buf outside;

static void jump_out(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	siglongjmp(outside, 1);
}

/* After that. */
static struct hall *next_hall;

/* What was beneath the wait is written over, and unwound later: the thread ends, or is cancelled in another wait. */
static void *jumping_guest(void *hall)
{
	struct hall *h = hall;
	volatile char deep[4096];

	if (!sigsetjmp(outside, 1))
		hall_wait_mortal(h, hall_ended);
	HELD(&h->m);
	atomic_fetch_sub(&h->waiting, 1);
	MUST(pthread_mutex_unlock(&h->m));
	for (size_t i = 0; i < sizeof(deep); i++)
		deep[i] = (char)i;
	if (next_hall)
		hall_wait_mortal(next_hall, hall_ended);
	pthread_exit(&outside);
}

/* POSIX has the handler's program undefined; with glibc the mutex is locked again, and the thread can end. */
START_TEST(jumps_out_of_a_wait)
{
	struct hall h = {.way = WAIT}, next = {.way = WAIT};
	bool cancel = _i / 2;
	pthread_t guest;

	mutex_make(&h.m, PTHREAD_MUTEX_NORMAL);
	mutex_make(&next.m, PTHREAD_MUTEX_NORMAL);
	cond_make(&h.c, _i % 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	cond_make(&next.c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	next_hall = cancel ? &next : NULL;
	handle_signal(SIGUSR1, jump_out);
	guest = thread_start(jumping_guest, &h);
	hall_gather(&h, 1);
	MUST(pthread_mutex_unlock(&h.m));
	SOON(is_asleep(atomic_load(&h.tid)));
	interrupt(guest);
	if (cancel) {
		hall_gather(&next, 1);
		MUST(pthread_mutex_unlock(&next.m));
		SOON(is_asleep(atomic_load(&next.tid)));
		MUST(pthread_cancel(guest));
		SOON(atomic_load(&next.cancelled) == 1);
	}
	ck_assert_ptr_eq(thread_join(guest), cancel ? PTHREAD_CANCELED : (void *)&outside);
	hall_use(&h);
	hall_use(&next);
	MUST(pthread_cond_destroy(&h.c));
	MUST(pthread_cond_destroy(&next.c));
	MUST(pthread_mutex_destroy(&h.m));
	MUST(pthread_mutex_destroy(&next.m));
}
END_TEST

/* ---- a deadline has passed, and the mutex is free ---- */

/* A rival has the mutex until main, which has seen it in, allows it to go, and comes back when main has it again. So
 * who finds the mutex free knows that the rival has not had it meanwhile. */
static pthread_mutex_t prize;
static atomic_int entered, allowed, again;
static atomic_bool over;

enum { RIVALRY_MS = 1000 };

static void *rival(void *arg)
{
	while (!atomic_load(&over)) {
		int mine;

		MUST(pthread_mutex_lock(&prize));
		mine = atomic_fetch_add(&entered, 1) + 1;
		while (atomic_load(&allowed) < mine && !atomic_load(&over))
			sleep_us(50);
		MUST(pthread_mutex_unlock(&prize));
		while (atomic_load(&again) < mine && !atomic_load(&over))
			sleep_us(50);
	}
	return arg;
}

static void take_back(void)
{
	while (pthread_mutex_trylock(&prize) != 0) {
		atomic_store(&allowed, atomic_load(&entered));
		sleep_us(50);
	}
	atomic_store(&again, atomic_load(&entered));
}

static int lock_late(int how)
{
	static const struct timespec past = {1, 0};
	struct timespec soon = deadline(CLOCK_MONOTONIC, 1000);

	switch (how) {
	case 0:
		return pthread_mutex_timedlock(&prize, &past);
	case 1:
		return pthread_mutex_clocklock(&prize, CLOCK_MONOTONIC, &past);
	default:
		return pthread_mutex_clocklock(&prize, CLOCK_MONOTONIC, &soon);
	}
}

/* Who lets it go asks for it at once: the rival may be woken and impatient by now, but it has not come yet. */
START_TEST(timed_takes_what_is_free)
{
	uint64_t end = now_ns() + suite_scale(RIVALRY_MS) * 1000000;
	int taken = 0, late = 0;
	pthread_t thread;

	mutex_make(&prize, kinds[_i].type);
	MUST(pthread_mutex_lock(&prize));
	thread = thread_start(rival, NULL);
	let_sleep();
	for (int round = 0; round < 12 || now_ns() < end; round++) {
		int rc;

		sleep_us(500);
		MUST(pthread_mutex_unlock(&prize));
		rc = lock_late(round % 3);
		if (rc == 0) {
			taken++;
			continue;
		}
		WANT(rc, ETIMEDOUT);
		late++;
		if (pthread_mutex_trylock(&prize) == 0)
			complain("round %d: nobody had the mutex, and the deadline is said to have passed", round);
		else
			take_back();
		assert_no_complaint();
	}
	atomic_store(&over, true);
	MUST(pthread_mutex_unlock(&prize));
	thread_join(thread);
	say("handlers: %s: the mutex was taken %d times, and late %d times", kinds[_i].name, taken, late);
	MUST(pthread_mutex_destroy(&prize));
}
END_TEST

static atomic_bool keep_it;

static void stay(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	while (atomic_load(&keep_it))
		sleep_us(1000);
}

/* The mutex is held here, before and after: let go and taken again until the rival has lost patience, where that is
 * counted, or ought to have lost it. */
static bool overtake(void)
{
	int64_t before = suite_counter("impatient");

	for (int i = 0; i < 30 && suite_counter("impatient") == before; i++) {
		MUST(pthread_mutex_unlock(&prize));
		if (pthread_mutex_trylock(&prize) != 0) {
			take_back();
			return false;
		}
		sleep_us(200);
	}
	return before < 0 || suite_counter("impatient") > before;
}

/* Who was overtaken until it would have others queue behind it is in a handler when the mutex becomes free. */
START_TEST(timed_passes_who_is_in_a_handler)
{
	int64_t before = suite_counter("impatient"); /* where that is counted it has to happen, however long it takes */
	uint64_t end = now_ns() + (before < 0 ? suite_scale(RIVALRY_MS) : 5 * RIVALRY_MS) * 1000000;
	bool overtaken = false;
	struct timespec t;
	pthread_t victim;

	mutex_make(&prize, kinds[_i].type);
	MUST(pthread_mutex_lock(&prize));
	atomic_store(&keep_it, true);
	handle_signal(SIGUSR1, stay);
	victim = thread_start(rival, NULL);
	let_sleep();
	do {
		sleep_us(5000);
		overtaken = overtake();
	} while (!overtaken && now_ns() < end);
	say("handlers: %s: the victim was %sovertaken for long", kinds[_i].name, overtaken ? "" : "not ");
	if (before >= 0)
		ck_assert_int_gt(suite_counter("impatient"), before);
	interrupt(victim);
	MUST(pthread_mutex_unlock(&prize));
	for (int how = 0; how < 3; how++) {
		MUST(lock_late(how));
		MUST(pthread_mutex_unlock(&prize));
	}
	t = deadline(CLOCK_REALTIME, 300000000);
	MUST(pthread_mutex_timedlock(&prize, &t));
	MUST(pthread_mutex_unlock(&prize));
	MUST(pthread_mutex_trylock(&prize));
	MUST(pthread_mutex_unlock(&prize));
	atomic_store(&over, true);
	atomic_store(&keep_it, false);
	thread_join(victim);
	MUST(pthread_mutex_destroy(&prize));
}
END_TEST

/* ---- the child waits with a mutex that its parent has locked ---- */

static void *call_soon(void *arg)
{
	await_waiters(1);
	called = true;
	MUST(pthread_cond_signal(&c));
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

static void wait_and_destroy(void)
{
	pthread_t thread = thread_start(call_soon, NULL);

	waiting++;
	while (!called)
		MUST(pthread_cond_wait(&c, &m));
	HELD(&m);
	MUST(pthread_mutex_unlock(&m));
	thread_join(thread);
	FIELDS(&m, 0, 0, 0);
	MUST(pthread_mutex_destroy(&m));
	MUST(pthread_cond_destroy(&c));
}

/* Of the kinds that the child may unlock. */
START_TEST(child_destroys)
{
	pid_t child;

	mutex_make(&m, _i ? PTHREAD_MUTEX_ADAPTIVE_NP : PTHREAD_MUTEX_NORMAL);
	MUST(pthread_mutex_lock(&m));
	child = child_begin();
	if (child == 0) {
		alarm(SECONDS / 2);
		wait_and_destroy();
		child_exit();
	}
	child_reap(child, "a child that waits and destroys");
	MUST(pthread_mutex_unlock(&m));
	FIELDS(&m, 0, 0, 0);
	MUST(pthread_mutex_destroy(&m));
}
END_TEST

int main(void)
{
	Suite *s = suite_make("handlers");

	SUITE_CASE_OF(s, handler_wants_what_is_behind, SECONDS, WITHOUT_QUEUE);
	SUITE_CASE_OF(s, one_called_leaves, SECONDS, VICTIMS);
	SUITE_CASE_OF(s, unwound_by_a_handler, SECONDS, UNWOUND_CASES);
	SUITE_CASE_OF(s, jumps_out_of_a_wait, SECONDS, 4);
	SUITE_CASE_OF(s, timed_takes_what_is_free, SECONDS, KINDS);
	SUITE_CASE_OF(s, timed_passes_who_is_in_a_handler, SECONDS, KINDS);
	SUITE_CASE_OF(s, child_destroys, SECONDS, 2);
	return suite_run(s);
}
