/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What of condition variables cannot be seen from a program: which waiter a signal takes, and how the list is then, who sleeps
 * where and is woken by how many calls, what a fork or a dead process leaves in the object, and the way without a node. */
#include "pthread/cond.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "admit/list.h"
#include "pthread/cond-shared.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/hall.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"
#include "../stats/sleepers.h"
#include "unit.h"

enum { MAX = 8, MANY = 17, TURNS = 512, NOBODY = -1, SOON = 300000 }; /* SOON: tenths of a millisecond */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t thread[MANY];
static unsigned socket_of[MANY], cohort_of[MANY], serial_of[MANY];
static int tid_of[MANY];
static uint16_t aloof[MANY]; /* when they begin to wait, and after it */
static int order[TURNS], returned;

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
	struct pk_cond *c = pk_cond_of(&cond);
	bool glibcs = pk_cond_is_shared(c) && !pk_cond_is_ours(c);

	return __atomic_load_n(glibcs ? &cond.__data.__wrefs : &c->refs, __ATOMIC_RELAXED) / PK_COND_WAITER;
}

static void let_go_of(void *m)
{
	pk_mutex_unlock(m);
}

static void *wait_once(void *arg)
{
	int me = (int)(intptr_t)arg;

	pk_mutex_lock(&mutex);
	pthread_cleanup_push(let_go_of, &mutex);
	tid_of[me] = gettid();
	serial_of[me] = pk_thread_record()->index;
	socket_of[me] = pk_socket_here(serial_of[me]);
	cohort_of[me] = pk_lot_cohort(socket_of[me], serial_of[me]);
	pk_self.aloof = aloof[me];
	ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
	aloof[me] = pk_self.aloof;
	order[returned++] = me;
	pthread_cleanup_pop(true);
	return NULL;
}

static const unsigned *serials; /* of the waiters' records, if it matters */

/* One more waiter. */
static void start_one(int me)
{
	unsigned before = waiting();

	ck_assert_int_eq(pthread_create(&thread[me], NULL, wait_once, (void *)(intptr_t)me), 0);
	while (waiting() != before + 1)
		usleep(100);
	pk_mutex_lock(&mutex); /* it has let go of it */
	pk_mutex_unlock(&mutex);
}

/* Waiters, in the order of their numbers. */
static void start(int n)
{
	for (int i = 0; i < n; i++) {
		while (serials && pk_arena_used() < serials[i])
			pk_record_take();
		start_one(i);
	}
}

/* There have been so many crowds in a row; 2: who comes from now on is one of the next. */
static void set_apart(unsigned times)
{
	struct pk_cond *c = pk_cond_of(&cond);

	c->apart = (uint8_t)times;
	c->hall = times < 2 ? 0 : (uint16_t)(1 + pk_hall_take(&cond));
}

static void keep_together(void)
{
	set_apart(2);
}

static void await_asleep(int n)
{
	for (int i = 0; i < n; i++)
		while (!sleepers_sleeps(tid_of[i]))
			usleep(100);
}

