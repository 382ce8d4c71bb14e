/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reader-writer locks under the checker: clients for locks.c.
 *
 * Writers write what readers read, and no atomic access guards it. A writer that is the last
 * one to have had the lock frees its memory. At the end nobody holds it, by whatever count. */
#include "model/locks.h"
#include "pthread/rwlock.h"

static pthread_rwlock_t rwlock PK_ALIGNED(64);
static int guarded, users;

static void setup(void)
{
	struct pk_rwlock *rw = pk_rwlock_of(&rwlock);

	mc_name(rw, sizeof(*rw), "rwlock");
	mc_name(&rw->state, 8, "the state");
	mc_name(&rw->lock, 4, "the word");
	mc_name(&rw->queue.tail, 8, "tail");
	mc_name(&rw->queue.aux, 8, "aux");
	mc_name(&rw->cur_writer, 4, "the writer");
	mc_name(&guarded, sizeof(guarded), "what the lock guards");
	for (unsigned t = 0; t < mc_threads; t++)
		mc_name(&mc_record[t]->reads, sizeof(mc_record[t]->reads), "reads of record %u", t);
	mc_watch_word(&rw->lock);
	mc_watch_rwlock(rw);
	mc_watch_bays(rw);
	users = (int)mc_threads;
}

static bool is_last(void)
{
	return __atomic_sub_fetch(&users, 1, __ATOMIC_RELAXED) == 0;
}

static void read_once(void)
{
	if (pk_rwlock_rdlock(&rwlock))
		mc_fail("rdlock fails");
	if (guarded < 0)
		mc_fail("a reader is in with a writer");
	is_last();
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
}

static void write_once(void)
{
	bool last;

	if (pk_rwlock_wrlock(&rwlock))
		mc_fail("wrlock fails");
	guarded = -1;
	guarded = 1;
	last = is_last();
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
	if (last) {
		/* What given_up() has released: to no other user does this say anything. */
		__atomic_load_n(&users, __ATOMIC_ACQUIRE);
		mc_free(&rwlock, sizeof(rwlock));
	}
}

/* The thread has not got the lock. Who frees it has to know of that, and not by the lock: a call that has failed says nothing
 * to anybody. */
static void given_up(void)
{
	__atomic_sub_fetch(&users, 1, __ATOMIC_RELEASE);
}

/* The first ones write. */
static void writer_body(unsigned t)
{
	mc_thread_begin(t);
	if (t < 1)
		write_once();
	else
		read_once();
}

/* Readers wait behind a writer that waits. */
static void preferring_setup(void)
{
	setup();
	pk_rwlock_of(&rwlock)->kind = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

/* Readers meet, for the first time, who would be counted apart from then on: thread 1 is, when it reads again, while thread
 * 0 may still see to it; and then thread 0 writes. */
static void meeting_setup(void)
{
	setup();
	users += 2;
}

static void meeting_body(unsigned t)
{
	mc_thread_begin(t);
	read_once();
	if (t == 0)
		write_once();
	else
		read_once();
}

/* Thread 0 writes to begin with, or reads. */
static void written_setup(void)
{
	setup();
	mc_thread_begin(0);
	pk_rwlock_wrlock(&rwlock);
}

static void read_setup(void)
{
	setup();
	mc_thread_begin(0);
	pk_rwlock_rdlock(&rwlock);
}

/* Readers have been there, and are counted apart from now on. */
static void spread_setup(void)
{
	setup();
	mc_thread_begin(0);
	pk_rwlock_rdlock(&rwlock);
	pk_rwlock_unlock(&rwlock);
	if (!(pk_rwlock_of(&rwlock)->state & PK_RW_SPREAD))
		mc_fail("readers are not counted apart");
}

static void held_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0) {
		is_last();
		if (pk_rwlock_unlock(&rwlock))
			mc_fail("unlock fails");
	} else if (t == 1) {
		write_once();
	} else {
		read_once();
	}
}

/* Thread 0 writes to begin with, and a reader has said that it sleeps, whose deadline has passed since: the others say
 * nothing, and sleep on what they read of the state. */
static void parked_setup(void)
{
	written_setup();
	pk_rwlock_of(&rwlock)->state |= PK_RW_PARKED;
}

static void parked_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		read_once();
		return;
	}
	is_last();
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
}

static void writers_body(unsigned t)
{
	mc_thread_begin(t);
	if (t < 2)
		write_once();
	else
		read_once();
}

/* Thread 1 reads until its time is over. */
static void timed_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};

	if (t != 1) {
		writer_body(t);
		return;
	}
	mc_thread_begin(t);
	if (pk_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &soon)) {
		mc_reached("a reader's deadline passes");
		given_up();
		return;
	}
	if (guarded < 0)
		mc_fail("a reader is in with a writer");
	is_last();
	pk_rwlock_unlock(&rwlock);
}

/* Thread 0 writes until its time is over. */
static void timed_writer_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};

	if (t > 0) {
		writers_body(t);
		return;
	}
	mc_thread_begin(t);
	if (pk_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &soon)) {
		mc_reached("a writer's deadline passes");
		given_up();
		return;
	}
	guarded = -1;
	guarded = 1;
	is_last();
	pk_rwlock_unlock(&rwlock);
}

