/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-cancel: waits at condition variables are cancelled.
 *
 * Before them, in them, at the signal, on the way to the mutex, at the end of the object, at any instruction; disabled,
 * deferred and asynchronous; with each kind of mutex; and cleanup handlers find the mutex held.
 *
 * It would catch: a thread that is not cancelled, or while it must not be; a handler that runs without the mutex, too
 * often or in the wrong order; a signal that is lost to a cancelled thread; a touch of the object after destroy.
 */

#include "hall.h"
#include "steps.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- cancellation ---- */

static void join_cancelled(pthread_t thread, int line)
{
	if (thread_join(thread) != PTHREAD_CANCELED)
		complain("line %d: the thread was not cancelled", line);
	stop_if_complained();
}
#define CANCELLED(thread) join_cancelled((thread), __LINE__)

static void *mortal_guest(void *hall)
{
	hall_wait_mortal(hall, hall_ended);
	return NULL;
}

/* Cases of cancellation, one for each way to wait, with a cond of this process and with a shared one. */
enum { CANCEL_CASES = 2 * WAYS };

static void hall_of_case(struct hall *h, int type, int i)
{
	memset(h, 0, sizeof *h);
	h->way = (enum way)(i % WAYS);
	mutex_make(&h->m, type);
	cond_make(&h->c, i / WAYS ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
}

static void hall_end(struct hall *h)
{
	CALL(pthread_cond_destroy(&h->c), 0);
	MUST(pthread_mutex_destroy(&h->m));
	stop_if_complained();
}

static void *cancelled_before(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	MUST(pthread_cancel(pthread_self()));
	pthread_cleanup_push(hall_ended, h);
	complain("a wait returned %d, and its thread is cancelled", wait_by(h->way, &h->c, &h->m));
	pthread_cleanup_pop(0);
	return NULL;
}

START_TEST(cancelled_before_the_wait)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct hall h;

		hall_of_case(&h, kinds[kind].type, _i);
		CANCELLED(thread_start(cancelled_before, &h));
		ck_assert_int_eq(atomic_load(&h.cancelled), 1);
		hall_use(&h);
		hall_end(&h);
	}
}
END_TEST

START_TEST(cancelled_while_blocked)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct hall h;
		pthread_t t;

		hall_of_case(&h, kinds[kind].type, _i);
		for (int held = 0; held < 2; held++) {
			t = thread_start(mortal_guest, &h);
			hall_gather(&h, 1);
			MUST(pthread_mutex_unlock(&h.m));
			SOON(is_asleep(atomic_load(&h.tid)));
			if (held)
				MUST(pthread_mutex_lock(&h.m));
			MUST(pthread_cancel(t));
			if (held) {
				sleep_us(200);
				ck_assert_int_eq(atomic_load(&h.cancelled), 1); /* the one before */
				MUST(pthread_mutex_unlock(&h.m));
			}
			CANCELLED(t);
			ck_assert_int_eq(atomic_load(&h.cancelled), 1 + held);
		}
		ck_assert_int_eq(atomic_load(&h.returns), 0);
		hall_use(&h);
		hall_end(&h);
	}
}
END_TEST

static void *immune_guest(void *hall)
{
	struct hall *h = hall;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	if (atomic_load(&h->closed))
		MUST(pthread_cancel(pthread_self()));
	hall_guest(0, h);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	return NULL;
}

/* Disabled: it waits on (though it may return for nothing, once), gets its signal, and ends when it enables. */
START_TEST(cancelled_while_disabled)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int before = 0; before < 2; before++) {
			struct hall h;
			struct team *other;
			pthread_t t;

			hall_of_case(&h, kinds[kind].type, _i);
			atomic_store(&h.closed, before);
			t = thread_start(immune_guest, &h);
			hall_gather(&h, 1);
			MUST(pthread_mutex_unlock(&h.m));
			if (!before)
				MUST(pthread_cancel(t));
			sleep_us(200);
			other = team_start(1, hall_guest, &h);
			for (int n = 2; n > 0; n--) {
				hall_gather(&h, n);
				if (_i < WAYS) /* a shared one may do so more often */
					ck_assert_int_le(atomic_load(&h.returns), 1 + 2 - n);
				hall_call(&h, n % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
				SOON(atomic_load(&h.waiting) == n - 1);
			}
			CANCELLED(t);
			team_join(other);
			hall_want_forgetful(&h);
			hall_end(&h);
		}
}
END_TEST

