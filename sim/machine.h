/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A machine as its description says: who shares what with whom, and what that costs.
 *
 * A description (sim/machines) has lines `key = value ...' and comments after #:
 *
 *	title	what it is called
 *	shape	PACKAGESxNODESxGROUPSxCORESxTHREADS, each in one of those before it; a
 *		group of cores shares the last cache
 *	mhz	the clock; all times below are in its cycles
 *	core, cache, node, package, system
 *		CLEAN DIRTY WRITE: to read a line that a CPU holds with which one shares no
 *		less than that, unmodified and modified; and to get it for writing
 *	memory	LOCAL REMOTE: to read a line that is in no cache
 *	share	PERCENT: how much of a read keeps the line from its next reader
 *	vary	PERCENT: how much sooner or later, at most, a request arrives than after half of a transfer; 0
 *		if left out. On a chip it depends on where on it who asks, who has the line, and who knows of it are
 *	atomic	a read-modify-write of a line that one holds
 *	relax	a round of a spin loop
 *	syscall, futex
 *		into the kernel and back; a futex call's own work, on its bucket
 *	wake	what waking one thread costs the caller
 *	wakeup	from then until an idle CPU runs it
 *	switch	from one thread to another
 *	quantum, granularity
 *		how long a thread runs while others wait for its CPU; while one does that has
 *		just been woken. In microseconds
 *
 * CPUs are numbered depth first: the threads of a core, the cores of a group ... */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum sim_level { SIM_CORE, SIM_CACHE, SIM_NODE, SIM_PACKAGE, SIM_SYSTEM, SIM_LEVELS };

enum { SIM_CPUS_MAX = 8192, SIM_CORES_MAX = 4096 };

struct sim_latency {
	unsigned clean, dirty, write;
};

struct sim_machine {
	char title[96];
	unsigned packages, nodes, groups, cores, threads; /* of one around it */
	unsigned spare;					  /* of the groups, those on which no thread begins */
	unsigned mhz;
	struct sim_latency at[SIM_LEVELS];
	unsigned local, remote; /* memory */
	unsigned vary;
	unsigned share, atomic, relax, syscall, futex, wake, wakeup, change, quantum, granularity;
	/* How many in all, and CPUs in one of each level. */
	unsigned cpus, all_cores, all_nodes;
	unsigned width[SIM_LEVELS];
};

extern struct sim_machine sim_machine;

/* Read it, with so many groups of cores more in each node, on which no thread begins; false, and why, on standard error. */
bool sim_machine_read(const char *path, unsigned spare);

/* The smallest cohort that holds both CPUs. */
enum sim_level sim_level_of(unsigned cpu, unsigned other);

const char *sim_level_name(enum sim_level level);

static inline uint64_t sim_cycles(uint64_t ns)
{
	return ns * sim_machine.mhz / 1000;
}

static inline uint64_t sim_ns(uint64_t cycles)
{
	return cycles * 1000 / sim_machine.mhz;
}

static inline unsigned sim_core_of(unsigned cpu)
{
	return cpu / sim_machine.threads;
}

static inline unsigned sim_node_of(unsigned cpu)
{
	return cpu / sim_machine.width[SIM_NODE];
}

/* How many CPUs there are but for the spare ones. */
static inline unsigned sim_cpus_in_use(void)
{
	return sim_machine.cpus / sim_machine.groups * (sim_machine.groups - sim_machine.spare);
}

/* The CPU of the n-th thread, of those in use. Spread: the packages in turn, and there the nodes, the
 * groups; or one after the other. A second thread of a core comes after all cores. */
unsigned sim_place(unsigned n, bool spread);

#endif
