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

/* ---- condition variables ----
 *
 * Those who wait are of two groups: signals are for the older one, who comes joins the younger one. When nobody of
 * the older one is left to be signalled it is closed, those who still look at its word are waited for, and the groups
 * change their parts. A signal is a token in its group's word, which a waiter takes out. Who signals holds a lock that
 * is the two low bits of first_size. (Riegel, glibc 2.25 to 2.40; there is no spinning in it.) */

enum { CLOSED = 1, TOKEN = 2, LOOKS = 2, LEAVER_WAITS = 1, USER = 8, HELD = 1, CONTENDED = 2, LOCK = 3, SIZE = 4 };

struct waiters {
	uint64_t next;	     /* the place of who comes, times 2; the low bit: the younger group */
	uint64_t start;	     /* the older group's first place, times 2; the low bit: the younger group */
	unsigned looking[2]; /* those at the group's word, times LOOKS; LEAVER_WAITS: somebody waits for them */
	unsigned size[2];    /* to be signalled yet */
	unsigned first_size; /* the older group's at its start, times SIZE; and the lock */
	unsigned users;	     /* times USER */
	unsigned signals[2]; /* TOKENs; CLOSED */
};

_Static_assert(sizeof(struct waiters) == sizeof(pthread_cond_t), "glibc's size");

static void take(struct waiters *w)
{
	unsigned seen = pk_load_relaxed(&w->first_size), mark = HELD;

	for (;;) {
		unsigned contended = (seen & ~(unsigned)LOCK) | CONTENDED;

		if (!(seen & LOCK)) {
			if (pk_cas_acquire(&w->first_size, &seen, seen | mark))
				return;
		} else if (seen == contended || pk_cas_relaxed(&w->first_size, &seen, contended)) {
			sleep_on(&w->first_size, contended);
			seen = pk_load_relaxed(&w->first_size);
			mark = CONTENDED;
		}
	}
}

static void give(struct waiters *w)
{
	if ((pk_and_release(&w->first_size, ~(unsigned)LOCK) & LOCK) == CONTENDED)
		wake(&w->first_size, 1);
}

static void look_no_more(struct waiters *w, unsigned group)
{
	if (pk_sub_release(&w->looking[group], LOOKS) == (LOOKS | LEAVER_WAITS)) {
		pk_and_relaxed(&w->looking[group], ~(unsigned)LEAVER_WAITS);
		wake(&w->looking[group], INT_MAX);
	}
}

/* Who took a token of a group that came to be another one's word puts it back. */
static void give_back(struct waiters *w, unsigned group, uint64_t place)
{
	uint64_t start = pk_load_relaxed(&w->start);
	unsigned seen;

	if (place >= start >> 1 || (start & 1) == group)
		return;
	seen = pk_load_relaxed(&w->signals[group]);
	while (start == pk_load_relaxed(&w->start))
		if (seen & CLOSED || pk_cas_relaxed(&w->signals[group], &seen, seen + TOKEN)) {
			wake(&w->signals[group], 1);
			break;
		}
}

static void await_token(struct waiters *w, unsigned group, uint64_t place)
{
	unsigned seen = pk_load_acquire(&w->signals[group]);

	do {
		while (!seen) {
			pk_add_relaxed(&w->looking[group], LOOKS);
			if (!(pk_load_acquire(&w->signals[group]) & CLOSED) && place >= pk_load_relaxed(&w->start) >> 1)
				sleep_on(&w->signals[group], 0);
			else
				seen = CLOSED;
			look_no_more(w, group);
			if (!seen)
				seen = pk_load_acquire(&w->signals[group]);
		}
		if (seen & CLOSED)
			return;
	} while (!pk_cas_acquire(&w->signals[group], &seen, seen - TOKEN));
	give_back(w, group, place);
}

int glibc_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct waiters *w = (void *)cond;
	uint64_t next = pk_add_seq_cst(&w->next, 2);

	pk_add_relaxed(&w->users, USER);
	glibc_mutex_unlock(mutex);
	await_token(w, next & 1, next >> 1);
	pk_sub_release(&w->users, USER);
	if (!is_plain(mutex))
		return EINVAL;
	/* Others that were woken may sleep at the mutex, so it is taken as one that is waited for. */
	while (pk_xchg_acquire(&mutex->__data.__lock, 2) != 0)
		sleep_on(&mutex->__data.__lock, 2);
	return own(mutex);
}

/* The groups change their parts, if there is somebody in the younger one. */
static bool begin_younger(struct waiters *w, unsigned *older)
{
	uint64_t next = pk_load_relaxed(&w->next) >> 1, start = pk_load_relaxed(&w->start) >> 1;
	unsigned first_size = pk_load_relaxed(&w->first_size), size = first_size / SIZE, seen;

	if (!((unsigned)(next - start) - size + w->size[!*older]))
		return false;
	pk_or_relaxed(&w->signals[*older], CLOSED);
	seen = pk_add_release(&w->looking[*older], 0);
	while (seen / LOOKS) {
		seen = pk_or_relaxed(&w->looking[*older], LEAVER_WAITS) | LEAVER_WAITS;
		if (seen / LOOKS)
			sleep_on(&w->looking[*older], seen);
		seen = pk_load_relaxed(&w->looking[*older]);
	}
	pk_add_relaxed(&w->start, 2 * (uint64_t)size + (*older ? 1 : (uint64_t)-1));
	pk_store_release(&w->signals[*older], 0);
	next = __atomic_fetch_xor(&w->next, 1, __ATOMIC_RELEASE) >> 1;
	*older ^= 1;
	size = (unsigned)(next - start) - size;
	while (!pk_cas_relaxed(&w->first_size, &first_size, size * SIZE | (first_size & LOCK)))
		;
	w->size[*older] += size;
	return w->size[*older];
}

/* The lock is taken, and the older group told; false: nobody waits. */
static bool begin(struct waiters *w, unsigned *older)
{
	if (pk_load_relaxed(&w->users) < USER)
		return false;
	take(w);
	*older = !(pk_load_relaxed(&w->next) & 1);
	return true;
}

int glibc_cond_signal(pthread_cond_t *cond)
{
	struct waiters *w = (void *)cond;
	bool found;
	unsigned older;

	if (!begin(w, &older))
		return 0;
	found = w->size[older] || begin_younger(w, &older);
	if (found) {
		pk_add_relaxed(&w->signals[older], TOKEN);
		w->size[older]--;
	}
	give(w);
	if (found)
		wake(&w->signals[older], 1);
	return 0;
}

static void signal_all(struct waiters *w, unsigned group)
{
	pk_add_relaxed(&w->signals[group], TOKEN * w->size[group]);
	w->size[group] = 0;
}

int glibc_cond_broadcast(pthread_cond_t *cond)
{
	struct waiters *w = (void *)cond;
	bool found;
	unsigned older;

	if (!begin(w, &older))
		return 0;
	if (w->size[older]) {
		signal_all(w, older);
		wake(&w->signals[older], INT_MAX);
	}
	found = begin_younger(w, &older);
	if (found)
		signal_all(w, older);
	give(w);
	if (found)
		wake(&w->signals[older], INT_MAX);
	return 0;
}