static void want_asynchronous(int line)
{
	int type = -1;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	if (type != PTHREAD_CANCEL_ASYNCHRONOUS)
		complain("line %d: the type of cancellation became %d", line, type);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
}
#define ASYNCHRONOUS() want_asynchronous(__LINE__)

static void *asynchronous_guest(void *hall)
{
	struct timespec past = {1, 0}, bad = {1, -1};
	struct hall *h = hall;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	hall_come_in(h);
	CALL(pthread_cond_timedwait(&h->c, &h->m, &past), ETIMEDOUT);
	ASYNCHRONOUS();
	CALL(pthread_cond_timedwait(&h->c, &h->m, &bad), EINVAL);
	ASYNCHRONOUS();
	CALL(pthread_cond_clockwait(&h->c, &h->m, -1, &past), EINVAL);
	ASYNCHRONOUS();
	atomic_store(&h->late, 1);
	pthread_cleanup_push(hall_ended, h);
	while (!atomic_load(&h->tickets) && !complained())
		CALL(wait_by(h->way, &h->c, &h->m), 0);
	ASYNCHRONOUS();
	HELD(&h->m);
	pthread_cleanup_pop(0);
	hall_wait(h);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	return NULL;
}

START_TEST(cancelled_asynchronously)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int cancel = 0; cancel < 2; cancel++) {
			struct hall h;
			pthread_t t;

			hall_of_case(&h, kinds[kind].type, _i);
			t = thread_start(asynchronous_guest, &h);
			SOON(atomic_load(&h.late));
			hall_gather(&h, 1);
			if (cancel) {
				MUST(pthread_mutex_unlock(&h.m));
				SOON(is_asleep(atomic_load(&h.tid)));
				MUST(pthread_cancel(t));
				CANCELLED(t);
			} else {
				hall_call(&h, SIGNAL_HELD, 1);
				ck_assert_ptr_null(thread_join(t));
			}
			ck_assert_int_eq(atomic_load(&h.cancelled), cancel);
			hall_use(&h);
			hall_end(&h);
		}
}
END_TEST

/* A guest with many deadlines, instead of one that never comes. */
static void *hasty_guest(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	pthread_cleanup_push(hall_ended, h);
	while (!atomic_load(&h->tickets) && !complained()) {
		struct timespec soon = deadline(CLOCK_MONOTONIC, 40000);
		int rc = pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon);

		HELD(&h->m);
		if (rc != ETIMEDOUT)
			WANT(rc, 0);
	}
	hall_wait(h);
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel_maybe_over(pthread_t thread)
{
	int rc = pthread_cancel(thread);

	/* It may have ended, of which glibc speaks before 2.34. */
	if (rc != ESRCH || strverscmp(gnu_get_libc_version(), "2.34") >= 0)
		WANT(rc, 0);
}

static void cancel(void *thread)
{
	cancel_maybe_over(*(pthread_t *)thread);
}

