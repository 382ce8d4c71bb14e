/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite c11-cnd: cnd_* of <threads.h>, call by call as glibc's.
 *
 * The calls are made on two objects, by the functions that this program is bound to and by glibc's own.  It would
 * catch: an error that is mapped to another result, a wait that returns without the mutex, at another depth or before
 * its deadline, one that shows another mutex than glibc's while it lasts, a call that writes errno, a signal that is
 * kept for who comes later, an object that cannot be made again.
 */

#include "c11.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Asserts what a call on a condition variable returned, that errno stayed, and that the mutex is ours as before. */
#define ASSERT_CND(call, wanted, depth)                                                                                \
	do {                                                                                                           \
		errno = ERRNO_MARK;                                                                                    \
		ck_assert_int_eq((call), (wanted));                                                                    \
		ck_assert_int_eq(errno, ERRNO_MARK);                                                                   \
		ck_assert_uint_eq(as_mutex(&m)->__data.__count, types[_i].recursive ? (depth) : 0u);                   \
		ck_assert_int_eq(as_mutex(&m)->__data.__owner, (depth) ? gettid() : 0);                                \
		ck_assert_int_eq(as_mutex(&m)->__data.__lock != 0, (depth) != 0);                                      \
		ck_assert_uint_eq(as_mutex(&m)->__data.__nusers, (depth) != 0);                                        \
	} while (0)

START_TEST(condition_returns)
{
	const struct c11_api *apis[] = {bound(), glibc()};
	struct timespec past, bad = utc(0), negative = {-1, 0}, ahead;
	cnd_t fresh[2];

	bad.tv_nsec = 1000000000;
	for (int i = 0; i < 2; i++) {
		const struct c11_api *api = apis[i];
		cnd_t c;
		mtx_t m;

		memset(&c, 0xa5, sizeof c);
		ASSERT_CND(api->mtx_init(&m, types[_i].type), thrd_success, 0u);
		ASSERT_CND(api->cnd_init(&c), thrd_success, 0u);
		fresh[i] = c;
		ASSERT_CND(api->cnd_signal(&c), thrd_success, 0u);
		ASSERT_CND(api->cnd_broadcast(&c), thrd_success, 0u);
		if (types[_i].recursive) { /* who waits without the mutex is told */
			ASSERT_CND(api->cnd_wait(&c, &m), thrd_error, 0u);
			ahead = utc(1000000000);
			ASSERT_CND(api->cnd_timedwait(&c, &m, &ahead), thrd_error, 0u);
		}
		ASSERT_CND(api->mtx_lock(&m), thrd_success, 1u);
		past = utc(-1000000);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &past), thrd_timedout, 1u);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &negative), thrd_timedout, 1u);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &bad), thrd_error, 1u);
		bad.tv_nsec = -1;
		ASSERT_CND(api->cnd_timedwait(&c, &m, &bad), thrd_error, 1u);
		bad.tv_nsec = 1000000000;
		/* Signals that met nobody are not kept for who comes later. */
		ASSERT_CND(api->cnd_signal(&c), thrd_success, 1u);
		ASSERT_CND(api->cnd_broadcast(&c), thrd_success, 1u);
		ahead = utc(2000000);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &ahead), thrd_timedout, 1u);
		ck_assert_msg(utc_passed(&ahead), "%s: cnd_timedwait ended before its deadline", api->name);
		ASSERT_CND(api->mtx_unlock(&m), thrd_success, 0u);
		api->cnd_destroy(&c);
		ASSERT_CND(api->cnd_init(&c), thrd_success, 0u); /* destroyed, it may be made again */
		ASSERT_CND(api->cnd_signal(&c), thrd_success, 0u);
		api->cnd_destroy(&c);
		api->mtx_destroy(&m);
	}
	ck_assert_mem_eq(&fresh[0], &fresh[1], sizeof fresh[0]);
	assert_no_complaint();
}
END_TEST

/* What a mutex looks like while its holder waits, and to whom it belongs then. */
struct sleeper {
	const struct c11_api *api;
	mtx_t m;
	cnd_t c;
	bool timed, came, go;
};

