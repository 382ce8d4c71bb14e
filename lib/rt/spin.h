/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How long to spin, and who may.
 *
 * The head of a queue may always spin for PARKADE_SPIN rounds, as its turn is
 * next. Those behind it spin only while their socket has CPUs to spare: one
 * goes to the lock's holder and one to the head. So on an over-subscribed
 * machine, and on one of two CPUs, waiters park at once. */
#ifndef PK_SPIN_H
#define PK_SPIN_H

#include <stdbool.h>

#include "rt/arena.h"

/* After pk_config_read() and pk_topology_read(). */
void pk_spin_setup(void);

/* After fork, in the child: nobody spins. */
void pk_spin_fork_child(void);

/* The budget of a head, in rounds of pk_spent(). */
unsigned pk_spin_head(void);

/* The budget of a thread that tries to steal the word before it queues: a third of
 * that of the head. Longer, and two threads hand a short critical section to and fro
 * between their CPUs where one would run it ten times over (doc/DESIGN.md 10). */
unsigned pk_spin_steal(unsigned head);

/* The budget of who waits in front of a reader-writer lock: the head's, or none where
 * the process has but two CPUs. There the other one is better used by who holds the
 * lock: it takes it many times before a sleeper is up (doc/DESIGN.md 10). */
unsigned pk_spin_front(void);

/* Take a place among the spinners of w's socket, if there is room, for the
 * budget that is returned (0: no room). Its end is pk_spin_end(). */
unsigned pk_spin_begin(struct pk_waiter *w);
void pk_spin_end(struct pk_waiter *w);

/* Whether another waiter on that socket could spin now. */
bool pk_spin_room(unsigned socket);
/* How many more could. */
unsigned pk_spin_rooms(unsigned socket);

#endif