/* Two wait, one of them is cancelled while a signal is sent: that one takes the ticket, or else the other does. */
START_TEST(cancelled_at_the_signal)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 500000;
	struct servant *s = servant_hire();
	uint32_t luck = 1234567 + _i;
	int cancelled = 0, rounds;
	struct team *regular;
	struct hall h;

	hall_of_case(&h, kinds[_i % KINDS].type, _i);
	regular = team_start(1, hall_regular, &h);
	for (rounds = 0; rounds < 20 || now_ns() < end; rounds++) {
		enum how how = dice(&luck) / 4096 % HOWS;
		pthread_t t;

		if (luck % 4 == 0) /* who is first may be either */
			SOON(atomic_load(&h.waiting) == 1);
		t = thread_start(luck % 3 ? mortal_guest : hasty_guest, &h);
		hall_gather(&h, 2);
		switch (luck / 64 % 3) {
		case 0:
			cancel(&t);
			spin_ns(luck / 256 % 16 * 500);
			hall_call(&h, how, 1);
			break;
		case 1:
			servant_begin(s, cancel, &t);
			spin_ns(luck / 256 % 16 * 4000);
			hall_call(&h, how, 1);
			servant_end(s);
			break;
		default:
			hall_call(&h, how, 1);
			spin_ns(luck / 256 % 16 * 500);
			cancel(&t);
		}
		SOON(atomic_load(&h.tickets) == 0);
		cancelled += thread_join(t) == PTHREAD_CANCELED;
	}
	hall_gather(&h, 1);
	atomic_store(&h.closed, true);
	hall_call(&h, SIGNAL_HELD, 1);
	team_join(regular);
	servant_dismiss(s);
	hall_end(&h);
	say("cond-cancel: %d of %d were cancelled before their signal", cancelled, rounds);
}
END_TEST

/* Signalled, but not let into the mutex yet: too late to be cancelled, or another one gets the signal. */
START_TEST(cancelled_while_it_locks)
{
	struct team *regular;
	struct hall h;

	hall_of_case(&h, kinds[_i % KINDS].type, _i);
	regular = team_start(1, hall_regular, &h);
	for (int round = 0; round < 12; round++) {
		int all = round / 4 % 2;
		pthread_t t;

		if (round % 4)
			SOON(atomic_load(&h.waiting) == 1);
		t = thread_start(mortal_guest, &h);
		hall_gather(&h, 2);
		atomic_fetch_add(&h.tickets, 1 + all);
		CALL(all ? pthread_cond_broadcast(&h.c) : pthread_cond_signal(&h.c), 0);
		sleep_us(round % 3 * 150);
		MUST(pthread_cancel(t));
		sleep_us(round % 2 * 150);
		HELD(&h.m);
		MUST(pthread_mutex_unlock(&h.m));
		SOON(atomic_load(&h.tickets) == 0);
		thread_join(t);
	}
	hall_gather(&h, 1);
	atomic_store(&h.closed, true);
	hall_call(&h, SIGNAL_HELD, 1);
	team_join(regular);
	hall_end(&h);
}
END_TEST

/* One is cancelled, and the others are called, and then there is no cond any more. */
START_TEST(cancelled_at_the_end)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 400000;
	uint32_t luck = 7654321 + _i;

	for (int round = 0; round < 10 || now_ns() < end; round++) {
		pthread_t mortal, other;
		struct hall h;

		hall_of_case(&h, kinds[round % KINDS].type, _i);
		mortal = thread_start(mortal_guest, &h);
		other = thread_start(mortal_guest, &h);
		hall_gather(&h, 2);
		atomic_store(&h.tickets, 2);
		if (dice(&luck) % 2)
			MUST(pthread_mutex_unlock(&h.m));
		MUST(pthread_cancel(mortal));
		spin_ns(luck / 256 % 16 * 2000);
		CALL(pthread_cond_broadcast(&h.c), 0);
		CALL(pthread_cond_destroy(&h.c), 0);
		memset(&h.c, 0xff, sizeof h.c);
		if (luck % 2 == 0)
			MUST(pthread_mutex_unlock(&h.m));
		thread_join(mortal);
		ck_assert_ptr_null(thread_join(other));
		want_untouched(&h.c, sizeof h.c);
		stop_if_complained();
	}
}
END_TEST

/* Sixteen wait, half of them are cancelled at random: as long as another one waits, each signal finds its taker. */
enum { MANY = 16 };

