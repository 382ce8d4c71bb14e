/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Where the readers of a reader-writer lock are counted, which no program sees: in each mode, across a recall, across
 * sockets and threads, and across fork. */
#include "pthread/rwlock.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admit/admit.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/fork.h"
#include "rt/park.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/topology.h"
#include "unit.h"

enum { MODES = 4, LOCKS = 12, THREADS = 8, STRESS_MS = 400, READERS = 60, CROWD = 1000 };

static const char *const modes[MODES] = {"central", "socket", "bravo", "auto"};
static pthread_rwlock_t lock[LOCKS];

static void gone(struct pk_waiter *w)
{
	(void)w;
}

static void setup(const char *mode, const char *topology)
{
	pk_real();
	pk_topology_read("", topology);
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_fork_setup();
	pk_readers_setup(mode);
	pk_thread_setup(gone);
	pk_policy_select("shfl");
}

static struct pk_rwlock *rw(int i)
{
	return pk_rwlock_of(&lock[i]);
}

static unsigned central(int i)
{
	return (unsigned)((pk_load_relaxed(&rw(i)->state) & PK_RW_READERS) / PK_RW_READER);
}

static bool has(int i, uint64_t flag)
{
	return pk_load_relaxed(&rw(i)->state) & flag;
}

static unsigned entries(int i, int tag)
{
	unsigned count = 0;

	for (uint32_t r = 0; r < pk_arena_known(); r++)
		for (int k = 0; k < PK_RECORD_READS; k++)
			count += pk_record_nth(r)->reads.lock[k] == ((uint64_t)(uintptr_t)&lock[i] | (unsigned)tag);
	return count;
}

static unsigned users(int i)
{
	unsigned count = 0;

	for (unsigned s = 0; s < pk_sockets; s++)
		for (struct pk_bay *bay = NULL; (bay = pk_bay_next(s, &lock[i], bay));)
			count += pk_bay_users(bay, &lock[i]);
	return count;
}

/* The number of readers, wherever they are. */
static unsigned readers(int i)
{
	return central(i) + entries(i, PK_READ_HERE) + users(i);
}

/* In the modes that do it at once, the lock's first reading has its readers counted apart from then on. */
static void spread(int i)
{
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[i]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[i]), 0);
	ck_assert(has(i, PK_RW_SPREAD));
}

static void *in_thread(void *(*errand)(void *))
{
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, errand, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return result;
}

static void *try_to_write(void *arg)
{
	int ret = pk_rwlock_trywrlock(&lock[0]);

	if (!ret)
		pk_rwlock_unlock(&lock[0]);
	return (void *)(intptr_t)ret + (intptr_t)arg;
}

static void *unlock_one(void *arg)
{
	return (void *)(intptr_t)pk_rwlock_unlock(&lock[0]) + (intptr_t)arg;
}

/* Each mode counts where it says. */
START_TEST(places)
{
	setup(modes[_i], "2x4");
	if (_i == 1 || _i == 2)
		spread(0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_uint_eq(central(0), _i == 0 || _i == 3);
	ck_assert_uint_eq(users(0), _i == 1);
	ck_assert_uint_eq(entries(0, PK_READ_IN_BAY), _i == 1);
	ck_assert_uint_eq(entries(0, PK_READ_HERE), _i == 2);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), EBUSY);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(readers(0), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), EPERM);
}
END_TEST

/* auto: contended reads have them counted apart, a write ends it, and it does not begin again at once. */
START_TEST(heat)
{
	setup("auto", "1");
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	pk_readers_warm(rw(0));
	ck_assert(!has(0, PK_RW_SPREAD));
	pk_readers_warm(rw(0));
	ck_assert(has(0, PK_RW_SPREAD));
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0); /* one central, one apart */
	ck_assert_uint_eq(entries(0, PK_READ_HERE), 1);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_wrlock(&lock[0]), 0);
	ck_assert(!has(0, PK_RW_SPREAD | PK_RW_RECALL));
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	rw(0)->spread_at = UINT64_MAX;
	for (int i = 0; i < 20; i++)
		pk_readers_warm(rw(0));
	ck_assert(!has(0, PK_RW_SPREAD));
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
}
END_TEST

/* How often of so many times in a row readers are counted apart, and recalled at once. */
static int spreads(int times)
{
	int often = 0;

	for (int i = 0; i < times; i++) {
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
		pk_readers_warm(rw(0));
		pk_readers_warm(rw(0));
		often += has(0, PK_RW_SPREAD);
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
		ck_assert_int_eq(pk_rwlock_wrlock(&lock[0]), 0);
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	}
	return often;
}

