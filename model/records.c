/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What comes into being while threads run, under the checker: records, which threads take with
 * their first call and give back when they end, chunks of them, storeys and their bays; clients
 * for locks.c. Nothing of it is there when they begin (`bare`).
 *
 * Records and bays are used here by their contracts (rt/arena.h, rt/storey.h, rt/thread.h)
 * without a lock around them, which would order what they have to order themselves. What a new
 * thread does in front of a lock is the same with one: mutex-new, rw-new, and queue-new in
 * queues.c.
 *
 * A thread of the checker that has ended may begin again, as one that has been created by it. */
#include <pthread.h>
#include <string.h>

#include "model/locks.h"
#include "pthread/cond.h"
#include "pthread/mutex.h"
#include "pthread/rwlock.h"
#include "pthread/turn.h"
#include "rt/real.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum { FIRST_CHUNK = 32, RECORDS = FIRST_CHUNK + MC_THREADS * 2 };

/* ---- threads that begin and end ---- */

static void (*at_exit)(void *record);
static pthread_key_t next_key;

/* Of glibc's there are none: the checker's threads are not its own. */
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	if (mc_thread() < 0)
		at_exit = destructor;
	*key = next_key;
	return 0;
}

static pthread_t id_of(int thread)
{
	return (pthread_t)(thread + 2);
}

pthread_t pthread_self(void)
{
	return id_of(mc_thread());
}

void mc_thread_new(unsigned t)
{
	memset(&pk_self, 0, sizeof(pk_self));
	pk_self.tid = 100 + (int)t;
}

void mc_thread_end(void)
{
	if (pk_self.record)
		at_exit(pk_self.record);
}

static int owners[RECORDS];
static uint32_t there; /* how many records threads find, none of them to be had */

static void setup(void)
{
	pk_real();
	for (uint32_t i = 0; i < mc_threads + 1; i++) {
		struct pk_record *r = pk_record_nth(i);

		mc_ignore(r->stat, sizeof(r->stat));
		mc_name(r, sizeof(*r), "record %u", (unsigned)i);
		mc_name(&r->next_free, 4, "record %u's next one", (unsigned)i);
		for (unsigned n = 0; n < PK_RECORD_NODES; n++)
			mc_name(&r->node[n], sizeof(r->node[n]), "node %u.%u", (unsigned)i, n);
	}
	mc_name(owners, sizeof(owners), "who has which record");
}

/* The records that are there are all taken: the next one lies in a chunk that is not. */
static void full_setup(void)
{
	setup();
	while ((there = pk_arena_used()) < FIRST_CHUNK)
		pk_record_take();
}

static struct pk_record *begin(unsigned t)
{
	struct pk_record *r;

	mc_thread_new(t);
	r = pk_thread_record();
	if (!r)
		mc_fail("there is no record to be had");
	return r;
}

/* A thread's life: nobody else has its record meanwhile. */
static void live(unsigned t)
{
	struct pk_record *r = begin(t);
	struct pk_waiter *w = pk_waiter_take(r);

	if (owners[r->index]++)
		mc_fail("two threads have one record");
	w->socket = (uint8_t)t;
	pk_waiter_free(w);
	owners[r->index]--;
	mc_thread_end();
}

static void twice_body(unsigned t)
{
	live(t);
	live(t);
}

/* All that was given back can be had again: nothing else is needed for as many threads. */
static void final(void)
{
	uint32_t n = pk_arena_used();

	if (n > there + mc_threads)
		mc_fail("%u records for %u threads", (unsigned)(n - there), mc_threads);
	for (uint32_t left = n - there; left; left--)
		pk_record_take();
	if (pk_arena_used() != n)
		mc_fail("a record is lost");
}

/* ---- those who look for others' records ---- */

static uint64_t copied;

