/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* parkade's own functions. Nothing here is needed to use the library: it serves
 * the pthread functions of any program that it is loaded into. */
#ifndef PARKADE_H
#define PARKADE_H

#include <pthread.h>
#include <stddef.h>
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

/* What threads have waited for one lock so far. Later releases may add fields at the end. */
struct parkade_lock_stats {
	uint64_t got;	      /* waits that ended with the lock, or with a condition variable's signal */
	uint64_t late;	      /* waits that ended with the deadline, or a cancellation */
	uint64_t reads;	      /* waits, of both sorts, that were to read (rwlock) */
	uint64_t wait_ns;     /* all waits together, in nanoseconds */
	uint64_t wait_max_ns; /* the longest */
	uint64_t near, far;   /* one waiter and the next to get the lock were on the same NUMA node, or were not (where
			       * nodes are a level of the machine, says parkade topology; else all are near) */
	uint64_t turns;	      /* the next one was waiting already when the one before got it */
	uint64_t turn_ns;     /* and got it after that time, of all these together: about how long it is held */
	uint64_t stolen;      /* waits that ended without a turn in a queue */
	uint64_t sleeps;      /* how often waiters slept */
};

/* Read the statistics of a lock (a mutex, rwlock, spin lock or condition variable), in a
 * process that keeps them (PARKADE_STATS). A thread that finds a lock free does not count.
 * Numbers that change meanwhile are each right, but need not be of the same moment. It
 * takes no lock and allocates nothing.
 *
 * stats  receives them
 * size   sizeof(*stats), by which the library knows how much of it the caller knows; what
 *        the library does not know is 0
 *
 * Returns 0; ENOENT: nobody has had to wait for that lock, or there was no room left to
 * count it; ENOTSUP: no statistics are kept; EINVAL: size is 0. */
int parkade_lock_stats(const void *lock, struct parkade_lock_stats *stats, size_t size) PARKADE_WEAK;

/* Give the mutexes that will be initialised with these attributes a policy of their own,
 * whatever PARKADE_POLICY says and parkade ctl changes for the others.
 *
 * policy  a name that PARKADE_POLICY takes, as "cna"; null: that of the process
 *
 * It is kept where the C library has the attribute of the priority ceiling, which means
 * nothing for mutexes without PTHREAD_PRIO_PROTECT: pthread_mutexattr_getprioceiling()
 * then returns something, pthread_mutexattr_setprioceiling() takes the policy away, and
 * pthread_mutexattr_settype() leaves it. With the attributes of another kind of mutex than
 * those that the library serves (process-shared, robust, with a priority protocol) a
 * mutex cannot be initialised: ENOTSUP.
 *
 * Returns 0; EINVAL: there is no such policy; ENOTSUP: it cannot be that of one mutex
 * (glibc, a composition such as clof:mcs-tkt), or not here (those with levels, such as hmcs,
 * if it has never been in force in this process), or the mutex would be none of the library's. */
int parkade_mutexattr_setpolicy_np(pthread_mutexattr_t *attr, const char *policy) PARKADE_WEAK;

/* Copy the name of the policy that the attributes give, or "" if they leave it to the
 * process. Returns 0, or ERANGE: it does not fit (32 bytes are enough). */
int parkade_mutexattr_getpolicy_np(const pthread_mutexattr_t *attr, char *policy, size_t size) PARKADE_WEAK;

/* How many sockets (NUMA nodes with CPUs, or of one node the groups that share a cache,
 * where these are large) the process's threads are told apart by, at least 1: the
 * machine's, or those of PARKADE_TOPOLOGY. */
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
