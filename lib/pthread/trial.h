/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Trials: whether it pays to queue for a mutex whose users come back for it at once, or whose queue is in no good order.
 *
 * It does if who has it uses it many times while the others sleep. It does not if its users have work in between: then there is time for
 * others, and a queue, in which each hand-over is to a certain thread, has less of it used than glibc's protocol. By times the two
 * cannot be told apart, as nobody sees what a thread does between two waits (sim/FINDINGS.md); nor does who waits apart for a mutex that
 * is far from most of its users, whose order does not pay (admit/order.h), see how soon these are back; nor what is between two waits for a
 * condition variable. So both ways are tried by turns, for some milliseconds, and uses of the mutex are counted: how often it is taken, but for
 * who takes it again after such a wait; the better one is kept for a while.
 *
 * One mutex of a process is tried at a time.
 *
 * State of PK_FLAG_TRIED (who locks the mutex counts: pthread/mutex.c)
 *	0 -> 1	by who begins the trial
 *	1 -> 0	by who ends it, or finds that this mutex is not tried
 * State of PK_FLAG_APART (all who wait for the mutex do so apart: pthread/turn.c)
 *	any -> 0, 1	by who begins a trial; while PK_FLAG_TRIED is set, by who tells of what it has counted; by who ends it, with that
 *	1 -> 0	by who has waited so for too long (pthread/word.c); or finds that this mutex, in a trial, is not tried any more
 * State of PK_FLAG_PROVED (that the mutex's users come back is not doubted: pthread/turn.c)
 *	0 -> 1	by who ends a trial that says that to queue is better
 *	1 -> 0	by who ends another one
 * Hints, all: one that is lost, or is set by chance, costs some speed until the next trial. Mutexes that come and go, and a fork
 * in the midst of it, leave a trial without an end; the next one takes its place. So may one of two that begin at the same moment.
 *
 * Ledger
 *  T1	lock: release by who begins or ends a trial, acquire by who counts, or would begin the next one: when it began, and ended. */
#ifndef PK_PTHREAD_TRIAL_H
#define PK_PTHREAD_TRIAL_H

#include "base/layout.h"
#include "rt/clock.h"
#include "rt/thread.h"

enum {
	/* A trial is of so many phases, in each of which one way is tried, and of half of one more, in which threads tell of what they have
	 * counted in the last one. */
	PK_TRIAL_PHASE_NS = 2000000,
	PK_TRIAL_PHASES = 9,
	PK_TRIAL_NS = PK_TRIAL_PHASES * PK_TRIAL_PHASE_NS + PK_TRIAL_PHASE_NS / 2,
	/* Fewer than so many of either way say nothing. */
	PK_TRIAL_LEAST = 100,
	/* Apart is better if so small a part is missing: less is done for it, by fewer CPUs. */
	PK_TRIAL_SHARE = 8,
	/* From the end of a trial to the next one; for the same mutex twice as long after each that has said the same of it, up to so
	 * many times. */
	PK_TRIAL_PAUSE_NS = 120 * PK_TRIAL_PHASE_NS,
	PK_TRIAL_PAUSES = 16,
	/* One in so many of a thread's dated waits for mutexes whose users come back, and for condition variables with them, asks for one; or of
	 * those for others, of which few are dated. */
	PK_TRIAL_ASKS = 256,
	PK_TRIAL_ASKS_APART = 16,
	/* A thread tells of so many at once, when it counts the next one; or of less, if half a phase is over by then. */
	PK_TRIAL_COUNTS = 16,
};

enum pk_trial_way {
	PK_TRIAL_SAYS_NOTHING,
	PK_TRIAL_QUEUES, /* for now */
	PK_TRIAL_APART,	 /* for now, or until it is tried again */
};

/* How all who wait for that mutex are to do so. Called by who has to wait: with its flags, as they were a moment ago, and the
 * time. pk_trial_way(): `open` is whether there is something to be tried: its users come back at once, as far as is known, or its order
 * does not pay. */
enum pk_trial_way pk_trial_find(struct pk_gate *gate, uint64_t flags, uint64_t now);
PK_INLINE enum pk_trial_way pk_trial_way(struct pk_gate *gate, uint64_t flags, uint64_t now, bool open)
{
	return open || flags & (PK_FLAG_TRIED | PK_FLAG_APART) ? pk_trial_find(gate, flags, now) : PK_TRIAL_SAYS_NOTHING;
}

/* To be called now and then by who has the mutex, and might learn something from a trial of it. */
void pk_trial_ask(struct pk_gate *gate);

/* Tell of what the thread has counted. It has the mutex, or waits for it. */
void pk_trial_tell(struct pk_gate *gate, uint64_t now);

/* Which trial it is, and which half of a phase. A hint. */
extern uint8_t pk_trial_half;

/* The thread has taken a mutex that is tried. */
PK_INLINE void pk_trial_count(struct pk_gate *gate)
{
	if (pk_self.half != pk_load_relaxed(&pk_trial_half) || pk_self.counted >= PK_TRIAL_COUNTS)
		pk_trial_tell(gate, pk_clock_ns());
	pk_self.counted++;
}

/* It has just counted that, but it was only back from a wait for a condition variable, in the midst of a use of the mutex. Who is woken for
 * nothing waits once more, and has done nothing: to queue would be taken for better if it has more of them woken. */
PK_INLINE void pk_trial_count_again(void)
{
	pk_self.again++;
}

#endif