static void join(int n)
{
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
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
	for (int i = 0; i < SOON && who == NOBODY; i++, usleep(100)) {
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

/* One comes that is leaving: a node of the caller's. */
static struct pk_waiter *come_leaving(void)
{
	struct pk_cond *c = pk_cond_of(&cond);
	struct pk_waiter *w = pk_waiter_take(pk_thread_record());

	w->policy = PK_POLICY_word;
	w->status = PK_LEAVING;
	w->queue = &c->waiters;
	w->home = &pk_mutex_of(&mutex)->queue;
	w->next = NULL;
	w->hint = pk_waiter_named(c->waiters.tail);
	c->waiters.tail = pk_waiter_name(w);
	if (!w->hint)
		c->waiters.aux = c->waiters.tail;
	c->at = pk_cond_here(c);
	c->refs += PK_COND_WAITER;
	return w;
}

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
	struct pk_waiter *w;
	pthread_t destroyer;

	setup("shfl", "1");
	w = come_leaving();
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

/* A copy that was made while somebody waited, and is brought back when it waits elsewhere, does not reach it. */
START_TEST(brought_back)
{
	struct pk_queue elsewhere;
	struct pk_waiter *w;
	pthread_cond_t copy;

	setup("shfl", "1");
	w = come_leaving();
	memcpy(&copy, &cond, sizeof(copy));
	pk_cond_waiter_gone(w);
	w->status = PK_BLOCKED;
	w->queue = &elsewhere;
	memcpy(&cond, &copy, sizeof(copy));
	if (!_i)
		pk_cond_signal(&cond);
	else if (_i == 1)
		pk_cond_broadcast(&cond);
	ck_assert_int_eq(pk_cond_destroy(&cond), 0);
	ck_assert_uint_eq(w->status, PK_BLOCKED);
}
END_TEST

/* A handler has forked between two stores: of the list's two ends one is the child's, and nobody is in it. */
START_TEST(one_end)
{
	struct pk_cond *c = pk_cond_of(&cond);

	setup("shfl", "1");
	come_leaving();
	if (_i)
		c->waiters.aux = 0;
	else
		c->waiters.tail ^= UINT64_C(1) << 63;
	ck_assert_int_eq(pk_cond_signal(&cond), 0);
	ck_assert_uint_eq(c->waiters.tail, 0);
	ck_assert_uint_eq(waiting(), 0);
	start(2);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(signal_one(false), i);
	ck_assert_int_eq(pk_cond_destroy(&cond), 0);
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
	start(1); /* with glibc's functions */
	ck_assert_int_eq(signal_one(true), 0);
}
END_TEST

/* The only waiter is woken at once by the mutex's holder (_i 0), as is one of two (5); it is moved if there are more (1), if somebody may sleep for
 * the mutex (2), or is in front of it (3), or beside its queue (4). */
START_TEST(alone)
{
	setup("shfl", "1");
	pk_thread_record(); /* whose counters count */
	start(_i == 1 ? 3 : _i == 5 ? 2 : 1);
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	if (_i == 2)
		pk_mutex_of(&mutex)->lock = 2;
	else if (_i == 3 || _i == 4)
		pk_mutex_of(&mutex)->kind |= _i == 3 ? PK_FLAG_QUEUE : PK_FLAG_LOT;
	ck_assert_int_eq(pk_cond_signal(&cond), 0);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), _i == 0 || _i == 5);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), _i > 0 && _i < 5);
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

/* ---- the list ---- */

static struct pk_waiter *leaver[MANY]; /* or null: a thread */
static bool here[MANY];
static int line[MANY], in_line; /* who waits, in order */

static struct pk_waiter *last(void)
{
	return pk_waiter_named(pk_cond_of(&cond)->waiters.tail);
}

/* The list is the line: backwards as a whole, and forwards but for those who have come since somebody last went through it. */
static void check_line(void)
{
	struct pk_waiter *w = last();
	bool linked = false;

	ck_assert_uint_eq(waiting(), (unsigned)in_line);
	ck_assert_int_eq(!w, !in_line);
	ck_assert(!w || !w->next);
	for (int i = in_line; i--; w = w->hint) {
		ck_assert_ptr_nonnull(w);
		ck_assert(leaver[line[i]] ? w == leaver[line[i]] : w->record->index == serial_of[line[i]]);
		if (!i) {
			ck_assert_uint_eq(pk_cond_of(&cond)->waiters.aux, pk_waiter_name(w));
			break;
		}
		linked |= w->hint->next != NULL;
		ck_assert_ptr_eq(w->hint->next, linked ? w : NULL);
	}
}

static void come(int who, bool leaves, bool together)
{
	here[who] = true;
	line[in_line++] = who;
	if (together)
		keep_together();
	leaver[who] = leaves ? come_leaving() : NULL;
	if (!leaves)
		start_one(who);
}

static void strike_out(int who)
{
	int i = 0;

	while (line[i] != who)
		i++;
	memmove(&line[i], &line[i + 1], (size_t)(--in_line - i) * sizeof(line[0]));
	here[who] = false;
}

