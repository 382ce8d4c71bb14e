/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Condition variables, each with at most one waiter; the contract is in calls.h. */
#include "calls.h"

#include <threads.h>

struct cond conds[CONDS];

static bool cond_is_dead(const struct actor *a, int n)
{
	(void)a;
	return !conds[n].alive;
}

static int cond_init_call(struct actor *a, int n)
{
	struct cond *c = &conds[n];
	pthread_condattr_t attr;
	int rc;

	c->alive = true;
	if (a->die % 4 == 0)
		return pthread_cond_init(&c->c, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, a->die / 4 % 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
	pthread_condattr_setclock(&attr, a->die / 8 % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME);
	rc = pthread_cond_init(&c->c, &attr);
	pthread_condattr_destroy(&attr);
	return rc;
}

static bool may_end(const struct actor *a, int n)
{
	(void)a;
	return conds[n].alive && conds[n].waiter == NOBODY;
}

static int cond_destroy_call(struct actor *a, int n)
{
	(void)a;
	conds[n].alive = false;
	return pthread_cond_destroy(&conds[n].c);
}

/* Whoever is called can have its mutex, now or when its owner lets it go. */
static bool may_call(const struct actor *a, int n)
{
	(void)a;
	return conds[n].alive && (conds[n].waiter == NOBODY || can_be_had(&mutexes[conds[n].mutex]));
}

static int signal_call(struct actor *a, int n)
{
	static int (*const calls[])(pthread_cond_t *) = {pthread_cond_signal, pthread_cond_broadcast};

	conds[n].waiter = NOBODY;
	if (a->die % 4 == 0)
		return a->die / 4 % 2 ? cnd_signal((cnd_t *)&conds[n].c) : cnd_broadcast((cnd_t *)&conds[n].c);
	return calls[a->die / 4 % 2](&conds[n].c);
}

/* The mutex for a wait: mostly one that the actor has. */
int mutex_for(const struct actor *a)
{
	for (uint32_t i = 0; a->die / 512 % 8 && i < MUTEXES; i++) {
		int n = (int)((a->die / 64 + i) % MUTEXES);

		if (is_usable(&mutexes[n]) && holder(&mutexes[n]) == self_of(a))
			return n;
	}
	return (int)(a->die / 64 % MUTEXES);
}

static pthread_mutex_t *mutex_of(const struct actor *a)
{
	return &mutexes[mutex_for(a)].m;
}

/* It has the mutex, once; or is told that it has not. Who has been cancelled lets go of it and
 * wants it again at once. */
static bool may_wait_with(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[mutex_for(a)];
	const struct cond *c = &conds[n];

	if (!c->alive || !is_usable(m) || c->waiter != NOBODY || (a->pending && is_wanted(m)))
		return false;
	if (holder(m) == self_of(a))
		return m->m.__data.__count <= 1 && m->m.__data.__owner != INCONSISTENT;
	return asks_for_owner(m) && !a->pending;
}

static bool may_wait_past(const struct actor *a, int n)
{
	return may_wait_with(a, n) && !is_wanted(&mutexes[mutex_for(a)]);
}

static int past_call(struct actor *a, int n)
{
	pthread_cond_t *c = &conds[n].c;
	int state, rc;

	pthread_cleanup_push(cancelled, a);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	switch (a->die % 8) {
	case 0:
		rc = cnd_timedwait((cnd_t *)c, (mtx_t *)mutex_of(a), &past);
		break;
	case 1:
		rc = pthread_cond_clockwait(c, mutex_of(a), CLOCK_MONOTONIC, &past);
		break;
	default:
		rc = pthread_cond_timedwait(c, mutex_of(a), &past);
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cleanup_pop(0);
	return rc;
}

static bool cond_is_alive(const struct actor *a, int n)
{
	return conds[n].alive && mutexes[mutex_for(a)].alive;
}

static int bad_call(struct actor *a, int n)
{
	pthread_cond_t *c = &conds[n].c;

	switch (a->die % 3) {
	case 0:
		return pthread_cond_timedwait(c, mutex_of(a), &bad_ns);
	case 1:
		return pthread_cond_clockwait(c, mutex_of(a), CLOCK_REALTIME, &bad_ns);
	default:
		return pthread_cond_clockwait(c, mutex_of(a), CLOCK_PROCESS_CPUTIME_ID, &past);
	}
}

/* Somebody else has to be there who calls it, and lets the mutex go. */
static bool may_wait(const struct actor *a, int n)
{
	bool others = false;

	for (int i = 0; i < ACTORS; i++)
		others |= i != self_of(a) && awake(i);
	return others && may_wait_with(a, n);
}

static int wait_call(struct actor *a, int n)
{
	struct timespec far = {INT32_MAX, 0};
	int state, rc;

	pthread_cleanup_push(cancelled, a);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	switch (a->die % 4) {
	case 0:
		rc = pthread_cond_timedwait(&conds[n].c, mutex_of(a), &far);
		break;
	case 1:
		rc = cnd_wait((cnd_t *)&conds[n].c, (mtx_t *)mutex_of(a));
		break;
	default:
		rc = pthread_cond_wait(&conds[n].c, mutex_of(a));
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cleanup_pop(0);
	return rc;
}

const struct op cond_init_op = {"init c", CONDS, cond_is_dead, cond_init_call};
const struct op cond_destroy_op = {"destroy c", CONDS, may_end, cond_destroy_call};
const struct op cond_call_op = {"call c", CONDS, may_call, signal_call};
const struct op cond_wait_op = {"wait c", CONDS, may_wait, wait_call};
const struct op cond_wait_past_op = {"timedwait(past) c", CONDS, may_wait_past, past_call};
const struct op cond_wait_bad_op = {"timedwait(bad) c", CONDS, cond_is_alive, bad_call};
