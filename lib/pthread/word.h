/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waiting for the lock word: what the head of a queue does, and everybody where
 * there is no queue. */
#ifndef PK_WORD_H
#define PK_WORD_H

#include "admit/admit.h"
#include "base/layout.h"

/* Wait until the mutex's word is ours. `w` is the head of the queue of policy
 * `ops`, or null. Returns 0, or ETIMEDOUT: then the word is as if we had never
 * been there, and who sleeps on it will be woken. */
int pk_word_wait(struct pk_mutex *m, const struct pk_admit_ops *ops, struct pk_waiter *w,
		 const struct pk_deadline *deadline);

#endif
