/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite c11-mtx: mtx_* of <threads.h>, call by call as glibc's.
 *
 * Each table was written from glibc's behaviour and runs in step on two objects, one by the functions that this
 * program is bound to, one by glibc's own: return codes and bytes must be the same.  It would catch: an error that is
 * mapped to another result, a type that is taken for another, a field that differs, a call that writes errno, a
 * deadline in the wrong clock, a pthread mutex of a kind that C11 cannot make and its calls do not know.
 */

#include "c11.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- tables: who calls what, and what it returns ---- */

enum who { M, O }; /* the main thread, another one */

struct step {
	enum who who;
	enum op op;
	int rc;
};

/* mtx_destroy tells nothing, and does nothing to a mutex that is held; one that is destroyed takes no call. */
#define DESTROYED                                                                                                      \
	{M, DESTROY, 0}, {M, LOCK, thrd_error}, {M, TRY, thrd_error}, {M, PAST, thrd_error}, {M, UNLOCK, thrd_error},  \
	{                                                                                                              \
		M, END, 0                                                                                              \
	}

/* A deadline is looked at only by who must wait. */
static const struct step plain_alone[] = {
	{M, LOCK, thrd_success},
	{M, TRY, thrd_busy},
	{M, DESTROY, 0},
	{M, PAST, thrd_timedout},
	{M, NEGATIVE, thrd_timedout},
	{M, BADNS, thrd_error},
	{M, UNLOCK, thrd_success},
	{M, TRY, thrd_success},
	{M, UNLOCK, thrd_success},
	{M, PAST, thrd_success},
	{M, UNLOCK, thrd_success},
	{M, BADNS, thrd_success},
	{M, UNLOCK, thrd_success},
	DESTROYED,
};

static const struct step plain_two[] = {
	{M, LOCK, thrd_success},
	{O, TRY, thrd_busy},
	{O, PAST, thrd_timedout},
	{O, BADNS, thrd_error},
	{O, DESTROY, 0},
	{O, UNLOCK, thrd_success}, /* not the owner: nobody asks */
	{O, LOCK, thrd_success},
	{M, TRY, thrd_busy},
	{M, NEGATIVE, thrd_timedout},
	{O, UNLOCK, thrd_success},
	{O, PAST, thrd_success},
	{O, UNLOCK, thrd_success},
	DESTROYED,
};

static const struct step recursive_alone[] = {
	{M, UNLOCK, thrd_error},   {M, LOCK, thrd_success},   {M, LOCK, thrd_success},
	{M, TRY, thrd_success},	   {M, PAST, thrd_success},   {M, BADNS, thrd_success},
	{M, DESTROY, 0},	   {M, UNLOCK, thrd_success}, {M, UNLOCK, thrd_success},
	{M, UNLOCK, thrd_success}, {M, UNLOCK, thrd_success}, {M, UNLOCK, thrd_success},
	{M, UNLOCK, thrd_error},   {M, TRY, thrd_success},    {M, UNLOCK, thrd_success},
	{M, BADNS, thrd_success},  {M, UNLOCK, thrd_success}, DESTROYED,
};

static const struct step recursive_two[] = {
	{M, LOCK, thrd_success},   {M, LOCK, thrd_success},	 {O, TRY, thrd_busy},	    {O, UNLOCK, thrd_error},
	{O, PAST, thrd_timedout},  {O, BADNS, thrd_error},	 {M, LOCK, thrd_success},   {M, UNLOCK, thrd_success},
	{M, UNLOCK, thrd_success}, {O, TRY, thrd_busy},		 {M, UNLOCK, thrd_success}, {O, TRY, thrd_success},
	{M, UNLOCK, thrd_error},   {M, NEGATIVE, thrd_timedout}, {O, UNLOCK, thrd_success}, DESTROYED,
};

