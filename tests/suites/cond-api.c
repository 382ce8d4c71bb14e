/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-api: condition variables call by call: return codes, fields, clocks, kinds of mutexes, processes, forks,
 * the end of the object, cancellation.
 *
 * Most cases wait in a hall: a mutex, a cond, and tickets, one for each waiter that may go.  A thread counts itself
 * with the mutex held, just before it waits; so whoever then gets the mutex finds it blocked, without any sleeping.
 * Who waits for something to happen is patient, for much longer than any machine should need, and then complains.
 *
 * It would catch: a wait that returns without the mutex, for nothing, too early or in the wrong clock; a call that
 * writes errno; a signal that is remembered, given to two, or lost: to a cancelled thread, to one whose deadline
 * passes, to one that was killed; a touch of the object after destroy; a child of fork that waits for the parent's
 * threads.
 */

#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { ERRNO_MARK = 4242, PATIENCE_S = 30, CHILD_SECONDS = 50 };

/* Where threads race, for so long and no longer; a round that has begun is finished. */
enum { RACE_MS = 50 };

/* ---- calls, and what is always wanted of them ---- */

static void want_errno(const char *what, int line)
{
	if (errno != ERRNO_MARK)
		complain("line %d: %s: errno became %d", line, what, errno);
}

/* A call of a cond's function: its return code, and errno untouched. */
#define CALL(call, rc) (errno = ERRNO_MARK, want_rc((call), (rc), #call, __LINE__), want_errno(#call, __LINE__))

static void want_held(const pthread_mutex_t *m, int line)
{
	int tid = gettid(), owner = m->__data.__owner;

	if (owner == INT_MAX) /* inherited, and not consistent yet; but the word says it */
		owner = m->__data.__lock & 0x3fffffff;
	if (!m->__data.__lock || owner != tid)
		complain("line %d: the mutex is not held: lock %#x, owner %d, and I am %d", line, m->__data.__lock,
			 m->__data.__owner, tid);
}
#define HELD(m) want_held((m), __LINE__)

static bool in_child;

/* For main threads: the case, or its child, ends here if there is a complaint. */
static void stop_if_complained(void)
{
	if (complained() && in_child)
		child_exit();
	assert_no_complaint();
}

static void be_patient(uint64_t since, const char *what, int line)
{
	uint64_t ns = now_ns() - since;

	if (ns > PATIENCE_S * (uint64_t)1000000000)
		complain("line %d: in %d s it has not come to pass that %s", line, PATIENCE_S, what);
	stop_if_complained();
	if (ns < 50000)
		sched_yield();
	else
		sleep_us(30);
}
#define SOON(condition)                                                                                                \
	do                                                                                                             \
		for (uint64_t since = now_ns(); !(condition);)                                                         \
			be_patient(since, #condition, __LINE__);                                                       \
	while (0)

/* As fork(), with what every child needs. */
static pid_t child_begin(void)
{
	pid_t child = fork();

	if (child == 0) {
		in_child = true;
		alarm(CHILD_SECONDS);
	} else if (child < 0) { /* and who kills -1 kills everybody */
		say("fork: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	return child;
}

/* Whether that thread, of whatever process, sleeps. */
static bool is_asleep(pid_t tid)
{
	char path[40], text[400], *end;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof text - 1);
		close(fd);
	}
	text[n < 0 ? 0 : n] = 0;
	end = strrchr(text, ')');
	return end && end[1] && end[2] == 'S';
}

/* The ways to wait; the timed ones here have all the time in the world. */
enum way { WAIT, TIMEDWAIT, CLOCKWAIT, CLOCKWAIT_REAL, WAYS };

static int wait_by(enum way way, pthread_cond_t *c, pthread_mutex_t *m)
{
	struct timespec real = {LONG_MAX, 999999999}, monotonic = deadline(CLOCK_MONOTONIC, 1000000000000);

	errno = ERRNO_MARK;
	switch (way) {
	case TIMEDWAIT:
		return pthread_cond_timedwait(c, m, &real);
	case CLOCKWAIT:
		return pthread_cond_clockwait(c, m, CLOCK_MONOTONIC, &monotonic);
	case CLOCKWAIT_REAL:
		return pthread_cond_clockwait(c, m, CLOCK_REALTIME, &real);
	default:
		return pthread_cond_wait(c, m);
	}
}

/* ---- what is made ---- */

struct special {
	const char *name;
	int shared, robust, protocol;
};
enum { PLAIN, ROBUST, INHERIT, ROBUST_INHERIT, SHARED, ROBUST_SHARED, PROTECT, SPECIALS };
static const struct special specials[SPECIALS] = {
	{"plain", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE},
	{"robust", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE},
	{"priority-inheriting", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT},
	{"robust, inheriting", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT},
	{"process-shared", PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE},
	{"robust, process-shared", PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE},
	{"priority-protecting", PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_PROTECT},
};

/* False, and the reason said, where there are no such mutexes. */
static bool special_make(pthread_mutex_t *m, int type, int which)
{
	const struct special *s = &specials[which];
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	pthread_mutexattr_t attr;
	int rc;

	MUST(pthread_mutexattr_init(&attr));
	MUST(pthread_mutexattr_settype(&attr, type));
	MUST(pthread_mutexattr_setpshared(&attr, s->shared));
	MUST(pthread_mutexattr_setrobust(&attr, s->robust));
	MUST(pthread_mutexattr_setprotocol(&attr, s->protocol));
	rc = pthread_mutex_init(m, &attr);
	MUST(pthread_mutexattr_destroy(&attr));
	if (rc == ENOTSUP) {
		say("SKIP: there are no %s mutexes here", s->name);
		return false;
	}
	MUST(rc);
	/* Only such threads may lock those; the ones that are made from here on inherit it. */
	if (which == PROTECT && pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) == EPERM) {
		say("SKIP: no right to use SCHED_FIFO: no %s mutex", s->name);
		return false;
	}
	return true;
}

static void cond_make(pthread_cond_t *c, int shared, clockid_t clock)
{
	pthread_condattr_t attr;

	MUST(pthread_condattr_init(&attr));
	MUST(pthread_condattr_setpshared(&attr, shared));
	MUST(pthread_condattr_setclock(&attr, clock));
	CALL(pthread_cond_init(c, &attr), 0);
	MUST(pthread_condattr_destroy(&attr));
}

static pid_t child_run(int threads, team_body *body, void *arg)
{
	pid_t child = child_begin();

	if (child == 0) {
		if (threads > 1)
			team_run(threads, body, arg);
		else
			body(0, arg);
		child_exit();
	}
	return child;
}

/* What is gone has been filled with 0xff. */
static void want_untouched(const void *what, size_t size)
{
	const unsigned char *byte = what;

	for (size_t i = 0; i < size; i++)
		if (byte[i] != 0xff) {
			complain("byte %zu was touched after the end, and is %#x", i, byte[i]);
			return;
		}
}

