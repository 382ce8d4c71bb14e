/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waiting for the lock word: what the head of a queue does, and everybody where
 * there is no queue. */
#ifndef PK_WORD_H
#define PK_WORD_H

#include "admit/admit.h"
#include "base/layout.h"

/* A lock word that threads wait for, the gate by which they do, how long a head
 * spins (rt/spin.h), the lock's own policy (admit/admit.h), and whether its gate may keep
 * PK_FLAG_SLOW. Null, or for words whose holder merely waits for something else: takes that, if it is free, for who
 * has slept for long and does not have the word. */
struct pk_site {
	int *word;
	struct pk_gate *gate;
	unsigned spin;
	unsigned policy;
	bool marks;
	bool (*pass)(const int *word);
};

/* In microseconds: a lock that was taken again before its head, or the front of a reader-writer lock, was up is one that
 * somebody uses many times over. To be woken at each unlock would cost that thread a system call, and to be there the
 * line, each time. So it naps, without being woken. */
enum { PK_NAP_US = 50 };

/* The caller has come to wait for the word, and will queue first: to be told before it does. */
void pk_word_come(const struct pk_site *at);

/* Wait until the word is ours. `w` is the head of the queue of policy
 * `ops`, or null; with `ops`, but no w, the caller waits apart (turn.c). `slept`: the thread has slept already, and may have been moved
 * to the word meanwhile. Returns 0, or ETIMEDOUT, or EALREADY if the site's
 * `pass` was successful: then the word is as if we had never been there, and who sleeps on it will be woken. */
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
