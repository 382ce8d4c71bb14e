/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Condition variables under the checker: clients for locks.c.
 *
 * Thread 0 says what the others wait for, in one of three ways: a broadcast with the mutex held
 * (the sleepers are moved, asleep, to the mutex's queue or word), a broadcast after it has been
 * let go (nobody may touch the mutex then: it may be gone), a signal. When nobody can begin to
 * wait any more it destroys the condition variable and frees its memory, as POSIX allows,
 * although waiters are still on their way out of it; the last one to have had the mutex frees
 * that. */
#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include "admit/list.h"
#include "model/locks.h"
#include "pthread/cond-shared.h"
#include "pthread/cond.h"
#include "pthread/mutex.h"
#include "rt/config.h"
#include "rt/real.h"

static pthread_mutex_t mutex PK_ALIGNED(64);
static pthread_cond_t cond PK_ALIGNED(64);
static int tokens, users;

static void setup(void)
{
	struct pk_mutex *m = pk_mutex_of(&mutex);
	struct pk_cond *c = pk_cond_of(&cond);

	mc_name(m, sizeof(*m), "mutex");
	mc_name(&m->lock, 4, "the word");
	mc_name(&m->kind, 8, "the flags");
	mc_name(&m->queue.tail, 8, "tail");
	mc_name(&m->queue.aux, 8, "aux");
	mc_name(c, sizeof(*c), "cond");
	mc_name(&c->waiters.tail, 8, "the list's end");
	mc_name(&c->lock, 4, "the list's lock");
	mc_name(&c->refs, 4, "the list's count");
	mc_name(&c->apart, sizeof(c->apart), "how often crowds were woken");
	mc_name(&c->called, sizeof(c->called), "how the last ones were called");
	mc_name(&c->hall, 2, "the hall");
	mc_name(&tokens, sizeof(tokens), "what is waited for");
	mc_watch_word(&m->lock);
	mc_watch_bays(&m->queue);
	mc_watch_bays(&m->queue.aux);
	users = (int)mc_threads;
	if (mc_hall)
		c->apart = PK_COND_APART, c->hall = 1; /* there have been crowds */
	pk_config.cond = "fifo";
	pk_real();
}

static void shared_setup(void)
{
	pthread_condattr_t attr;

	setup();
	pk_config.cond_shared = "parkade";
	pk_config_is_read = true;
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (pk_cond_init(&cond, &attr))
		mc_fail("init fails");
}

/* The waiter is moved though it is alone: it seems that others wait beside the queue (goes_ahead()). */
static void moved_setup(void)
{
	setup();
	pk_mutex_of(&mutex)->kind |= PK_FLAG_LOT;
}

/* And to the word, though others are in the queue: so they wait, as far as is known (pthread/trial.h). */
static void apart_setup(void)
{
	moved_setup();
	pk_mutex_of(&mutex)->kind |= PK_FLAG_APART;
}

/* The window (admit/list.h) is wide to begin with. */
static void called_setup(void)
{
	setup();
	pk_aux_set_hint(&pk_mutex_of(&mutex)->queue, PK_HINT_WINDOW, PK_LIST_WINDOW_MAX - 1);
}

static void lock(void)
{
	if (pk_mutex_lock(&mutex))
		mc_fail("lock fails");
}

/* For the last time of this thread. */
static void let_go(void)
{
	bool last = --users == 0;

	if (pk_mutex_unlock(&mutex))
		mc_fail("unlock fails");
	if (last)
		mc_free(&mutex, sizeof(mutex));
}

static void end_cond(void)
{
	if (pk_cond_destroy(&cond))
		mc_fail("destroy fails");
	mc_free(&cond, sizeof(cond));
}

/* A waiter for `tokens`, which stay. */
static void await(void)
{
	lock();
	while (!tokens)
		if (pk_cond_wait(&cond, &mutex))
			mc_fail("wait fails");
	let_go();
}

/* Who has moved the others calls them. The condition variable stays: fewer states. */
static void called_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		await();
		return;
	}
	lock();
	tokens = 1;
	pk_cond_broadcast(&cond);
	let_go();
}

/* The same, and it goes. */
static void broadcast_body(unsigned t)
{
	called_body(t);
	if (t == 0)
		end_cond();
}

static void after_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		await();
		return;
	}
	lock();
	tokens = 1;
	let_go();
	pk_cond_broadcast(&cond);
	end_cond();
}

/* One token for each of the others, a signal for each. */
static void signal_body(unsigned t)
{
	mc_thread_begin(t);
	lock();
	if (t == 0) {
		for (unsigned n = 1; n < mc_threads; n++) {
			tokens++;
			pk_cond_signal(&cond);
		}
	} else {
		while (!tokens)
			if (pk_cond_wait(&cond, &mutex))
				mc_fail("wait fails");
		tokens--;
	}
	let_go();
}

