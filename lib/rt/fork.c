/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What fork means for us; the contract is in fork.h.
 *
 * There is nothing to do before fork: the library has no locks of its own, and
 * the arena can be started afresh from any state. In the child one thread is
 * left, which had no part in any queue (fork is not called from within our
 * functions) unless it forks from a signal handler. Queues that were inherited
 * name nodes of the old incarnation and so count as empty. */
#include "rt/fork.h"

#include <pthread.h>

#include "rt/arena.h"
#include "rt/spin.h"
#include "rt/thread.h"

static void child(void)
{
	pk_incarnation_next();
	pk_arena_fork_child(pk_self.record);
	pk_thread_fork_child();
	pk_spin_fork_child();
}

void pk_fork_setup(void)
{
	pthread_atfork(NULL, NULL, child);
}