static void sleep_until_told(void *arg)
{
	struct sleeper *s = arg;
	struct timespec ahead = utc(60000000000);

	WANT(s->api->mtx_lock(&s->m), thrd_success);
	s->came = true;
	errno = ERRNO_MARK;
	while (!s->go)
		WANT(s->timed ? s->api->cnd_timedwait(&s->c, &s->m, &ahead) : s->api->cnd_wait(&s->c, &s->m),
		     thrd_success);
	if (errno != ERRNO_MARK)
		complain("%s: a wait made errno %d", s->api->name, errno);
	if (as_mutex(&s->m)->__data.__owner != gettid())
		complain("%s: back from a wait, but the owner is %d", s->api->name, as_mutex(&s->m)->__data.__owner);
	WANT(s->api->mtx_unlock(&s->m), thrd_success);
}

/* When this returns the sleeper waits and nobody holds the mutex. */
static void sleeper_wait(struct sleeper *s)
{
	bool came;

	do {
		sleep_us(100);
		ck_assert_int_eq(s->api->mtx_lock(&s->m), thrd_success);
		came = s->came;
		ck_assert_int_eq(s->api->mtx_unlock(&s->m), thrd_success);
	} while (!came);
}

START_TEST(while_one_waits)
{
	const struct c11_api *apis[] = {bound(), glibc()};
	struct servant *servant = servant_hire();

	for (int how = 0; how < 4; how++) {
		mtx_t peeked[2];

		for (int i = 0; i < 2; i++) {
			struct sleeper s = {.api = apis[i], .timed = how & 1};

			ck_assert_int_eq(s.api->mtx_init(&s.m, types[_i].type), thrd_success);
			ck_assert_int_eq(s.api->cnd_init(&s.c), thrd_success);
			servant_begin(servant, sleep_until_told, &s);
			sleeper_wait(&s);
			memcpy(&peeked[i], &s.m, sizeof s.m);
			ck_assert_int_eq(s.api->mtx_trylock(&s.m), thrd_success);
			s.go = true;
			errno = ERRNO_MARK;
			ck_assert_int_eq(how & 2 ? s.api->cnd_broadcast(&s.c) : s.api->cnd_signal(&s.c), thrd_success);
			ck_assert_int_eq(errno, ERRNO_MARK);
			ck_assert_int_eq(s.api->mtx_unlock(&s.m), thrd_success);
			servant_end(servant);
			assert_no_complaint();
			ck_assert_int_eq(as_mutex(&s.m)->__data.__lock, 0);
			ck_assert_int_eq(as_mutex(&s.m)->__data.__owner, 0);
			ck_assert_uint_eq(as_mutex(&s.m)->__data.__nusers, 0);
			s.api->cnd_destroy(&s.c);
			s.api->mtx_destroy(&s.m);
		}
		ck_assert_msg(same_fields(&peeked[0], &peeked[1], false), "the fields differ while one waits");
	}
	servant_dismiss(servant);
}
END_TEST

/* Locked twice: a wait gives back one level only, so nobody can come; the deadline ends it, at the old depth. */
static void try_later(void *arg)
{
	struct errand *e = arg;

	sleep_us(1000);
	errand_run(e);
	if (e->rc == thrd_success)
		WANT(e->api->mtx_unlock(e->m), thrd_success);
}

START_TEST(waiting_at_depth_two)
{
	const struct c11_api *apis[] = {bound(), glibc()};
	struct servant *servant = servant_hire();

	for (int i = 0; i < 2; i++) {
		struct timespec until;
		struct errand e = {.api = apis[i], .op = TRY};
		cnd_t c;
		mtx_t m;

		e.m = &m;
		ck_assert_int_eq(apis[i]->mtx_init(&m, mtx_timed | mtx_recursive), thrd_success);
		ck_assert_int_eq(apis[i]->cnd_init(&c), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_lock(&m), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_lock(&m), thrd_success);
		until = utc(10000000);
		servant_begin(servant, try_later, &e);
		ck_assert_int_eq(apis[i]->cnd_timedwait(&c, &m, &until), thrd_timedout);
		servant_end(servant);
		ck_assert_msg(e.rc == thrd_busy, "%s: a wait at depth two let somebody in", apis[i]->name);
		ck_assert_uint_eq(as_mutex(&m)->__data.__count, 2);
		ck_assert_int_eq(apis[i]->mtx_unlock(&m), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_unlock(&m), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_unlock(&m), thrd_error);
		apis[i]->cnd_destroy(&c);
		apis[i]->mtx_destroy(&m);
	}
	servant_dismiss(servant);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("c11-cnd");

	SUITE_CASE_OF(s, condition_returns, 60, TYPES);
	SUITE_CASE_OF(s, while_one_waits, 60, TYPES);
	SUITE_CASE(s, waiting_at_depth_two, 60);
	return suite_run(s);
}
