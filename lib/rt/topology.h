/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine: which socket a thread runs on, and how many CPUs the process may
 * use. "Socket" is a NUMA node that has CPUs, or, on a machine of one node, a group of CPUs that share a cache, if there are
 * several and they are large; numbered from 0 without gaps.
 *
 * Read once, by the constructor: the loader has just used the same system calls
 * to load this library, so no sandbox forbids them yet, and a daemon's chroot
 * does not hide the files yet. Whatever cannot be read leaves one socket.
 *
 * A *cohort* is a group of CPUs at one level of the machine: those of a core, those that
 * share the last cache, those of a node, those of a package. A *level* is one that says
 * something: its cohorts are more than one, some of them have more than one CPU, they are
 * others than those of the level within it, and each lies in one cohort of the level
 * around it. The levels are read when pk_levels_read() is called, for the policies that
 * want them: it is a file for each cohort. */
#ifndef PK_TOPOLOGY_H
#define PK_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

enum { PK_CPUS_MAX = 8192, PK_SOCKETS_MAX = 256 };

extern unsigned pk_sockets; /* at least 1 */
extern bool pk_sockets_are_caches;

/* Read the machine below `root` ("" is the real one), or take `description`
 * (PARKADE_TOPOLOGY) instead if it is not empty. */
void pk_topology_read(const char *root, const char *description);

/* The socket of the calling thread. `serial` is a number of its own, for
 * topologies that place threads instead of asking for the CPU. */
unsigned pk_socket_here(uint32_t serial);

/* Kinds of cohorts, the innermost first. */
enum pk_cohort {
	PK_COHORT_CORE,
	PK_COHORT_CACHE,
	PK_COHORT_NODE, /* a socket, in the words of this file; no level if sockets are cache groups */
	PK_COHORT_PACKAGE,
	PK_COHORTS
};

/* The levels of the machine, the innermost first; the whole system is none. */
struct pk_levels {
	unsigned n;
	uint8_t kind[PK_COHORTS];
};
extern struct pk_levels pk_levels;

/* Find the levels, once, after pk_topology_read(); of `wanted` (PARKADE_LEVELS: names with
 * commas between) only, unless that is empty. */
void pk_levels_read(const char *root, const char *wanted);

/* Whether these are names of levels, or none. */
bool pk_levels_check(const char *wanted);

/* How many cohorts of a kind there are, at least 1: for a level, or PK_COHORT_NODE. */
unsigned pk_cohorts(enum pk_cohort kind);

/* The cohort of the calling thread, from 0 on; and the cohort of kind `around` in which one
 * lies. `serial` as below. */
unsigned pk_cohort_here(enum pk_cohort kind, uint32_t serial);
unsigned pk_cohort_around(enum pk_cohort kind, unsigned cohort, enum pk_cohort around);

const char *pk_cohort_name(enum pk_cohort kind);

/* How many CPUs the process may use on a socket: its affinity mask when the
 * library was loaded, at most the cgroup's quota in all. */
unsigned pk_socket_cpus(unsigned socket);

#endif