static pthread_barrier_t all_there;

static void *take_record(void *arg)
{
	pk_rwlock_unlock(&lock[1]); /* it has a tid now */
	if (!pk_thread_record())
		arg = &all_there;
	pthread_barrier_wait(&all_there);
	return arg;
}

/* The first writes after a time without may be followed by SPREAD at once, but recalls may not have all of the time: with
 * many records to look at they would have most of it here. */
START_TEST(heat_is_paid)
{
	pthread_t crowd[CROWD];
	void *complaint;
	int often = 0;

	setup("auto", "1");
	ck_assert_int_eq(pthread_barrier_init(&all_there, NULL, CROWD), 0);
	for (int i = 0; i < CROWD; i++)
		ck_assert_int_eq(pthread_create(&crowd[i], NULL, take_record, NULL), 0);
	for (int i = 0; i < CROWD; i++) {
		ck_assert_int_eq(pthread_join(crowd[i], &complaint), 0);
		ck_assert_ptr_null(complaint);
	}
	ck_assert_uint_ge(pk_arena_known(), CROWD);
	/* A recall that is held up costs five times as long. */
	for (int i = 0; i < 20 && often < 2; i++) {
		usleep(50000);
		often = spreads(2);
	}
	ck_assert_int_eq(often, 2);
	ck_assert_int_lt(spreads(3000), 1500);
}
END_TEST

/* A recall while they read counts them all in; they unlock there. */
START_TEST(recalled)
{
	setup(modes[1 + _i], "8x1@thread");
	spread(0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_uint_eq(central(0), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), EBUSY);
	ck_assert_uint_eq(central(0), 3);
	ck_assert_uint_eq(readers(0), 3);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), EBUSY);
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	}
	ck_assert_uint_eq(readers(0), 0);
	ck_assert_int_eq(pk_self.apart, 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), 0);
}
END_TEST

static void *write_once(void *arg)
{
	return (void *)(intptr_t)(pk_rwlock_wrlock(&lock[0]) || pk_rwlock_unlock(&lock[0])) + (intptr_t)arg;
}

/* It has been read when a writer came. */
static void write_while_read(void)
{
	pthread_t writer;
	void *ret;

	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_uint_eq(central(0), 0);
	ck_assert_int_eq(pthread_create(&writer, NULL, write_once, NULL), 0);
	while (central(0) != 1 || has(0, PK_RW_RECALL))
		usleep(100);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pthread_join(writer, &ret), 0);
	ck_assert_ptr_null(ret);
}

/* Writers leave a lock spread that was read when a writer came, and so often after that; not if another one waits. */
START_TEST(resumed)
{
	setup(modes[1 + _i], "1");
	spread(0);
	ck_assert_ptr_null(write_once(NULL));
	ck_assert(!has(0, PK_RW_SPREAD));
	spread(0);
	write_while_read();
	for (int in_vain = 0; in_vain < 4; in_vain++) {
		ck_assert(has(0, PK_RW_SPREAD));
		ck_assert_ptr_null(write_once(NULL));
		ck_assert_uint_eq(readers(0), 0);
	}
	ck_assert(!has(0, PK_RW_SPREAD));
	spread(0);
	write_while_read();
	ck_assert_int_eq(pk_rwlock_wrlock(&lock[0]), 0);
	pk_store_relaxed(&rw(0)->lock, 1);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert(!has(0, PK_RW_SPREAD));
	pk_store_relaxed(&rw(0)->lock, 0);
}
END_TEST

/* As many readers as can be counted, one of them apart: a recall has no room for more. */
START_TEST(brimful)
{
	setup(modes[1 + _i], "1");
	spread(0);
	rw(0)->state = PK_RW_SPREAD | (PK_RW_READERS - PK_RW_READER);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), EBUSY);
	ck_assert_uint_eq(rw(0)->state, PK_RW_READERS);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), EAGAIN);
}
END_TEST

static void *have_record(void *arg)
{
	pk_rwlock_unlock(&lock[1]);
	return pk_thread_record() ? arg : &lock[1];
}

/* In a child of fork an entry is left of a thread that was about to withdraw it: it is no reader's. A writer leaves the lock
 * as it is until it has been looked at, by who has readers counted apart again; not by the front, which is not told from its
 * parent's yet. */
