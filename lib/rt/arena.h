/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Thread records and queue nodes: memory of our own that outlives its thread.
 *
 * A record is taken by a thread at its first contended wait and given back when
 * the thread exits; later threads reuse it. Its memory is type-stable and never
 * unmapped, so a late reader of a node reads a node. It is all that a waiting thread
 * costs: 576 bytes on a 64-bit machine, and no more for a second lock.
 *
 * A node is named by its id: 1 + 4 * (index of its record) + (node in record), or what
 * storey.c makes of the bay whose context it is.
 * Queues hold an id together with the *incarnation* of the process, a number
 * that changes at fork: the child has one thread, and what its inherited queues
 * name are ghosts. A tail of another incarnation counts as no predecessor. Beside
 * the id stands the policy by which the node queues (admit/tail.h).
 *
 * Node ownership (`busy`):
 *	0 -> 1	by the thread that owns the record, when it starts to wait
 *	1 -> 0	by whoever passes the node last: its thread when it leaves the
 *		queue with a known successor or none, else the one that finds
 *		it abandoned or left (admit/list.h) */
#ifndef PK_ARENA_H
#define PK_ARENA_H

#include <pthread.h>
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

extern const char *const pk_stat_names[PK_STATS];

enum { PK_RECORD_NODES = 4 };
enum {
	PK_NAME_POLICY_SHIFT = 24,			  /* ids have fewer bits */
	PK_CONTEXT_IDS = 1 << (PK_NAME_POLICY_SHIFT - 1), /* those above are contexts' (storey.h) */
};

/* The state of a waiter, in the low bits of its status; who changes it is in
 * admit/list.h and pthread/cond.c. The bits above count the uses of the node, so
 * that what is meant for one wait does not reach a later one. */
enum pk_state {
	/* There is a place to give up: */
	PK_WAITING,  /* spins, and will park when its budget is spent */
	PK_SPINNING, /* has been granted another budget */
	PK_PARKED,   /* sleeps on its status, or is about to */
	PK_BLOCKED,  /* the same, and it is a condition variable that it waits for */
	PK_CLAIMED,  /* the same; it has been signalled, and will be told what to do */
	/* There is none: */
	PK_HEAD,      /* is the head of the queue */
	PK_ABANDONED, /* gave up; linked until somebody passes the node */
	PK_DEAD,      /* gave up; it has a number that somebody else passes on (admit/ticket.h) */
	PK_ORPHAN,    /* its queue is another process's: fork happened */
	PK_SIGNALLED, /* has been signalled, and may go for the mutex */
	PK_LEAVING,   /* waits no longer; in its condition variable's list until it unlinks itself */
	PK_STATE_MASK = 15,
};

PK_INLINE enum pk_state pk_state(uint32_t status)
{
	return (enum pk_state)(status & PK_STATE_MASK);
}

/* The same use of a node in another state. */
PK_INLINE uint32_t pk_in_state(uint32_t status, enum pk_state state)
{
	return (status & ~(uint32_t)PK_STATE_MASK) | state;
}

/* How often the node has been used, modulo 2^28. */
PK_INLINE uint32_t pk_uses(uint32_t status)
{
	return status / (PK_STATE_MASK + 1);
}

/* How a thread waits in a queue (pthread/turn.c). */
enum pk_manner {
	PK_LEAVES,  /* spins if there is room, and then leaves, to sleep elsewhere */
	PK_CALLED,  /* the same, after it has slept there, or to be one of a few: spins whether there is room or not */
	PK_STAYS,   /* spins if there is room, and then sleeps in its place */
	PK_SLEEPS,  /* at once */
	PK_UNTIMED, /* sleeps, since before it was in the queue, and does not look in time (rt/doze.h) */
	PK_ENDLESS, /* the same, without a timer until it is woken once, by who puts it there (pthread/cond-signal.c) */
	PK_TOGETHER, /* sleeps in the hall of that number (rt/hall.h), which is added, and is never put into a queue */
};

struct pk_queue;
struct pk_record;