/* Memory that children share. */
static void *pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		say("mmap: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	return p;
}

/* Errands. */
static void lock(void *m)
{
	MUST(pthread_mutex_lock(m));
}

static void unlock(void *m)
{
	MUST(pthread_mutex_unlock(m));
}

/* ---- the hall ---- */

struct hall {
	pthread_mutex_t m;
	pthread_cond_t c;
	enum way way;
	/* All written with m held, and read by anybody. */
	atomic_int waiting; /* have come in and not gone yet */
	atomic_int tickets;
	atomic_int returns; /* how often a wait has returned */
	atomic_int out;	    /* have gone, with a ticket */
	atomic_int cancelled, late;
	atomic_bool closed;
	_Atomic pid_t tid; /* of who came in last */
};

static void hall_come_in(struct hall *h)
{
	MUST(pthread_mutex_lock(&h->m));
	HELD(&h->m);
	atomic_store(&h->tid, gettid());
	atomic_fetch_add(&h->waiting, 1);
}

/* Waits until there is a ticket, takes it, and goes. */
static void hall_wait(struct hall *h)
{
	while (!atomic_load(&h->tickets) && !complained()) {
		CALL(wait_by(h->way, &h->c, &h->m), 0);
		HELD(&h->m);
		atomic_fetch_add(&h->returns, 1);
	}
	atomic_fetch_sub(&h->waiting, 1);
	atomic_fetch_add(&h->out, 1);
	atomic_fetch_sub(&h->tickets, 1); /* last: who sees it gone sees the others changed */
	MUST(pthread_mutex_unlock(&h->m));
}

static void hall_guest(int index, void *hall)
{
	(void)index;
	hall_come_in(hall);
	hall_wait(hall);
}

/* Comes again and again, until it goes and finds the hall closed. */
static void hall_regular(int index, void *hall)
{
	struct hall *h = hall;

	do
		hall_guest(index, h);
	while (!atomic_load(&h->closed) && !complained());
}

/* All n of them are blocked, and the caller holds the mutex. */
static void hall_gather(struct hall *h, int n)
{
	SOON(atomic_load(&h->waiting) == n);
	MUST(pthread_mutex_lock(&h->m));
	HELD(&h->m);
	if (atomic_load(&h->waiting) != n)
		complain("%d are in the hall, not %d", atomic_load(&h->waiting), n);
}

/* How to call the waiters: one of them or all, with the mutex held or free. */
enum how { SIGNAL_HELD, SIGNAL_FREE, BROADCAST_HELD, BROADCAST_FREE, HOWS };

