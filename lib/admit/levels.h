/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Composed policies: one basic lock for each level of the machine, the last one for the
 * whole system (levels.c has the recursion, compose.c the names).
 *
 * A *basic lock* is a policy on a queue of its own, in the form that the recursion needs. A
 * queue node stands for who waits: a thread's at the innermost level, a context of the
 * cohort's bay at those above (rt/storey.h). Who has the lock is its head.
 *
 *	enter	as in admit.h
 *	leave	the next waiter becomes the head, or the queue is empty
 *	pass	the next waiter becomes the head for certain: it is one that has not given up.
 *		False, and w is the head still, if there is none, or it cannot be told
 *	flee	w, which waits, gives its place up: for its thread, which sleeps. False: it has
 *		become the head, and has to leave. In both cases its enter, if it goes on,
 *		returns PK_ORPHANED
 *	rouse	the head has its successor woken, if that sleeps and there is room to spin.
 *		False: there is none. Null: it cannot be done
 *
 * All but pass are for the root, too, which lies in the lock itself, where strangers may
 * be (tail.h, aux.h); others never share a queue with another policy.
 * Thread-oblivious: whoever has the node may leave or pass. Release, on the way to the next
 * head's acquire: what a head has written is seen by the next. */
#ifndef PK_LEVELS_H
#define PK_LEVELS_H

#include "admit/admit.h"
#include "rt/topology.h"

struct pk_basic {
	enum pk_entered (*enter)(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline);
	void (*leave)(struct pk_queue *q, struct pk_waiter *w, int *held);
	bool (*pass)(struct pk_queue *q, struct pk_waiter *w, int *held);
	bool (*flee)(struct pk_queue *q, struct pk_waiter *w);
	bool (*rouse)(struct pk_waiter *w);
};

extern const struct pk_basic pk_basic_tkt, pk_basic_mcs, pk_basic_clh, pk_basic_hem, pk_basic_ptl, pk_basic_bo;

/* A composition for this machine. */
struct pk_composed {
	uint8_t root;		     /* index of the last lock; 0: it is all there is */
	uint8_t kind[PK_COHORTS];    /* of which cohorts lock[i] is */
	uint32_t bound;		     /* of hand-overs within a cohort, unless PARKADE_BATCH says another */
	unsigned storey[PK_COHORTS]; /* those of the cohorts begin there */
	const struct pk_basic *lock[PK_COHORTS + 1];
};

/* The composition of a policy. */
const struct pk_composed *pk_composed_of(unsigned policy);

/* The operations of the composed policy of that name, for this machine, made if there are
 * none yet; null if they cannot be, which is said. `row`: in policy.def. */
const struct pk_admit_ops *pk_compose(enum pk_policy row, const char *name);

/* Of a policy beyond those of policy.def. */
const struct pk_admit_ops *pk_composed_ops(unsigned policy);

/* The operations that all of them share, but for the policy's number. */
extern const struct pk_admit_ops pk_hmcs, pk_clof, pk_c_bo_mcs, pk_c_tkt_tkt, pk_c_ptl_tkt, pk_a_c_bo_bo, pk_a_c_bo_clh;

#endif
