/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Admission queues alone, by their contract (admit/admit.h), under the checker: clients for
 * locks.c.
 *
 * There is no lock word here, so nothing but the queue orders what its heads do one after the
 * other: each reads and writes what all of them share, and no atomic access guards it. In a
 * mutex the word would hide a hand-over that is too weak; what the policies themselves keep
 * from head to head (lists of those set aside, a cohort's fields) needs more threads to show
 * it. Every thread tends the queue before it leaves, and a thread that comes twice uses its
 * node again at once.
 *
 * cna and mcscr let go of those set aside as a queue of their own if somebody is just joining
 * (admit/list.h): then there are two heads, which would meet at the word. */
#include "admit/admit.h"
#include "admit/levels.h"
#include "admit/list.h"
#include "admit/pull.h"
#include "admit/ticket.h"
#include "model/locks.h"
#include "pthread/lot.h"
#include "rt/real.h"
#include "rt/thread.h"
#include "rt/topology.h"

static struct pk_queue queue PK_ALIGNED(64);
static struct pk_waiter *node[MC_THREADS];
static int told;
static bool one_head;
static bool near; /* all on one socket, of two cohorts by turns */

static void setup(void)
{
	mc_name(&queue.tail, 8, "tail");
	mc_name(&queue.aux, 8, "aux");
	mc_name(&told, sizeof(told), "what heads tell each other");
	if (!pk_admit)
		mc_fail("that policy has no queue");
	one_head = pk_admit && pk_admit->policy != PK_POLICY_cna && pk_admit->policy != PK_POLICY_mcscr;
	for (unsigned t = 0; t < mc_threads; t++)
		node[t] = pk_waiter_take(mc_record[t]);
}

static struct pk_waiter *ready(unsigned t, struct pk_waiter *w)
{
	w->socket = (uint8_t)pk_socket_here(mc_record[t]->index);
	w->cohort = near ? t % 2 : w->socket;
	w->policy = pk_admit->policy;
	pk_store_relaxed(&w->manner, PK_STAYS);
	w->queue = NULL;
	return w;
}

/* The head has been in long enough; as turn.c leaves. */
static void leave(struct pk_waiter *w)
{
	static const int taken = 1;

	if (one_head && told++)
		mc_fail("two threads are the head");
	if (pk_admit->tend)
		pk_admit->tend(&queue, w, &taken);
	if (one_head)
		told--;
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ABANDONED));
	pk_admit->leave(&queue, w, NULL);
}

static void come(unsigned t, struct pk_waiter *w)
{
	switch (pk_admit->enter(&queue, ready(t, w), NULL)) {
	case PK_IS_HEAD:
		leave(w);
		break;
	case PK_ORPHANED: /* it would wait on the word */
	case PK_REFUSED:
		mc_reached("a thread without a place");
		break;
	default:
		mc_fail("a wait without a deadline ends");
	}
}

static void once_body(unsigned t)
{
	mc_thread_begin(t);
	come(t, node[t]);
}

static void twice_body(unsigned t)
{
	struct pk_waiter *w;

	once_body(t);
	w = pk_waiter_take(mc_record[t]);
	if (w)
		come(t, w);
	else
		mc_fail("no node is free");
}

/* Thread 0 is the head to begin with. */
static void held_setup(void)
{
	setup();
	mc_thread_begin(0);
	if (pk_admit->enter(&queue, ready(0, node[0]), NULL) != PK_IS_HEAD)
		mc_fail("the first one is not the head");
}

static void held_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0)
		come(t, node[t]);
	else
		leave(node[0]);
}

/* Thread 0 is the head, thread 1 has a deadline, and comes again when it has passed. */
static void timed_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};
	const struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	struct pk_waiter *w;

	if (t != 1) {
		held_body(t);
		return;
	}
	mc_thread_begin(t);
	switch (pk_admit->enter(&queue, ready(t, node[t]), pk_admit->abortable ? &deadline : NULL)) {
	case PK_IS_HEAD:
		leave(node[t]);
		break;
	case PK_TIMED_OUT:
		mc_reached("a deadline passes in the queue");
		w = pk_waiter_take(mc_record[t]);
		come(t, w ? w : node[t]);
		break;
	default:
		break;
	}
}

/* Threads that have no record yet (records.c), and no storey: they take and map what they need. */
static void new_setup(void)
{
	mc_name(&queue.tail, 8, "tail");
	mc_name(&queue.aux, 8, "aux");
	mc_name(&told, sizeof(told), "what heads tell each other");
	one_head = true;
	pk_real();
}

static void new_body(unsigned t)
{
	mc_thread_new(t);
	mc_record[t] = pk_thread_record();
	come(t, pk_waiter_take(mc_record[t]));
	mc_thread_end();
}

/* ---- what a queue alone seldom comes to ---- */

/* Thread 0 is the head, and finds the word free as soon as it looks round, so it sees to no more
 * than one waiter: the one that has a deadline, which is woken to see to the others. */
