/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-api: condition variables call by call: return codes, fields, clocks, kinds of mutexes, handlers.
 *
 * Most cases wait in a hall (hall.h).
 *
 * It would catch: a wait that returns without the mutex, for nothing, too early or in the wrong clock; a call that
 * writes errno; a signal that is remembered, given to two, or lost to one that is refused or whose deadline passes; a
 * mutex whose fields do not tell of its waiters, or that is not inherited from a dead owner.
 */

#include "hall.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- making, and who is woken ---- */

START_TEST(initialisers)
{
	static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;

	/* The last 8 bytes: initialisers of some releases leave them as they are; glibc 2.36 itself needs zeros. */
	for (int made = 0; made < (suite_served() ? 5 : 4); made++) {
		struct hall h = {.way = WAIT};

		mutex_make(&h.m, kinds[_i].type);
		memset(&h.c, made == 1 ? 0 : 0xff, sizeof h.c);
		if (made == 0 || made == 4)
			h.c = fresh;
		if (made == 2)
			CALL(pthread_cond_init(&h.c, NULL), 0);
		if (made == 3)
			cond_make(&h.c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
		if (made == 4)
			memset((char *)&h.c + 40, 0xff, 8);
		hall_use(&h);
		CALL(pthread_cond_destroy(&h.c), 0);
		CALL(pthread_cond_init(&h.c, NULL), 0);
		hall_want_forgetful(&h);
		CALL(pthread_cond_destroy(&h.c), 0);
		MUST(pthread_mutex_destroy(&h.m));
		stop_if_complained();
	}
}
END_TEST

/* Of four, each signal wakes one, and a broadcast all that are left; nobody returns for nothing. */
START_TEST(one_or_all)
{
	for (enum way way = 0; way < WAYS; way++)
		for (int how = SIGNAL_HELD; how <= SIGNAL_FREE; how++) {
			struct hall h = {.way = way};
			struct team *t;

			mutex_make(&h.m, kinds[_i].type);
			t = team_start(4, hall_guest, &h);
			hall_gather(&h, 4);
			for (int n = 1; n < 3; n++) {
				hall_call(&h, how, 1);
				SOON(atomic_load(&h.out) == n);
				sleep_us(500);
				hall_gather(&h, 4 - n);
				ck_assert_int_eq(atomic_load(&h.returns), n);
			}
			hall_call(&h, how - SIGNAL_HELD + BROADCAST_HELD, 2);
			SOON(atomic_load(&h.out) == 4);
			team_join(t);
			ck_assert_int_eq(atomic_load(&h.returns), 4);
			assert_no_complaint();
		}
}
END_TEST

/* ---- return codes ---- */

START_TEST(codes)
{
	static const long bad_ns[] = {-1, 1000000000, LONG_MAX, LONG_MIN};
	static const clockid_t bad_clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, -1, 999};
	static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
	struct timespec past[] = {{-1, 0}, {LONG_MIN, 999999999}, {0, 0}, {0, 999999999}, {0, 0}};

	for (int attr = 0; attr < 4; attr++) {
		struct hall h = {.way = TIMEDWAIT};
		int kind;

		mutex_make(&h.m, kinds[_i].type);
		cond_make(&h.c, attr / 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE, clocks[attr % 2]);
		kind = h.m.__data.__kind;
		MUST(pthread_mutex_lock(&h.m));
		for (int which = 0; which < 2; which++) {
			for (size_t i = 0; i < sizeof bad_ns / sizeof bad_ns[0]; i++) {
				struct timespec t = deadline(clocks[which], which ? -5000000000 : 5000000000);

				t.tv_nsec = bad_ns[i];
				CALL(pthread_cond_timedwait(&h.c, &h.m, &t), EINVAL);
				HELD(&h.m);
				CALL(pthread_cond_clockwait(&h.c, &h.m, clocks[which], &t), EINVAL);
				HELD(&h.m);
			}
			for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
				past[4] = deadline(clocks[attr % 2], -1);
				CALL(pthread_cond_timedwait(&h.c, &h.m, &past[i]), ETIMEDOUT);
				HELD(&h.m);
				past[4] = deadline(clocks[which], -1);
				CALL(pthread_cond_clockwait(&h.c, &h.m, clocks[which], &past[i]), ETIMEDOUT);
				HELD(&h.m);
			}
		}
		for (size_t i = 0; i < sizeof bad_clocks / sizeof bad_clocks[0]; i++) {
			struct timespec t = deadline(CLOCK_REALTIME, 1000000);

			CALL(pthread_cond_clockwait(&h.c, &h.m, bad_clocks[i], &t), EINVAL);
			HELD(&h.m);
		}
		ck_assert_uint_eq(h.m.__data.__nusers, 1);
		ck_assert_int_eq(h.m.__data.__kind, kind);
		MUST(pthread_mutex_unlock(&h.m));
		if (attr % 2 == 0)
			hall_use(&h);
		CALL(pthread_cond_destroy(&h.c), 0);
		MUST(pthread_mutex_destroy(&h.m));
		assert_no_complaint();
	}
}
END_TEST