static void table_run(int type, const struct step *step, struct servant *servant)
{
	const struct c11_api *api[2] = {bound(), glibc()};
	bool asked = false;
	mtx_t m[2];

	for (int i = 0; i < 2; i++) {
		memset(&m[i], 0xa5, sizeof m[i]);
		ck_assert_int_eq(api[i]->mtx_init(&m[i], types[type].type), thrd_success);
	}
	ck_assert_mem_eq(&m[0], &m[1], sizeof m[0]);
	for (int n = 0; step->op != END; n++, step++) {
		char where[120];

		snprintf(where, sizeof where, "%s mutex, step %d: mtx_%s by the %s thread", types[type].name, n,
			 op_names[step->op], step->who == O ? "other" : "main");
		for (int i = 0; i < 2; i++) {
			struct errand e = {api[i], &m[i], step->op, -1};

			if (step->who == O)
				servant_do(servant, errand_run, &e);
			else
				errand_run(&e);
			ck_assert_msg(e.rc == step->rc, "%s: %s: returned %d, wanted %d", api[i]->name, where, e.rc,
				      step->rc);
		}
		asked |= step->rc == thrd_timedout;
		ck_assert_msg(same_fields(&m[0], &m[1], asked), "%s: the fields differ", where);
		ck_assert_msg(asked || memcmp(&m[0], &m[1], sizeof m[0]) == 0, "%s: the bytes differ", where);
		assert_no_complaint();
	}
}

/* Before any thread was made: the plain stores of a single-threaded process. */
START_TEST(table_alone)
{
	table_run(_i, types[_i].recursive ? recursive_alone : plain_alone, NULL);
}
END_TEST

START_TEST(table_two_threads)
{
	struct servant *s = servant_hire();

	table_run(_i, types[_i].recursive ? recursive_alone : plain_alone, s);
	table_run(_i, types[_i].recursive ? recursive_two : plain_two, s);
	servant_dismiss(s);
}
END_TEST

/* Numbers that are no type: refused or taken for one, as glibc does; the bytes tell which. */
START_TEST(bad_types)
{
	static const int bad[] = {-1, 4, 5, 6, 7, 8, 9, 64, 255, 256, 0x10001, INT32_MAX, INT32_MIN};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		mtx_t a, b;

		memset(&a, 0xa5, sizeof a);
		memset(&b, 0xa5, sizeof b);
		ck_assert_int_eq(bound()->mtx_init(&a, bad[i]), glibc()->mtx_init(&b, bad[i]));
		ck_assert_msg(memcmp(&a, &b, sizeof a) == 0, "mtx_init differs for type %d", bad[i]);
	}
}
END_TEST

/* ---- mutexes that are waited for ---- */

struct hold {
	mtx_t *m;
	atomic_int state; /* 1 held, 2 let go */
};

static void hold_until_told(void *arg)
{
	struct hold *h = arg;

	WANT(mtx_lock(h->m), thrd_success);
	atomic_store(&h->state, 1);
	while (atomic_load(&h->state) != 2)
		sleep_us(200);
	WANT(mtx_unlock(h->m), thrd_success);
}

static void hold_wait(struct hold *h)
{
	while (!atomic_load(&h->state))
		sleep_us(100);
}