struct pk_waiter {
	/* Polled by the waiter; written by it and by who passes or rouses it.
	 * The futex word that it parks on: enum pk_state and a count of uses. */
	uint32_t status;
	uint32_t busy;
	struct pk_waiter *next; /* written once by the successor, or shuffled */
	/* The policies' own. */
	struct pk_waiter *hint;
	uint32_t batch;
	uint8_t shuffler;
	/* Constant while the node is in a queue. */
	uint8_t policy;		/* by which it waits there */
	uint8_t manner;		/* enum pk_manner, or TOGETHER and a hall; ENDLESS -> UNTIMED by its thread, when it has been woken */
	bool leads;		/* it has its cohort's lock, and waits for one above (admit/levels.c) */
	struct pk_queue *queue; /* which: a copied lock's tail names strangers */
	union {
		struct pk_queue *home;	 /* where a signal moves it to, or null (pthread/cond-signal.c) */
		struct pk_waiter *aside; /* in a queue: the first one of those set aside (admit/list.h) */
	};
	uint32_t id;
	uint8_t socket;
	uint8_t cohort;		  /* its cache group, or socket (pthread/lot.h) */
	bool spins;		  /* its thread has a place among the spinners */
	bool slept;		  /* has parked since it was roused, and may have been moved to the lock word */
	struct pk_record *record; /* a context's: of the thread that waits with it, or null */
} PK_ALIGNED(PK_CACHE_LINE);

_Static_assert(sizeof(struct pk_waiter) == PK_CACHE_LINE || sizeof(void *) != 8, "a node is one cache line");

enum { PK_RECORD_READS = 7 };

/* Read locks that the thread has not counted in the lock itself (pthread/readers.h).
 * An entry is 0 or the lock's address with one of these in the low bits. A line of its
 * own: who counts a lock's readers looks at the entries of all threads. */
enum {
	PK_READ_HERE = 0,    /* this entry is what counts the reader */
	PK_READ_IN_BAY = 1,  /* it is counted in a bay of `socket` */
	PK_READ_CENTRAL = 2, /* it is counted in the lock by now */
	PK_READ_VOID = 3,    /* it is not counted: free, for the thread */
	PK_READ_TAG = 3,
};

struct pk_reads {
	uint64_t lock[PK_RECORD_READS];
	uint8_t socket[PK_RECORD_READS];
} PK_ALIGNED(PK_CACHE_LINE);

struct pk_record {
	uint32_t index;
	uint32_t next_free;   /* 1 + index, while on the free list */
	pthread_t thread;     /* whose it is, or 0 */
	uint32_t incarnation; /* the process's when the thread took it */
	bool cancelled;	      /* pthread_cancel was called for that thread (pthread/cancel.c) */
	bool acts;	      /* and it has acted on it */
	uint16_t turns;	      /* its waits in queues, modulo 65536 (pthread/lot.c) */
	uint64_t stat[PK_STATS];
	struct pk_reads reads; /* what the last owner left there stays */
	struct pk_waiter node[PK_RECORD_NODES];
} PK_ALIGNED(PK_CACHE_LINE);

_Static_assert(sizeof(struct pk_record) <= 576 || sizeof(void *) != 8, "a record is larger than is said above");

/* A record for the calling thread, or null when no memory can be had. */
struct pk_record *pk_record_take(void);
/* Give a record back. Nodes of it may still be linked in queues. */
void pk_record_give(struct pk_record *record);

/* After fork, in the child: all nodes are ghosts. The first `kept` records are not
 * given out again. Readers that were counted in bays are counted by their entries: as
 * with glibc, the child finds locks held as they were. */
void pk_arena_fork_child(uint32_t kept);

/* All ones; 0 in the child of a fork, whichever it was, until its handler has run, or it has been asked for often enough: the
 * thread may have another tid (rt/thread.c). And 0 where calls are forwarded to glibc. */
extern uint32_t *pk_settled __attribute__((visibility("hidden")));
/* It has what it will have; or, if that is not known, has been asked for it once more: some times are enough. */
void pk_settle(bool known);
/* It is 0 for good: everybody asks. */
void pk_settle_never(void);

/* How many records have ever been in use. */
uint32_t pk_arena_used(void);

/* For who looks for readers in every record: how many there are, a forking ancestor's
 * included, and each of them. */
uint32_t pk_arena_known(void);
struct pk_record *pk_record_nth(uint32_t index);

/* A node that is not busy, made busy, or null. Safe against a signal handler
 * of the same thread that does the same. */
struct pk_waiter *pk_waiter_take(struct pk_record *record);

/* How many nodes are not busy. Whoever may leave one behind in a queue leaves one
 * here: a wait for a condition variable cannot do without. */
unsigned pk_waiters_idle(const struct pk_record *record);

