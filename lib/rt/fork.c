/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What fork means for us; the contract is in fork.h.
 *
 * There is nothing to do before fork: the library has no locks of its own, and
 * the arena can be started afresh from any state. In the child one thread is
 * left, which had no part in any queue (fork is not called from within our
 * functions) unless it forks from a signal handler. Queues that were inherited
 * name nodes of the old incarnation and so count as empty.
 *
 * Handlers run in the child in the order in which they were registered, and may lock. So
 * who registers one registers ours before it: by then the thread has its own ID. What allocates
 * memory comes in its place among the others, behind the allocator's.
 *
 * Handlers that libc was asked for past us run before ours, and _Fork runs none: whoever
 * is the first to need a record does the handler's work. */
#include "rt/fork.h"

#include <stddef.h>

#include "base/atomic.h"
#include "rt/arena.h"
#include "rt/control.h"
#include "rt/hall.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/watch.h"

static void start_afresh(uint32_t kept)
{
	pk_arena_fork_child(kept);
	pk_storeys_fork_child();
	pk_hall_fork_child();
	pk_spin_fork_child();
	pk_incarnation_next();
}

bool pk_fork_begin_child(void)
{
	struct pk_record *own = pk_self.record;

	if (!pk_incarnation_claim())
		return false;
	/* Of a thread that is new in the child it is not known what the forking
	 * one has. */
	start_afresh(own ? own->index + 1 : pk_arena_used());
	return true;
}

static void child(void)
{
	/* The fork may have come from a signal handler in the middle of the record's
	 * use, so it is not given out again. */
	if (pk_incarnation_claim())
		start_afresh(pk_self.record ? pk_self.record->index + 1 : 0);
	pk_thread_fork_child();
}

static void child_at_last(void)
{
	pk_watch_fork_child();
	pk_control_fork_child();
}

int pk_fork_register(void (*prepare)(void), void (*parent)(void), void (*in_child)(void), void *library)
{
	static int registered;
	const struct pk_real *real = pk_real(); /* first: the loader may allocate, and the allocator register its handler */
	int none = 0;

	if (pk_cas_relaxed(&registered, &none, 1) && real->__register_atfork(NULL, NULL, child, NULL))
		pk_store_relaxed(&registered, 0);
	return real->__register_atfork(prepare, parent, in_child, library);
}

void pk_fork_setup(void)
{
	pk_fork_register(NULL, NULL, child_at_last, NULL);
}
