/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Compositions: their names, what two of them share, and all that there are, shortly. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admit/aux.h"
#include "pthread/turn.h"
#include "rt/spin.h"
#include "guests.h"

/* ---- names ---- */

START_TEST(names)
{
	static const struct {
		const char *name, *levels;
		int root; /* -1: it is no name */
	} runs[] = {
		{"clof:tkt-mcs", "", 1},
		{"clof:tkt-mcs-clh", "", 2},
		{"clof:tkt-mcs-clh-hem", "", 3},
		{"clof", "", 3},
		{"hmcs", "", 3},
		{"hmcs", "node,cache", 2},
		{"hmcs", "core", 1},
		{"clof:tkt-mcs-clh-hem", "core,node", 2},
		{"clof", "node", 1},
		{"clof:", "", 3},
		{"clof:mcs", "", -1},
		{"clof:mcs-", "", -1},
		{"clof:mcs-mcs-mcs-mcs-mcs", "", -1},
		{"clof:mcs-ptl", "", -1},
		{"clof:mcs--mcs", "", -1},
		{"clof:-mcs", "", -1},
	};
	const struct pk_composed *c;

	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", runs[_i].levels);
	pk_policy_select(runs[_i].name);
	if (runs[_i].root < 0) {
		ck_assert_uint_eq(pk_admit->policy, PK_POLICY_shfl);
		ck_assert_str_eq(pk_config.policy, "shfl");
		return;
	}
	c = pk_composed_of(pk_admit->policy);
	ck_assert_int_eq(c->root, runs[_i].root);
	if (!strcmp(runs[_i].name, "clof:tkt-mcs")) { /* the outermost level of the machine */
		ck_assert_uint_eq(c->kind[0], PK_COHORT_NODE);
		ck_assert_ptr_eq(c->lock[0], &pk_basic_tkt);
	}
	if (!strcmp(runs[_i].levels, "core,node") && c->root == 2) { /* the first of the locks is left out */
		ck_assert_ptr_eq(c->lock[0], &pk_basic_mcs);
		ck_assert_ptr_eq(c->lock[2], &pk_basic_hem);
		ck_assert_uint_eq(c->kind[0], PK_COHORT_CORE);
		ck_assert_uint_eq(c->kind[1], PK_COHORT_NODE);
	}
}
END_TEST

/* Two compositions are two policies, with bays of their own; the same one again is the same. */
START_TEST(compositions)
{
	const struct pk_admit_ops *first;
	char name[32];

	use("clof:mcs-tkt");
	first = ops;
	use("clof:tkt-mcs");
	ck_assert_uint_ne(ops->policy, first->policy);
	ck_assert_ptr_eq(pk_policy_ops(ops->policy), ops);
	ck_assert_uint_ne(pk_composed_of(ops->policy)->storey[0], pk_composed_of(first->policy)->storey[0]);
	use("clof:mcs-tkt");
	ck_assert_ptr_eq(ops, first);
	for (int i = 0; i < 64; i++) { /* there is an end to it */
		snprintf(name, sizeof(name), "clof:%s-%s-%s", &"mcs\0tkt\0clh\0hem"[i % 4 * 4],
			 &"mcs\0tkt\0clh\0hem"[i / 4 % 4 * 4], &"mcs\0tkt\0clh\0hem"[i / 16 * 4]);
		pk_policy_select(name);
	}
	ck_assert_uint_eq(pk_admit->policy, PK_POLICY_shfl);
}
END_TEST

/* ---- all of them ---- */

enum { LOCKS = 4, COMPOSITIONS = 16 + 64 + 256, TOGETHER = 6 };

/* The n-th of all compositions of two to four locks. */
static const char *composition(unsigned n)
{
	static const char *const lock[LOCKS] = {"tkt", "mcs", "clh", "hem"};
	static char name[32];
	unsigned levels = 2;
	char *end;

	for (unsigned all = 16; n >= all; all *= LOCKS, levels++)
		n -= all;
	end = name + sprintf(name, "clof");
	for (unsigned i = 0; i < levels; i++, n /= LOCKS)
		end += sprintf(end, "%c%s", i ? '-' : ':', lock[n % LOCKS]);
	return name;
}

static struct {
	struct pk_gate gate;
	int word;
	long sections; /* guarded by it */
	long mine[8];
} lock;

static void *contend(void *number)
{
	struct pk_site at = {&lock.word, &lock.gate, 8, true, NULL, NULL, NULL};

	for (int i = 0; i < 150; i++) {
		int seen = 0;

		if (i % 8 == 0 || !pk_cas_acquire(&lock.word, &seen, 1))
			pk_turn_wait(&at, NULL); /* some queue although it is free */
		lock.sections++;
		lock.mine[(uintptr_t)number]++;
		if (i % 16 == 0)
			sched_yield();
		if (pk_xchg_release(&lock.word, 0) > 1)
			pk_futex_wake(&lock.word, 1);
	}
	return NULL;
}

/* Eight threads take turns on one lock: each composition in a process of its own. What is left behind is nothing. */
static int try_composition(unsigned n)
{
	enum { THREADS = 8 };
	pthread_t thread[THREADS];
	const struct pk_composed *c;

	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	bound(3 + (int)n % 5);
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_policy_select(composition(n));
	c = pk_composed_of(pk_admit->policy);
	if (!c || c->root != (n < 16 ? 1 : n < 80 ? 2 : 3))
		return 1;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, contend, (void *)i))
			return 2;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	if (lock.sections != THREADS * 150 || lock.word || pk_queue_busy(&lock.gate.queue) || lock.gate.flags & ~PK_FLAG_SLOW)
		return 3;
	for (uint32_t i = 0; i < pk_arena_known(); i++)
		if (pk_waiters_idle(pk_record_nth(i)) != PK_RECORD_NODES)
			return 4;
	for (unsigned s = PK_SOCKETS_MAX; s < c->storey[0] + 64; s++)
		if (pk_bay_next(s, &lock.gate.queue, NULL))
			return 5;
	return busy_contexts() ? 6 : 0;
}

START_TEST(every_composition)
{
	real_time = real_places = true;
	for (unsigned n = (unsigned)_i; n < COMPOSITIONS; n += 8 * TOGETHER) {
		pid_t child[TOGETHER];

		for (unsigned i = 0; i < TOGETHER; i++) {
			child[i] = n + 8 * i < COMPOSITIONS ? fork() : 0;
			if (child[i] == 0 && n + 8 * i < COMPOSITIONS) {
				alarm(30);
				_exit(try_composition(n + 8 * i));
			}
		}
		for (unsigned i = 0; i < TOGETHER; i++) {
			int status = 0;

			if (child[i])
				ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
			if (status)
				ck_abort_msg("%s: status %x", composition(n + 8 * i), (unsigned)status);
		}
	}
}
END_TEST

UNIT("levels-compositions", {names, 16}, {compositions, 1}, {every_composition, 8})
