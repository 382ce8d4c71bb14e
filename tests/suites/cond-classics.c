/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-classics: the textbook's monitors, each with a result that proves that nothing was lost or done twice.
 *
 * A monitor is a mutex of each kind with one or more condition variables.  It would catch: a signal that wakes
 * nobody although somebody waits (a hang), one that a wait which began later has eaten, a broadcast that forgets a
 * waiter, a wait that comes back without the mutex or lets another in with it, a wait that ends before its deadline,
 * a signal lost together with a deadline that passes.
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/*
 * Rounds end early where they are slow (huge spin budgets on few CPUs), but for a few; what was begun is counted to
 * its end.
 */
enum { SCENE_MS = 70, FEW = 5 };

/* ---- a monitor: a mutex, and who is inside ---- */

struct monitor {
	pthread_mutex_t m;
	atomic_int inside; /* the visitor's number, from 1 */
	uint64_t end_ns;
};

static void monitor_make(struct monitor *o, int type)
{
	mutex_make(&o->m, type);
	o->end_ns = now_ns() + suite_scale(SCENE_MS) * 1000000;
}

static bool monitor_over(const struct monitor *o, unsigned long done)
{
	return (done >= FEW && now_ns() > o->end_ns) || complained();
}

static void step_in(struct monitor *o, int me)
{
	int other = atomic_exchange_explicit(&o->inside, me, memory_order_relaxed);

	if (other)
		complain("visitor %d is inside together with visitor %d", me, other);
}

static void step_out(struct monitor *o, int me)
{
	int other = atomic_exchange_explicit(&o->inside, 0, memory_order_relaxed);

	if (other != me)
		complain("visitor %d leaves, but visitor %d was inside", me, other);
}

static void enter(struct monitor *o, int me)
{
	MUST(pthread_mutex_lock(&o->m));
	step_in(o, me);
}

static void leave(struct monitor *o, int me)
{
	step_out(o, me);
	MUST(pthread_mutex_unlock(&o->m));
}

/* Leaves and signals; by chance the one before the other, as programs do either. */
static void leave_signalling(struct monitor *o, int me, pthread_cond_t *cond, uint32_t luck)
{
	step_out(o, me);
	if (luck & 1)
		MUST(pthread_cond_signal(cond));
	MUST(pthread_mutex_unlock(&o->m));
	if (!(luck & 1))
		MUST(pthread_cond_signal(cond));
}

static void await(struct monitor *o, int me, pthread_cond_t *cond)
{
	step_out(o, me);
	MUST(pthread_cond_wait(cond, &o->m));
	step_in(o, me);
}

static void monitor_unmake(struct monitor *o)
{
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&o->inside), 0);
	ck_assert_int_eq(pthread_mutex_trylock(&o->m), 0);
	ck_assert_int_eq(pthread_mutex_unlock(&o->m), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&o->m), 0);
}

static void cond_unmake(pthread_cond_t *cond)
{
	ck_assert_int_eq(pthread_cond_destroy(cond), 0);
}

/* ---- a ring of items, each with the number of who made it and its own ---- */

enum { SLOTS = 4, MAKERS = 3 };

struct item {
	int maker, number;
};

struct ring {
	struct item slot[SLOTS];
	int first, used, slots;
	int makers, makers_left;
	int items;		     /* of each maker, if there is time */
	int made[MAKERS];	     /* how many it was */
	int last[MAKERS];	     /* the number of the one taken last: each maker's leave in order */
	atomic_uchar *marks[MAKERS]; /* how often each was taken */
};

static void ring_make(struct ring *r, int makers, int slots, int items)
{
	r->slots = slots;
	r->makers = r->makers_left = makers;
	r->items = suite_scale(items);
	for (int i = 0; i < makers; i++) {
		r->last[i] = -1;
		r->marks[i] = calloc(r->items, 1);
	}
}

static void ring_put(struct ring *r, int maker, int number)
{
	r->slot[(r->first + r->used++) % r->slots] = (struct item){maker, number};
	r->made[maker]++;
}

static struct item ring_take(struct ring *r)
{
	struct item item = r->slot[r->first];

	r->first = (r->first + 1) % r->slots;
	r->used--;
	if (item.number <= r->last[item.maker])
		complain("item %d of maker %d comes after %d", item.number, item.maker, r->last[item.maker]);
	r->last[item.maker] = item.number;
	return item;
}

static void ring_mark(struct ring *r, struct item item)
{
	if (atomic_fetch_add(&r->marks[item.maker][item.number], 1))
		complain("item %d of maker %d was taken twice", item.number, item.maker);
}