/* The mutex is held before, and free after it. */
static void hall_call(struct hall *h, enum how how, int tickets)
{
	bool held = how == SIGNAL_HELD || how == BROADCAST_HELD;

	atomic_fetch_add(&h->tickets, tickets);
	if (!held)
		MUST(pthread_mutex_unlock(&h->m));
	if (how == BROADCAST_HELD || how == BROADCAST_FREE)
		CALL(pthread_cond_broadcast(&h->c), 0);
	else
		CALL(pthread_cond_signal(&h->c), 0);
	if (held) {
		HELD(&h->m);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

/* A signal when nobody waits: not remembered.  The hall is empty, and the mutex free. */
static void hall_want_forgetful(struct hall *h)
{
	struct timespec soon = deadline(CLOCK_MONOTONIC, 300000);

	MUST(pthread_mutex_lock(&h->m));
	CALL(pthread_cond_signal(&h->c), 0);
	CALL(pthread_cond_broadcast(&h->c), 0);
	CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	HELD(&h->m);
	MUST(pthread_mutex_unlock(&h->m));
	CALL(pthread_cond_signal(&h->c), 0);
	CALL(pthread_cond_broadcast(&h->c), 0);
	soon = deadline(CLOCK_MONOTONIC, 300000);
	MUST(pthread_mutex_lock(&h->m));
	CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	MUST(pthread_mutex_unlock(&h->m));
}

/* Everything that a hall is good for, with new threads; and in the end nobody is left in it. */
static void hall_use(struct hall *h)
{
	struct team *t = team_start(4, hall_guest, h);
	int out = atomic_load(&h->out);

	hall_gather(h, 4);
	hall_call(h, SIGNAL_HELD, 1);
	SOON(atomic_load(&h->out) == out + 1);
	hall_gather(h, 3);
	hall_call(h, SIGNAL_FREE, 1);
	SOON(atomic_load(&h->out) == out + 2);
	hall_gather(h, 2);
	hall_call(h, BROADCAST_HELD, 2);
	SOON(atomic_load(&h->out) == out + 4);
	team_join(t);
	t = team_start(4, hall_guest, h);
	hall_gather(h, 4);
	hall_call(h, BROADCAST_FREE, 4);
	SOON(atomic_load(&h->out) == out + 8);
	team_join(t);
	hall_want_forgetful(h);
}

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

/* In the wrong clock a deadline would lie decades away, in one direction or in the other. */
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
		cond_make(&h.c, _i / 5 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE,
			  way ? attr_clocks[way] : CLOCK_REALTIME);
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

static void want_fields(const pthread_mutex_t *m, int owner, unsigned count, unsigned nusers, int line)
{
	if (m->__data.__owner != owner || m->__data.__count != count || m->__data.__nusers != nusers ||
	    !m->__data.__lock != !owner)
		complain("line %d: the mutex has lock %d, owner %d, count %u, nusers %u; wanted: owner %d, count %u, "
			 "nusers %u",
			 line, m->__data.__lock, m->__data.__owner, m->__data.__count, m->__data.__nusers, owner, count,
			 nusers);
}
#define FIELDS(m, owner, count, nusers) want_fields((m), (owner), (count), (nusers), __LINE__)

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
				WANT(pthread_mutex_trylock(&h.m), EBUSY);
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

struct estate {
	struct hall h;
	bool heals;
	int64_t ahead; /* a deadline, if not 0 */
	atomic_int dead, fine, late, lost;
	atomic_bool back;
};

static void inherit(int index, void *arg)
{
	struct estate *e = arg;
	struct timespec then;
	int rc;
	(void)index;

	hall_come_in(&e->h);
	then = deadline(CLOCK_MONOTONIC, e->ahead);
	rc = e->ahead ? pthread_cond_clockwait(&e->h.c, &e->h.m, CLOCK_MONOTONIC, &then)
		      : wait_by(e->h.way, &e->h.c, &e->h.m);
	atomic_store(&e->back, true);
	if (rc == ENOTRECOVERABLE) { /* not held, and nobody will ever hold it */
		atomic_fetch_add(&e->lost, 1);
		WANT(pthread_mutex_lock(&e->h.m), ENOTRECOVERABLE);
		return;
	}
	HELD(&e->h.m);
	atomic_fetch_add(rc == 0 ? &e->fine : rc == ETIMEDOUT ? &e->late : &e->dead, 1);
	if (rc == EOWNERDEAD && e->heals)
		MUST(pthread_mutex_consistent(&e->h.m));
	else if (rc != 0 && rc != EOWNERDEAD && !(rc == ETIMEDOUT && e->ahead))
		complain("an heir's wait returned %d", rc);
	MUST(pthread_mutex_unlock(&e->h.m));
}

/* The owner ends with the mutex, after it has called them all. */
static void bequeath(int index, void *arg)
{
	struct estate *e = arg;

	(void)index;
	MUST(pthread_mutex_lock(&e->h.m));
	for (int i = 0; i < 2; i++)
		CALL(pthread_cond_signal(&e->h.c), 0);
	CALL(pthread_cond_broadcast(&e->h.c), 0);
}

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

/* ---- several processes ---- */

enum { CHILDREN = 3 };

static struct hall *shared_hall(int type, int which)
{
	struct hall *h = pages(sizeof *h);

	special_make(&h->m, type, which);
	cond_make(&h->c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	return h;
}

static void shared_hall_end(struct hall *h)
{
	CALL(pthread_cond_destroy(&h->c), 0);
	MUST(pthread_mutex_destroy(&h->m));
	munmap(h, sizeof *h);
	stop_if_complained();
}

struct rally {
	struct hall h;
	atomic_int turn;
};

static void play(int index, void *arg)
{
	struct rally *r = arg;

	for (int i = 0; i < 200 && !complained(); i++) {
		MUST(pthread_mutex_lock(&r->h.m));
		while (atomic_load(&r->turn) != index && !complained()) {
			CALL(wait_by(i % WAYS, &r->h.c, &r->h.m), 0);
			HELD(&r->h.m);
		}
		atomic_store(&r->turn, !index);
		hall_call(&r->h, i / 4 % HOWS, 0);
	}
}

static void play_other(int index, void *arg)
{
	(void)index;
	play(1, arg);
}

START_TEST(processes_play)
{
	struct rally *r = pages(sizeof *r);
	pid_t child;

	special_make(&r->h.m, kinds[_i].type, _i % 2 ? SHARED : ROBUST_SHARED);
	cond_make(&r->h.c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	child = child_run(1, play_other, r);
	play(0, r);
	child_reap(child, "the other player");
	CALL(pthread_cond_destroy(&r->h.c), 0);
	assert_no_complaint();
}
END_TEST

/* Nine threads of three processes: single signals, and a broadcast for the rest; and again in the same hall. */
START_TEST(processes_wait)
{
	struct hall *h = shared_hall(kinds[_i].type, SHARED);

	for (enum how how = SIGNAL_HELD; how <= SIGNAL_FREE; how++) {
		pid_t child[CHILDREN];

		h->way = (how + _i) % WAYS;
		atomic_store(&h->out, 0);
		for (int i = 0; i < CHILDREN; i++)
			child[i] = child_run(3, hall_guest, h);
		for (int n = 1; n < 5; n++) {
			hall_gather(h, 10 - n);
			hall_call(h, how, 1);
			SOON(atomic_load(&h->out) == n);
		}
		hall_gather(h, 5);
		hall_call(h, how - SIGNAL_HELD + BROADCAST_HELD, 5);
		for (int i = 0; i < CHILDREN; i++)
			child_reap(child[i], "a process that waits");
		stop_if_complained();
		ck_assert_int_eq(atomic_load(&h->out), 9);
	}
	hall_want_forgetful(h);
	shared_hall_end(h);
}
END_TEST

/* Forty blocked at once, and forty signals: the ones that have slept for long are reached like the others. */
START_TEST(many_signals)
{
	struct hall *h = shared_hall(PTHREAD_MUTEX_NORMAL, SHARED);
	pid_t child = child_run(20, hall_guest, h);
	struct team *t = team_start(20, hall_guest, h);

	for (int n = 40; n > 0; n--) {
		hall_gather(h, n);
		hall_call(h, n % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
		SOON(atomic_load(&h->waiting) == n - 1);
	}
	team_join(t);
	child_reap(child, "the process of twenty");
	shared_hall_end(h);
}
END_TEST

static void be_late_for(int index, void *hall)
{
	struct hall *h = hall;

	for (int i = 0; i < 5; i++) {
		struct timespec then, now;

		MUST(pthread_mutex_lock(&h->m));
		then = deadline(CLOCK_MONOTONIC, 200000 * (index + i));
		CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &then), ETIMEDOUT);
		HELD(&h->m);
		now = deadline(CLOCK_MONOTONIC, 0);
		if (now.tv_sec < then.tv_sec || (now.tv_sec == then.tv_sec && now.tv_nsec < then.tv_nsec))
			complain("a wait of several processes' ended early");
		MUST(pthread_mutex_unlock(&h->m));
	}
}

/* Deadlines among processes that wait without one, and have to be reached afterwards. */
START_TEST(processes_time_out)
{
	struct hall *h = shared_hall(kinds[_i].type, SHARED);
	pid_t patient = child_run(2, hall_guest, h), late;

	SOON(atomic_load(&h->waiting) == 2);
	late = child_run(2, be_late_for, h);
	be_late_for(1, h);
	child_reap(late, "a process with deadlines");
	for (int n = 2; n > 0; n--) {
		hall_gather(h, n);
		hall_call(h, SIGNAL_HELD, 1);
		SOON(atomic_load(&h->waiting) == n - 1);
	}
	child_reap(patient, "a patient process");
	shared_hall_end(h);
}
END_TEST

/* glibc's protocol counts the waiters, and does not survive one that is killed. */
static bool may_be_killed(void)
{
	const char *whose = getenv("PARKADE_COND_SHARED");

	return suite_served() && !(whose && strcmp(whose, "glibc") == 0);
}

static void kill_child(pid_t child)
{
	int status = 0;

	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (!WIFSIGNALED(status))
		complain("a child that was to be killed has ended by itself, with status %#x", status);
}

static void destroy_in_time(struct hall *h)
{
	uint64_t begin = now_ns();

	CALL(pthread_cond_destroy(&h->c), 0);
	begin = now_ns() - begin;
	if (begin > 5000000000)
		complain("destroy took %llu ms", (unsigned long long)begin / 1000000);
}

/* Three sleep and are killed, three others are to be reached, by as many signals; and destroy must not wait long. */
START_TEST(killed_while_waiting)
{
	struct hall *h;
	pid_t victim[3], child;

	if (!may_be_killed())
		return;
	h = shared_hall(PTHREAD_MUTEX_NORMAL, SHARED);
	for (enum how how = 0; how < HOWS; how++) {
		h->way = (enum way)how;
		for (int i = 0; i < 2; i++)
			victim[i] = child_run(1, hall_guest, h);
		SOON(atomic_load(&h->waiting) == 2);
		child = child_run(3, hall_guest, h);
		SOON(atomic_load(&h->waiting) == 5);
		victim[2] = child_run(1, hall_guest, h);
		hall_gather(h, 6);
		MUST(pthread_mutex_unlock(&h->m));
		for (int i = 0; i < 3; i++) {
			SOON(is_asleep(victim[i]));
			kill_child(victim[i]);
		}
		atomic_fetch_sub(&h->waiting, 3);
		for (int n = 3; n > 0; n--) {
			hall_gather(h, n);
			hall_call(h, how, how > SIGNAL_FREE ? n : 1);
			if (how > SIGNAL_FREE)
				break;
			SOON(atomic_load(&h->waiting) == n - 1);
		}
		child_reap(child, "the process that was not killed");
		stop_if_complained();
	}
	destroy_in_time(h);
	cond_make(&h->c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	hall_use(h);
	shared_hall_end(h);
}
END_TEST

/* The same with a mutex that may be inherited, since the victims are killed anywhere. */
static void own(int rc, struct hall *h, int other)
{
	if (rc == EOWNERDEAD)
		MUST(pthread_mutex_consistent(&h->m));
	else if (rc != other)
		WANT(rc, 0);
	HELD(&h->m);
}

static void be_killed(int index, void *arg)
{
	struct hall *h = arg;

	for (uint32_t luck = getpid() + index;;) {
		struct timespec soon;

		own(pthread_mutex_lock(&h->m), h, 0);
		soon = deadline(CLOCK_MONOTONIC, dice(&luck) % 60000);
		own(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), h, ETIMEDOUT);
		if (luck % 3 == 0)
			CALL(pthread_cond_signal(&h->c), 0);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

static void survive(int index, void *arg)
{
	struct hall *h = arg;

	(void)index;
	while (!atomic_load(&h->closed) && !complained()) {
		own(pthread_mutex_lock(&h->m), h, 0);
		atomic_fetch_add(&h->waiting, 1);
		while (!atomic_load(&h->tickets))
			own(pthread_cond_wait(&h->c, &h->m), h, 0);
		atomic_fetch_sub(&h->waiting, 1);
		atomic_fetch_sub(&h->tickets, 1);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

START_TEST(killed_anywhere)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	uint32_t luck = 4711;
	struct hall *h;
	pid_t child;

	if (!may_be_killed())
		return;
	h = shared_hall(PTHREAD_MUTEX_NORMAL, ROBUST_SHARED);
	child = child_run(2, survive, h);
	for (int round = 0; round < 10 || now_ns() < end; round++) {
		pid_t victim = child_run(2, be_killed, h);

		sleep_us(dice(&luck) % 1500);
		kill_child(victim);
		for (int i = 0; i < 2; i++) {
			SOON(atomic_load(&h->waiting) == 2);
			own(pthread_mutex_lock(&h->m), h, 0);
			hall_call(h, luck % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
			SOON(atomic_load(&h->tickets) == 0);
		}
	}
	SOON(atomic_load(&h->waiting) == 2);
	own(pthread_mutex_lock(&h->m), h, 0);
	atomic_store(&h->closed, true);
	hall_call(h, BROADCAST_HELD, 2);
	child_reap(child, "the process that survives");
	destroy_in_time(h);
	assert_no_complaint();
}
END_TEST

/* Processes come and go; each may be the last, and there may be none for a while. */
START_TEST(processes_come_and_go)
{
	struct hall *h = shared_hall(kinds[_i].type, SHARED);

	for (int round = 0; round < 4; round++) {
		pid_t child[CHILDREN];

		h->way = round % WAYS;
		for (int i = 0; i < CHILDREN; i++)
			child[i] = i < round ? child_run(1, hall_guest, h) : child_run(1, be_late_for, h);
		for (int i = round; i < CHILDREN; i++)
			child_reap(child[i], "a process with a deadline");
		hall_gather(h, round);
		hall_call(h, round % 2 ? BROADCAST_FREE : BROADCAST_HELD, round);
		for (int i = 0; i < round; i++)
			child_reap(child[i], "a process that goes");
		hall_want_forgetful(h);
	}
	shared_hall_end(h);
}
END_TEST

/* The owner is a process that ends; the heirs are of several. */
START_TEST(owner_process_dies)
{
	for (int heals = 0; heals < 2; heals++) {
		struct estate *e = pages(sizeof *e);
		pid_t child[2];

		e->heals = heals;
		e->h.way = (_i + heals) % WAYS;
		special_make(&e->h.m, kinds[_i].type, ROBUST_SHARED);
		cond_make(&e->h.c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
		for (int i = 0; i < 2; i++)
			child[i] = child_run(2, inherit, e);
		hall_gather(&e->h, 4);
		MUST(pthread_mutex_unlock(&e->h.m));
		child_reap(child_run(1, bequeath, e), "the owner");
		for (int i = 0; i < 2; i++)
			child_reap(child[i], "a process of heirs");
		assert_no_complaint();
		ck_assert_int_eq(atomic_load(&e->dead), 1);
		ck_assert_int_eq(atomic_load(&e->fine), heals ? 3 : 0);
		ck_assert_int_eq(atomic_load(&e->lost), heals ? 0 : 3);
		CALL(pthread_cond_destroy(&e->h.c), 0);
	}
}
END_TEST

/* Destroyed straight after the broadcast, in shared memory, where a late touch would be seen. */
enum { PLOTS = 24 };

struct plots {
	struct hall h;
	pthread_cond_t c[PLOTS];
	atomic_int at; /* which of them are gone */
};

static void leave_plots(int index, void *arg)
{
	struct plots *p = arg;
	(void)index;

	for (int i = 0; i < PLOTS; i++) {
		hall_come_in(&p->h);
		while (atomic_load(&p->at) <= i && !complained())
			CALL(wait_by(i % WAYS, &p->c[i], &p->h.m), 0);
		HELD(&p->h.m);
		MUST(pthread_mutex_unlock(&p->h.m));
	}
}

START_TEST(processes_and_the_end)
{
	struct plots *p = pages(sizeof *p);
	pid_t child[CHILDREN];

	special_make(&p->h.m, kinds[_i].type, SHARED);
	for (int i = 0; i < PLOTS; i++)
		cond_make(&p->c[i], PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	for (int i = 0; i < CHILDREN; i++)
		child[i] = child_run(1 + i % 2, leave_plots, p);
	for (int i = 0; i < PLOTS; i++) {
		hall_gather(&p->h, (CHILDREN + 1) * (i + 1));
		atomic_store(&p->at, i + 1);
		if (i % 3 == 0)
			MUST(pthread_mutex_unlock(&p->h.m));
		CALL(pthread_cond_broadcast(&p->c[i]), 0);
		if (i % 3 == 1)
			MUST(pthread_mutex_unlock(&p->h.m));
		CALL(pthread_cond_destroy(&p->c[i]), 0);
		memset(&p->c[i], 0xff, sizeof p->c[i]);
		if (i % 3 == 2)
			MUST(pthread_mutex_unlock(&p->h.m));
	}
	for (int i = 0; i < CHILDREN; i++)
		child_reap(child[i], "a process that leaves");
	want_untouched(p->c, sizeof p->c);
	assert_no_complaint();
}
END_TEST

/* ---- the end of the object ---- */

/*
 * Rounds follow each other without a gate (but where there are deadlines): each has a page with a cond, or a cond and
 * its mutex, and its own number of waiters; who has no part in it goes on to the next.  The page becomes 0xff, which
 * has to stay, or nobody's.
 */
enum { PAGE = 4096, CREW = 8, ROUNDS = 2000 };

struct site {
	pthread_cond_t c;
	pthread_mutex_t m; /* where the last of the waiters tears down everything */
	bool go;
	int refs;
};

static struct {
	pthread_mutex_t m;
	int type;
	bool inside; /* the mutex is the site's own */
	int64_t ahead;
	char *ground;
	atomic_int rounds;
	struct timespec then[ROUNDS];
	bool go[ROUNDS];
	atomic_int waiting[ROUNDS];
	atomic_int woken, late, gone;
} yard;

static struct site *site_at(int round)
{
	return (struct site *)(yard.ground + (size_t)round * PAGE);
}

/* 1 to CREW, all of them by turns: whole crews fill a multiple of CREW rounds. */
static int crew_of(int round)
{
	return 1 + round % CREW;
}

static void tear_down(struct site *s, int round)
{
	CALL(pthread_cond_destroy(&s->c), 0);
	if (yard.inside)
		MUST(pthread_mutex_destroy(&s->m));
	if (round / CREW % 2)
		memset(s, 0xff, PAGE);
	else if (mprotect(s, PAGE, PROT_NONE))
		complain("mprotect: %s", strerror(errno));
	atomic_fetch_add(&yard.gone, 1);
}

/* The mutex is not the site's: nothing of the site is touched after the wait. */
static void work_outside(struct site *s, int round)
{
	int rc = 0;

	MUST(pthread_mutex_lock(&yard.m));
	if (!yard.then[round].tv_sec)
		yard.then[round] = deadline(CLOCK_MONOTONIC, yard.ahead);
	atomic_fetch_add(&yard.waiting[round], 1);
	while (!yard.go[round] && !rc && !complained()) {
		errno = ERRNO_MARK;
		rc = yard.ahead ? pthread_cond_clockwait(&s->c, &yard.m, CLOCK_MONOTONIC, &yard.then[round])
				: wait_by(round % WAYS, &s->c, &yard.m);
		want_errno("wait", __LINE__);
		HELD(&yard.m);
	}
	atomic_fetch_add(rc ? &yard.late : &yard.woken, 1);
	if (rc != ETIMEDOUT || !yard.ahead)
		WANT(rc, 0);
	MUST(pthread_mutex_unlock(&yard.m));
}

/* The last one out frees everything; in some rounds each one lets out the next. */
static void work_inside(struct site *s, int round)
{
	bool last;

	MUST(pthread_mutex_lock(&s->m));
	atomic_fetch_add(&yard.waiting[round], 1);
	while (!s->go && !complained())
		CALL(wait_by(round % WAYS, &s->c, &s->m), 0);
	HELD(&s->m);
	atomic_fetch_add(&yard.woken, 1);
	last = --s->refs == 0;
	if (!last && round % 3 == 0)
		CALL(pthread_cond_signal(&s->c), 0);
	MUST(pthread_mutex_unlock(&s->m));
	if (last)
		tear_down(s, round);
}

static void crew(int index, void *arg)
{
	(void)arg;
	for (int round = 0; round < atomic_load(&yard.rounds) && !complained(); round++) {
		while (yard.ahead && atomic_load(&yard.gone) < round && !complained())
			sleep_us(20); /* deadlines must not run ahead */
		if (index < crew_of(round) && round < atomic_load(&yard.rounds))
			(yard.inside ? work_inside : work_outside)(site_at(round), round);
	}
}

/* Holds a thread up, wherever it is. */
static void on_hold_up(int signal)
{
	int saved = errno;

	(void)signal;
	sched_yield();
	spin_ns(3000);
	errno = saved;
}

static void yard_make(int type, bool inside, int64_t ahead)
{
	struct sigaction action = {.sa_handler = on_hold_up, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
	yard.type = type;
	yard.inside = inside;
	yard.ahead = ahead;
	mutex_make(&yard.m, type);
	yard.ground = mmap(NULL, (size_t)ROUNDS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(yard.ground, MAP_FAILED);
	atomic_store(&yard.rounds, ROUNDS);
	for (int round = 0; round < ROUNDS; round++) {
		struct site *s = site_at(round);

		if (round / CREW % 3 == 0)
			cond_make(&s->c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME); /* else zero memory */
		if (inside)
			mutex_make(&s->m, type);
		s->refs = crew_of(round);
	}
}

/* All of the round's waiters have come; now and then one of them is held up. */
static void yard_await(int round, struct team *t, uint32_t *luck)
{
	SOON(atomic_load(&yard.waiting[round]) == crew_of(round));
	if (dice(luck) % 4 == 0)
		pthread_kill(team_thread(t, *luck / 4 % crew_of(round)), SIGUSR1);
}

static void yard_end(struct team *t)
{
	int rounds = atomic_load(&yard.rounds);

	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&yard.gone), rounds);
	for (int round = 0; round < rounds; round++)
		if (round / CREW % 2)
			want_untouched(site_at(round), PAGE);
	assert_no_complaint();
	say("cond-api: %d conds are gone, %d threads were woken, %d too late", rounds, atomic_load(&yard.woken),
	    atomic_load(&yard.late));
}

/* The end comes in whole crews. */
static bool yard_goes_on(int round, uint64_t end)
{
	if (round % CREW == 0 && round < atomic_load(&yard.rounds) - CREW && round > CREW && now_ns() > end)
		atomic_store(&yard.rounds, round + CREW);
	return round < atomic_load(&yard.rounds);
}

static void destroy_after_call(int type, int64_t ahead)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	uint32_t luck = 31337 + type;
	struct team *t;

	yard_make(type, false, ahead);
	t = team_start(CREW, crew, NULL);
	for (int round = 0; yard_goes_on(round, end); round++) {
		struct site *s = site_at(round);
		int unlock_at = dice(&luck) % 3;
		uint64_t then;

		yard_await(round, t, &luck);
		then = (uint64_t)yard.then[round].tv_sec * 1000000000 + yard.then[round].tv_nsec;
		while (ahead && now_ns() + luck / 16 % 60000 < then + 30000)
			;
		MUST(pthread_mutex_lock(&yard.m));
		yard.go[round] = true;
		if (unlock_at == 0)
			MUST(pthread_mutex_unlock(&yard.m));
		if (crew_of(round) == 1 && luck & 8)
			CALL(pthread_cond_signal(&s->c), 0);
		else
			CALL(pthread_cond_broadcast(&s->c), 0);
		if (unlock_at == 1)
			MUST(pthread_mutex_unlock(&yard.m));
		tear_down(s, round);
		if (unlock_at == 2)
			MUST(pthread_mutex_unlock(&yard.m));
	}
	yard_end(t);
}

START_TEST(destroyed_after_the_call)
{
	destroy_after_call(kinds[_i].type, 0);
}
END_TEST

/* The deadline of all of them passes at the moment of the call. */
START_TEST(destroyed_at_the_deadline)
{
	destroy_after_call(kinds[_i].type, 200000);
}
END_TEST

static void let_woken_destroy(int type, bool held)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	uint32_t luck = 31337 + type;
	struct team *t;

	yard_make(type, true, 0);
	t = team_start(CREW, crew, NULL);
	for (int round = 0; yard_goes_on(round, end); round++) {
		struct site *s = site_at(round);

		yard_await(round, t, &luck);
		MUST(pthread_mutex_lock(&s->m));
		s->go = true;
		if (!held)
			MUST(pthread_mutex_unlock(&s->m));
		/* From here on it may vanish. */
		if (round % 3 == 0)
			CALL(pthread_cond_signal(&s->c), 0);
		else
			CALL(pthread_cond_broadcast(&s->c), 0);
		if (held)
			MUST(pthread_mutex_unlock(&s->m));
	}
	yard_end(t);
}

START_TEST(woken_destroy)
{
	let_woken_destroy(kinds[_i].type, true);
}
END_TEST

/* POSIX has no such thing, as a wait might return too early; glibc's signal looks at the cond once more. */
START_TEST(woken_destroy_under_the_signal)
{
	if (suite_served())
		let_woken_destroy(kinds[_i].type, false);
}
END_TEST

/*
 * One call, instruction by instruction: each has to wait for the woken one to tear everything down, if it can by then.
 */
#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };
#define STEPPED(call)                                                                                                  \
	do {                                                                                                           \
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);                           \
		call;                                                                                                  \
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long)TRAP_FLAG);           \
	} while (0)

static struct {
	atomic_uint steps, steps_after;
	atomic_uint from; /* from this step on the thread is held up, for a while */
} stepped;

static void on_step(int signal)
{
	int saved = errno;

	(void)signal;
	stepped.steps++;
	for (int i = 0; i < (atomic_load(&yard.woken) ? 100 : 1) && !atomic_load(&yard.gone); i++)
		sleep_us(10);
	if (atomic_load(&yard.gone))
		stepped.steps_after++;
	errno = saved;
}

static void one_of_crew(int index, void *round)
{
	(void)index;
	work_inside(site_at(*(int *)round), *(int *)round);
}

static void step_through_call(int type, int round, bool held)
{
	struct site *s;
	struct team *t;
	int (*call)(pthread_cond_t *) = round % 3 ? pthread_cond_broadcast : pthread_cond_signal;

	memset(&stepped, 0, sizeof stepped);
	memset(&yard, 0, sizeof yard);
	yard_make(type, true, 0);
	s = site_at(round);
	t = team_start(crew_of(round), one_of_crew, &round);
	SOON(atomic_load(&yard.waiting[round]) == crew_of(round));
	MUST(pthread_mutex_lock(&s->m)); /* once for the dynamic linker */
	MUST(pthread_mutex_unlock(&s->m));
	MUST(pthread_mutex_lock(&s->m));
	s->go = true;
	if (!held)
		MUST(pthread_mutex_unlock(&s->m));
	STEPPED(call(&s->c); if (held) pthread_mutex_unlock(&s->m));
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&yard.gone), 1);
	ck_assert_uint_gt(stepped.steps, stepped.steps_after);
	munmap(yard.ground, (size_t)ROUNDS * PAGE);
}

START_TEST(held_up_at_each_instruction)
{
	struct sigaction action = {.sa_handler = on_step};

	/* One waiter and two, signal and broadcast; no access and 0xff. */
	static const int rounds[KINDS] = {0, 1, CREW, CREW + 1};

	sigaction(SIGTRAP, &action, NULL);
	step_through_call(kinds[_i].type, rounds[_i], true);
	step_through_call(kinds[_i].type, rounds[_i ^ 1], true);
	for (int tries = 0; suite_served() && tries < 20; tries++) {
		step_through_call(kinds[_i].type, rounds[_i], false);
		if (stepped.steps_after)
			return;
	}
	ck_assert_msg(!suite_served(), "nobody was woken before the call had ended");
}
END_TEST

static void on_late_step(int signal)
{
	int saved = errno;

	(void)signal;
	if (atomic_fetch_add(&stepped.steps, 1) - atomic_load(&stepped.from) < 50 && !atomic_load(&yard.gone))
		sleep_us(30);
	errno = saved;
}

static void be_late_in_steps(int index, void *arg)
{
	struct site *s = arg;
	struct timespec then;
	int rc = 0;

	(void)index;
	MUST(pthread_mutex_lock(&yard.m));
	then = deadline(CLOCK_MONOTONIC, 100000);
	STEPPED(rc = pthread_cond_clockwait(&s->c, &yard.m, CLOCK_MONOTONIC, &then));
	if (rc)
		WANT(rc, ETIMEDOUT);
	MUST(pthread_mutex_unlock(&yard.m));
	atomic_store(&yard.late, 1);
}

/* A waiter whose deadline has passed, on its way out, held up at any place of it, and one that tears everything down.
 */
START_TEST(late_at_each_instruction)
{
	struct sigaction action = {.sa_handler = on_late_step};
	uint32_t luck = (uint32_t)now_ns() | 1; /* each run of the suite sees other places */
	unsigned all = 0;

	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < 12; i++) {
		int round = i % 2 * CREW; /* what becomes of the page */
		unsigned from = i ? all / 3 + dice(&luck) % (all - all / 3) : UINT_MAX / 2;
		struct team *t;

		memset(&yard, 0, sizeof yard);
		yard_make(kinds[i % KINDS].type, false, 0);
		atomic_store(&stepped.steps, 0);
		atomic_store(&stepped.from, from);
		t = team_start(1, be_late_in_steps, site_at(round));
		SOON(atomic_load(&stepped.steps) >= from || atomic_load(&yard.late));
		MUST(pthread_mutex_lock(&yard.m));
		CALL(pthread_cond_broadcast(&site_at(round)->c), 0);
		tear_down(site_at(round), round);
		MUST(pthread_mutex_unlock(&yard.m));
		team_join(t);
		if (round)
			want_untouched(site_at(round), PAGE);
		munmap(yard.ground, (size_t)ROUNDS * PAGE);
		stop_if_complained();
		if (i == 0)
			all = atomic_load(&stepped.steps);
	}
}
END_TEST
#else
START_TEST(late_at_each_instruction)
{
}
END_TEST

START_TEST(held_up_at_each_instruction)
{
	if (_i == 0)
		say("SKIP: this machine has no trap flag; no single steps");
}
END_TEST
#endif

/* ---- memory, and short lives ---- */

static void want_no_growth(struct memory then, const char *what)
{
	struct memory now = memory_now();

	if (now.touched - then.touched > 128 || now.mapped - then.mapped > 1024)
		complain("%s cost %ld KiB of memory, and %ld of address space", what, now.touched - then.touched,
			 now.mapped - then.mapped);
}

enum { LONELY = 1500, CONDS = 500 };

/* Nobody ever signals: deadlines alone must not leave anything behind. */
START_TEST(lonely_deadlines)
{
	static struct {
		pthread_cond_t one, many[CONDS];
	} conds;
	pthread_mutex_t m;
	struct memory then = {0};

	memset(&conds, 1, sizeof conds); /* touched */
	memset(&conds, 0, sizeof conds);
	mutex_make(&m, kinds[_i].type);
	MUST(pthread_mutex_lock(&m));
	for (int i = 0; i < LONELY + CONDS; i++) {
		struct timespec soon = deadline(CLOCK_MONOTONIC, 1000);

		if (i == 100)
			then = memory_now();
		CALL(pthread_cond_clockwait(i < LONELY ? &conds.one : &conds.many[i % CONDS], &m, CLOCK_MONOTONIC,
					    &soon),
		     ETIMEDOUT);
	}
	want_no_growth(then, "waiting in vain");
	MUST(pthread_mutex_unlock(&m));
	MUST(pthread_mutex_destroy(&m));
	CALL(pthread_cond_destroy(&conds.one), 0);
	for (int i = 0; i < CONDS; i++)
		CALL(pthread_cond_destroy(&conds.many[i]), 0);
	assert_no_complaint();
}
END_TEST

/* Threads that wait once, and end. */
START_TEST(short_threads)
{
	struct hall h = {.way = WAIT};
	struct memory then = {0};

	for (int i = 0; i < 200; i++) {
		struct team *t;

		h.way = i % WAYS;
		t = team_start(1, hall_guest, &h);
		hall_gather(&h, 1);
		hall_call(&h, i % HOWS, 1);
		team_join(t);
		if (i == 50)
			then = memory_now();
	}
	want_no_growth(then, "threads that wait once");
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

static void wait_at_the_end(void *hall)
{
	struct hall *h = hall;
	struct timespec soon;

	hall_come_in(h);
	soon = deadline(CLOCK_MONOTONIC, 200000);
	while (!complained()) { /* a thread that ends may wake up for nothing */
		int rc = pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon);

		HELD(&h->m);
		if (rc == ETIMEDOUT)
			break;
		WANT(rc, 0);
	}
	atomic_fetch_add(&h->late, 1);
	hall_wait(h);
}

struct ending {
	struct hall h;
	pthread_key_t key;
};

static void end_waiting(int index, void *arg)
{
	struct ending *e = arg;
	struct timespec soon = deadline(CLOCK_MONOTONIC, 1000);

	if (index % 2) {
		MUST(pthread_mutex_lock(&e->h.m));
		CALL(pthread_cond_clockwait(&e->h.c, &e->h.m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
		MUST(pthread_mutex_unlock(&e->h.m));
	}
	pthread_setspecific(e->key, &e->h);
}

/* The destructor of a key waits: in vain, and then for a ticket. */
START_TEST(waits_of_a_destructor)
{
	struct ending e = {.h.way = WAIT};

	mutex_make(&e.h.m, kinds[_i].type);
	ck_assert_int_eq(pthread_key_create(&e.key, wait_at_the_end), 0);
	for (int round = 0; round < 4; round++) {
		struct team *t = team_start(4, end_waiting, &e);

		SOON(atomic_load(&e.h.late) == 4 * round + 4);
		hall_gather(&e.h, 4);
		hall_call(&e.h, SIGNAL_HELD + round % 2, 1);
		SOON(atomic_load(&e.h.out) == 4 * round + 1);
		hall_gather(&e.h, 3);
		hall_call(&e.h, BROADCAST_HELD + round % 2, 3);
		team_join(t);
	}
	CALL(pthread_cond_destroy(&e.h.c), 0);
	assert_no_complaint();
}
END_TEST

/* ---- fork ---- */

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

/* ---- cancellation ---- */

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, run, arg);

	if (rc) {
		say("pthread_create: %s", strerror(rc));
		_exit(EXIT_FAILURE);
	}
	return thread;
}

static void *join(pthread_t thread)
{
	void *value = NULL;

	MUST(pthread_join(thread, &value));
	return value;
}

static void join_cancelled(pthread_t thread, int line)
{
	if (join(thread) != PTHREAD_CANCELED)
		complain("line %d: the thread was not cancelled", line);
	stop_if_complained();
}
#define CANCELLED(thread) join_cancelled((thread), __LINE__)

static void on_cancelled(void *hall)
{
	struct hall *h = hall;

	HELD(&h->m);
	atomic_fetch_sub(&h->waiting, 1);
	atomic_fetch_add(&h->cancelled, 1);
	MUST(pthread_mutex_unlock(&h->m));
}

/* A guest that may be cancelled: but only in the wait, as nothing else here is a cancellation point. */
static void *mortal_guest(void *hall)
{
	struct hall *h = hall;

	hall_come_in(h);
	pthread_cleanup_push(on_cancelled, h);
	hall_wait(h);
	pthread_cleanup_pop(0);
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
	pthread_cleanup_push(on_cancelled, h);
	complain("a wait returned %d, and its thread is cancelled", wait_by(h->way, &h->c, &h->m));
	pthread_cleanup_pop(0);
	return NULL;
}

START_TEST(cancelled_before_the_wait)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct hall h;

		hall_of_case(&h, kinds[kind].type, _i);
		CANCELLED(start(cancelled_before, &h));
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
			t = start(mortal_guest, &h);
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
			t = start(immune_guest, &h);
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
	pthread_cleanup_push(on_cancelled, h);
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
			t = start(asynchronous_guest, &h);
			SOON(atomic_load(&h.late));
			hall_gather(&h, 1);
			if (cancel) {
				MUST(pthread_mutex_unlock(&h.m));
				SOON(is_asleep(atomic_load(&h.tid)));
				MUST(pthread_cancel(t));
				CANCELLED(t);
			} else {
				hall_call(&h, SIGNAL_HELD, 1);
				ck_assert_ptr_null(join(t));
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
	pthread_cleanup_push(on_cancelled, h);
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

static void cancel(void *thread)
{
	MUST(pthread_cancel(*(pthread_t *)thread));
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
		t = start(luck % 3 ? mortal_guest : hasty_guest, &h);
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
		cancelled += join(t) == PTHREAD_CANCELED;
	}
	hall_gather(&h, 1);
	atomic_store(&h.closed, true);
	hall_call(&h, SIGNAL_HELD, 1);
	team_join(regular);
	servant_dismiss(s);
	hall_end(&h);
	say("cond-api: %d of %d were cancelled before their signal", cancelled, rounds);
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
		t = start(mortal_guest, &h);
		hall_gather(&h, 2);
		atomic_fetch_add(&h.tickets, 1 + all);
		CALL(all ? pthread_cond_broadcast(&h.c) : pthread_cond_signal(&h.c), 0);
		sleep_us(round % 3 * 150);
		MUST(pthread_cancel(t));
		sleep_us(round % 2 * 150);
		HELD(&h.m);
		MUST(pthread_mutex_unlock(&h.m));
		SOON(atomic_load(&h.tickets) == 0);
		join(t);
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
		mortal = start(mortal_guest, &h);
		other = start(mortal_guest, &h);
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
		join(mortal);
		ck_assert_ptr_null(join(other));
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
			MUST(pthread_cancel(t[2 * from]));
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
			t[i] = start(i % 4 == 3 ? hasty_guest : mortal_guest, &h);
		hall_gather(&h, MANY);
		MUST(pthread_mutex_unlock(&h.m));
		for (int from = 0, to; from < MANY / 2; from = to) {
			to = from + dice(&luck) / 16 % 3;
			to = to > MANY / 2 ? MANY / 2 : to;
			signals += cancel_and_call(&h, t, from, to, luck / 64);
		}
		for (int i = 0; i < MANY; i += 2)
			cancelled += join(t[i]) == PTHREAD_CANCELED;
		ck_assert_int_eq(cancelled, atomic_load(&h.cancelled));
		for (; atomic_load(&h.waiting) > 0; signals++) {
			MUST(pthread_mutex_lock(&h.m));
			hall_call(&h, signals % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
			SOON(atomic_load(&h.tickets) == 0);
		}
		for (int i = 1; i < MANY; i += 2)
			ck_assert_ptr_null(join(t[i]));
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
	pthread_cleanup_push(on_cancelled, h);
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
		t = start(stepping_guest, &h);
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
		join(t);
		hall_end(&h);
	}
	say("cond-api: %u instructions of a wait until it sleeps", atomic_load(&halt.steps));
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
			t = start(mortal_guest, &h);
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
			CANCELLED(start(cancelled_before, &h));
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
	on_cancelled(h);
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
			t = start(mortal_heir, &h);
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
	on_cancelled(h);
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
	t = start(mortal_deep_guest, &h);
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
	on_cancelled(hall);
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
		t = start(guest_of_three_handlers, &h);
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
	on_cancelled(h);
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
	pthread_cleanup_push(on_cancelled, h);
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
		t = start(guest_that_exits, &h);
		SOON(atomic_load(&h.waiting) == 1 && is_asleep(atomic_load(&h.tid)));
		MUST(pthread_cancel(t));
		ck_assert_ptr_eq(join(t), &h);
		t = start(pause_guest, &h);
		SOON(atomic_load(&h.waiting) == 1);
		MUST(pthread_cancel(t));
		CANCELLED(t);
		hall_use(&h);
		hall_end(&h);
	}
}
END_TEST

