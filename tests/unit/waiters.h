/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A condition variable and its mutex, threads that wait for it once each in an order that is known, and whoever signals them. */
#ifndef WAITERS_H
#define WAITERS_H

#include <unistd.h>

#include "pthread/cond.h"
#include "pthread/cond-shared.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
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

static inline void setup(const char *policy, const char *topology)
{
	pk_real();
	pk_topology_read("", topology);
	pk_spin_setup();
	pk_thread_setup(pk_cond_waiter_gone);
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_policy_select(policy);
}

static inline unsigned waiting(void)
{
	struct pk_cond *c = pk_cond_of(&cond);
	bool glibcs = pk_cond_is_shared(c) && !pk_cond_is_ours(c);

	return __atomic_load_n(glibcs ? &cond.__data.__wrefs : &c->refs, __ATOMIC_RELAXED) / PK_COND_WAITER;
}

static inline void let_go_of(void *m)
{
	pk_mutex_unlock(m);
}

static inline void *wait_once(void *arg)
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
static inline void start_as(int me, void *(*wait)(void *))
{
	unsigned before = waiting();

	ck_assert_int_eq(pthread_create(&thread[me], NULL, wait, (void *)(intptr_t)me), 0);
	while (waiting() != before + 1)
		usleep(100);
	pk_mutex_lock(&mutex); /* it has let go of it */
	pk_mutex_unlock(&mutex);
}

static inline void start_one(int me)
{
	start_as(me, wait_once);
}

/* Waiters, in the order of their numbers. */
static inline void start(int n)
{
	for (int i = 0; i < n; i++) {
		while (serials && pk_arena_used() < serials[i])
			pk_record_take();
		start_one(i);
	}
}

/* There have been so many crowds in a row; 2: who comes from now on is one of the next. */
static inline void set_apart(unsigned times)
{
	struct pk_cond *c = pk_cond_of(&cond);

	c->apart = (uint8_t)times;
	c->hall = times < 2 ? 0 : (uint16_t)(1 + pk_hall_take(&cond));
}

static inline void keep_together(void)
{
	set_apart(2);
}

static inline void await_asleep(int n)
{
	for (int i = 0; i < n; i++)
		while (!sleepers_sleeps(tid_of[i]))
			usleep(100);
}

static inline void join(int n)
{
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
}

/* Signal once; the waiter that it was for. */
static inline int signal_one(bool held)
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

/* The last one that has come. */
static inline struct pk_waiter *last(void)
{
	return pk_waiter_named(pk_cond_of(&cond)->waiters.tail);
}

#endif
