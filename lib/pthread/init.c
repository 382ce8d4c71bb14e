/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The constructor and the destructor of the library.
 *
 * Locks work before the constructor has run and after the destructor: until the
 * policy is put in force, threads wait on the lock word as glibc's would. The
 * constructor touches nothing that a lock path does not tolerate half done. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "admit/admit.h"
#include "pthread/cond.h"
#include "pthread/lot.h"
#include "pthread/readers.h"
#include "pthread/steer.h"
#include "pthread/turn.h"
#include "rt/config.h"
#include "rt/control.h"
#include "rt/doze.h"
#include "rt/fork.h"
#include "rt/real.h"
#include "rt/report.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "rt/watch.h"

/* What is there for who asks for it. */
static void look_and_steer(bool stats)
{
	enum { STATS_SIZE = (8 << 20) + 4096 }; /* of address space: for as many locks as without a control page */
	void *memory = NULL;

	if (pk_config.control) {
		pk_control_setup(pk_steer);
		memory = stats ? pk_control_memory(STATS_SIZE) : NULL;
	}
	if (stats)
		pk_watch_setup(memory, memory ? STATS_SIZE : 0);
}

static __attribute__((constructor)) void setup(void)
{
	int saved = errno;
	bool stats;

	pk_real();
	pk_config_read(pk_real_file());
	pk_topology_read("", pk_config.topology);
	if (!pk_levels_check(pk_config.levels)) {
		pk_config_reject("levels", pk_config.levels, "not some of core,cache,node,package");
		pk_config.levels = "";
	}
	if (!strcmp(pk_config.stats, "file") || !strcmp(pk_config.stats, "file:")) {
		pk_config_reject("stats", pk_config.stats, "file:PATH wants a path");
		pk_config.stats = "off";
	}
	stats = strcmp(pk_config.stats, "off") != 0;
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_readers_setup(pk_config.readers);
	pk_lot_setup(pk_config.parking);
	if (stats || pk_config.control || pk_policy_has_levels(pk_config.policy))
		pk_levels_read("", pk_config.levels);
	else if (pk_lot_open)
		pk_levels_read("", *pk_config.levels ? pk_config.levels : "cache,node");
	pk_lot_divide();
	if (pk_config.look)
		pk_doze_setup(pk_turn_look);
	if (pk_policy_select(pk_config.policy) == PK_POLICY_glibc) {
		pk_thread_forward();
		if (stats)
			pk_config_reject("stats", pk_config.stats, "with policy glibc there are none");
	} else {
		pk_thread_setup(pk_cond_waiter_gone); /* from here on threads get records */
		look_and_steer(stats);
	}
	/* After an allocator's, which the module has made register its own: its arenas are unlocked when ours runs, which
	 * allocates for the child's statistics. */
	pk_fork_setup();
	if (pk_config.verbose > 1)
		pk_config_print();
	errno = saved;
}

static __attribute__((destructor)) void summary(void)
{
	char text[PK_STATS * 40];
	size_t len = 0;

	pk_watch_report();
	if (!pk_config.verbose)
		return;
	for (int i = 0; i < PK_STATS && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, " %s=%llu", pk_stat_names[i],
					(unsigned long long)pk_stat_sum(i));
	pk_report("parkade: %d %s: policy %s:%s\n", (int)getpid(), program_invocation_short_name, pk_config.policy,
		  text);
}
