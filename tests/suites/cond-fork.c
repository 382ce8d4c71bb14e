/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-fork: a process forks while its threads wait at condition variables.
 *
 * A child has one thread, but the memory of a list that names many: ghosts.  It destroys the cond, makes it anew or
 * just goes on with it, in a hall (hall.h) with threads of its own.
 *
 * It would catch: a child that waits for its parent's threads or wakes one of them, a list that is found in the middle
 * of a change, a parent that loses a waiter by forking.
 */

#include "hall.h"
#include "steps.h"

#include <signal.h>

/* What a child does first with a cond on which threads of its parent wait; then it uses it with threads of its own. */
enum first { CALL_GHOSTS, MAKE_ANEW, ASSIGN, JUST_USE, CALL_AND_USE, DESTROY, FIRSTS };

static void use_inherited(struct hall *h, enum first first)
{
	static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;

	atomic_store(&h->waiting, 0);
	if (first == CALL_GHOSTS || first == CALL_AND_USE) {
		CALL(pthread_cond_signal(&h->c), 0);
		CALL(pthread_cond_broadcast(&h->c), 0);
		CALL(pthread_cond_signal(&h->c), 0);
	}
	if (first == CALL_GHOSTS)
		return;
	if (first == DESTROY)
		CALL(pthread_cond_destroy(&h->c), 0);
	if (first == DESTROY || first == MAKE_ANEW)
		CALL(pthread_cond_init(&h->c, NULL), 0);
	if (first == ASSIGN)
		h->c = fresh;
	hall_use(h);
	CALL(pthread_cond_destroy(&h->c), 0);
}