static int cancel_and_call(struct hall *h, const pthread_t *t, int from, int to, uint32_t luck)
{
	int calls, sent = 0;

	MUST(pthread_mutex_lock(&h->m));
	/* Those who have been cancelled, and may yet take a ticket or not, do not count; this is so many or more. */
	calls = atomic_load(&h->waiting) - (to - atomic_load(&h->cancelled));
	if (calls > (int)(luck % 4))
		calls = luck % 4;
	for (; from < to || sent < calls; from++) {
		if (from < to)
			cancel_maybe_over(t[2 * from]);
		if (sent < calls) {
			atomic_fetch_add(&h->tickets, 1);
			CALL(pthread_cond_signal(&h->c), 0);
			sent++;
		}
	}
	MUST(pthread_mutex_unlock(&h->m));
	SOON(atomic_load(&h->tickets) == 0);
	return sent;
}

START_TEST(half_of_them_cancelled)
{
	uint32_t luck = 99 + _i;

	for (int round = 0; round < 8; round++) {
		int signals = 0, cancelled = 0;
		pthread_t t[MANY];
		struct hall h;

		hall_of_case(&h, kinds[round % KINDS].type, _i);
		for (int i = 0; i < MANY; i++)
			t[i] = thread_start(i % 4 == 3 ? hasty_guest : mortal_guest, &h);
		hall_gather(&h, MANY);
		MUST(pthread_mutex_unlock(&h.m));
		for (int from = 0, to; from < MANY / 2; from = to) {
			to = from + dice(&luck) / 16 % 3;
			to = to > MANY / 2 ? MANY / 2 : to;
			signals += cancel_and_call(&h, t, from, to, luck / 64);
		}
		for (int i = 0; i < MANY; i += 2)
			cancelled += thread_join(t[i]) == PTHREAD_CANCELED;
		ck_assert_int_eq(cancelled, atomic_load(&h.cancelled));
		for (; atomic_load(&h.waiting) > 0; signals++) {
			MUST(pthread_mutex_lock(&h.m));
			hall_call(&h, signals % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
			SOON(atomic_load(&h.tickets) == 0);
		}
		for (int i = 1; i < MANY; i += 2)
			ck_assert_ptr_null(thread_join(t[i]));
		ck_assert_int_eq(atomic_load(&h.out), signals);
		ck_assert_int_eq(atomic_load(&h.out), MANY - cancelled);
		hall_end(&h);
	}
}
END_TEST

/*
 * At each instruction of a call of wait: the thread stands still there, and meanwhile another one cancels it or, where
 * the mutex is free already, sends a signal.
 */
#ifdef __x86_64__
static struct {
	atomic_uint steps, stop_at;
	atomic_bool stopped, go_on;
} halt;

static void on_halting_step(int signal, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)signal, (void)info;
	if (atomic_fetch_add(&halt.steps, 1) < atomic_load(&halt.stop_at))
		return;
	*flags &= ~(greg_t)TRAP_FLAG;
	atomic_store(&halt.stopped, true);
	while (!atomic_load(&halt.go_on))
		sched_yield(); /* sleeping would be a cancellation point */
}

static void *stepping_guest(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	pthread_cleanup_push(hall_ended, h);
	STEPPED(wait_by(h->way, &h->c, &h->m));
	HELD(&h->m);
	if (!atomic_load(&h->tickets))
		complain("a wait returned for nothing");
	atomic_fetch_sub(&h->waiting, 1);
	atomic_fetch_sub(&h->tickets, 1);
	MUST(pthread_mutex_unlock(&h->m));
	pthread_cleanup_pop(0);
	return NULL;
}