/* A deadline ahead: never early, and the waiter that gave up leaves a mutex that works. */
START_TEST(deadline_ahead)
{
	static const int64_t aheads[] = {0, 1, 1000, 50000, 2000000, 20000000};
	struct servant *s = servant_hire();
	mtx_t m;

	ck_assert_int_eq(mtx_init(&m, types[_i].type), thrd_success);
	for (size_t i = 0; i < sizeof aheads / sizeof aheads[0]; i++) {
		struct hold h = {&m, 0};
		struct timespec until;
		int rc;

		servant_begin(s, hold_until_told, &h);
		hold_wait(&h);
		until = utc(aheads[i]);
		errno = ERRNO_MARK;
		rc = mtx_timedlock(&m, &until);
		ck_assert_int_eq(errno, ERRNO_MARK);
		ck_assert_int_eq(rc, thrd_timedout);
		ck_assert_msg(utc_passed(&until), "gave up before the deadline");
		ck_assert_int_eq(mtx_trylock(&m), thrd_busy);
		atomic_store(&h.state, 2);
		servant_end(s);
		ck_assert_int_eq(as_mutex(&m)->__data.__lock, 0);
		ck_assert_int_eq(as_mutex(&m)->__data.__owner, 0);
		ck_assert_uint_eq(as_mutex(&m)->__data.__nusers, 0);
	}
	mtx_destroy(&m);
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* A mutex that is let go in time; errno stays. */
START_TEST(got_in_time)
{
	struct servant *s = servant_hire();
	mtx_t m;

	ck_assert_int_eq(mtx_init(&m, types[_i].type), thrd_success);
	for (int round = 0; round < 20; round++) {
		struct timespec until = utc(60000000000);
		struct hold h = {&m, 0};
		int rc;

		servant_begin(s, hold_until_told, &h);
		hold_wait(&h);
		atomic_store(&h.state, 2); /* the servant sees it some 100 us later */
		errno = ERRNO_MARK;
		rc = round % 2 ? mtx_timedlock(&m, &until) : mtx_lock(&m);
		ck_assert_int_eq(errno, ERRNO_MARK);
		ck_assert_int_eq(rc, thrd_success);
		ck_assert_int_eq(as_mutex(&m)->__data.__owner, gettid());
		ck_assert_uint_eq(as_mutex(&m)->__data.__nusers, 1);
		ck_assert_int_eq(mtx_unlock(&m), thrd_success);
		ck_assert_int_eq(errno, ERRNO_MARK);
		servant_end(s);
	}
	mtx_destroy(&m);
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* ---- mutexes that C11 cannot make ---- */

START_TEST(pthread_kinds)
{
	struct servant *servant = servant_hire();
	int type = kinds[_i].type;
	bool asks = type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK;
	int twice = type == PTHREAD_MUTEX_RECURSIVE ? thrd_success : thrd_busy;
	const struct c11_api *apis[] = {bound(), glibc()};

	for (int i = 0; i < 2; i++) {
		const struct c11_api *api = apis[i];
		struct errand e = {.api = api, .op = TRY};
		struct timespec past = utc(-1000000);
		pthread_mutex_t m;
		cnd_t c;

		e.m = (mtx_t *)&m;
		mutex_make(&m, type);
		ck_assert_int_eq(api->cnd_init(&c), thrd_success);
		ck_assert_int_eq(api->mtx_lock(e.m), thrd_success);
		ck_assert_int_eq(api->mtx_trylock(e.m), twice);
		if (twice == thrd_success)
			ck_assert_int_eq(api->mtx_unlock(e.m), thrd_success);
		if (type == PTHREAD_MUTEX_ERRORCHECK) {
			ck_assert_int_eq(api->mtx_lock(e.m), thrd_error);
			ck_assert_int_eq(api->mtx_timedlock(e.m, &past), thrd_error);
		}
		ck_assert_int_eq(api->cnd_timedwait(&c, e.m, &past), thrd_timedout);
		servant_do(servant, errand_run, &e);
		ck_assert_int_eq(e.rc, thrd_busy);
		e.op = PAST;
		servant_do(servant, errand_run, &e);
		ck_assert_int_eq(e.rc, thrd_timedout);
		ck_assert_int_eq(api->mtx_unlock(e.m), thrd_success);
		if (asks) {
			ck_assert_int_eq(api->mtx_unlock(e.m), thrd_error);
			ck_assert_int_eq(api->cnd_wait(&c, e.m), thrd_error);
		}
		api->cnd_destroy(&c);
		ck_assert_int_eq(pthread_mutex_destroy(&m), 0);
	}
	servant_dismiss(servant);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("c11-mtx");

	SUITE_CASE_OF(s, table_alone, 60, TYPES);
	SUITE_CASE_OF(s, table_two_threads, 60, TYPES);
	SUITE_CASE(s, bad_types, 60);
	SUITE_CASE_OF(s, deadline_ahead, 60, TYPES);
	SUITE_CASE_OF(s, got_in_time, 60, TYPES);
	SUITE_CASE_OF(s, pthread_kinds, 60, KINDS);
	return suite_run(s);
}
