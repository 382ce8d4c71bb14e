/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Process-shared condition variables: a sequence number in the object itself, so that
 * nothing there refers to any one process. Parameters and results are cond.h's, but
 * that a wait may end without a signal. */
#ifndef PK_PTHREAD_COND_SHARED_H
#define PK_PTHREAD_COND_SHARED_H

#include "pthread/cond.h"

/* In place of the last waiter's name: this one works in our way. Not a name. */
#define PK_COND_OURS ((uint64_t)0x70726b64 << 32)

PK_INLINE bool pk_cond_is_shared(struct pk_cond *c)
{
	return pk_cond_flags(c) & PK_COND_SHARED;
}

/* A shared one that we have initialised. */
PK_INLINE bool pk_cond_is_ours(struct pk_cond *c)
{
	return pk_load_relaxed(&c->waiters.tail) == PK_COND_OURS;
}

int pk_cond_shared_wait(struct pk_cond *c, pthread_mutex_t *mutex, const struct pk_deadline *deadline);
int pk_cond_shared_signal(struct pk_cond *c);
int pk_cond_shared_broadcast(struct pk_cond *c);
int pk_cond_shared_destroy(struct pk_cond *c);

#endif
