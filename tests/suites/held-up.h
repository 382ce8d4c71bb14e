/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What the suites of threads that are held up in a signal handler (stuck, stuck-cond) share.
 *
 * The handler blocks on what is no lock until all the others have had it, as one does that stops a thread for a garbage
 * collector.  With glibc no thread waits for one that merely waits, too.
 */
#ifndef HELD_UP_H
#define HELD_UP_H

#include "hall.h"

enum { SECONDS = 12, BEHIND = 4 };

/* Before threads are held up. */
void held_up_begin(void);
/* The thread is in the handler, until they are let go on. */
void hold_up(pthread_t victim);
void let_go_on(void);

/* Its mutex is the one that they want. */
extern struct hall hall;
/* How many have had what they want, and have it. */
extern atomic_int through, inside;

/* What is done with the lock. */
void work(void);
/* Locks the hall's mutex, and has been through: without an end, or with one that is far away. */
void *lock_m(void *timed);

#endif
