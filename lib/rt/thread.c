/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Per-thread state; the contract is in thread.h.
 *
 * A record goes back when its thread exits, by the destructor of a key, in each round
 * of destructors: those of other keys may lock, and take one again. In the last round
 * none is taken any more, as nobody would give it back; so that it is known to be that
 * one, the key has a value from the thread's first lock on. glibc stores the values of
 * the first 32 keys in the thread itself; a later key might allocate memory on the lock
 * path, so then there are no records. */
#include "rt/thread.h"

#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/arch.h"
#include "rt/fork.h"
#include "rt/hall.h"
#include "rt/real.h"
#include "rt/report.h"

enum { KEYS_IN_THREAD = 32 };

__thread struct pk_thread pk_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

static pthread_key_t key;
static bool usable;  /* the key is there */
static bool forward; /* PARKADE_POLICY=glibc */
static void (*wait_gone)(struct pk_waiter *w);

/* Have thread_exit() called for the thread, or once more. */
static void mark_for_exit(void)
{
	if (pk_load_acquire(&usable) && !pk_self.exiting)
		pk_real()->pthread_setspecific(key, &pk_self); /* any value but null */
}

/* The thread does not come back to what it waits for. */
static void leave_wait(void)
{
	pk_self.exiting = true;
	/* Handlers are not to give up what is being given up here, nor the place of a destructor that waits, awake. */
	pk_store_relaxed(&pk_self.asleep, false);
	if (!pk_self.waits && !pk_self.chain)
		return;
	wait_gone(pk_self.waits);
	pk_store_relaxed(&pk_self.waits, NULL);
}

void pk_thread_unwound(const struct pk_waiter *w)
{
	bool exiting = pk_self.exiting;

	if (pk_self.waits != w)
		return;
	leave_wait();
	pk_self.exiting = exiting;
}

static void thread_exit(void *value)
{
	struct pk_record *r;
	bool last = ++pk_self.rounds >= PTHREAD_DESTRUCTOR_ITERATIONS;

	(void)value;
	if (!last)
		mark_for_exit();
	leave_wait();
	r = pk_self.record; /* not earlier: a handler may have brought it */
	pk_self.record = NULL;
	pk_self.exiting = last; /* then destructors of other keys lock without a record */
	if (!r)
		return;
	pk_store_relaxed(&r->thread, 0);
	pk_record_give(r);
}

void pk_thread_setup(void (*gone)(struct pk_waiter *w))
{
	wait_gone = gone;
	if (pthread_key_create(&key, thread_exit))
		return;
	pk_store_release(&usable, key < KEYS_IN_THREAD);
	if (key >= KEYS_IN_THREAD)
		pk_report("parkade: warning: the program has made %u thread-specific keys before the library could "
			  "make its own: threads wait without queues\n",
			  (unsigned)key);
}

void pk_thread_forward(void)
{
	/* First: who has a tid for good asks, where a way of ours and glibc's do not go together (pthread/rwlock.h). */
	pk_settle_never();
	pk_store_release(&forward, true);
	pk_self.tid = 0;
}

bool pk_thread_forwards(void)
{
	return pk_load_acquire(&forward);
}

static int gettid_here(void)
{
	return (int)pk_arch_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* The thread's ID as glibc has it. It is asked for by locking a mutex: without a
 * system call, which a sandbox may have forbidden by now, and right even where
 * glibc's idea is its own (in the child of vfork, which is the parent's thread in
 * our eyes, too). */
static int tid_of_glibc(void)
{
	/* Of a kind that glibc never elides: eliding leaves no owner. */
	pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	int tid;

	pk_real()->pthread_mutex_lock(&mutex);
	tid = mutex.__data.__owner;
	pk_real()->pthread_mutex_unlock(&mutex);
	/* Not there if what stands behind us is another interposer. */
	return tid > 0 ? tid : gettid_here();
}

/* In the child of a fork, whose thread may have another tid. */
static void renumber(void)
{
	int was = pk_self.tid, tid = was ? tid_of_glibc() : 0;

	if (tid == was)
		return;
	pk_self.parent = was;
	pk_self.tid = tid;
}

bool pk_thread_start(void)
{
	/* In the child of a fork that ran no handlers: of _Fork it has another tid, and of clone some programs give it one, by a write to
	 * glibc's (Firefox, Chromium), and abort if a recursive mutex is not that one's then. */
	if (pk_self.tid) {
		if (!pk_self.asks) { /* not for another library's sake, through which glibc is asked */
			pk_self.asks = true;
			renumber();
			pk_settle(false);
			pk_self.asks = false;
		}
		return true;
	}
	if (pk_load_relaxed(&forward))
		return false;
	/* Before the constructor nothing is looked up, and nothing forbidden. */
	pk_self.tid = pk_real_ready() ? tid_of_glibc() : gettid_here();
	mark_for_exit();
	return true;
}

/* What the thread has of its parent's is nobody's. */
static void disown_record(void)
{
	struct pk_record *r = pk_self.record;

	if (!r || r->incarnation == pk_incarnation())
		return;
	for (unsigned i = 0; i < PK_RECORD_NODES; i++) {
		struct pk_waiter *w = &r->node[i];

		pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ORPHAN));
		w->spins = false;
	}
	pk_hall_fork_child(); /* it may be in the middle of a sleep in one, as a handler has forked */
	pk_self.record = NULL;
	pk_self.chain = NULL;
	pk_self.apart = 0;
}

struct pk_record *pk_thread_record(void)
{
	struct pk_record *r = pk_self.record, *none = NULL;

	if (pk_likely(r && r->incarnation == pk_incarnation()))
		return r;
	if (!pk_load_acquire(&usable) || pk_self.exiting)
		return NULL;
	/* A child, before our handler has run: others' may wait, and start threads. The thread's number is not
	 * changed here: this may be in the middle of what locks with it. */
	if (pk_unlikely(!pk_incarnation()) && !pk_fork_begin_child())
		return NULL;
	disown_record();
	r = pk_record_take();
	if (!r)
		return NULL;
	r->incarnation = pk_incarnation();
	/* Or a signal handler in between has brought one. */
	if (pk_unlikely(!pk_cas_relaxed(&pk_self.record, &none, r))) {
		pk_record_give(r);
		return none;
	}
	pk_store_relaxed(&r->cancelled, false);
	pk_store_relaxed(&r->acts, pk_self.acts);
	pk_store_release(&r->thread, pthread_self()); /* release: `cancelled` is not written after it */
	pk_fence();				      /* pthread/cancel.c says why */
	mark_for_exit(); /* it may have started before there was a key */
	return r;
}

void pk_thread_acts(bool acts)
{
	pk_self.acts = acts;
	if (pk_self.record)
		pk_store_relaxed(&pk_self.record->acts, acts);
}

void pk_thread_fork_child(void)
{
	pk_settle(true);
	pk_self.asks = false; /* a handler has forked in the midst of it */
	/* The same: it has been here. (Or it is the first of a PID namespace, forked by the first of another: what the parent
	 * holds cannot be told from what the child does.) */
	renumber();
	disown_record();
}