START_TEST(withdrawn_by_nobody)
{
	pthread_t writer;
	void *ret;

	setup("auto", "1");
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[1]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[1]), 0);
	ck_assert_ptr_nonnull(pk_thread_record());
	ck_assert_ptr_null(in_thread(have_record));
	ck_assert_uint_ge(pk_arena_known(), 2);
	pk_record_nth(pk_self.record == pk_record_nth(0))->reads.lock[3] = (uint64_t)(uintptr_t)&lock[0];
	rw(0)->spread_at = 1;
	rw(0)->credit = 4;
	rw(0)->closed_by = pk_incarnation() + 1;
	ck_assert_ptr_null(write_once(NULL));
	ck_assert(!has(0, PK_RW_SPREAD));
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq(pthread_create(&writer, NULL, write_once, NULL), 0);
	while (pk_load_relaxed(&rw(0)->closed_by) != pk_incarnation())
		usleep(100);
	ck_assert_uint_eq(entries(0, PK_READ_HERE), 1);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pthread_join(writer, &ret), 0);
	ck_assert_ptr_null(ret);
	ck_assert_ptr_null(write_once(NULL));
	ck_assert(!has(0, PK_RW_SPREAD));
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	pk_readers_warm(rw(0));
	pk_readers_warm(rw(0));
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert(has(0, PK_RW_SPREAD));
	ck_assert_uint_eq(entries(0, PK_READ_HERE), 0);
	ck_assert_uint_eq(entries(0, PK_READ_VOID), 1);
	ck_assert_ptr_null(in_thread(write_once));
}
END_TEST

/* A thread is about to be counted apart, but the lock counts nobody so by now; a handler that comes then reads it, is counted in the
 * state, and unlocks: the thread is no reader by that. The handler reads another lock, and leaves the thread's entry alone. */
START_TEST(unlocked_in_between)
{
	uint64_t *entry, state = 0;

	setup("auto", "1");
	rw(1)->state = PK_RW_SPREAD;
	ck_assert_ptr_nonnull(pk_thread_record());
	entry = &pk_self.record->reads.lock[0];
	*entry = (uint64_t)(uintptr_t)&lock[0];
	ck_assert(!pk_readers_leave(rw(0), state));
	ck_assert_uint_eq(entries(0, PK_READ_VOID), 1);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[1]), 0);
	ck_assert_uint_eq(entries(1, PK_READ_HERE), 1);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[1]), 0);
	ck_assert_uint_eq(entries(0, PK_READ_VOID), 1);
	ck_assert(!pk_readers_confirm(rw(0), entry));
	ck_assert_uint_eq(*entry, 0);
	ck_assert_uint_eq(pk_self.apart, 0);
}
END_TEST

/* Entries that are void are taken if there are no others. */
START_TEST(all_void)
{
	setup("auto", "1");
	rw(1)->state = PK_RW_SPREAD;
	ck_assert_ptr_nonnull(pk_thread_record());
	for (int k = 0; k < PK_RECORD_READS; k++)
		pk_self.record->reads.lock[k] = (uint64_t)(uintptr_t)&lock[0] | PK_READ_VOID;
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[1]), 0);
	ck_assert_uint_eq(entries(1, PK_READ_HERE), 1);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[1]), 0);
	ck_assert_uint_eq(entries(0, PK_READ_VOID), PK_RECORD_READS - 1);
}
END_TEST

/* More locks than entries, out of order, each twice: those that find no entry are counted in the lock. */
START_TEST(many_at_once)
{
	setup(modes[1 + _i], "2x4");
	for (int i = 0; i < LOCKS; i++)
		spread(i);
	for (int i = 0; i < 2 * LOCKS; i++)
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[i % LOCKS]), 0);
	for (int i = 0; i < LOCKS; i++)
		ck_assert_uint_eq(readers(i), 2);
	ck_assert_uint_eq(pk_self.apart, PK_RECORD_READS);
	for (int i = 0; i < 2 * LOCKS; i++)
		ck_assert_int_eq(pk_rwlock_unlock(&lock[i * 5 % LOCKS]), 0);
	for (int i = 0; i < LOCKS; i++)
		ck_assert_uint_eq(readers(i), 0);
	ck_assert_uint_eq(pk_self.apart, 0);
}
END_TEST

/* The socket that a thread is on is another one when it unlocks, and when others look for it. */
START_TEST(migrated)
{
	setup("socket", "4x1@thread");
	spread(0);
	for (int i = 0; i < 8; i++) {
		pk_topology_read("", i & 1 ? "4x1" : "4x1@thread");
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	}
	ck_assert_uint_eq(users(0) + central(0), 8);
	ck_assert_uint_ge(users(0), PK_RECORD_READS);
	for (int i = 0; i < 8; i++) {
		pk_topology_read("", i & 2 ? "4x1" : "4x1@thread");
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
		ck_assert_uint_eq(readers(0), 7 - (unsigned)i);
	}
}
END_TEST

