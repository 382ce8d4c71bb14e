/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the clients of locks.c and rwlocks.c have in common. */
#ifndef MC_LOCKS_H
#define MC_LOCKS_H

#include "base/queue.h"
#include "model/model.h"
#include "rt/arena.h"

/* Which threads do the same, if they are of the same socket. */
enum mc_alike { MC_ALL, MC_OTHERS /* all but thread 0 */, MC_NONE };

/* One way in which threads use a lock. */
struct mc_kind {
	const char *name;
	void (*setup)(void); /* when the library is ready; or null */
	void (*body)(unsigned thread);
	void (*final)(void); /* when all that they have in common has been looked at */
	enum mc_alike alike;
	bool bare; /* no thread has a record when it begins, no storey is mapped (records.c) */
	const int *word; /* of the lock that waiters are queued for, if only who has it may leave them without a timer */
};

/* How often each thread of a crowd does something: clients that are played at random, not explored. */
enum { MC_ROUNDS = 3 };

extern const struct mc_kind mc_rwlock_kinds[], mc_queue_kinds[], mc_cond_kinds[],
	mc_record_kinds[], mc_trial_kinds[];

/* Begin a body: the thread gets its record. */
void mc_thread_begin(unsigned thread);
extern unsigned mc_threads;
extern bool mc_hall; /* who waits for a condition variable sleeps in its hall */
extern struct pk_record *mc_record[MC_THREADS];

/* states.c: tell which states these have gone through. */
struct pk_rwlock;
void mc_watch_node(struct pk_waiter *node);
void mc_watch_record(struct pk_record *r);
void mc_watch_word(const int *word);
void mc_watch_rwlock(const struct pk_rwlock *rw);
void mc_watch_bays(const void *object);

/* Begin a body as a thread that has not called the library yet, and end it. */
void mc_thread_new(unsigned thread);
void mc_thread_end(void);

/* The object at that address has no users: no bays, and nobody is in the queue of its own. */
void mc_is_idle(const void *object, struct pk_queue *queue);

#endif
