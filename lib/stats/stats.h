/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What is kept of each lock that somebody had to wait for.
 *
 * Records lie in one table of fixed size, in the order in which locks were first waited for, and stay: the memory may
 * be shared with who looks on (control.h), so its layout is the command's, too (tools/command/locks.py). All numbers
 * are of 64 bits and in the machine's order. */
#ifndef PK_STATS_H
#define PK_STATS_H

#include "rt/watch.h"

enum {
	PK_STATS_MAGIC = 0x6b63706b,
	PK_STATS_FORMAT = 1,
	PK_STATS_SITES = 4,
	PK_STATS_NAME = 32,
	PK_STATS_TIMES = 16, /* below 1 us, 2 us, 4 us, ... 16 ms; the last: longer */
	PK_STATS_HEAD = 4096,
	PK_STATS_TABLE = 1 << 14, /* records, if the process finds so much address space */
};

struct pk_lock {
	uint64_t link[2]; /* the hash table's node */
	uint64_t object;  /* 0: the record is not there yet; written last (release) */
	uint64_t kind;
	uint64_t site[PK_STATS_SITES]; /* return addresses outside of us, the innermost first */
	char name[PK_STATS_NAME];
	uint64_t got, late; /* waits that ended with the lock, or with the deadline or a cancellation */
	uint64_t wait_ns, wait_max_ns;
	/* Whoever got it was waiting already when the one before did: how long that took. */
	uint64_t turns, turn_ns;
	uint64_t last_ns, last_place; /* when and where somebody last got it */
	/* By the innermost level on which one waiter and the next to get it are together; the last: on none. */
	uint64_t near[PK_COHORTS + 1];
	uint64_t times[PK_STATS_TIMES];
	uint64_t gained[PK_STATS];
};

/* The first page: what is in the others. */
struct pk_stats_head {
	uint64_t magic, format;
	uint64_t record_size, table;
	uint64_t used; /* records given out; more than the table has: so many waits were not counted */
	uint64_t start_ns;
	char levels[64];     /* names, with commas between */
	char counters[2048]; /* the same */
};

_Static_assert(sizeof(struct pk_stats_head) <= PK_STATS_HEAD, "the head is the first page");

extern const struct pk_watch_host *pk_stats_host;
extern struct pk_stats_head *pk_stats_head;
extern struct pk_lock *pk_stats_locks;

extern const char *const pk_stats_kinds[PK_WATCH_KINDS];

/* How many records there are; not all of them need be ready. */
uint64_t pk_stats_used(void);

/* The name given to an object, or "". */
const char *pk_stats_name(uint64_t object);

/* Find the call sites: the return addresses of who has called us (sites.c). */
void pk_sites_setup(void);
void pk_sites_find(uint64_t site[PK_STATS_SITES]);

/* The file in which an address lies, and its address there; false: in none. */
bool pk_sites_place(uint64_t pc, const char **file, uint64_t *offset);

/* Print what there is (report.c). */
void pk_stats_report(void);

#endif