static void ring_unmake(struct ring *r)
{
	ck_assert_int_eq(r->used, 0);
	for (int i = 0; i < r->makers; i++) {
		ck_assert_int_gt(r->made[i], 0);
		for (int n = 0; n < r->items; n++)
			ck_assert_msg(atomic_load(&r->marks[i][n]) == (n < r->made[i]),
				      "item %d of %d of maker %d was taken %d times", n, r->made[i], i,
				      atomic_load(&r->marks[i][n]));
		free((void *)r->marks[i]);
	}
}

/* ---- producers and consumers with a bounded buffer, by signals alone ---- */

enum { TAKERS = 3, BUFFER_ITEMS = 1500 };

static struct {
	struct monitor o;
	pthread_cond_t not_full, not_empty;
	struct ring r;
} buffer = {.not_full = PTHREAD_COND_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER};

static void buffer_make_items(int index, uint32_t *luck)
{
	int me = index + 1;

	for (int n = 0; n < buffer.r.items && !monitor_over(&buffer.o, n); n++) {
		enter(&buffer.o, me);
		while (buffer.r.used == buffer.r.slots)
			await(&buffer.o, me, &buffer.not_full);
		ring_put(&buffer.r, index, n);
		leave_signalling(&buffer.o, me, &buffer.not_empty, dice(luck));
	}
	enter(&buffer.o, me);
	if (--buffer.r.makers_left == 0)
		MUST(pthread_cond_broadcast(&buffer.not_empty));
	leave(&buffer.o, me);
}

static void buffer_body(int index, void *arg)
{
	uint32_t luck = 77 * (index + 1);
	int me = index + 1;
	(void)arg;

	if (index < buffer.r.makers) {
		buffer_make_items(index, &luck);
		return;
	}
	for (;;) {
		struct item item;

		enter(&buffer.o, me);
		while (buffer.r.used == 0 && buffer.r.makers_left)
			await(&buffer.o, me, &buffer.not_empty);
		if (buffer.r.used == 0) {
			leave(&buffer.o, me);
			return;
		}
		item = ring_take(&buffer.r);
		leave_signalling(&buffer.o, me, &buffer.not_full, dice(&luck));
		ring_mark(&buffer.r, item);
	}
}

static void buffer_run(int type, int makers, int takers, int slots)
{
	monitor_make(&buffer.o, type);
	ring_make(&buffer.r, makers, slots, BUFFER_ITEMS);
	team_run(makers + takers, buffer_body, NULL);
	monitor_unmake(&buffer.o);
	ring_unmake(&buffer.r);
	cond_unmake(&buffer.not_full);
	cond_unmake(&buffer.not_empty);
}

START_TEST(bounded_buffer)
{
	buffer_run(kinds[_i].type, MAKERS, TAKERS, SLOTS);
}
END_TEST

/* One of each and one slot: nobody else's signal makes good for a lost one. */
START_TEST(single_slot)
{
	buffer_run(kinds[_i].type, 1, 1, 1);
}
END_TEST

/* ---- the same with deadlines: pops of two clocks, and one that never gives up ---- */

enum { POPPERS = 5, QUEUE_ITEMS = 300 };

static struct {
	struct monitor o;
	pthread_cond_t not_full, not_empty; /* not_empty: in the monotonic clock */
	struct ring r;
	atomic_ulong pops, timeouts;
} jobs = {.not_full = PTHREAD_COND_INITIALIZER};

static bool passed(clockid_t clock, const struct timespec *t)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* One wait of the kind that this popper does; false if it ran out of time. */
static bool await_job(int me, int how, const struct timespec *until)
{
	clockid_t clock = how == 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	int rc;

	step_out(&jobs.o, me);
	if (how == 0)
		rc = pthread_cond_wait(&jobs.not_empty, &jobs.o.m);
	else if (how == 1)
		rc = pthread_cond_timedwait(&jobs.not_empty, &jobs.o.m, until);
	else
		rc = pthread_cond_clockwait(&jobs.not_empty, &jobs.o.m, clock, until);
	step_in(&jobs.o, me);
	if (rc == ETIMEDOUT && how) {
		if (!passed(clock, until))
			complain("a timed wait ended before its deadline");
		return false;
	}
	MUST(rc);
	return true;
}

