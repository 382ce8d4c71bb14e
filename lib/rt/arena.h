/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Thread records and queue nodes: memory of our own that outlives its thread.
 *
 * A record is taken by a thread at its first contended wait and given back when
 * the thread exits; later threads reuse it. Its memory is type-stable and never
 * unmapped, so a late reader of a node reads a node.
 *
 * A node is named by its id: 1 + 4 * (index of its record) + (node in record).
 * Queues hold an id together with the *incarnation* of the process, a number
 * that changes at fork: the child has one thread, and what its inherited queues
 * name are ghosts. A tail of another incarnation counts as no predecessor.
 *
 * Node ownership (`busy`):
 *	0 -> 1	by the thread that owns the record, when it starts to wait
 *	1 -> 0	by whoever passes the node last: its thread when it leaves the
 *		queue with a known successor or none, else the one that finds
 *		it abandoned or left (admit/list.h) */
#ifndef PK_ARENA_H
#define PK_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

enum {
#define PK_STAT(name, doc) PK_STAT_##name,
#include "rt/stat.def"
#undef PK_STAT
	PK_STATS
};

enum { PK_RECORD_NODES = 4 };

/* The state of a waiter; who changes it is in admit/list.h. */
enum pk_status {
	PK_WAITING,   /* spins, and will park when its budget is spent */
	PK_SPINNING,  /* has been granted another budget */
	PK_PARKED,    /* sleeps on its status, or is about to */
	PK_HEAD,      /* is the head of the queue */
	PK_ABANDONED, /* timed out; linked until somebody passes the node */
	PK_ORPHAN,    /* its queue is another process's: fork happened */
};

struct pk_record;

struct pk_waiter {
	/* Polled by the waiter; written by it and by who passes or rouses it.
	 * The futex word that it parks on. Values: enum pk_status. */
	uint32_t status;
	uint32_t busy;
	struct pk_waiter *next; /* written once by the successor, or shuffled */
	/* The shuffling policies' own (admit/shfl.c). */
	struct pk_waiter *hint;
	uint32_t batch;
	uint32_t shuffler;
	/* Constant while the node is in a queue. */
	const void *queue; /* which: a copied lock's tail names strangers */
	uint32_t id;
	uint16_t socket;
	bool spins; /* its thread has a place among the spinners */
	bool slept; /* has parked, and may have been moved to the lock word */
	struct pk_record *record;
} PK_ALIGNED(PK_CACHE_LINE);

struct pk_record {
	uint32_t index;
	uint32_t next_free; /* 1 + index, while on the free list */
	uint64_t stat[PK_STATS];
	struct pk_waiter node[PK_RECORD_NODES];
} PK_ALIGNED(PK_CACHE_LINE);

/* A record for the calling thread, or null when no memory can be had. */
struct pk_record *pk_record_take(void);
/* Give a record back. Nodes of it may still be linked in queues. */
void pk_record_give(struct pk_record *record);

/* After fork, in the child: all records are free, all nodes are ghosts. */
void pk_arena_fork_child(void);

/* A node that is not busy, made busy, or null. Safe against a signal handler
 * of the same thread that does the same. */
struct pk_waiter *pk_waiter_take(struct pk_record *record);

/* The last access to a node by somebody else than its thread. Release: what was
 * read of the node is read before its thread uses it again; pairs with the
 * acquire in pk_waiter_take(). */
PK_INLINE void pk_waiter_free(struct pk_waiter *w)
{
	pk_store_release(&w->busy, 0);
}

/* What a queue's tail holds for a node of this process. */
uint64_t pk_waiter_name(const struct pk_waiter *w);
/* The node of such a name; null for 0, for a ghost's and for no name at all. */
struct pk_waiter *pk_waiter_named(uint64_t name);

/* Set once by the constructor; differs from every ancestor process's. */
extern uint32_t pk_incarnation;
void pk_incarnation_next(void);

PK_INLINE void pk_count_in(struct pk_record *r, int which)
{
	/* One writer: no read-modify-write needed. */
	pk_store_relaxed(&r->stat[which], pk_load_relaxed(&r->stat[which]) + 1);
}

PK_INLINE void pk_count(struct pk_waiter *w, int which)
{
	pk_count_in(w->record, which);
}

/* The sum of one counter over all records. */
uint64_t pk_stat_sum(int which);

#endif
