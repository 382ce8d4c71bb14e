/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Loads: what the simulated threads do with locks. A load is a row in load.c's table; it is
 * compiled as the library is, so that its accesses to its data cost what they cost. Each is
 * written from its description in a paper, and says which. */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pthread/mutex.h"
#include "sim/engine.h"
#include "sim/measure.h"
#include "sim/textbook.h"

enum { SIM_THREADS_MAX = 16384 };

struct sim_options {
	unsigned threads;
	unsigned lines;	  /* that a critical section writes, where that can be chosen */
	uint64_t held;	  /* ns of work in a critical section, where that can be chosen, */
	uint64_t outside; /* and between operations */
	unsigned writes;  /* permille */
};

struct sim_load {
	const char *name, *doc;
	uint64_t outside; /* unless it is said */
	unsigned writes;
	void (*prepare)(const struct sim_options *o);
	void (*body)(unsigned number); /* a thread, until sim_over() */
	const char *(*check)(void);    /* afterwards: what is wrong, or null */
	bool only_locks;	       /* sim_lock() and sim_unlock(), and one at a time */
};

extern const struct sim_load *const sim_loads[];
extern const unsigned sim_load_count;

/* A mutex that is looked at. */
struct sim_lock {
	pthread_mutex_t mutex;
	struct sim_textbook_lock textbook;
	struct sim_probe probe; /* costs nothing, and is in nobody's cache */
} PK_ALIGNED(64);

void sim_lock(struct sim_lock *l);
void sim_unlock(struct sim_lock *l);

/* Work on nothing that is shared: between half of it and one and a half. */
void sim_work_for(uint64_t ns);

#endif
