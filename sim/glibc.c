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

/* Every call begins with the kind, which brings the line to be read. */
static bool is_plain(const pthread_mutex_t *mutex)
{
	return !pk_load_relaxed(&mutex->__data.__kind);
}

static int own(pthread_mutex_t *mutex)
{
	pk_store_relaxed(&mutex->__data.__owner, tid());
	mutex->__data.__nusers++;
	return 0;
}

static void wait_for(int *word)
{
	if (pk_load_relaxed(word) == 2)
		sleep_on(word, 2);
	while (pk_xchg_acquire(word, 2) != 0)
		sleep_on(word, 2);
}

int glibc_mutex_lock(pthread_mutex_t *mutex)
{
	int *word = &mutex->__data.__lock, seen = 0;

	if (!is_plain(mutex))
		return EINVAL;
	if (!pk_cas_acquire(word, &seen, 1))
		wait_for(word);
	return own(mutex);
}

int glibc_mutex_trylock(pthread_mutex_t *mutex)
{
	int seen = 0;

	if (!is_plain(mutex))
		return EINVAL;
	return pk_cas_acquire(&mutex->__data.__lock, &seen, 1) ? own(mutex) : EBUSY;
}

int glibc_mutex_unlock(pthread_mutex_t *mutex)
{
	if (!is_plain(mutex))
		return EINVAL;
	pk_store_relaxed(&mutex->__data.__owner, 0);
	mutex->__data.__nusers--;
	if (pk_xchg_release(&mutex->__data.__lock, 0) > 1)
		wake(&mutex->__data.__lock, 1);
	return 0;
}

/* ---- reader-writer locks ----
 *
 * Two words. __readers counts the readers, those who wait for the read phase too, and says whether a writer is next or
 * inside (LOCKED) and whose phase it is (WRITING). __wrphase_futex follows the phase, for those who sleep until it is
 * theirs; __writers_futex is where further writers sleep. Readers come first: only the last of them ends their phase,
 * and a writer that leaves ends its own if any wait. (glibc 2.25 to 2.41, PTHREAD_RWLOCK_PREFER_READER_NP.) */

enum { WRITING = 1, LOCKED = 2, READER = 8, USED = 2 };

/* Sleep until the phase is that one, and then until it is known from __readers. */
static void await_phase(pthread_rwlock_t *lock, unsigned phase)
{
	unsigned *word = &lock->__data.__wrphase_futex;
	bool ready = false;

	for (;;) {
		unsigned seen = pk_load_relaxed(word);

		while ((seen | USED) == ((phase ^ WRITING) | USED)) {
			if (seen & USED || pk_cas_relaxed(word, &seen, seen | USED)) {
				sleep_on(word, seen | USED);
				seen = pk_load_relaxed(word);
			}
		}
		if (ready)
			return;
		ready = (pk_load_acquire(&lock->__data.__readers) & WRITING) == phase;
	}
}

static void tell_phase(pthread_rwlock_t *lock, unsigned phase)
{
	if (pk_xchg_acq_rel(&lock->__data.__wrphase_futex, phase) & USED)
		wake(&lock->__data.__wrphase_futex, INT_MAX);
}

int glibc_rwlock_rdlock(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen;

	if (pk_load_relaxed(&lock->__data.__cur_writer) == tid())
		return EDEADLK;
	seen = pk_add_seq_cst(word, READER) + READER;
	while (seen & WRITING && !(seen & LOCKED))
		if (pk_cas_acquire(word, &seen, seen & ~(unsigned)WRITING)) {
			tell_phase(lock, 0);
			return 0;
		}
	if (seen & WRITING)
		await_phase(lock, 0);
	return 0;
}

/* Be the writer that is next. Who sleeps until then does so only while the one that is has said that it looks for it.
 */
static unsigned be_next(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, *others = &lock->__data.__writers_futex;
	unsigned seen = pk_or_acquire(word, LOCKED);
	bool slept = false;

	while (seen & LOCKED) {
		unsigned asleep = pk_load_relaxed(others);

		if (asleep == (1 | USED) || (asleep == 1 && pk_cas_relaxed(others, &asleep, 1 | USED))) {
			slept = true;
			sleep_on(others, 1 | USED);
		}
		seen = pk_load_relaxed(word);
		while (!(seen & LOCKED) && !pk_cas_acquire(word, &seen, seen | LOCKED))
			;
	}
	pk_store_relaxed(others, slept ? 1 | USED : 1);
	return seen;
}

int glibc_rwlock_wrlock(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen;
	bool ours;

	if (pk_load_relaxed(&lock->__data.__cur_writer) == tid())
		return EDEADLK;
	seen = be_next(lock);
	ours = seen & WRITING;
	while (!ours && seen < READER)
		if ((ours = pk_cas_acquire(word, &seen, seen | WRITING)))
			pk_store_relaxed(&lock->__data.__wrphase_futex, WRITING);
	if (!ours)
		await_phase(lock, WRITING);
	pk_store_relaxed(&lock->__data.__cur_writer, tid());
	return 0;
}

static void end_writing(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen;
	bool others = pk_xchg_acq_rel(&lock->__data.__writers_futex, 0) & USED;

	pk_store_relaxed(&lock->__data.__cur_writer, 0);
	seen = pk_load_relaxed(word);
	while (!pk_cas_release(word, &seen, seen & ~(unsigned)(seen < READER ? LOCKED : LOCKED | WRITING)))
		;
	if (seen >= READER)
		tell_phase(lock, 0);
	if (others)
		wake(&lock->__data.__writers_futex, 1);
}

int glibc_rwlock_unlock(pthread_rwlock_t *lock)
{
	unsigned *word = &lock->__data.__readers, seen, want;

	if (pk_load_relaxed(&lock->__data.__cur_writer) == tid()) {
		end_writing(lock);
		return 0;
	}
	seen = pk_load_relaxed(word);
	do {
		want = seen - READER;
		if (want < READER && want & LOCKED)
			want |= WRITING;
	} while (!pk_cas_release(word, &seen, want));
	if (want & WRITING)
		tell_phase(lock, WRITING);
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