/* 1: popped, 0: ran out of time, -1: there will be no more. */
static int pop(int me, uint32_t *luck)
{
	int how = me % POPPERS == 0 ? 0 : 1 + me % 3;
	struct timespec until = deadline(how == 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, dice(luck) % 150000);
	bool timely = true;
	struct item item;
	int result;

	enter(&jobs.o, me);
	while (jobs.r.used == 0 && jobs.r.makers_left && timely)
		timely = await_job(me, how, &until);
	if (jobs.r.used) { /* also at the last moment: the wait that ran out may have had the signal */
		item = ring_take(&jobs.r);
		leave_signalling(&jobs.o, me, &jobs.not_full, dice(luck));
		ring_mark(&jobs.r, item);
		return 1;
	}
	result = jobs.r.makers_left ? 0 : -1;
	leave(&jobs.o, me);
	return result;
}

static void push_all(int index, uint32_t *luck)
{
	int me = index + 1;

	for (int n = 0; n < jobs.r.items && !monitor_over(&jobs.o, n); n++) {
		enter(&jobs.o, me);
		while (jobs.r.used == SLOTS)
			await(&jobs.o, me, &jobs.not_full);
		ring_put(&jobs.r, index, n);
		leave_signalling(&jobs.o, me, &jobs.not_empty, dice(luck));
		if (*luck % 3 == 0)
			sleep_us(*luck / 3 % 150); /* so that poppers run out of time */
	}
	enter(&jobs.o, me);
	if (--jobs.r.makers_left == 0)
		MUST(pthread_cond_broadcast(&jobs.not_empty));
	leave(&jobs.o, me);
}

static void jobs_body(int index, void *arg)
{
	uint32_t luck = 31 * (index + 1);
	unsigned long pops = 0, timeouts = 0;
	(void)arg;

	if (index < MAKERS) {
		push_all(index, &luck);
		return;
	}
	for (int got = 0; got >= 0;) {
		got = pop(index + 1, &luck);
		pops += got == 1;
		timeouts += got == 0;
	}
	atomic_fetch_add(&jobs.pops, pops);
	atomic_fetch_add(&jobs.timeouts, timeouts);
}

START_TEST(timed_pops)
{
	pthread_condattr_t attr;
	unsigned long pushes = 0;

	ck_assert_int_eq(pthread_condattr_init(&attr), 0);
	ck_assert_int_eq(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), 0);
	ck_assert_int_eq(pthread_cond_init(&jobs.not_empty, &attr), 0);
	ck_assert_int_eq(pthread_condattr_destroy(&attr), 0);
	monitor_make(&jobs.o, kinds[_i].type);
	ring_make(&jobs.r, MAKERS, SLOTS, QUEUE_ITEMS);
	team_run(MAKERS + POPPERS, jobs_body, NULL);
	monitor_unmake(&jobs.o);
	for (int i = 0; i < MAKERS; i++)
		pushes += jobs.r.made[i];
	ck_assert_uint_eq(atomic_load(&jobs.pops), pushes);
	ring_unmake(&jobs.r);
	cond_unmake(&jobs.not_full);
	cond_unmake(&jobs.not_empty);
	say("timed_pops, %s: %lu pops, %lu timeouts", kinds[_i].name, pushes, atomic_load(&jobs.timeouts));
}
END_TEST

/* ---- a pool of threads: jobs that make jobs, waiting until all is done, shutting down ---- */

enum { WORKERS = 4, POOL_ROUNDS = 100, TREES = 6, DEPTH = 3, TREE = (2 << DEPTH) - 1 };

struct job {
	struct job *next;
	int depth; /* of the jobs that it will make */
	int done;
};

