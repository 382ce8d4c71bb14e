/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Readers that are counted apart: not in the lock's state, which all sockets share,
 * but where no other socket writes.
 *
 * The number of readers of a lock is the sum of
 *	- the count in its state;
 *	- the entries that name it in the threads' records (the visible readers of
 *	  BRAVO, which the ShflLock paper measures in section 6.1, figure 9 (c); here
 *	  with a line of its own for each thread instead of a hash table);
 *	- the users of its bays, one or more a socket (CST section 5.2).
 * Readers are alike: an unlock takes one away wherever it finds one, so a thread may
 * migrate, or unlock what another has locked, and the sum is right.
 *
 * A reader may count itself apart while the state has PK_RW_SPREAD. A writer counts
 * the readers back in (recall) before it looks whether there are any: nobody is
 * stopped for that, and a lock may change from one to the other at any time. */
#ifndef PK_READERS_H
#define PK_READERS_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/layout.h"
#include "rt/thread.h"

/* PARKADE_READERS. Once, in the constructor. Until then readers are counted centrally. */
void pk_readers_setup(const char *mode);

/* Readers are to be counted apart from the first reading on, not only when they
 * contend. */
extern bool pk_readers_eager;

/* Visible readers are the way. */
extern bool pk_readers_visible;

/* Count the calling thread as a reader, apart. False: it is not counted. The state has
 * been seen (acquire) with PK_RW_SPREAD. */
bool pk_readers_enter(struct pk_rwlock *rw);

/* The end of pk_readers_enter() by way of that entry, which names the lock now. */
bool pk_readers_confirm(struct pk_rwlock *rw, uint64_t *entry);

/* The same as pk_readers_enter() and _leave(), for those who nest their locks. False if
 * that is not so: then they are to be called. */
PK_INLINE bool pk_readers_push(struct pk_rwlock *rw)
{
	struct pk_record *r = pk_self.record;
	unsigned n = pk_self.apart;
	uint64_t none = 0;

	if (pk_unlikely(!r || n >= PK_RECORD_READS || !pk_load_relaxed(&pk_readers_visible)) ||
	    pk_unlikely(!pk_cas_seq_cst(&r->reads.lock[n], &none, (uint64_t)(uintptr_t)rw))) /* readers.c: O1 */
		return false;
	return pk_readers_confirm(rw, &r->reads.lock[n]);
}

PK_INLINE bool pk_readers_pop(struct pk_rwlock *rw, uint64_t state)
{
	struct pk_record *r = pk_self.record;
	unsigned n = pk_self.apart - 1;
	uint64_t name = (uint64_t)(uintptr_t)rw;

	if (pk_unlikely(!r || n >= PK_RECORD_READS || !(state & PK_RW_SPREAD)))
		return false;
	if (!pk_cas_release(&r->reads.lock[n], &name, 0)) /* readers.c: O2 */
		return false;
	pk_self.apart = n;
	return true;
}

/* Take a reader that the calling thread has counted apart away again. `state` has been
 * read (acquire) since. False: it has none, or it has been counted back in. */
bool pk_readers_leave(struct pk_rwlock *rw, uint64_t state);

/* Take away any reader that is counted apart; false if none was found: they come and go
 * meanwhile. For who unlocks what another thread has locked. */
bool pk_readers_leave_any(struct pk_rwlock *rw);

/* A read was contended; the caller is a reader. Perhaps they should be counted apart. */
void pk_readers_warm(struct pk_rwlock *rw);

/* By who holds rw->lock, before it is the first of this process to have written in `closed_by': in a child of fork
 * nobody withdraws what other threads were about to, so entries are to be looked at before readers are counted apart again. */
void pk_readers_inherit(struct pk_rwlock *rw);

/* A writer is about to leave the state as `s`: the state as it may leave it. With SPREAD, if the last recalls have found
 * readers, and no writer waits: they would get into each other's way once more. */
uint64_t pk_readers_resume(const struct pk_rwlock *rw, uint64_t s);

/* By who holds rw->lock: count all readers in the state, from now on, too. `close`: with PK_RW_CLOSED. */
void pk_readers_recall(struct pk_rwlock *rw, bool close);

/* The lock is being destroyed: nobody is its reader any more. */
void pk_readers_forget(struct pk_rwlock *rw);

/* The mutex of those who wait: take it if it is free, and let it go. */
bool pk_rwlock_front_try(struct pk_rwlock *rw);
void pk_rwlock_front_leave(struct pk_rwlock *rw);

#endif
