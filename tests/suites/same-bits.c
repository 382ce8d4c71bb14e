/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite same-bits: some threads use the functions that the program is bound to, others glibc's own, on the same
 * mutexes at the same time.
 *
 * Under a preload these differ (it is checked that they do), and what holds between them is the meaning of the
 * bits alone.  It would catch: a sleeper of one side that the other side's unlock does not wake, a word taken with
 * 1 by a thread that has slept on it, an owner or a count in a private place, a futex call of another scope, a
 * mutex that glibc's condition variables leave locked or lose.
 */

#include "suite.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERATIONS = 1000000, MUTEXES = 3, MIXED = 8 };

struct mixed {
	pthread_mutex_t m;
	volatile unsigned long count;
	volatile int holder;
} __attribute__((aligned(64)));

static struct {
	struct mixed g[MUTEXES];
	int type;
	int per_thread;
	atomic_ulong sections, operations;
} field;

/* The premise: under a preload the two sets are two. */
static void assert_two_sets(void)
{
	const struct mutex_api *a = api_bound(), *b = api_glibc();
	bool differ = suite_preloaded();

	ck_assert_int_eq(a->lock != b->lock, differ);
	ck_assert_int_eq(a->trylock != b->trylock, differ);
	ck_assert_int_eq(a->timedlock != b->timedlock, differ);
	ck_assert_int_eq(a->clocklock != b->clocklock, differ);
	ck_assert_int_eq(a->unlock != b->unlock, differ);
}

static bool enter(const struct mutex_api *api, pthread_mutex_t *m, uint32_t luck)
{
	struct timespec t;
	int rc;

	switch (luck % 6) {
	case 0:
		rc = api->trylock(m);
		if (rc == EBUSY)
			return false;
		break;
	case 1:
		t = deadline(CLOCK_REALTIME, luck / 8 % 60000);
		rc = api->timedlock(m, &t);
		if (rc == ETIMEDOUT)
			return false;
		break;
	case 2:
		t = deadline(CLOCK_MONOTONIC, luck / 8 % 60000);
		rc = api->clocklock(m, CLOCK_MONOTONIC, &t);
		if (rc == ETIMEDOUT)
			return false;
		break;
	default:
		rc = api->lock(m);
		break;
	}
	return WANT(rc, 0);
}

/* crosswise: each call is of the one side or the other by chance, also for one and the same holding. */
static void mixed_body(int index, void *arg)
{
	bool crosswise = *(bool *)arg;
	uint32_t luck = 0x9e3779b9u * (index + 1);
	unsigned long sections = 0, operations = 0;

	while (operations < (unsigned long)field.per_thread && !complained()) {
		struct mixed *g = &field.g[dice(&luck) % MUTEXES];
		const struct mutex_api *in =
			(crosswise ? dice(&luck) >> 7 : (uint32_t)index) & 1 ? api_bound() : api_glibc();
		const struct mutex_api *out =
			(crosswise ? dice(&luck) >> 7 : (uint32_t)index) & 1 ? api_bound() : api_glibc();
		int depth;

		operations++;
		if (!enter(in, &g->m, dice(&luck)))
			continue;
		depth = field.type == PTHREAD_MUTEX_RECURSIVE ? dice(&luck) % 3 : 0;
		for (int i = 0; i < depth; i++)
			MUST((luck >> i & 1 ? in : out)->lock(&g->m));
		if (g->holder)
			complain("thread %d is inside together with thread %d", index + 1, g->holder);
		g->holder = index + 1;
		g->count++;
		if (dice(&luck) % 1024 == 0)
			sched_yield();
		g->holder = 0;
		if (field.type == PTHREAD_MUTEX_ERRORCHECK && luck % 64 == 1)
			WANT(out->lock(&g->m), EDEADLK);
		for (int i = 0; i < depth; i++)
			MUST((luck >> i & 1 ? out : in)->unlock(&g->m));
		MUST(out->unlock(&g->m));
		sections++;
		operations++;
	}
	atomic_fetch_add(&field.sections, sections);
	atomic_fetch_add(&field.operations, operations);
}