START_TEST(halted_at_each_instruction)
{
	struct sigaction action = {.sa_sigaction = on_halting_step, .sa_flags = SA_SIGINFO | SA_NODEFER};
	bool signals = _i % 2, asleep = false;
	uint32_t luck = (uint32_t)now_ns() | 1; /* each run of the suite sees other places */

	sigaction(SIGTRAP, &action, NULL);
	for (unsigned at = 1 + luck / 2 % 20; !asleep; at += 1 + dice(&luck) % 60) {
		struct hall h;
		char what[80];
		pthread_t t;

		hall_of_case(&h, kinds[at % KINDS].type, _i / 2 * WAYS + at % WAYS);
		atomic_store(&halt.steps, 0);
		atomic_store(&halt.stop_at, at);
		atomic_store(&halt.stopped, false);
		atomic_store(&halt.go_on, false);
		t = thread_start(stepping_guest, &h);
		SOON(atomic_load(&halt.stopped) || (atomic_load(&h.waiting) && is_asleep(atomic_load(&h.tid))));
		asleep = !atomic_load(&halt.stopped);
		if (signals && pthread_mutex_trylock(&h.m) == 0)
			hall_call(&h, at % HOWS, 1);
		else
			MUST(pthread_cancel(t));
		atomic_store(&halt.go_on, true);
		snprintf(what, sizeof what, "who was halted at instruction %u is %s", at, signals ? "woken" : "gone");
		for (uint64_t since = now_ns(); atomic_load(&h.waiting) || atomic_load(&h.tickets);)
			be_patient(since, what, __LINE__);
		thread_join(t);
		hall_end(&h);
	}
	say("cond-cancel: %u instructions of a wait until it sleeps", atomic_load(&halt.steps));
	ck_assert_uint_gt(atomic_load(&halt.steps), 100);
}
END_TEST
#else
START_TEST(halted_at_each_instruction)
{
}
END_TEST
#endif

/* ---- cancellation, and mutexes of other kinds ---- */

START_TEST(cancelled_with_other_kinds)
{
	int which = ROBUST + _i;

	for (int type = 0; type < KINDS; type++)
		for (int shared = 0; shared < 2; shared++) {
			struct hall h = {.way = (type + shared) % WAYS};
			pthread_t t;

			if (!special_make(&h.m, kinds[type].type, which))
				return;
			cond_make(&h.c, shared, CLOCK_REALTIME);
			t = thread_start(mortal_guest, &h);
			hall_gather(&h, 1);
			if (type % 2) {
				MUST(pthread_mutex_unlock(&h.m));
				SOON(is_asleep(atomic_load(&h.tid)));
				MUST(pthread_cancel(t));
			} else {
				MUST(pthread_cancel(t));
				MUST(pthread_mutex_unlock(&h.m));
			}
			CANCELLED(t);
			CANCELLED(thread_start(cancelled_before, &h));
			ck_assert_int_eq(atomic_load(&h.cancelled), 2);
			hall_use(&h);
			hall_end(&h);
		}
}
END_TEST

static void on_inherited(void *hall)
{
	struct hall *h = hall;

	HELD(&h->m);
	MUST(pthread_mutex_consistent(&h->m));
	hall_ended(h);
}

