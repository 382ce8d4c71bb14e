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
#include <string.h>

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
	mc_name(&tokens, sizeof(tokens), "what is waited for");
	users = (int)mc_threads;
	pk_config.cond = "fifo";
	pk_real();
}

static void shared_setup(void)
{
	pthread_condattr_t attr;

	setup();
	pk_config.cond_shared = "parkade";
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (pk_cond_init(&cond, &attr))
		mc_fail("init fails");
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

static void broadcast_body(unsigned t)
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
					{"cond-after", setup, after_body, final, MC_OTHERS},
					{"cond-signal", setup, signal_body, final, MC_OTHERS},
					{"cond-timed", setup, timed_body, final, MC_NONE},
					{"cond-late", setup, late_body, final, MC_NONE},
					{"cond-shared", shared_setup, broadcast_body, final, MC_OTHERS},
					{NULL, NULL, NULL, NULL, MC_NONE}};
