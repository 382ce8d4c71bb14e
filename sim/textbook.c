/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* MCS and CNA; the contract is in textbook.h. */
#include "sim/textbook.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/await.h"
#include "base/compiler.h"

#include "sim/load.h"

/* Rounds until the loop's budget is filled up again. */
enum { ROUNDS = 1024 };

/* CNA 5: in one of so many hand-overs those put aside have their turn. */
enum { FAIR = 0x10000 };

/* `go`: 0 while its thread waits; the lock is its thread's: 1, or, CNA, the first of those put aside. CNA: the last of them is
 * remembered by the first one. */
struct sim_textbook_node {
	struct sim_textbook_node *next, *last_aside;
	uintptr_t go;
	unsigned node;
} PK_ALIGNED(64);

static struct sim_textbook_node nodes[SIM_THREADS_MAX];

static struct sim_textbook_node *mine(void)
{
	return &nodes[sim_number()];
}

static void hand_to(struct sim_textbook_node *n, uintptr_t what)
{
	pk_store_release(&n->go, what);
}

static struct sim_textbook_node *await_next(struct sim_textbook_node *me)
{
	struct sim_textbook_node *next;
	unsigned rounds = ROUNDS;

	while (!(next = pk_load_acquire(&me->next)))
		if (pk_spent(&rounds))
			rounds = ROUNDS;
	return next;
}

/* In the queue, until the lock is its. */
static void queue(struct sim_textbook_lock *l)
{
	struct sim_textbook_node *me = mine(), *before;
	unsigned rounds = ROUNDS;

	pk_store_relaxed(&me->next, NULL);
	pk_store_relaxed(&me->go, 0);
	me->node = sim_node();
	before = pk_xchg_acq_rel(&l->tail, me);
	if (!before) {
		pk_store_relaxed(&me->go, 1);
		return;
	}
	pk_store_release(&before->next, me);
	while (!pk_load_acquire(&me->go))
		if (pk_spent(&rounds))
			rounds = ROUNDS;
}

/* Whether the queue ended with this one, and ends there now. */
static bool cut(struct sim_textbook_lock *l, struct sim_textbook_node *me, struct sim_textbook_node *there)
{
	struct sim_textbook_node *seen = me;

	return pk_cas_acq_rel(&l->tail, &seen, there);
}

/* ---- MCS ---- */

static void mcs_unlock(struct sim_textbook_lock *l)
{
	struct sim_textbook_node *me = mine();

	if (!pk_load_acquire(&me->next) && cut(l, me, NULL))
		return;
	hand_to(await_next(me), 1);
}

/* ---- CNA ---- */

/* The first who is near; those before it are put aside, behind those who are there. Null: nobody is. */
static struct sim_textbook_node *find_near(struct sim_textbook_node *me)
{
	struct sim_textbook_node *first = pk_load_acquire(&me->next), *last = NULL, *n = first;

	while (n && n->node != me->node) {
		last = n;
		n = pk_load_acquire(&n->next);
	}
	if (!n || n == first)
		return n;
	pk_store_relaxed(&last->next, NULL);
	if (me->go > 1)
		pk_store_relaxed(&((struct sim_textbook_node *)me->go)->last_aside->next, first);
	else
		me->go = (uintptr_t)first;
	((struct sim_textbook_node *)me->go)->last_aside = last;
	return n;
}

static void cna_unlock(struct sim_textbook_lock *l)
{
	struct sim_textbook_node *me = mine(), *aside, *near = NULL, *next;

	aside = me->go > 1 ? (struct sim_textbook_node *)me->go : NULL;
	if (!pk_load_acquire(&me->next) && cut(l, me, aside ? aside->last_aside : NULL)) {
		if (aside)
			hand_to(aside, 1);
		return;
	}
	next = await_next(me);
	if (sim_random() % FAIR)
		near = find_near(me);
	if (near) {
		hand_to(near, me->go);
	} else if (aside) {
		pk_store_relaxed(&aside->last_aside->next, next);
		hand_to(aside, 1);
	} else {
		hand_to(next, 1);
	}
}

const struct sim_textbook sim_textbooks[] = {{"mcs", queue, mcs_unlock}, {"cna", queue, cna_unlock}};
const unsigned sim_textbook_count = sizeof(sim_textbooks) / sizeof(sim_textbooks[0]);
