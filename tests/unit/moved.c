/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How one who is signalled by the mutex's holder comes to have it: woken at once, in its queue, or at its word; and who has that tried, and
 * is counted for it (pthread/trial.h). */
#include <errno.h>
#include <unistd.h>

#include "admit/list.h"
#include "base/arch/arch.h"
#include "pthread/cond.h"
#include "pthread/mutex.h"
#include "pthread/trial.h"
#include "rt/real.h"
#include "../stats/sleepers.h"
#include "gate.h"

enum { MAX = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static struct pk_mutex *const m = (struct pk_mutex *)&mutex;
static pthread_t thread[MAX];
static int tid_of[MAX];

/* As a thread begins to wait, and after it. */
static struct {
	bool asks;  /* for a trial, if it may */
	int word;   /* that of the mutex, and */
	bool busy;  /* whether its queue is, then */
	bool late;  /* the half in which it counts is over, by then */
	int counted, again;
} with[MAX];

static int done; /* so many have had the mutex again */

static unsigned waiting(void)
{
	return __atomic_load_n(&pk_cond_of(&cond)->refs, __ATOMIC_RELAXED) / PK_COND_WAITER;
}

static void *wait_once(void *arg)
{
	int me = (int)(intptr_t)arg;

	ck_assert(pk_thread_start());
	ck_assert_ptr_nonnull(pk_thread_record());
	pk_mutex_lock(&mutex);
	tid_of[me] = gettid();
	if (with[me].word)
		m->lock = with[me].word;
	if (with[me].busy) /* as if this one had come to it */
		m->queue.tail = pk_waiter_name(&pk_self.record->node[PK_RECORD_NODES - 1]);
	pk_self.asked = (uint8_t)(!with[me].asks - pk_self.tid);
	pk_self.counted = (uint8_t)with[me].counted;
	pk_self.half = (uint8_t)(pk_self.half + with[me].late);
	ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
	with[me].counted = pk_self.counted;
	with[me].again = pk_self.again;
	pk_mutex_unlock(&mutex);
	__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* As many waiters, each asleep before the next one comes. */
static void start(int n)
{
	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_once, (void *)(intptr_t)i), 0);
		while (waiting() != (unsigned)i + 1 || !sleepers_sleeps(tid_of[i]))
			usleep(100);
	}
	pk_thread_record(); /* whose counters count */
}

/* The mutex is the caller's, and all others are to come to their ends. */
static void let_go(int n)
{
	ck_assert_int_eq(pk_cond_broadcast(&cond), 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	ck_assert_int_eq(m->lock, 0);
	ck_assert(!pk_queue_busy(&m->queue));
	ck_assert_uint_eq(m->nusers, 0);
}

/* One has waited, and was called by a signal, or by a broadcast. */
static void wake_before(int how)
{
	if (how) {
		start(1);
		if (how == 1)
			ck_assert_int_eq(pk_cond_signal(&cond), 0);
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		let_go(1);
	}
	ck_assert_int_eq(pk_cond_of(&cond)->called, how);
}

/* Whose tried mutex has waiters, for signals: three at least, of a policy that is tried, where threads may spin. */
START_TEST(asks)
{
	static const struct {
		const char *policy, *topology, *parking;
		int waiters, word;
		bool asks;
		int before; /* how some were called before: PK_COND_BY_* */
		bool tried, busy;
	} table[] = {
		{"shfl", "2x8", "auto", 3, 2, true, 1, true, false},   {"shfl", "1x8", "auto", 3, 2, true, 1, true, false},
		{"shfl", "2x8", "auto", 3, 1, true, 1, true, true},    {"shfl", "2x8", "auto", 3, 2, false, 1, false, false},
		{"shfl", "2x8", "auto", 2, 2, true, 1, false, false},  {"shfl", "2x8", "auto", 3, 1, true, 1, false, false},
		{"shfl", "2x8", "auto", 3, 2, true, 2, false, false},  {"shfl", "2x8", "auto", 3, 2, true, 0, false, false},
		  {"shfl", "2x8", "queue", 3, 2, true, 1, false, false},
		{"shfl", "1", "auto", 3, 2, true, 1, false, false},    {"mcs", "2x8", "auto", 3, 2, true, 1, false, false},
		{"word", "2x8", "auto", 3, 2, true, 1, false, false}};
	int n = table[_i].waiters;

	pk_real();
	make_with(table[_i].policy, table[_i].topology, table[_i].parking);
	wake_before(table[_i].before);
	with[n - 1].word = table[_i].word;
	with[n - 1].asks = table[_i].asks;
	with[n - 1].busy = table[_i].busy;
	start(n);
	m->queue.tail = 0;
	ck_assert_int_eq(!!(m->kind & PK_FLAG_TRIED), table[_i].tried);
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	let_go(n);
}
END_TEST

/* What finds nobody is no call. */
START_TEST(is_no_call)
{
	struct pk_cond *c = pk_cond_of(&cond);

	pk_real();
	make_with("shfl", "2x8", "auto");
	for (int how = 1; how <= 2; how++) {
		wake_before(how);
		ck_assert_int_eq(pk_cond_signal_slow(&cond), 0);
		ck_assert_int_eq(pk_cond_broadcast_slow(&cond), 0);
		ck_assert_int_eq(c->called, how);
	}
}
END_TEST

/* Who waits with a recursive mutex that it keeps has none to be tried. */
START_TEST(asks_with_a_mutex)
{
	static pthread_mutex_t deep = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	struct timespec past = {1, 0};

	pk_real();
	make_with("shfl", "2x8", "auto");
	wake_before(1);
	start(3);
	pk_mutex_lock(&deep);
	pk_mutex_lock(&deep);
	pk_mutex_of(&deep)->lock = 2;
	pk_self.asked = (uint8_t)-pk_self.tid;
	ck_assert_int_eq(pk_cond_timedwait(&cond, &deep, &past), ETIMEDOUT);
	ck_assert_uint_eq(pk_mutex_of(&deep)->kind & PK_FLAG_TRIED, 0);
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	let_go(3);
}
END_TEST

enum to { AT_ONCE, QUEUE, WORD };

static const struct {
	const char *policy;
	int waiters;
	bool broadcast;
	uint64_t flags;
	enum to to;
} way[] = {
	{"shfl", 1, false, 0, AT_ONCE},
	{"shfl", 2, false, 0, AT_ONCE},
	{"shfl", 3, false, 0, QUEUE},
	{"shfl", 1, false, PK_FLAG_APART, AT_ONCE},
	{"shfl", 3, false, PK_FLAG_APART, WORD},
	{"shfl", 3, false, PK_FLAG_APART | PK_FLAG_QUEUE, QUEUE},
	{"shfl", 3, false, PK_FLAG_BACK | PK_FLAG_PROVED, QUEUE},
	{"shfl", 1, false, PK_FLAG_LOT | PK_FLAG_APART, WORD},
	{"shfl", 5, true, PK_FLAG_APART, QUEUE},
	{"mcs", 3, false, PK_FLAG_APART, QUEUE},
	{"word", 3, false, 0, WORD},
};

/* Where who is signalled first goes. */
START_TEST(goes)
{
	int n = way[_i].waiters;

	pk_real();
	make_with(way[_i].policy, "2x8", "auto");
	start(n);
	m->kind |= way[_i].flags & ~PK_FLAG_QUEUE;
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	m->kind |= way[_i].flags & PK_FLAG_QUEUE;
	ck_assert_int_eq(way[_i].broadcast ? pk_cond_broadcast(&cond) : pk_cond_signal(&cond), 0);
	if (way[_i].to != AT_ONCE) { /* else it has come to wait for the mutex by now, or has not */
		ck_assert_int_eq(pk_queue_busy(&m->queue), way[_i].to == QUEUE);
		ck_assert_int_eq(m->lock, 2);
	}
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), way[_i].to == AT_ONCE);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), way[_i].to == AT_ONCE ? 0 : way[_i].broadcast ? (unsigned)n : 1);
	m->kind &= ~(PK_FLAG_QUEUE | PK_FLAG_LOT);
	let_go(n);
}
END_TEST