/* Another thread unlocks; and one that has nothing to unlock is told so. */
START_TEST(by_another)
{
	setup(modes[1 + _i], "2x4");
	spread(0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(unlock_one), 0);
	ck_assert_uint_eq(readers(0), 1);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), EBUSY);
	ck_assert_int_eq((int)(intptr_t)in_thread(unlock_one), 0);
	ck_assert_uint_eq(readers(0), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(unlock_one), EPERM);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), 0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(readers(0), 0);
}
END_TEST

/* As a front of this process leaves it. */
static void shut(uint64_t state)
{
	rw(0)->closed_by = pk_incarnation();
	pk_store_relaxed(&rw(0)->state, state);
}

/* A closed lock, and nobody in front who would open it: who holds a read lock passes, of whatever lock; others, and all
 * where the kind says so, do not. */
START_TEST(closed)
{
	struct timespec past = {0, 0};

	setup(modes[_i], "1");
	if (_i == 1 || _i == 2)
		spread(1);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[1]), 0);
	shut(PK_RW_CLOSED);
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	rw(0)->kind = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
	ck_assert_int_eq(pk_rwlock_tryrdlock(&lock[0]), EBUSY);
	rw(0)->kind = 0;
	ck_assert_int_eq(pk_rwlock_tryrdlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[1]), 0);
	ck_assert_int_eq(pk_rwlock_trywrlock(&lock[0]), EBUSY);
	shut(PK_RW_CLOSED | PK_RW_READER); /* somebody reads it */
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_timedwrlock(&lock[0], &past), ETIMEDOUT);
	ck_assert_uint_eq(rw(0)->state & (PK_RW_READERS | PK_RW_WRITER), PK_RW_READER);
}
END_TEST

/* The same, and nobody has it: who has no time left takes it, and opens it, but for a reader where the kind says so. */
START_TEST(closed_and_free)
{
	struct timespec past = {0, 0};

	setup(modes[_i], "1");
	shut(PK_RW_CLOSED);
	rw(0)->kind = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), ETIMEDOUT);
	rw(0)->kind = 0;
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), 0);
	ck_assert_uint_eq(rw(0)->state, PK_RW_READER);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	shut(PK_RW_CLOSED);
	ck_assert_int_eq(pk_rwlock_timedwrlock(&lock[0], &past), 0);
	ck_assert_uint_eq(rw(0)->state, PK_RW_WRITER);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(rw(0)->state, 0);
}
END_TEST

static void *read_once(void *arg)
{
	return (void *)(intptr_t)(pk_rwlock_rdlock(&lock[0]) || pk_rwlock_unlock(&lock[0])) + (intptr_t)arg;
}

/* What a front that is awake may leave, and what one that sleeps may. */
static const uint64_t closed_for[] = {PK_RW_CLOSED | PK_RW_RECALL, PK_RW_CLOSED, PK_RW_CLOSED | PK_RW_SLEEPER};

/* Who is in front has closed it to wait for readers, and has not been heard of since: who has waited for long reads with them, and opens
 * it. Who has no time reads as well, as tryrdlock does, and leaves it closed. */
START_TEST(closed_and_read)
{
	struct timespec past = {0, 0};

	setup("auto", "1");
	pk_config.look = 20;
	pk_doze_setup(pk_turn_look);
	shut(closed_for[_i] | PK_RW_READER);
	rw(0)->kind = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), ETIMEDOUT);
	rw(0)->kind = 0;
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert(has(0, PK_RW_CLOSED));
	ck_assert_int_eq(pk_rwlock_timedwrlock(&lock[0], &past), ETIMEDOUT);
	ck_assert_uint_eq(rw(0)->state & (PK_RW_READERS | PK_RW_WRITER), PK_RW_READER);
	shut(closed_for[_i] | PK_RW_READER);
	if (_i < 2)
		ck_assert_ptr_null(in_thread(read_once));
	ck_assert_uint_eq(rw(0)->state, (closed_for[_i] & (_i < 2 ? ~PK_RW_CLOSED : ~(uint64_t)0)) | PK_RW_READER);
}
END_TEST

/* Who has written keeps the lock for a front that it finds asleep, but not too often in a row, nor where nobody spins, nor for one of
 * the parent's, nor if the kind prefers writers. Those who are parked are called in any case, but for that kind's. */