/* Give up the place of a node: in a queue it is ABANDONED, and belongs to who passes
 * it; in a condition variable's list it is LEAVING, and still its thread's. False if
 * there is no place any more: it has been made the head, signalled, orphaned, or given
 * up before. Release: the waiter's last use of an abandoned node; pairs with the
 * acquire of who passes it; `spins` and the counters are the thread's own still. */
PK_INLINE bool pk_waiter_abandon(struct pk_waiter *w)
{
	uint32_t seen = pk_load_relaxed(&w->status);

	do {
		if (pk_state(seen) >= PK_HEAD)
			return false;
	} while (!pk_cas_release(&w->status, &seen,
				 pk_in_state(seen, pk_state(seen) == PK_BLOCKED ? PK_LEAVING : PK_ABANDONED)));
	return true;
}

/* A new use of a node that nobody else knows yet, in that state. Its own order is that of who publishes it. */
PK_INLINE void pk_waiter_begin(struct pk_waiter *w, enum pk_state state)
{
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status) + PK_STATE_MASK + 1, state));
}

/* The same use in another state, of a node that is in no place where others would look at its status. relaxed: for the
 * thread and its handlers. But one of these may fork, and an orphan stays one. */
PK_INLINE void pk_waiter_set_state(struct pk_waiter *w, enum pk_state state)
{
	uint32_t seen = pk_load_relaxed(&w->status);

	while (pk_state(seen) != PK_ORPHAN && !pk_cas_relaxed(&w->status, &seen, pk_in_state(seen, state)))
		;
}

/* Which record's it is, without a look at that. */
PK_INLINE uint32_t pk_waiter_serial(const struct pk_waiter *w)
{
	return (w->id - 1) / PK_RECORD_NODES;
}

PK_INLINE bool pk_waiter_stays(const struct pk_waiter *w)
{
	return w->manner >= PK_STAYS;
}

/* Of another thread's node, which may be in another use by now. */
PK_INLINE unsigned pk_waiter_manner(const struct pk_waiter *w)
{
	return pk_load_relaxed(&w->manner);
}

/* Acquire: what comes with the headship, for who was about to give up, and then leaves as the head (list.h, O3). */
PK_INLINE bool pk_waiter_is_head(const struct pk_waiter *w)
{
	return pk_state(pk_load_acquire(&w->status)) == PK_HEAD;
}

/* The last access to a node by somebody else than its thread. Release: what was
 * read of the node is read before its thread uses it again; pairs with the
 * acquire in pk_waiter_take(). */
PK_INLINE void pk_waiter_free(struct pk_waiter *w)
{
	pk_store_release(&w->busy, 0);
}

/* What a queue's tail holds for a node of this process, and the policy that it says. */
uint64_t pk_waiter_name(const struct pk_waiter *w);

PK_INLINE unsigned pk_name_policy(uint64_t name)
{
	return (unsigned)(name >> PK_NAME_POLICY_SHIFT) & 0xff;
}

/* The node of such a name; null for 0, for a ghost's and for no name at all. */
struct pk_waiter *pk_waiter_named(uint64_t name);

/* The incarnation of the process: made ready once, in the constructor, and changed
 * there and after fork to one that differs from every ancestor's. */
uint32_t pk_incarnation(void);
void pk_incarnation_setup(void);
/* True for one caller in each child of a fork, and for all where it cannot be told:
 * who is to see to the next incarnation, which is 0 until then if it can be told. */
bool pk_incarnation_claim(void);
void pk_incarnation_next(void);

/* Counts nothing for a thread without a record (null). */
PK_INLINE void pk_count_in(struct pk_record *r, int which)
{
	/* One writer: no read-modify-write needed. */
	if (pk_likely(r != NULL))
		pk_store_relaxed(&r->stat[which], pk_load_relaxed(&r->stat[which]) + 1);
}

PK_INLINE void pk_count(struct pk_waiter *w, int which)
{
	pk_count_in(w->record, which);
}

/* The record of that thread, or null; of several the next one after `after` (null: the first). It may be another thread's
 * by the time that it is used, if that one exits. Several: a thread that took its record in its last destructor could not
 * give it back, and later ones may have its number. */
struct pk_record *pk_record_of(pthread_t thread, const struct pk_record *after);

/* The sum of one counter over all records. */
uint64_t pk_stat_sum(int which);

#endif
