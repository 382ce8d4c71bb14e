/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What suites of reader-writer locks, call by call, share; the contract is in errand.h. */

#include "errand.h"

#include <errno.h>
#include <unistd.h>

const struct kind preferences[PREFERENCES] = {
	{"default", PTHREAD_RWLOCK_PREFER_READER_NP},
	{"prefer-writer", PTHREAD_RWLOCK_PREFER_WRITER_NP}, /* which glibc treats much as the default */
	{"nonrecursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP},
};

const struct rwlock_api bound = {
	.name = "bound",
	.init = pthread_rwlock_init,
	.destroy = pthread_rwlock_destroy,
	.rdlock = pthread_rwlock_rdlock,
	.tryrdlock = pthread_rwlock_tryrdlock,
	.timedrdlock = pthread_rwlock_timedrdlock,
	.clockrdlock = pthread_rwlock_clockrdlock,
	.wrlock = pthread_rwlock_wrlock,
	.trywrlock = pthread_rwlock_trywrlock,
	.timedwrlock = pthread_rwlock_timedwrlock,
	.clockwrlock = pthread_rwlock_clockwrlock,
	.unlock = pthread_rwlock_unlock,
};

void rwlock_make(const struct rwlock_api *api, pthread_rwlock_t *l, int kind, int shared)
{
	pthread_rwlockattr_t attr;

	MUST(pthread_rwlockattr_init(&attr));
	MUST(pthread_rwlockattr_setkind_np(&attr, kind));
	MUST(pthread_rwlockattr_setpshared(&attr, shared));
	MUST(api->init(l, &attr));
	MUST(pthread_rwlockattr_destroy(&attr));
}

static void read_often(int index, void *arg)
{
	uint64_t end = now_ns() + 10000000;
	(void)index;

	while (now_ns() < end)
		for (int i = 0; i < 50; i++) {
			MUST(pthread_rwlock_rdlock(arg));
			MUST(pthread_rwlock_unlock(arg));
		}
}

void warm_up(pthread_rwlock_t *l)
{
	team_run(4, read_often, l);
}

void call(void *arg)
{
	struct errand *e = arg;
	const struct rwlock_api *a = e->api;
	int (*plain)(pthread_rwlock_t *) = e->side == READ ? a->rdlock : a->wrlock;
	int (*try)(pthread_rwlock_t *) = e->side == READ ? a->tryrdlock : a->trywrlock;
	int (*timed)(pthread_rwlock_t *, const struct timespec *) = e->side == READ ? a->timedrdlock : a->timedwrlock;
	int (*clocked)(pthread_rwlock_t *, clockid_t, const struct timespec *) =
		e->side == READ ? a->clockrdlock : a->clockwrlock;
	int64_t ns = e->how == PAST || e->how == CLOCK_PAST ? -1000000 : e->ahead_ns ? e->ahead_ns : 60000000000;
	struct timespec real = deadline(CLOCK_REALTIME, ns), mono = deadline(CLOCK_MONOTONIC, ns);

	if (e->how == BAD_NS || e->how == CLOCK_BAD_NS)
		real.tv_nsec = mono.tv_nsec = 1000000000;
	if (e->how == NEGATIVE_NS)
		real.tv_nsec = -1;
	if (e->how == NEGATIVE)
		real = (struct timespec){-1, 0};
	e->tid = gettid();
	errno = ERRNO_MARK;
	atomic_store(&e->state, 1);
	switch (e->how) {
	case PLAIN:
		e->rc = plain(e->l);
		break;
	case TRY:
		e->rc = try(e->l);
		break;
	case CLOCK_AHEAD:
	case CLOCK_PAST:
	case CLOCK_BAD_NS:
		e->rc = clocked(e->l, CLOCK_MONOTONIC, &mono);
		break;
	case BAD_CLOCK:
		e->rc = clocked(e->l, CLOCK_PROCESS_CPUTIME_ID, &real);
		break;
	default:
		e->rc = timed(e->l, &real);
		break;
	}
	e->errno_after = errno;
	if (e->order)
		e->place = atomic_fetch_add(e->order, 1);
	atomic_store(&e->state, 2);
}

void unlock(void *arg)
{
	struct errand *e = arg;

	errno = ERRNO_MARK;
	MUST(e->api->unlock(e->l));
	WANT(errno, ERRNO_MARK);
}

void call_hold_unlock(void *arg)
{
	struct errand *e = arg;

	call(arg);
	if (e->hold_us)
		sleep_us(e->hold_us);
	if (e->rc == 0)
		unlock(arg);
}

void call_until_told(void *arg)
{
	struct errand *e = arg;

	call(arg);
	while (atomic_load(&e->state) != 3)
		sleep_us(100);
	if (e->rc == 0)
		unlock(arg);
}

void await_state(struct errand *e, int state)
{
	while (atomic_load(&e->state) < state)
		sleep_us(100);
}

void await_asleep(struct errand *e)
{
	uint64_t end = now_ns() + 1000000000;

	await_state(e, 1);
	sleep_us(1000);
	while (now_ns() < end && atomic_load(&e->state) == 1 && !is_asleep(e->tid))
		sleep_us(1000);
	sleep_us(5000);
}

int probe(struct servant *s, const struct rwlock_api *api, pthread_rwlock_t *l, enum side side)
{
	struct errand e = {.api = api, .l = l, .side = side, .how = TRY};

	servant_do(s, call_hold_unlock, &e);
	ck_assert_int_eq(e.errno_after, ERRNO_MARK);
	return e.rc;
}

void assert_free(const struct rwlock_api *api, pthread_rwlock_t *l)
{
	ck_assert_int_eq(l->__data.__cur_writer, 0);
	ck_assert_uint_eq(l->__data.__readers >> READER_SHIFT, 0);
	ck_assert_int_eq(api->trywrlock(l), 0);
	ck_assert_int_eq(l->__data.__cur_writer, gettid());
	ck_assert_int_eq(api->unlock(l), 0);
	ck_assert_int_eq(l->__data.__cur_writer, 0);
	ck_assert_uint_eq(l->__data.__readers >> READER_SHIFT, 0);
	ck_assert_int_eq(api->tryrdlock(l), 0);
	ck_assert_int_eq(api->unlock(l), 0);
	ck_assert_uint_eq(l->__data.__readers >> READER_SHIFT, 0);
}