static void *mortal_heir(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	pthread_cleanup_push(on_inherited, h);
	hall_wait(h);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Cancelled while somebody holds the robust mutex, and dies with it: the handler inherits. */
START_TEST(cancelled_and_the_owner_dies)
{
	static const int robust[] = {ROBUST, ROBUST_INHERIT, ROBUST_SHARED};

	for (int i = 0; i < 3; i++)
		for (int shared = 0; shared < 2; shared++) {
			struct hall h = {.way = (i + shared) % WAYS};
			struct servant *owner = servant_hire();
			pthread_t t;

			if (!special_make(&h.m, kinds[_i].type, robust[i]))
				return;
			cond_make(&h.c, shared, CLOCK_REALTIME);
			t = thread_start(mortal_heir, &h);
			SOON(atomic_load(&h.waiting) == 1);
			servant_do(owner, lock, &h.m);
			MUST(pthread_cancel(t));
			sleep_us(100);
			servant_dismiss(owner);
			CANCELLED(t);
			hall_use(&h);
			hall_end(&h);
		}
}
END_TEST

static void on_cancelled_deep(void *hall)
{
	struct hall *h = hall;

	FIELDS(&h->m, gettid(), 2, 1);
	MUST(pthread_mutex_unlock(&h->m));
	hall_ended(h);
}

static void *mortal_deep_guest(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	MUST(pthread_mutex_lock(&h->m));
	atomic_store(&h->late, 1);
	pthread_cleanup_push(on_cancelled_deep, h);
	complain("a wait returned %d, and nobody had signalled", wait_by(h->way, &h->c, &h->m));
	pthread_cleanup_pop(0);
	return NULL;
}

START_TEST(cancelled_with_the_mutex_held_twice)
{
	struct hall h;
	pthread_t t;

	hall_of_case(&h, PTHREAD_MUTEX_RECURSIVE, _i);
	t = thread_start(mortal_deep_guest, &h);
	SOON(atomic_load(&h.late) && is_asleep(atomic_load(&h.tid)));
	MUST(pthread_cancel(t));
	CANCELLED(t);
	ck_assert_int_eq(atomic_load(&h.cancelled), 1);
	FIELDS(&h.m, 0, 0, 0);
	hall_use(&h);
	hall_end(&h);
}
END_TEST

/* ---- cleanup handlers ---- */

static int order; /* digits, in the order of the handlers; written with the hall's mutex held */

static void on_first(void *hall)
{
	order = order * 10 + 1;
	hall_ended(hall);
}

static void on_second(void *hall)
{
	struct hall *h = hall;

	HELD(&h->m);
	order = order * 10 + 2;
}

static pthread_cond_t other_cond = PTHREAD_COND_INITIALIZER;
static atomic_bool other_wait, other_go;

/* Waits itself, with the same mutex: in vain, and then for a signal.  Being cancelled it may return for nothing. */
static void on_third(void *hall)
{
	struct timespec soon = deadline(CLOCK_MONOTONIC, 300000);
	struct hall *h = hall;
	int rc, returns = 0;

	HELD(&h->m);
	do {
		rc = pthread_cond_clockwait(&other_cond, &h->m, CLOCK_MONOTONIC, &soon);
		HELD(&h->m);
	} while (rc == 0 && ++returns < 2);
	WANT(rc, ETIMEDOUT);
	atomic_store(&other_wait, true);
	while (!atomic_load(&other_go) && !complained())
		CALL(wait_by(h->way, &other_cond, &h->m), 0);
	HELD(&h->m);
	order = order * 10 + 3;
}

static void *guest_of_three_handlers(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	pthread_cleanup_push(on_first, h);
	pthread_cleanup_push(on_second, h);
	pthread_cleanup_push(on_third, h);
	hall_wait(h);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

START_TEST(handlers_wait_and_nest)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct hall h;
		pthread_t t;

		hall_of_case(&h, kinds[kind].type, _i);
		order = 0;
		atomic_store(&other_wait, false);
		atomic_store(&other_go, false);
		t = thread_start(guest_of_three_handlers, &h);
		SOON(atomic_load(&h.waiting) == 1 && is_asleep(atomic_load(&h.tid)));
		MUST(pthread_cancel(t));
		SOON(atomic_load(&other_wait));
		MUST(pthread_mutex_lock(&h.m));
		atomic_store(&other_go, true);
		CALL(pthread_cond_signal(&other_cond), 0);
		MUST(pthread_mutex_unlock(&h.m));
		CANCELLED(t);
		ck_assert_int_eq(order, 321);
		hall_use(&h);
		hall_end(&h);
	}
}
END_TEST

/* In C without exceptions glibc runs a handler that exits once more. */
static void on_cancelled_exit(void *hall)
{
	struct hall *h = hall;

	if (atomic_exchange(&h->closed, true))
		return;
	hall_ended(h);
	pthread_exit(h);
}

static void *guest_that_exits(void *hall)
{
	hall_come_in(hall);
	pthread_cleanup_push(on_cancelled_exit, hall);
	hall_wait(hall);
	pthread_cleanup_pop(0);
	return NULL;
}

/* And threads that are in no wait of ours are cancelled as ever. */
static void *pause_guest(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	pthread_cleanup_push(hall_ended, h);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return NULL;
}

