/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The contract of an admission queue.
 *
 * Threads that find a lock's word taken queue here. A queue has one *head*; only
 * the head waits for the word (along with threads that barge in). A policy
 * decides who is head after whom, and where the others wait.
 *
 *	enter	returns when w is the head, or when it never will be; or when it has been woken
 *		before its turn, and has taken the word, which it waits for by rt/doze.h
 *	tend	called by the head now and then while it waits for the word: work
 *		that is better done now than while the lock is held. Returns how many
 *		rounds of its spin budget it has spent there. Null: there is none
 *	leave	called by the head once it has the word, or gives up: somebody
 *		else becomes the head, or the queue is empty
 *	splice	puts sleepers into the queue for their threads: those whom a
 *		signal of a condition variable has reached. Null: the policy
 *		cannot do that
 *	settle	is enter for a thread whose node was spliced, once it is awake. It
 *		may have been woken before its turn, and then takes the word out of
 *		turn if `steal` can. `word` is looked at only
 *	give_up	w, which waits and is not the head, gives its place up, or the headship
 *		that it gets at that moment. Its enter, if it goes on (a signal handler
 *		has intervened, or it looks: rt/doze.h), returns PK_ORPHANED. Null: pk_waiter_abandon() does that.
 *		`q` is the queue that w names, as for `root`
 *	root	the lock's queue of w, which is its head, if w names another queue. Null: it
 *		does not
 *
 * Lifetime: the queue's memory exists while a thread is inside enter, tend or
 * leave; leave is called before the thread lets the word go, so that nobody
 * touches the lock after its release. A policy calls nothing but lib/rt: no
 * pthread type, no environment, no system call of its own.
 *
 * The policy may change while threads queue. A node stays with the policy by which it
 * has entered; a queue that another policy has left waiters in is not joined (tail.h,
 * aux.h). */
#ifndef PK_ADMIT_H
#define PK_ADMIT_H

#include "base/queue.h"
#include "rt/arena.h"
#include "rt/futex.h"

enum pk_entered {
	PK_IS_HEAD,
	PK_TIMED_OUT, /* the deadline passed; w is no longer the caller's */
	PK_STOLEN,    /* steal was successful; w is still the caller's, and may be the head */
	PK_OUT,	      /* w would have to sleep and is not one that stays: it is no
		       * longer the caller's, who sleeps elsewhere and comes back */
	PK_ORPHANED,  /* w has no place any more (fork, a signal handler that
		       * had to wait, a look) or never got one, and is no longer the caller's */
	PK_REFUSED,   /* the same, and it was this lock that had none for it */
};

/* Take the word of q's lock without being the head, if it is to be had soon. */
typedef bool pk_steal(struct pk_queue *q);

/* The policies of rt/policy.def. */
enum pk_policy {
#define PK_POLICY(name, spelled, ops, doc) PK_POLICY_##name,
#include "rt/policy.def"
#undef PK_POLICY
	PK_POLICIES
};

struct pk_admit_ops {
	uint8_t policy;
	/* Timed waiters may queue: to give up costs no more than their own node, for a
	 * while. If not they wait on the word. */
	bool abortable;
	enum pk_entered (*enter)(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline);
	unsigned (*tend)(struct pk_queue *q, struct pk_waiter *w, const int *word);
	void (*leave)(struct pk_queue *q, struct pk_waiter *w, int *held);
	/* A chain linked by `next`, of nodes that are CLAIMED and of no queue, by the
	 * holder of the lock. `held`: its word. */
	void (*splice)(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held);
	enum pk_entered (*settle)(struct pk_queue *q, struct pk_waiter *w, const int *word, pk_steal *steal);
	void (*give_up)(struct pk_queue *q, struct pk_waiter *w);
	struct pk_queue *(*root)(struct pk_waiter *w);
};

/* The policy in force; null: no queue, everybody waits on the word. Set by the
 * constructor: until then threads wait on the word. */
extern const struct pk_admit_ops *pk_admit;

/* Put the policy of that name in force; the first of the table if it cannot be, which is said. */
enum pk_policy pk_policy_select(const char *name);

/* Whether the policy of that name wants the levels of the machine (rt/topology.h). */
bool pk_policy_has_levels(const char *name);

/* A lock may have a policy of its own, by a number that fits a byte: 1 + its row in policy.def; 0: it has none, and
 * that in force is its. The number of the policy of that name, 0 if there is none, or PK_POLICY_UNFIT: the one that
 * means no library at all, and compositions other than those that have been in force under the name of their row. */
enum { PK_POLICY_UNFIT = -1 };
int pk_policy_number(const char *name);

/* The name of a row as users write it, into that buffer; false: it is too small. */
bool pk_policy_spell(unsigned number, char *name, size_t size);

/* What a lock of that own policy waits by, or null. Whatever the number is: one that means nothing here counts as none.
 */
const struct pk_admit_ops *pk_policy_own(unsigned number);

PK_INLINE const struct pk_admit_ops *pk_policy_for(unsigned number)
{
	return pk_unlikely(number) ? pk_policy_own(number) : pk_load_acquire(&pk_admit);
}

/* The operations of a policy; null if it has no queue. */
const struct pk_admit_ops *pk_policy_ops(unsigned policy);

#endif
