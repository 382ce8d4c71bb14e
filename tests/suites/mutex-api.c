/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite mutex-api: every return code and every field of a mutex, call by call, as glibc leaves them.
 *
 * The table below was written from glibc's behaviour, and each case runs it twice: on the functions that this
 * program is bound to and on glibc's own, so that a wrong table cannot excuse a wrong library.  It would catch: a
 * return code or a field that differs, a call that writes errno, a deadline read in the wrong clock or refused
 * where glibc takes it, a kind that glibc must serve and does not get.
 */

#include "suite.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the table: who calls what, what it returns, and the fields after it ---- */

enum who { M, O }; /* the main thread, another one */
enum op { LOCK, TRY, PAST, NEGATIVE, BADNS, BADCLOCK, CLOCKPAST, CLOCKBADNS, UNLOCK, DESTROY, END };
enum lock { FREE, HELD, ASKED }; /* ASKED: held, and a waiter that gave up may have left its 2 */

static const char *const op_names[] = {"lock",
				       "trylock",
				       "timedlock(past)",
				       "timedlock(negative)",
				       "timedlock(bad ns)",
				       "clocklock(bad clock)",
				       "clocklock(past)",
				       "clocklock(bad ns)",
				       "unlock",
				       "destroy"};

struct step {
	enum who who;
	enum op op;
	int rc;
	enum lock lock;
	char owner; /* 'm', 'o' or '-' */
	unsigned count;
	unsigned nusers;
};

#define DESTROYED                                                                                                      \
	{M, DESTROY, 0, FREE, '-', 0, 0}, {M, LOCK, EINVAL, FREE, '-', 0, 0}, {M, TRY, EINVAL, FREE, '-', 0, 0},       \
		{M, PAST, EINVAL, FREE, '-', 0, 0}, {M, CLOCKPAST, EINVAL, FREE, '-', 0, 0},                           \
		{M, UNLOCK, EINVAL, FREE, '-', 0, 0},                                                                  \
	{                                                                                                              \
		M, END, 0, FREE, '-', 0, 0                                                                             \
	}

/* A deadline is looked at only by who must wait; the clock always. */
static const struct step normal_alone[] = {
	{M, LOCK, 0, HELD, 'm', 0, 1},
	{M, TRY, EBUSY, HELD, 'm', 0, 1},
	{M, DESTROY, EBUSY, HELD, 'm', 0, 1},
	{M, PAST, ETIMEDOUT, ASKED, 'm', 0, 1},
	{M, NEGATIVE, ETIMEDOUT, ASKED, 'm', 0, 1},
	{M, CLOCKPAST, ETIMEDOUT, ASKED, 'm', 0, 1},
	{M, BADNS, EINVAL, ASKED, 'm', 0, 1},
	{M, CLOCKBADNS, EINVAL, ASKED, 'm', 0, 1},
	{M, BADCLOCK, EINVAL, ASKED, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, TRY, 0, HELD, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, PAST, 0, HELD, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, BADNS, 0, HELD, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, CLOCKBADNS, 0, HELD, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, BADCLOCK, EINVAL, FREE, '-', 0, 0},
	DESTROYED,
};

static const struct step normal_two[] = {
	{M, LOCK, 0, HELD, 'm', 0, 1},
	{O, TRY, EBUSY, HELD, 'm', 0, 1},
	{O, PAST, ETIMEDOUT, ASKED, 'm', 0, 1},
	{O, BADNS, EINVAL, ASKED, 'm', 0, 1},
	{O, DESTROY, EBUSY, ASKED, 'm', 0, 1},
	{O, UNLOCK, 0, FREE, '-', 0, 0}, /* not the owner: glibc does not ask */
	{O, LOCK, 0, HELD, 'o', 0, 1},
	{M, TRY, EBUSY, HELD, 'o', 0, 1},
	{M, NEGATIVE, ETIMEDOUT, ASKED, 'o', 0, 1},
	{M, CLOCKBADNS, EINVAL, ASKED, 'o', 0, 1},
	{O, UNLOCK, 0, FREE, '-', 0, 0},
	{O, PAST, 0, HELD, 'o', 0, 1},
	{O, UNLOCK, 0, FREE, '-', 0, 0},
	DESTROYED,
};