/* Who comes back has taken the mutex again, in whatever way, if it is tried, and counts that as such; before, it tells of what it has counted, if
 * it is time. */
START_TEST(counts)
{
	static struct pk_gate other;
	const bool tried = _i / 11 % 2, late = _i / 22;

	pk_real();
	make_with(way[_i % 11].policy, "2x8", "auto");
	pk_thread_record();
	pk_self.asked = (uint8_t)-pk_self.tid;
	pk_trial_way(tried ? pk_mutex_gate(m) : &other, 0, pk_clock_ns() + UINT64_C(3600000000000), true);
	with[0].counted = 5;
	with[0].late = late;
	start(way[_i % 11].waiters);
	if (way[_i % 11].to == AT_ONCE) { /* it does not wait for the mutex, or it would tell */
		ck_assert_int_eq(pk_cond_signal(&cond), 0);
		while (pk_load_acquire(&done) != 1)
			usleep(100);
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	} else {
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		m->kind |= way[_i % 11].flags; /* who locks it may change them */
		ck_assert_int_eq(way[_i % 11].broadcast ? pk_cond_broadcast(&cond) : pk_cond_signal(&cond), 0);
		ck_assert_int_eq(pk_queue_busy(&m->queue), way[_i % 11].to == QUEUE);
		m->kind &= ~(PK_FLAG_QUEUE | PK_FLAG_LOT);
	}
	let_go(way[_i % 11].waiters);
	ck_assert_int_eq(with[0].counted, tried && late ? 1 : 5 + tried);
	ck_assert_int_eq(with[0].again, tried);
}
END_TEST

/* Who has been moved to the word, and is woken in vain again and again, queues in the end, as the others are to (pthread/word.c). */
START_TEST(has_had_enough)
{
	int n = 0;

	pk_real();
	make_with("shfl", "2x8", "auto");
	start(3);
	m->kind |= PK_FLAG_APART;
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	ck_assert_int_eq(pk_cond_signal(&cond), 0);
	ck_assert(!pk_queue_busy(&m->queue));
	ck_assert_int_eq(m->lock, 2);
	for (; !pk_stat_sum(PK_STAT_entered); usleep(10))
		n += pk_futex_wake(&m->lock, 1);
	ck_assert_int_ge(n, 200);
	ck_assert_uint_eq(m->kind & (PK_FLAG_APART | PK_FLAG_BACK), PK_FLAG_BACK);
	let_go(3);
}
END_TEST

UNIT("moved", {asks, 12}, {is_no_call, 1}, {asks_with_a_mutex, 1}, {goes, 11}, {has_had_enough, 1}, {counts, 4 * 11})
