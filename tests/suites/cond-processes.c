/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-processes: condition variables that several processes share.
 *
 * They wait in a hall (hall.h) in shared memory, come and go, miss deadlines, are killed while they wait or anywhere
 * else, end with the mutex, and one destroys the object that the others leave.
 *
 * It would catch: a signal that is remembered, given to two, or lost: to one whose deadline passes, to a process that
 * was killed, among many that have slept for long; a wait that returns without the mutex or too early; a destroy that
 * waits for the dead; a touch of the object after destroy.
 */

#include "hall.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 3 };

static pid_t child_run(int threads, team_body *body, void *arg)
{
	pid_t child = child_begin();

	if (child == 0) {
		if (threads > 1)
			team_run(threads, body, arg);
		else
			body(0, arg);
		child_exit();
	}
	return child;
}

/* Memory that children share. */
static void *pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		say("mmap: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	return p;
}

static struct hall *shared_hall(int type, int which)
{
	struct hall *h = pages(sizeof *h);

	special_make(&h->m, type, which);
	cond_make(&h->c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	return h;
}

static void shared_hall_end(struct hall *h)
{
	CALL(pthread_cond_destroy(&h->c), 0);
	MUST(pthread_mutex_destroy(&h->m));
	munmap(h, sizeof *h);
	stop_if_complained();
}

struct rally {
	struct hall h;
	atomic_int turn;
};

static void play(int index, void *arg)
{
	struct rally *r = arg;

	for (int i = 0; i < 200 && !complained(); i++) {
		MUST(pthread_mutex_lock(&r->h.m));
		while (atomic_load(&r->turn) != index && !complained()) {
			CALL(wait_by(i % WAYS, &r->h.c, &r->h.m), 0);
			HELD(&r->h.m);
		}
		atomic_store(&r->turn, !index);
		hall_call(&r->h, i / 4 % HOWS, 0);
	}
}

static void play_other(int index, void *arg)
{
	(void)index;
	play(1, arg);
}

START_TEST(processes_play)
{
	struct rally *r = pages(sizeof *r);
	pid_t child;

	special_make(&r->h.m, kinds[_i].type, _i % 2 ? SHARED : ROBUST_SHARED);
	cond_make(&r->h.c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	child = child_run(1, play_other, r);
	play(0, r);
	child_reap(child, "the other player");
	CALL(pthread_cond_destroy(&r->h.c), 0);
	assert_no_complaint();
}
END_TEST

/* Nine threads of three processes: single signals, and a broadcast for the rest; and again in the same hall. */
START_TEST(processes_wait)
{
	struct hall *h = shared_hall(kinds[_i].type, SHARED);

	for (enum how how = SIGNAL_HELD; how <= SIGNAL_FREE; how++) {
		pid_t child[CHILDREN];

		h->way = (how + _i) % WAYS;
		atomic_store(&h->out, 0);
		for (int i = 0; i < CHILDREN; i++)
			child[i] = child_run(3, hall_guest, h);
		for (int n = 1; n < 5; n++) {
			hall_gather(h, 10 - n);
			hall_call(h, how, 1);
			SOON(atomic_load(&h->out) == n);
		}
		hall_gather(h, 5);
		hall_call(h, how - SIGNAL_HELD + BROADCAST_HELD, 5);
		for (int i = 0; i < CHILDREN; i++)
			child_reap(child[i], "a process that waits");
		stop_if_complained();
		ck_assert_int_eq(atomic_load(&h->out), 9);
	}
	hall_want_forgetful(h);
	shared_hall_end(h);
}
END_TEST

/* Forty blocked at once, and forty signals: the ones that have slept for long are reached like the others. */
START_TEST(many_signals)
{
	struct hall *h = shared_hall(PTHREAD_MUTEX_NORMAL, SHARED);
	pid_t child = child_run(20, hall_guest, h);
	struct team *t = team_start(20, hall_guest, h);

	for (int n = 40; n > 0; n--) {
		hall_gather(h, n);
		hall_call(h, n % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
		SOON(atomic_load(&h->waiting) == n - 1);
	}
	team_join(t);
	child_reap(child, "the process of twenty");
	shared_hall_end(h);
}
END_TEST

static void be_late_for(int index, void *hall)
{
	struct hall *h = hall;

	for (int i = 0; i < 5; i++) {
		struct timespec then, now;

		MUST(pthread_mutex_lock(&h->m));
		then = deadline(CLOCK_MONOTONIC, 200000 * (index + i));
		CALL(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &then), ETIMEDOUT);
		HELD(&h->m);
		now = deadline(CLOCK_MONOTONIC, 0);
		if (now.tv_sec < then.tv_sec || (now.tv_sec == then.tv_sec && now.tv_nsec < then.tv_nsec))
			complain("a wait of several processes' ended early");
		MUST(pthread_mutex_unlock(&h->m));
	}
}

/* Deadlines among processes that wait without one, and have to be reached afterwards. */
START_TEST(processes_time_out)
{
	struct hall *h = shared_hall(kinds[_i].type, SHARED);
	pid_t patient = child_run(2, hall_guest, h), late;

	SOON(atomic_load(&h->waiting) == 2);
	late = child_run(2, be_late_for, h);
	be_late_for(1, h);
	child_reap(late, "a process with deadlines");
	for (int n = 2; n > 0; n--) {
		hall_gather(h, n);
		hall_call(h, SIGNAL_HELD, 1);
		SOON(atomic_load(&h->waiting) == n - 1);
	}
	child_reap(patient, "a patient process");
	shared_hall_end(h);
}
END_TEST

/* glibc's protocol counts the waiters, and does not survive one that is killed. */
static bool may_be_killed(void)
{
	const char *whose = getenv("PARKADE_COND_SHARED");

	return suite_served() && !(whose && strcmp(whose, "glibc") == 0);
}

static void kill_child(pid_t child)
{
	int status = 0;

	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (!WIFSIGNALED(status))
		complain("a child that was to be killed has ended by itself, with status %#x", status);
}

static void destroy_in_time(struct hall *h)
{
	uint64_t begin = now_ns();

	CALL(pthread_cond_destroy(&h->c), 0);
	begin = now_ns() - begin;
	if (begin > 5000000000)
		complain("destroy took %llu ms", (unsigned long long)begin / 1000000);
}

/* Three sleep and are killed, three others are to be reached, by as many signals; and destroy must not wait long. */
START_TEST(killed_while_waiting)
{
	struct hall *h;
	pid_t victim[3], child;

	if (!may_be_killed())
		return;
	h = shared_hall(PTHREAD_MUTEX_NORMAL, SHARED);
	for (enum how how = 0; how < HOWS; how++) {
		h->way = (enum way)how;
		for (int i = 0; i < 2; i++)
			victim[i] = child_run(1, hall_guest, h);
		SOON(atomic_load(&h->waiting) == 2);
		child = child_run(3, hall_guest, h);
		SOON(atomic_load(&h->waiting) == 5);
		victim[2] = child_run(1, hall_guest, h);
		hall_gather(h, 6);
		MUST(pthread_mutex_unlock(&h->m));
		for (int i = 0; i < 3; i++) {
			SOON(is_asleep(victim[i]));
			kill_child(victim[i]);
		}
		atomic_fetch_sub(&h->waiting, 3);
		for (int n = 3; n > 0; n--) {
			hall_gather(h, n);
			hall_call(h, how, how > SIGNAL_FREE ? n : 1);
			if (how > SIGNAL_FREE)
				break;
			SOON(atomic_load(&h->waiting) == n - 1);
		}
		child_reap(child, "the process that was not killed");
		stop_if_complained();
	}
	destroy_in_time(h);
	cond_make(&h->c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	hall_use(h);
	shared_hall_end(h);
}
END_TEST

enum { HELD_UP_MS = 700 };

static atomic_bool in_handler;

static void hold_up(int sig)
{
	(void)sig;
	atomic_store(&in_handler, true);
	sleep_us(HELD_UP_MS * 1000);
}

struct late {
	struct hall *h;
	bool waits, released; /* with the mutex */
};

static void *wait_late(void *arg)
{
	struct late *l = arg;

	MUST(pthread_mutex_lock(&l->h->m));
	l->waits = true;
	while (!l->released)
		MUST(pthread_cond_wait(&l->h->c, &l->h->m));
	MUST(pthread_mutex_unlock(&l->h->m));
	return NULL;
}

/* A waiter that has been woken is held up by a handler before it is on its way out: destroy waits for it, as it is not dead. */
START_TEST(held_up_while_destroyed)
{
	struct sigaction action = {.sa_handler = hold_up, .sa_flags = SA_RESTART};
	struct late l = {.h = shared_hall(PTHREAD_MUTEX_NORMAL, SHARED)};
	unsigned char *bytes = (unsigned char *)&l.h->c;
	pthread_t thread;
	bool waits;

	MUST(sigaction(SIGUSR1, &action, NULL));
	atomic_store(&in_handler, false);
	MUST(pthread_create(&thread, NULL, wait_late, &l));
	do {
		MUST(pthread_mutex_lock(&l.h->m));
		waits = l.waits;
		if (!waits)
			MUST(pthread_mutex_unlock(&l.h->m));
	} while (!waits);
	MUST(pthread_kill(thread, SIGUSR1));
	SOON(atomic_load(&in_handler));
	l.released = true;
	CALL(pthread_cond_broadcast(&l.h->c), 0);
	CALL(pthread_cond_destroy(&l.h->c), 0);
	memset(bytes, 0x5a, sizeof(l.h->c));
	MUST(pthread_mutex_unlock(&l.h->m));
	MUST(pthread_join(thread, NULL));
	for (size_t i = 0; i < sizeof(l.h->c); i++)
		if (bytes[i] != 0x5a)
			complain("byte %zu of the destroyed object was written", i);
	cond_make(&l.h->c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	shared_hall_end(l.h);
	assert_no_complaint();
}
END_TEST

/* The same with a mutex that may be inherited, since the victims are killed anywhere. */
static void own(int rc, struct hall *h, int other)
{
	if (rc == EOWNERDEAD)
		MUST(pthread_mutex_consistent(&h->m));
	else if (rc != other)
		WANT(rc, 0);
	HELD(&h->m);
}

static void be_killed(int index, void *arg)
{
	struct hall *h = arg;

	for (uint32_t luck = getpid() + index;;) {
		struct timespec soon;

		own(pthread_mutex_lock(&h->m), h, 0);
		soon = deadline(CLOCK_MONOTONIC, dice(&luck) % 60000);
		own(pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon), h, ETIMEDOUT);
		if (luck % 3 == 0)
			CALL(pthread_cond_signal(&h->c), 0);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

static void survive(int index, void *arg)
{
	struct hall *h = arg;

	(void)index;
	while (!atomic_load(&h->closed) && !complained()) {
		own(pthread_mutex_lock(&h->m), h, 0);
		atomic_fetch_add(&h->waiting, 1);
		while (!atomic_load(&h->tickets))
			own(pthread_cond_wait(&h->c, &h->m), h, 0);
		atomic_fetch_sub(&h->waiting, 1);
		atomic_fetch_sub(&h->tickets, 1);
		MUST(pthread_mutex_unlock(&h->m));
	}
}

START_TEST(killed_anywhere)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	uint32_t luck = 4711;
	struct hall *h;
	pid_t child;

	if (!may_be_killed())
		return;
	h = shared_hall(PTHREAD_MUTEX_NORMAL, ROBUST_SHARED);
	child = child_run(2, survive, h);
	for (int round = 0; round < 10 || now_ns() < end; round++) {
		pid_t victim = child_run(2, be_killed, h);

		sleep_us(dice(&luck) % 1500);
		kill_child(victim);
		for (int i = 0; i < 2; i++) {
			SOON(atomic_load(&h->waiting) == 2);
			own(pthread_mutex_lock(&h->m), h, 0);
			hall_call(h, luck % 2 ? SIGNAL_HELD : SIGNAL_FREE, 1);
			SOON(atomic_load(&h->tickets) == 0);
		}
	}
	SOON(atomic_load(&h->waiting) == 2);
	own(pthread_mutex_lock(&h->m), h, 0);
	atomic_store(&h->closed, true);
	hall_call(h, BROADCAST_HELD, 2);
	child_reap(child, "the process that survives");
	destroy_in_time(h);
	assert_no_complaint();
}
END_TEST

/* Processes come and go; each may be the last, and there may be none for a while. */
START_TEST(processes_come_and_go)
{
	struct hall *h = shared_hall(kinds[_i].type, SHARED);

	for (int round = 0; round < 4; round++) {
		pid_t child[CHILDREN];

		h->way = round % WAYS;
		for (int i = 0; i < CHILDREN; i++)
			child[i] = i < round ? child_run(1, hall_guest, h) : child_run(1, be_late_for, h);
		for (int i = round; i < CHILDREN; i++)
			child_reap(child[i], "a process with a deadline");
		hall_gather(h, round);
		hall_call(h, round % 2 ? BROADCAST_FREE : BROADCAST_HELD, round);
		for (int i = 0; i < round; i++)
			child_reap(child[i], "a process that goes");
		hall_want_forgetful(h);
	}
	shared_hall_end(h);
}
END_TEST

/* The owner is a process that ends; the heirs are of several. */
START_TEST(owner_process_dies)
{
	for (int heals = 0; heals < 2; heals++) {
		struct estate *e = pages(sizeof *e);
		pid_t child[2];

		e->heals = heals;
		e->h.way = (_i + heals) % WAYS;
		special_make(&e->h.m, kinds[_i].type, ROBUST_SHARED);
		cond_make(&e->h.c, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
		for (int i = 0; i < 2; i++)
			child[i] = child_run(2, inherit, e);
		hall_gather(&e->h, 4);
		MUST(pthread_mutex_unlock(&e->h.m));
		child_reap(child_run(1, bequeath, e), "the owner");
		for (int i = 0; i < 2; i++)
			child_reap(child[i], "a process of heirs");
		assert_no_complaint();
		ck_assert_int_eq(atomic_load(&e->dead), 1);
		ck_assert_int_eq(atomic_load(&e->fine), heals ? 3 : 0);
		ck_assert_int_eq(atomic_load(&e->lost), heals ? 0 : 3);
		CALL(pthread_cond_destroy(&e->h.c), 0);
	}
}
END_TEST

/* Destroyed straight after the broadcast, in shared memory, where a late touch would be seen. */
enum { PLOTS = 24 };

struct plots {
	struct hall h;
	pthread_cond_t c[PLOTS];
	atomic_int at; /* which of them are gone */
};

static void leave_plots(int index, void *arg)
{
	struct plots *p = arg;
	(void)index;

	for (int i = 0; i < PLOTS; i++) {
		hall_come_in(&p->h);
		while (atomic_load(&p->at) <= i && !complained())
			CALL(wait_by(i % WAYS, &p->c[i], &p->h.m), 0);
		HELD(&p->h.m);
		MUST(pthread_mutex_unlock(&p->h.m));
	}
}

START_TEST(processes_and_the_end)
{
	struct plots *p = pages(sizeof *p);
	pid_t child[CHILDREN];

	special_make(&p->h.m, kinds[_i].type, SHARED);
	for (int i = 0; i < PLOTS; i++)
		cond_make(&p->c[i], PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	for (int i = 0; i < CHILDREN; i++)
		child[i] = child_run(1 + i % 2, leave_plots, p);
	for (int i = 0; i < PLOTS; i++) {
		hall_gather(&p->h, (CHILDREN + 1) * (i + 1));
		atomic_store(&p->at, i + 1);
		if (i % 3 == 0)
			MUST(pthread_mutex_unlock(&p->h.m));
		CALL(pthread_cond_broadcast(&p->c[i]), 0);
		if (i % 3 == 1)
			MUST(pthread_mutex_unlock(&p->h.m));
		CALL(pthread_cond_destroy(&p->c[i]), 0);
		memset(&p->c[i], 0xff, sizeof p->c[i]);
		if (i % 3 == 2)
			MUST(pthread_mutex_unlock(&p->h.m));
	}
	for (int i = 0; i < CHILDREN; i++)
		child_reap(child[i], "a process that leaves");
	want_untouched(p->c, sizeof p->c);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-processes");

	SUITE_CASE_OF(s, processes_play, 60, KINDS);
	SUITE_CASE_OF(s, processes_wait, 60, KINDS);
	SUITE_CASE(s, many_signals, 60);
	SUITE_CASE_OF(s, processes_time_out, 60, KINDS);
	SUITE_CASE(s, killed_while_waiting, 60);
	SUITE_CASE(s, killed_anywhere, 60);
	SUITE_CASE(s, held_up_while_destroyed, 60);
	SUITE_CASE_OF(s, processes_come_and_go, 60, KINDS);
	SUITE_CASE_OF(s, owner_process_dies, 60, KINDS);
	SUITE_CASE_OF(s, processes_and_the_end, 60, KINDS);
	return suite_run(s);
}
