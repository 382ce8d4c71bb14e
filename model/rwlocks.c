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
	if (last)
		mc_free(&rwlock, sizeof(rwlock));
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
		is_last();
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

	if (rw->state & (PK_RW_WRITER | PK_RW_READERS | PK_RW_WAITERS | PK_RW_RECALL) || rw->cur_writer || rw->lock)
		mc_fail("it is held at the end: %lx, writer %d, word %d", (long)rw->state, rw->cur_writer, rw->lock);
	mc_is_idle(rw, &rw->queue);
	for (unsigned t = 0; t < mc_threads; t++)
		for (unsigned n = 0; n < PK_RECORD_READS; n++)
			if (mc_record[t]->reads.lock[n])
				mc_fail("thread %u has an entry for it at the end: %lx", t,
					(long)mc_record[t]->reads.lock[n]);
}

const struct mc_kind mc_rwlock_kinds[] = {{"rw-writer", setup, writer_body, final, MC_NONE},
					  {"rw-writers", setup, writers_body, final, MC_NONE},
					  {"rw-timed", setup, timed_body, final, MC_NONE},
					  {"rw-timed-writer", setup, timed_writer_body, final, MC_NONE},
					  {"rw-written", written_setup, held_body, final, MC_NONE},
					  {"rw-spread", spread_setup, writer_body, final, MC_NONE},
					  {"rw-read", read_setup, held_body, final, MC_NONE},
					  {NULL, NULL, NULL, NULL, MC_NONE}};
