/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* glibc's waiting; the contract is in glibc.h. Compiled as the library is, so that each
 * access costs what it costs there. */
#include "sim/glibc.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "base/atomic.h"

static void sleep_on(const void *word, uint32_t expected)
{
	pk_arch_syscall(SYS_futex, (long)word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, (long)expected, 0, 0,
			(long)FUTEX_BITSET_MATCH_ANY);
}

static void wake(const void *word, int n)
{
	pk_arch_syscall(SYS_futex, (long)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, 0, 0, 0);
}

static int tid(void)
{
	return (int)pk_arch_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* ---- mutexes ---- */

static int own(pthread_mutex_t *mutex)
{
	pk_store_relaxed(&mutex->__data.__owner, tid());
	mutex->__data.__nusers++;
	return 0;
}

int glibc_mutex_lock(pthread_mutex_t *mutex)
{
	int *word = &mutex->__data.__lock, seen = 0;

	if (!pk_cas_acquire(word, &seen, 1))
		while ((seen == 2 || pk_xchg_acquire(word, 2) != 0)) {
			seen = 0;
			sleep_on(word, 2);
		}
	return own(mutex);
}

int glibc_mutex_trylock(pthread_mutex_t *mutex)
{
	int seen = 0;

	return pk_cas_acquire(&mutex->__data.__lock, &seen, 1) ? own(mutex) : EBUSY;
}

int glibc_mutex_unlock(pthread_mutex_t *mutex)
{
	pk_store_relaxed(&mutex->__data.__owner, 0);
	mutex->__data.__nusers--;
	if (pk_xchg_release(&mutex->__data.__lock, 0) > 1)
		wake(&mutex->__data.__lock, 1);
	return 0;
}

/* ---- reader-writer locks ----
 *
 * The word __readers: 8 for each reader; 1 a writer has it; 2 somebody sleeps on it. */

enum { WRITER = 1, SLEEPER = 2, READER = 8 };

int glibc_rwlock_rdlock(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen = pk_add_seq_cst(word, READER);

	while (seen & WRITER) {
		seen = pk_load_relaxed(word);
		if (seen & WRITER && (seen & SLEEPER || pk_cas_relaxed(word, &seen, seen | SLEEPER)))
			sleep_on(word, seen | SLEEPER);
		seen = pk_load_acquire(word);
	}
	return 0;
}

int glibc_rwlock_wrlock(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen = pk_load_relaxed(word);

	for (;;) {
		if (seen < READER && !(seen & WRITER)) {
			if (pk_cas_acquire(word, &seen, seen | WRITER))
				break;
		} else if (seen & SLEEPER || pk_cas_relaxed(word, &seen, seen | SLEEPER)) {
			sleep_on(word, seen | SLEEPER);
			seen = pk_load_relaxed(word);
		}
	}
	pk_store_relaxed(&lock->__data.__cur_writer, tid());
	return 0;
}

int glibc_rwlock_unlock(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen;

	if (pk_load_relaxed(&lock->__data.__cur_writer) == tid()) {
		pk_store_relaxed(&lock->__data.__cur_writer, 0);
		seen = pk_load_relaxed(word);
		while (!pk_cas_release(word, &seen, seen & ~(unsigned)(WRITER | SLEEPER)))
			;
		if (seen & SLEEPER)
			wake(word, INT_MAX);
		return 0;
	}
	seen = pk_sub_release(word, READER) - READER;
	if (seen < READER && seen & SLEEPER) {
		while (seen < READER && seen & SLEEPER && !pk_cas_relaxed(word, &seen, seen & ~(unsigned)SLEEPER))
			;
		wake(word, INT_MAX);
	}
	return 0;
}

/* ---- condition variables: the first 8 bytes are not 0 once somebody has waited, as in glibc
 * (__wseq); the sequence is in __wrefs ---- */

int glibc_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	unsigned *sequence = &cond->__data.__wrefs, seen = pk_load_relaxed(sequence);

	pk_store_relaxed((uint64_t *)(void *)cond, 2);
	glibc_mutex_unlock(mutex);
	sleep_on(sequence, seen);
	return glibc_mutex_lock(mutex);
}

int glibc_cond_signal(pthread_cond_t *cond)
{
	pk_add_release(&cond->__data.__wrefs, 1);
	wake(&cond->__data.__wrefs, 1);
	return 0;
}

int glibc_cond_broadcast(pthread_cond_t *cond)
{
	pk_add_release(&cond->__data.__wrefs, 1);
	wake(&cond->__data.__wrefs, INT_MAX);
	return 0;
}