static const struct step recursive_alone[] = {
	{M, UNLOCK, EPERM, FREE, '-', 0, 0},
	{M, LOCK, 0, HELD, 'm', 1, 1},
	{M, LOCK, 0, HELD, 'm', 2, 1},
	{M, TRY, 0, HELD, 'm', 3, 1},
	{M, PAST, 0, HELD, 'm', 4, 1},
	{M, BADNS, 0, HELD, 'm', 5, 1},
	{M, CLOCKPAST, 0, HELD, 'm', 6, 1},
	{M, BADCLOCK, EINVAL, HELD, 'm', 6, 1},
	{M, DESTROY, EBUSY, HELD, 'm', 6, 1},
	{M, UNLOCK, 0, HELD, 'm', 5, 1},
	{M, UNLOCK, 0, HELD, 'm', 4, 1},
	{M, UNLOCK, 0, HELD, 'm', 3, 1},
	{M, UNLOCK, 0, HELD, 'm', 2, 1},
	{M, UNLOCK, 0, HELD, 'm', 1, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, UNLOCK, EPERM, FREE, '-', 0, 0},
	{M, TRY, 0, HELD, 'm', 1, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, BADNS, 0, HELD, 'm', 1, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	DESTROYED,
};

static const struct step recursive_two[] = {
	{M, LOCK, 0, HELD, 'm', 1, 1},
	{M, LOCK, 0, HELD, 'm', 2, 1},
	{O, TRY, EBUSY, HELD, 'm', 2, 1},
	{O, UNLOCK, EPERM, HELD, 'm', 2, 1},
	{O, PAST, ETIMEDOUT, ASKED, 'm', 2, 1},
	{O, BADNS, EINVAL, ASKED, 'm', 2, 1},
	{M, LOCK, 0, ASKED, 'm', 3, 1},
	{M, UNLOCK, 0, ASKED, 'm', 2, 1},
	{M, UNLOCK, 0, ASKED, 'm', 1, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{O, TRY, 0, HELD, 'o', 1, 1},
	{M, UNLOCK, EPERM, HELD, 'o', 1, 1},
	{M, TRY, EBUSY, HELD, 'o', 1, 1},
	{O, UNLOCK, 0, FREE, '-', 0, 0},
	DESTROYED,
};

static const struct step errorcheck_alone[] = {
	{M, UNLOCK, EPERM, FREE, '-', 0, 0},	  {M, LOCK, 0, HELD, 'm', 0, 1},
	{M, LOCK, EDEADLK, HELD, 'm', 0, 1},	  {M, TRY, EBUSY, HELD, 'm', 0, 1},
	{M, PAST, EDEADLK, HELD, 'm', 0, 1},	  {M, BADNS, EDEADLK, HELD, 'm', 0, 1},
	{M, CLOCKPAST, EDEADLK, HELD, 'm', 0, 1}, {M, BADCLOCK, EINVAL, HELD, 'm', 0, 1},
	{M, DESTROY, EBUSY, HELD, 'm', 0, 1},	  {M, UNLOCK, 0, FREE, '-', 0, 0},
	{M, UNLOCK, EPERM, FREE, '-', 0, 0},	  {M, CLOCKBADNS, 0, HELD, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},	  DESTROYED,
};

static const struct step errorcheck_two[] = {
	{M, LOCK, 0, HELD, 'm', 0, 1},
	{O, TRY, EBUSY, HELD, 'm', 0, 1},
	{O, UNLOCK, EPERM, HELD, 'm', 0, 1},
	{O, PAST, ETIMEDOUT, ASKED, 'm', 0, 1},
	{O, CLOCKBADNS, EINVAL, ASKED, 'm', 0, 1},
	{M, UNLOCK, 0, FREE, '-', 0, 0},
	{O, LOCK, 0, HELD, 'o', 0, 1},
	{M, UNLOCK, EPERM, HELD, 'o', 0, 1},
	{O, UNLOCK, 0, FREE, '-', 0, 0},
	DESTROYED,
};

static const struct {
	const struct step *alone, *two;
} tables[KINDS] = {
	{normal_alone, normal_two},
	{recursive_alone, recursive_two},
	{errorcheck_alone, errorcheck_two},
	{normal_alone, normal_two}, /* adaptive: as normal */
};

struct errand {
	const struct mutex_api *api;
	pthread_mutex_t *m;
	enum op op;
	int rc;
	int errno_after;
	pid_t tid;
};

static void errand_run(void *arg)
{
	struct errand *e = arg;
	struct timespec past = deadline(CLOCK_REALTIME, -1000000), bad = {past.tv_sec + 100, 1000000000};
	struct timespec mono_past = deadline(CLOCK_MONOTONIC, -1000000), negative = {-1, 0};

	e->tid = gettid();
	errno = ERRNO_MARK;
	switch (e->op) {
	case LOCK:
		e->rc = e->api->lock(e->m);
		break;
	case TRY:
		e->rc = e->api->trylock(e->m);
		break;
	case PAST:
		e->rc = e->api->timedlock(e->m, &past);
		break;
	case NEGATIVE:
		e->rc = e->api->timedlock(e->m, &negative);
		break;
	case BADNS:
		e->rc = e->api->timedlock(e->m, &bad);
		break;
	case BADCLOCK:
		e->rc = e->api->clocklock(e->m, CLOCK_PROCESS_CPUTIME_ID, &past);
		break;
	case CLOCKPAST:
		e->rc = e->api->clocklock(e->m, CLOCK_MONOTONIC, &mono_past);
		break;
	case CLOCKBADNS:
		e->rc = e->api->clocklock(e->m, CLOCK_MONOTONIC, &bad);
		break;
	case UNLOCK:
		e->rc = e->api->unlock(e->m);
		break;
	case DESTROY:
		e->rc = e->api->destroy(e->m);
		break;
	case END:
		break;
	}
	e->errno_after = errno;
}

static void table_run(const struct mutex_api *api, const struct kind *kind, const struct step *step,
		      struct servant *servant)
{
	pid_t main_tid = gettid(), other_tid = -1;
	pthread_mutexattr_t attr;
	pthread_mutex_t m;
	int kind_made;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, kind->type);
	ck_assert_int_eq(api->init(&m, &attr), 0);
	kind_made = m.__data.__kind;
	for (int n = 0; step->op != END; n++, step++) {
		struct errand e = {api, &m, step->op, -1, 0, 0};
		char where[120];
		pid_t owner;

		if (step->who == O) {
			servant_do(servant, errand_run, &e);
			other_tid = e.tid;
		} else {
			errand_run(&e);
		}
		snprintf(where, sizeof where, "%s, %s mutex, step %d: %s by the %s thread", api->name, kind->name, n,
			 op_names[step->op], step->who == O ? "other" : "main");
		owner = step->owner == 'm' ? main_tid : step->owner == 'o' ? other_tid : 0;
		ck_assert_msg(e.rc == step->rc, "%s: returned %d, wanted %d", where, e.rc, step->rc);
		ck_assert_msg(e.errno_after == ERRNO_MARK, "%s: errno became %d", where, e.errno_after);
		ck_assert_msg(step->lock == ASKED ? m.__data.__lock == 1 || m.__data.__lock == 2
						  : m.__data.__lock == (int)step->lock,
			      "%s: __lock is %d", where, m.__data.__lock);
		ck_assert_msg(m.__data.__owner == owner, "%s: __owner is %d, wanted %d", where, m.__data.__owner,
			      owner);
		ck_assert_msg(m.__data.__count == step->count, "%s: __count is %u", where, m.__data.__count);
		ck_assert_msg(m.__data.__nusers == step->nusers, "%s: __nusers is %u", where, m.__data.__nusers);
		if (step->op == DESTROY && step->rc == 0)
			kind_made = -1;
		ck_assert_msg(m.__data.__kind == kind_made, "%s: __kind is %#x", where, m.__data.__kind);
	}
	pthread_mutexattr_destroy(&attr);
}

/* Before any thread was made: the plain stores of a single-threaded process. */
START_TEST(table_alone)
{
	table_run(api_bound(), &kinds[_i], tables[_i].alone, NULL);
	table_run(api_glibc(), &kinds[_i], tables[_i].alone, NULL);
}
END_TEST

START_TEST(table_two_threads)
{
	struct servant *s = servant_hire();

	table_run(api_bound(), &kinds[_i], tables[_i].alone, s);
	table_run(api_glibc(), &kinds[_i], tables[_i].alone, s);
	table_run(api_bound(), &kinds[_i], tables[_i].two, s);
	table_run(api_glibc(), &kinds[_i], tables[_i].two, s);
	servant_dismiss(s);
}
END_TEST

/* ---- making ---- */

/* init writes all bytes, whatever was there, exactly as glibc does, for every attribute; destroy and init again. */
START_TEST(init_bytes)
{
	for (int type = 0; type < KINDS; type++)
		for (int shared = 0; shared < 2; shared++)
			for (int robust = 0; robust < 2; robust++)
				for (int protocol = 0; protocol < 3; protocol++) {
					pthread_mutex_t a, b;
					pthread_mutexattr_t attr;

					pthread_mutexattr_init(&attr);
					pthread_mutexattr_settype(&attr, kinds[type].type);
					pthread_mutexattr_setpshared(&attr, shared);
					pthread_mutexattr_setrobust(&attr, robust);
					pthread_mutexattr_setprotocol(&attr, protocol);
					memset(&a, 0xa5, sizeof a);
					memset(&b, 0xa5, sizeof b);
					ck_assert_int_eq(pthread_mutex_init(&a, &attr), api_glibc()->init(&b, &attr));
					ck_assert_msg(memcmp(&a, &b, sizeof a) == 0,
						      "type %d shared %d robust %d protocol %d", type, shared, robust,
						      protocol);
					ck_assert_int_eq(pthread_mutex_destroy(&a), api_glibc()->destroy(&b));
					ck_assert_msg(memcmp(&a, &b, sizeof a) == 0,
						      "destroyed: type %d shared %d robust %d protocol %d", type,
						      shared, robust, protocol);
					ck_assert_int_eq(pthread_mutex_init(&a, NULL), 0);
					ck_assert_int_eq(pthread_mutex_lock(&a), 0);
					ck_assert_int_eq(pthread_mutex_unlock(&a), 0);
					pthread_mutexattr_destroy(&attr);
				}
}
END_TEST

/* The initialisers, and memory that nobody initialised: zero is a DEFAULT mutex. */
START_TEST(initialisers)
{
	static pthread_mutex_t zero;
	pthread_mutex_t m[] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
			       PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, zero};
	static const int again[] = {EBUSY, 0, EBUSY, EBUSY, EBUSY}, types[] = {0, 1, 2, 3, 0};

	for (int threads = 0; threads < 2; threads++) {
		struct servant *s = threads ? servant_hire() : NULL;

		for (int i = 0; i < 5; i++) {
			ck_assert_int_eq(pthread_mutex_lock(&m[i]), 0);
			ck_assert_int_eq(m[i].__data.__kind, types[i]);
			ck_assert_int_eq(m[i].__data.__owner, gettid());
			ck_assert_int_eq(pthread_mutex_trylock(&m[i]), again[i]);
			if (again[i] == 0)
				ck_assert_int_eq(pthread_mutex_unlock(&m[i]), 0);
			ck_assert_int_eq(pthread_mutex_unlock(&m[i]), 0);
			ck_assert_int_eq(m[i].__data.__lock, 0);
		}
		if (s)
			servant_dismiss(s);
	}
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(pthread_mutex_destroy(&m[i]), 0);
}
END_TEST

