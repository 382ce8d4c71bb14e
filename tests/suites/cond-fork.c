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

int main(void)
{
	Suite *s = suite_make("cond-fork");

	SUITE_CASE_OF(s, forked_while_others_wait, 60, KINDS);
	SUITE_CASE_OF(s, forked_in_traffic, 60, 2);
	return suite_run(s);
}
