/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Process-shared condition variables lose no signal, however long whoever is held up between two steps, and whatever priorities
 * there are: with threads, a mutex and a kernel on paper, by turns that are chosen at random.  A turn ends before and after each
 * call of the kernel's, before the mutex is locked, and after it has been let go.
 *
 * At the end of each signal somebody has been freed, if anybody has been blocked from its beginning on.  At the end of a round some may
 * be blocked for ever: rightly, if there is a moment since which no broadcast has begun, and by so many fewer signals than waits that did
 * not give up (tests/suites/cond-tickets.c, rule (2)).
 */
#include "pthread/cond-shared.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <ucontext.h>

#include "pthread/mutex.h"
#include "rt/real.h"
#include "unit.h"

enum { CANCELLED = -1, THREADS = 6, ACTS = 12, STACK = 64 * 1024, ROUNDS = 10000 };

static uint32_t luck;

static uint32_t dice(uint32_t n)
{
	luck ^= luck << 13;
	luck ^= luck >> 17;
	luck ^= luck << 5;
	return luck % n;
}

/* ---- threads ---- */

enum turn { READY, FOR_MUTEX, ASLEEP, OVER };

static struct thread {
	enum turn turn;
	ucontext_t context;
	unsigned weight; /* of many turns, how many are its own */
	/* In the kernel: */
	unsigned place; /* of those who sleep the lowest one is woken first */
	int ends; /* how its sleep may end without a wake-up: what it returns, or CANCELLED; or 0 */
	bool woken;
	/* Its wait: where it is in the log, the number then, and whether it may still sleep for that; */
	unsigned entry;
	uint32_t number;
	bool waits;
	/* when it is cancelled, and what is run then. */
	enum { NEVER, AWAKE, IN_ITS_SLEEP, WHEN_WOKEN } cancelled;
	void (*run)(void *);
	void *arg;
	unsigned freed; /* its signal has, of those who were blocked */
} thread[THREADS], *me;

static char stack[THREADS][STACK];
static ucontext_t outside;
static struct thread *holder; /* of the mutex */
static unsigned arrivals;
static bool in_order; /* who sleeps first is woken first */
static struct {
	unsigned cancelled, interrupted, late, blocked, returned;
} seen;

static void leave_turn(enum turn turn)
{
	struct thread *t = me;

	t->turn = turn;
	swapcontext(&t->context, &outside);
	me = t;
}

static void pause_here(void)
{
	leave_turn(READY);
}

static void mutex_lock(void)
{
	do
		leave_turn(FOR_MUTEX);
	while (holder);
	holder = me;
}

static void mutex_unlock(void)
{
	ck_assert_ptr_eq(holder, me);
	holder = NULL;
	pause_here();
}

int pk_mutex_cond_begin(pthread_mutex_t *mutex, struct pk_queue **home)
{
	(void)mutex;
	*home = NULL;
	return 0;
}

int pk_mutex_cond_unlock(pthread_mutex_t *mutex, bool *user)
{
	(void)mutex;
	*user = false;
	mutex_unlock();
	return 0;
}

int pk_mutex_cond_lock(pthread_mutex_t *mutex, bool user)
{
	(void)mutex;
	(void)user;
	mutex_lock();
	return 0;
}

/* ---- the log ---- */

enum event { SIGNAL, BROADCAST, WAIT, GAVE_UP };

static enum event logged[THREADS * ACTS];
static unsigned events;
static bool plain; /* nobody gives up in this round, and there are no broadcasts */
static int unpicked; /* who waits, as it seems, and has not been signalled: a signal to nobody may hide that one was lost */
static struct pk_cond cond;

static unsigned may_be_blocked(void)
{
	int more = 0, most = 0;

	for (unsigned i = events; i-- > 0 && logged[i] != BROADCAST;)
		if (logged[i] == SIGNAL)
			more--;
		else if (logged[i] == WAIT && ++more > most)
			most = more;
	return (unsigned)most;
}