/* Its wait ends without a signal. */
static void go(int who)
{
	void *result;

	strike_out(who);
	if (leaver[who]) {
		pk_cond_waiter_gone(leaver[who]);
		return;
	}
	ck_assert_int_eq(pk_cancel(thread[who]), 0);
	ck_assert_int_eq(pthread_join(thread[who], &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}

/* A signal is for the first one that is not leaving. */
static void signal_first(bool held)
{
	int i = 0;

	while (i < in_line && leaver[line[i]])
		i++;
	if (i == in_line) {
		pk_cond_signal(&cond);
		return;
	}
	i = line[i];
	ck_assert_int_eq(signal_one(held), i);
	ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	strike_out(i);
}

static void broadcast_line(void)
{
	int left = 0;

	pk_cond_broadcast(&cond);
	for (int i = 0; i < in_line; i++)
		if (leaver[line[i]])
			line[left++] = line[i];
		else
			ck_assert_int_eq(pthread_join(thread[line[i]], NULL), 0);
	in_line = left;
}

/* +: a waiter comes, the next number; (: one that is leaving; a number: it goes; !: a signal; *: a broadcast. */
static const char *const lines[] = {
	"+0+1+!",	"++0!",		 "++1!",	"+++0!!",	  "+++1!!",	   "+++2!!",	   "+++!1!",	 "+++!2+!!",
	"++++!++3+!!!!!", "++++!++5+!!!!!", "++++1203++!!", "++++!321+4+!!", "(++!!0",	   "+(+!!1",	   "++(!!!+!2", "((+!01",
	"(+(+!+20!!",	"+(1+!(2+!3",	 "+++0!+3!!",	"(+0!+!",	  "+(+(+*1+3+*",   "++++1*++45+*",
};
enum { LINES = sizeof(lines) / sizeof(lines[0]) };

/* Waiters leave the list anywhere, before and after it has been gone through, and the others are signalled in their order; they sleep
 * in a hall, or not. */
START_TEST(lists)
{
	int numbers = 0;

	setup("shfl", "1");
	for (const char *act = lines[_i % LINES]; *act; act++) {
		if (*act == '+' || *act == '(')
			come(numbers++, *act == '(', _i / LINES);
		else if (*act == '!')
			signal_first(numbers % 2);
		else if (*act == '*')
			broadcast_line();
		else
			go(*act - '0');
		check_line();
	}
	ck_assert_int_eq(in_line, 0);
	ck_assert_uint_eq(pk_cond_of(&cond)->waiters.tail, 0);
}
END_TEST

/* The same at random. */
START_TEST(lists_at_random)
{
	enum { STEPS = 200, LEAVERS = 2 };
	uint32_t dice = (uint32_t)_i;
	int leavers = 0;

	setup("shfl", "1");
	for (int step = 0; step < STEPS; step++) {
		unsigned throw = (dice = dice * 1664525 + 1013904223) >> 16, act = throw % 16, who = throw / 16 % MANY;

		if (act < 9 && !here[who]) {
			bool leaves = act == 8 && leavers < LEAVERS;

			leavers += leaves;
			come((int)who, leaves, _i % 2);
		} else if (act < 11 && here[who]) {
			leavers -= leaver[who] != NULL;
			go((int)who);
		} else if (act < 15) {
			signal_first(act % 2);
		}
		check_line();
	}
}
END_TEST

/* ---- crowds ---- */

/* What the thread has called to wake others, and where it has slept in a hall. */
static __thread struct {
	int each, together;
	const void *word;
	uint32_t bits;
} woke;
static struct {
	const void *word;
	uint32_t bits;
	int times;
} slept[MANY];

/* Where who goes to sleep in a hall is held up until it has been signalled. */
enum place { NOWHERE, BEFORE_READY, AFTER_READY, BEFORE_SLEEP, SIGNALLED };
static enum place held_up, arrived;

static void pass(enum place place)
{
	if (pk_load_acquire(&held_up) != place)
		return;
	pk_store_release(&arrived, place);
	while (pk_load_acquire(&held_up) == place)
		usleep(100);
}

uint32_t __real_pk_hall_ready(unsigned hall);
uint32_t __wrap_pk_hall_ready(unsigned hall);
int __real_pk_futex_wake(const void *word, int n);
int __wrap_pk_futex_wake(const void *word, int n);
int __real_pk_futex_wake_bits(const void *word, uint32_t bits);
int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits);
int __real_pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline);
int __wrap_pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline);

