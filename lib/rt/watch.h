/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Statistics by lock: the seam to the module that keeps them (lib/stats), a shared object that is loaded when
 * PARKADE_STATS asks for it, so that nobody else pays for it or for what it needs.
 *
 * A wait is reported when it is over, with what the thread's own counters (stat.def) have gained by it: so the queues
 * know nothing of this. Whoever finds a lock free never gets here; who waits tests one pointer.
 *
 * The module must not allocate, lock or look anything up when it is told of a wait: the lock may be an allocator's, and
 * the thread holds it. What it calls nevertheless does not come back to it: `watching` keeps its thread out. */
#ifndef PK_WATCH_H
#define PK_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rt/arena.h"
#include "rt/topology.h"

enum pk_watch_kind {
	PK_WATCH_MUTEX,
	PK_WATCH_READ, /* an rwlock, to read */
	PK_WATCH_WRITE,
	PK_WATCH_COND, /* a condition variable, until it was signalled */
	PK_WATCH_SPIN,
	PK_WATCH_KINDS,
};

/* One wait. `object` is an address: it may be anything by now. */
struct pk_waited {
	const void *object;
	enum pk_watch_kind kind;
	bool got; /* the lock, or a signal; else its time was over */
	uint64_t since, until;
	uint16_t place[PK_COHORTS]; /* the thread's cohort of each level, at the end */
	uint64_t gained[PK_STATS];
};

struct parkade_lock_stats;

/* What the module says. */
struct pk_watch {
	void (*waited)(const struct pk_waited *w);
	/* Add up what is known of an object; false: nothing is. */
	bool (*read)(const void *object, struct parkade_lock_stats *sum);
	/* A name for that object in the report; cut to what there is room for. */
	void (*name)(const void *object, const char *name);
	/* At exit: where PARKADE_STATS says. */
	void (*report)(void);
	/* In a child of fork, before it has a second thread: start empty. False: there is no memory. */
	bool (*fork_child)(void);
};

/* What the module is told. All of it stays. */
struct pk_watch_host {
	const char *where; /* PARKADE_STATS */
	const char *const *policy;
	const char *const *counters; /* PK_STATS names */
	const struct pk_levels *levels;
	const char *(*level_name)(enum pk_cohort kind);
	void (*print)(const char *format, ...);
	void *memory; /* where to keep what others may look at (control.h), or null */
	size_t size;
};

/* What the module exports: pk_stats_open. Null if it cannot work here. */
typedef const struct pk_watch *pk_watch_open_t(const struct pk_watch_host *host);

/* Null: nobody wants to know. Set once, by the constructor; release, acquire by who waits. */
extern const struct pk_watch *pk_watch;

/* Load the module; `memory` as above. Once, in the constructor. */
void pk_watch_setup(void *memory, size_t size);

/* In a child of fork, by its handler. */
void pk_watch_fork_child(void);

/* At the end of the process: print or write what was asked for. */
void pk_watch_report(void);

/* Name an object, if anybody wants to know. */
void pk_watch_name(const void *object, const char *name);

/* Read what is known of an object. 0, ENOTSUP or ENOENT (parkade.h). */
int pk_watch_read(const void *object, struct parkade_lock_stats *sum);

/* A wait that is watched: its own frame's. */
struct pk_watched {
	struct pk_record *record;
	uint64_t since;
	uint64_t stat[PK_STATS];
};

bool pk_watch_start(struct pk_watched *w);
void pk_watch_end(const struct pk_watched *w, enum pk_watch_kind kind, const void *object, int ret);

/* Whether the wait that begins is watched: then it ends with pk_watch_end(). */
PK_INLINE bool pk_watch_begin(struct pk_watched *w)
{
	return pk_unlikely(pk_load_relaxed(&pk_watch) != NULL) && pk_watch_start(w);
}

#endif
