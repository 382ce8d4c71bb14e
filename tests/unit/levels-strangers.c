/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Composed policies: bays that others have, another policy in the lock, copies of a lock, ghosts after a fork. */
#include <sys/wait.h>
#include <unistd.h>

#include "admit/aux.h"
#include "admit/tail.h"
#include "admit/ticket.h"
#include "guests.h"

/* Others have all the bays where `queue` has its own, in that storey. */
static void fill_set(unsigned storey)
{
	static char objects[1 << 16];
	struct pk_bay *set = pk_bay_enter(storey, &queue), *bay;
	unsigned n = 0;

	pk_bay_leave(set, &queue);
	for (size_t i = 0; i < sizeof(objects) && n < PK_BAY_WAYS; i += 8) {
		bay = pk_bay_enter(storey, &objects[i]);
		if (bay && bay >= set && bay < set + PK_BAY_WAYS)
			n++;
		else if (bay)
			pk_bay_leave(bay, &objects[i]);
	}
	ck_assert_uint_eq(n, PK_BAY_WAYS);
}

/* No bay at one of the levels: who needs it has no place, and who is behind neither. */
START_TEST(full_set)
{
	int level = _i % 3;

	use(fair[_i / 3]);
	arrive_all("A");
	fill_set(pk_composed_of(ops->policy)->storey[level] + pk_cohort_around(PK_COHORT_CORE, 4, level));
	arrive_all("E");
	ck_assert_int_eq(guest[1].how, PK_ORPHANED);
	ck_assert_uint_eq(guest[1].w->busy, 0);
	ck_assert_str_eq(order(), "0");
	check_idle();
}
END_TEST

/* All the numbers of a cohort's tickets are out: who gets none is no user of its bay. */
START_TEST(no_number)
{
	static const struct {
		const char *policy;
		enum pk_aux_kind kind;
	} refusing[] = {{"c-tkt-tkt", PK_AUX_TKT}, {"clof:tkt-mcs-mcs-mcs", PK_AUX_TKT}};
	struct pk_queue *low;
	uint64_t aux;

	use(refusing[_i].policy);
	arrive_all("A");
	ck_assert_uint_ne(users(), 0);
	low = guest[0].w->queue;
	aux = low->aux;
	low->aux = pk_ticket_state(low, refusing[_i].kind, 4, 5, 0);
	arrive_all("A");
	ck_assert_int_eq(guest[1].how, PK_REFUSED);
	low->aux = aux;
	ck_assert_str_eq(order(), "0");
	check_idle();
}
END_TEST

/* Another policy has the root: no place with tickets or backoff, a queue of their own with the others. */
START_TEST(another_policy)
{
	static const char *const refused[] = {"clof:mcs-tkt", "c-tkt-tkt", "c-ptl-tkt", "c-bo-mcs", "a-c-bo-clh"};
	struct pk_waiter *w;

	use(refused[_i]);
	queue.aux = pk_aux_of(&queue, PK_AUX_CST, 1);
	arrive_all("AA");
	ck_assert_int_eq(guest[0].how, PK_ORPHANED);
	ck_assert_int_eq(guest[1].how, PK_ORPHANED);
	queue.aux = 0;
	check_idle();

	count = 0;
	use("clof:tkt-mcs");
	pk_policy_select("mcs");
	w = node_at('A');
	w->policy = PK_POLICY_mcs;
	ck_assert_int_eq(pk_admit->enter(&queue, w, NULL), PK_IS_HEAD);
	arrive_all("A");
	ck_assert_int_eq(head(), 0);
	ck_assert_ptr_eq(w->next, PK_END);
	pk_admit->leave(&queue, w, NULL);
	ck_assert_str_eq(order(), "0");
	check_idle();
}
END_TEST

/* What a copied lock, or a ghost, names is nobody. */
START_TEST(strangers)
{
	struct pk_queue copy;
	struct pk_waiter *w;

	use(_i < FAIR ? fair[_i] : cohorts[_i - FAIR]);
	arrive_all("AE");
	copy = queue;
	w = node_at('B');
	ck_assert_int_eq(ops->enter(&copy, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_eq(ops->root(w), &copy);
	ops->leave(&copy, w, NULL);
	ck_assert(!pk_queue_busy(&copy));
	ck_assert_str_eq(order(), "0 1");
	check_idle();
}
END_TEST

/* In a child of fork bays and contexts are free. Who forked in a handler, waiting as the first of its cohort, finds its
 * wait ended there, and its context is not another's before. */
START_TEST(fork_child)
{
	pid_t child;
	int status;

	use(_i < FAIR ? fair[_i] : cohorts[_i - FAIR]);
	arrive_all("AEE");
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct pk_waiter *w;
		unsigned held = 0;

		pk_self.record = guest[1].w->record;
		pk_storeys_fork_child();
		for (uint32_t i = 0; i < pk_contexts_known(); i++) {
			w = pk_context_nth(i);
			if (!w || !w->id)
				continue;
			if (w->busy || pk_state(w->status) != PK_ORPHAN || (w->record && w->record != pk_self.record))
				_exit(1);
			held += w->record != NULL;
		}
		if (held != 1 || users())
			_exit(2);
		pk_incarnation_next();
		w = node_at('E');
		if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
			_exit(3);
		ops->leave(&queue, w, NULL);
		_exit(pk_queue_busy(&queue) || users() ? 4 : 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	if (_i < FAIR)
		ck_assert_str_eq(order(), "0 1 2");
}
END_TEST

UNIT("levels-strangers", {full_set, 3 * FAIR}, {no_number, 2}, {another_policy, 5}, {strangers, FAIR + COHORTS},
     {fork_child, FAIR + COHORTS})
