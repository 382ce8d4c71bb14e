/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How a thread gets its turn at a lock word that is taken: by way of the admission
 * queue of the lock's gate, if there is a policy and the thread can queue. */
#ifndef PK_TURN_H
#define PK_TURN_H

#include "admit/admit.h"
#include "pthread/word.h"

/* Wait until the word is the caller's. Returns 0, or ETIMEDOUT, or EALREADY (word.h): then
 * the lock is as if the caller had never been there. */
int pk_turn_wait(const struct pk_site *at, const struct pk_deadline *deadline);

/* The same for a thread that has slept already and was moved meanwhile, without a
 * deadline: into the queue, with node w, which is no longer the caller's then; or
 * (null) to the word. `steal` is settle's (admit/admit.h). Returns 0, or EAGAIN for one that has waited at the word for too long: it
 * is to wait as who comes anew. */
int pk_turn_settle(const struct pk_site *at, struct pk_waiter *w, pk_steal *steal);

/* The thread is about to wait for something else, in a place that does not tell us more. In a handler, in the middle of
 * a wait of its own: it gives up its place, as those behind it may have what it wants. */
void pk_turn_step_back(void);

/* The thread has slept for a while in the queue where it waits (rt/doze.h): it gives up its place if the word is free,
 * or `last`. */
void pk_turn_look(bool last);

/* The thread that waits with that node is no more. */
void pk_turn_gone(struct pk_waiter *w);

#endif