uint32_t __wrap_pk_hall_ready(unsigned hall)
{
	uint32_t calls;

	pass(BEFORE_READY);
	calls = __real_pk_hall_ready(hall);
	pass(AFTER_READY);
	return calls;
}

int __wrap_pk_futex_wake(const void *word, int n)
{
	woke.each++;
	return __real_pk_futex_wake(word, n);
}

int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits)
{
	woke.together++;
	woke.word = word;
	woke.bits = bits;
	return __real_pk_futex_wake_bits(word, bits);
}

int __wrap_pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline)
{
	for (int me = 0; me < MANY; me++)
		if (tid_of[me] == gettid()) {
			slept[me].word = word;
			slept[me].bits = bits;
			slept[me].times++;
			pass(BEFORE_SLEEP);
		}
	return __real_pk_futex_wait_bits(word, expected, bits, deadline);
}

static unsigned hall(void)
{
	return PK_TOGETHER + pk_hall_take(&cond);
}

/* One call has woken the hall, for at least those: 'h' in `where`, of which there is one by number. */
static void check_call(const char *where)
{
	ck_assert_int_eq(woke.together, 1);
	for (int i = 0; where[i]; i++)
		if (where[i] == 'h') {
			ck_assert_ptr_eq(woke.word, slept[i].word);
			ck_assert_uint_eq(woke.bits & slept[i].bits, slept[i].bits);
		}
}

enum how { BROADCAST, SIGNAL, HELD = 2, WORD = 4 /* the policy */ };

static void call(enum how how)
{
	if (how & HELD)
		pk_mutex_lock(&mutex);
	memset(&woke, 0, sizeof(woke));
	if (how & SIGNAL)
		pk_cond_signal(&cond);
	else
		pk_cond_broadcast(&cond);
}

static const struct {
	const char *topology;
	int waiters;
	unsigned how, before, after;
} crowds_of[] = {
	/* Four are a crowd; */
	{"1", 4, BROADCAST, 0, 1},
	{"1", 4, BROADCAST, 1, 2},
	{"1", 9, BROADCAST, 2, 2},
	{"1", 3, BROADCAST, 1, 1},
	{"1", 3, BROADCAST, 2, 2},
	{"1x8@thread", 4, BROADCAST, 1, 2},
	{"1", 0, BROADCAST, 2, 2},
	{"2x4@thread", 4, BROADCAST, 1, 2},
	{"2x4@thread", 3, BROADCAST, 1, 1},
	{"4x4@thread", 12, BROADCAST, 0, 1},
	/* with the mutex held three are, who may spin, so many at most; */
	{"1x8@thread", 3, BROADCAST | HELD, 0, 1},
	{"1x8@thread", 16, BROADCAST | HELD, 1, 2},
	{"1x8@thread", 17, BROADCAST | HELD, 2, 0},
	{"2x4@thread", 5, BROADCAST | HELD, 1, 2},
	{"2x4@thread", 3, BROADCAST | HELD, 2, 2},
	{"1x8@thread", 4, BROADCAST | HELD | WORD, 1, 0},
	{"1x8@thread", 4, BROADCAST | WORD, 1, 2},
	/* no more, once all have been moved, */
	{"1", 9, BROADCAST | HELD, 2, 0},
	{"1", 4, BROADCAST | HELD, 1, 0},
	{"1", 1, BROADCAST | HELD, 2, 0},
	{"1x8@thread", 2, BROADCAST | HELD, 2, 0},
	{"2x4@thread", 6, BROADCAST | HELD, 2, 0},
	{"1", 0, BROADCAST | HELD, 2, 2},
	/* or one has been woken. */
	{"1", 2, SIGNAL, 2, 0},
	{"1", 9, SIGNAL, 1, 0},
	{"1", 1, SIGNAL, 2, 2},
	{"1", 0, SIGNAL, 1, 1},
	{"1", 2, SIGNAL | HELD, 2, 0},
	{"1", 1, SIGNAL | HELD, 2, 0},
	{"1", 0, SIGNAL | HELD, 2, 2},
};

