/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A contestant: how glibc's own mutexes, reader-writer locks and condition variables
 * wait, in our words and for the simulator only. What the library calls under
 * PARKADE_POLICY=glibc.
 *
 * Exact, with every access to the object: the mutex is compare-and-swap 0 to 1, else exchange 2 and sleep while it was
 * not 0 (Drepper, Futexes Are Tricky, 2011, the second mutex); the reader-writer lock has two phases, and the condition
 * variable two groups of waiters (Riegel, in glibc since 2.25). Who is woken by a broadcast locks the mutex by itself.
 */
#ifndef SIM_GLIBC_H
#define SIM_GLIBC_H

#include <pthread.h>

int glibc_mutex_lock(pthread_mutex_t *mutex);
int glibc_mutex_trylock(pthread_mutex_t *mutex);
int glibc_mutex_unlock(pthread_mutex_t *mutex);
int glibc_rwlock_rdlock(pthread_rwlock_t *lock);
int glibc_rwlock_wrlock(pthread_rwlock_t *lock);
int glibc_rwlock_unlock(pthread_rwlock_t *lock);
int glibc_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int glibc_cond_signal(pthread_cond_t *cond);
int glibc_cond_broadcast(pthread_cond_t *cond);

#endif