START_TEST(keeps)
{
	static const struct {
		const char *topology;
		uint64_t flags, then;
	} table[] = {{"1x8", PK_RW_SLEEPER, PK_RW_KEPT_ONE},
		     {"1x8", PK_RW_SLEEPER | PK_RW_KEPT_ONE, 2 * PK_RW_KEPT_ONE},
		     {"1x8", PK_RW_SLEEPER | (PK_RW_KEPT - PK_RW_KEPT_ONE), PK_RW_KEPT},
		     {"1x8", PK_RW_SLEEPER | PK_RW_KEPT, 0},
		     {"1x8", PK_RW_KEPT_ONE, 0},
		     {"1x8", 0, 0},
		     {"1x8", PK_RW_SLEEPER | PK_RW_CLOSED, PK_RW_CLOSED | PK_RW_KEPT_ONE},
		     {"1x2", PK_RW_SLEEPER, 0},
		     {"1x2", PK_RW_SLEEPER | PK_RW_CLOSED, PK_RW_CLOSED}};
	const bool prefers = _i % 3 == 1, foreign = _i % 3 == 2;
	const uint64_t waits = prefers ? PK_RW_WAITER : 0, then = table[_i / 3].then;
	struct pk_bay *bay;

	setup("central", table[_i / 3].topology);
	pk_thread_start();
	bay = pk_bay_enter(0, &rw(0)->cur_writer);
	rw(0)->kind = prefers ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP : 0;
	shut(PK_RW_WRITER | PK_RW_PARKED | table[_i / 3].flags | waits);
	rw(0)->closed_by -= foreign;
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(rw(0)->state, (prefers || foreign ? then & ~PK_RW_KEPT : then) | waits | (prefers ? PK_RW_PARKED : 0));
	ck_assert_uint_eq(bay->calls, !prefers);
}
END_TEST

/* It is kept: who tries reads, who holds a read lock, and who has no time left; the last one lets others in, too. Writers take it, and
 * go on counting; but not one that does so as nobody has come. */
START_TEST(kept)
{
	struct timespec past = {0, 0};

	setup(modes[_i], "1x8");
	if (_i == 1 || _i == 2)
		spread(1);
	shut(PK_RW_KEPT_ONE);
	ck_assert_int_eq(pk_rwlock_tryrdlock(&lock[0]), 0);
	ck_assert_uint_eq(rw(0)->state, PK_RW_KEPT_ONE | PK_RW_READER);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[1]), 0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[1]), 0);
	ck_assert_uint_eq(rw(0)->state, PK_RW_KEPT_ONE | PK_RW_READER);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), 0);
	ck_assert_uint_eq(rw(0)->state, PK_RW_READER);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	for (int n = 0; n < 2; n++) {
		shut(PK_RW_KEPT_ONE);
		ck_assert_int_eq(n ? pk_rwlock_trywrlock(&lock[0]) : pk_rwlock_wrlock(&lock[0]), 0);
		ck_assert_uint_eq(rw(0)->state, PK_RW_KEPT_ONE | PK_RW_WRITER);
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
		ck_assert_uint_eq(rw(0)->state, 0);
	}
}
END_TEST

static uint64_t waited_us;

static void *read_then(void *arg)
{
	const uint64_t began = pk_clock_us();
	void *ret = read_once(arg);

	waited_us = pk_clock_us() - began;
	return ret;
}

/* Nobody comes: readers do not wait for long, and have others in, too, whether somebody reads that may pass, or not, and they have lost
 * patience, or not. (Nothing else would wake them.) */
START_TEST(kept_for_nobody)
{
	const uint64_t reads = _i % 2 ? PK_RW_READER : 0;
	struct pk_bay *bay;

	setup(modes[_i / 2 % MODES], "1x8");
	bay = pk_bay_enter(0, &rw(0)->cur_writer);
	pk_config.patience = _i / 2 < MODES ? 10000000 : 0;
	shut(PK_RW_KEPT_ONE | PK_RW_PARKED | reads);
	ck_assert_ptr_null(in_thread(read_then));
	ck_assert_uint_eq(rw(0)->state & ~PK_RW_SPREAD, reads);
	ck_assert_uint_ge(waited_us, 200);
	ck_assert_uint_gt(bay->calls, 0);
}
END_TEST

static void *read_late(void *arg)
{
	const uint64_t began = pk_clock_us();
	const struct timespec soon = pk_clock_after(30000);
	int ret = pk_rwlock_clockrdlock(&lock[0], CLOCK_MONOTONIC, &soon);

	waited_us = pk_clock_us() - began;
	return (void *)(intptr_t)ret + (intptr_t)arg;
}

