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
 * Two threads that claim while a third returns one of that set may get two bays for one
 * object: who looks for users must look at all (pk_bay_next). When the bays of an object's set are all
 * taken there is none, and the caller does without.
 *
 * Whoever needs storeys of another kind of cohort than sockets (cache groups, cores), or
 * other ones than those that all share, has some allotted to it. In these a bay comes with
 * two *contexts*: queue nodes with which its users wait together for something else, one
 * of them at a time (admit/levels.h). A context is busy until whoever passes it has freed
 * it, maybe long after the bay has been returned, and has a record for as long as a thread
 * waits with it, awake or in a signal handler: it is taken when neither is the case. */
#ifndef PK_STOREY_H
#define PK_STOREY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "rt/arena.h"
#include "rt/topology.h"

enum {
	PK_BAY_SETS = 64,
	PK_BAY_WAYS = 4,
	PK_BAY_USERS_MAX = 1023,
	PK_BAYS = PK_BAY_SETS * PK_BAY_WAYS, /* of a storey */
	PK_BAYS_MAX = PK_SOCKETS_MAX * PK_BAYS,
	PK_BAY_CONTEXTS = 2,
	/* Storeys beyond the sockets' own. Each of their contexts has a name (arena.h). */
	PK_STOREYS_MORE = (1 << 14) - 1,
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

/* So many storeys in a row for the caller alone; the number of the first, which goes where
 * a socket's would, or 0 if there are not so many left. For the process's life. */
unsigned pk_storeys_allot(unsigned n);

/* A context of that bay of an allotted storey, or null. Its user, who has the right to,
 * clears `record` in the end (release). */
struct pk_waiter *pk_context_take(unsigned storey, const struct pk_bay *bay, struct pk_record *record);

/* Every context, by number; null: not there. For who looks for one. */
uint32_t pk_contexts_known(void);
struct pk_waiter *pk_context_nth(uint32_t n);

/* Become a user of the object's bay on that socket, of a new one if it has none.
 * Null: none is free, there is no memory, or `object` is not 4-byte aligned. Sequentially
 * consistent with pk_bay_next(): who enters and then looks at a flag sees it set, or
 * is seen by who sets it and then looks for users. */
struct pk_bay *pk_bay_enter(unsigned socket, const void *object);

/* Be a user no more: the last one returns the bay. How many users it had; 0, and nothing
 * is done, if it has none of that object (it was closed, another one has left in the
 * caller's place, or this is a child of fork).
 * Release; acquire for the bay's next claimant, and for who is told 0: what they did who
 * have taken its users out. */
unsigned pk_bay_leave(struct pk_bay *bay, const void *object);

/* The same for any of the object's users on that socket; false if there is none. */
bool pk_bay_leave_any(unsigned socket, const void *object);

/* The object's bays on that socket, one after the other: the first for `last` null,
 * null after the last one. */
struct pk_bay *pk_bay_next(unsigned socket, const void *object, struct pk_bay *last);

/* How many users of that object the bay has. Acquire: what those who left did. */
unsigned pk_bay_users(struct pk_bay *bay, const void *object);

/* Whose bay it is, as pk_bay_leave() takes it; for a user. */
const void *pk_bay_object(const struct pk_bay *bay);

/* Take all users out at once and return the bay; false if there are not just so many.
 * Acquires what they released. */
bool pk_bay_close(struct pk_bay *bay, const void *object, unsigned users);

/* The name of a bay: a number below PK_BAYS_MAX; and the bay of such a name, or null. */
uint32_t pk_bay_number(unsigned socket, const struct pk_bay *bay);
struct pk_bay *pk_bay_numbered(uint32_t number);

/* After fork, in the child: all bays are free, and so are the contexts, but for those with
 * which the thread itself waits, in a signal handler that forked: that wait is over. */
void pk_storeys_fork_child(void);

#endif