static void give_up(void)
{
	logged[me->entry] = GAVE_UP;
	unpicked -= unpicked > 0;
}

/* It is blocked, and nobody has done anything that ends that. */
static bool is_blocked(const struct thread *t)
{
	return t->turn == ASLEEP || (t->waits && t->number == cond.sequence);
}

/* ---- the kernel ---- */

static int wake(int n)
{
	int woken = 0;

	while (n-- > 0) {
		struct thread *first = NULL;

		for (unsigned i = 0; i < THREADS; i++) {
			struct thread *t = &thread[i];

			if (t->turn == ASLEEP && (!first || t->place < first->place))
				first = t;
		}
		if (!first)
			break;
		first->turn = READY;
		first->woken = true;
		first->waits = false;
		woken++;
	}
	return woken;
}

int __wrap_pk_futex_wake_shared(const void *word, int n);
int __wrap_pk_futex_wake_shared(const void *word, int n)
{
	unsigned freed = 0;
	int woken;

	for (unsigned i = 0; i < THREADS; i++) /* the number has just been advanced */
		freed += thread[i].turn != ASLEEP && thread[i].waits && thread[i].number == cond.sequence - 1;
	pause_here();
	ck_assert_ptr_eq(word, &cond.sequence);
	woken = wake(n);
	me->freed = freed + (unsigned)woken;
	pause_here();
	return woken;
}

/* As the program's cleanup handlers do, the thread lets go the mutex. */
static void be_cancelled(void)
{
	seen.cancelled++;
	me->waits = false;
	give_up();
	me->run(me->arg);
	mutex_unlock();
	leave_turn(OVER);
}

int __wrap_pk_futex_wait_shared(const void *word, uint32_t expected, const struct pk_deadline *deadline);
int __wrap_pk_futex_wait_shared(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	pause_here();
	ck_assert_ptr_eq(word, &cond.sequence);
	if (me->cancelled == AWAKE)
		be_cancelled();
	me->waits = cond.sequence == expected;
	if (!me->waits)
		return 0;
	me->place = in_order ? ++arrivals : dice(UINT_MAX);
	me->woken = false;
	me->ends = me->cancelled == IN_ITS_SLEEP ? CANCELLED : deadline ? ETIMEDOUT : plain || dice(8) ? 0 : EINTR;
	leave_turn(ASLEEP);
	if (me->cancelled > AWAKE)
		be_cancelled();
	if (me->woken)
		return 0;
	me->waits = me->ends == EINTR;
	seen.interrupted += me->waits;
	return me->ends;
}

void __wrap__pthread_cleanup_push(struct _pthread_cleanup_buffer *frame, void (*run)(void *), void *arg);
void __wrap__pthread_cleanup_push(struct _pthread_cleanup_buffer *frame, void (*run)(void *), void *arg)
{
	(void)frame;
	me->run = run;
	me->arg = arg;
}

void __wrap__pthread_cleanup_pop(struct _pthread_cleanup_buffer *frame, int execute);
void __wrap__pthread_cleanup_pop(struct _pthread_cleanup_buffer *frame, int execute)
{
	(void)frame;
	ck_assert(!execute);
}

/* ---- a round ---- */

static void wait_once(void)
{
	static const struct timespec never;
	static const struct pk_deadline deadline = {&never, CLOCK_MONOTONIC};
	int ret;

	me->entry = events;
	logged[events++] = WAIT;
	unpicked++;
	me->number = cond.sequence;
	me->waits = true;
	me->cancelled = plain || dice(8) ? NEVER : dice(WHEN_WOKEN + 1);
	ret = pk_cond_shared_wait(&cond, NULL, plain || dice(4) ? NULL : &deadline);
	seen.returned++;
	ck_assert(!ret || ret == ETIMEDOUT);
	ck_assert_ptr_eq(holder, me);
	if (ret == ETIMEDOUT) {
		seen.late++;
		give_up();
	}
}

