/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* More than one policy in a queue, as after a change: step by step in one thread; then all policies by turns, while
 * threads queue. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "admit/aux.h"
#include "base/await.h"
#include "pthread/lot.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "nodes.h"

static int word = 1;

/* The policies' clock (local.am): a busy machine takes its time. Where threads queue it runs. */
static bool real_time;
uint64_t __real_pk_clock_us(void);
uint64_t __wrap_pk_clock_us(void);

uint64_t __wrap_pk_clock_us(void)
{
	return real_time ? __real_pk_clock_us() : 5;
}

/* ---- step by step ---- */

/* Who finds a waiter of another policy at the tail is the head of a queue of its own; that one's queue ends there. */
START_TEST(strangers)
{
	static const struct pk_admit_ops *const others[] = {&pk_mcs, &pk_clh, &pk_hem};
	const struct pk_admit_ops *ops = others[_i];
	struct pk_waiter *w;

	line_up(&pk_cna, "ABA");
	pk_cna.tend(&queue, node[0], &word);
	w = new_node(ops);
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_eq(node[2]->next, PK_END);
	leave(&pk_cna);
	ck_assert_int_eq(head(), 2);
	leave(&pk_cna);
	ck_assert_int_eq(head(), 1); /* those set aside are not forgotten */
	ck_assert_ptr_eq(node[1]->next, PK_END);
	leave(&pk_cna);
	ck_assert_int_eq(head(), -1);
	ck_assert_uint_eq(queue.tail, pk_waiter_name(w));
	ops->leave(&queue, w, NULL);
	all_free();
	ck_assert_uint_eq(w->busy, 0);
}
END_TEST

/* The same for one that is at the tail alone, whether it leaves before (_i & 4) or after the other one has come. */
START_TEST(strangers_first)
{
	static const struct pk_admit_ops *const firsts[] = {&pk_mcs, &pk_clh, &pk_hem, &pk_hemctr};
	const struct pk_admit_ops *ops = firsts[_i & 3];
	struct pk_waiter *w, *late;

	pk_incarnation_next();
	w = new_node(ops);
	late = new_node(&pk_shfl);
	ck_assert_int_eq(ops->enter(&queue, w, NULL), PK_IS_HEAD);
	if (_i & 4) {
		queue.tail = pk_waiter_name(late); /* on its way */
		ops->leave(&queue, w, NULL);
		ck_assert_uint_eq(w->busy, 1);
		queue.tail = pk_waiter_name(w);
	}
	ck_assert_int_eq(pk_shfl.enter(&queue, late, NULL), PK_IS_HEAD);
	if (!(_i & 4))
		ops->leave(&queue, w, NULL);
	ck_assert_uint_eq(w->busy, 0);
	pk_shfl.leave(&queue, late, NULL);
	ck_assert_uint_eq(late->busy, 0);
	ck_assert_uint_eq(queue.tail, 0);
}
END_TEST

/* A lock's own policy is a number of the table, from 1; any other, and none, is the one in force. */
START_TEST(own_policy)
{
	pk_policy_select("mcs");
	ck_assert_ptr_eq(pk_policy_for(0), &pk_mcs);
	ck_assert_ptr_eq(pk_policy_for(1 + PK_POLICY_shfl), &pk_shfl);
	for (unsigned number = PK_POLICIES + 1; number < 256; number++)
		ck_assert_ptr_eq(pk_policy_for(number), &pk_mcs);
}
END_TEST

/* ---- all of them ---- */

static struct {
	struct pk_gate gate;
	int word;
	long sections; /* guarded by it */
	int stop;
} lock;

static void *contend(void *timed)
{
	struct pk_site at = {&lock.word, &lock.gate, pk_spin_head(), true, NULL, NULL, NULL};
	long mine = 0;

	while (!pk_load_relaxed(&lock.stop)) {
		struct timespec soon;
		struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
		int seen = 0;

		clock_gettime(CLOCK_MONOTONIC, &soon);
		soon.tv_nsec += 100000;
		if (soon.tv_nsec >= 1000000000) {
			soon.tv_sec++;
			soon.tv_nsec -= 1000000000;
		}
		if (!pk_cas_acquire(&lock.word, &seen, 1) && pk_turn_wait(&at, timed ? &deadline : NULL) != 0)
			continue;
		lock.sections++;
		mine++;
		for (unsigned n = 20; !pk_spent(&n);)
			;
		if (pk_xchg_release(&lock.word, 0) > 1)
			pk_futex_wake(&lock.word, 1);
	}
	return (void *)mine;
}

/* The policy changes all the time, while threads queue, some of them with deadlines. Nobody is lost, exactly one at a
 * time has the lock, and nothing is left behind. _i: whether they sleep by socket. */
START_TEST(switches)
{
	enum { THREADS = 8, CHANGES = 20, MICROSECONDS = 1500000 };
	static const char *const names[] = {
#define PK_POLICY(name, spelled, ops, doc) spelled,
#include "rt/policy.def"
#undef PK_POLICY
	};
	static const char *const clofs[] = {"clof:tkt-mcs-clh-hem", "clof:mcs-tkt", "clof:hem-tkt-mcs", "clof:clh-clh"};
	unsigned busy = 0, changes = 0;
	long sections = 0;
	uint64_t end;
	pthread_t thread[THREADS];

	real_time = true;
	pk_config_read(NULL);
	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_lot_open = _i;
	for (long i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, contend, i % 4 ? NULL : (void *)1), 0);
	/* Any one may follow any other: not in the table's order only. */
	for (end = pk_clock_us() + MICROSECONDS; pk_clock_us() < end; changes++) {
		pk_policy_select(changes % 5 ? names[changes * 7 % (PK_POLICIES - 1) + changes / 100 % 2]
					     : clofs[changes / 5 % (sizeof(clofs) / sizeof(clofs[0]))]);
		usleep(changes % 3 * 200);
	}
	pk_store_relaxed(&lock.stop, 1);
	for (int i = 0; i < THREADS; i++) {
		void *mine;

		pthread_join(thread[i], &mine);
		sections += (long)mine;
	}
	ck_assert_uint_gt(changes, CHANGES);
	ck_assert_int_gt(sections, CHANGES);
	ck_assert_int_eq(lock.sections, sections);
	ck_assert_int_eq(lock.word, 0);
	ck_assert(!pk_queue_busy(&lock.gate.queue));
	ck_assert_uint_eq(lock.gate.flags & ~PK_FLAG_SLOW, 0);
	for (uint32_t i = 0; i < pk_arena_known(); i++)
		busy += PK_RECORD_NODES - pk_waiters_idle(pk_record_nth(i));
	for (uint32_t i = 0; i < pk_contexts_known(); i++) {
		struct pk_waiter *w = pk_context_nth(i);

		busy += w && (w->busy || w->record);
	}
	ck_assert_uint_eq(busy, 0);
	for (unsigned s = 0; s < PK_SOCKETS_MAX + pk_contexts_known() / (PK_BAYS * PK_BAY_CONTEXTS); s++) {
		ck_assert_ptr_null(pk_bay_next(s, &lock.gate.queue, NULL));
		ck_assert_ptr_null(pk_bay_next(s, &lock.gate.queue.aux, NULL));
	}
}
END_TEST

UNIT("mixed", {strangers, 3}, {strangers_first, 8}, {own_policy, 1}, {switches, 2})
