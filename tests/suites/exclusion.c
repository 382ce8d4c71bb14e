/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite exclusion: one thread at a time, however it came in: lock, trylock, deadlines that pass while it waits.
 *
 * The guarded data are plain memory: a count, and a shadow of the holder that each section finds empty and leaves
 * empty.  They would catch: a word taken twice (lost updates, a shadow that is not empty), a release whose stores
 * come too late, headship given to a waiter that has given up, a timed-out call that holds the lock, a success
 * that does not, a recursive mutex let go too early.
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct guarded {
	pthread_mutex_t m;
	volatile unsigned long count;
	volatile int holder;
	volatile int depth;
} __attribute__((aligned(64)));

enum { CROWD = 64, GUARDED = 16, HELD_AT_ONCE = 130 };

struct field {
	struct guarded *g;
	int size;
	int recursive;
	bool shuffles; /* waiters are to be moved within the queue, too */
	uint64_t end_ns;
	atomic_ulong sections, timeouts;
};

/* Until the time is over, and what the case is about has happened; a machine that stands still is given more. */
static bool going_on(const struct field *f, bool happened)
{
	uint64_t now = now_ns();

	return !complained() && (now < f->end_ns || (!happened && now < f->end_ns + 30000000000));
}

static void section(struct guarded *g, int me, uint32_t luck)
{
	if (g->holder)
		complain("thread %d is inside together with thread %d", me, g->holder);
	g->holder = me;
	g->count++;
	if (luck % 512 == 0)
		sched_yield(); /* be scheduled out while holding it */
	if (g->holder != me)
		complain("thread %d came in while thread %d was inside", g->holder, me);
	g->holder = 0;
}

/* Enters in one of all ways; false if it gave up. */
static bool enter(pthread_mutex_t *m, uint32_t luck, struct field *f)
{
	struct timespec t;
	int rc;

	switch (luck % 8) {
	case 0:
	case 1:
	case 2:
		return MUST(pthread_mutex_lock(m));
	case 3:
		while ((rc = pthread_mutex_trylock(m)) == EBUSY)
			if (f && now_ns() > f->end_ns)
				return false;
		return WANT(rc, 0);
	case 4:
		rc = pthread_mutex_trylock(m);
		break;
	case 5:
		t = deadline(CLOCK_REALTIME, luck / 8 % 50000);
		rc = pthread_mutex_timedlock(m, &t);
		break;
	case 6:
		t = deadline(CLOCK_MONOTONIC, luck / 8 % 50000);
		rc = pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t);
		break;
	default:
		t = deadline(CLOCK_REALTIME, 60000000000);
		return MUST(pthread_mutex_timedlock(m, &t));
	}
	if (rc == ETIMEDOUT && luck % 8 != 4 && f)
		atomic_fetch_add_explicit(&f->timeouts, 1, memory_order_relaxed);
	if (rc == 0)
		return true;
	WANT(rc, luck % 8 == 4 ? EBUSY : ETIMEDOUT);
	return false;
}

static void crowd_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 0x9e3779b9u * (index + 1);
	unsigned long sections = 0;

	do {
		struct guarded *g = &f->g[dice(&luck) % f->size];
		int depth;

		if (!enter(&g->m, dice(&luck), f))
			continue;
		depth = f->recursive ? dice(&luck) % 4 : 0;
		for (int i = 0; i < depth; i++)
			if (luck >> i & 1)
				MUST(pthread_mutex_lock(&g->m));
			else
				MUST(pthread_mutex_trylock(&g->m));
		section(g, index + 1, luck >> 4);
		for (int i = 0; i < depth; i++) {
			MUST(pthread_mutex_unlock(&g->m));
			if (g->holder)
				complain("a recursive mutex let thread %d in while held", g->holder);
		}
		MUST(pthread_mutex_unlock(&g->m));
		sections++;
	} while (going_on(f, f->size > 1 || atomic_load_explicit(&f->timeouts, memory_order_relaxed)) ||
		 (f->shuffles && going_on(f, suite_counter("shuffled"))));
	atomic_fetch_add(&f->sections, sections);
}

