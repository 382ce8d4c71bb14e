/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite c11-classics: mutexes and condition variables of <threads.h> in use, alone and mixed with pthread calls.
 *
 * A crowd enters one mutex by both families' calls, and the textbook's monitors are played, each with a result that
 * proves that nothing was lost or done twice.  It would catch: C11 calls that are served by one library and pthread
 * calls by another, two inside at once, a wake-up that is lost between them, a wait that ends before its deadline.
 */

#include "c11.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/*
 * Rounds end early where they are slow (huge spin budgets on few CPUs), but for a few; what was begun is counted to
 * its end.
 */
enum { SCENE_MS = 60, FEW = 5 };

/* ---- a mutex by C11 and by pthread calls at the same time ---- */

enum { VISITORS = 6, VISITS = 4000 };

static struct {
	mtx_t m;
	bool recursive;
	atomic_int inside;
	unsigned long count;
	atomic_ulong visits;
} both;

static void both_lock(uint32_t luck)
{
	struct timespec ahead = utc(60000000000);

	switch (luck % 6) {
	case 0:
		WANT(mtx_timedlock(&both.m, &ahead), thrd_success);
		break;
	case 1:
		MUST(pthread_mutex_timedlock(as_mutex(&both.m), &ahead));
		break;
	case 2:
		if (mtx_trylock(&both.m) == thrd_success)
			break;
		/* fall through */
	case 3:
		WANT(mtx_lock(&both.m), thrd_success);
		break;
	case 4:
		if (pthread_mutex_trylock(as_mutex(&both.m)) == 0)
			break;
		/* fall through */
	default:
		MUST(pthread_mutex_lock(as_mutex(&both.m)));
		break;
	}
}

static void both_unlock(uint32_t luck)
{
	if (luck & 1)
		WANT(mtx_unlock(&both.m), thrd_success);
	else
		MUST(pthread_mutex_unlock(as_mutex(&both.m)));
}

static void both_body(int index, void *arg)
{
	uint64_t end_ns = now_ns() + suite_scale(SCENE_MS) * 1000000;
	unsigned long visits = 0, limit = suite_scale(VISITS);
	uint32_t luck = 11 * (index + 1);
	(void)arg;

	for (; visits < limit && (visits < FEW || now_ns() < end_ns) && !complained(); visits++) {
		int depth = 1 + (both.recursive && dice(&luck) % 3 == 0);

		for (int i = 0; i < depth; i++)
			both_lock(dice(&luck));
		if (atomic_exchange_explicit(&both.inside, 1, memory_order_relaxed))
			complain("two inside");
		both.count++;
		if ((luck >> 8 & 31) == 0)
			sched_yield();
		atomic_store_explicit(&both.inside, 0, memory_order_relaxed);
		for (int i = 0; i < depth; i++)
			both_unlock(luck >> (16 + i));
	}
	atomic_fetch_add(&both.visits, visits);
}

START_TEST(by_both_families)
{
	both.recursive = types[_i].recursive;
	ck_assert_int_eq(mtx_init(&both.m, types[_i].type), thrd_success);
	team_run(VISITORS, both_body, NULL);
	assert_no_complaint();
	ck_assert_uint_gt(both.count, 0);
	ck_assert_uint_eq(both.count, atomic_load(&both.visits));
	ck_assert_int_eq(pthread_mutex_trylock(as_mutex(&both.m)), 0);
	ck_assert_int_eq(mtx_unlock(&both.m), thrd_success);
	ck_assert_int_eq(pthread_mutex_destroy(as_mutex(&both.m)), 0);
}
END_TEST

/* ---- classics ---- */

enum { CREW = 6 };

/* Runs CREW threads by thrd_create and returns the sum of their results. */
static long crew_run(thrd_start_t body)
{
	static int index[CREW];
	thrd_t thread[CREW];
	long sum = 0;

	for (int i = 0; i < CREW; i++) {
		index[i] = i;
		ck_assert_int_eq(thrd_create(&thread[i], body, &index[i]), thrd_success);
	}
	for (int i = 0; i < CREW; i++) {
		int result;

		ck_assert_int_eq(thrd_join(thread[i], &result), thrd_success);
		sum += result;
	}
	return sum;
}