/* Thread 0 comes by a record of others in one of four ways. */
static void look_body(unsigned t)
{
	struct pk_record *r;
	struct pk_waiter *w;

	if (t > 0) {
		r = begin(t);
		w = pk_waiter_take(r);
		w->policy = PK_POLICY_mcs;
		pk_count_in(r, PK_STAT_entered);
		/* A lock is copied, while somebody is in its queue: it is told what, and nothing with it. */
		pk_store_relaxed(&copied, pk_waiter_name(w));
		return;
	}
	mc_thread_new(t);
	switch (mc_choose(4)) {
	case 0:
		if (pk_stat_sum(PK_STAT_entered))
			mc_reached("a new thread's count");
		break;
	case 1:
		r = pk_record_of(id_of(1), NULL);
		if (r && pk_load_relaxed(&r->cancelled))
			mc_fail("a thread is cancelled by nobody");
		break;
	case 2:
		for (uint32_t i = FIRST_CHUNK, n = pk_arena_known(); i < n; i++)
			if (pk_load_relaxed(&pk_record_nth(i)->reads.lock[0]))
				mc_fail("a new thread reads");
		break;
	default:
		w = pk_waiter_named(pk_load_relaxed(&copied));
		if (w && pk_load_relaxed(&w->status))
			mc_reached("a copied name");
	}
}

/* Thread 0 cancels thread 1 (pthread/cancel.c), and that looks whether it has been cancelled, as
 * before a wait (pthread/cond.c, C3): either glibc knows by then, or its record says so, to the end. */
static bool cancelled, saw;

static int tell_glibc(pthread_t thread)
{
	(void)thread;
	pk_store_relaxed(&cancelled, true);
	return 0;
}

static void cancel_setup(void)
{
	struct pk_real *real = (struct pk_real *)pk_real();

	setup();
	real->pthread_cancel = tell_glibc;
}

static void cancel_body(unsigned t)
{
	mc_thread_new(t);
	if (t > 0) {
		mc_record[t] = pk_thread_record();
		saw = pk_load_relaxed(&cancelled);
		return;
	}
	if (pk_cancel(id_of(1)))
		mc_fail("cancel fails");
}

static void cancel_final(void)
{
	if (!saw && !pk_load_relaxed(&mc_record[1]->cancelled))
		mc_fail("a cancellation is lost");
}

/* Thread 0 is in the constructor, while there are others. */
static void constructor_setup(void)
{
	setup();
	next_key = 1000; /* not one to be used */
	pk_thread_setup(pk_turn_gone);
	next_key = 1;
}

static void constructor_body(unsigned t)
{
	mc_thread_new(t);
	if (t == 0) {
		pk_incarnation_setup();
		pk_incarnation_next();
		pk_thread_setup(pk_turn_gone);
	} else if (pk_thread_record()) {
		mc_thread_end();
	}
}

/* The child of a fork, before the library's handler has run there: thread 0 has forked, others are new. */
static struct pk_record *inherited;

static void forked_setup(void)
{
	setup();
	mc_thread_new(0);
	inherited = pk_thread_record();
	pk_record_take(); /* its parent's */
	pk_incarnation_setup();
}

static void forked_body(unsigned t)
{
	struct pk_record *r;

	mc_thread_new(t);
	pk_self.tid = 0; /* or glibc is asked for another one */
	if (t == 0)
		pk_self.record = inherited;
	r = pk_thread_record();
	if (!r)
		return; /* somebody is about to begin anew */
	if (r == inherited)
		mc_fail("an inherited record is used");
	if (owners[r->index]++)
		mc_fail("two threads have one record");
	owners[r->index]--;
	mc_thread_end();
}

static void no_final(void)
{
}

/* ---- bays, on a socket whose storey nobody has used ---- */

enum { SOCKET = 2 };

static uint32_t object, flag;
static int guarded;
static struct pk_bay *bay;

static void bays_setup(void)
{
	mc_name(&object, sizeof(object), "the object");
	mc_name(&flag, sizeof(flag), "the flag");
	mc_name(&guarded, sizeof(guarded), "what users read");
}

