/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Loads: what the simulated threads do with locks. A load is a row in load.c, compiled as
 * the library is, so that its accesses to its data cost what they cost. */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct sim_options {
	unsigned threads;
	unsigned lines;	  /* that a critical section writes, where that can be chosen */
	uint64_t outside; /* ns of work between operations */
	unsigned writes;  /* permille */
};

struct sim_load {
	const char *name, *doc;
	uint64_t outside; /* ns, unless it is said */
	void (*prepare)(const struct sim_options *o);
	void (*body)(unsigned number); /* a thread, until sim_over() */
	const char *(*check)(void);    /* afterwards: what is wrong, or null */
	bool brief;		       /* goes on until its work is done */
};

extern const struct sim_load sim_loads[];
extern const unsigned sim_load_count;

#endif
