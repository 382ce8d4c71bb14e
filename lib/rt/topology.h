/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine: which socket a thread runs on, and how many CPUs the process may
 * use. "Socket" is a NUMA node that has CPUs, numbered from 0 without gaps.
 *
 * Read once, by the constructor: the loader has just used the same system calls
 * to load this library, so no sandbox forbids them yet, and a daemon's chroot
 * does not hide the files yet. Whatever cannot be read leaves one socket. */
#ifndef PK_TOPOLOGY_H
#define PK_TOPOLOGY_H

#include <stdint.h>

enum { PK_CPUS_MAX = 8192, PK_SOCKETS_MAX = 256 };

extern unsigned pk_sockets; /* at least 1 */

/* Read the machine below `root` ("" is the real one), or take `description`
 * (PARKADE_TOPOLOGY) instead if it is not empty. */
void pk_topology_read(const char *root, const char *description);

/* The socket of the calling thread. `serial` is a number of its own, for
 * topologies that place threads instead of asking for the CPU. */
unsigned pk_socket_here(uint32_t serial);

/* How many CPUs the process may use on a socket: its affinity mask when the
 * library was loaded, at most the cgroup's quota in all. */
unsigned pk_socket_cpus(unsigned socket);

#endif
