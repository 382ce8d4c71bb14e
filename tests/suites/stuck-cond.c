/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite stuck-cond: as stuck, with those whom a condition variable has put into the mutex's queue.
 *
 * It would catch: a called waiter that is left behind one that is held up, before it in the queue or among themselves.
 */

#include "held-up.h"

#include <stdio.h>
#include <sys/syscall.h>

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
	held_up_begin();
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
			say("stuck-cond: %s cannot be read, so it is not known how threads sleep", name);
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

/* A timer is not for nothing: who has never been behind others sleeps without. It may have seen a signal that took long, and
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

int main(void)
{
	Suite *s = suite_make("stuck-cond");

	SUITE_CASE_OF(s, behind_others, 5 * SECONDS, 2 * BEHINDS);
	SUITE_CASE_OF(s, among_those_called, 5 * SECONDS, 2 * OWNS);
	SUITE_CASE(s, who_is_not_in_danger, 5 * SECONDS);
	return suite_run(s);
}