/* Another object, which would have that hall, too. */
static const void *rival_for(unsigned hall, const void *after)
{
	const char *object = after ? after : &cond;

	for (;;) {
		unsigned its = pk_hall_take(object += sizeof(cond));

		if (its < PK_HALLS)
			pk_hall_leave(its, object);
		if (its == hall)
			return object;
	}
}

/* When it is learnt that waiters come as a crowd, and forgotten. The hall is kept. */
START_TEST(crowds)
{
	struct pk_cond *c = pk_cond_of(&cond);
	unsigned before = crowds_of[_i].before, after = crowds_of[_i].after, own = pk_hall_take(&cond);
	const void *rival;

	setup(crowds_of[_i].how & WORD ? "word" : "shfl", crowds_of[_i].topology);
	pk_hall_leave(own, &cond);
	rival = rival_for(own, NULL);
	set_apart(before);
	start(crowds_of[_i].waiters);
	ck_assert_uint_eq(c->apart, before);
	call(crowds_of[_i].how);
	ck_assert_uint_eq(c->apart, after);
	ck_assert_uint_eq(c->hall, before == 2 || after == 2 ? own + 1 : 0);
	ck_assert_int_eq(pk_hall_take(rival) == own, before < 2 && after < 2);
	if (crowds_of[_i].how & HELD)
		pk_mutex_unlock(&mutex);
	pk_cond_broadcast(&cond);
	join(crowds_of[_i].waiters);
}
END_TEST

/* Where its first hall is another's it has another one, and none where too many are: then the next crowd asks again, and has one that is free
 * by then, or (_i 4) where nobody has been called since. It gives its hall up when it is destroyed. */
START_TEST(halls)
{
	enum { TAKEN = 4 };
	struct pk_cond *c = pk_cond_of(&cond);
	const void *rival[TAKEN], *r = NULL;
	unsigned own = pk_hall_take(&cond), got;

	setup("shfl", "1");
	pk_hall_leave(own, &cond);
	for (int i = 0; i < TAKEN; i++)
		rival[i] = r = rival_for(own, r);
	for (unsigned i = 0; i < TAKEN; i++)
		ck_assert_uint_eq(pk_hall_take(rival[i]), (own + i) % PK_HALLS);
	c->apart = 1;
	start(4);
	call(BROADCAST);
	ck_assert_uint_eq(c->apart, 1);
	join(4);
	got = (own + (unsigned)_i % TAKEN) % PK_HALLS;
	if (_i < TAKEN)
		pk_hall_leave(got, rival[_i]);
	start(4);
	call(BROADCAST);
	ck_assert_uint_eq(c->apart, 2);
	ck_assert_uint_eq(c->hall, 1 + got);
	join(4);
	start_one(0);
	ck_assert_uint_eq(last()->manner, PK_TOGETHER + got);
	call(BROADCAST);
	ck_assert_uint_eq(c->apart, 2);
	join(1);
	ck_assert_int_eq(pk_cond_destroy(&cond), 0);
	ck_assert_uint_eq(c->apart, 0);
	ck_assert_uint_eq(c->hall, 0);
	ck_assert_uint_eq(pk_hall_take(rival[_i % TAKEN]), got);
}
END_TEST

/* A hall is for 256 of them: others would have the same bit. */
START_TEST(too_many)
{
	enum { GHOSTS = 254 };
	struct pk_cond *c = pk_cond_of(&cond);

	setup("shfl", "1");
	keep_together();
	c->refs += GHOSTS * PK_COND_WAITER;
	aloof[2] = 5;
	for (int i = 0; i < 3; i++) {
		start_one(i);
		ck_assert_uint_eq(last()->manner, i < 2 ? hall() : PK_UNTIMED);
	}
	call(BROADCAST);
	join(3);
	ck_assert_uint_eq(aloof[2], 5);
	ck_assert_uint_eq(waiting(), GHOSTS);
}
END_TEST