START_TEST(recursion_overflow)
{
	struct timespec t = deadline(CLOCK_REALTIME, 1000000000), u = deadline(CLOCK_MONOTONIC, 1000000000);
	pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	ck_assert_int_eq(pthread_mutex_lock(&m), 0);
	m.__data.__count = UINT_MAX;
	ck_assert_int_eq(pthread_mutex_lock(&m), EAGAIN);
	ck_assert_int_eq(pthread_mutex_trylock(&m), EAGAIN);
	ck_assert_int_eq(pthread_mutex_timedlock(&m, &t), EAGAIN);
	ck_assert_int_eq(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &u), EAGAIN);
	ck_assert_uint_eq(m.__data.__count, UINT_MAX);
	ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
	ck_assert_uint_eq(m.__data.__count, UINT_MAX - 1);
	m.__data.__count = 1;
	ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
	ck_assert_int_eq(m.__data.__lock, 0);
	ck_assert_int_eq(m.__data.__owner, 0);
}
END_TEST

/* ---- waiting ---- */

struct hold {
	pthread_mutex_t *m;
	unsigned us;
	atomic_int held;
};

static void hold_for(void *arg)
{
	struct hold *h = arg;

	MUST(pthread_mutex_lock(h->m));
	atomic_store(&h->held, 1);
	sleep_us(h->us);
	MUST(pthread_mutex_unlock(h->m));
}

