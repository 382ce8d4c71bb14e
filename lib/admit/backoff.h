/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What backoff and hbo have in common: waiters without a queue. */
#ifndef PK_BACKOFF_H
#define PK_BACKOFF_H

#include <limits.h>

#include "admit/admit.h"
#include "base/await.h"
#include "rt/spin.h"

static inline enum pk_entered pk_back_off_enter(struct pk_queue *q, struct pk_waiter *w,
						const struct pk_deadline *deadline)
{
	(void)deadline;
	w->queue = q;
	w->batch = 0;
	w->slept = false;
	pk_waiter_begin(w, PK_HEAD);
	return PK_IS_HEAD;
}

static inline void pk_back_off_leave(struct pk_waiter *w)
{
	pk_spin_done(w);
	pk_waiter_free(w);
}

/* Keep away from a word that is taken for w's interval, which doubles; returns the
 * rounds that this took. */
PK_INLINE unsigned pk_back_off(struct pk_waiter *w, const int *word, uint32_t shortest, uint32_t longest)
{
	unsigned rounds;

	if (!pk_load_relaxed(word))
		return 0;
	if (!w->spins && !pk_spin_begin(w))
		return UINT_MAX; /* who finds no room among the spinners sleeps, as in glibc */
	w->batch = w->batch < shortest ? shortest : w->batch > longest / 2 ? longest : 2 * w->batch;
	rounds = w->batch;
	for (unsigned n = rounds; !pk_spent(&n);)
		;
	return rounds;
}

#endif