static void mix(int type, bool crosswise)
{
	unsigned long count = 0;

	assert_two_sets();
	field.type = type;
	field.per_thread = suite_scale(OPERATIONS / 4 / MIXED) + 1; /* 4 kinds make the number */
	for (int i = 0; i < MUTEXES; i++)
		mutex_make(&field.g[i].m, type);
	team_run(MIXED, mixed_body, &crosswise);
	assert_no_complaint();
	for (int i = 0; i < MUTEXES; i++) {
		count += field.g[i].count;
		ck_assert_int_eq(field.g[i].m.__data.__lock, 0);
		ck_assert_int_eq(field.g[i].m.__data.__owner, 0);
		ck_assert_uint_eq(field.g[i].m.__data.__nusers, 0);
		ck_assert_uint_eq(field.g[i].m.__data.__count, 0);
		ck_assert_int_eq(pthread_mutex_destroy(&field.g[i].m), 0);
	}
	ck_assert_uint_eq(count, atomic_load(&field.sections));
	ck_assert_uint_ge(atomic_load(&field.operations), suite_scale(OPERATIONS / 4));
	ck_assert_int_ne(suite_entered(), 0);
}

START_TEST(threads_of_two_sides)
{
	mix(kinds[_i].type, false);
}
END_TEST

START_TEST(calls_of_two_sides)
{
	mix(kinds[_i].type, true);
}
END_TEST

/* The same with long holdings: the waiters of both sides are asleep when the other side unlocks. */
static void sleepy_body(int index, void *arg)
{
	struct mixed *g = arg;

	for (int i = 0; i < (int)suite_scale(60); i++) {
		const struct mutex_api *in = (i + index) & 1 ? api_bound() : api_glibc();
		const struct mutex_api *out = i / 2 & 1 ? api_bound() : api_glibc();

		MUST(in->lock(&g->m));
		if (g->holder)
			complain("two inside");
		g->holder = 1;
		sleep_us(i % 20 == 0 ? 5000 : 100);
		g->count++;
		g->holder = 0;
		MUST(out->unlock(&g->m));
		if (i % 3 == 0)
			sleep_us(50);
	}
}

START_TEST(sleepers_of_two_sides)
{
	struct mixed g = {.count = 0};

	assert_two_sets();
	mutex_make(&g.m, kinds[_i].type);
	team_run(6, sleepy_body, &g);
	assert_no_complaint();
	ck_assert_uint_eq(g.count, 6 * suite_scale(60));
	ck_assert_int_eq(pthread_mutex_destroy(&g.m), 0);
}
END_TEST

/*
 * glibc's condition variables on a mutex that is contended through the bound functions: a bounded buffer, watched
 * by a thread that waits with deadlines, disturbed by threads that only lock.
 */
enum { SLOTS = 2, ITEMS = 6000, PRODUCERS = 2, CONSUMERS = 3, LOCKERS = 2 };

static struct {
	pthread_mutex_t m;
	pthread_cond_t not_full, not_empty;
	int slot[SLOTS], used;
	int holder; /* shadow */
	long produced, consumed;
	unsigned long sum_in, sum_out, disturbed;
	int items;
} buffer = {.not_full = PTHREAD_COND_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};

static void in_buffer(int me)
{
	if (__atomic_exchange_n(&buffer.holder, me, __ATOMIC_RELAXED))
		complain("two in the buffer");
}

static void out_of_buffer(int me)
{
	if (__atomic_exchange_n(&buffer.holder, 0, __ATOMIC_RELAXED) != me)
		complain("two in the buffer");
}

/* Waits once; every fourth time with a deadline that may well pass. */
static void buffer_wait(pthread_cond_t *cond, int me, uint32_t luck)
{
	const struct mutex_api *g = api_glibc();

	out_of_buffer(me);
	if (luck % 4) {
		MUST(g->cond_wait(cond, &buffer.m));
	} else {
		struct timespec t = deadline(CLOCK_REALTIME, luck / 4 % 200000);
		int rc = g->cond_timedwait(cond, &buffer.m, &t);

		if (rc != ETIMEDOUT)
			WANT(rc, 0);
	}
	if (buffer.m.__data.__owner != gettid())
		complain("back from the wait, but the owner is %d", buffer.m.__data.__owner);
	in_buffer(me);
}

