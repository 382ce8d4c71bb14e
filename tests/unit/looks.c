/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How often a head looks at a mutex that is taken again and again, by what it goes when it has just come, and who says whose the mutex
 * is (pthread/word.c). */
#include <errno.h>
#include <stdio.h>

#include "pthread/mutex.h"
#include "rt/clock.h"
#include "gate.h"
#include "nodes.h"

static int owner, owner_later;
static unsigned tended;

static unsigned count_tends(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	(void)q;
	(void)w;
	(void)word;
	if (!tended++)
		owner = owner_later;
	return 0;
}

/* How often a head that spins in vain looks after the queue: at each look if these are far enough from each other. Far less often if it finds the
 * mutex held, and nobody's, twice. */
START_TEST(looks_seldom)
{
	static const struct {
		int first, later;
		bool tells, behind, seldom; /* `behind`: somebody is behind it */
	} table[] = {{0, 0, true, false, true}, {0, 1, true, false, false},  {1, 1, true, false, false},
		     {1, 0, true, false, true}, {0, 0, false, false, false}, {0, 0, true, true, false}};
	enum { BUDGET_US = 400, TEND = 32 };
	struct pk_site at = site(true);
	unsigned usual, seldom, budget, apart;
	struct pk_admit_ops ops = pk_mcs;
	struct timespec soon;
	const struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	struct pk_waiter *w;

	make_with("mcs", "1x4", "queue");
	usual = pk_rounds_in(500);
	seldom = pk_rounds_in(4000);
	apart = (TEND + usual) / (usual + 1) * (usual + 1); /* it looks after the queue at its first look after so many rounds */
	at.spin = budget = pk_rounds_in(BUDGET_US * 1000) / TEND * TEND;
	at.owner = table[_i].tells ? &owner : NULL;
	if (seldom < 4 * TEND) { /* there is no more than one for each look after the queue */
		printf("SKIP: a round is long on such a slow machine: %u in 4 us\n", seldom);
		return;
	}
	gate.flags = 0;
	gate.queue.tail = gate.queue.aux = 0;
	ops.tend = count_tends;
	owner = table[_i].first;
	owner_later = table[_i].later;
	tended = 0;
	word = 1;
	soon = pk_clock_after(1000);
	w = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	if (table[_i].behind)
		gate.queue.tail = pk_waiter_name(new_node(&pk_mcs));
	ck_assert_int_eq(pk_word_wait(&at, &ops, w, false, &deadline), ETIMEDOUT);
	if (table[_i].seldom)
		ck_assert_uint_le(tended, budget / seldom * 3 / 2 + 20); /* it begins with short ones, and may spin twice */
	else
		ck_assert_uint_ge(tended, budget / apart * 3 / 4);
}
END_TEST

/* A head that has just come, when nobody was in the queue, goes by what it has seen of the gate then: whether the lock is slow, and it sleeps
 * at once. (Another one looks.) */
START_TEST(goes_by_what_was_seen)
{
	static const struct {
		uint64_t seen, flags;
		bool looks, spins;
	} table[] = {{PK_FLAG_SLOW, 0, false, false}, {0, PK_FLAG_SLOW, false, true}, {0, PK_FLAG_SLOW, true, false}, {PK_FLAG_SLOW, 0, true, true}};
	const struct pk_gate seen = {table[_i].seen, {0, 0}};
	struct pk_site at = site(true);
	struct pk_admit_ops ops = pk_mcs;
	struct timespec soon;
	const struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	struct pk_waiter *w;

	make_with("mcs", "1x2", "queue");
	at.seen = table[_i].looks ? NULL : &seen;
	gate.flags = table[_i].flags;
	gate.queue.tail = gate.queue.aux = 0;
	ops.tend = count_tends;
	tended = 0;
	word = 1;
	soon = pk_clock_after(1000);
	w = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	ck_assert_int_eq(pk_word_wait(&at, &ops, w, false, &deadline), ETIMEDOUT);
	ck_assert_int_eq(tended > 1, table[_i].spins); /* once in any case */
}
END_TEST

/* Who takes the word says at once whose it is, if the lock has a place for that: as the head, past the queue, as a thief. */
START_TEST(says_whose)
{
	struct pk_site at = site(true);
	struct pk_waiter *w;

	make_with("mcs", "1x4", "queue");
	at.spin = 3000;
	at.owner = _i % 2 ? &owner : NULL;
	pk_self.tid = 4711;
	gate.flags = _i / 2 == 3 ? PK_FLAG_SLOW : 0;
	owner = word = 0;
	switch (_i / 2) {
	case 0:
		w = new_node(&pk_mcs);
		ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
		ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, NULL), 0);
		break;
	case 1:
		ck_assert(pk_word_barge(&at));
		break;
	default: /* by a spin, or not */
		ck_assert(pk_word_steal(&at));
	}
	ck_assert_int_eq(word, 1);
	ck_assert_int_eq(owner, _i % 2 ? 4711 : 0);
}
END_TEST

static struct pk_mutex *looked_at;
static int owner_then;

void __real_pk_lot_check(struct pk_gate *of, unsigned cohort);
void __wrap_pk_lot_check(struct pk_gate *of, unsigned cohort);
void __wrap_pk_lot_check(struct pk_gate *of, unsigned cohort)
{
	owner_then = looked_at->owner;
	__real_pk_lot_check(of, cohort);
}

/* A mutex has such a place, and its thread is the owner before it looks after the lot. Not a recursive one, which a handler would find without a
 * count; nor one whose owner is in another line than its word. */
START_TEST(mutexes_have_a_place)
{
	static const struct {
		int kind;
		unsigned offset;
		bool tells;
	} table[] = {{PTHREAD_MUTEX_NORMAL, 0, true},	 {PTHREAD_MUTEX_ERRORCHECK_NP, 0, true}, {PTHREAD_MUTEX_ADAPTIVE_NP, 0, true},
		     {PTHREAD_MUTEX_RECURSIVE_NP, 0, false}, {PTHREAD_MUTEX_NORMAL, PK_CACHE_LINE - 8, false}};
	static char memory[2 * PK_CACHE_LINE] PK_ALIGNED(PK_CACHE_LINE);
	struct pk_mutex *m = looked_at = (struct pk_mutex *)(void *)(memory + table[_i].offset);

	make_with("shfl", "1x8", "auto");
	no_trials();
	m->kind = PK_KIND_VALUE((unsigned)table[_i].kind);
	pk_self.tid = 4711;
	owner_then = -1;
	ck_assert_int_eq(pk_mutex_lock_wait(m, NULL), 0);
	ck_assert_int_eq(owner_then, table[_i].tells ? 4711 : 0);
	ck_assert_int_eq(m->owner, 4711);
	ck_assert_uint_eq(m->count, table[_i].kind == PTHREAD_MUTEX_RECURSIVE_NP);
}
END_TEST

UNIT("looks", {mutexes_have_a_place, 5}, {looks_seldom, 6}, {goes_by_what_was_seen, 4}, {says_whose, 8})