static struct {
	struct monitor o;
	pthread_cond_t work, idle;
	struct job *first, *last;
	int undone; /* queued or running */
	int working;
	bool closed;
	struct job job[TREES * TREE];
	atomic_int given; /* of these */
} pool = {.work = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static void pool_submit(int me, int depth, uint32_t *luck)
{
	struct job *job = &pool.job[atomic_fetch_add(&pool.given, 1)];

	job->next = NULL;
	job->depth = depth;
	enter(&pool.o, me);
	if (pool.first)
		pool.last->next = job;
	else
		pool.first = job;
	pool.last = job;
	pool.undone++;
	leave_signalling(&pool.o, me, &pool.work, dice(luck));
}

static void pool_body(int index, void *arg)
{
	uint32_t luck = 13 * (index + 1);
	int me = index + 2;
	struct job *job;
	(void)arg;

	for (;;) {
		enter(&pool.o, me);
		while (!pool.first && !pool.closed)
			await(&pool.o, me, &pool.work);
		job = pool.first;
		if (!job) {
			leave(&pool.o, me);
			return;
		}
		pool.first = job->next;
		leave(&pool.o, me);
		for (int i = 0; i < 2 && job->depth > 0; i++)
			pool_submit(me, job->depth - 1, &luck);
		job->done++; /* not atomic: nobody else has it */
		enter(&pool.o, me);
		if (--pool.undone == 0)
			MUST(pthread_cond_broadcast(&pool.idle));
		leave(&pool.o, me);
	}
}

static void pool_drain(void)
{
	enter(&pool.o, 1);
	while (pool.undone)
		await(&pool.o, 1, &pool.idle);
	leave(&pool.o, 1);
}

START_TEST(thread_pool)
{
	int rounds = suite_scale(POOL_ROUNDS);
	uint32_t luck = 99;

	monitor_make(&pool.o, kinds[_i].type);
	for (int round = 0; round < rounds && !monitor_over(&pool.o, round); round++) {
		struct team *t;

		pool.closed = false;
		atomic_store(&pool.given, 0);
		for (int i = 0; i < TREES * TREE; i++)
			pool.job[i].done = 0;
		t = team_start(WORKERS, pool_body, NULL);
		for (int i = 0; i < TREES; i++) {
			pool_submit(1, DEPTH, &luck);
			if (luck % 4 == 0)
				pool_drain();
		}
		pool_drain();
		enter(&pool.o, 1);
		ck_assert_ptr_null(pool.first);
		pool.closed = true;
		MUST(pthread_cond_broadcast(&pool.work));
		leave(&pool.o, 1);
		team_join(t);
		assert_no_complaint();
		ck_assert_int_eq(atomic_load(&pool.given), TREES * TREE);
		for (int i = 0; i < TREES * TREE; i++)
			ck_assert_msg(pool.job[i].done == 1, "job %d was done %d times", i, pool.job[i].done);
	}
	monitor_unmake(&pool.o);
	cond_unmake(&pool.work);
	cond_unmake(&pool.idle);
}
END_TEST

/* ---- a barrier, generation after generation ---- */

enum { PARTIES = 6, GENERATIONS = 500 };

static struct {
	struct monitor o;
	pthread_cond_t turn;
	int arrived, generation;
	int generations;
	int at[PARTIES]; /* where each is: written before a barrier, read by all between it and the next */
	atomic_int serial;
	bool over;
} barrier = {.turn = PTHREAD_COND_INITIALIZER};

/* True for one of the parties of each generation, the last; it may decide to end. */
static bool barrier_wait(int me, bool may_end)
{
	int generation;

	enter(&barrier.o, me);
	generation = barrier.generation;
	if (++barrier.arrived == PARTIES) {
		barrier.arrived = 0;
		barrier.generation++;
		barrier.over |=
			may_end && (generation / 2 + 1 >= barrier.generations || monitor_over(&barrier.o, generation));
		MUST(pthread_cond_broadcast(&barrier.turn));
		leave(&barrier.o, me);
		return true;
	}
	while (barrier.generation == generation)
		await(&barrier.o, me, &barrier.turn);
	if (barrier.generation != generation + 1)
		complain("party %d slept through a generation", me);
	leave(&barrier.o, me);
	return false;
}

static void barrier_body(int index, void *arg)
{
	(void)arg;
	for (int n = 1; !barrier.over; n++) {
		barrier.at[index] = n;
		if (barrier_wait(index + 1, false))
			atomic_fetch_add(&barrier.serial, 1);
		for (int i = 0; i < PARTIES; i++)
			if (barrier.at[i] != n)
				complain("past barrier %d, but party %d is at %d", n, i + 1, barrier.at[i]);
		if (barrier_wait(index + 1, true))
			atomic_fetch_add(&barrier.serial, 1);
	}
}

START_TEST(barriers)
{
	monitor_make(&barrier.o, kinds[_i].type);
	barrier.generations = suite_scale(GENERATIONS);
	team_run(PARTIES, barrier_body, NULL);
	monitor_unmake(&barrier.o);
	ck_assert_int_ge(barrier.generation, 2);
	ck_assert_int_eq(barrier.generation, 2 * barrier.at[0]);
	ck_assert_int_eq(atomic_load(&barrier.serial), barrier.generation);
	cond_unmake(&barrier.turn);
}
END_TEST

/* ---- readers and writers ---- */

enum { READERS = 4, WRITERS = 2, VISITS = 1200, WORDS = 8 };

static struct {
	struct monitor o;
	pthread_cond_t may_read, may_write;
	int readers, writers, writers_waiting;
	volatile unsigned long word[WORDS]; /* all equal but while somebody writes */
	atomic_ulong written, reads;
} text = {.may_read = PTHREAD_COND_INITIALIZER, .may_write = PTHREAD_COND_INITIALIZER};

static void text_read(int me, uint32_t luck)
{
	unsigned long seen;

	enter(&text.o, me);
	while (text.writers || text.writers_waiting)
		await(&text.o, me, &text.may_read);
	text.readers++;
	leave(&text.o, me);
	seen = text.word[0];
	for (int i = 1; i < WORDS; i++) {
		if (luck % 64 == 0 && i == WORDS / 2)
			sched_yield();
		if (text.word[i] != seen)
			complain("a reader sees a half-written text");
	}
	enter(&text.o, me);
	if (--text.readers == 0 && text.writers_waiting)
		leave_signalling(&text.o, me, &text.may_write, luck >> 8);
	else
		leave(&text.o, me);
}

static void text_write(int me, uint32_t luck)
{
	bool last;

	enter(&text.o, me);
	text.writers_waiting++;
	while (text.readers || text.writers)
		await(&text.o, me, &text.may_write);
	text.writers_waiting--;
	text.writers++;
	leave(&text.o, me);
	for (int i = 0; i < WORDS; i++) {
		if (luck % 16 == 0 && i == WORDS / 2)
			sched_yield();
		text.word[i]++;
	}
	enter(&text.o, me);
	if (--text.writers)
		complain("two write");
	last = !text.writers_waiting;
	if (last)
		MUST(pthread_cond_broadcast(&text.may_read));
	else
		MUST(pthread_cond_signal(&text.may_write));
	leave(&text.o, me);
}

static void text_body(int index, void *arg)
{
	uint32_t luck = 3 * (index + 1);
	unsigned long visits = 0, limit = suite_scale(VISITS);
	(void)arg;

	for (; visits < limit && !monitor_over(&text.o, visits); visits++)
		if (index < WRITERS)
			text_write(index + 1, dice(&luck));
		else
			text_read(index + 1, dice(&luck));
	atomic_fetch_add(index < WRITERS ? &text.written : &text.reads, visits);
}

START_TEST(readers_and_writers)
{
	monitor_make(&text.o, kinds[_i].type);
	team_run(WRITERS + READERS, text_body, NULL);
	monitor_unmake(&text.o);
	ck_assert_uint_gt(atomic_load(&text.reads), 0);
	for (int i = 0; i < WORDS; i++)
		ck_assert_uint_eq(text.word[i], atomic_load(&text.written));
	ck_assert_int_eq(text.readers + text.writers + text.writers_waiting, 0);
	cond_unmake(&text.may_read);
	cond_unmake(&text.may_write);
}
END_TEST

/* ---- dining philosophers: each fork a monitor with a condition variable of its own ---- */

enum { PHILOSOPHERS = 5, MEALS = 800 };

static struct dining_fork {
	struct monitor o;
	pthread_cond_t freed;
	int taken; /* by whom */
	unsigned long uses;
} forks[PHILOSOPHERS];

static struct {
	atomic_int eating;
	unsigned long meals;
} philosophers[PHILOSOPHERS];

static void fork_take(struct dining_fork *f, int me)
{
	enter(&f->o, me);
	while (f->taken)
		await(&f->o, me, &f->freed);
	f->taken = me;
	f->uses++;
	leave(&f->o, me);
}

static void fork_give(struct dining_fork *f, int me, uint32_t luck)
{
	enter(&f->o, me);
	if (f->taken != me)
		complain("philosopher %d's fork is in the hand of %d", me, f->taken);
	f->taken = 0;
	leave_signalling(&f->o, me, &f->freed, luck); /* of the two who share it one has it: one can wait */
}

static void philosopher_body(int index, void *arg)
{
	int left = index, right = (index + 1) % PHILOSOPHERS, me = index + 1;
	struct dining_fork *low = &forks[left < right ? left : right], *high = &forks[left < right ? right : left];
	unsigned long limit = suite_scale(MEALS);
	uint32_t luck = 5 * me;
	(void)arg;

	while (philosophers[index].meals < limit && !monitor_over(&low->o, philosophers[index].meals)) {
		fork_take(low, me);
		if (dice(&luck) % 32 == 0)
			sched_yield();
		fork_take(high, me);
		atomic_store(&philosophers[index].eating, 1);
		if (atomic_load(&philosophers[right].eating) ||
		    atomic_load(&philosophers[(index + PHILOSOPHERS - 1) % PHILOSOPHERS].eating))
			complain("philosopher %d eats beside another one", me);
		if (luck % 8 == 0)
			sched_yield();
		philosophers[index].meals++;
		atomic_store(&philosophers[index].eating, 0);
		fork_give(low, me, luck >> 8);
		fork_give(high, me, luck >> 9);
	}
}

START_TEST(dining_philosophers)
{
	for (int i = 0; i < PHILOSOPHERS; i++) {
		monitor_make(&forks[i].o, kinds[_i].type);
		ck_assert_int_eq(pthread_cond_init(&forks[i].freed, NULL), 0);
	}
	team_run(PHILOSOPHERS, philosopher_body, NULL);
	for (int i = 0; i < PHILOSOPHERS; i++) {
		monitor_unmake(&forks[i].o);
		ck_assert_int_eq(forks[i].taken, 0);
		ck_assert_uint_gt(philosophers[i].meals, 0);
		ck_assert_uint_eq(forks[i].uses,
				  philosophers[i].meals + philosophers[(i + PHILOSOPHERS - 1) % PHILOSOPHERS].meals);
		cond_unmake(&forks[i].freed);
	}
}
END_TEST

/* ---- a counting semaphore that signals only where somebody waits ---- */

enum { PERMITS = 2, GUESTS = 6, ENTRIES = 1500 };

static struct {
	struct monitor o;
	pthread_cond_t up;
	int permits, waiters;
	atomic_int inside, most;
	unsigned long downs, ups;
	atomic_ulong entries;
} semaphore = {.up = PTHREAD_COND_INITIALIZER};

static void semaphore_down(int me)
{
	enter(&semaphore.o, me);
	while (semaphore.permits == 0) {
		semaphore.waiters++;
		await(&semaphore.o, me, &semaphore.up);
		semaphore.waiters--;
	}
	semaphore.permits--;
	semaphore.downs++;
	leave(&semaphore.o, me);
}

static void semaphore_up(int me, uint32_t luck)
{
	enter(&semaphore.o, me);
	semaphore.permits++;
	semaphore.ups++;
	if (semaphore.waiters)
		leave_signalling(&semaphore.o, me, &semaphore.up, luck);
	else
		leave(&semaphore.o, me);
}

static void semaphore_body(int index, void *arg)
{
	unsigned long entries = 0, limit = suite_scale(ENTRIES);
	uint32_t luck = 7 * (index + 1);
	(void)arg;

	for (; entries < limit && !monitor_over(&semaphore.o, entries); entries++) {
		int now;

		semaphore_down(index + 1);
		now = atomic_fetch_add(&semaphore.inside, 1) + 1;
		if (now > PERMITS)
			complain("%d inside with %d permits", now, PERMITS);
		if (dice(&luck) % 4 == 0)
			sched_yield();
		atomic_fetch_sub(&semaphore.inside, 1);
		semaphore_up(index + 1, luck >> 8);
	}
	atomic_fetch_add(&semaphore.entries, entries);
}

START_TEST(counting_semaphore)
{
	monitor_make(&semaphore.o, kinds[_i].type);
	semaphore.permits = PERMITS;
	team_run(GUESTS, semaphore_body, NULL);
	monitor_unmake(&semaphore.o);
	ck_assert_int_eq(semaphore.permits, PERMITS);
	ck_assert_int_eq(semaphore.waiters, 0);
	ck_assert_uint_eq(semaphore.downs, atomic_load(&semaphore.entries));
	ck_assert_uint_eq(semaphore.ups, semaphore.downs);
	ck_assert_uint_gt(semaphore.downs, 0);
	cond_unmake(&semaphore.up);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-classics");

	SUITE_CASE_OF(s, bounded_buffer, 60, KINDS);
	SUITE_CASE_OF(s, single_slot, 60, KINDS);
	SUITE_CASE_OF(s, timed_pops, 60, KINDS);
	SUITE_CASE_OF(s, thread_pool, 60, KINDS);
	SUITE_CASE_OF(s, barriers, 60, KINDS);
	SUITE_CASE_OF(s, readers_and_writers, 60, KINDS);
	SUITE_CASE_OF(s, dining_philosophers, 60, KINDS);
	SUITE_CASE_OF(s, counting_semaphore, 60, KINDS);
	return suite_run(s);
}