static void hasty_body(unsigned t)
{
	static const int free_word = 0;
	const struct timespec soon = {MC_SOON, 0};
	const struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};

	mc_thread_begin(t);
	if (t == 0) {
		pk_admit->tend(&queue, node[0], &free_word);
		pk_list_call(mc_record[0], node[1]);
		leave(node[0]);
	} else if (t > 1) {
		come(t, node[t]);
	} else if (pk_admit->enter(&queue, ready(t, node[t]), &deadline) == PK_IS_HEAD) {
		leave(node[t]);
	}
}

/* Thread 0 is the head to begin with. The nodes are of another record: the last one may stay in
 * use (admit/pull.h). */
static void interrupted_setup(void)
{
	struct pk_record *r = pk_record_take();

	held_setup();
	mc_ignore(r->stat, sizeof(r->stat));
	for (unsigned t = 0; t < mc_threads; t++) {
		struct pk_waiter *w = pk_waiter_take(r);

		mc_name(w, sizeof(*w), "node of thread %u", t);
		mc_watch_node(w);
		if (t == 0) {
			pk_admit->leave(&queue, node[0], NULL);
			if (pk_admit->enter(&queue, ready(0, w), NULL) != PK_IS_HEAD)
				mc_fail("the first one is not the head");
		} else {
			pk_waiter_free(node[t]);
		}
		node[t] = w;
	}
}

static bool has_tickets(void)
{
	return pk_admit->policy == PK_POLICY_tkt || pk_admit->policy == PK_POLICY_ptl;
}

/* A handler has to wait while its thread waits there (pthread/turn.c): as give_up() does it, but
 * who has become the head by then is one like others. */
static void interrupt(struct pk_queue *q, struct pk_waiter *w)
{
	const struct pk_basic *lock = pk_admit->policy == PK_POLICY_tkt	  ? &pk_basic_tkt
				      : pk_admit->policy == PK_POLICY_ptl ? &pk_basic_ptl
									  : &pk_basic_clh;

	if (lock->flee(q, w))
		mc_reached("a place is given up");
	else
		leave(w);
}

static struct pk_waiter *interrupt_looking(struct pk_waiter *prev)
{
	(void)prev;
	interrupt(&queue, node[mc_thread()]);
	return NULL;
}

static void be_interrupted(unsigned t, struct pk_waiter *w)
{
	enum pk_aux_kind kind = pk_admit->policy == PK_POLICY_tkt ? PK_AUX_TKT : PK_AUX_PTL;
	enum pk_entered how;

	if (has_tickets())
		how = pk_ticket_enter(&queue, ready(t, w), kind, interrupt);
	else
		how = pk_pull_enter(&queue, ready(t, w), NULL, interrupt_looking);
	if (how == PK_IS_HEAD)
		leave(w);
}

static void near_setup(void)
{
	near = true;
	held_setup();
}

/* Thread 0 is the head, and has thread 1 be the shuffler before it looks for one of its cohort, as which it finds thread 2, if that
 * is awake. */
static void near_body(unsigned t)
{
	static const int free_word = 0;

	if (t == 0) {
		mc_thread_begin(t);
		pk_admit->tend(&queue, node[0], &free_word);
		pk_list_call(mc_record[0], node[1]);
		leave(node[0]);
	} else {
		held_body(t);
	}
}

static void near_awake_body(unsigned t)
{
	if (t == 0)
		pk_list_call(mc_record[0], node[2]);
	near_body(t);
}

/* The thread uses its node again, if it is free, for what is of no concern here. */
static void use_again(unsigned t)
{
	if (!pk_load_relaxed(&node[t]->busy) && !pk_xchg_acquire(&node[t]->busy, 1))
		pk_waiter_free(ready(t, node[t]));
}

/* Thread 1 is interrupted when it has looked once, if it is not the head. It does not use its node
 * again where there are tickets: who looks for a dead number may be reading it, and finds out
 * only afterwards that it is none any more (pk_ticket_bury_at()). That is a race. */
static void interrupted_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0)
		leave(node[0]);
	else
		(t == 1 ? be_interrupted : come)(t, node[t]);
	if (t == 0 || (t == 1 && !has_tickets()))
		use_again(t);
}

static void all_interrupted_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0)
		leave(node[0]);
	else
		be_interrupted(t, node[t]);
}

/* By the policy that comes to be in force: there are two queues then, and two heads. */
static void come_otherwise(unsigned t, struct pk_waiter *w)
{
	const struct pk_admit_ops *ops =
		pk_policy_ops(pk_admit->policy == PK_POLICY_clh ? PK_POLICY_mcs : PK_POLICY_clh);

	ready(t, w)->policy = ops->policy;
	if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
		mc_fail("a wait without a deadline ends");
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ABANDONED));
	ops->leave(&queue, w, NULL);
}

static void changed_setup(void)
{
	interrupted_setup();
	one_head = false;
}

/* The policy changes before the last thread comes; thread 1 is interrupted, if there are three. */
static void changed_body(unsigned t)
{
	if (t < mc_threads - 1) {
		interrupted_body(t);
		return;
	}
	mc_thread_begin(t);
	come_otherwise(t, node[t]);
	use_again(t);
}

