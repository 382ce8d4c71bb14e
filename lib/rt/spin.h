/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How long to spin, and who may.
 *
 * The head of a queue may always spin for PARKADE_SPIN rounds, as its turn is
 * next. Those behind it spin only while their socket has CPUs to spare: half of
 * them, seven of eight where the lock would else leave for another socket, and no
 * more than 16, which is enough for a lock to be as fast as with more
 * (sim/FINDINGS.md); where nobody sleeps outside of the queue (PARKADE_PARKING) all
 * but two, one for the holder and one for the head. So on an over-subscribed machine,
 * and on one of two CPUs, waiters park at once. There are fewer places while those
 * who spin wait in vain: those who do so at the same time cost one place together.
 *
 * Where there are CPUs to spare a budget is a time, which is worth more than a sleep and
 * a wake-up cost: a round takes 4 to 60 ns (rt/rounds.h), and a queue of 16 is longer than
 * 300 short ones. PARKADE_SPIN is the least that it comes to, in rounds; below 256 it is taken
 * literally.
 *
 * Who finds that it has been without a CPU while it spun has seen that the CPUs are too few for the
 * threads: they are *crowded*, for a while. A queue of spinners stands still then whenever the
 * first of them is away. (Where there is one socket.) */
#ifndef PK_SPIN_H
#define PK_SPIN_H

#include <stdbool.h>

#include "rt/arena.h"

/* Who has spun for so long would have had its CPU do more had it slept. With 4 us the queues of eight sockets lose a tenth (hand-overs
 * take long there), and so do the short sections of sixteen CPUs. */
enum { PK_SPIN_LONG_NS = 8000 };

/* After pk_config_read() and pk_topology_read(). */
void pk_spin_setup(void);

/* After fork, in the child: nobody spins. */
void pk_spin_fork_child(void);

/* The budget of a head, in rounds of pk_spent(). */
unsigned pk_spin_head(void);

/* The budget of a thread that tries to steal the word before it queues: a third of
 * PARKADE_SPIN. Longer, and two threads hand a short critical section to and fro
 * between their CPUs where one would run it ten times over (doc/DESIGN.md 10). */
unsigned pk_spin_steal(unsigned head);

/* The budget of who waits in front of a reader-writer lock: the head's, or none where
 * the process has but two CPUs. There the other one is better used by who holds the
 * lock: it takes it many times before a sleeper is up (doc/DESIGN.md 10). */
unsigned pk_spin_front(void);

/* The budget of who waits for what may well be over before a sleep and a wake-up would be:
 * readers for a writer to leave, the front for readers to. 10 us, or a third of PARKADE_SPIN
 * where that is longer; none where the front has none. */
unsigned pk_spin_brief(void);

/* The budget of a head on that socket while spinning is not in vain: the same, or that of
 * those behind it where these may spin. */
unsigned pk_spin_patient(unsigned socket);

/* How many waiters of that socket may spin at a time, besides heads. */
unsigned pk_spin_limit(unsigned socket);
/* Whether that is any on some socket. */
bool pk_spin_anywhere(void);
/* Whether there are two CPUs at most, as the topology counts them (a quota, too). */
bool pk_spin_cramped(void);

/* Take a place among the spinners of w's socket, if w is to spin and there is room, or w
 * has been called or waits as if it had been (PK_CALLED), for the budget that is returned (0: no). Its end is pk_spin_end(). */
unsigned pk_spin_begin(struct pk_waiter *w);
void pk_spin_end(struct pk_waiter *w);
/* The same for who has been served after so many rounds, and would have left the queue had it not been. On one socket who has spun
 * for long might as well have slept, and counts as one that has spun in vain; not where heads look away (pthread/word.c), as all
 * wait for them, nor if PARKADE_SPIN is longer than any spinner is by itself. */
void pk_spin_served(struct pk_waiter *w, unsigned rounds);
/* The same as pk_spin_end() for who has the lock by now: no clock is read. */
void pk_spin_done(struct pk_waiter *w);
/* The same for one who has spent the budget, and will sleep. There will be room for fewer,
 * until some have been served. */
void pk_spin_missed(struct pk_waiter *w);

/* The thread is the head of a queue, and looks away: who is behind it waits for that, as it will. */
void pk_spin_away(void);

/* Whether somebody has spun without a CPU of late. */
bool pk_spin_crowded(void);

/* Whether another waiter on that socket could spin now. */
bool pk_spin_room(unsigned socket);
/* How many do. */
unsigned pk_spinners(unsigned socket);
/* How many more could. */
unsigned pk_spin_rooms(unsigned socket);

#endif
