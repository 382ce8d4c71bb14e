/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What suites of <threads.h> share: the functions, the types, deadlines, errands.
 *
 * glibc's mtx_t and cnd_t have the layout of its pthread types, and programs pass one for the other: some cases do.
 */
#ifndef C11_H
#define C11_H

#include "suite.h"

/* All that mtx_init takes. */
struct c11_type {
	const char *name;
	int type;
	bool recursive;
};
enum { TYPES = 4 };
extern const struct c11_type types[TYPES];

static inline pthread_mutex_t *as_mutex(mtx_t *m)
{
	return (pthread_mutex_t *)m;
}

static inline pthread_cond_t *as_cond(cnd_t *c)
{
	return (pthread_cond_t *)c;
}

/* ---- the functions as this program is bound, and glibc's own ---- */

struct c11_api {
	const char *name;
	int (*mtx_init)(mtx_t *, int);
	int (*mtx_lock)(mtx_t *);
	int (*mtx_trylock)(mtx_t *);
	int (*mtx_timedlock)(mtx_t *, const struct timespec *);
	int (*mtx_unlock)(mtx_t *);
	void (*mtx_destroy)(mtx_t *);
	int (*cnd_init)(cnd_t *);
	int (*cnd_wait)(cnd_t *, mtx_t *);
	int (*cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);
	int (*cnd_signal)(cnd_t *);
	int (*cnd_broadcast)(cnd_t *);
	void (*cnd_destroy)(cnd_t *);
};

const struct c11_api *bound(void);
const struct c11_api *glibc(void);

/* ---- deadlines ---- */

/* A deadline in TIME_UTC, C11's only clock. */
struct timespec utc(int64_t ns_from_now);
bool utc_passed(const struct timespec *t);

/* ---- errands: a call of a mutex's function, made by some thread ---- */

enum op { LOCK, TRY, PAST, NEGATIVE, BADNS, UNLOCK, DESTROY, END };
extern const char *const op_names[END]; /* without "mtx_" */

struct errand {
	const struct c11_api *api;
	mtx_t *m;
	enum op op;
	int rc;
};

/* Makes the call, and complains if it writes errno. */
void errand_run(void *errand);

/*
 * The fields that glibc has.  A waiter that gave up may have left 2 in the word, or not: then 1 and 2 are the same.
 * The spin estimate of adaptive mutexes, and what the library keeps behind it, are nobody's business.
 */
bool same_fields(const mtx_t *a, const mtx_t *b, bool asked);

#endif
