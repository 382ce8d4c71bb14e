/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What of condition variables cannot be seen from a program: which waiter a signal takes, what a fork or a dead
 * process leaves in the object, and the way without a node. */
#include "pthread/cond.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "admit/list.h"
#include "pthread/cond-shared.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
#include "rt/config.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"
#include "unit.h"

enum { MAX = 8, NOBODY = -1 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t thread[MAX];
static unsigned socket_of[MAX], cohort_of[MAX];
static int order[MAX], returned;

static void setup(const char *policy, const char *topology)
{
	pk_real();
	pk_topology_read("", topology);
	pk_spin_setup();
	pk_thread_setup(pk_cond_waiter_gone);
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_policy_select(policy);
}

static unsigned waiting(void)
{
	return __atomic_load_n(&pk_cond_of(&cond)->refs, __ATOMIC_RELAXED) / PK_COND_WAITER;
}

static void *wait_once(void *arg)
{
	int me = (int)(intptr_t)arg;

	pk_mutex_lock(&mutex);
	socket_of[me] = pk_socket_here(pk_thread_record()->index);
	cohort_of[me] = pk_lot_cohort(socket_of[me], pk_self.record->index);
	ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
	order[returned++] = me;
	pk_mutex_unlock(&mutex);
	return NULL;
}

static const unsigned *serials; /* of the waiters' records, if it matters */

/* Waiters, in the order of their numbers. */
static void start(int n)
{
	for (int i = 0; i < n; i++) {
		while (serials && pk_arena_used() < serials[i])
			pk_record_take();
		ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_once, (void *)(intptr_t)i), 0);
		while (waiting() != (unsigned)i + 1)
			usleep(100);
		pk_mutex_lock(&mutex); /* it has let go of it */
		pk_mutex_unlock(&mutex);
	}
}

/* Signal once; the waiter that it was for. */
static int signal_one(bool held)
{
	int before = returned, who = NOBODY;

	pk_mutex_lock(&mutex);
	if (held)
		pk_cond_signal(&cond);
	pk_mutex_unlock(&mutex);
	if (!held)
		pk_cond_signal(&cond);
	for (int i = 0; i < 300000 && who == NOBODY; i++, usleep(100)) {
		pk_mutex_lock(&mutex);
		if (returned > before)
			who = order[before];
		pk_mutex_unlock(&mutex);
	}
	return who;
}

static const char *const policies[] = {"shfl", "mcs", "word"};

