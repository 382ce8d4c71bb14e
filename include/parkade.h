/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* parkade's own functions. Nothing here is needed to use the library: it serves
 * the pthread functions of any program that it is loaded into. */
#ifndef PARKADE_H
#define PARKADE_H

#include <stdint.h>

/* A program that may run without the library defines PARKADE_OPTIONAL before it includes
 * this, and finds that a function is null where the library is not there. */
#ifdef PARKADE_OPTIONAL
#define PARKADE_WEAK __attribute__((weak))
#else
#define PARKADE_WEAK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, as in "0.1.0". */
const char *parkade_version(void) PARKADE_WEAK;

/* The policy in force (PARKADE_POLICY), as in "shfl". */
const char *parkade_policy(void) PARKADE_WEAK;

/* Read one of the process's counters: those that PARKADE_VERBOSE=1 prints.
 *
 * name   as printed, for example "entered": how many times a thread entered an
 *        admission queue
 * value  receives the count since the process started or forked
 *
 * Returns 0, or ENOENT when there is no such counter. */
int parkade_stat(const char *name, uint64_t *value) PARKADE_WEAK;

/* Give a lock (a mutex, rwlock, spin lock or condition variable) a name in the statistics
 * that PARKADE_STATS asks for, of up to 31 characters. Without statistics this does nothing.
 * The name stays with the address, whatever is there later. Not while the caller is inside
 * an allocator. */
void parkade_lock_name(const void *lock, const char *name) PARKADE_WEAK;

/* How many sockets (NUMA nodes with CPUs) the process's threads are told apart by,
 * at least 1: the machine's, or those of PARKADE_TOPOLOGY. */
unsigned parkade_sockets(void) PARKADE_WEAK;

/* The socket to which the calling thread counts now, from 0 to parkade_sockets() - 1.
 * It changes when the thread moves to another one's CPU, and never where
 * PARKADE_TOPOLOGY ends in @thread.
 *
 * It cannot fail. 0 also stands for a socket that is not known: the CPU is none of
 * the topology, or a thread is not placed yet or no more (in the destructors of its
 * data, or without memory for it). */
unsigned parkade_socket(void) PARKADE_WEAK;

#ifdef __cplusplus
}
#endif

#endif
