/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How a thread sleeps that waits for a lock by way of others: not for ever.
 *
 * Who is before it may be held up, while the lock is free: in a signal handler that blocks on what is no lock (a pipe,
 * sigsuspend), or by a debugger. With glibc nobody depends on a thread that merely waits. So a sleeper looks after 250
 * ms whether the word that it waits for is free, then after another 500 ms, 1 s, ...: if it is, it takes it, and gives
 * up its place; after 16 s it gives it up in any case, and goes to the word, as if there were no queue. Who is before
 * it may be overtaken, as by any thread that barges in.
 *
 * To give the place up is what a signal handler does that has to wait while its thread sleeps (pthread/turn.c): the
 * policy's function returns PK_ORPHANED. Each looks for itself; those whom a condition variable has put into the queue
 * asleep are woken by who gives up before them. If nobody does they wake by themselves, but late: who waits for a
 * condition variable without a deadline sleeps for 4 s at first, so that idle threads cost next to nothing; with one, until
 * then. Or they sleep without a timer, and who puts them there wakes them, so that they have one (pthread/cond-signal.c); so does who makes
 * one of them the head that somebody else has marked as awake, and may not have woken (admit/list.h). Who sleeps in a hall
 * (rt/hall.h) has no timer, and is never put behind others. */
#ifndef PK_DOZE_H
#define PK_DOZE_H

#include <stdbool.h>

#include "rt/futex.h"

/* Once, in the constructor: what looks, and gives up the place. `last`: whether there is something to be had or not.
 * Without it a doze is a sleep without end. */
void pk_doze_setup(void (*look)(bool last));

/* Whether anything looks. */
bool pk_doze_looks(void);

/* The thread begins to wait with node w (pk_self.waits), for that word, or what `pass` takes (pthread/word.h). `flags`: the
 * gate's, or null: it takes the word by a look only. */
struct pk_waiter;
void pk_doze_begin(struct pk_waiter *w, const int *word, const uint64_t *flags, bool (*pass)(const int *word));

/* As pk_futex_wait(), for a thread that waits in a queue (pk_self.waits). It may return early, with the place given up.
 */
int pk_doze(const void *word, uint32_t expected, const struct pk_deadline *deadline);

/* For one that sleeps there in another way, for 100 ms at most, and again: it has done so. */
void pk_doze_over(void);

/* Whether the word that the thread waits for is free, and may be taken out of turn (not if `pass` takes what it stands for,
 * nor past a head that has lost patience); take it. */
bool pk_doze_sees_free(void);
bool pk_doze_take(void);

/* Whether it is known to be held for long (PK_FLAG_SLOW, pthread/word.c). */
bool pk_doze_is_slow(void);

enum {
	PK_DOZE_IDLE = 4, /* so many looks has one behind it that need not look yet */
	PK_DOZE_LAST = 6, /* at this one the place is given up in any case: with 250 ms for the first, after 15.75 s; sooner with a
			    deadline by CLOCK_REALTIME, for which no sleep is longer than a second */
};

/* As pk_doze(), without a place: sleep until the deadline or the next look, `looks` being counted on from 0. `*look`: it
 * is time to look. 0, ETIMEDOUT, or EAGAIN as pk_futex_sleep() has it. */
int pk_doze_alone(const void *word, uint32_t expected, const struct pk_deadline *deadline, unsigned *looks, bool *look);

#endif