/* MAIN */
int main(void)
{
	Suite *s = suite_make("cond-api");

	SUITE_CASE_OF(s, initialisers, 60, KINDS);
	SUITE_CASE_OF(s, one_or_all, 60, KINDS);
	SUITE_CASE_OF(s, codes, 60, KINDS);
	SUITE_CASE(s, not_the_owner, 60);
	SUITE_CASE_OF(s, refused_at_the_signal, 60, 4);
	SUITE_CASE_OF(s, never_early, 60, 2 * 5);
	SUITE_CASE_OF(s, late_but_locked_out, 60, KINDS);
	SUITE_CASE_OF(s, fields, 60, KINDS);
	SUITE_CASE(s, recursive_held_twice, 60);
	SUITE_CASE_OF(s, other_kinds, 60, SPECIALS - ROBUST);
	SUITE_CASE_OF(s, fields_of_other_kinds, 60, SPECIALS - ROBUST);
	SUITE_CASE_OF(s, owner_dies, 60, 3);
	SUITE_CASE_OF(s, owner_dies_at_the_deadline, 60, KINDS);
	SUITE_CASE_OF(s, handlers_do_not_end_a_wait, 60, 4);
	SUITE_CASE_OF(s, processes_play, 60, KINDS);
	SUITE_CASE_OF(s, processes_wait, 60, KINDS);
	SUITE_CASE(s, many_signals, 60);
	SUITE_CASE_OF(s, processes_time_out, 60, KINDS);
	SUITE_CASE(s, killed_while_waiting, 60);
	SUITE_CASE(s, killed_anywhere, 60);
	SUITE_CASE_OF(s, processes_come_and_go, 60, KINDS);
	SUITE_CASE_OF(s, owner_process_dies, 60, KINDS);
	SUITE_CASE_OF(s, processes_and_the_end, 60, KINDS);
	SUITE_CASE_OF(s, destroyed_after_the_call, 60, KINDS);
	SUITE_CASE_OF(s, destroyed_at_the_deadline, 60, KINDS);
	SUITE_CASE_OF(s, woken_destroy, 60, KINDS);
	SUITE_CASE_OF(s, woken_destroy_under_the_signal, 60, KINDS);
	SUITE_CASE_OF(s, held_up_at_each_instruction, 60, KINDS);
	SUITE_CASE(s, late_at_each_instruction, 60);
	SUITE_CASE_OF(s, lonely_deadlines, 60, KINDS);
	SUITE_CASE(s, short_threads, 60);
	SUITE_CASE_OF(s, waits_of_a_destructor, 60, KINDS);
	SUITE_CASE_OF(s, forked_while_others_wait, 60, KINDS);
	SUITE_CASE_OF(s, forked_in_traffic, 60, 2);
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
	return suite_run(s);
}