static void buffer_body(int index, void *arg)
{
	const struct mutex_api *g = api_glibc();
	uint32_t luck = 17 * (index + 1);
	int me = index + 1;
	(void)arg;

	for (;;) {
		bool over;

		MUST(pthread_mutex_lock(&buffer.m));
		in_buffer(me);
		if (index < PRODUCERS) {
			while (buffer.used == SLOTS && buffer.produced < buffer.items)
				buffer_wait(&buffer.not_full, me, dice(&luck));
			over = buffer.produced == buffer.items;
			if (!over) {
				buffer.slot[buffer.used++] = ++buffer.produced;
				buffer.sum_in += buffer.produced;
			}
		} else if (index < PRODUCERS + CONSUMERS) {
			while (buffer.used == 0 && buffer.consumed < buffer.items)
				buffer_wait(&buffer.not_empty, me, dice(&luck));
			over = buffer.consumed == buffer.items;
			if (!over) {
				buffer.sum_out += buffer.slot[--buffer.used];
				buffer.consumed++;
			}
		} else {
			over = buffer.consumed == buffer.items;
			buffer.disturbed++;
		}
		if (over) { /* all must see it */
			MUST(g->cond_broadcast(&buffer.not_full));
			MUST(g->cond_broadcast(&buffer.not_empty));
		}
		out_of_buffer(me);
		if (luck % 2) { /* signal inside or after */
			MUST(index < PRODUCERS ? g->cond_signal(&buffer.not_empty) : g->cond_signal(&buffer.not_full));
			MUST(pthread_mutex_unlock(&buffer.m));
		} else {
			MUST(pthread_mutex_unlock(&buffer.m));
			MUST(index < PRODUCERS ? g->cond_signal(&buffer.not_empty) : g->cond_signal(&buffer.not_full));
		}
		if (over || complained())
			return;
		if (index >= PRODUCERS + CONSUMERS)
			spin_ns(dice(&luck) % 20000);
	}
}

START_TEST(condition_variables)
{
	buffer.items = suite_scale(ITEMS);
	mutex_make(&buffer.m, kinds[_i].type);
	team_run(PRODUCERS + CONSUMERS + LOCKERS, buffer_body, NULL);
	assert_no_complaint();
	ck_assert_int_eq(buffer.produced, buffer.items);
	ck_assert_int_eq(buffer.consumed, buffer.items);
	ck_assert_uint_eq(buffer.sum_in, buffer.sum_out);
	ck_assert_int_eq(buffer.used, 0);
	ck_assert_int_eq(pthread_mutex_destroy(&buffer.m), 0);
}
END_TEST

/* Everybody waits; one broadcast brings all of them back through the mutex, again and again. */
enum { AUDIENCE = 24 };

static struct {
	pthread_mutex_t m;
	pthread_cond_t shout, seated;
	int seats, act, acts;
} theatre = {.shout = PTHREAD_COND_INITIALIZER, .seated = PTHREAD_COND_INITIALIZER};

static void theatre_body(int index, void *arg)
{
	const struct mutex_api *g = api_glibc();
	(void)arg;

	for (int act = 0; act < theatre.acts; act++) {
		MUST(pthread_mutex_lock(&theatre.m));
		if (index == 0) {
			while (theatre.seats < AUDIENCE - 1)
				MUST(g->cond_wait(&theatre.seated, &theatre.m));
			theatre.seats = 0;
			theatre.act++;
			MUST(g->cond_broadcast(&theatre.shout));
		} else {
			if (++theatre.seats == AUDIENCE - 1)
				MUST(g->cond_signal(&theatre.seated));
			while (theatre.act == act)
				MUST(g->cond_wait(&theatre.shout, &theatre.m));
		}
		MUST(pthread_mutex_unlock(&theatre.m));
	}
}

