/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to thread-local storage: what each thread keeps for itself. */
#ifndef PK_THREAD_H
#define PK_THREAD_H

#include <stdbool.h>

#include "rt/arena.h"

struct pk_thread {
	/* The kernel's thread ID, as glibc stores it in a mutex's __owner. 0
	 * until the thread's first lock, and for good under PARKADE_POLICY=
	 * glibc: the fast paths leave a thread without one to pk_thread_start(). */
	int tid;
	bool exiting;	/* it does not come back to its waits; at last, it has no record any more */
	uint8_t rounds; /* of destructors, at its exit */
	struct pk_record *record;
	/* The node with which the thread waits, if it does. Seen by signal
	 * handlers that lock, and at the exit of a thread that was cancelled
	 * (asynchronously) or left by pthread_exit in the middle of it. */
	struct pk_waiter *waits;
	/* What it waits for then (rt/doze.h; pthread/word.h, pk_site). */
	struct {
		const int *word;
		const uint64_t *flags;
		bool (*pass)(const int *word);
		uint64_t due;	/* when it looks next, in us, if its sleeps are short, or 0, */
		unsigned naps;	/* and how often it has done so, */
		unsigned looks; /* how many of its sleeps have ended with time */
		int got;	/* EBUSY, or what a look has got: 0 the word, EALREADY by `pass` */
	} wanted;
	unsigned spins_us; /* since when it has a place among the spinners (rt/spin.c) */
	/* Of the lock whose queue has that name: how many of its hand-overs the thread has seen, and to another socket (or, with one, how
	 * often it has waited as its head, and was passed over), since it has told of them; and how often it has come to others since
	 * (admit/order.h). */
	struct {
		unsigned queue : 12, others : 8, seen : 6, far : 6;
	} ordered;
	/* The context with which it waits above its cohort, if it does (admit/levels.c). */
	struct pk_waiter *context;
	/* How many read locks the thread holds: a guide, as others may unlock them. */
	unsigned reads;
	unsigned apart; /* those of them that its record names (pthread/readers.h) */
	/* The word that it has got last: as a head, so many rounds after that time; or at that time, alone, after it had waited for so
	 * many ns; or about that time, in another way, and nothing is said of that (pthread/word.c). */
	struct {
		const int *word; /* or null */
		uint64_t ns;
		unsigned rounds;
		unsigned waited;
	} won;
	uint64_t came;	 /* when it came to wait last, in ns, or, apart, was woken; 0: that is not known, or it has slept or napped since */
	bool back, soon; /* for that word, in less than two microseconds, half of which it had waited before; in one; */
	bool late;	 /* where there are several sockets, in three, or, having waited for a third, in two */
	uint8_t habit;	 /* how often it has come back for it alone, of late, */
	uint8_t greed;	 /* and for what it had stolen */
	uint8_t aways;	 /* for how many long waits in queues it is known why: heads look away (rt/spin.c) */
	uint8_t napped, no_naps; /* how often it has napped in vain, and for how many times it does not (pthread/word.c) */
	/* How often it has not come back at once for locks whose users are said to do so, and for which word last (pthread/turn.c). */
	const int *doubted;
	unsigned doubts;
	bool sure; /* it has come back in less than one, however its spin was reckoned; */
	bool used; /* or after many, which it has used the lock for, if its users do (pthread/word.c) */
	uint8_t again; /* how many of those that are `counted` were after waits for condition variables */
	/* The one that it has stolen last: so many rounds after that time, and not at the first try; and how long quick thefts of it take,
	 * in ns, as one in so many of them, of all words, has shown (pthread/word.c). */
	struct {
		const int *word;
		uint64_t ns;
		unsigned rounds;
		bool lost;
		uint8_t times;
		uint16_t took;
	} stolen;
	/* Whom it has put into a mutex's queue, and calls when it has unlocked it (pthread/cond-signal.c). */
	struct {
		const struct pk_mutex *to;
		struct pk_waiter *first;
		unsigned count;
	} moved;
	/* Those behind it in a broadcast, whom it has to see to once it has the mutex again (pthread/cond.c). */
	struct pk_waiter *chain;
	uint8_t calm;  /* waits for condition variables with a timer, but no deadline, since one without was roused; 64 at most */
	uint8_t bypasses; /* how often it has waited apart, where few of these waits are dated (pthread/turn.c) */
	uint8_t asked;	  /* how often it has waited for mutexes of which something might be tried, or for condition variables with them; */
	uint8_t counted;  /* and how often it has taken one that is tried, since it has told of that; */
	int parent;    /* the tid that it had before this one, in the parent */
	uint8_t half;	 /* when that was (pthread/trial.h) */
	uint8_t crowded; /* how often it has found the mutex taken when it was woken in a hall, of late, */
	uint16_t aloof;	 /* and for how many waits it does not sleep there (pthread/cond.c) */
	bool asleep;   /* on its node, or as the head on the lock word */
	bool acts;     /* on a cancellation: its handlers may wait, but not be cancelled */
	bool asks;     /* glibc for its tid, in the child of a fork */
	bool watching; /* tells of a wait: what it waits for meanwhile is not told (rt/watch.h) */
};

extern __thread struct pk_thread pk_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Once, in the constructor. `gone`: takes a node out of its queue whose thread
 * exits in the middle of its wait (null: it has none), and sees to its chain. */
void pk_thread_setup(void (*gone)(struct pk_waiter *w));

/* The wait with node w is over, without a return: its place is given up, while the lock is there still. */
void pk_thread_unwound(const struct pk_waiter *w);

/* From now on no thread starts: every call goes to glibc's function. */
void pk_thread_forward(void);
/* Whether that is so. Threads that began before then have a tid for good. */
bool pk_thread_forwards(void);

/* Give the calling thread its tid, or the one that it has in the child of a fork; false if calls are forwarded to glibc. */
bool pk_thread_start(void);

/* The thread's tid, or 0 if it has none, or may have another one by now: then pk_thread_start() finds out. Asked by who takes what it
 * is to be the owner of, as others, or it, look at that. */
PK_INLINE int pk_thread_settled(int tid)
{
	return tid & (int)pk_load_relaxed(pk_settled);
}

/* The thread's tid, or 0; asked for if it may have another one by now. */
PK_INLINE int pk_thread_number(void)
{
	if (pk_self.tid && pk_unlikely(!pk_thread_settled(pk_self.tid)))
		pk_thread_start();
	return pk_self.tid;
}

/* The calling thread's record, or null: no memory, too early in the process's
 * life, or too late in the thread's. The caller then waits without a queue. */
struct pk_record *pk_thread_record(void);

/* The calling thread acts on a cancellation, or after all does not. */
void pk_thread_acts(bool acts);

/* In the child's handler: the thread has a new tid and no record of its parent's,
 * and if it forked from a signal handler while it waited, that wait learns of it. */
void pk_thread_fork_child(void);

#endif
