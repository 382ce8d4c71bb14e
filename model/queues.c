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
#include "model/locks.h"
#include "rt/thread.h"
#include "rt/topology.h"

static struct pk_queue queue PK_ALIGNED(64);
static struct pk_waiter *node[MC_THREADS];
static int told;
static bool one_head;

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
	w->socket = (uint16_t)pk_socket_here(mc_record[t]->index);
	w->policy = pk_admit->policy;
	w->manner = PK_STAYS;
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

static void final(void)
{
	mc_is_idle(&queue, &queue);
}

const struct mc_kind mc_queue_kinds[] = {{"queue", setup, once_body, final, MC_ALL},
					 {"queue-twice", setup, twice_body, final, MC_ALL},
					 {"queue-held", held_setup, held_body, final, MC_OTHERS},
					 {"queue-timed", held_setup, timed_body, final, MC_NONE},
					 {NULL, NULL, NULL, NULL, MC_NONE}};