static void hold_until_told(void *arg)
{
	struct hold *h = arg;

	MUST(pthread_mutex_lock(h->m));
	atomic_store(&h->held, 1);
	while (atomic_load(&h->held) != 2)
		sleep_us(200);
	MUST(pthread_mutex_unlock(h->m));
}

static void hold_wait(struct hold *h)
{
	while (!atomic_load(&h->held))
		sleep_us(100);
}

/* A deadline ahead: never early, in either clock; and the waiter that gave up leaves a mutex that works. */
START_TEST(deadline_ahead)
{
	static const int64_t aheads[] = {0, 1, 1000, 50000, 2000000, 30000000};
	struct servant *s = servant_hire();
	pthread_mutex_t m;

	mutex_make(&m, kinds[_i].type);
	for (size_t i = 0; i < sizeof aheads / sizeof aheads[0]; i++)
		for (int call = 0; call < 3; call++) {
			clockid_t clock = call == 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
			struct hold h = {&m, 0, 0};
			struct timespec until, now;
			int rc;

			servant_begin(s, hold_until_told, &h);
			hold_wait(&h);
			until = deadline(clock, aheads[i]);
			errno = ERRNO_MARK;
			rc = call == 0 ? pthread_mutex_timedlock(&m, &until)
				       : pthread_mutex_clocklock(&m, clock, &until);
			ck_assert_int_eq(errno, ERRNO_MARK);
			clock_gettime(clock, &now);
			ck_assert_int_eq(rc, ETIMEDOUT);
			ck_assert_msg(now.tv_sec > until.tv_sec ||
					      (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec),
				      "gave up %lld ns early",
				      (until.tv_sec - now.tv_sec) * 1000000000LL + until.tv_nsec - now.tv_nsec);
			atomic_store(&h.held, 2);
			servant_end(s);
			ck_assert_int_eq(m.__data.__lock, 0);
			ck_assert_int_eq(m.__data.__owner, 0);
			ck_assert_uint_eq(m.__data.__nusers, 0);
			ck_assert_int_eq(pthread_mutex_lock(&m), 0);
			ck_assert_int_eq(m.__data.__owner, gettid());
			ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
		}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* errno and the fields after real waiting, briefly (perhaps spinning) and long (surely asleep). */
START_TEST(errno_kept_by_waiters)
{
	static const unsigned holds[] = {0, 20, 300, 3000, 30000};
	struct servant *s = servant_hire();
	pthread_mutex_t m;

	mutex_make(&m, kinds[_i].type);
	for (size_t i = 0; i < sizeof holds / sizeof holds[0]; i++)
		for (int call = 0; call < 3; call++) {
			struct timespec real = deadline(CLOCK_REALTIME, 60000000000),
					mono = deadline(CLOCK_MONOTONIC, 60000000000);
			struct hold h = {&m, holds[i], 0};
			int rc;

			servant_begin(s, hold_for, &h);
			hold_wait(&h);
			errno = ERRNO_MARK;
			rc = call == 0	 ? pthread_mutex_lock(&m)
			     : call == 1 ? pthread_mutex_timedlock(&m, &real)
					 : pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &mono);
			ck_assert_int_eq(errno, ERRNO_MARK);
			ck_assert_int_eq(rc, 0);
			ck_assert_int_ne(m.__data.__lock, 0);
			ck_assert_int_eq(m.__data.__owner, gettid());
			ck_assert_uint_eq(m.__data.__nusers, 1);
			ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
			ck_assert_int_eq(errno, ERRNO_MARK);
			servant_end(s);
			ck_assert_int_eq(m.__data.__lock, 0);
		}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* The same for the unlocker with a sleeper to wake. */
START_TEST(errno_kept_by_waker)
{
	struct servant *s = servant_hire();
	pthread_mutex_t m;

	mutex_make(&m, kinds[_i].type);
	for (int round = 0; round < 20; round++) {
		struct hold h = {&m, 0, 0};

		ck_assert_int_eq(pthread_mutex_lock(&m), 0);
		servant_begin(s, hold_for, &h);
		sleep_us(2000);
		errno = ERRNO_MARK;
		ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
		ck_assert_int_eq(errno, ERRNO_MARK);
		servant_end(s);
	}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* ---- kinds that glibc serves ---- */

static pthread_mutexattr_t special;

static bool special_make(pthread_mutex_t *m, int type, int shared, int robust, int protocol)
{
	int rc;

	pthread_mutexattr_init(&special);
	pthread_mutexattr_settype(&special, type);
	pthread_mutexattr_setpshared(&special, shared);
	pthread_mutexattr_setrobust(&special, robust);
	pthread_mutexattr_setprotocol(&special, protocol);
	rc = pthread_mutex_init(m, &special);
	if (rc == ENOTSUP)
		say("SKIP: mutex protocol %d is not supported here", protocol);
	else
		ck_assert_int_eq(rc, 0);
	return rc == 0;
}

static void lock_and_leave(void *arg)
{
	MUST(pthread_mutex_lock(arg));
}

/* The owner ends holding it: the next one is told, heals it or not. */
START_TEST(robust)
{
	for (int protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++)
		for (int call = 0; call < 4; call++) {
			struct timespec ahead = deadline(CLOCK_REALTIME, 60000000000),
					mono = deadline(CLOCK_MONOTONIC, 60000000000);
			struct servant *s = servant_hire();
			pthread_mutex_t m;
			int rc;

			if (!special_make(&m, kinds[_i].type, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST,
					  protocol)) {
				servant_dismiss(s);
				return;
			}
			ck_assert_int_eq(pthread_mutex_consistent(&m), EINVAL);
			servant_do(s, lock_and_leave, &m);
			ck_assert_int_eq(pthread_mutex_trylock(&m), EBUSY);
			servant_dismiss(s);
			rc = call == 0	 ? pthread_mutex_lock(&m)
			     : call == 1 ? pthread_mutex_trylock(&m)
			     : call == 2 ? pthread_mutex_timedlock(&m, &ahead)
					 : pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &mono);
			if (rc == EINVAL && call == 3 && protocol == PTHREAD_PRIO_INHERIT) {
				ck_assert_int_eq(api_glibc()->clocklock(&m, CLOCK_MONOTONIC, &mono),
						 EINVAL); /* as glibc's kernel can */
				continue;
			}
			ck_assert_int_eq(rc, EOWNERDEAD);
			if (call != 1) {
				ck_assert_int_eq(pthread_mutex_consistent(&m), 0);
				ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
				ck_assert_int_eq(pthread_mutex_lock(&m), 0);
				ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
				ck_assert_int_eq(pthread_mutex_destroy(&m), 0);
			} else {
				ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
				ck_assert_int_eq(pthread_mutex_lock(&m), ENOTRECOVERABLE);
				ck_assert_int_eq(pthread_mutex_trylock(&m), ENOTRECOVERABLE);
			}
			assert_no_complaint();
		}
	{
		pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
		ck_assert_int_eq(pthread_mutex_consistent(&plain), EINVAL);
	}
}
END_TEST

struct shop {
	pthread_mutex_t m;
	volatile unsigned long count;
};

enum { SHOP_ROUNDS = 3000, SHOP_SIZE = 4 };

static void shop_body(int index, void *arg)
{
	struct shop *shop = arg;

	for (int i = 0; i < SHOP_ROUNDS; i++) {
		struct timespec ahead = deadline(CLOCK_REALTIME, 60000000000);

		if (i % 4 == index)
			MUST(pthread_mutex_timedlock(&shop->m, &ahead));
		else
			MUST(pthread_mutex_lock(&shop->m));
		shop->count++;
		if (i % 128 == 0)
			sched_yield();
		MUST(pthread_mutex_unlock(&shop->m));
	}
}

START_TEST(prio_inherit)
{
	struct shop shop = {.count = 0};
	int ceiling;

	if (!special_make(&shop.m, kinds[_i].type, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED,
			  PTHREAD_PRIO_INHERIT))
		return;
	ck_assert_int_eq(pthread_mutex_getprioceiling(&shop.m, &ceiling), EINVAL);
	ck_assert_int_eq(pthread_mutex_setprioceiling(&shop.m, 1, &ceiling), EINVAL);
	ck_assert_int_eq(pthread_mutex_lock(&shop.m), 0);
	ck_assert_int_eq(shop.m.__data.__lock & 0x3fffffff, gettid()); /* glibc's PI word holds the TID */
	if (kinds[_i].type == PTHREAD_MUTEX_ERRORCHECK)
		ck_assert_int_eq(pthread_mutex_lock(&shop.m), EDEADLK);
	ck_assert_int_eq(pthread_mutex_unlock(&shop.m), 0);
	team_run(SHOP_SIZE, shop_body, &shop);
	assert_no_complaint();
	ck_assert_uint_eq(shop.count, SHOP_SIZE * SHOP_ROUNDS);
	ck_assert_int_eq(pthread_mutex_destroy(&shop.m), 0);
}
END_TEST

START_TEST(prio_protect)
{
	int ceiling = -1, old = -1, rc;
	pthread_mutex_t m, plain = PTHREAD_MUTEX_INITIALIZER;

	ck_assert_int_eq(pthread_mutex_getprioceiling(&plain, &ceiling), EINVAL);
	ck_assert_int_eq(pthread_mutex_setprioceiling(&plain, 1, &old), EINVAL);
	if (!special_make(&m, kinds[_i].type, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_PROTECT))
		return;
	ck_assert_int_eq(pthread_mutex_getprioceiling(&m, &ceiling), 0);
	ck_assert_int_ge(ceiling, 1);
	ck_assert_int_eq(pthread_mutex_lock(&m), EINVAL); /* SCHED_OTHER has no priority to raise */
	rc = pthread_setschedparam(pthread_self(), SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
	if (rc == EPERM) {
		say("SKIP: no right to use SCHED_FIFO: PRIO_PROTECT not locked");
		return;
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(pthread_mutex_lock(&m), 0);
	ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
	ck_assert_int_eq(pthread_mutex_setprioceiling(&m, ceiling + 1, &old), 0);
	ck_assert_int_eq(old, ceiling);
	ck_assert_int_eq(pthread_mutex_getprioceiling(&m, &ceiling), 0);
	ck_assert_int_eq(ceiling, old + 1);
	ck_assert_int_eq(pthread_mutex_trylock(&m), 0);
	ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&m), 0);
}
END_TEST

/* Between processes: our queue knows nothing of other processes, so these must be glibc's. */
START_TEST(process_shared)
{
	struct shop *shop = mmap(NULL, sizeof *shop, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child[3];

	ck_assert_ptr_ne(shop, MAP_FAILED);
	ck_assert(special_make(&shop->m, kinds[_i].type, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED,
			       PTHREAD_PRIO_NONE));
	for (int i = 0; i < 3; i++)
		if ((child[i] = fork()) == 0) {
			alarm(60);
			team_run(2, shop_body, shop);
			child_exit();
		}
	team_run(2, shop_body, shop);
	for (int i = 0; i < 3; i++)
		child_reap(child[i], "a process that shares the mutex");
	assert_no_complaint();
	ck_assert_uint_eq(shop->count, 4 * 2 * SHOP_ROUNDS);
	ck_assert_int_eq(pthread_mutex_destroy(&shop->m), 0);
}
END_TEST

/* Robust and shared, its owner's process dies. */
START_TEST(robust_process_dies)
{
	struct shop *shop = mmap(NULL, sizeof *shop, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	ck_assert_ptr_ne(shop, MAP_FAILED);
	ck_assert(special_make(&shop->m, kinds[_i].type, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST,
			       PTHREAD_PRIO_NONE));
	if ((child = fork()) == 0) {
		MUST(pthread_mutex_lock(&shop->m));
		child_exit();
	}
	child_reap(child, "the owner");
	assert_no_complaint();
	ck_assert_int_eq(pthread_mutex_lock(&shop->m), EOWNERDEAD);
	ck_assert_int_eq(pthread_mutex_consistent(&shop->m), 0);
	ck_assert_int_eq(pthread_mutex_unlock(&shop->m), 0);
	ck_assert_int_eq(pthread_mutex_lock(&shop->m), 0);
	ck_assert_int_eq(pthread_mutex_unlock(&shop->m), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("mutex-api");

	SUITE_CASE_OF(s, table_alone, 60, KINDS);
	SUITE_CASE_OF(s, table_two_threads, 60, KINDS);
	SUITE_CASE(s, init_bytes, 60);
	SUITE_CASE(s, initialisers, 60);
	SUITE_CASE(s, recursion_overflow, 60);
	SUITE_CASE_OF(s, deadline_ahead, 60, KINDS);
	SUITE_CASE_OF(s, errno_kept_by_waiters, 60, KINDS);
	SUITE_CASE_OF(s, errno_kept_by_waker, 60, KINDS);
	SUITE_CASE_OF(s, robust, 60, KINDS);
	SUITE_CASE_OF(s, prio_inherit, 60, KINDS);
	SUITE_CASE_OF(s, prio_protect, 60, KINDS);
	SUITE_CASE_OF(s, process_shared, 60, KINDS);
	SUITE_CASE_OF(s, robust_process_dies, 60, KINDS);
	return suite_run(s);
}