static struct {
	mtx_t m;
	cnd_t a, b;
	bool mixed; /* each call by the one family or the other, by chance */
	bool timed; /* some waits with a deadline that may well pass */
	atomic_int inside;
	uint64_t end_ns;
} scene;

static void scene_make(int i, bool timed)
{
	scene.mixed = i >= TYPES;
	scene.timed = timed;
	ck_assert_int_eq(mtx_init(&scene.m, types[i % TYPES].type), thrd_success);
	ck_assert_int_eq(cnd_init(&scene.a), thrd_success);
	ck_assert_int_eq(cnd_init(&scene.b), thrd_success);
	scene.end_ns = now_ns() + suite_scale(SCENE_MS) * 1000000;
}

static bool scene_over(int done)
{
	return (done >= FEW && now_ns() > scene.end_ns) || complained();
}

static void scene_unmake(void)
{
	assert_no_complaint();
	ck_assert_int_eq(mtx_trylock(&scene.m), thrd_success);
	ck_assert_int_eq(mtx_unlock(&scene.m), thrd_success);
	cnd_destroy(&scene.a);
	cnd_destroy(&scene.b);
	mtx_destroy(&scene.m);
}

static bool by_pthread(uint32_t *luck)
{
	return scene.mixed && dice(luck) >> 5 & 1;
}

static void step_in(void)
{
	if (atomic_exchange_explicit(&scene.inside, 1, memory_order_relaxed))
		complain("two inside");
}

static void step_out(void)
{
	if (!atomic_exchange_explicit(&scene.inside, 0, memory_order_relaxed))
		complain("two were inside");
}

static void enter(uint32_t *luck)
{
	if (by_pthread(luck))
		MUST(pthread_mutex_lock(as_mutex(&scene.m)));
	else
		WANT(mtx_lock(&scene.m), thrd_success);
	step_in();
}

static void leave(uint32_t *luck)
{
	step_out();
	if (by_pthread(luck))
		MUST(pthread_mutex_unlock(as_mutex(&scene.m)));
	else
		WANT(mtx_unlock(&scene.m), thrd_success);
}

/* One wait; the caller looks again in any case. */
static void await(cnd_t *c, uint32_t *luck)
{
	struct timespec until = utc(dice(luck) % 200000);
	bool timed = scene.timed && *luck >> 20 & 1, pthread = by_pthread(luck);
	int rc, late = pthread ? ETIMEDOUT : thrd_timedout;

	step_out();
	if (pthread)
		rc = timed ? pthread_cond_timedwait(as_cond(c), as_mutex(&scene.m), &until)
			   : pthread_cond_wait(as_cond(c), as_mutex(&scene.m));
	else
		rc = timed ? cnd_timedwait(c, &scene.m, &until) : cnd_wait(c, &scene.m);
	if (rc && !(timed && rc == late))
		complain("a wait by %s returned %d", pthread ? "pthread" : "C11", rc);
	if (rc && !utc_passed(&until))
		complain("a wait by %s ended before its deadline", pthread ? "pthread" : "C11");
	step_in();
}

static void wake_one(cnd_t *c, uint32_t *luck)
{
	if (by_pthread(luck))
		MUST(pthread_cond_signal(as_cond(c)));
	else
		WANT(cnd_signal(c), thrd_success);
}

static void wake_all(cnd_t *c, uint32_t *luck)
{
	if (by_pthread(luck))
		MUST(pthread_cond_broadcast(as_cond(c)));
	else
		WANT(cnd_broadcast(c), thrd_success);
}

/* Producers and consumers with a bounded buffer: a: not full, b: not empty. */
enum { SLOTS = 3, PRODUCERS = CREW / 2, ITEMS = 2000 };

static struct {
	int slot[SLOTS], first, used;
	int next, items; /* the number of the next item, and how many there will be */
	int producers_left;
	atomic_uchar *marks; /* how often each was consumed */
	unsigned long sum_in;
	atomic_ulong sum_out;
} buffer;

