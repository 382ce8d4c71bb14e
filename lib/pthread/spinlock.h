/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Spin locks: POSIX pthread_spin_*, in place in the 4 bytes of pthread_spinlock_t, which
 * hold glibc's values at every instant (base/layout.h). So glibc's functions and ours
 * can be mixed on one lock, and one that lies in shared memory can be used by
 * processes with the library and without.
 *
 * Sources: POSIX.1-2017 (pthread_spin_lock, _init, _destroy), and glibc's behaviour where
 * POSIX leaves it open: private and process-shared ones are the same, destroy does
 * nothing, nobody is recorded as the owner. errno is never changed, and nothing is a
 * cancellation point.
 *
 * Lifetime: unlock's only access is the store that frees the lock, so the next owner may
 * unmap it. */
#ifndef PK_PTHREAD_SPINLOCK_H
#define PK_PTHREAD_SPINLOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "base/layout.h"

/* Wait for a lock that is taken. 0. */
int pk_spinlock_wait(pthread_spinlock_t *lock);

PK_INLINE int pk_spinlock_init(pthread_spinlock_t *lock, int shared)
{
	(void)shared;
	pk_store_relaxed(lock, PK_SPIN_FREE);
	return 0;
}

PK_INLINE int pk_spinlock_destroy(pthread_spinlock_t *lock)
{
	(void)lock;
	return 0;
}

/* Take the lock if it is free, without disturbing it if it is not. Acquire pairs with the
 * release in unlock. */
PK_INLINE bool pk_spinlock_take(pthread_spinlock_t *lock)
{
	int seen = PK_SPIN_FREE;

	return pk_cas_acquire(lock, &seen, PK_SPIN_HELD);
}

PK_INLINE int pk_spinlock_lock(pthread_spinlock_t *lock)
{
	/* As glibc does it, which takes fewer instructions than a compare-and-swap, and
	 * leaves "held" behind if the lock is not free. */
	bool free = PK_SPIN_FREE ? pk_sub_acquire(lock, 1) == PK_SPIN_FREE
				 : pk_xchg_acquire(lock, PK_SPIN_HELD) == PK_SPIN_FREE;

	return pk_likely(free) ? 0 : pk_spinlock_wait(lock);
}

PK_INLINE int pk_spinlock_trylock(pthread_spinlock_t *lock)
{
	return pk_spinlock_take(lock) ? 0 : EBUSY;
}

PK_INLINE int pk_spinlock_unlock(pthread_spinlock_t *lock)
{
	pk_store_release(lock, PK_SPIN_FREE);
	return 0;
}

#endif