/* If somebody has been blocked from its beginning to its end it has freed somebody; a broadcast, all of those. */
static void signal_or_broadcast(bool with_mutex, enum event event)
{
	unsigned wait_of[THREADS], left = 0;

	for (unsigned i = 0; i < THREADS; i++)
		wait_of[i] = is_blocked(&thread[i]) ? thread[i].entry : UINT_MAX;
	me->freed = 0;
	logged[events++] = event;
	unpicked = event == BROADCAST ? 0 : unpicked - 1;
	if (!with_mutex)
		mutex_unlock();
	if (event == BROADCAST)
		pk_cond_shared_broadcast(&cond);
	else
		pk_cond_shared_signal(&cond);
	for (unsigned i = 0; i < THREADS; i++)
		left += is_blocked(&thread[i]) && thread[i].entry == wait_of[i];
	ck_assert_msg(!left || (me->freed && event == SIGNAL), "%u are blocked still, %u were not", left, me->freed);
	if (!with_mutex)
		mutex_lock();
}

static void act(void)
{
	for (int n = 0; n < ACTS; n++) {
		mutex_lock();
		if (!unpicked || dice(3) == 0)
			wait_once();
		else
			signal_or_broadcast(dice(2), plain || dice(12) ? SIGNAL : BROADCAST);
		mutex_unlock();
	}
	leave_turn(OVER);
}

/* Who sleeps can run if that may end. */
static bool can_run(const struct thread *t)
{
	return t->turn == READY || (t->turn == FOR_MUTEX && !holder) || (t->turn == ASLEEP && t->ends);
}

static struct thread *choose(void)
{
	unsigned sum = 0;

	if (dice(12) == 0)
		thread[dice(THREADS)].weight = 1u << 3 * dice(5);
	for (unsigned i = 0; i < THREADS; i++)
		sum += can_run(&thread[i]) ? thread[i].weight : 0;
	if (!sum)
		return NULL;
	sum = dice(sum);
	for (struct thread *t = thread;; t++) {
		if (!can_run(t))
			continue;
		if (sum < t->weight)
			return t;
		sum -= t->weight;
	}
}

static unsigned blocked(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		ck_assert(thread[i].turn == ASLEEP || thread[i].turn == OVER);
		n += thread[i].turn == ASLEEP;
	}
	return n;
}

static void play(void)
{
	struct thread *t;

	memset(&cond, 0, sizeof(cond));
	cond.refs = PK_COND_SHARED;
	cond.sequence = -dice(2 * ACTS); /* it may wrap */
	events = 0;
	holder = NULL;
	unpicked = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		t = &thread[i];
		*t = (struct thread){.weight = 1};
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = stack[i];
		t->context.uc_stack.ss_size = STACK;
		makecontext(&t->context, act, 0);
	}
	while ((t = choose())) {
		me = t;
		swapcontext(&outside, &t->context);
	}
	ck_assert_ptr_null(holder);
	seen.blocked += blocked();
	ck_assert_msg(blocked() <= may_be_blocked(), "%u are blocked, %u of them rightly: a signal was lost", blocked(),
		      may_be_blocked());
	ck_assert_uint_eq(cond.refs, PK_COND_SHARED + blocked() * PK_COND_WAITER);
}

/* Who has come first is woken first, or (_i 1) anybody, as if the threads had priorities. */
START_TEST(no_signal_is_lost)
{
	luck = 2463534242u;
	in_order = !_i;
	for (int round = 0; round < ROUNDS; round++) {
		plain = round % 2;
		play();
	}
	ck_assert_msg(seen.cancelled && seen.interrupted && seen.late && seen.blocked && seen.returned,
		      "%u were cancelled, %u interrupted, %u late, %u blocked at the end; %u returned", seen.cancelled,
		      seen.interrupted, seen.late, seen.blocked, seen.returned);
}
END_TEST

UNIT("cond-shared", {no_signal_is_lost, 2})