static int produce(uint32_t *luck)
{
	int made = 0;
	bool over;

	do {
		enter(luck);
		while (buffer.used == SLOTS)
			await(&scene.a, luck);
		over = buffer.next == buffer.items || scene_over(buffer.next);
		if (!over) {
			buffer.slot[(buffer.first + buffer.used++) % SLOTS] = buffer.next;
			buffer.sum_in += buffer.next++;
			made++;
			wake_one(&scene.b, luck);
		} else if (--buffer.producers_left == 0) {
			wake_all(&scene.b, luck);
		} else {
			wake_one(&scene.a, luck); /* the slot that we were woken for is another's */
		}
		leave(luck);
	} while (!over);
	return made;
}

static int consume(uint32_t *luck)
{
	for (int taken = 0;; taken++) {
		int item;

		enter(luck);
		while (!buffer.used && buffer.producers_left)
			await(&scene.b, luck);
		if (!buffer.used) {
			leave(luck);
			return -taken;
		}
		item = buffer.slot[buffer.first];
		buffer.first = (buffer.first + 1) % SLOTS;
		buffer.used--;
		leave(luck);
		wake_one(&scene.a, luck);
		atomic_fetch_add(&buffer.marks[item], 1);
		atomic_fetch_add(&buffer.sum_out, item);
	}
}

static int buffer_body(void *arg)
{
	int index = *(int *)arg;
	uint32_t luck = 19 * (index + 1);

	return index < PRODUCERS ? produce(&luck) : consume(&luck);
}

START_TEST(producers_and_consumers)
{
	scene_make(_i, _i % 2);
	buffer.items = suite_scale(ITEMS);
	buffer.marks = calloc(buffer.items, 1);
	buffer.producers_left = PRODUCERS;
	ck_assert_int_eq(crew_run(buffer_body), 0); /* as many consumed as produced */
	scene_unmake();
	ck_assert_int_eq(buffer.used, 0);
	ck_assert_int_gt(buffer.next, 0);
	ck_assert_uint_eq(buffer.sum_in, atomic_load(&buffer.sum_out));
	for (int i = 0; i < buffer.items; i++)
		ck_assert_msg(atomic_load(&buffer.marks[i]) == (i < buffer.next), "item %d was consumed %d times", i,
			      atomic_load(&buffer.marks[i]));
	free((void *)buffer.marks);
}
END_TEST

/* A pool of threads, fed by its first; closed while work is left, which must be done all the same: a: work or end. */
enum { TASKS = 1500 };

static struct {
	int queued, given, tasks; /* tasks given..queued-1 are waiting */
	bool closed;
	unsigned char *done;
} pool;

static int pool_feed(uint32_t *luck)
{
	bool over = false;

	while (!over) {
		int batch = 1 + dice(luck) % 5;

		enter(luck);
		for (; batch && pool.queued < pool.tasks; batch--) {
			pool.queued++;
			wake_one(&scene.a, luck);
		}
		over = pool.queued == pool.tasks || scene_over(pool.queued);
		if (over) {
			pool.closed = true;
			wake_all(&scene.a, luck);
		}
		leave(luck);
		if (*luck % 4 == 0)
			sched_yield();
	}
	return 0;
}

static int pool_body(void *arg)
{
	int index = *(int *)arg;
	uint32_t luck = 23 * (index + 1);

	if (index == 0)
		return pool_feed(&luck);
	for (int done = 0;; done++) {
		int task;

		enter(&luck);
		while (pool.given == pool.queued && !pool.closed)
			await(&scene.a, &luck);
		if (pool.given == pool.queued) {
			leave(&luck);
			return done;
		}
		task = pool.given++;
		leave(&luck);
		pool.done[task]++; /* not atomic: nobody else has it */
	}
}