/* Thread 0 raises a flag, and then looks for users; the others enter, and then look at the flag. At least one sees the
 * other. */
static bool found, missed[MC_THREADS];

static void enter_body(unsigned t)
{
	struct pk_bay *b;

	if (t == 0) {
		__atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
		found = pk_bay_next(SOCKET, &object, NULL);
		return;
	}
	b = pk_bay_enter(SOCKET, &object);
	if (!b)
		mc_fail("there is no bay to be had");
	missed[t] = !pk_load_seq_cst(&flag);
	/* The last one stays. */
	if (t < mc_threads - 1 && !pk_bay_leave(b, &object))
		mc_fail("the bay has lost a user");
}

static void enter_final(void)
{
	if (missed[mc_threads - 1] && !found)
		mc_fail("neither has seen the other");
	while (pk_bay_leave_any(SOCKET, &object))
		;
	if (pk_bay_next(SOCKET, &object, NULL))
		mc_fail("a bay is in use at the end");
}

/* Users of a bay read something; who closes it, as recall does (pthread/readers.c), writes that, once those whom it
 * has found there have gone another way. Thread 0 closes; thread 1 is a user to begin with, others come later. */
static uint32_t counted;

static void close_setup(void)
{
	bays_setup();
	mc_name(&counted, sizeof(counted), "the count");
	bay = pk_bay_enter(SOCKET, &object);
}

static void read_and_leave(bool comes)
{
	if (!comes && guarded)
		mc_fail("it is written while it is read");
	for (int look = 0; !pk_bay_leave_any(SOCKET, &object); look++) {
		if (pk_load_relaxed(&counted)) {
			pk_sub_release(&counted, 1);
			return;
		}
		/* At the first look it may have been closed meanwhile, and at the second it had been. */
		if (look)
			mc_fail("a user has been forgotten");
	}
}

static void close_body(unsigned t)
{
	if (t > 1 && !pk_bay_enter(SOCKET, &object))
		mc_fail("there is no bay to be had");
	if (t > 0) {
		read_and_leave(t > 1);
		return;
	}
	for (unsigned users; (users = pk_bay_users(bay, &object));) {
		pk_add_relaxed(&counted, users);
		if (pk_bay_close(bay, &object, users))
			break;
		pk_sub_relaxed(&counted, users);
	}
	if (!__atomic_load_n(&counted, __ATOMIC_ACQUIRE))
		guarded = 1;
}

/* A storey of somebody's own, and a bay of it by name. */
static uint32_t number;

static void storey_body(unsigned t)
{
	uint32_t n;

	if (t > 0) {
		unsigned own = pk_storeys_allot(1);

		if (!pk_bay_enter(own, &object))
			mc_fail("there is no bay to be had");
		n = pk_contexts_known();
		if (!n || !pk_context_nth(n - 1) || pk_context_nth(n))
			mc_fail("a storey that was allotted is not known");
		bay = pk_bay_enter(SOCKET, &object);
		__atomic_store_n(&number, 1 + pk_bay_number(SOCKET, bay), __ATOMIC_RELEASE);
		return;
	}
	n = pk_contexts_known();
	for (uint32_t i = n ? n - 1 : n; i < n; i++) {
		struct pk_waiter *w = pk_context_nth(i);

		if (w && pk_load_relaxed(&w->busy))
			mc_fail("a context is in use");
	}
	n = __atomic_load_n(&number, __ATOMIC_ACQUIRE);
	if (n && !pk_bay_users(pk_bay_numbered(n - 1), &object))
		mc_fail("that is not the bay");
}

/* ---- new threads in front of a lock ---- */

static pthread_mutex_t mutex PK_ALIGNED(64);
static pthread_rwlock_t rwlock PK_ALIGNED(64);

static void mutex_setup(void)
{
	setup();
	mc_name(&mutex, sizeof(mutex), "mutex");
	pk_mutex_of(&mutex)->lock = 1;
}