static void final(void)
{
	struct pk_rwlock *rw = pk_rwlock_of(&rwlock);

	if (rw->state & (PK_RW_WRITER | PK_RW_READERS | PK_RW_WAITERS | PK_RW_RECALL | PK_RW_CLOSED | PK_RW_KEPT) || rw->cur_writer ||
	    rw->lock)
		mc_fail("it is held at the end: %lx, writer %d, word %d", (long)rw->state, rw->cur_writer, rw->lock);
	mc_is_idle(rw, &rw->queue);
	for (unsigned t = 0; t < mc_threads; t++)
		for (unsigned n = 0; n < PK_RECORD_READS; n++)
			if (mc_record[t]->reads.lock[n])
				mc_fail("thread %u has an entry for it at the end: %lx", t,
					(long)mc_record[t]->reads.lock[n]);
}

/* ---- more than one lock or round, and who unlocks for others ---- */

static pthread_rwlock_t other PK_ALIGNED(64);

static void try_to_write(void)
{
	if (pk_rwlock_trywrlock(&rwlock))
		return;
	guarded = -1;
	guarded = 1;
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
}

/* The thread is a reader since setup(), and is counted apart. */
static void unlock_apart(bool own)
{
	pk_self.apart = pk_self.reads = own;
	if (guarded < 0)
		mc_fail("a reader is in with a writer");
	is_last();
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
}

static void try_to_read(void)
{
	if (pk_rwlock_tryrdlock(&rwlock))
		return;
	if (guarded < 0)
		mc_fail("a reader is in with a writer");
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
}

/* Between two writings thread 0 has readers counted apart again, while thread 1 may still be about to enter as of before.
 * Nobody waits: that would be much more to explore, and nothing new. */
static void again_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0)
		try_to_write();
	try_to_read();
	if (t == 0)
		try_to_write();
}

/* The last thread has a read lock to begin with, counted apart. */
static void apart_setup(void)
{
	spread_setup();
	pk_real();
	mc_thread_begin(mc_threads - 1);
	pk_rwlock_rdlock(&rwlock);
	if (!mc_record[mc_threads - 1]->reads.lock[0])
		mc_fail("the reader is not counted apart");
}

/* Thread 0 unlocks for it; it writes next. */
static void lent_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0)
		unlock_apart(false);
	else
		write_once();
}

/* The others try to write, meanwhile and when it has gone. */
static void try_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == mc_threads - 1)
		unlock_apart(true);
	else
		try_to_write();
}

/* What is recalled, and then unlocked by another thread, thread 1 still has an entry for. */
static void lent_final(void)
{
	uint64_t *entry = &mc_record[1]->reads.lock[0];

	if ((*entry & PK_READ_TAG) == PK_READ_CENTRAL)
		*entry = 0;
	final();
}

/* Thread 1's record has an entry of a lock that was freed while it was read-locked; now it is this one. */
static void leftover_setup(void)
{
	setup();
	mc_record[1]->reads.lock[0] = (uint64_t)(uintptr_t)&rwlock;
}

/* Readers are counted apart all the same, and nobody waits for that one. */
static void leftover_body(unsigned t)
{
	mc_thread_begin(t);
	pk_self.apart = t;
	try_to_read();
	if (t == 0)
		write_once();
}

static void leftover_final(void)
{
	uint64_t *entry = &mc_record[1]->reads.lock[0];

	if (*entry && (*entry & PK_READ_TAG) != PK_READ_VOID)
		mc_fail("what was left over counts: %lx", (long)*entry);
	*entry = 0;
	final();
}

/* All but thread 0 read to begin with, counted apart. Thread 1 unlocks for all, and the others read again. */
static void lent_again_setup(void)
{
	spread_setup();
	for (unsigned t = 1; t < mc_threads; t++) {
		mc_thread_begin(t);
		pk_self.apart = pk_self.reads = 0;
		pk_rwlock_rdlock(&rwlock);
		if (!mc_record[t]->reads.lock[0])
			mc_fail("the readers are not counted apart");
	}
}

static void lent_again_body(unsigned t)
{
	mc_thread_begin(t);
	pk_self.apart = pk_self.reads = t > 0;
	if (t == 0) {
		try_to_write();
	} else if (t == 1) {
		unlock_apart(true);
		for (unsigned n = 2; n < mc_threads; n++)
			if (pk_rwlock_unlock(&rwlock))
				mc_fail("unlock fails");
	} else {
		try_to_read();
	}
}

/* An entry that is in a bay, and whose lock another thread has unlocked, as they do for these and all that follow, stays. */
static void forget_lent(unsigned t)
{
	for (; t < mc_threads; t++)
		for (unsigned n = 0; n < PK_RECORD_READS; n++)
			if ((mc_record[t]->reads.lock[n] & PK_READ_TAG) != PK_READ_HERE)
				mc_record[t]->reads.lock[n] = 0;
}

