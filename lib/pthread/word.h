/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waiting for the lock word: what the head of a queue does, and everybody where
 * there is no queue. */
#ifndef PK_WORD_H
#define PK_WORD_H

#include "admit/aux.h"
#include "base/layout.h"

/* Where threads wait for a lock word. Who holds the lock has the cache line of all this, and each look takes that away: so what
 * a thread wants to know of it when it comes is read at once. */
struct pk_site {
	int *word;
	struct pk_gate *gate; /* by which they do */
	unsigned spin;	      /* how long a head spins (rt/spin.h) */
	bool marks;	      /* the gate is a mutex's: it has a policy (base/layout.h), and may keep PK_FLAG_SLOW, _BACK, _TRIED, _APART and _PROVED */
	/* Null, or for words whose holder merely waits for something else: takes that, if it is free, for who
	 * has slept for long and does not have the word. */
	bool (*pass)(const int *word);
	int *owner;		    /* where the lock says whose it is, and the word's taker is to say so at once; or null */
	const struct pk_gate *seen; /* the gate as it was when the thread came; or null: it has waited since */
};

PK_INLINE struct pk_gate pk_gate_look(const struct pk_gate *gate)
{
	return (struct pk_gate){pk_load_relaxed(&gate->flags),
				{pk_load_relaxed(&gate->queue.tail), pk_load_relaxed(&gate->queue.aux)}};
}

PK_INLINE uint64_t pk_site_flags(const struct pk_site *at)
{
	return at->seen ? at->seen->flags : pk_load_relaxed(&at->gate->flags);
}

/* Whether somebody is in the queue. */
PK_INLINE bool pk_site_busy(const struct pk_site *at)
{
	return at->seen ? pk_queue_was_busy(&at->gate->queue, &at->seen->queue) : pk_queue_busy(&at->gate->queue);
}

/* In microseconds: a lock that was taken again before its head, or the front of a reader-writer lock, was up is one that
 * somebody uses many times over. To be woken at each unlock would cost that thread a system call, and to be there the
 * line, each time. So it naps, without being woken. */
enum { PK_NAP_US = 50 };

/* The caller has come to wait for the word, and will queue first: to be told before it does. */
void pk_word_come(const struct pk_site *at);

/* Wait until the word is ours. `w` is the head of the queue of policy
 * `ops`, or null; with `ops`, but no w, the caller waits apart (turn.c), dated if pk_self.came
 * is not 0. `slept`: the thread has slept already, and may have been moved
 * to the word meanwhile. Returns 0, or ETIMEDOUT, or EALREADY if the site's
 * `pass` was successful: then the word is as if we had never been there, and who sleeps on it will be woken. Or EAGAIN, likewise, for one
 * that has waited apart for too long, and is to queue. */
int pk_word_wait(const struct pk_site *at, const struct pk_admit_ops *ops, struct pk_waiter *w, bool slept,
		 const struct pk_deadline *deadline);

/* Take the word if it is free, and no head has lost patience. */
bool pk_word_barge(const struct pk_site *at);

/* Spin for the word without queueing, unless another thread does so, the head
 * has lost patience, or the caller has just had it in this way. True when it has been taken.
 *
 * For those who would have to sleep in the queue: while its head sleeps, or is
 * on its way from a wake-up, nobody is at the word, and a short critical section
 * is over long before. One at a time, so that the word's cache line is not
 * contended more than by a second head. */
bool pk_word_steal(const struct pk_site *at);

/* The same, and if it has spun in vain it naps a few times, and takes the word if it is free then. It is in no queue, so
 * it takes longer than it has to if the word is free in between.
 *
 * Where CPUs are few: a thread that is woken is often put behind the one that has woken it, on its CPU, and the other CPU,
 * whose thread has just gone to sleep, is idle until the kernel's next tick. */
bool pk_word_lurk(const struct pk_site *at);

#endif