/* Thread 0 has the mutex to begin with. */
static void mutex_body(unsigned t)
{
	mc_thread_new(t);
	if (t > 0 && pk_mutex_lock(&mutex))
		mc_fail("lock fails");
	if (guarded++)
		mc_fail("two threads have the mutex");
	guarded--;
	pk_mutex_unlock(&mutex);
	mc_thread_end();
}

static void mutex_final(void)
{
	mc_is_idle(&mutex, &pk_mutex_of(&mutex)->queue);
	for (uint32_t i = 0; i < pk_arena_used(); i++)
		if (pk_waiters_idle(pk_record_nth(i)) != PK_RECORD_NODES)
			mc_fail("record %u has a node in use at the end", (unsigned)i);
	final();
}

/* Readers are counted apart; thread 0 writes. */
static void rw_setup(void)
{
	setup();
	mc_name(&rwlock, sizeof(rwlock), "rwlock");
	pk_rwlock_of(&rwlock)->state = PK_RW_SPREAD;
}

static void rw_body(unsigned t)
{
	mc_thread_new(t);
	if (t > 0) {
		if (pk_rwlock_rdlock(&rwlock) || guarded)
			mc_fail("a reader is in with a writer");
	} else {
		if (pk_rwlock_wrlock(&rwlock))
			mc_fail("wrlock fails");
		guarded = 1;
		guarded = 0;
	}
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
	mc_thread_end();
}

/* Thread 1 is a reader to begin with, counted in its socket's bay; others of its socket come. */
static void apart_setup(void)
{
	mc_name(&rwlock, sizeof(rwlock), "rwlock");
	pk_rwlock_of(&rwlock)->state = PK_RW_SPREAD;
	mc_thread_begin(1);
	if (pk_rwlock_rdlock(&rwlock) || !pk_self.apart)
		mc_fail("the reader is not counted apart");
}

static void apart_body(unsigned t)
{
	mc_thread_begin(t);
	if (t == 0) {
		if (pk_rwlock_wrlock(&rwlock))
			mc_fail("wrlock fails");
		guarded = 1;
		guarded = 0;
	} else if (t == 1) {
		pk_self.apart = pk_self.reads = 1;
	} else if (pk_rwlock_rdlock(&rwlock)) {
		mc_fail("rdlock fails");
	}
	if (t > 0 && guarded)
		mc_fail("a reader is in with a writer");
	if (pk_rwlock_unlock(&rwlock))
		mc_fail("unlock fails");
}

static void rw_final(void)
{
	struct pk_rwlock *rw = pk_rwlock_of(&rwlock);

	if (rw->state & (PK_RW_WRITER | PK_RW_READERS | PK_RW_WAITERS | PK_RW_RECALL) || rw->lock)
		mc_fail("it is held at the end: %lx, word %d", (long)rw->state, rw->lock);
	mc_is_idle(rw, &rw->queue);
}

#define BARE(name, setup, body, final) {name, setup, body, final, MC_NONE, true}

const struct mc_kind mc_record_kinds[] = {BARE("records", setup, twice_body, final),
					  BARE("records-chunk", full_setup, live, final),
					  BARE("records-look", full_setup, look_body, no_final),
					  BARE("records-cancel", cancel_setup, cancel_body, cancel_final),
					  BARE("records-constructor", constructor_setup, constructor_body, no_final),
					  BARE("records-forked", forked_setup, forked_body, no_final),
					  BARE("bays-enter", bays_setup, enter_body, enter_final),
					  BARE("bays-close", close_setup, close_body, no_final),
					  BARE("bays-storey", bays_setup, storey_body, no_final),
					  BARE("mutex-new", mutex_setup, mutex_body, mutex_final),
					  BARE("rw-new", rw_setup, rw_body, rw_final),
					  {"rw-apart", apart_setup, apart_body, rw_final, MC_NONE, false},
					  {NULL, NULL, NULL, NULL, MC_NONE, false}};