static void crowd(int type, int threads, int mutexes, unsigned ms)
{
	struct field f = {.size = mutexes,
			  .recursive = type == PTHREAD_MUTEX_RECURSIVE,
			  .shuffles = threads == CROWD && suite_shuffles()};
	unsigned long count = 0;

	f.g = aligned_alloc(64, mutexes * sizeof *f.g);
	memset(f.g, 0, mutexes * sizeof *f.g);
	for (int i = 0; i < mutexes; i++)
		mutex_make(&f.g[i].m, type);
	f.end_ns = now_ns() + suite_scale(ms) * 1000000;
	team_run(threads, crowd_body, &f);
	assert_no_complaint();
	for (int i = 0; i < mutexes; i++) {
		count += f.g[i].count;
		ck_assert_int_eq(f.g[i].m.__data.__lock, 0);
		ck_assert_int_eq(f.g[i].m.__data.__owner, 0);
		ck_assert_uint_eq(f.g[i].m.__data.__nusers, 0);
		ck_assert_int_eq(pthread_mutex_destroy(&f.g[i].m), 0);
	}
	ck_assert_uint_eq(count, atomic_load(&f.sections));
	ck_assert_uint_gt(count, 0);
	if (mutexes == 1) {
		ck_assert_uint_gt(atomic_load(&f.timeouts), 0);
		ck_assert_int_ne(suite_entered(), 0); /* under a queue's policy, the queue was used */
	}
	if (f.shuffles)
		ck_assert_int_gt(suite_counter("shuffled"), 0);
	free(f.g);
}

START_TEST(four_threads_one_mutex)
{
	crowd(kinds[_i].type, 4, 1, 250);
}
END_TEST

START_TEST(eight_threads_many_mutexes)
{
	crowd(kinds[_i].type, 8, GUARDED, 250);
}
END_TEST

START_TEST(crowd_one_mutex)
{
	crowd(kinds[_i].type, CROWD, 1, 400);
}
END_TEST

/* Nothing but tiny deadlines: most waiters give up, many just when their turn comes. */
static void abandon_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 0x85ebca6bu * (index + 1);
	unsigned long sections = 0;

	do {
		struct timespec t = deadline(CLOCK_MONOTONIC, dice(&luck) % 50000);
		int rc = pthread_mutex_clocklock(&f->g->m, CLOCK_MONOTONIC, &t);

		if (rc == ETIMEDOUT) {
			atomic_fetch_add_explicit(&f->timeouts, 1, memory_order_relaxed);
			continue;
		}
		if (!WANT(rc, 0))
			return;
		section(f->g, index + 1, luck);
		if (luck % 4 == 0)
			spin_ns(luck / 4 % 20000);
		MUST(pthread_mutex_unlock(&f->g->m));
		sections++;
	} while (going_on(f, atomic_load_explicit(&f->timeouts, memory_order_relaxed)));
	atomic_fetch_add(&f->sections, sections);
}

START_TEST(abandoned_waiters)
{
	struct guarded g = {.count = 0};
	struct field f = {.g = &g, .size = 1};

	mutex_make(&g.m, kinds[_i].type);
	f.end_ns = now_ns() + suite_scale(300) * 1000000;
	team_run(16, abandon_body, &f);
	assert_no_complaint();
	ck_assert_uint_eq(g.count, atomic_load(&f.sections));
	ck_assert_uint_gt(atomic_load(&f.timeouts), 0);
	ck_assert_int_eq(pthread_mutex_trylock(&g.m), 0); /* nobody is left, nobody holds it */
	ck_assert_int_eq(pthread_mutex_unlock(&g.m), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&g.m), 0);
}
END_TEST

/* Several mutexes at a time: each thread's waiters and holdings must not be mixed up. */

static struct field several_make(int size, int type, unsigned ms)
{
	struct field f = {.size = size};

	f.g = aligned_alloc(64, size * sizeof *f.g);
	memset(f.g, 0, size * sizeof *f.g);
	for (int i = 0; i < size; i++)
		mutex_make(&f.g[i].m, type);
	f.end_ns = now_ns() + suite_scale(ms) * 1000000;
	return f;
}