/* A front that has lost patience has closed it: readers wait for it, until their time is over; or they have lost it, too, and are the
 * front themselves. */
START_TEST(kept_and_closed)
{
	setup(modes[_i % MODES], "1x8");
	pk_config.patience = _i < MODES ? 10000000 : 0;
	shut(PK_RW_CLOSED | PK_RW_KEPT_ONE | PK_RW_PARKED);
	ck_assert_ptr_null(in_thread(_i < MODES ? read_late : read_once));
	ck_assert_uint_eq(rw(0)->state & ~PK_RW_SPREAD, _i < MODES ? PK_RW_READER : 0);
	if (_i < MODES)
		ck_assert_uint_ge(waited_us, 30000);
}
END_TEST

/* Who was to see to the others of its bay has no time left: it calls them, if only who does not come keeps them out. It reads by itself, as
 * tryrdlock does, unless a writer is there. */
START_TEST(late_while_kept)
{
	static const uint64_t states[] = {PK_RW_KEPT_ONE, PK_RW_KEPT_ONE | PK_RW_CLOSED, PK_RW_KEPT_ONE | PK_RW_WRITER, PK_RW_CLOSED};
	struct timespec past = {0, 0};
	struct pk_bay *bay;

	setup("central", "1x8");
	pk_thread_start();
	bay = pk_bay_enter(0, &rw(0)->cur_writer);
	bay->lead = 1;
	shut(states[_i] | (states[_i] & PK_RW_WRITER ? 0 : PK_RW_READER));
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), states[_i] & PK_RW_WRITER ? ETIMEDOUT : 0);
	ck_assert_uint_eq(bay->calls, _i == 0);
	ck_assert(has(0, PK_RW_PARKED));
}
END_TEST

static atomic_bool is_in;

static void *read_and_tell(void *arg)
{
	int ret = pk_rwlock_rdlock(&lock[0]);

	atomic_store(&is_in, true);
	return (void *)(intptr_t)(ret || pk_rwlock_unlock(&lock[0])) + (intptr_t)arg;
}

/* A reader that finds no bay queues behind a writer that waits for a reader that may wait for it: it looks while that one has the lock
 * open, though both do so now and then, and for twice as long each time. */
START_TEST(without_bay)
{
	enum { TRIES = 4, LONGEST_US = 3000000 };
	static char others[4096];

	setup("central", "1");
	pk_thread_start();
	for (unsigned n = 0; n < sizeof(others); n++)
		pk_park_enter(0, &others[n]);
	ck_assert_ptr_null(pk_park_enter(0, &rw(0)->cur_writer));
	for (int n = 0; n < TRIES; n++) {
		pthread_t writer, reader;
		void *failed;
		uint64_t began;

		atomic_store(&is_in, false);
		ck_assert_int_eq(pk_rwlock_wrlock(&lock[0]), 0);
		ck_assert_int_eq(pthread_create(&writer, NULL, write_once, NULL), 0);
		while (!pk_load_relaxed(&rw(0)->lock))
			;
		ck_assert_int_eq(pthread_create(&reader, NULL, read_and_tell, NULL), 0);
		usleep(1000);
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
		for (began = pk_clock_us(); !atomic_load(&is_in); usleep(1000))
			ck_assert_uint_lt(pk_clock_us() - began, LONGEST_US);
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
		ck_assert_int_eq(pthread_join(writer, &failed), 0);
		ck_assert_ptr_null(failed);
		ck_assert_int_eq(pthread_join(reader, &failed), 0);
		ck_assert_ptr_null(failed);
	}
}
END_TEST

/* Whom it is kept for finds a reader there that may pass, and sleeps: it is kept no more, whether it is closed (_i 1) or not. */
START_TEST(kept_no_more)
{
	pthread_t writer;
	void *failed;

	setup("central", "1x8");
	pk_config.patience = _i ? 0 : 10000000;
	pk_thread_start();
	shut(PK_RW_KEPT_ONE | PK_RW_READER);
	ck_assert_int_eq(pthread_create(&writer, NULL, write_once, NULL), 0);
	while (!has(0, PK_RW_SLEEPER))
		;
	ck_assert_uint_eq(rw(0)->state, PK_RW_READER | PK_RW_SLEEPER | (_i ? PK_RW_CLOSED : 0));
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_int_eq(pthread_join(writer, &failed), 0);
	ck_assert_ptr_null(failed);
	ck_assert_uint_eq(rw(0)->state, 0);
}
END_TEST

/* How often it has been kept is not forgotten while it is written, by a front that gives up, nor by a writer that takes it as nobody
 * has come. */