/* One token in all, which who has had it hands on, by a signal. Thread 1 has a deadline, and
 * goes without if it passes: then the signal is for another one. */
static void timed_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};
	int late = 0;

	mc_thread_begin(t);
	lock();
	if (t > 0)
		while (!tokens && !late)
			late = t == 1 ? pk_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &soon)
				      : pk_cond_wait(&cond, &mutex);
	if (late)
		mc_reached("a deadline passes at a condition variable");
	if (t > 0 && tokens)
		tokens--;
	else if (t > 0)
		goto out;
	tokens++;
	pk_cond_signal(&cond);
out:
	let_go();
}

/* Of a crowd: the one that comes last frees everything. */
static void end_all(void)
{
	bool last;

	lock();
	last = users == 1;
	let_go();
	if (last)
		end_cond();
}

/* A token, or two at once, and who waits is told of it in one of four ways. */
static void put_tokens(int n)
{
	unsigned how = mc_choose(4);

	lock();
	tokens += n;
	for (int i = 0; i < n && how == 0; i++)
		pk_cond_signal(&cond);
	if (how == 1)
		pk_cond_broadcast(&cond);
	if (pk_mutex_unlock(&mutex))
		mc_fail("unlock fails");
	for (int i = 0; i < n && how == 2; i++)
		pk_cond_signal(&cond);
	if (how == 3)
		pk_cond_broadcast(&cond);
}

/* Take a token. With a deadline the thread may go without. */
static void take_token(void)
{
	const struct timespec soon = {MC_SOON, 0};
	bool timed = mc_choose(2);
	int late = 0;

	lock();
	while (!tokens && !late) {
		late = timed ? pk_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &soon) : pk_cond_wait(&cond, &mutex);
		if (late && (late != ETIMEDOUT || !timed))
			mc_fail("wait fails");
	}
	tokens -= tokens > 0;
	if (pk_mutex_unlock(&mutex))
		mc_fail("unlock fails");
}

/* One half puts, the other half takes, as often; if there is one more, that one only locks. */
static void crowd_body(unsigned t)
{
	unsigned half = mc_threads / 2;

	mc_thread_begin(t);
	if (t < half && mc_choose(2))
		put_tokens(MC_ROUNDS);
	else
		for (int n = 0; n < MC_ROUNDS; n++) {
			if (t < half)
				put_tokens(1);
			else if (t < 2 * half)
				take_token();
			else
				put_tokens(0);
		}
	end_all();
}

/* Those who come wait for the last one, who tells the others of it; and again. */
static void barrier_body(unsigned t)
{
	mc_thread_begin(t);
	for (int n = 0; n < MC_ROUNDS; n++) {
		bool last, after = mc_choose(2);
		int round;

		lock();
		round = tokens / (int)mc_threads;
		last = ++tokens % (int)mc_threads == 0;
		if (last && !after)
			pk_cond_broadcast(&cond);
		while (tokens / (int)mc_threads == round)
			if (pk_cond_wait(&cond, &mutex))
				mc_fail("wait fails");
		if (pk_mutex_unlock(&mutex))
			mc_fail("unlock fails");
		if (last && after)
			pk_cond_broadcast(&cond);
	}
	end_all();
}

/* Thread 1 has a deadline, and is about to leave while the object goes. */
static void late_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};

	if (t != 1) {
		broadcast_body(t);
		return;
	}
	mc_thread_begin(t);
	lock();
	if (!tokens && pk_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &soon))
		mc_reached("a deadline passes at a condition variable");
	let_go();
}

/* Thread 1 waits with a mutex that glibc will not unlock, as it is not locked. When it has taken itself out of the
 * list, or a signal has, it uses its node anew. Thread 0 signals. */
static void refused_setup(void)
{
	pthread_mutexattr_t attr;

	setup();
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pk_real()->pthread_mutex_init(&mutex, &attr);
}

static void refused_body(unsigned t)
{
	struct pk_waiter *w;

	mc_thread_begin(t);
	if (t == 0) {
		for (int n = 0; n < 2; n++)
			pk_cond_signal(&cond);
		return;
	}
	if (pk_cond_wait(&cond, &mutex) != EPERM)
		mc_fail("a wait takes place with a mutex that cannot be unlocked");
	w = pk_waiter_take(mc_record[1]);
	w->home = NULL;
	w->queue = NULL;
	pk_waiter_free(w);
}

