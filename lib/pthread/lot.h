/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping outside of the admission queue, by socket (PARKADE_PARKING=socket): CST's
 * parking lists, for every policy.
 *
 * A waiter that would have to sleep in the queue leaves it, or does not enter it, and
 * sleeps in a bay of its socket. So the queue holds those who spin, and its head. When
 * it has run dry a batch of sleepers is called, who queue again. */
#ifndef PK_LOT_H
#define PK_LOT_H

#include "base/layout.h"
#include "rt/futex.h"

/* Whether waiters sleep here: set once, in the constructor. */
extern bool pk_lot_open;

/* Sleep until called, or until that time (CLOCK_MONOTONIC) at the latest. May return
 * early. False: it is that late, or there is no room to sleep here; the caller is to
 * queue, and to sleep in its place. */
bool pk_lot_park(struct pk_gate *gate, unsigned socket, const struct timespec *until);

/* To be called by everyone who has waited, when its wait is over in whatever way: calls
 * sleepers if nobody is in the queue. `socket`: the caller's. */
void pk_lot_check(struct pk_gate *gate, unsigned socket);

#endif
