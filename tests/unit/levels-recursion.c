/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The recursion of composed policies: the order in which the locks of the levels are taken and let go, and that a node
 * is in one of them at a time. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admit/aux.h"
#include "guests.h"

/* The composition, with other locks if a test wants that. */
static struct pk_composed spied;
static bool spying;
const struct pk_composed *__real_pk_composed_of(unsigned policy);
const struct pk_composed *__wrap_pk_composed_of(unsigned policy);

const struct pk_composed *__wrap_pk_composed_of(unsigned policy)
{
	return spying ? &spied : __real_pk_composed_of(policy);
}

static char events[256];
static const struct pk_waiter *inside[64];
static bool shared;

/* By who leaves and by who comes in, at the same time. */
static void note(unsigned level, char what)
{
	static int busy;
	size_t n;

	while (pk_xchg_acquire(&busy, 1))
		sched_yield();
	n = strlen(events);
	if (n + 3 < sizeof(events))
		sprintf(events + n, "%u%c ", level, what);
	pk_store_release(&busy, 0);
}

/* A node is in one lock at a time. */
static void go_in(const struct pk_waiter *w)
{
	for (int i = 0; i < 64; i++)
		if (pk_load_acquire(&inside[i]) == w)
			shared = true;
	for (int i = 0;; i = (i + 1) % 64) {
		const struct pk_waiter *none = NULL;

		if (pk_cas_acq_rel(&inside[i], &none, w))
			return;
	}
}

static void go_out(const struct pk_waiter *w)
{
	for (int i = 0; i < 64; i++)
		if (pk_load_acquire(&inside[i]) == w) {
			pk_store_release(&inside[i], NULL);
			return;
		}
	shared = true;
}

#define SPY(n)                                                                                                         \
	static const struct pk_basic *real##n;                                                                         \
	static enum pk_entered enter##n(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *d)          \
	{                                                                                                              \
		enum pk_entered how;                                                                                   \
                                                                                                                       \
		go_in(w);                                                                                              \
		how = real##n->enter(q, w, d);                                                                         \
		if (how == PK_IS_HEAD)                                                                                 \
			note(n, '+');                                                                                  \
		return how;                                                                                            \
	}                                                                                                              \
	static void leave##n(struct pk_queue *q, struct pk_waiter *w, int *held)                                       \
	{                                                                                                              \
		note(n, '-');                                                                                          \
		go_out(w);                                                                                             \
		real##n->leave(q, w, held);                                                                            \
	}                                                                                                              \
	static bool pass##n(struct pk_queue *q, struct pk_waiter *w, int *held)                                        \
	{                                                                                                              \
		go_out(w);                                                                                             \
		if (real##n->pass(q, w, held)) {                                                                       \
			note(n, '>');                                                                                  \
			return true;                                                                                   \
		}                                                                                                      \
		go_in(w);                                                                                              \
		return false;                                                                                          \
	}

SPY(0)
SPY(1)
SPY(2)
SPY(3)

static void spy(void)
{
	static struct pk_basic spies[4];

	spied = *__real_pk_composed_of(ops->policy);
	ck_assert_uint_eq(spied.root, 3);
	real0 = spied.lock[0];
	real1 = spied.lock[1];
	real2 = spied.lock[2];
	real3 = spied.lock[3];
	spies[0] = (struct pk_basic){enter0, leave0, pass0, real0->flee, NULL};
	spies[1] = (struct pk_basic){enter1, leave1, pass1, real1->flee, NULL};
	spies[2] = (struct pk_basic){enter2, leave2, pass2, real2->flee, NULL};
	spies[3] = (struct pk_basic){enter3, leave3, pass3, real3->flee, NULL};
	for (int i = 0; i < 4; i++)
		spied.lock[i] = &spies[i];
	spying = true;
}

/* The high lock is let go before the low one, and not taken by who has been passed it. */
START_TEST(high_before_low)
{
	use(fair[_i]);
	spy();
	arrive_all("AABC");
	ck_assert_str_eq(events, "0+ 1+ 2+ 3+ 0+ 0+ 1+ ");
	events[0] = 0;
	let_go(0);
	ck_assert_uint_eq(strlen(events), 6);
	ck_assert(strstr(events, "0>") && strstr(events, "0+"));
	events[0] = 0;
	let_go(1);
	/* within the cache group; then the core's lock */
	ck_assert_ptr_nonnull(strstr(events, "1>"));
	ck_assert(strstr(events, "0-") > strstr(events, "1>"));
	ck_assert_ptr_null(strchr(events, '2'));
	events[0] = 0;
	let_go(2);
	ck_assert_ptr_nonnull(strstr(events, "2>"));
	ck_assert(strstr(events, "1-") > strstr(events, "2>") && strstr(events, "0-") > strstr(events, "1-"));
	ck_assert_ptr_null(strchr(events, '3'));
	events[0] = 0;
	let_go(3);
	ck_assert_str_eq(events, "3- 2- 1- 0- ");
	ck_assert(!shared);
	check_idle();
}
END_TEST

static long turns, sections;
static bool stop;

static void *come_and_go(void *arg)
{
	unsigned luck = 7919 * (1 + (unsigned)(uintptr_t)arg);
	struct pk_record *r = pk_record_take();

	while (!pk_load_relaxed(&stop)) {
		struct pk_waiter *w = pk_waiter_take(r);

		if (!w) {
			sched_yield();
			continue;
		}
		luck = luck * 1664525 + 1013904223;
		core_of[r->index] = luck >> 16 & 7;
		w->policy = ops->policy;
		w->manner = PK_STAYS;
		w->queue = NULL;
		if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
			continue;
		sections++; /* there is one head */
		pk_add_relaxed(&turns, 1);
		if (luck >> 28 == 0)
			sched_yield();
		ops->leave(&queue, w, NULL);
	}
	return NULL;
}

/* Many threads: a context is never in two places, there is one head at a time, and nothing is left behind. */
START_TEST(contexts_alone)
{
	enum { THREADS = 12 };
	pthread_t thread[THREADS];

	use(fair[_i]);
	bound(1 + _i % 3);
	real_time = true;
	spy();
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, come_and_go, (void *)i), 0);
	usleep(200000);
	pk_store_relaxed(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert(!shared);
	ck_assert_int_gt(turns, 20);
	ck_assert_int_eq(turns, sections);
	ck_assert_uint_eq(users(), 0);
	ck_assert_uint_eq(busy_contexts(), 0);
	ck_assert(!pk_queue_busy(&queue));
}
END_TEST

UNIT("levels-recursion", {high_before_low, FAIR}, {contexts_alone, FAIR})