START_TEST(forked_while_others_wait)
{
	struct hall h = {.way = _i % WAYS};
	struct team *t;

	mutex_make(&h.m, kinds[_i].type);
	t = team_start(3, hall_guest, &h);
	hall_gather(&h, 3);
	MUST(pthread_mutex_unlock(&h.m));
	/* glibc's counts the ghosts as waiters, and makes no more of an unmade one. */
	for (enum first first = 0; first < (suite_served() ? FIRSTS : JUST_USE); first++) {
		pid_t child = child_begin();

		if (child == 0) {
			use_inherited(&h, first);
			child_exit();
		}
		child_reap(child, "a child that inherits waiters");
		stop_if_complained();
	}
	hall_gather(&h, 3);
	ck_assert_int_eq(atomic_load(&h.returns), 0);
	hall_call(&h, SIGNAL_HELD, 1);
	SOON(atomic_load(&h.out) == 1);
	hall_gather(&h, 2);
	hall_call(&h, BROADCAST_FREE, 2);
	team_join(t);
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

static void make_traffic(int index, void *arg)
{
	struct hall *h = arg;
	uint32_t luck = index + 10;

	while (!atomic_load(&h->closed) && !complained()) {
		struct timespec soon;

		if (index == 0) { /* without the mutex */
			pthread_cond_signal(&h->c);
			sleep_us(dice(&luck) % 20);
			continue;
		}
		MUST(pthread_mutex_lock(&h->m));
		soon = deadline(CLOCK_MONOTONIC, dice(&luck) % 60000);
		pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

/* The fork comes in the middle of signals and of waits that end, anywhere in them. */
START_TEST(forked_in_traffic)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	struct hall h = {.way = _i % WAYS};
	uint32_t luck = 77;
	struct team *t;

	if (!suite_served())
		return;
	mutex_make(&h.m, _i ? PTHREAD_MUTEX_ADAPTIVE_NP : PTHREAD_MUTEX_NORMAL); /* which the child may unlock */
	t = team_start(4, make_traffic, &h);
	for (int n = 0; n < 5 || now_ns() < end; n++) {
		pid_t child;

		sleep_us(dice(&luck) % 300);
		MUST(pthread_mutex_lock(&h.m));
		child = child_begin();
		MUST(pthread_mutex_unlock(&h.m));
		if (child == 0) {
			use_inherited(&h, luck / 512 % 2 ? JUST_USE : CALL_AND_USE);
			child_exit();
		}
		child_reap(child, "a child of busy threads");
		stop_if_complained();
	}
	atomic_store(&h.closed, true);
	team_join(t);
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

#ifdef __x86_64__
enum { GHOSTS = 3, STRIDE = 20 };

static struct {
	int steps, at; /* where the handler forks */
	pid_t child;
} forking;

static void on_fork_step(int signal)
{
	int saved = errno;

	(void)signal;
	if (forking.steps++ == forking.at)
		forking.child = child_begin();
	errno = saved;
}

static void take_turns(int index, void *arg)
{
	struct hall *h = arg;

	(void)index;
	for (int i = 0; i < 20; i++) {
		MUST(pthread_mutex_lock(&h->m));
		spin_ns(1000);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

/* Comes after the guests, so that the records of their waits come before its own in the child. */
static void *fork_in_a_broadcast(void *hall)
{
	struct hall *h = hall;
	struct timespec past = {1, 0};
	pthread_cond_t own = PTHREAD_COND_INITIALIZER;

	MUST(pthread_mutex_lock(&h->m));
	CALL(pthread_cond_timedwait(&own, &h->m, &past), ETIMEDOUT);
	atomic_fetch_add(&h->tickets, GHOSTS);
	STEPPED(pthread_cond_broadcast(&h->c));
	MUST(pthread_mutex_unlock(&h->m));
	if (forking.child == 0 && forking.steps > forking.at) {
		team_run(3, take_turns, h);
		child_exit();
	}
	if (forking.steps > forking.at)
		child_reap(forking.child, "a child of a thread in the middle of a broadcast");
	return NULL;
}

/* A wait that ends at once, with others in the list. */
static void *fork_in_a_wait(void *hall)
{
	struct hall *h = hall;
	struct timespec past = {1, 0};

	MUST(pthread_mutex_lock(&h->m));
	STEPPED(pthread_cond_timedwait(&h->c, &h->m, &past));
	MUST(pthread_mutex_unlock(&h->m));
	if (forking.child == 0 && forking.steps > forking.at) {
		CALL(pthread_cond_signal(&h->c), 0);
		CALL(pthread_cond_broadcast(&h->c), 0);
		MUST(pthread_mutex_lock(&h->m));
		CALL(pthread_cond_timedwait(&h->c, &h->m, &past), ETIMEDOUT);
		MUST(pthread_mutex_unlock(&h->m));
		CALL(pthread_cond_signal(&h->c), 0);
		child_exit();
	}
	if (forking.steps > forking.at)
		child_reap(forking.child, "a child of a thread in the middle of a wait");
	return NULL;
}

static void fork_in_steps(void *(*run)(void *), int type, int guests, int stride, int from)
{
	struct sigaction action = {.sa_handler = on_fork_step};

	stride = stride * 100 / (int)suite_scale(100);
	sigaction(SIGTRAP, &action, NULL);
	forking.at = from;
	do {
		struct hall h = {.way = WAIT};
		struct team *t;

		mutex_make(&h.m, type);
		t = team_start(guests, hall_guest, &h);
		hall_gather(&h, guests);
		MUST(pthread_mutex_unlock(&h.m));
		forking.steps = 0;
		forking.child = -1;
		thread_join(thread_start(run, &h));
		if (run != fork_in_a_broadcast)
			hall_call(&h, BROADCAST_FREE, guests);
		team_join(t);
		stop_if_complained();
		forking.at += stride;
	} while (forking.steps > forking.at - stride);
	ck_assert_int_gt(forking.at, 100);
}

/* A handler forks in the middle of a broadcast by who has the mutex: in the child those who are being moved into its
 * queue are ghosts. */
START_TEST(forked_in_a_broadcast)
{
	fork_in_steps(fork_in_a_broadcast, _i % 2 ? PTHREAD_MUTEX_ADAPTIVE_NP : PTHREAD_MUTEX_NORMAL, GHOSTS, STRIDE, _i * STRIDE / 4);
}
END_TEST

START_TEST(forked_in_a_wait)
{
	if (suite_served()) /* glibc's counts the ghosts as waiters */
		fork_in_steps(fork_in_a_wait, PTHREAD_MUTEX_NORMAL, _i ? GHOSTS : 1, 4 * STRIDE, _i * STRIDE);
}
END_TEST
#else
START_TEST(forked_in_a_wait)
{
}
END_TEST

START_TEST(forked_in_a_broadcast)
{
	if (_i == 0)
		say("SKIP: this machine has no trap flag; no single steps");
}
END_TEST
#endif

int main(void)
{
	Suite *s = suite_make("cond-fork");

	SUITE_CASE_OF(s, forked_while_others_wait, 60, KINDS);
	SUITE_CASE_OF(s, forked_in_traffic, 60, 2);
	SUITE_CASE_OF(s, forked_in_a_broadcast, 60, 4);
	SUITE_CASE_OF(s, forked_in_a_wait, 60, 2);
	return suite_run(s);
}
