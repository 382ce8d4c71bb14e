/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping outside of the admission queue, by socket or cache group (PARKADE_PARKING=socket, or auto):
 * CST's parking lists, for every policy.
 *
 * A waiter that would have to sleep in the queue leaves it, or does not enter it, and
 * sleeps in a bay of its cohort. So the queue holds those who spin, and its head. When
 * it has run dry a batch of sleepers is called, who queue again; and now and then one is, or a few are,
 * so that all get their turn.
 *
 * This pays where waiters spin, and while that helps them. By `auto` others sleep in the
 * queue: those of sockets where nobody may spin, those of a mutex of which the heads have to
 * wait for long (PK_FLAG_SLOW), those of a lock that does not keep that flag, and all while the CPUs are
 * crowded (rt/spin.h). On one socket, and where the order of the queue does not pay, most of them are in neither: they wait at the
 * word (turn.c); and all of them where that has been tried, and is better (trial.h). */
#ifndef PK_LOT_H
#define PK_LOT_H

#include "admit/admit.h"
#include "base/layout.h"
#include "pthread/word.h"
#include "rt/futex.h"

/* Whether waiters sleep here, ever: set once, in the constructor. */
extern bool pk_lot_open;
/* And whether that depends on how the heads fare (PK_FLAG_SLOW). */
extern bool pk_lot_adapts;

/* PARKADE_PARKING. After pk_spin_setup(). */
void pk_lot_setup(const char *parking);
/* Sleep by cache group, where several share a socket and pk_levels_read() has found them. */
void pk_lot_divide(void);

/* The *cohort* of a thread on that socket, in whose bays it sleeps: its cache group, or else its socket. `serial`: as for
 * pk_socket_here(). */
unsigned pk_lot_cohort(unsigned socket, uint32_t serial);

/* Whether how those on that socket wait for that lock depends on how its heads fare, and its users: they may spin, and the lock
 * keeps the flags. */
bool pk_lot_adapts_to(const struct pk_site *at, unsigned socket);

/* How a thread on that socket is to wait there: one of PK_LEAVES, PK_STAYS and
 * PK_SLEEPS. */
enum pk_manner pk_lot_manner(const struct pk_site *at, unsigned socket);

/* Whether those who wait for that lock, on that socket, had better do so at its word, as glibc's waiters do: the above, and there
 * is one socket, or the order of the queue does not pay (pthread/turn.c, admit/order.h). */
bool pk_lot_apart(const struct pk_site *at, unsigned socket);
/* Whether it pays to queue for that lock, or on one socket to have a head, as far as is known (admit/order.h). */
bool pk_lot_pays(const struct pk_site *at);

/* Sleep until called, or until that time (CLOCK_MONOTONIC) at the latest. May return
 * early. How to wait from then on: PK_CALLED or PK_LEAVES; or PK_STAYS if it is that late,
 * there is no room to sleep here, or the CPUs are crowded. */
enum pk_manner pk_lot_park(struct pk_gate *gate, unsigned cohort, const struct timespec *until);

/* To be called by who is going to wait in the queue: calls a sleeper now and then, or a few, so that
 * it is not always the same who circulate. `turn`: how often the caller has done that, or
 * the low bits of it. */
void pk_lot_rotate(struct pk_gate *gate, unsigned cohort, unsigned turn);

/* To be called by everyone who has waited, when its wait is over in whatever way: calls
 * sleepers if nobody is in the queue, or the CPUs are crowded. `cohort`: the caller's. */
void pk_lot_check(struct pk_gate *gate, unsigned cohort);
/* The same for who has waited elsewhere: its cohort is that of the CPU it is on. */
void pk_lot_check_here(struct pk_gate *gate);

#endif