/* Another policy comes to be in force, a composition that is made then; others ask which. */
static void policy_setup(void)
{
	mc_name(&pk_admit, sizeof(pk_admit), "the policy in force");
}

static void policy_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0)
		pk_policy_select("c-tkt-tkt");
	else if (t == 1 && pk_policy_for(0)->policy == PK_POLICIES)
		mc_fail("a policy without operations");
	else if (t == 2 && pk_composed_ops(PK_POLICIES))
		mc_fail("a policy that nobody has made");
}

static void policy_final(void)
{
	if (pk_admit->policy != PK_POLICY_c_tkt_tkt)
		mc_fail("the policy in force is another one");
}

static void final(void)
{
	mc_is_idle(&queue, &queue);
}

/* ---- sleeping beside the queue (pthread/lot.h) ---- */

/* There is no word here either, so nothing but the lot's own protocol wakes anybody, and no time: who is forgotten
 * sleeps for good. */
static struct pk_gate gate PK_ALIGNED(64);

static void gate_setup(void)
{
	mc_name(&gate.flags, 8, "the flags");
	mc_name(&gate.queue.tail, 8, "tail");
	mc_name(&gate.queue.aux, 8, "aux");
}

static void gate_enter(unsigned t)
{
	node[t] = pk_waiter_take(mc_record[t]);
	if (pk_admit->enter(&gate.queue, ready(t, node[t]), NULL) != PK_IS_HEAD)
		mc_fail("a wait without a deadline ends");
}

static void gate_leave(unsigned t)
{
	struct pk_waiter *w = node[t];

	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ABANDONED));
	pk_admit->leave(&gate.queue, w, NULL);
}

/* Sleep in the lot while somebody is in the queue. */
static void gate_park(unsigned t)
{
	static const struct timespec never = {1000000, 0};
	unsigned socket = pk_socket_here(mc_record[t]->index);

	while (pk_queue_busy(&gate.queue) && pk_lot_park(&gate, socket, &never) != PK_STAYS)
		mc_reached("a thread is back from the lot");
}

/* Thread 0 is the head to begin with. */
static void lot_setup(void)
{
	gate_setup();
	mc_thread_begin(0);
	gate_enter(0);
}

static void lot_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		gate_park(t);
		gate_enter(t);
	}
	gate_leave(t);
	pk_lot_check(&gate, pk_socket_here(mc_record[t]->index));
}

/* Sleepers have been there, and are gone: thread 0, which has been in the queue, is to find that out, while thread 1
 * queues and leaves, and thread 2 comes to sleep behind it. */
static void empty_lot_setup(void)
{
	gate_setup();
	gate.flags = PK_FLAG_LOT;
}

static void empty_lot_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 2) {
		gate_park(t);
		return;
	}
	if (t == 1) {
		gate_enter(t);
		gate_leave(t);
	}
	pk_lot_check(&gate, pk_socket_here(mc_record[t]->index));
}

static void lot_final(void)
{
	mc_is_idle(&gate, &gate.queue);
}

/* Who comes frees the node of who has given up behind the last one (admit/pull.h). */
static void interrupted_final(void)
{
	if (!has_tickets()) {
		struct pk_waiter *w = ready(0, pk_waiter_take(mc_record[0]));

		if (pk_admit->enter(&queue, w, NULL) != PK_IS_HEAD)
			mc_fail("the last one to come is not the head");
		pk_admit->leave(&queue, w, NULL);
	}
	for (unsigned t = 0; t < mc_threads; t++)
		if (node[t]->busy)
			mc_fail("a node is in use at the end");
	final();
}

const struct mc_kind mc_queue_kinds[] = {{"queue", setup, once_body, final, MC_ALL},
					 {"queue-twice", setup, twice_body, final, MC_ALL},
					 {"queue-held", held_setup, held_body, final, MC_OTHERS},
					 {"queue-timed", held_setup, timed_body, final, MC_NONE},
					 {"queue-new", new_setup, new_body, final, MC_NONE, true},
					 {"lot", lot_setup, lot_body, lot_final, MC_OTHERS},
					 {"lot-empty", empty_lot_setup, empty_lot_body, lot_final, MC_NONE},
					 {"queue-near", near_setup, near_body, final, MC_NONE},
					 {"queue-near-awake", near_setup, near_awake_body, final, MC_NONE},
					 {"queue-hasty", held_setup, hasty_body, final, MC_NONE},
					 {"queue-interrupted", interrupted_setup, interrupted_body, interrupted_final,
					  MC_NONE},
					 {"queue-all-interrupted", interrupted_setup, all_interrupted_body, interrupted_final,
					  MC_NONE},
					 {"queue-changed", changed_setup, changed_body, interrupted_final, MC_NONE},
					 {"policy", policy_setup, policy_body, policy_final, MC_NONE},
					 {NULL, NULL, NULL, NULL, MC_NONE}};