/* The longest waiting one first, under every policy, whether the mutex is held or not. */
START_TEST(fifo)
{
	setup(policies[_i / 2], "1");
	start(MAX);
	for (int i = 0; i < MAX; i++)
		ck_assert_int_eq(signal_one(_i % 2), i);
	ck_assert_uint_eq(pk_cond_of(&cond)->waiters.tail, 0);
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

/* Those of a broadcast, too, where nobody can overtake: each is moved to the word by the one before it. */
START_TEST(fifo_broadcast)
{
	setup("word", "1");
	start(MAX);
	pk_mutex_lock(&mutex);
	pk_cond_broadcast(&cond);
	usleep(1000);
	pk_mutex_unlock(&mutex);
	for (int i = 0; i < MAX; i++) {
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
		ck_assert_int_eq(order[i], i);
	}
}
END_TEST

/* In which order those of a broadcast are to come: of the caller's socket first, where a cohort keeps together behind its first
 * one. */
static int expect(int *who, unsigned here, unsigned sockets)
{
	bool comes[MAX] = {false};
	int n = 0;

	for (unsigned s = 0; s < sockets; s++)
		for (int i = 0; i < MAX; i++)
			for (int j = i; j < MAX && socket_of[i] == (here + s) % sockets && !(j == i && comes[i]); j++)
				if (cohort_of[j] == cohort_of[i]) {
					comes[j] = true;
					who[n++] = j;
				}
	return n;
}

/* Two sockets with two cache groups each, of which threads are in turn; or with forty, of which one of the first socket and one of the other share
 * a place in what the broadcast remembers: these are not kept together, but stay with their sockets. */
START_TEST(by_socket_and_cache)
{
	static const unsigned far[MAX] = {80, 129, 160, 161, 209, 240, 241, 289};
	unsigned here;
	int who[MAX];

	setup("word", _i ? "2x40x3x1@thread" : "2x2x4x1@thread");
	pk_lot_setup("auto");
	pk_levels_read("", "cache,node");
	pk_lot_divide();
	here = pk_socket_here(pk_thread_record()->index);
	serials = _i ? far : NULL;
	start(MAX);
	for (int i = 0; i < 4 && !_i; i++)
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(cohort_of[i], cohort_of[j]);
	ck_assert(!_i || (cohort_of[0] == cohort_of[2] && cohort_of[1] == cohort_of[0] + 64 && socket_of[1] != socket_of[0]));
	pk_mutex_lock(&mutex);
	pk_cond_broadcast(&cond);
	usleep(1000);
	pk_mutex_unlock(&mutex);
	for (int i = 0; i < MAX; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	ck_assert_int_eq(expect(who, here, 2), MAX);
	for (int i = 0; i < MAX; i++)
		if (!_i)
			ck_assert_int_eq(order[i], who[i]);
		else if (i)
			ck_assert((socket_of[order[i - 1]] == here) >= (socket_of[order[i]] == here));
}
END_TEST

/* PARKADE_COND=local: the first one of the signaller's socket; but the first of all when it has been passed over as
 * often as may be. */
START_TEST(local)
{
	unsigned here;
	int other = NOBODY, own = 0, first;

	pk_config.cond = "local";
	pk_config.batch = 2;
	setup("shfl", "2x4@thread");
	here = pk_socket_here(pk_thread_record()->index);
	start(MAX);
	for (int i = MAX - 1; i >= 0; i--) {
		own += socket_of[i] == here;
		other = socket_of[i] != here ? i : other;
	}
	ck_assert_int_ge(own, 3); /* half of them, that is */
	first = signal_one(true);
	ck_assert_uint_eq(socket_of[first], here);
	for (int i = 0; i < first; i++)
		ck_assert_uint_ne(socket_of[i], here);
	/* Each that passes over the other socket's first one counts. */
	for (int passed = first > other, who; passed<2; passed += who> other) {
		who = signal_one(true);
		ck_assert_uint_eq(socket_of[who], here);
	}
	ck_assert_int_eq(signal_one(true), other);
}
END_TEST

/* A lock that a thread of the parent holds, and waiters of the parent's, are not the child's. */
START_TEST(ghosts)
{
	struct pk_cond *c = pk_cond_of(&cond);

	setup("shfl", "1");
	start(3);
	c->lock = pk_incarnation() << 2 | 3; /* held, and slept on */
	pk_incarnation_next();
	pk_arena_fork_child(0);
	pk_self.record = NULL;
	ck_assert_int_eq(pk_cond_broadcast(&cond), 0);
	ck_assert_int_eq(returned, 0);
	ck_assert_uint_eq(c->lock, 0);
	ck_assert_uint_eq(c->waiters.tail, 0);
	ck_assert_uint_eq(waiting(), 0);
	ck_assert_int_eq(pk_cond_destroy(&cond), 0);
}
END_TEST

/* A copy of the object, made while others wait, has none of them. */
START_TEST(copied)
{
	pthread_cond_t copy;

	setup("shfl", "1");
	start(3);
	memcpy(&copy, &cond, sizeof(copy));
	ck_assert_int_eq(pk_cond_broadcast(&copy), 0);
	ck_assert_uint_eq(pk_cond_of(&copy)->waiters.tail, 0);
	ck_assert_int_eq(pk_cond_destroy(&copy), 0);
	ck_assert_int_eq(returned, 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(signal_one(false), i);
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

/* All nodes are in use: the wait ends by itself, with the mutex held. Its deadline holds all the same. */
START_TEST(without_node)
{
	static const struct timespec past = {1, 0};

	setup("shfl", "1");
	pk_mutex_lock(&mutex);
	while (pk_waiter_take(pk_thread_record()))
		;
	ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
	ck_assert_int_eq(pk_mutex_trylock(&mutex), EBUSY);
	ck_assert_int_eq(pk_cond_timedwait(&cond, &mutex, &past), ETIMEDOUT);
	ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
	ck_assert_uint_eq(mutex.__data.__nusers, 1);
	ck_assert_uint_eq(waiting(), 0);
	pk_mutex_unlock(&mutex);
}
END_TEST

/* destroy waits for one that is leaving, and is told when it is out. */
static void *destroy(void *arg)
{
	(void)arg;
	pk_cond_destroy(&cond);
	__atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
	return NULL;
}

START_TEST(destroy_waits)
{
	struct pk_cond *c = pk_cond_of(&cond);
	struct pk_waiter *w;
	pthread_t destroyer;

	setup("shfl", "1");
	w = pk_waiter_take(pk_thread_record());
	w->policy = PK_POLICY_word;
	w->status = PK_LEAVING;
	w->queue = &c->waiters;
	w->next = w->hint = NULL;
	c->waiters.tail = c->waiters.aux = pk_waiter_name(w);
	c->at = (uintptr_t)c;
	c->refs = PK_COND_WAITER;
	ck_assert_int_eq(pk_cond_broadcast(&cond), 0); /* nobody is there for it */
	ck_assert_uint_eq(pk_state(w->status), PK_LEAVING);
	ck_assert_int_eq(pthread_create(&destroyer, NULL, destroy, NULL), 0);
	usleep(20000);
	ck_assert_int_eq(__atomic_load_n(&returned, __ATOMIC_ACQUIRE), 0);
	pk_cond_waiter_gone(w);
	ck_assert_int_eq(pthread_join(destroyer, NULL), 0);
	ck_assert_int_eq(returned, 1);
	ck_assert_uint_eq(w->busy, 0);
}
END_TEST

static void make_shared(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	ck_assert_int_eq(pk_cond_init(&cond, &attr), 0);
	pthread_condattr_destroy(&attr);
}

/* Which process-shared ones are ours. */
START_TEST(shared_marks)
{
	setup("shfl", "1");
	make_shared(); /* in a constructor that runs before ours */
	ck_assert(!pk_cond_is_ours(pk_cond_of(&cond)));
	pk_config_is_read = true;
	make_shared();
	ck_assert(pk_cond_is_ours(pk_cond_of(&cond)));
	pk_config.policy = "glibc";
	make_shared();
	ck_assert(!pk_cond_is_ours(pk_cond_of(&cond)));
	pk_config.policy = "shfl";
	pk_config.cond_shared = "glibc";
	make_shared();
	ck_assert(!pk_cond_is_ours(pk_cond_of(&cond)));
	start(1); /* with glibc's functions: its count looks the same */
	ck_assert_int_eq(signal_one(true), 0);
}
END_TEST

/* The only waiter is woken at once by the mutex's holder (_i 0); it is moved if there are others (1), if somebody may sleep for
 * the mutex (2), or is in front of it (3), or beside its queue (4). */
START_TEST(alone)
{
	setup("shfl", "1");
	pk_thread_record(); /* whose counters count */
	start(1 + (_i == 1));
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	if (_i == 2)
		pk_mutex_of(&mutex)->lock = 2;
	else if (_i > 2)
		pk_mutex_of(&mutex)->kind |= _i == 3 ? PK_FLAG_QUEUE : PK_FLAG_LOT;
	ck_assert_int_eq(pk_cond_signal(&cond), 0);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), !_i);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), _i > 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
}
END_TEST

static const struct {
	const char *topology;
	int waiters, word;
	bool woken;
} few_of[] = {
	{"4x4@thread", 2, 1, true}, {"4x4@thread", 4, 1, true},	 {"4x4@thread", 5, 1, false}, {"4x4@thread", 3, 2, false},
	{"1x8", 2, 1, true},	    {"1", 2, 1, false},		 {"8x2@thread", 2, 1, false},
};

/* A few are woken at once by a broadcast with the mutex held, where threads may spin; not if somebody may sleep for the mutex. Else
 * they are moved. */
START_TEST(few)
{
	int n = few_of[_i].waiters;

	setup("shfl", few_of[_i].topology);
	pk_thread_record();
	start(n);
	pk_mutex_lock(&mutex);
	pk_mutex_of(&mutex)->lock = few_of[_i].word;
	pk_cond_broadcast(&cond);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), few_of[_i].woken ? (unsigned)n : 0);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), few_of[_i].woken ? 0 : (unsigned)n);
	pk_mutex_unlock(&mutex);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
}
END_TEST