START_TEST(thread_pool)
{
	scene_make(_i, false);
	pool.tasks = suite_scale(TASKS);
	pool.done = calloc(pool.tasks, 1);
	ck_assert_int_eq(crew_run(pool_body), pool.queued);
	scene_unmake();
	ck_assert_int_gt(pool.queued, 0);
	for (int i = 0; i < pool.tasks; i++)
		ck_assert_msg(pool.done[i] == (i < pool.queued), "task %d was done %d times", i, pool.done[i]);
	free(pool.done);
}
END_TEST

/* A barrier, generation after generation: a: the next one has begun. */
enum { GENERATIONS = 250 };

static struct {
	int arrived, generation, generations;
	int at[CREW]; /* where each is: written before a barrier, read by all between it and the next */
	bool over;
} barrier;

/* 1 for one of the crew, the last to come; it may decide to end. */
static int barrier_wait(uint32_t *luck, bool may_end)
{
	int generation, last = 0;

	enter(luck);
	generation = barrier.generation;
	if (++barrier.arrived == CREW) {
		last = 1;
		barrier.arrived = 0;
		barrier.generation++;
		barrier.over =
			may_end && (barrier.generation / 2 >= barrier.generations || scene_over(barrier.generation));
		wake_all(&scene.a, luck);
	}
	while (barrier.generation == generation)
		await(&scene.a, luck);
	if (barrier.generation != generation + 1)
		complain("somebody slept through a generation");
	leave(luck);
	return last;
}

static int barrier_body(void *arg)
{
	int index = *(int *)arg, serial = 0;
	uint32_t luck = 29 * (index + 1);

	for (int n = 1; !barrier.over; n++) {
		barrier.at[index] = n;
		serial += barrier_wait(&luck, false);
		for (int i = 0; i < CREW; i++)
			if (barrier.at[i] != n)
				complain("past barrier %d, but thread %d is at %d", n, i, barrier.at[i]);
		serial += barrier_wait(&luck, true);
	}
	return serial;
}

START_TEST(barriers)
{
	scene_make(_i, false);
	barrier.generations = suite_scale(GENERATIONS);
	ck_assert_int_eq(crew_run(barrier_body), barrier.generation);
	scene_unmake();
	ck_assert_int_ge(barrier.generation, 2);
	ck_assert_int_eq(barrier.generation, 2 * barrier.at[0]);
}
END_TEST

/* A relay: one baton, each runner with a condition variable of its own; one lost signal is the end. */
enum { LEGS = 500 };

static struct {
	cnd_t yours[CREW];
	int turn, legs, run;
	bool over;
} relay;

static int relay_body(void *arg)
{
	int index = *(int *)arg, run = 0, next = (index + 1) % CREW;
	uint32_t luck = 37 * (index + 1);
	bool over = false;

	while (!over) {
		bool inside = dice(&luck) & 1; /* signal inside or after */

		enter(&luck);
		while (relay.turn != index)
			await(&relay.yours[index], &luck);
		relay.turn = next;
		relay.over |= relay.run == relay.legs || scene_over(relay.run);
		over = relay.over; /* once round, so that all learn of it */
		if (!over) {
			relay.run++;
			run++;
		}
		if (inside)
			wake_one(&relay.yours[next], &luck);
		leave(&luck);
		if (!inside)
			wake_one(&relay.yours[next], &luck);
	}
	return run;
}

START_TEST(relays)
{
	scene_make(_i, false);
	relay.legs = suite_scale(LEGS);
	for (int i = 0; i < CREW; i++)
		ck_assert_int_eq(cnd_init(&relay.yours[i]), thrd_success);
	ck_assert_int_eq(crew_run(relay_body), relay.run);
	for (int i = 0; i < CREW; i++)
		cnd_destroy(&relay.yours[i]);
	scene_unmake();
	ck_assert_int_gt(relay.run, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("c11-classics");

	SUITE_CASE_OF(s, by_both_families, 60, TYPES);
	SUITE_CASE_OF(s, producers_and_consumers, 60, 2 * TYPES);
	SUITE_CASE_OF(s, thread_pool, 60, 2 * TYPES);
	SUITE_CASE_OF(s, barriers, 60, 2 * TYPES);
	SUITE_CASE_OF(s, relays, 60, 2 * TYPES);
	return suite_run(s);
}