/* Who does not own the mutex is told, and has taken nobody's signal along; also by mutexes that glibc serves. */
static void refused_waits(int type, int which, int shared)
{
	struct servant *s = servant_hire();
	struct hall h = {.way = WAIT};

	if (!special_make(&h.m, type, which))
		return;
	cond_make(&h.c, shared, CLOCK_REALTIME);
	for (int taken = 0; taken < 2; taken++) {
		if (taken)
			servant_do(s, lock, &h.m);
		for (enum way way = 0; way < WAYS; way++) {
			struct timespec past = {1, 0}, bad = {1, -1};

			CALL(wait_by(way, &h.c, &h.m), EPERM);
			CALL(pthread_cond_timedwait(&h.c, &h.m, &past), EPERM);
			CALL(pthread_cond_timedwait(&h.c, &h.m, &bad), EINVAL);
		}
		if (taken)
			servant_do(s, unlock, &h.m);
	}
	servant_dismiss(s);
	hall_use(&h);
	CALL(pthread_cond_destroy(&h.c), 0);
	MUST(pthread_mutex_destroy(&h.m));
	assert_no_complaint();
}

START_TEST(not_the_owner)
{
	for (int shared = 0; shared < 2; shared++) {
		refused_waits(PTHREAD_MUTEX_RECURSIVE, PLAIN, shared);
		for (int which = 0; which < PROTECT; which++)
			refused_waits(PTHREAD_MUTEX_ERRORCHECK, which, shared);
	}
}
END_TEST

static void be_refused(int index, void *arg)
{
	struct hall *h = arg;

	(void)index;
	while (!atomic_load(&h->closed) && !complained())
		CALL(wait_by(h->way, &h->c, &h->m), EPERM);
}