/* Who is woken ahead of its turn, while the mutex is held, looks once with several sockets (_i 0), and is a thief that spins with one. */
START_TEST(tries_once)
{
	struct pk_waiter *second;
	bool spun = false;

	pk_config.spin = 300000000;
	setup("shfl", _i ? "1x16" : "4x4@thread");
	pk_thread_record();
	start(MAX);
	pk_mutex_lock(&mutex);
	pk_and_relaxed(&pk_mutex_of(&mutex)->kind, ~(uint64_t)PK_FLAG_SLOW); /* where it would not spin; if a waiter was held up as it began */
	pk_cond_broadcast(&cond);
	second = pk_list_next(pk_self.moved.first);
	pk_list_call(pk_self.record, second);
	for (int i = 0; i < (_i ? 300000 : 2000) && !spun; i++, usleep(100)) /* until it has waited in the queue for a while, or spins */
		spun = pk_load_relaxed(&pk_mutex_of(&mutex)->kind) & PK_FLAG_SPINNER;
	ck_assert_uint_eq(spun, _i);
	pk_config.spin = 300;
	pk_mutex_unlock(&mutex);
	for (int i = 0; i < MAX; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
}
END_TEST

UNIT("cond", {fifo, 6}, {fifo_broadcast, 1}, {by_socket_and_cache, 2}, {few, 7}, {tries_once, 2}, {local, 1}, {ghosts, 1}, {copied, 1}, {without_node, 1}, {destroy_waits, 1},
     {shared_marks, 1}, {alone, 5})
