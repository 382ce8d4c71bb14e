/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What of condition variables cannot be seen from a program: which waiter a signal takes, and how the list is then, what a fork or
 * a dead process leaves in the object, and the way without a node. Who sleeps together is of tests/unit/crowds.c. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "admit/list.h"
#include "rt/clock.h"
#include "waiters.h"

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

static __thread sigjmp_buf outside;
static bool is_out, waits_still;

static void jump_out(int sig)
{
	(void)sig;
	siglongjmp(outside, 1);
}

static void *wait_or_jump(void *arg)
{
	if (!sigsetjmp(outside, 1))
		return wait_once(arg);
	pk_store_release(&waits_still, pk_self.waits != NULL);
	pk_store_release(&is_out, true);
	while (pk_load_acquire(&is_out)) /* its end would give the place up as well */
		usleep(100);
	return NULL;
}

/* A handler that jumps out of the wait for the mutex, once the condition variable's is over, gives the place in the queue up. */
START_TEST(jumps_out_of_the_queue)
{
	struct sigaction action = {.sa_handler = jump_out};
	struct pk_waiter *second;
	int who = 0;

	sigaction(SIGUSR1, &action, NULL);
	setup("shfl", "4x4@thread");
	pk_thread_record();
	for (int i = 0; i < MAX; i++)
		start_as(i, wait_or_jump);
	await_asleep(MAX);
	pk_mutex_lock(&mutex);
	pk_cond_broadcast(&cond);
	second = pk_list_next(pk_self.moved.first);
	while (serial_of[who] != second->record->index)
		who++;
	pk_list_call(pk_self.record, second);
	while (pk_state(pk_load_acquire(&second->status)) != PK_PARKED || !sleepers_sleeps(tid_of[who])) /* again */
		usleep(100);
	pthread_kill(thread[who], SIGUSR1);
	while (!pk_load_acquire(&is_out))
		usleep(100);
	ck_assert(!pk_load_acquire(&waits_still));
	ck_assert_uint_eq(pk_state(pk_load_acquire(&second->status)), PK_ABANDONED);
	pk_mutex_unlock(&mutex);
	for (int i = 0; i < MAX; i++)
		ck_assert(i == who || pthread_join(thread[i], NULL) == 0);
	pk_store_release(&is_out, false);
	ck_assert_int_eq(pthread_join(thread[who], NULL), 0);
	ck_assert_int_eq(returned, MAX - 1);
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

/* ---- the list ---- */

static struct pk_waiter *leaver[MANY]; /* or null: a thread */
static bool here[MANY];
static int line[MANY], in_line; /* who waits, in order */

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

UNIT("cond", {fifo, 6}, {fifo_broadcast, 1}, {by_socket_and_cache, 2}, {few, 7}, {tries_once, 2}, {local, 1}, {ghosts, 1}, {copied, 1}, {without_node, 1}, {destroy_waits, 1}, {brought_back, 3}, {one_end, 2},
     {shared_marks, 1}, {alone, 6}, {jumps_out_of_the_queue, 1}, {flags, 2}, {lists, 2 * LINES}, {lists_at_random, 4})
