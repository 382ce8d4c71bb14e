/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-broadcast: those whom a signal or broadcast reaches get the mutex, each once, one at a time; and none of
 * them is woken to wait for it while it is held.
 *
 * It would catch: waiters woken all at once to fight for the mutex, one that has to wait for another one's signal
 * handler, one that is forgotten between the cond's list and the mutex's queue, one that comes out without the mutex, for
 * nothing or twice, a deadline that counts although the signal came first, plain lockers that shut out those who were
 * moved, or the other way round.
 *
 * Each case is played with each kind of mutex, also those that the library leaves to glibc.  That nobody is woken too
 * early is the library's promise for its own kinds only; glibc's condition variables wake everybody.
 */

#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CROWD = 256, HOLD_US = 20000, PATIENCE_S = 20, AWAKE_MAX = 2 };

struct row {
	const char *name;
	int type, robust, protocol, shared;
};

static const struct row rows[] = {
	{"normal", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE},
	{"recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE},
	{"errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE},
	{"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE},
	{"robust", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE},
	{"priority inheritance", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT,
	 PTHREAD_PROCESS_PRIVATE},
	{"process-shared", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

struct place {
	const struct row *row;
	pthread_mutex_t m;
	pthread_cond_t cond;
	/* Guarded by m. */
	volatile int holder; /* a shadow */
	int waiting;	     /* who has come to wait since the last call */
	int through;	     /* who has come out of a wait that a call ended */
	unsigned generation; /* of calls */
	bool belated;	     /* a call may come late, and reach those who came after its generation had begun */
	bool over;
};

static bool place_make(struct place *p, const struct row *row, clockid_t clock)
{
	pthread_mutexattr_t attr;
	pthread_condattr_t cond_attr;
	int rc;

	memset(p, 0, sizeof *p);
	p->row = row;
	ck_assert_int_eq(pthread_mutexattr_init(&attr), 0);
	ck_assert_int_eq(pthread_mutexattr_settype(&attr, row->type), 0);
	ck_assert_int_eq(pthread_mutexattr_setrobust(&attr, row->robust), 0);
	ck_assert_int_eq(pthread_mutexattr_setprotocol(&attr, row->protocol), 0);
	ck_assert_int_eq(pthread_mutexattr_setpshared(&attr, row->shared), 0);
	rc = pthread_mutex_init(&p->m, &attr);
	pthread_mutexattr_destroy(&attr);
	if (rc == ENOTSUP) {
		say("SKIP: no %s mutexes here", row->name);
		return false;
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(pthread_condattr_init(&cond_attr), 0);
	ck_assert_int_eq(pthread_condattr_setpshared(&cond_attr, row->shared), 0);
	ck_assert_int_eq(pthread_condattr_setclock(&cond_attr, clock), 0);
	ck_assert_int_eq(pthread_cond_init(&p->cond, &cond_attr), 0);
	pthread_condattr_destroy(&cond_attr);
	return true;
}

static void place_unmake(struct place *p)
{
	assert_no_complaint();
	ck_assert_int_eq(pthread_cond_destroy(&p->cond), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&p->m), 0);
}

static void came_in(struct place *p)
{
	if (p->holder)
		complain("%s: two hold the mutex", p->row->name);
	p->holder = 1;
}

static void enter(struct place *p)
{
	MUST(pthread_mutex_lock(&p->m));
	came_in(p);
}

static void leave(struct place *p)
{
	p->holder = 0;
	MUST(pthread_mutex_unlock(&p->m));
}

/* Waits until a call comes; only process-shared conds may return without one. */
static void await_call(struct place *p)
{
	unsigned now = p->generation;

	p->waiting++;
	do {
		p->holder = 0;
		if (!MUST(pthread_cond_wait(&p->cond, &p->m)))
			return;
		came_in(p);
		if (p->generation == now && p->row->shared == PTHREAD_PROCESS_PRIVATE && !p->belated)
			complain("%s: a wait returned before the call", p->row->name);
	} while (p->generation == now && !complained());
	p->through++;
}

static void call(struct place *p, bool all)
{
	MUST(all ? pthread_cond_broadcast(&p->cond) : pthread_cond_signal(&p->cond));
}

/* Looks at *count with the mutex until it is n; then it is held. */
static void enter_when(struct place *p, const int *count, int n, const char *what)
{
	uint64_t hopeless = now_ns() + PATIENCE_S * UINT64_C(1000000000);

	for (enter(p); *count != n; enter(p)) {
		int seen = *count;

		leave(p);
		assert_no_complaint();
		ck_assert_msg(seen < n && now_ns() < hopeless, "%s: %d instead of %d %s", p->row->name, seen, n, what);
		sleep_us(100);
	}
}

/* ---- a broadcast to a crowd, the mutex held ---- */

struct crowd {
	struct place p;
	pid_t tid[CROWD];
	int turns[CROWD];
};

static void crowd_body(int index, void *arg)
{
	struct crowd *c = arg;

	c->tid[index] = gettid();
	enter(&c->p);
	await_call(&c->p);
	c->turns[index]++;
	leave(&c->p);
}

static bool task_file(pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return n > 0;
}

static void await_sleep(const struct crowd *c)
{
	uint64_t hopeless = now_ns() + PATIENCE_S * UINT64_C(1000000000);
	char text[512], *state;

	for (int i = 0; i < CROWD && now_ns() < hopeless; i++)
		while (task_file(c->tid[i], "stat", text, sizeof text) && (state = strrchr(text, ')')) &&
		       state[2] != 'S' && now_ns() < hopeless)
			sleep_us(1000);
}

/* How often each has been on a processor so far; false if the kernel does not say. */
static bool turns_on_cpu(const struct crowd *c, long switches[CROWD])
{
	static const char wanted[] = "voluntary_ctxt_switches:"; /* the end of nonvoluntary_... as well */
	char text[4096];

	for (int i = 0; i < CROWD; i++) {
		int found = 0;

		if (!task_file(c->tid[i], "status", text, sizeof text))
			return false;
		switches[i] = 0;
		for (char *line = text; (line = strstr(line, wanted)); found++) {
			line += sizeof wanted - 1;
			switches[i] += strtol(line, NULL, 10);
		}
		if (found != 2)
			return false;
	}
	return true;
}

static void assert_nobody_disturbed(const struct row *row, bool known, const long *before, const long *after,
				    int64_t wakes)
{
	int ran = 0;

	for (int i = 0; i < CROWD && known; i++)
		ran += after[i] != before[i];
	say("cond-broadcast: %s: while the mutex was held on, %d of %d ran; %lld calls woke somebody", row->name, ran,
	    CROWD, (long long)wakes);
	if (!suite_served() || row - rows >= KINDS)
		return;
	if (wakes < 0 || !known)
		say("SKIP: %s", known ? "this policy does not count wake-ups" : "the kernel does not count switches");
	ck_assert_msg(ran <= AWAKE_MAX, "%d of %d waiters ran while the mutex was held", ran, CROWD);
	ck_assert_msg(wakes <= AWAKE_MAX, "%lld wake-ups while the mutex was held", (long long)wakes);
}

START_TEST(crowd_stays_asleep)
{
	static struct crowd c;
	static long before[CROWD], after[CROWD];
	int64_t wakes;
	struct team *t;
	bool known;

	if (!place_make(&c.p, &rows[_i], CLOCK_REALTIME))
		return;
	t = team_start(CROWD, crowd_body, &c);
	enter_when(&c.p, &c.p.waiting, CROWD, "wait");
	leave(&c.p);
	await_sleep(&c);

	enter(&c.p);
	known = turns_on_cpu(&c, before);
	wakes = suite_counter("wakes");
	c.p.generation++;
	call(&c.p, true);
	sleep_us(HOLD_US);
	if (wakes >= 0)
		wakes = suite_counter("wakes") - wakes;
	known = known && turns_on_cpu(&c, after);
	ck_assert_int_eq(c.p.through, 0);
	leave(&c.p);

	enter_when(&c.p, &c.p.through, CROWD, "came through");
	leave(&c.p);
	team_join(t);
	for (int i = 0; i < CROWD; i++)
		ck_assert_int_eq(c.turns[i], 1);
	place_unmake(&c.p);
	assert_nobody_disturbed(&rows[_i], known, before, after, wakes);
}
END_TEST

/* ---- generations ---- */

enum { AGAIN = 64, AGAIN_MS = 50 };

struct rounds {
	struct place p;
	pthread_cond_t all_in;
	int size;
};

static void rounds_body(int index, void *arg)
{
	struct rounds *r = arg;
	(void)index;

	enter(&r->p);
	while (!r->p.over && !complained()) {
		unsigned before = r->p.generation;

		if (r->p.waiting + 1 == r->size)
			MUST(pthread_cond_signal(&r->all_in));
		await_call(&r->p);
		if (r->p.generation != before + 1)
			complain("%s: a waiter missed %u broadcasts", r->p.row->name, r->p.generation - before - 1);
	}
	leave(&r->p);
}

/* Everybody waits, everybody is called, everybody comes out and waits again. */
START_TEST(generations)
{
	struct rounds r = {.size = AGAIN};
	uint64_t end = now_ns() + suite_scale(AGAIN_MS) * 1000000;
	struct timespec hopeless = deadline(CLOCK_MONOTONIC, PATIENCE_S * INT64_C(1000000000));
	struct team *t;
	int played = 0;

	if (!place_make(&r.p, &rows[_i], CLOCK_MONOTONIC))
		return;
	ck_assert_int_eq(pthread_cond_init(&r.all_in, NULL), 0);
	t = team_start(r.size, rounds_body, &r);
	for (bool last = false; !last; played++) {
		enter(&r.p);
		while (r.p.waiting < r.size && !complained()) {
			r.p.holder = 0;
			WANT(pthread_cond_clockwait(&r.all_in, &r.p.m, CLOCK_MONOTONIC, &hopeless), 0);
			came_in(&r.p);
		}
		assert_no_complaint();
		ck_assert_int_eq(r.p.through, played ? r.size : 0);
		last = r.p.over = now_ns() > end;
		r.p.waiting = r.p.through = 0;
		r.p.generation++;
		if (played % 3) {
			call(&r.p, true);
			if (played % 3 == 2)
				sleep_us(50);
			leave(&r.p);
		} else {
			leave(&r.p);
			call(&r.p, true);
		}
	}
	team_join(t);
	ck_assert_int_eq(r.p.through, r.size);
	ck_assert_int_eq(pthread_cond_destroy(&r.all_in), 0);
	place_unmake(&r.p);
	say("cond-broadcast: %s: %d broadcasts to %d", rows[_i].name, played, r.size);
}
END_TEST

/* ---- as many signals, as many waiters ---- */

enum { SIGNALLED = 32, QUIET_US = 2000 };

static void one_by_one_body(int index, void *arg)
{
	struct place *p = arg;
	(void)index;

	enter(p);
	await_call(p);
	leave(p);
}

START_TEST(as_many_as_signals)
{
	static const int portions[] = {1, 2, 5, 24};
	struct place p;
	struct team *t;
	int all = 0;

	if (!place_make(&p, &rows[_i], CLOCK_REALTIME))
		return;
	t = team_start(SIGNALLED, one_by_one_body, &p);
	enter_when(&p, &p.waiting, SIGNALLED, "wait");
	/* The last one has let the mutex go and does not sleep yet: of a process-shared one it may return for nothing. */
	leave(&p);
	sleep_us(10 * QUIET_US);
	enter(&p);
	for (size_t i = 0; i < sizeof portions / sizeof portions[0]; i++) {
		p.generation++;
		for (int n = 0; n < portions[i]; n++)
			call(&p, false);
		all += portions[i];
		sleep_us(300);
		leave(&p);
		enter_when(&p, &p.through, all, "came through");
		leave(&p);
		sleep_us(QUIET_US);
		enter(&p);
		ck_assert_int_eq(p.through, all);
	}
	leave(&p);
	ck_assert_int_eq(all, SIGNALLED);
	team_join(t);
	place_unmake(&p);
}
END_TEST

/* ---- deadlines that pass between the signal and the mutex ---- */

enum { TIMED = 24, SIGNALS = 8, AHEAD_MS = 40, MARGIN_NS = 2000000, ATTEMPTS = 25 };

struct appointment {
	struct place p;
	uint64_t when_ns;
	int in_time, late;
};

static void appointment_body(int index, void *arg)
{
	struct appointment *a = arg;
	clockid_t clock = index & 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	struct timespec t;
	int rc;

	enter(&a->p);
	a->p.waiting++;
	t = deadline(clock, a->when_ns - now_ns());
	a->p.holder = 0;
	if (index & 1)
		rc = pthread_cond_clockwait(&a->p.cond, &a->p.m, clock, &t);
	else
		rc = pthread_cond_timedwait(&a->p.cond, &a->p.m, &t);
	came_in(&a->p);
	if (rc == ETIMEDOUT)
		a->late++;
	else if (WANT(rc, 0))
		a->in_time++;
	leave(&a->p);
}

/* False if the machine was too slow for it. */
static bool keep_appointment(struct appointment *a, bool all)
{
	uint64_t hopeless = now_ns() + PATIENCE_S * UINT64_C(1000000000);
	struct team *t = team_start(TIMED, appointment_body, a);
	bool kept;

	enter(&a->p);
	while (a->p.waiting < TIMED && now_ns() < hopeless) {
		leave(&a->p);
		sleep_us(200);
		enter(&a->p);
	}
	sleep_us(1000);
	for (int n = all ? 1 : SIGNALS; n > 0; n--)
		call(&a->p, all);
	kept = now_ns() + MARGIN_NS < a->when_ns;
	while (now_ns() < a->when_ns + MARGIN_NS)
		sleep_us(1000);
	leave(&a->p);
	team_join(t);
	return kept;
}

START_TEST(signal_before_the_deadline)
{
	for (int all = 0; all < 2; all++) {
		for (int attempt = 0;; attempt++) {
			struct appointment a;

			if (!place_make(&a.p, &rows[_i], CLOCK_MONOTONIC))
				return;
			a.in_time = a.late = 0;
			a.when_ns = now_ns() + (attempt + 1) * AHEAD_MS * 1000000;
			if (keep_appointment(&a, all)) {
				int wanted = all ? TIMED : SIGNALS;

				if (a.p.row->shared == PTHREAD_PROCESS_PRIVATE)
					ck_assert_int_eq(a.in_time, wanted);
				ck_assert_int_ge(a.in_time, wanted); /* it may wake more */
				place_unmake(&a.p);
				break;
			}
			place_unmake(&a.p);
			if (attempt == ATTEMPTS) {
				say("SKIP: the machine is too slow for a deadline");
				return;
			}
		}
	}
}
END_TEST

/* ---- waiters and plain lockers ---- */

enum { WAITERS = 8, LOCKERS = 4, ALL = WAITERS + LOCKERS, MIXED_MS = 60, ENOUGH = 10 };

struct mixed {
	struct place p;
	struct {
		atomic_ulong turns;
	} __attribute__((aligned(64))) of[ALL];
};

static void mixed_body(int index, void *arg)
{
	struct mixed *x = arg;
	uint32_t luck = 77 * (index + 1);

	for (bool over = false; !over && !complained();) {
		enter(&x->p);
		if (index < WAITERS && !x->p.over)
			await_call(&x->p);
		over = x->p.over;
		if (dice(&luck) % 256 == 0)
			sched_yield();
		atomic_fetch_add_explicit(&x->of[index].turns, 1, memory_order_relaxed);
		leave(&x->p);
		if (luck >> 8 & 1)
			spin_ns(luck >> 9 & 2047);
	}
}

/* Everybody has had so many turns more than at the start. */
static bool all_advanced(struct mixed *x, const unsigned long *start)
{
	for (int i = 0; i < ALL; i++)
		if (atomic_load(&x->of[i].turns) < start[i] + ENOUGH)
			return false;
	return true;
}

START_TEST(with_plain_lockers)
{
	static struct mixed x;
	uint64_t hopeless = now_ns() + PATIENCE_S * UINT64_C(1000000000);
	uint32_t luck = 5;
	struct team *t;

	if (!place_make(&x.p, &rows[_i], CLOCK_REALTIME))
		return;
	x.p.belated = true;
	t = team_start(ALL, mixed_body, &x);
	for (int half = 0; half < 2; half++) { /* also after a while */
		uint64_t end = now_ns() + suite_scale(MIXED_MS / 2) * 1000000;
		unsigned long start[ALL];

		for (int i = 0; i < ALL; i++)
			start[i] = atomic_load(&x.of[i].turns);
		while (now_ns() < end || !all_advanced(&x, start)) {
			bool held = dice(&luck) & 1;

			assert_no_complaint();
			ck_assert_msg(now_ns() < hopeless, "%s: somebody is starved", rows[_i].name);
			enter(&x.p);
			x.p.generation++;
			if (held)
				call(&x.p, true);
			if (luck >> 1 & 1)
				spin_ns(luck >> 8 & 16383);
			leave(&x.p);
			if (!held)
				call(&x.p, true);
			sleep_us(luck >> 24);
		}
	}
	enter(&x.p);
	x.p.over = true;
	x.p.generation++;
	call(&x.p, true);
	leave(&x.p);
	team_join(t);
	place_unmake(&x.p);
}
END_TEST

/* ---- the first sits in a signal handler ---- */

static sem_t sits, may_go;

static void on_sit(int signal)
{
	int saved = errno;

	(void)signal;
	sem_post(&sits);
	while (sem_wait(&may_go))
		;
	errno = saved;
}

struct pair {
	struct place p;
	atomic_bool out[2];
};

static void pair_body(int index, void *arg)
{
	struct pair *x = arg;

	enter(&x->p);
	await_call(&x->p);
	leave(&x->p);
	atomic_store(&x->out[index], true);
}

/* Two waiters are called by the mutex's holder.  One of them sits in a handler until the other one has come out: for
 * each of the two, as nobody knows which is the first. */
START_TEST(past_a_handler)
{
	struct sigaction action = {.sa_handler = on_sit, .sa_flags = SA_RESTART};
	static struct pair x;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	ck_assert_int_eq(sem_init(&sits, 0, 0), 0);
	ck_assert_int_eq(sem_init(&may_go, 0, 0), 0);
	for (int who = 0; who < 2; who++) {
		uint64_t hopeless = now_ns() + UINT64_C(1000000000) * PATIENCE_S / 4;
		struct timespec soon = deadline(CLOCK_REALTIME, 1000000);
		int64_t moved;
		struct team *t;

		memset(&x, 0, sizeof x);
		ck_assert(place_make(&x.p, &rows[_i], CLOCK_REALTIME));
		/* The counters count what threads do that have waited. */
		MUST(pthread_mutex_lock(&x.p.m));
		ck_assert_int_eq(pthread_cond_timedwait(&x.p.cond, &x.p.m, &soon), ETIMEDOUT);
		MUST(pthread_mutex_unlock(&x.p.m));
		moved = suite_counter("morphed");
		t = team_start(2, pair_body, &x);
		enter_when(&x.p, &x.p.waiting, 2, "wait");
		leave(&x.p);
		ck_assert_int_eq(pthread_kill(team_thread(t, who), SIGUSR1), 0);
		ck_assert_int_eq(sem_wait(&sits), 0);
		enter(&x.p);
		x.p.generation++;
		call(&x.p, true);
		leave(&x.p);
		moved = suite_counter("morphed") - moved;
		while (!atomic_load(&x.out[!who]) && now_ns() < hopeless)
			sleep_us(100);
		/* Policies without a list have each moved by the one before it. */
		if (!suite_served() || moved == 2)
			ck_assert_msg(atomic_load(&x.out[!who]), "%s: the other waiter waits for the one in a handler",
				      rows[_i].name);
		sem_post(&may_go);
		team_join(t);
		place_unmake(&x.p);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-broadcast");

	SUITE_CASE_OF(s, crowd_stays_asleep, 120, ROWS);
	SUITE_CASE_OF(s, generations, 120, ROWS);
	SUITE_CASE_OF(s, as_many_as_signals, 120, ROWS);
	SUITE_CASE_OF(s, signal_before_the_deadline, 120, ROWS);
	SUITE_CASE_OF(s, with_plain_lockers, 120, ROWS);
	SUITE_CASE_OF(s, past_a_handler, 60, KINDS);
	return suite_run(s);
}