START_TEST(goes_on_counting)
{
	struct timespec past = {0, 0};

	setup("central", "1x8");
	pk_thread_start();
	shut(PK_RW_WRITER | 2 * PK_RW_KEPT_ONE);
	ck_assert_int_eq(pk_rwlock_timedwrlock(&lock[0], &past), ETIMEDOUT);
	ck_assert_uint_eq(rw(0)->state, PK_RW_WRITER | 2 * PK_RW_KEPT_ONE);
	shut(PK_RW_CLOSED | 2 * PK_RW_KEPT_ONE);
	rw(0)->lock = 1; /* somebody is in front */
	ck_assert_int_eq(pk_rwlock_timedwrlock(&lock[0], &past), 0);
	ck_assert_uint_eq(rw(0)->state, PK_RW_WRITER | 2 * PK_RW_KEPT_ONE);
}
END_TEST

/* A child's thread unlocks what it has inherited as written: those of the child who sleep in the lot are called (_i 1), and those
 * of its parent's are forgotten. */
START_TEST(inherited_with_sleepers)
{
	struct pk_bay *bay;
	uint32_t calls;

	setup("central", "1");
	pk_thread_start();
	pk_self.parent = 1;
	rw(0)->state = PK_RW_WRITER | PK_RW_READER | PK_FLAG_LOT;
	rw(0)->cur_writer = 1;
	bay = _i ? pk_bay_enter(0, &rw(0)->queue.aux) : NULL;
	calls = bay ? bay->calls : 0;
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(rw(0)->state, bay ? PK_FLAG_LOT : 0);
	ck_assert_uint_eq(bay ? bay->calls : 1, calls + 1);
}
END_TEST

/* In a child of fork nobody will open it, or come whom it is kept for: its readers come in at once, writers as little as with
 * glibc. */
START_TEST(closed_by_parent)
{
	const uint64_t flag = _i < MODES ? PK_RW_CLOSED : PK_RW_KEPT_ONE;
	struct timespec past = {0, 0};
	pid_t child;
	int status;

	setup(modes[_i % MODES], "1");
	shut(flag | PK_RW_SLEEPER | PK_RW_READER);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (pk_rwlock_timedrdlock(&lock[0], &past) || central(0) != 2 || pk_rwlock_unlock(&lock[0]))
			_exit(1);
		_exit(pk_rwlock_timedwrlock(&lock[0], &past) != ETIMEDOUT || in_thread(read_once));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(pk_rwlock_timedrdlock(&lock[0], &past), 0); /* as tryrdlock: it does not open it */
	ck_assert(has(0, flag));
}
END_TEST

/* READERS leave, one every half a millisecond; how many had left when the writer that waits for them went to sleep. */
static int left_before_sleep(void)
{
	pthread_t writer;
	int left = 0;
	bool slept;

	for (int i = 0; i < READERS; i++)
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq(pthread_create(&writer, NULL, write_once, NULL), 0);
	while (!(slept = has(0, PK_RW_SLEEPER)) && !has(0, PK_RW_CLOSED))
		;
	for (int i = 0; i < READERS; i++) {
		for (uint64_t until = pk_clock_ns() + 500000; pk_clock_ns() < until;)
			slept |= has(0, PK_RW_SLEEPER);
		left += !slept;
		ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	}
	ck_assert_int_eq(pthread_join(writer, NULL), 0);
	return left;
}

/* Who is in front keeps the lock closed, and looks, for as long as readers leave; not if none does. */
START_TEST(drained)
{
	int most = 0, least = READERS;

	setup(modes[_i], "2x4");
	pk_config.spin = 1000000; /* 5 to 20 ms for each of them */
	if (_i == 1 || _i == 2)
		spread(0);
	/* This thread or the other one may be held up: then it does sleep. */
	for (int i = 0; i < 200 && most < READERS; i++) {
		int left = left_before_sleep();

		most = left > most ? left : most;
	}
	ck_assert_int_eq(most, READERS);
	pk_config.spin = 300; /* 10 us: it sleeps, unless it is held up */
	for (int i = 0; i < 200 && least >= READERS / 2; i++) {
		int left = left_before_sleep();

		least = left < least ? left : least;
	}
	ck_assert_int_lt(least, READERS / 2);
}
END_TEST

/* A lock's memory freed while it is read-locked, and a lock there again: it has no reader. With and without destroy. */
START_TEST(left_over)
{
	setup("bravo", "1");
	spread(0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	if (_i)
		ck_assert_int_eq(pk_rwlock_destroy(&lock[0]), 0);
	ck_assert_int_eq(pk_rwlock_init(&lock[0], NULL), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), 0);
	spread(0);
	ck_assert_uint_eq(readers(0), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), 0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_uint_eq(readers(0), 1);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(readers(0), 0);
}
END_TEST

