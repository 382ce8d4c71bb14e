/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Storeys and bays: what locks need per socket, without memory per lock.
 *
 * Each socket owns a *storey*, a table of *bays* in memory that is first touched
 * there: mapped when the socket first needs it, never unmapped. A bay serves one
 * object (the address of a lock, or of a part of one) for as long as somebody on
 * that socket uses it. Its key holds the object's address and the number of users,
 * so that finding, claiming, sharing and returning it are one compare-and-swap on a
 * line of one's own socket (CLoF's waiter count, section 4.1, and CST's snode,
 * section 4.1, in one word). An object that nobody uses has no bay, and the tables
 * bound the memory, not the number of locks.
 *
 * Two threads that claim at once may get two bays for one object: who looks for
 * users must look at all (pk_bay_next). When the bays of an object's set are all
 * taken there is none, and the caller does without. */
#ifndef PK_STOREY_H
#define PK_STOREY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "rt/topology.h"

enum {
	PK_BAY_SETS = 64,
	PK_BAY_WAYS = 4,
	PK_BAY_USERS_MAX = 1023,
	PK_BAYS_MAX = PK_SOCKETS_MAX * PK_BAY_SETS * PK_BAY_WAYS,
};

struct pk_bay {
	uint64_t key; /* address << 8 | users, or 0 */
	/* For its users. Whatever the last one left is found by the next, who may be
	 * another object's. */
	uint32_t calls; /* futex word: how often sleepers were called */
	uint32_t lead;	/* 1: the first one up wakes the others */
	uint64_t unused[6];
} PK_ALIGNED(PK_CACHE_LINE);

_Static_assert(sizeof(struct pk_bay) == PK_CACHE_LINE, "a bay is one cache line");

/* Become a user of the object's bay on that socket, of a new one if it has none.
 * Null: none is free, or there is no memory. `object` is 4-byte aligned. Sequentially
 * consistent with pk_bay_next(): who enters and then looks at a flag sees it set, or
 * is seen by who sets it and then looks for users. */
struct pk_bay *pk_bay_enter(unsigned socket, const void *object);

/* Be a user no more: the last one returns the bay. How many users it had; 0, and nothing
 * is done, if it has none of that object (it was closed, or this is a child of fork).
 * Release; acquire for the bay's next claimant. */
unsigned pk_bay_leave(struct pk_bay *bay, const void *object);

/* The same for any of the object's users on that socket; false if there is none. */
bool pk_bay_leave_any(unsigned socket, const void *object);

/* The object's bays on that socket, one after the other: the first for `last` null,
 * null after the last one. */
struct pk_bay *pk_bay_next(unsigned socket, const void *object, struct pk_bay *last);

/* How many users of that object the bay has. Acquire: what those who left did. */
unsigned pk_bay_users(struct pk_bay *bay, const void *object);

/* Take all users out at once and return the bay; false if there are not just so many.
 * Acquires what they released. */
bool pk_bay_close(struct pk_bay *bay, const void *object, unsigned users);

/* The name of a bay: a number below PK_BAYS_MAX; and the bay of such a name, or null. */
uint32_t pk_bay_number(unsigned socket, const struct pk_bay *bay);
struct pk_bay *pk_bay_numbered(uint32_t number);

/* After fork, in the child: all bays are free. */
void pk_storeys_fork_child(void);

#endif