/* Who comes sleeps in the hall, if there have been two crowds; but for so many such waits of who stays away. */
START_TEST(manners)
{
	setup("shfl", "1");
	set_apart((unsigned)_i);
	aloof[1] = 2;
	start(2);
	ck_assert_uint_eq(last()->hint->manner, _i == 2 ? hall() : PK_UNTIMED);
	ck_assert_uint_eq(last()->manner, PK_UNTIMED);
	pk_cond_broadcast(&cond);
	join(2);
	ck_assert_uint_eq(aloof[0], 0);
	ck_assert_uint_eq(aloof[1], _i == 2 ? 1 : 2);
}
END_TEST

/* So with a deadline, which passes. */
START_TEST(deadlines)
{
	setup("shfl", "1");
	keep_together();
	tid_of[0] = gettid();
	pk_self.aloof = 2;
	for (int wait = 0; wait < 6; wait++) {
		struct timespec until = pk_clock_after(wait % 2 ? 0 : 3000);

		slept[0].times = 0;
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		ck_assert_int_eq(pk_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until), ETIMEDOUT);
		ck_assert_int_eq(pk_mutex_trylock(&mutex), EBUSY);
		ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
		ck_assert_int_eq(slept[0].times > 0, wait >= 2);
		ck_assert_uint_eq(pk_self.aloof, wait < 2 ? 1 - wait : 0);
		ck_assert_uint_eq(waiting(), 0);
	}
}
END_TEST

static bool is_over(const struct timespec *end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

/* The flags are where glibc leaves them, in `refs` (_i even) or, from 2.41 on, in `flags`, before somebody has waited, and after it. */
START_TEST(flags)
{
	struct pk_cond *c = pk_cond_of(&cond);
	uint32_t *place = _i % 2 ? &c->flags : &c->refs;

	setup("shfl", "1");
	*place = PK_COND_SHARED;
	ck_assert(pk_cond_is_shared(c));
	*place = PK_COND_MONOTONIC;
	ck_assert(!pk_cond_is_shared(c));
	for (int wait = 0; wait < 3; wait++) {
		struct timespec until = pk_clock_after(3000);

		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		ck_assert_int_eq(pk_cond_timedwait(&cond, &mutex, &until), ETIMEDOUT);
		ck_assert(is_over(&until));
		ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
		ck_assert_uint_eq(pk_cond_flags(c), PK_COND_MONOTONIC);
		ck_assert_uint_eq(waiting(), 0);
	}
	start(1);
	ck_assert_int_eq(signal_one(true), 0);
	ck_assert_int_eq(pk_cond_destroy(&cond), 0);
	ck_assert_uint_eq(pk_cond_flags(c), PK_COND_MONOTONIC);
}
END_TEST

/* Some in the hall (h), and some at their own words (w). */
static const char *const mixes[] = {"hhhhhhhh", "hhhhhhhhhhhh", "hwhwhwhw", "whwh", "whhh", "hhhw", "wwwwwwwwwhhh", "hwwwwwwhwwwh"};
enum { MIXES = sizeof(mixes) / sizeof(mixes[0]) };

static int start_mix(const char *where)
{
	int n = (int)strlen(where);

	pk_thread_record(); /* whose counters count */
	for (int i = 0; i < n; i++) {
		keep_together();
		aloof[i] = where[i] == 'w';
		start_one(i);
		ck_assert_uint_eq(last()->manner, where[i] == 'h' ? hall() : PK_UNTIMED);
	}
	await_asleep(n);
	return n;
}

/* A broadcast wakes all who are in the hall by one call, whether the mutex is held or not, and moves none of them; the others go their
 * way, in their order. */
START_TEST(together)
{
	const char *where = mixes[_i / 4], *policy = _i & 2 ? "word" : "shfl";
	bool held = _i % 2;
	int n, own = 0, latest = NOBODY;

	setup(policy, "1");
	n = start_mix(where);
	for (int i = 0; i < n; i++)
		own += where[i] == 'w';
	call(BROADCAST | (held ? HELD : 0));
	check_call(where);
	if (!own)
		ck_assert_int_eq(woke.each, 0);
	if (!held)
		ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), own <= 8 ? (unsigned)n : (unsigned)(n - own + 1));
	else if (own != 1)
		ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), (unsigned)(n - own));
	if (held && own != 1)
		ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), _i & 2 ? own > 0 : (unsigned)own);
	if (held)
		pk_mutex_unlock(&mutex);
	join(n);
	ck_assert_int_eq(returned, n);
	for (int i = 0; i < n && _i & 2 && (held || own > 8); i++)
		if (where[order[i]] == 'w') {
			ck_assert_int_lt(latest, order[i]);
			latest = order[i];
		}
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

