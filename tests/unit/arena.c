/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Records and nodes: reuse, growth, names, ghosts. */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/arena.h"
#include "rt/thread.h"
#include "unit.h"

/* Records come back, the last one first, and no more of them are made than are in use at once. */
START_TEST(reuse)
{
	struct pk_record *a = pk_record_take(), *b = pk_record_take();

	ck_assert_ptr_ne(a, b);
	ck_assert_uint_ne(a->index, b->index);
	pk_record_give(a);
	ck_assert_ptr_eq(pk_record_take(), a);
	pk_record_give(b);
	pk_record_give(a);
	ck_assert_ptr_eq(pk_record_take(), a);
	ck_assert_ptr_eq(pk_record_take(), b);
	ck_assert_uint_gt(pk_record_take()->index, b->index);
}
END_TEST

/* Beyond the static chunk: every record is distinct, and its nodes' names lead back to them. */
START_TEST(growth)
{
	enum { N = 5000 };
	static struct pk_record *r[N];

	pk_incarnation_next();
	for (unsigned i = 0; i < N; i++) {
		r[i] = pk_record_take();
		ck_assert_ptr_nonnull(r[i]);
		ck_assert_uint_eq(r[i]->index, i);
		ck_assert_uint_eq((uintptr_t)r[i] % PK_CACHE_LINE, 0);
	}
	for (unsigned i = 0; i < N; i++)
		for (unsigned j = 0; j < PK_RECORD_NODES; j++) {
			struct pk_waiter *w = &r[i]->node[j];

			ck_assert_ptr_eq(w->record, r[i]);
			ck_assert_ptr_eq(pk_waiter_named(pk_waiter_name(w)), w);
		}
}
END_TEST

/* A record has four nodes; a busy one is not given out until it is freed. */
START_TEST(nodes)
{
	struct pk_record *r = pk_record_take();
	struct pk_waiter *w[PK_RECORD_NODES];

	for (unsigned i = 0; i < PK_RECORD_NODES; i++) {
		w[i] = pk_waiter_take(r);
		ck_assert_ptr_nonnull(w[i]);
		for (unsigned j = 0; j < i; j++)
			ck_assert_ptr_ne(w[i], w[j]);
	}
	ck_assert_ptr_null(pk_waiter_take(r));
	pk_waiter_free(w[2]);
	ck_assert_ptr_eq(pk_waiter_take(r), w[2]);
	ck_assert_ptr_null(pk_waiter_take(r));
}
END_TEST

/* What is no name of ours leads nowhere: nothing, another incarnation's, a node that was never made. */
START_TEST(ghosts)
{
	struct pk_record *r = pk_record_take();
	uint64_t name;

	pk_incarnation_next();
	name = pk_waiter_name(&r->node[1]);
	ck_assert_ptr_eq(pk_waiter_named(name), &r->node[1]);
	ck_assert_ptr_null(pk_waiter_named(0));
	ck_assert_ptr_null(pk_waiter_named(name + PK_RECORD_NODES));
	ck_assert_ptr_null(pk_waiter_named(name | UINT32_MAX));
	ck_assert_ptr_null(pk_waiter_named(~(uint64_t)0));
	pk_incarnation_next();
	ck_assert_ptr_null(pk_waiter_named(name));
	pk_arena_fork_child(0);
	ck_assert_uint_eq(pk_record_take()->index, 0);
	ck_assert_ptr_null(pk_waiter_named(name));
	/* The record of a thread that forks in the middle of its use is not given out again. */
	pk_arena_fork_child(r->index + 1);
	ck_assert_uint_eq(pk_record_take()->index, r->index + 1);
}
END_TEST

/* A child that ran no fork handler takes its parent's names for ghosts. */
START_TEST(raw_child)
{
	struct pk_record *r = pk_record_take();
	uint64_t name;
	pid_t child;
	int status;

	pk_incarnation_setup();
	pk_incarnation_next();
	name = pk_waiter_name(&r->node[0]);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child)
		_exit(pk_waiter_named(name) ? 1 : pk_waiter_named(pk_waiter_name(&r->node[0])) ? 0 : 2);
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_ptr_eq(pk_waiter_named(name), &r->node[0]);
}
END_TEST

/* Four threads take and give 100,000 times: a record is never with two of them. */
static int with_somebody[64];