static void refused_final(void)
{
	if (pk_cond_of(&cond)->lock || pk_cond_of(&cond)->refs >= PK_COND_WAITER)
		mc_fail("somebody waits at the end: %x, %x", pk_cond_of(&cond)->lock, pk_cond_of(&cond)->refs);
}

/* ---- cancellation ---- */

/* Thread 0 cancels thread 1, whose first wait nothing else ends. Its handler, which runs with the mutex, waits until
 * thread 0 has said that it is done; that wait is to be ended by a signal only.
 *
 * Of glibc's there is the flag, and what becomes of it at a cancellation point. relaxed: more it does not promise. */
enum { CANCELLED = 1001 };

static int flag;
static bool unwinding, in_handler, done;
static jmp_buf *handler;

static int set_flag(pthread_t thread)
{
	if (thread != CANCELLED)
		mc_fail("another thread is cancelled");
	__atomic_fetch_or(&flag, 1, __ATOMIC_RELAXED);
	return 0;
}

static void look_at_flag(void)
{
	if (mc_thread() != 1 || unwinding || !__atomic_load_n(&flag, __ATOMIC_RELAXED))
		return;
	unwinding = true;
	longjmp(*handler, 1);
}

static void cancel_setup(void)
{
	struct pk_real *real = (struct pk_real *)pk_real();

	setup();
	mc_name(&flag, sizeof(flag), "glibc's flag");
	mc_name(&mc_record[1]->cancelled, sizeof(bool), "record 1's cancelled");
	mc_name(&mc_record[1]->acts, sizeof(bool), "record 1's acts");
	real->pthread_cancel = set_flag;
	real->pthread_testcancel = look_at_flag;
	mc_record[1]->thread = CANCELLED;
}

static void cancelled_body(void)
{
	jmp_buf here;

	lock();
	if (!setjmp(here)) {
		handler = &here;
		pk_cond_wait(&cond, &mutex);
		mc_fail("a wait ends that nobody has signalled");
	}
	in_handler = true;
	while (!done) {
		if (pk_cond_wait(&cond, &mutex))
			mc_fail("wait fails");
		if (!done)
			mc_fail("a handler's wait ends, and nobody has signalled");
	}
	let_go();
}

static void cancel_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0) {
		cancelled_body();
		return;
	}
	if (pk_cancel(CANCELLED))
		mc_fail("cancel fails");
	lock();
	done = true;
	if (in_handler)
		pk_cond_signal(&cond);
	let_go();
}

static void final(void)
{
	struct pk_mutex *m = pk_mutex_of(&mutex);

	if (m->lock || m->nusers || m->owner)
		mc_fail("the mutex at the end: word %d, %d users, owner %d", m->lock, m->nusers, m->owner);
	mc_is_idle(m, &m->queue);
	if ((!pk_cond_is_shared(pk_cond_of(&cond)) && pk_cond_of(&cond)->lock) ||
	    pk_cond_of(&cond)->refs >= PK_COND_WAITER)
		mc_fail("somebody waits at the end: %x, %x", pk_cond_of(&cond)->lock, pk_cond_of(&cond)->refs);
}

const struct mc_kind mc_cond_kinds[] = {{"cond-broadcast", setup, broadcast_body, final, MC_OTHERS},
					{"cond-called", called_setup, called_body, final, MC_OTHERS},
					{"cond-after", setup, after_body, final, MC_OTHERS},
					{"cond-signal", setup, signal_body, final, MC_OTHERS},
					{"cond-signal-moved", moved_setup, signal_body, final, MC_OTHERS},
					{"cond-signal-apart", apart_setup, signal_body, final, MC_OTHERS},
					{"cond-timed", setup, timed_body, final, MC_NONE},
					{"cond-timed-moved", moved_setup, timed_body, final, MC_NONE},
					{"cond-timed-apart", apart_setup, timed_body, final, MC_NONE},
					{"cond-late", setup, late_body, final, MC_NONE},
					{"cond-shared", shared_setup, broadcast_body, final, MC_OTHERS},
					{"cond-shared-signal", shared_setup, signal_body, final, MC_OTHERS},
					{"cond-refused", refused_setup, refused_body, refused_final, MC_NONE},
					{"cond-cancel", cancel_setup, cancel_body, final, MC_NONE},
					{"cond-crowd", setup, crowd_body, final, MC_NONE, false, &mutex.__data.__lock},
					{"cond-crowd-apart", apart_setup, crowd_body, final, MC_NONE, false, &mutex.__data.__lock},
					{"cond-barrier", setup, barrier_body, final, MC_NONE, false, &mutex.__data.__lock},
					{NULL, NULL, NULL, NULL, MC_NONE}};
