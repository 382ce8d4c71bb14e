/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What suites of condition variables share: a hall to wait in, and what is always wanted of a call.
 *
 * A hall is a mutex, a cond, and tickets, one for each waiter that may go.  A thread counts itself with the mutex held,
 * just before it waits; so whoever then gets the mutex finds it blocked, without any sleeping.  Who waits for something
 * to happen is patient, for much longer than any machine should need, and then complains.  The line that a complaint
 * names may be one of hall.c.
 */
#ifndef HALL_H
#define HALL_H

#include "suite.h"

#include <errno.h>

/* Where threads race, for so long and no longer; a round that has begun is finished. */
enum { RACE_MS = 50 };

/* ---- calls, and what is always wanted of them ---- */

/* A call of a cond's function: its return code, and errno untouched. */
#define CALL(call, rc) (errno = ERRNO_MARK, want_rc((call), (rc), #call, __LINE__), want_errno(#call, __LINE__))
void want_errno(const char *what, int line);

/* The caller owns the mutex, whatever its kind is. */
#define HELD(m) want_held((m), __LINE__)
void want_held(const pthread_mutex_t *m, int line);

/* The mutex's fields are these; it is locked if it has an owner. */
#define FIELDS(m, owner, count, nusers) want_fields((m), (owner), (count), (nusers), __LINE__)
void want_fields(const pthread_mutex_t *m, int owner, unsigned count, unsigned nusers, int line);

/* For main threads: the case, or its child, ends here if there is a complaint. */
void stop_if_complained(void);

/* Goes on when the condition is true; be_patient() is a round of it, and ends the case when it takes too long. */
#define SOON(condition)                                                                                                \
	do                                                                                                             \
		for (uint64_t since = now_ns(); !(condition);)                                                         \
			be_patient(since, #condition, __LINE__);                                                       \
	while (0)
void be_patient(uint64_t since, const char *what, int line);

/* As fork(), with what every child needs. */
pid_t child_begin(void);

/* The ways to wait; the timed ones here have all the time in the world. */
enum way { WAIT, TIMEDWAIT, CLOCKWAIT, CLOCKWAIT_REAL, WAYS };
/* Waits once; errno is ERRNO_MARK before. */
int wait_by(enum way way, pthread_cond_t *c, pthread_mutex_t *m);

/* What is gone has been filled with 0xff. */
void want_untouched(const void *what, size_t size);

/* ---- what is made ---- */

/* The mutexes that the library leaves to glibc, and plain ones. */
struct special {
	const char *name;
	int shared, robust, protocol;
};
enum { PLAIN, ROBUST, INHERIT, ROBUST_INHERIT, SHARED, ROBUST_SHARED, PROTECT, SPECIALS };
extern const struct special specials[SPECIALS];

/* False, and the reason said, where there are no such mutexes. */
bool special_make(pthread_mutex_t *m, int type, int which);

void cond_make(pthread_cond_t *c, int shared, clockid_t clock);

/* Errands, of a mutex. */
void lock(void *m);
void unlock(void *m);

/* ---- the hall ---- */

struct hall {
	pthread_mutex_t m;
	pthread_cond_t c;
	enum way way;
	/* All written with m held, and read by anybody. */
	atomic_int waiting; /* have come in and not gone yet */
	atomic_int tickets;
	atomic_int returns; /* how often a wait has returned */
	atomic_int out;	    /* have gone, with a ticket */
	atomic_int cancelled, late;
	atomic_bool closed;
	_Atomic pid_t tid; /* of who came in last */
};

/* Locks the mutex, and is counted. */
void hall_come_in(struct hall *h);

/* Waits until there is a ticket, takes it, and goes. */
void hall_wait(struct hall *h);

/* The same for a thread that may be ended in its wait: only there, as nothing else here is a cancellation point. Its
 * cleanup handler is `ended', or this one. */
void hall_wait_mortal(struct hall *h, void (*ended)(void *));
void hall_ended(void *hall);

/* Bodies of a team: comes in and waits; ... */
void hall_guest(int index, void *hall);
/* ... comes again and again, until it goes and finds the hall closed. */
void hall_regular(int index, void *hall);

/* All n of them are blocked, and the caller holds the mutex. */
void hall_gather(struct hall *h, int n);

/* How to call the waiters: one of them or all, with the mutex held or free. */
enum how { SIGNAL_HELD, SIGNAL_FREE, BROADCAST_HELD, BROADCAST_FREE, HOWS };
/* So many more may go, and are called.  The mutex is held before, and free after it. */
void hall_call(struct hall *h, enum how how, int tickets);

/* A signal when nobody waits: not remembered.  The hall is empty, and the mutex free. */
void hall_want_forgetful(struct hall *h);

/* Everything that a hall is good for, with new threads; and in the end nobody is left in it. */
void hall_use(struct hall *h);

/* ---- a hall whose robust mutex is inherited ---- */

struct estate {
	struct hall h;
	bool heals;
	int64_t ahead; /* a deadline, if not 0 */
	atomic_int dead, fine, late, lost;
	atomic_bool back;
};

/* Bodies of a team: waits once, and counts how it came out; ... */
void inherit(int index, void *estate);
/* ... the owner, who ends with the mutex, after it has called them all. */
void bequeath(int index, void *estate);

#endif