static void *take_and_give(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100000; i++) {
		struct pk_record *r = pk_record_take();

		ck_assert_uint_lt(r->index, 64);
		ck_assert_int_eq(pk_add_relaxed(&with_somebody[r->index], 1), 0);
		pk_sub_relaxed(&with_somebody[r->index], 1);
		pk_record_give(r);
	}
	return NULL;
}

START_TEST(concurrent)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, take_and_give, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	/* Four were alive at once: no more were ever made. */
	for (int i = 0; i < 4; i++)
		ck_assert_uint_lt(pk_record_take()->index, 4);
}
END_TEST

static pthread_key_t late;
static _Thread_local int rounds;
static int records;

/* A destructor that has itself called in each round, and needs a record. */
static void wait_late(void *value)
{
	if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
		pthread_setspecific(late, value);
	records += pk_thread_record() != NULL;
}

/* One that needs it in the last round only. */
static void wait_at_last(void *value)
{
	if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
		pthread_setspecific(late, value);
	else
		pk_thread_record();
}

static void *end_late(void *starts)
{
	if (starts)
		pk_thread_start();
	pthread_setspecific(late, &late);
	return NULL;
}

static int ended; /* threads that have ended while they waited, and will not come back */

static void gone(struct pk_waiter *w)
{
	ended += w && pk_self.exiting && !pk_self.asleep;
}

static void *end_waiting(void *unused)
{
	pk_thread_start();
	pk_self.waits = pk_waiter_take(pk_thread_record());
	pk_self.asleep = true; /* it was unwound from its sleep */
	return unused;
}

/* Threads that wait for the first time when they are nearly gone leave nothing behind. _i: they had called the library before;
 * or not, and then there is one record for each of them that nobody gives back. */
START_TEST(last_round)
{
	enum { THREADS = 20 };
	uint32_t before;
	pthread_t t;

	pk_incarnation_next();
	pk_thread_setup(gone);
	ck_assert_int_eq(pthread_key_create(&late, wait_at_last), 0);
	before = pk_arena_used();
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_create(&t, NULL, end_late, _i ? &late : NULL), 0);
		pthread_join(t, NULL);
	}
	ck_assert_uint_eq(pk_arena_used() - before, _i ? 0 : THREADS);
}
END_TEST

/* They have a record in each round but the last, and leave none behind. */
START_TEST(each_round)
{
	pthread_t t;

	pk_incarnation_next();
	pk_thread_setup(gone);
	ck_assert_int_eq(pthread_key_create(&late, wait_late), 0);
	for (int i = 0; i < 20; i++) {
		records = 0;
		ck_assert_int_eq(pthread_create(&t, NULL, end_late, &late), 0);
		pthread_join(t, NULL);
		ck_assert_int_eq(records, PTHREAD_DESTRUCTOR_ITERATIONS - 1);
	}
	ck_assert_uint_eq(pk_arena_used(), 1);
}
END_TEST

/* Who ends while it waits is told of, once, as one that does not come back, and is awake, though its destructors have records still. */
START_TEST(waiting)
{
	pthread_t t;

	pk_incarnation_next();
	pk_thread_setup(gone);
	ck_assert_int_eq(pthread_create(&t, NULL, end_waiting, NULL), 0);
	pthread_join(t, NULL);
	ck_assert_int_eq(ended, 1);
}
END_TEST

/* In the child nobody spins; and however often a thread is told that it is one, it knows its parent. */
START_TEST(child)
{
	struct pk_record *r = pk_record_take();

	r->node[0].spins = true;
	pk_arena_fork_child(0);
	ck_assert(!r->node[0].spins);
	pk_self.tid = 1;
	for (int i = 0; i < 2; i++)
		pk_thread_fork_child();
	ck_assert_int_eq(pk_self.tid, (int)syscall(SYS_gettid));
	ck_assert_int_eq(pk_self.parent, 1);
	/* Its parent had the same number, in another namespace: it would take its own locks for inherited ones. */
	pk_self.parent = 0;
	pk_thread_fork_child();
	ck_assert_int_eq(pk_self.parent, 0);
}
END_TEST

UNIT("arena", {reuse, 1}, {growth, 1}, {nodes, 1}, {ghosts, 1}, {raw_child, 1}, {concurrent, 1},
     {last_round, 2}, {each_round, 1}, {waiting, 1}, {child, 1})
