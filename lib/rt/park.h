/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping by socket, where all who wait for an object may go on together (CST section
 * 5.2, distributed wake-up): who lets them go calls one sleeper of each socket, and
 * that one, once it has what it waited for, calls the others of its own.
 *
 *	bay = pk_park_enter(socket, object);
 *	do calls = pk_park_ready(bay);
 *	while (nothing to be had, and the object's flag for sleepers is set
 *	       && !pk_park_sleep(bay, calls, deadline, &looks, &look));
 *	if (pk_park_leave(bay, object))
 *		had it: pk_park_call_some(bay, n), until it wakes fewer, or the bay is not the object's any more
 *		did not: the same, or see to it that somebody calls again
 *
 * Who sets the condition, and finds the flag for sleepers set, clears the flag and
 * then calls. The object may be gone by then: only its address is used. */
#ifndef PK_PARK_H
#define PK_PARK_H

#include "rt/futex.h"
#include "rt/storey.h"

/* Null: there is no bay to sleep in. */
PK_INLINE struct pk_bay *pk_park_enter(unsigned socket, const void *object)
{
	return pk_bay_enter(socket, object);
}

/* How often the bay's sleepers have been called. What is looked at afterwards is no
 * older than this, nor than the caller's place in the bay. */
uint32_t pk_park_ready(struct pk_bay *bay);

/* Sleep, unless called since then. May return early, and does so for a look, as pk_doze_alone() (rt/doze.h). 0 or
 * ETIMEDOUT. */
int pk_park_sleep(struct pk_bay *bay, uint32_t calls, const struct pk_deadline *deadline, unsigned *looks, bool *look);

/* True: the others of the bay are the caller's to see to. */
bool pk_park_leave(struct pk_bay *bay, const void *object);

/* Wake so many in the bay. How many were. */
int pk_park_call_some(struct pk_bay *bay, int n);

/* Wake the first in each of the object's bays. How many were. */
int pk_park_call(const void *object);

#endif