START_TEST(handlers_exit)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct hall h;
		pthread_t t;

		hall_of_case(&h, kinds[kind].type, _i);
		t = thread_start(guest_that_exits, &h);
		SOON(atomic_load(&h.waiting) == 1 && is_asleep(atomic_load(&h.tid)));
		MUST(pthread_cancel(t));
		ck_assert_ptr_eq(thread_join(t), &h);
		t = thread_start(pause_guest, &h);
		SOON(atomic_load(&h.waiting) == 1);
		MUST(pthread_cancel(t));
		CANCELLED(t);
		hall_use(&h);
		hall_end(&h);
	}
}
END_TEST

static void *refused_guest(void *hall)
{
	struct hall *h = hall;
	int state;

	MUST(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
	while (!atomic_load(&h->closed) && !complained())
		CALL(wait_by(h->way, &h->c, &h->m), EPERM);
	return NULL;
}

/* The mutex is not its own, and glibc's: the wait has begun when it is refused, and may have been cancelled by then. */
START_TEST(refused_and_cancelled)
{
	struct hall h = {.way = (enum way)(_i % WAYS)};
	pthread_t t;
	uint64_t end;

	if (!special_make(&h.m, PTHREAD_MUTEX_ERRORCHECK, INHERIT))
		return;
	cond_make(&h.c, _i / WAYS ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	t = thread_start(refused_guest, &h);
	for (end = now_ns() + suite_scale(RACE_MS) * 1000000; now_ns() < end;)
		MUST(pthread_cancel(t));
	atomic_store(&h.closed, true);
	ck_assert_ptr_null(thread_join(t));
	hall_end(&h);
}
END_TEST

/* In the last round of destructors its thread waits for a mutex for the first time. */
static struct hall *last_hall;
static pthread_key_t last_key;

static void on_last(void *rounds)
{
	if ((intptr_t)rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(last_key, (char *)rounds + 1);
		return;
	}
	atomic_store(&last_hall->tid, gettid());
	MUST(pthread_mutex_lock(&last_hall->m));
	MUST(pthread_mutex_unlock(&last_hall->m));
}

static void *end_late(void *arg)
{
	MUST(pthread_setspecific(last_key, (void *)1));
	return arg;
}

START_TEST(cancelled_in_the_place_of_one_that_ended_late)
{
	struct hall h = {.way = WAIT};
	pthread_t late, t;
	int same = 0;

	last_hall = &h;
	mutex_make(&h.m, kinds[_i].type);
	MUST(pthread_key_create(&last_key, on_last));
	for (int tries = 0; tries < 50 && !same; tries++) {
		atomic_store(&h.tid, 0);
		MUST(pthread_mutex_lock(&h.m));
		late = thread_start(end_late, NULL);
		SOON(atomic_load(&h.tid) && is_asleep(atomic_load(&h.tid)));
		MUST(pthread_mutex_unlock(&h.m));
		thread_join(late);
		t = thread_start(mortal_guest, &h);
		same = pthread_equal(t, late); /* the same stack */
		hall_gather(&h, 1);
		MUST(pthread_mutex_unlock(&h.m));
		SOON(is_asleep(atomic_load(&h.tid)));
		MUST(pthread_cancel(t));
		CANCELLED(t);
	}
	if (!same)
		say("SKIP: no thread has had the number of one before it");
	MUST(pthread_key_delete(last_key));
	hall_use(&h);
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-cancel");

	SUITE_CASE_OF(s, cancelled_before_the_wait, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_while_blocked, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_while_disabled, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_asynchronously, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_at_the_signal, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_while_it_locks, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_at_the_end, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, half_of_them_cancelled, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, halted_at_each_instruction, 60, 4);
	SUITE_CASE_OF(s, cancelled_with_other_kinds, 60, SPECIALS - ROBUST);
	SUITE_CASE_OF(s, cancelled_and_the_owner_dies, 60, KINDS);
	SUITE_CASE_OF(s, cancelled_with_the_mutex_held_twice, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, handlers_wait_and_nest, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, handlers_exit, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, refused_and_cancelled, 60, CANCEL_CASES);
	SUITE_CASE_OF(s, cancelled_in_the_place_of_one_that_ended_late, 60, KINDS);
	return suite_run(s);
}