/* The child of a fork still holds what its thread held, and can let it go. */
START_TEST(forked)
{
	pid_t child;
	int status;

	setup(modes[_i], "2x4");
	if (_i == 1 || _i == 2)
		spread(0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		alarm(20);
		if (readers(0) != 2 || (int)(intptr_t)in_thread(try_to_write) != EBUSY)
			_exit(1);
		if (pk_rwlock_unlock(&lock[0]) || readers(0) != 1 || (intptr_t)in_thread(try_to_write) != EBUSY)
			_exit(2);
		if (pk_rwlock_unlock(&lock[0]) || readers(0) || in_thread(try_to_write))
			_exit(3);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(readers(0), 2);
}
END_TEST

/* A reader that has been counted back in is counted once in the child, though others are counted apart by then. */
START_TEST(forked_after_recall)
{
	pid_t child;
	int status;

	setup(modes[1 + _i], "2x4");
	spread(0);
	ck_assert_int_eq(pk_rwlock_rdlock(&lock[0]), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), EBUSY);
	usleep(10000); /* until they may be counted apart again */
	ck_assert_ptr_null(in_thread(read_once));
	ck_assert(has(0, PK_RW_SPREAD));
	ck_assert_uint_eq(readers(0), 1);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		alarm(20);
		_exit(readers(0) != 1 || pk_rwlock_unlock(&lock[0]) || readers(0) || in_thread(try_to_write));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(pk_rwlock_unlock(&lock[0]), 0);
	ck_assert_uint_eq(readers(0), 0);
}
END_TEST

/* A crowd of readers and some writers, while the machine is remapped all the time. */
static atomic_bool over;
static unsigned long data[2];

static void *use(void *arg)
{
	uint32_t luck = 2654435761u * (uint32_t)(1 + (uintptr_t)arg);

	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		bool write = (luck = luck * 1664525 + 1013904223) >> 24 < 3;
		struct timespec now;

		if (write) {
			clock_gettime(CLOCK_MONOTONIC, &now);
			if (luck >> 20 & 1 ? pk_rwlock_wrlock(&lock[0])
					   : pk_rwlock_clockwrlock(&lock[0], CLOCK_MONOTONIC, &now))
				continue;
			data[0]++;
			if (luck >> 19 & 1)
				sched_yield();
			data[1]++;
		} else {
			if (pk_rwlock_rdlock(&lock[0]))
				return "rdlock";
			if ((luck >> 8) % 61 == 0)
				sched_yield();
			if (*(volatile unsigned long *)&data[0] != *(volatile unsigned long *)&data[1])
				return "a reader together with a writer";
		}
		if (pk_rwlock_unlock(&lock[0]))
			return "unlock";
	}
	return NULL;
}

START_TEST(remapped_all_the_time)
{
	pthread_t thread[THREADS];
	void *complaint;

	setup(modes[_i], "8x1@thread");
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, use, (void *)i), 0);
	for (int i = 0; i < STRESS_MS; i++) {
		pk_topology_read("", i & 1 ? "8x1@thread" : "8x1");
		usleep(1000);
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(thread[i], &complaint), 0);
		ck_assert_msg(!complaint, "%s", (const char *)complaint);
	}
	ck_assert_uint_eq(readers(0), 0);
	ck_assert_int_eq((int)(intptr_t)in_thread(try_to_write), 0);
	ck_assert_uint_gt(data[0], 0);
}
END_TEST

UNIT("rwlock", {places, MODES}, {heat, 1}, {heat_is_paid, 1}, {recalled, 2}, {resumed, 2}, {brimful, 2}, {withdrawn_by_nobody, 1}, {unlocked_in_between, 1}, {all_void, 1}, {many_at_once, 2},
     {migrated, 1}, {by_another, 2}, {closed, MODES}, {closed_and_free, MODES}, {closed_and_read, 3}, {closed_by_parent, 2 * MODES}, {keeps, 27}, {kept, MODES},
     {kept_for_nobody, 4 * MODES}, {kept_and_closed, 2 * MODES}, {late_while_kept, 4}, {without_bay, 1}, {kept_no_more, 2}, {goes_on_counting, 1}, {inherited_with_sleepers, 2}, {drained, MODES},
     {left_over, 2}, {forked, MODES}, {forked_after_recall, 2}, {remapped_all_the_time, MODES})
