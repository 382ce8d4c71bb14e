/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* pthread_cancel, and why it is ours; the contract is in cond.h.
 *
 * A wait for a condition variable is a cancellation point, but a waiter that has been
 * signalled has to return, or its signal is lost, and by then it may sleep in the
 * mutex's queue. Cancelled inside a system call of glibc's it would be unwound from
 * there at any moment. So our waiters sleep in calls that glibc does not cancel, and
 * the thread that cancels says so in the waiter's status, where either the signal or
 * the cancellation comes first (cond.c, C3). Then the waiter locks the mutex and acts.
 *
 * A caller that is bound to glibc's own pthread_cancel (a plug-in opened with
 * RTLD_DEEPBIND) sets glibc's flag only: the waiter sees it once it has been woken. */
#include "base/atomic.h"
#include "pthread/cond.h"
#include "rt/futex.h"
#include "rt/hall.h"
#include "rt/real.h"

static void end_wait(struct pk_record *r, struct pk_waiter *w, pthread_t thread)
{
	uint32_t seen = pk_load_acquire(&w->status);
	unsigned manner;

	/* The record may have changed hands, but not in the middle of a wait. The
	 * thread may be in a handler already that was pushed for this very request. */
	if (pk_state(seen) != PK_BLOCKED || pk_load_relaxed(&r->thread) != thread || pk_load_relaxed(&r->acts))
		return;
	manner = pk_waiter_manner(w); /* of this wait, or nobody sleeps */
	if (!pk_cas_relaxed(&w->status, &seen, pk_in_state(seen, PK_LEAVING)))
		return;
	if (manner >= PK_TOGETHER)
		pk_hall_call(manner - PK_TOGETHER, pk_hall_bit(pk_waiter_serial(w)));
	else
		pk_futex_wake(&w->status, 1);
}

int pk_cancel(pthread_t thread)
{
	int ret = pk_real()->pthread_cancel(thread);
	struct pk_record *r = NULL;

	if (ret)
		return ret;
	pk_fence(); /* the record is published, and then glibc's flag looked at (rt/thread.c) */
	while ((r = pk_record_of(thread, r))) {
		pk_store_release(&r->cancelled, true); /* C3 */
		pk_fence();			       /* C3 */
		for (int i = 0; i < PK_RECORD_NODES; i++)
			end_wait(r, &r->node[i], thread);
	}
	return 0;
}
