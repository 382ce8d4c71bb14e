/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Between those who wait for a condition variable (cond.c) and those who signal it (cond-signal.c). */
#ifndef PK_PTHREAD_COND_SIGNAL_H
#define PK_PTHREAD_COND_SIGNAL_H

#include "pthread/cond-shared.h"
#include "rt/thread.h"

/* glibc's function is to be called. */
PK_INLINE bool pk_cond_is_glibcs(struct pk_cond *c)
{
	bool aside = pk_unlikely(!pk_self.tid) ? !pk_thread_start() : pk_unlikely(pk_thread_forwards());

	return pk_unlikely(pk_cond_is_shared(c)) ? !pk_cond_is_ours(c) : aside;
}

/* The first live one of the chain is to lock the mutex by itself, and is woken; the others are behind it. */
void pk_cond_wake(struct pk_waiter *chain);

/* The thread, which has been signalled, has had its mutex again, that of `home`: those who are behind it. */
void pk_cond_pass_on(struct pk_queue *home, struct pk_waiter *chain);

#endif