static void several_end(struct field *f)
{
	unsigned long count = 0;

	assert_no_complaint();
	for (int i = 0; i < f->size; i++) {
		count += f->g[i].count;
		ck_assert_int_eq(pthread_mutex_destroy(&f->g[i].m), 0);
	}
	ck_assert_uint_eq(count, atomic_load(&f->sections));
	ck_assert_uint_gt(count, 0);
	free(f->g);
}

/* Down a chain, the next one locked before the last one is let go: nobody overtakes. */
static void hand_over_hand_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = index + 1;
	unsigned long sections = 0;

	do {
		MUST(pthread_mutex_lock(&f->g[0].m));
		for (int i = 0;; i++) {
			section(&f->g[i], index + 1, dice(&luck));
			sections++;
			if (i + 1 == f->size) {
				MUST(pthread_mutex_unlock(&f->g[i].m));
				break;
			}
			MUST(pthread_mutex_lock(&f->g[i + 1].m));
			MUST(pthread_mutex_unlock(&f->g[i].m));
		}
	} while (going_on(f, true));
	atomic_fetch_add(&f->sections, sections);
}

START_TEST(hand_over_hand)
{
	struct field f = several_make(8, kinds[_i].type, 200);

	team_run(8, hand_over_hand_body, &f);
	several_end(&f);
}
END_TEST

/* Some in order, let go in any order. */
static void out_of_order_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 77 * (index + 1);
	unsigned long sections = 0;

	do {
		uint32_t held = 0;

		for (int i = 0; i < f->size; i++)
			if (dice(&luck) % 2) {
				MUST(pthread_mutex_lock(&f->g[i].m));
				section(&f->g[i], index + 1, luck >> 3);
				held |= 1u << i;
				sections++;
			}
		for (uint32_t i = dice(&luck); held; i++)
			if (held >> i * 7 % f->size & 1) { /* 7 and the size share no divisor: every place comes up */
				MUST(pthread_mutex_unlock(&f->g[i * 7 % f->size].m));
				held &= ~(1u << i * 7 % f->size);
			}
	} while (going_on(f, true));
	atomic_fetch_add(&f->sections, sections);
}

START_TEST(unlock_out_of_order)
{
	struct field f = several_make(GUARDED, kinds[_i].type, 200);

	team_run(8, out_of_order_body, &f);
	several_end(&f);
}
END_TEST

static void hoarder_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 99 * (index + 1);
	unsigned long sections = 0;

	do {
		int first = dice(&luck) % f->size;

		for (int i = 0; i < f->size; i++) {
			MUST(pthread_mutex_lock(&f->g[i].m));
			section(&f->g[i], index + 1, dice(&luck));
			f->g[i].depth = index + 1;
			sections++;
		}
		for (int i = 0; i < f->size; i++) {
			struct guarded *g = &f->g[(first + i) % f->size];

			if (g->depth != index + 1)
				complain("thread %d held all, but thread %d came in", index + 1, g->depth);
			MUST(pthread_mutex_unlock(&g->m));
		}
	} while (going_on(f, true));
	atomic_fetch_add(&f->sections, sections);
}

START_TEST(many_held_at_once)
{
	struct field f = several_make(HELD_AT_ONCE, kinds[_i].type, 200);

	team_run(6, hoarder_body, &f);
	several_end(&f);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("exclusion");

	SUITE_CASE_OF(s, four_threads_one_mutex, 120, KINDS);
	SUITE_CASE_OF(s, eight_threads_many_mutexes, 120, KINDS);
	SUITE_CASE_OF(s, crowd_one_mutex, 120, KINDS);
	SUITE_CASE_OF(s, abandoned_waiters, 120, KINDS);
	SUITE_CASE_OF(s, hand_over_hand, 120, KINDS);
	SUITE_CASE_OF(s, unlock_out_of_order, 120, KINDS);
	SUITE_CASE_OF(s, many_held_at_once, 120, KINDS);
	return suite_run(s);
}
