/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Composed policies: who is next, step by step, and where the lock goes, as shares of many hand-overs. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "guests.h"

/* ---- who is next ---- */

/* Those of the own core first, then of the cache group, of the node; each in their order. */
START_TEST(nearest_first)
{
	use(fair[_i]);
	arrive_all("AEBACFE");
	ck_assert_str_eq(order(), "0 3 2 4 1 6 5");
	check_idle();
	count = 0;
	arrive_all("HAHGEFAB");
	ck_assert_str_eq(order(), "0 2 3 4 5 1 6 7");
	check_idle();
}
END_TEST

/* At each level so many hand-overs and no more, each counted by itself. */
START_TEST(bounds)
{
	static const char *const runs[][2] = {
		{"AAAAE", "0 1 4 2 3"},
		{"AECBABA", "0 4 3 5 2 1 6"},
		{"ABABE", "0 2 1 3 4"},
		{"AEABA", "0 2 3 1 4"},
	};

	use(fair[_i % FAIR]);
	bound(1);
	arrive_all(runs[_i / FAIR][0]);
	ck_assert_str_eq(order(), runs[_i / FAIR][1]);
	check_idle();
}
END_TEST

/* Without PARKADE_BATCH it is the policy's own bound. */
START_TEST(own_bounds)
{
	use(_i ? "hmcs" : "c-tkt-tkt");
	ck_assert_uint_eq(pk_composed_of(ops->policy)->bound, _i ? 128 : 100);
	pk_config.batch = 1;
	arrive_all("AAAE");
	ck_assert_str_eq(order(), "0 1 2 3");
	check_idle();
}
END_TEST

/* Time ends a cohort's turn as well, counted from when it got the lock. */
START_TEST(long_turn)
{
	use(fair[_i]);
	bound(1000);
	arrive_all("AAAAAAAAAAAAE");
	for (int i = 0; i < 8; i++)
		let_go(head()); /* the fourth and the eighth look at the clock */
	now += 20002;
	for (int i = 8; i < 11; i++)
		let_go(head()); /* no hand-over looks again before the twelfth */
	ck_assert_int_eq(head(), 11);
	ck_assert_str_eq(order(), "b c");
	check_idle();

	/* but those who hold it for long: the fourth looks, too */
	count = 0;
	now += 5;
	arrive_all("AAAAAAE");
	for (int i = 0; i < 4; i++) {
		now += 10001;
		let_go(head());
	}
	ck_assert_int_eq(head(), 6);
	ck_assert_str_eq(order(), "6 4 5");
	check_idle();

	/* the levels above look each time */
	count = 0;
	now += 5;
	arrive_all("ABE");
	let_go(head());
	arrive_all("A");
	now += 20002;
	ck_assert_str_eq(order(), "1 2 3");
	check_idle();
}
END_TEST

/* Cohort locks have two levels: the order within a node is that of its lock, where that is fair. */
START_TEST(cohort_order)
{
	use(cohorts[_i]);
	ck_assert_uint_eq(pk_composed_of(ops->policy)->root, 1);
	bound(2);
	arrive_all("AEBDAF");
	if (_i < 2)
		ck_assert_str_eq(order(), "0 2 3 1 5 4");
	else /* whoever looks first */
		ck_assert_uint_eq(strlen(order()), 11);
	check_idle();
}
END_TEST

/* One node only; and no level at all. */
START_TEST(few_levels)
{
	pk_topology_read("", _i & 1 ? "1x4x2@thread" : "1");
	pk_incarnation_next();
	pk_levels_read("", "");
	ck_assert_uint_eq(pk_levels.n, _i & 1 ? 1 : 0);
	pk_policy_select(_i & 2 ? "clof:tkt-mcs-clh" : "hmcs");
	ops = pk_admit;
	arrive_all("AAA");
	ck_assert_str_eq(order(), "0 1 2");
	check_idle();
}
END_TEST

/* ---- where the lock goes ---- */

enum { ENOUGH = 3000 };

static bool stop;
static unsigned handovers[4]; /* to one of the same core, cache group, node, and beyond */
static unsigned all;	      /* of them; at ENOUGH the threads stop */
static unsigned last_core = CORES;

static void *stay(void *number)
{
	static const enum pk_cohort kinds[] = {PK_COHORT_CORE, PK_COHORT_CACHE, PK_COHORT_NODE};
	struct pk_record *r = pk_record_take();

	core_of[r->index] = (unsigned)(uintptr_t)number % CORES;
	while (!pk_load_relaxed(&stop)) {
		struct pk_waiter *w = pk_waiter_take(r);
		unsigned core = core_of[r->index], near = 0;

		if (!w) {
			usleep(100);
			continue;
		}
		w->policy = ops->policy;
		w->manner = PK_STAYS;
		w->queue = NULL;
		if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
			continue;
		if (last_core < CORES) {
			while (near < 3 && pk_cohort_around(PK_COHORT_CORE, core, kinds[near]) !=
						   pk_cohort_around(PK_COHORT_CORE, last_core, kinds[near]))
				near++;
			handovers[near]++;
			if (++all == ENOUGH)
				pk_store_relaxed(&stop, true);
		}
		last_core = core;
		usleep(50); /* the others have time to come back */
		ops->leave(&queue, w, NULL);
	}
	return NULL;
}

/* With four levels the lock goes to the same core most often, then to the same cache group, then to the same node. With
 * two it stays in the node, and there the nearer ones are not preferred. */
START_TEST(locality)
{
	enum { THREADS = 32 };
	static const char *const names[] = {"clof:mcs-mcs-mcs-mcs", "hmcs", "clof:tkt-clh-hem-mcs", "c-tkt-tkt",
					    "clof:mcs-mcs"};
	pthread_t thread[THREADS];

	use(names[_i]);
	bound(5);
	real_time = true;
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, stay, (void *)i), 0);
	for (int tenths = 0; tenths < 100 && !pk_load_relaxed(&stop); tenths++)
		usleep(100000);
	pk_store_relaxed(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%s: hand-overs within a core %.3f, a cache group %.3f, a node %.3f, beyond %.3f, of %u\n", names[_i],
	       handovers[0] * 1.0 / all, handovers[1] * 1.0 / all, handovers[2] * 1.0 / all, handovers[3] * 1.0 / all,
	       all);
	ck_assert_uint_gt(all, 300);
	if (_i < 3) {
		ck_assert_uint_gt(handovers[0], 2 * handovers[1]);
		ck_assert_uint_gt(handovers[1], 2 * handovers[2]);
		ck_assert_uint_gt(handovers[2], handovers[3]);
	} else {
		ck_assert_uint_gt(handovers[0] + handovers[1] + handovers[2], 3 * handovers[3]);
		ck_assert_uint_lt(handovers[0], all * 2 / 5); /* by chance: 3 in 15 */
	}
	ck_assert_uint_eq(users() + busy_contexts(), 0);
}
END_TEST

UNIT("levels-order", {nearest_first, FAIR}, {bounds, 4 * FAIR}, {own_bounds, 2}, {long_turn, FAIR},
     {cohort_order, COHORTS}, {few_levels, 4}, {locality, 5})
