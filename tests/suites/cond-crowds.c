/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-crowds: many wait, and are woken by broadcasts after the unlock, again and again, so that they sleep
 * together (doc/DESIGN.md section 4).
 *
 * It would catch: one of the crowd that sleeps on when a broadcast, a signal, a deadline, pthread_cancel or its own
 * signal handler has ended its wait; a waiter in the child of a handler's fork that never comes out; who uses the
 * condition variable after it has gone.
 */

#include "suite.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CROWD = 12, HOT = 4, PATIENCE_S = 20 };

struct crowd {
	pthread_mutex_t m;
	pthread_cond_t *cond;
	/* Guarded by m. */
	unsigned generation;
	int waiting, through;
	bool over;
	int64_t limit_ns; /* of a wait, or 0 */
};

static struct crowd x;
static uint32_t luck[CROWD];
static pthread_cond_t cond;

static void begin(pthread_cond_t *at)
{
	memset(&x, 0, sizeof x);
	mutex_make(&x.m, PTHREAD_MUTEX_NORMAL);
	x.cond = at;
	ck_assert_int_eq(pthread_cond_init(at, NULL), 0);
}

static void end_wait(void *m)
{
	MUST(pthread_mutex_unlock(m));
}

static void crowd_body(int index, void *arg)
{
	(void)arg;
	luck[index] = (uint32_t)index + 1;
	MUST(pthread_mutex_lock(&x.m));
	pthread_cleanup_push(end_wait, &x.m);
	while (!x.over && !complained()) {
		unsigned before = x.generation;
		bool late = false;

		x.waiting++;
		while (x.generation == before && !x.over && !late) {
			struct timespec until = deadline(CLOCK_REALTIME, x.limit_ns ? dice(&luck[index]) % x.limit_ns : 0);
			int rc = x.limit_ns ? pthread_cond_timedwait(x.cond, &x.m, &until) : pthread_cond_wait(x.cond, &x.m);

			late = rc == ETIMEDOUT && x.generation == before;
			if (rc && rc != ETIMEDOUT)
				complain("a wait says %d", rc);
		}
		if (late)
			x.waiting--;
		else
			x.through++;
	}
	pthread_cleanup_pop(1);
}

/* Until so many wait, or are through. */
static void until(const int *count, int wanted, const char *what)
{
	uint64_t hopeless = now_ns() + UINT64_C(1000000000) * PATIENCE_S;
	int seen;

	do {
		MUST(pthread_mutex_lock(&x.m));
		seen = *count;
		MUST(pthread_mutex_unlock(&x.m));
		if (seen < wanted)
			sleep_us(50);
	} while (seen < wanted && now_ns() < hopeless);
	ck_assert_msg(seen >= wanted, "%d of %d %s", seen, wanted, what);
}

/* What they wait for happens; whether they are told of it with the mutex held, and all at once. */
static void call(bool held, bool all, bool last)
{
	pthread_cond_t *at = x.cond;

	MUST(pthread_mutex_lock(&x.m));
	x.generation++;
	x.over = last;
	x.waiting = x.through = 0;
	if (!held)
		MUST(pthread_mutex_unlock(&x.m));
	if (all)
		MUST(pthread_cond_broadcast(at));
	for (int i = 0; i < CROWD && !all; i++)
		MUST(pthread_cond_signal(at));
	if (held)
		MUST(pthread_mutex_unlock(&x.m));
}

/* Broadcasts after the unlock, until those who wait know. */
static void heat(int waiters)
{
	for (int i = 0; i < HOT; i++) {
		until(&x.waiting, waiters, "wait");
		call(false, true, false);
		until(&x.through, waiters, "are through");
	}
	until(&x.waiting, waiters, "wait");
	let_sleep();
	MUST(pthread_mutex_lock(&x.m));
	x.through = 0;
	MUST(pthread_mutex_unlock(&x.m));
}

/* So many who have been called come out, and to wait again; then all end. */
static void finish(struct team *t, int waiters)
{
	until(&x.through, waiters, "are through");
	until(&x.waiting, waiters, "wait");
	call(false, true, true);
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(pthread_cond_destroy(x.cond), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&x.m), 0);
}

/* Told in four ways, mostly by broadcasts after the unlock. */
START_TEST(told_in_all_ways)
{
	uint32_t way = 1;
	struct team *t;

	begin(&cond);
	t = team_start(CROWD, crowd_body, NULL);
	for (uint64_t i = suite_scale(200); i; i--) {
		unsigned told = dice(&way) >> 8 & 15;

		until(&x.waiting, CROWD, "wait");
		call(told == 0 || told == 1, told != 0 && told != 2, false);
		until(&x.through, CROWD, "are through");
	}
	finish(t, CROWD);
}
END_TEST