/* The refused one is in the list for a moment: what signals it then must reach another one. */
START_TEST(refused_at_the_signal)
{
	struct hall h = {.way = _i % 2 ? TIMEDWAIT : WAIT};
	struct team *regular, *refused;
	uint64_t end;

	if (!special_make(&h.m, PTHREAD_MUTEX_ERRORCHECK, _i / 2 ? INHERIT : ROBUST))
		return;
	CALL(pthread_cond_init(&h.c, NULL), 0);
	regular = team_start(2, hall_regular, &h);
	refused = team_start(1, be_refused, &h);
	end = now_ns() + suite_scale(RACE_MS) * 250000;
	for (int out = 0; now_ns() < end || out < 20; out++) {
		hall_gather(&h, 2);
		hall_call(&h, out % 2 ? SIGNAL_FREE : SIGNAL_HELD, 1);
		SOON(atomic_load(&h.out) == out + 1);
	}
	hall_gather(&h, 2);
	atomic_store(&h.closed, true);
	hall_call(&h, BROADCAST_HELD, 2);
	team_join(regular);
	team_join(refused);
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

/* ---- time ---- */

/* A wait until then, in the way of the case: in the clock of the attribute, or in one given. */
static int wait_until(int way, pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *then)
{
	errno = ERRNO_MARK;
	return way < 3 ? pthread_cond_timedwait(c, m, then)
		       : pthread_cond_clockwait(c, m, way == 3 ? CLOCK_REALTIME : CLOCK_MONOTONIC, then);
}

/* The flags of the attribute, where glibc leaves them from 2.41 on, or where it did so before. */
static void take_flags_elsewhere(pthread_cond_t *c)
{
	enum { SINCE_2_41 = 28, BEFORE = 36 };
	uint32_t *since = (uint32_t *)((char *)c + SINCE_2_41), *before = (uint32_t *)((char *)c + BEFORE), flags = *since;

	*since = *before;
	*before = flags;
}

/* In the wrong clock a deadline would lie decades away, in one direction or in the other. The last third: where another glibc has made it. */
START_TEST(never_early)
{
	static const int64_t aheads[] = {0, 1, 1000, 60000, 2000000};
	static const clockid_t attr_clocks[] = {-1, CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_REALTIME};
	int way = _i % 5;
	clockid_t clock = way == 2 || way == 4 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
	struct hall h = {.way = WAIT};

	if (_i == 0)
		CALL(pthread_cond_init(&h.c, NULL), 0);
	else
		cond_make(&h.c, _i / 5 == 1 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE,
			  way ? attr_clocks[way] : CLOCK_REALTIME);
	if (_i / 5 == 2 && suite_served())
		take_flags_elsewhere(&h.c);
	for (size_t i = 0; i < sizeof aheads / sizeof aheads[0]; i++)
		for (int kind = 0; kind < KINDS; kind++) {
			struct timespec until, now;

			mutex_make(&h.m, kinds[kind].type);
			MUST(pthread_mutex_lock(&h.m));
			until = deadline(clock, aheads[i]);
			CALL(wait_until(way, &h.c, &h.m, &until), ETIMEDOUT);
			clock_gettime(clock, &now);
			HELD(&h.m);
			ck_assert_msg(now.tv_sec > until.tv_sec ||
					      (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec),
				      "gave up %lld ns early",
				      (until.tv_sec - now.tv_sec) * 1000000000LL + until.tv_nsec - now.tv_nsec);
			MUST(pthread_mutex_unlock(&h.m));
			MUST(pthread_mutex_destroy(&h.m));
		}
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

struct late {
	struct hall h;
	int64_t ahead;
	int rc;
	atomic_bool back;
};

static void be_late(int index, void *arg)
{
	struct late *l = arg;
	struct timespec t;
	(void)index;

	hall_come_in(&l->h);
	t = deadline(CLOCK_MONOTONIC, l->ahead);
	errno = ERRNO_MARK;
	l->rc = pthread_cond_clockwait(&l->h.c, &l->h.m, CLOCK_MONOTONIC, &t);
	want_errno("clockwait", __LINE__);
	atomic_store(&l->back, true);
	HELD(&l->h.m);
	atomic_fetch_sub(&l->h.waiting, 1);
	MUST(pthread_mutex_unlock(&l->h.m));
}

/* The deadline passes, but the mutex is not to be had: no return without it. */
START_TEST(late_but_locked_out)
{
	for (int round = 0; round < 4; round++) {
		struct late l = {.ahead = 200000};
		struct team *t;

		mutex_make(&l.h.m, kinds[_i].type);
		t = team_start(1, be_late, &l);
		SOON(atomic_load(&l.h.waiting) == 1 || atomic_load(&l.back));
		MUST(pthread_mutex_lock(&l.h.m));
		sleep_us(1000);
		if (atomic_load(&l.back) && atomic_load(&l.h.waiting))
			complain("back without the mutex");
		MUST(pthread_mutex_unlock(&l.h.m));
		team_join(t);
		assert_no_complaint();
		ck_assert_int_eq(l.rc, ETIMEDOUT);
		hall_want_forgetful(&l.h);
	}
}
END_TEST

/* ---- the mutex's fields ---- */

/* Waiters are users of the mutex, and whoever asks is told so; also those that have been signalled already. */
START_TEST(fields)
{
	unsigned count = kinds[_i].type == PTHREAD_MUTEX_RECURSIVE;

	for (enum how how = 0; how < HOWS; how++)
		for (int n = 1; n < 4; n++) {
			struct hall h = {.way = how % WAYS};
			struct team *t;

			mutex_make(&h.m, kinds[_i].type);
			t = team_start(n, hall_guest, &h);
			hall_gather(&h, n);
			FIELDS(&h.m, gettid(), count, n + 1);
			MUST(pthread_mutex_unlock(&h.m));
			FIELDS(&h.m, 0, 0, n);
			WANT(pthread_mutex_destroy(&h.m), EBUSY);
			hall_gather(&h, n);
			if (n == 2) { /* signalled, and now they wait for the mutex */
				CALL(pthread_cond_signal(&h.c), 0);
				FIELDS(&h.m, gettid(), count, n + 1);
				CALL(pthread_cond_broadcast(&h.c), 0);
				sleep_us(200);
				FIELDS(&h.m, gettid(), count, n + 1);
				WANT(pthread_mutex_destroy(&h.m), EBUSY);
			}
			hall_call(&h, BROADCAST_HELD, n);
			SOON(atomic_load(&h.out) == n);
			team_join(t);
			FIELDS(&h.m, 0, 0, 0);
			MUST(pthread_mutex_lock(&h.m));
			FIELDS(&h.m, gettid(), count, 1);
			MUST(pthread_mutex_unlock(&h.m));
			MUST(pthread_mutex_destroy(&h.m));
			assert_no_complaint();
		}
}
END_TEST

/* Held twice: only one level is let go, so the signal comes from who does not need the mutex. */
static void wait_deep(int index, void *arg)
{
	struct hall *h = arg;
	struct timespec soon;
	(void)index;

	hall_come_in(h);
	MUST(pthread_mutex_lock(&h->m));
	soon = deadline(CLOCK_MONOTONIC, 300000);
	FIELDS(&h->m, gettid(), 2, 1);
	CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	FIELDS(&h->m, gettid(), 2, 1);
	atomic_fetch_add(&h->waiting, 1);
	CALL(wait_by(h->way, &h->c, &h->m), 0);
	FIELDS(&h->m, gettid(), 2, 1);
	atomic_store(&h->out, 1);
	MUST(pthread_mutex_unlock(&h->m));
	FIELDS(&h->m, gettid(), 1, 1);
	MUST(pthread_mutex_unlock(&h->m));
}

START_TEST(recursive_held_twice)
{
	for (enum way way = 0; way < WAYS; way++)
		for (int all = 0; all < 2; all++) {
			struct hall h = {.way = way};
			struct team *t;

			mutex_make(&h.m, PTHREAD_MUTEX_RECURSIVE);
			t = team_start(1, wait_deep, &h);
			SOON(atomic_load(&h.waiting) == 2 && is_asleep(atomic_load(&h.tid)));
			while (!atomic_load(&h.out)) { /* the first ones may be too early */
				int rc = pthread_mutex_trylock(&h.m);

				if (rc == 0) { /* meanwhile it has come out, and let go */
					WANT(atomic_load(&h.out), 1);
					MUST(pthread_mutex_unlock(&h.m));
					break;
				}
				WANT(rc, EBUSY);
				CALL(all ? pthread_cond_broadcast(&h.c) : pthread_cond_signal(&h.c), 0);
				sleep_us(200);
				stop_if_complained();
			}
			team_join(t);
			FIELDS(&h.m, 0, 0, 0);
			MUST(pthread_mutex_destroy(&h.m));
			CALL(pthread_cond_destroy(&h.c), 0);
			assert_no_complaint();
		}
}
END_TEST

/* ---- mutexes that glibc serves ---- */

/* Each kind of them, each type, each way to wait, with a cond of this process and a shared one. */
START_TEST(other_kinds)
{
	int which = ROBUST + _i;

	for (int type = 0; type < KINDS; type++)
		for (int shared = 0; shared < 2; shared++) {
			struct hall h = {.way = (type + shared) % WAYS};

			if (!special_make(&h.m, kinds[type].type, which))
				return;
			cond_make(&h.c, shared, CLOCK_REALTIME);
			hall_use(&h);
			CALL(pthread_cond_destroy(&h.c), 0);
			MUST(pthread_mutex_destroy(&h.m));
			stop_if_complained();
		}
}
END_TEST

/* Their waiters, too, are users of the mutex; but the library does not count those of a process-shared one, which a
 * process that is killed would leave behind. */
START_TEST(fields_of_other_kinds)
{
	bool shared = specials[ROBUST + _i].shared == PTHREAD_PROCESS_SHARED;
	unsigned waiting = shared && !specials[ROBUST + _i].robust && suite_served() ? 0 : 3;

	for (int type = 0; type < KINDS; type++) {
		struct hall h = {.way = WAIT};
		struct team *t;

		if (!special_make(&h.m, kinds[type].type, ROBUST + _i))
			return;
		t = team_start(3, hall_guest, &h);
		hall_gather(&h, 3);
		ck_assert_uint_eq(h.m.__data.__nusers, waiting + 1);
		MUST(pthread_mutex_unlock(&h.m));
		ck_assert_uint_eq(h.m.__data.__nusers, waiting);
		if (waiting && !specials[ROBUST + _i].robust) /* those are not asked */
			WANT(pthread_mutex_destroy(&h.m), EBUSY);
		hall_gather(&h, 3);
		hall_call(&h, BROADCAST_HELD, 3);
		team_join(t);
		ck_assert_uint_eq(h.m.__data.__nusers, 0);
		MUST(pthread_mutex_destroy(&h.m));
		assert_no_complaint();
	}
}
END_TEST

START_TEST(owner_dies)
{
	static const int robust[] = {ROBUST, ROBUST_INHERIT, ROBUST_SHARED};

	for (int type = 0; type < KINDS; type++)
		for (int heals = 0; heals < 2; heals++) {
			struct estate e = {.h.way = (type + heals * 2) % WAYS, .heals = heals};
			struct team *t;

			if (!special_make(&e.h.m, kinds[type].type, robust[_i]))
				return;
			t = team_start(4, inherit, &e);
			hall_gather(&e.h, 4);
			MUST(pthread_mutex_unlock(&e.h.m));
			team_run(1, bequeath, &e);
			team_join(t);
			assert_no_complaint();
			ck_assert_int_eq(atomic_load(&e.dead), 1);
			ck_assert_int_eq(atomic_load(&e.fine), heals ? 3 : 0);
			ck_assert_int_eq(atomic_load(&e.lost), heals ? 0 : 3);
			if (heals)
				hall_want_forgetful(&e.h);
			CALL(pthread_cond_destroy(&e.h.c), 0);
		}
}
END_TEST

static void die_later(int index, void *arg)
{
	struct estate *e = arg;

	(void)index;
	MUST(pthread_mutex_lock(&e->h.m));
	if (atomic_load(&e->back)) /* too late: the deadline was faster */
		MUST(pthread_mutex_unlock(&e->h.m));
	else
		sleep_us(e->ahead / 500);
}

/* The deadline passes, but then the mutex is inherited, and that is what the waiter hears of. */
START_TEST(owner_dies_at_the_deadline)
{
	struct estate e = {.heals = true};

	for (int round = 0; round < 12 && !atomic_load(&e.dead); round++) {
		struct team *t;

		e = (struct estate){.heals = true, .ahead = (int64_t)500000 << round};
		if (!special_make(&e.h.m, kinds[_i].type, ROBUST))
			return;
		t = team_start(1, inherit, &e);
		SOON(atomic_load(&e.h.waiting) == 1);
		team_run(1, die_later, &e);
		team_join(t);
		assert_no_complaint();
	}
	ck_assert_int_eq(atomic_load(&e.dead), 1);
	ck_assert_int_eq(atomic_load(&e.late), 0);
}
END_TEST

/* ---- signal handlers ---- */

static atomic_int handled;

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

/* A sleeper is interrupted, and sleeps on. */
START_TEST(handlers_do_not_end_a_wait)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = _i % 2 ? SA_RESTART : 0};

	sigaction(SIGUSR1, &action, NULL);
	for (enum way way = 0; way < WAYS; way++) {
		struct hall h = {.way = way};
		struct team *t;

		mutex_make(&h.m, kinds[way % KINDS].type);
		cond_make(&h.c, _i / 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
		atomic_store(&handled, 0);
		t = team_start(1, hall_guest, &h);
		hall_gather(&h, 1);
		MUST(pthread_mutex_unlock(&h.m));
		for (int n = 1; n < 6; n++) {
			SOON(is_asleep(atomic_load(&h.tid)));
			MUST(pthread_kill(team_thread(t, 0), SIGUSR1));
			SOON(atomic_load(&handled) == n);
		}
		sleep_us(300);
		hall_gather(&h, 1);
		ck_assert_int_eq(atomic_load(&h.returns), 0);
		hall_call(&h, SIGNAL_HELD, 1);
		team_join(t);
		CALL(pthread_cond_destroy(&h.c), 0);
		assert_no_complaint();
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-api");

	SUITE_CASE_OF(s, initialisers, 60, KINDS);
	SUITE_CASE_OF(s, one_or_all, 60, KINDS);
	SUITE_CASE_OF(s, codes, 60, KINDS);
	SUITE_CASE(s, not_the_owner, 60);
	SUITE_CASE_OF(s, refused_at_the_signal, 60, 4);
	SUITE_CASE_OF(s, never_early, 60, 3 * 5);
	SUITE_CASE_OF(s, late_but_locked_out, 60, KINDS);
	SUITE_CASE_OF(s, fields, 60, KINDS);
	SUITE_CASE(s, recursive_held_twice, 60);
	SUITE_CASE_OF(s, other_kinds, 60, SPECIALS - ROBUST);
	SUITE_CASE_OF(s, fields_of_other_kinds, 60, SPECIALS - ROBUST);
	SUITE_CASE_OF(s, owner_dies, 60, 3);
	SUITE_CASE_OF(s, owner_dies_at_the_deadline, 60, KINDS);
	SUITE_CASE_OF(s, handlers_do_not_end_a_wait, 60, 4);
	return suite_run(s);
}
