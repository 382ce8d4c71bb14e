/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What suites of reader-writer locks, call by call, share: the functions, the kinds, and errands.
 *
 * An errand is one call that some thread makes, most often a servant, and what came of it; it can be watched while it
 * waits.  The line that a failure names may be one of errand.c.
 */
#ifndef ERRAND_H
#define ERRAND_H

#include "suite.h"

/* Where the count of readers begins in glibc's word. */
enum { READER_SHIFT = 3 };

/* Within it everything is done that does not wait for ever; the machine may be busy. */
static const int64_t LATE_NS = 10000000000;

/* What pthread_rwlockattr_setkind_np takes; under the first RECURSIVE_KINDS who reads may always read again. */
enum { PREFERENCES = 3, RECURSIVE_KINDS = 2 };
extern const struct kind preferences[PREFERENCES];

/* ---- the functions ---- */

struct rwlock_api {
	const char *name;
	int (*init)(pthread_rwlock_t *, const pthread_rwlockattr_t *);
	int (*destroy)(pthread_rwlock_t *);
	int (*rdlock)(pthread_rwlock_t *);
	int (*tryrdlock)(pthread_rwlock_t *);
	int (*timedrdlock)(pthread_rwlock_t *, const struct timespec *);
	int (*clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*wrlock)(pthread_rwlock_t *);
	int (*trywrlock)(pthread_rwlock_t *);
	int (*timedwrlock)(pthread_rwlock_t *, const struct timespec *);
	int (*clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*unlock)(pthread_rwlock_t *);
};
/* As this program is bound. */
extern const struct rwlock_api bound;

void rwlock_make(const struct rwlock_api *api, pthread_rwlock_t *l, int kind, int shared);

/* Many threads read at once, so that the library may count this lock's readers elsewhere from here on. */
void warm_up(pthread_rwlock_t *l);

/* Nobody has it, and both sides get it. */
void assert_free(const struct rwlock_api *api, pthread_rwlock_t *l);

/* ---- errands ---- */

enum side { READ, WRITE };
enum how {
	PLAIN,
	TRY,
	AHEAD,
	CLOCK_AHEAD,
	PAST,
	NEGATIVE,
	CLOCK_PAST,
	BAD_NS,
	NEGATIVE_NS,
	CLOCK_BAD_NS,
	BAD_CLOCK,
	HOWS
};

struct errand {
	const struct rwlock_api *api;
	pthread_rwlock_t *l;
	enum side side;
	enum how how;
	int64_t ahead_ns; /* of the deadlines ahead; 0: a minute */
	unsigned hold_us;
	atomic_int *order; /* takes a number when it has the lock, if it is to unlock it, too */
	pid_t tid;
	int rc, errno_after, place;
	atomic_int state; /* 1 about to call, 2 the call returned, 3 told to end */
};

/* For servants or the caller itself: the call alone; the unlock; ... */
void call(void *errand);
void unlock(void *errand);
/* ... a call, and the unlock if it has got the lock: after hold_us, ... */
void call_hold_unlock(void *errand);
/* ... or once the state is 3. */
void call_until_told(void *errand);

void await_state(struct errand *e, int state);
/* Waits until a call has certainly begun to wait (a huge spin budget never sleeps: then it has had long enough). */
void await_asleep(struct errand *e);

/* What another thread can have, without keeping it. */
int probe(struct servant *s, const struct rwlock_api *api, pthread_rwlock_t *l, enum side side);

#endif