/* Deadlines that pass while they are called. */
START_TEST(with_deadlines)
{
	struct team *t;

	begin(&cond);
	t = team_start(CROWD, crowd_body, NULL);
	heat(CROWD);
	MUST(pthread_mutex_lock(&x.m));
	x.limit_ns = 2000000;
	MUST(pthread_mutex_unlock(&x.m));
	for (uint64_t i = suite_scale(200); i; i--) {
		call(false, true, false);
		sleep_us(300);
	}
	finish(t, 0); /* who is late is out for a moment */
}
END_TEST

static pthread_mutex_t other;
static atomic_bool in_handler, handled;

static void on_lock(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	MUST(pthread_mutex_lock(&other));
	MUST(pthread_mutex_unlock(&other));
	atomic_store(&handled, true);
}

static void until_set(atomic_bool *flag)
{
	uint64_t hopeless = now_ns() + UINT64_C(1000000000) * PATIENCE_S;

	while (!atomic_load(flag) && now_ns() < hopeless)
		sleep_us(100);
	ck_assert_msg(atomic_load(flag), "the handler has not run");
}

/* One has to wait in a handler, after which the kernel takes its sleep up again: it is called before the handler is done (_i 1), or
 * after it. */
START_TEST(a_handler_waits)
{
	struct team *t;

	begin(&cond);
	mutex_make(&other, PTHREAD_MUTEX_NORMAL);
	handle_signal(SIGUSR1, on_lock);
	t = team_start(CROWD, crowd_body, NULL);
	heat(CROWD);
	MUST(pthread_mutex_lock(&other));
	ck_assert_int_eq(pthread_kill(team_thread(t, 0), SIGUSR1), 0);
	until_set(&in_handler);
	let_sleep();
	if (_i)
		call(false, true, false);
	MUST(pthread_mutex_unlock(&other));
	until_set(&handled);
	let_sleep();
	if (!_i)
		call(false, true, false);
	finish(t, CROWD);
}
END_TEST

static pid_t parent;
static atomic_int child;

static void on_fork(int sig)
{
	(void)sig;
	atomic_store(&child, fork());
	if (!atomic_load(&child))
		alarm(PATIENCE_S);
	atomic_store(&in_handler, true);
}

static void forking_body(int index, void *arg)
{
	if (index) {
		crowd_body(index, arg);
		return;
	}
	MUST(pthread_mutex_lock(&x.m));
	while (!x.over) {
		unsigned before = x.generation;

		x.waiting++;
		while (x.generation == before && !x.over) {
			MUST(pthread_cond_wait(x.cond, &x.m));
			if (getpid() != parent)
				child_exit(); /* its wait has come to an end, which is what is asked */
		}
		x.through++;
	}
	MUST(pthread_mutex_unlock(&x.m));
}

/* A handler forks, and goes on to sleep in parent and child. Nobody can call it in the child; glibc's waiter sleeps on there. */
START_TEST(a_handler_forks)
{
	struct team *t;

	if (!suite_served())
		return;
	begin(&cond);
	parent = getpid();
	handle_signal(SIGUSR1, on_fork);
	t = team_start(CROWD, forking_body, NULL);
	heat(CROWD);
	ck_assert_int_eq(pthread_kill(team_thread(t, 0), SIGUSR1), 0);
	until_set(&in_handler);
	child_reap(atomic_load(&child), "who comes out of its wait in the child");
	call(false, true, false);
	finish(t, CROWD);
}
END_TEST

/* One of them is cancelled, and nobody else is woken for good. */
START_TEST(one_is_cancelled)
{
	struct team *t;

	begin(&cond);
	t = team_start(CROWD, crowd_body, NULL);
	heat(CROWD);
	ck_assert_int_eq(pthread_cancel(team_thread(t, CROWD / 2)), 0);
	let_sleep();
	MUST(pthread_mutex_lock(&x.m));
	ck_assert_int_eq(x.through, 0);
	MUST(pthread_mutex_unlock(&x.m));
	call(false, true, false);
	finish(t, CROWD - 1);
}
END_TEST

/* The condition variable goes as soon as the last broadcast has returned. */
START_TEST(gone_at_once)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = suite_scale(10); i; i--) {
		void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct team *t;

		ck_assert(memory != MAP_FAILED);
		begin(memory);
		t = team_start(CROWD, crowd_body, NULL);
		for (int n = 0; n < HOT; n++) {
			until(&x.waiting, CROWD, "wait");
			call(false, true, false);
			until(&x.through, CROWD, "are through");
		}
		until(&x.waiting, CROWD, "wait");
		call(false, true, true);
		ck_assert_int_eq(pthread_cond_destroy(memory), 0);
		ck_assert_int_eq(munmap(memory, page), 0);
		team_join(t);
		assert_no_complaint();
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-crowds");

	SUITE_CASE(s, told_in_all_ways, 120);
	SUITE_CASE(s, with_deadlines, 120);
	SUITE_CASE_OF(s, a_handler_waits, 60, 2);
	SUITE_CASE(s, a_handler_forks, 60);
	SUITE_CASE(s, one_is_cancelled, 60);
	SUITE_CASE(s, gone_at_once, 120);
	return suite_run(s);
}