static void lent_again_final(void)
{
	forget_lent(2);
	final();
}

/* As a fork leaves it where readers are in bays: thread 0's read lock is in the entry of a record that is thread 1's now. */
static void inherited_setup(void)
{
	spread_setup();
	pk_rwlock_rdlock(&other);
	pk_rwlock_unlock(&other);
	mc_record[1]->reads.lock[0] = (uint64_t)(uintptr_t)&rwlock;
}

static void inherited_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0)
		unlock_apart(false);
	else if (t == 2)
		try_to_write();
	else if (pk_rwlock_tryrdlock(&other) || pk_rwlock_unlock(&other))
		mc_fail("tryrdlock or unlock fails");
}

/* Readers are counted apart. Thread 1 is new: a recall may have to look at a record that was not there when it began. */
static void first_setup(void)
{
	spread_setup();
	mc_ignore(pk_record_nth(pk_arena_used())->stat, sizeof(mc_record[0]->stat));
	mc_name(&pk_record_nth(pk_arena_used())->reads, sizeof(struct pk_reads), "reads of the new record");
}

static void first_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0) {
		try_to_write();
		return;
	}
	pk_self.record = NULL;
	try_to_read();
}

/* Threads come again and again, in one way or another, and not all for as long as it takes. */
static void crowd_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};

	mc_thread_begin(t);
	for (int n = 0; n < MC_ROUNDS; n++) {
		unsigned how = mc_choose(8);
		bool writes = how < 3;
		int ret;

		if (writes)
			ret = how == 0 ? pk_rwlock_wrlock(&rwlock) :
			      how == 1 ? pk_rwlock_trywrlock(&rwlock) :
					 pk_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &soon);
		else
			ret = how == 3 ? pk_rwlock_tryrdlock(&rwlock) :
			      how == 4 ? pk_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &soon) :
					 pk_rwlock_rdlock(&rwlock);
		if (ret)
			continue;
		if (writes)
			guarded = -1;
		else if (guarded < 0)
			mc_fail("a reader is in with a writer");
		if (writes)
			guarded = 1;
		if (pk_rwlock_unlock(&rwlock))
			mc_fail("unlock fails");
	}
	write_once();
}

/* Thread 0 unlocks, in their stead, for all the others, who read or write again meanwhile. */
static int lent;

static void lent_crowd_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		if (pk_rwlock_rdlock(&rwlock))
			mc_fail("rdlock fails");
		if (guarded < 0)
			mc_fail("a reader is in with a writer");
		__atomic_add_fetch(&lent, 1, __ATOMIC_RELEASE);
	}
	for (unsigned n = 1; n < mc_threads; n++) {
		while (t == 0 && !__atomic_load_n(&lent, __ATOMIC_ACQUIRE))
			;
		if (t == 0) {
			__atomic_sub_fetch(&lent, 1, __ATOMIC_RELAXED);
			if (pk_rwlock_unlock(&rwlock))
				mc_fail("unlock fails");
		}
		if (mc_choose(2))
			try_to_read();
		else
			try_to_write();
	}
}

static void lent_crowd_final(void)
{
	forget_lent(1);
	final();
}

/* Thread 0 reads to begin with, counted in the state, and then writes. */
static void upgrade_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		read_once();
		return;
	}
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
	write_once();
}

const struct mc_kind mc_rwlock_kinds[] = {{"rw-writer", setup, writer_body, final, MC_NONE},
					  {"rw-writers", setup, writers_body, final, MC_NONE},
					  {"rw-preferring", preferring_setup, writer_body, final, MC_NONE},
					  {"rw-meeting", meeting_setup, meeting_body, final, MC_NONE},
					  {"rw-timed", setup, timed_body, final, MC_NONE},
					  {"rw-timed-writer", setup, timed_writer_body, final, MC_NONE},
					  {"rw-written", written_setup, held_body, final, MC_NONE},
					  {"rw-spread", spread_setup, writer_body, final, MC_NONE},
					  {"rw-parked", parked_setup, parked_body, final, MC_NONE},
					  {"rw-read", read_setup, held_body, final, MC_NONE},
					  {"rw-again", spread_setup, again_body, final, MC_NONE},
					  {"rw-lent", apart_setup, lent_body, lent_final, MC_NONE},
					  {"rw-lent-again", lent_again_setup, lent_again_body, lent_again_final, MC_NONE},
					  {"rw-try", apart_setup, try_body, final, MC_NONE},
					  {"rw-leftover", leftover_setup, leftover_body, leftover_final, MC_NONE},
					  {"rw-inherited", inherited_setup, inherited_body, lent_final, MC_NONE},
					  {"rw-first", first_setup, first_body, final, MC_NONE},
					  {"rw-upgrade", read_setup, upgrade_body, final, MC_NONE},
					  {"rw-crowd", setup, crowd_body, final, MC_NONE},
					  {"rw-lent-crowd", spread_setup, lent_crowd_body, lent_crowd_final, MC_NONE},
					  {NULL, NULL, NULL, NULL, MC_NONE}};