START_TEST(broadcasts)
{
	theatre.acts = suite_scale(150);
	mutex_make(&theatre.m, kinds[_i].type);
	team_run(AUDIENCE, theatre_body, NULL);
	assert_no_complaint();
	ck_assert_int_eq(theatre.act, theatre.acts);
	ck_assert_int_eq(pthread_mutex_destroy(&theatre.m), 0);
}
END_TEST

/* glibc's C11 mutex is its pthread mutex: the same object through both. */
static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is a pthread_mutex_t");

static void c11_body(int index, void *arg)
{
	const struct mutex_api *g = api_glibc();
	struct mixed *s = arg;
	uint32_t luck = index + 1;

	for (int i = 0; i < (int)suite_scale(15000); i++) {
		bool c11_in = dice(&luck) >> 9 & 1, c11_out = luck >> 10 & 1;

		if (!c11_in)
			MUST(pthread_mutex_lock(&s->m));
		else if (luck >> 11 & 1)
			WANT(g->mtx_lock((mtx_t *)&s->m), thrd_success);
		else
			while (g->mtx_trylock((mtx_t *)&s->m) != thrd_success)
				sched_yield();
		if (s->holder)
			complain("two inside");
		s->holder = 1;
		s->count++;
		s->holder = 0;
		if (c11_out)
			WANT(g->mtx_unlock((mtx_t *)&s->m), thrd_success);
		else
			MUST(pthread_mutex_unlock(&s->m));
	}
}

START_TEST(c11_mutex)
{
	struct mixed s = {.count = 0};

	mutex_make(&s.m, kinds[_i].type);
	team_run(6, c11_body, &s);
	assert_no_complaint();
	ck_assert_uint_eq(s.count, 6 * suite_scale(15000));
}
END_TEST

/* With every attribute that there is, initialised mutexes hold the same bytes. */
START_TEST(initialised)
{
	static const int types[] = {-1, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
				    PTHREAD_MUTEX_ADAPTIVE_NP};
	static const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT, PTHREAD_PRIO_PROTECT};
	unsigned type = (unsigned)_i % 5, protocol = (unsigned)_i / 5 % 3, flags = (unsigned)_i / 15;
	pthread_mutexattr_t attr;
	pthread_mutex_t ours, glibcs;

	/* Where it fails (ENOTSUP) they stay as they are. */
	memset(&ours, 0x55, sizeof(ours));
	memset(&glibcs, 0x55, sizeof(glibcs));
	MUST(pthread_mutexattr_init(&attr));
	if (types[type] >= 0)
		MUST(pthread_mutexattr_settype(&attr, types[type]));
	MUST(pthread_mutexattr_setprotocol(&attr, protocols[protocol]));
	MUST(pthread_mutexattr_setrobust(&attr, flags & 1 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED));
	MUST(pthread_mutexattr_setpshared(&attr, flags & 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE));
	if (flags & 4)
		MUST(pthread_mutexattr_setprioceiling(&attr, 1));
	ck_assert_int_eq(api_bound()->init(&ours, &attr), api_glibc()->init(&glibcs, &attr));
	ck_assert_mem_eq(&ours, &glibcs, sizeof(ours));
}
END_TEST

int main(void)
{
	Suite *s = suite_make("same-bits");

	SUITE_CASE_OF(s, initialised, 10, 5 * 3 * 8);
	SUITE_CASE_OF(s, threads_of_two_sides, 120, KINDS);
	SUITE_CASE_OF(s, calls_of_two_sides, 120, KINDS);
	SUITE_CASE_OF(s, sleepers_of_two_sides, 120, KINDS);
	SUITE_CASE_OF(s, condition_variables, 120, KINDS);
	SUITE_CASE_OF(s, broadcasts, 120, KINDS);
	SUITE_CASE_OF(s, c11_mutex, 120, KINDS);
	return suite_run(s);
}