/* A signal wakes the first one in the hall, and none of the others: they are few enough to have a bit each. */
START_TEST(one_of_them)
{
	int n;

	setup("shfl", "1");
	n = start_mix("hhhhhhhh");
	for (int i = 0; i < n; i++) {
		memset(&woke, 0, sizeof(woke));
		ck_assert_int_eq(signal_one(_i), i);
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
		ck_assert_int_eq(woke.together, 1);
		ck_assert_ptr_eq(woke.word, slept[i].word);
		ck_assert_uint_eq(woke.bits, slept[i].bits);
		ck_assert_uint_eq(woke.bits, pk_hall_bit(serial_of[i]));
	}
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(slept[i].times, 1);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), 0);
}
END_TEST

/* Who is signalled on the way there does not sleep. */
START_TEST(on_the_way)
{
	setup("shfl", "1");
	keep_together();
	held_up = (enum place)(BEFORE_READY + _i / 2);
	start_one(0);
	while (pk_load_acquire(&arrived) != held_up)
		usleep(100);
	if (_i % 2)
		pk_cond_signal(&cond);
	else
		pk_cond_broadcast(&cond);
	pk_store_release(&held_up, SIGNALLED);
	join(1);
	ck_assert_int_eq(returned, 1);
}
END_TEST

/* Who is cancelled there wakes up, and nobody else. */
START_TEST(cancelled_there)
{
	void *result;

	setup("shfl", "1");
	start_mix("hhhh");
	memset(&woke, 0, sizeof(woke));
	ck_assert_int_eq(pk_cancel(thread[2]), 0);
	ck_assert_int_eq(pthread_join(thread[2], &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_int_eq(woke.together, 1);
	ck_assert_uint_eq(woke.bits, pk_hall_bit(serial_of[2]));
	ck_assert_int_eq(pk_mutex_trylock(&mutex), 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_uint_eq(waiting(), 3);
	ck_assert_int_eq(returned, 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(slept[i].times, 1);
	pk_cond_broadcast(&cond);
	for (int i = 0; i < 4; i++)
		ck_assert(i == 2 || pthread_join(thread[i], NULL) == 0);
}
END_TEST

static pthread_mutex_t another = PTHREAD_MUTEX_INITIALIZER;

static void lock_another(int number)
{
	(void)number;
	pk_mutex_lock(&another);
	pk_mutex_unlock(&another);
}

/* A handler that has to wait gives the place up, and its thread comes back from there: the kernel would go on with the sleep of
 * SA_RESTART. */
START_TEST(handler_there)
{
	struct sigaction action = {.sa_handler = lock_another, .sa_flags = SA_RESTART};
	struct pk_waiter *w;
	int who = NOBODY;

	setup("shfl", "1");
	sigaction(SIGUSR1, &action, NULL);
	start_mix("hh");
	w = last()->hint;
	pk_mutex_lock(&another);
	ck_assert_int_eq(pthread_kill(thread[0], SIGUSR1), 0);
	while (pk_state(pk_load_relaxed(&w->status)) != PK_LEAVING)
		usleep(100);
	pk_mutex_unlock(&another);
	for (int i = 0; i < SOON / 10 && who == NOBODY; i++, usleep(100)) {
		pk_mutex_lock(&mutex);
		if (returned)
			who = order[0];
		pk_mutex_unlock(&mutex);
	}
	ck_assert_int_eq(who, 0);
	ck_assert_int_eq(signal_one(false), 1);
	join(2);
}
END_TEST

/* ---- crowds that meet at the mutex ---- */

static struct pk_record *guest; /* its record */
static uint8_t crowded;		/* when it begins, and after each wait */
static uint16_t stays_away;
static bool one_node; /* is all that it has */
static int comes_back; /* how often it has */

static void *wait_often(void *times)
{
	pk_mutex_lock(&mutex);
	tid_of[0] = gettid();
	pk_store_release(&guest, pk_thread_record());
	pk_self.crowded = crowded;
	while (one_node && pk_waiters_idle(guest) > 1)
		pk_waiter_take(guest);
	for (int i = 0; i < *(int *)times; i++) {
		keep_together(); /* who signals with the mutex held takes that for no crowd */
		ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
		crowded = pk_self.crowded;
		stays_away = pk_self.aloof;
		pk_store_release(&comes_back, comes_back + 1);
	}
	pk_mutex_unlock(&mutex);
	return NULL;
}

/* w: it has to wait for the mutex as well; f: that is free; a: the same as w, and it is not in the hall. */
static const struct {
	uint8_t before;
	const char *waits;
	uint8_t after;
	uint16_t aloof;
} meetings[] = {
	{0, "w", 2, 0},	       {0, "f", 0, 0},	    {1, "f", 0, 0},	   {28, "w", 30, 0},	 {29, "w", 15, 1000},
	{30, "w", 15, 1000},   {30, "fw", 15, 1000}, {30, "ffw", 30, 0},   {28, "wfw", 15, 1000}, {27, "wfw", 30, 0},
	{29, "waa", 15, 998},  {0, "wffwffw", 2, 0}, {0, "wwwwwwwwwwwwwww", 30, 0},		 {0, "wwwwwwwwwwwwwwww", 15, 1000},
};

/* Who meets others at the mutex more than every third time stays away, whether they wait there in the queue (_i even) or, without a node, at the word. */
START_TEST(meets)
{
	const char *waits = meetings[_i / 2].waits;
	int times = (int)strlen(waits);
	pthread_t waiter;

	setup("shfl", "1");
	crowded = meetings[_i / 2].before;
	one_node = _i % 2;
	ck_assert_int_eq(pthread_create(&waiter, NULL, wait_often, &times), 0);
	for (int n = 0; n < times; n++) {
		const uint64_t *stat;
		uint64_t before;

		while (waiting() != 1 || !sleepers_sleeps(tid_of[0]))
			usleep(100);
		stat = pk_load_acquire(&guest)->stat;
		ck_assert_int_eq(last()->manner == hall(), waits[n] != 'a');
		before = stat[PK_STAT_entered] + stat[PK_STAT_bypassed];
		if (waits[n] != 'f')
			pk_mutex_lock(&mutex);
		pk_cond_signal(&cond);
		if (waits[n] == 'w')
			while (pk_load_relaxed(&stat[PK_STAT_entered]) + pk_load_relaxed(&stat[PK_STAT_bypassed]) == before)
				usleep(100);
		if (waits[n] != 'f')
			pk_mutex_unlock(&mutex);
		while (pk_load_acquire(&comes_back) == n)
			usleep(100);
	}
	ck_assert_int_eq(pthread_join(waiter, NULL), 0);
	ck_assert_uint_eq(!pk_stat_sum(PK_STAT_bypassed), !(one_node && strchr(waits, 'w')));
	ck_assert_uint_eq(crowded, meetings[_i / 2].after);
	ck_assert_uint_eq(stays_away, meetings[_i / 2].aloof);
}
END_TEST

UNIT("cond", {fifo, 6}, {fifo_broadcast, 1}, {by_socket_and_cache, 2}, {few, 7}, {tries_once, 2}, {local, 1}, {ghosts, 1}, {copied, 1}, {without_node, 1}, {destroy_waits, 1}, {brought_back, 3}, {one_end, 2},
     {shared_marks, 1}, {alone, 6}, {lists, 2 * LINES}, {lists_at_random, 4}, {crowds, sizeof(crowds_of) / sizeof(crowds_of[0])}, {halls, 5}, {too_many, 1}, {manners, 3},
     {deadlines, 1}, {flags, 2}, {together, 4 * MIXES}, {one_of_them, 2}, {on_the_way, 6}, {cancelled_there, 1}, {handler_there, 1},
     {meets, 2 * sizeof(meetings) / sizeof(meetings[0])})
