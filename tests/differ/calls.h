/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What the parts of calls share: the actors, the objects, and what can be called.
 *
 * A file for each sort of object has its operations. An operation is *legal* for an actor and an object where its
 * outcome is defined and depends on nobody's speed (calls.c says more): who has to wait is let go on by somebody who is
 * awake. The main thread asks that while the actors are done with their calls or asleep in them, and then lets one of
 * them call; so nothing here needs a lock.
 */
#ifndef CALLS_H
#define CALLS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { ACTORS = 3, MUTEXES = 8, CONDS = 3, RWLOCKS = 4, SPINS = 2 };
enum { NOBODY = -1, GONE = -2 };
enum { INCONSISTENT = 0x7fffffff, UNRECOVERABLE = 0x7ffffffe }; /* owners of a robust mutex */
enum { LOG = 4096 };

struct actor;

/* What is called; a is who does, n which object of its sort. */
struct op {
	const char *name;
	int objects;
	bool (*legal)(const struct actor *a, int n);
	int (*call)(struct actor *a, int n);
};

/* Deadlines: one that has passed, and one that is none. */
extern const struct timespec past, bad_ns;

/* ---- actors: threads.c ---- */

struct actor {
	pthread_t thread;
	pid_t tid;
	sem_t go, ready;
	const struct op *op;
	int object;
	uint32_t die; /* what the call needs of the dice */
	int rc;
	bool errno_kept;
	atomic_bool busy; /* in a call */
	atomic_bool ended;
	bool pending; /* it has been cancelled, and does not know yet */
	int at, with; /* the cond and mutex of its wait, or NOBODY */
	int reads[RWLOCKS];
	char log[LOG];
};

extern struct actor actors[ACTORS];
extern const struct op cancel_op, interrupt_op, leave_op, fork_op;

/* Starts its thread, which makes a call whenever it is told to go. */
void begin(struct actor *a);

/* For pthread_cleanup_push, around what can be cancelled. */
void cancelled(void *actor);

int self_of(const struct actor *a);
int actor_of(int tid); /* or GONE; NOBODY for 0 */
bool awake(int actor);
void note(struct actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- mutexes.c ---- */

struct mutex {
	pthread_mutex_t m;
	bool alive;
	int type, shared, robust, protocol;
};

extern struct mutex mutexes[MUTEXES];
extern const struct op mutex_init_op, mutex_lock_op, mutex_trylock_op, mutex_timedlock_op, mutex_unlock_op,
	mutex_destroy_op, mutex_consistent_op, mutex_ceiling_op;

int holder(const struct mutex *m); /* an actor, NOBODY or GONE */
bool is_wanted(const struct mutex *m);
bool can_be_had(const struct mutex *m);
bool is_usable(const struct mutex *m);
bool asks_for_owner(const struct mutex *m); /* before it is unlocked */
unsigned users_of(const struct mutex *m);

/* ---- conds.c ---- */

struct cond {
	pthread_cond_t c;
	bool alive;
	int waiter; /* the actor that sleeps there, not called yet, or NOBODY */
	int mutex;  /* with that */
};

extern struct cond conds[CONDS];
extern const struct op cond_init_op, cond_destroy_op, cond_call_op, cond_wait_op, cond_wait_past_op, cond_wait_bad_op;

/* Which mutex the actor's next wait would be with. */
int mutex_for(const struct actor *a);

/* ---- rwlocks.c ---- */

struct rwlock {
	pthread_rwlock_t rw;
	bool alive;
};

extern struct rwlock rwlocks[RWLOCKS];
extern const struct op rw_init_op, rw_read_op, rw_write_op, rw_try_op, rw_unlock_op, rw_destroy_op;

bool is_wanted_rw(int n);
int writer_of(int n); /* as holder() */

/* ---- spins.c ---- */

struct spin {
	pthread_spinlock_t s;
	int holder;
};

extern struct spin spins[SPINS];
extern const struct op spin_lock_op, spin_unlock_op;

#endif
