/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-lifetime: the end of a condition variable, and what short lives leave behind.
 *
 * A cond is destroyed straight after the call that wakes its waiters, or by the last of them; its memory becomes 0xff
 * or nobody's.  Signals and single steps hold threads up at any instruction.
 *
 * It would catch: a touch of the object after destroy, by a call that is on its way out, by a waiter that was woken or
 * whose deadline passes; a destroy that does not return; waits that cost memory for ever, on many conds, in short
 * threads or in those that end.
 */

#include "hall.h"
#include "steps.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the end of the object ---- */

/*
 * Rounds follow each other without a gate (but where there are deadlines): each has a page with a cond, or a cond and
 * its mutex, and its own number of waiters; who has no part in it goes on to the next.  The page becomes 0xff, which
 * has to stay, or nobody's.
 */
enum { PAGE = 4096, CREW = 8, ROUNDS = 2000 };

struct site {
	pthread_cond_t c;
	pthread_mutex_t m; /* where the last of the waiters tears down everything */
	bool go;
	int refs;
};

static struct {
	pthread_mutex_t m;
	int type;
	bool inside; /* the mutex is the site's own */
	int64_t ahead;
	char *ground;
	atomic_int rounds;
	struct timespec then[ROUNDS];
	bool go[ROUNDS];
	atomic_int waiting[ROUNDS];
	atomic_int woken, late, gone;
} yard;

static struct site *site_at(int round)
{
	return (struct site *)(yard.ground + (size_t)round * PAGE);
}

/* 1 to CREW, all of them by turns: whole crews fill a multiple of CREW rounds. */
static int crew_of(int round)
{
	return 1 + round % CREW;
}

static void tear_down(struct site *s, int round)
{
	CALL(pthread_cond_destroy(&s->c), 0);
	if (yard.inside)
		MUST(pthread_mutex_destroy(&s->m));
	if (round / CREW % 2)
		memset(s, 0xff, PAGE);
	else if (mprotect(s, PAGE, PROT_NONE))
		complain("mprotect: %s", strerror(errno));
	atomic_fetch_add(&yard.gone, 1);
}

/* The mutex is not the site's: nothing of the site is touched after the wait. */
static void work_outside(struct site *s, int round)
{
	int rc = 0;

	MUST(pthread_mutex_lock(&yard.m));
	if (!yard.then[round].tv_sec)
		yard.then[round] = deadline(CLOCK_MONOTONIC, yard.ahead);
	atomic_fetch_add(&yard.waiting[round], 1);
	while (!yard.go[round] && !rc && !complained()) {
		errno = ERRNO_MARK;
		rc = yard.ahead ? pthread_cond_clockwait(&s->c, &yard.m, CLOCK_MONOTONIC, &yard.then[round])
				: wait_by(round % WAYS, &s->c, &yard.m);
		want_errno("wait", __LINE__);
		HELD(&yard.m);
	}
	atomic_fetch_add(rc ? &yard.late : &yard.woken, 1);
	if (rc != ETIMEDOUT || !yard.ahead)
		WANT(rc, 0);
	MUST(pthread_mutex_unlock(&yard.m));
}

/* The last one out frees everything; in some rounds each one lets out the next. */
static void work_inside(struct site *s, int round)
{
	bool last;

	MUST(pthread_mutex_lock(&s->m));
	atomic_fetch_add(&yard.waiting[round], 1);
	while (!s->go && !complained())
		CALL(wait_by(round % WAYS, &s->c, &s->m), 0);
	HELD(&s->m);
	atomic_fetch_add(&yard.woken, 1);
	last = --s->refs == 0;
	if (!last && round % 3 == 0)
		CALL(pthread_cond_signal(&s->c), 0);
	MUST(pthread_mutex_unlock(&s->m));
	if (last)
		tear_down(s, round);
}

static void crew(int index, void *arg)
{
	(void)arg;
	for (int round = 0; round < atomic_load(&yard.rounds) && !complained(); round++) {
		while (yard.ahead && atomic_load(&yard.gone) < round && !complained())
			sleep_us(20); /* deadlines must not run ahead */
		if (index < crew_of(round) && round < atomic_load(&yard.rounds))
			(yard.inside ? work_inside : work_outside)(site_at(round), round);
	}
}

/* Holds a thread up, wherever it is. */
static void on_hold_up(int signal)
{
	int saved = errno;

	(void)signal;
	sched_yield();
	spin_ns(3000);
	errno = saved;
}

static void yard_make(int type, bool inside, int64_t ahead)
{
	struct sigaction action = {.sa_handler = on_hold_up, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
	yard.type = type;
	yard.inside = inside;
	yard.ahead = ahead;
	mutex_make(&yard.m, type);
	yard.ground = mmap(NULL, (size_t)ROUNDS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(yard.ground, MAP_FAILED);
	atomic_store(&yard.rounds, ROUNDS);
	for (int round = 0; round < ROUNDS; round++) {
		struct site *s = site_at(round);

		if (round / CREW % 3 == 0)
			cond_make(&s->c, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME); /* else zero memory */
		if (inside)
			mutex_make(&s->m, type);
		s->refs = crew_of(round);
	}
}

/* All of the round's waiters have come; now and then one of them is held up. */
static void yard_await(int round, struct team *t, uint32_t *luck)
{
	SOON(atomic_load(&yard.waiting[round]) == crew_of(round));
	if (dice(luck) % 4 == 0)
		pthread_kill(team_thread(t, *luck / 4 % crew_of(round)), SIGUSR1);
}

static void yard_end(struct team *t)
{
	int rounds = atomic_load(&yard.rounds);

	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&yard.gone), rounds);
	for (int round = 0; round < rounds; round++)
		if (round / CREW % 2)
			want_untouched(site_at(round), PAGE);
	assert_no_complaint();
	say("cond-lifetime: %d conds are gone, %d threads were woken, %d too late", rounds, atomic_load(&yard.woken),
	    atomic_load(&yard.late));
}

/* The end comes in whole crews. */
static bool yard_goes_on(int round, uint64_t end)
{
	if (round % CREW == 0 && round < atomic_load(&yard.rounds) - CREW && round > CREW && now_ns() > end)
		atomic_store(&yard.rounds, round + CREW);
	return round < atomic_load(&yard.rounds);
}

static void destroy_after_call(int type, int64_t ahead)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	uint32_t luck = 31337 + type;
	struct team *t;

	yard_make(type, false, ahead);
	t = team_start(CREW, crew, NULL);
	for (int round = 0; yard_goes_on(round, end); round++) {
		struct site *s = site_at(round);
		int unlock_at = dice(&luck) % 3;
		uint64_t then;

		yard_await(round, t, &luck);
		then = (uint64_t)yard.then[round].tv_sec * 1000000000 + yard.then[round].tv_nsec;
		while (ahead && now_ns() + luck / 16 % 60000 < then + 30000)
			;
		MUST(pthread_mutex_lock(&yard.m));
		yard.go[round] = true;
		if (unlock_at == 0)
			MUST(pthread_mutex_unlock(&yard.m));
		if (crew_of(round) == 1 && luck & 8)
			CALL(pthread_cond_signal(&s->c), 0);
		else
			CALL(pthread_cond_broadcast(&s->c), 0);
		if (unlock_at == 1)
			MUST(pthread_mutex_unlock(&yard.m));
		tear_down(s, round);
		if (unlock_at == 2)
			MUST(pthread_mutex_unlock(&yard.m));
	}
	yard_end(t);
}

START_TEST(destroyed_after_the_call)
{
	destroy_after_call(kinds[_i].type, 0);
}
END_TEST

/* The deadline of all of them passes at the moment of the call. */
START_TEST(destroyed_at_the_deadline)
{
	destroy_after_call(kinds[_i].type, 200000);
}
END_TEST

static void let_woken_destroy(int type, bool held)
{
	uint64_t end = now_ns() + suite_scale(RACE_MS) * 1000000;
	uint32_t luck = 31337 + type;
	struct team *t;

	yard_make(type, true, 0);
	t = team_start(CREW, crew, NULL);
	for (int round = 0; yard_goes_on(round, end); round++) {
		struct site *s = site_at(round);

		yard_await(round, t, &luck);
		MUST(pthread_mutex_lock(&s->m));
		s->go = true;
		if (!held)
			MUST(pthread_mutex_unlock(&s->m));
		/* From here on it may vanish. */
		if (round % 3 == 0)
			CALL(pthread_cond_signal(&s->c), 0);
		else
			CALL(pthread_cond_broadcast(&s->c), 0);
		if (held)
			MUST(pthread_mutex_unlock(&s->m));
	}
	yard_end(t);
}

START_TEST(woken_destroy)
{
	let_woken_destroy(kinds[_i].type, true);
}
END_TEST

/* POSIX has no such thing, as a wait might return too early; glibc's signal looks at the cond once more. */
START_TEST(woken_destroy_under_the_signal)
{
	if (suite_served())
		let_woken_destroy(kinds[_i].type, false);
}
END_TEST

/*
 * One call, instruction by instruction: each has to wait for the woken one to tear everything down, if it can by then.
 */
#ifdef __x86_64__
static struct {
	atomic_uint steps, steps_after;
	atomic_uint from; /* from this step on the thread is held up, for a while */
} stepped;

static void on_step(int signal)
{
	int saved = errno;

	(void)signal;
	stepped.steps++;
	for (int i = 0; i < (atomic_load(&yard.woken) ? 100 : 1) && !atomic_load(&yard.gone); i++)
		sleep_us(10);
	if (atomic_load(&yard.gone))
		stepped.steps_after++;
	errno = saved;
}

static void one_of_crew(int index, void *round)
{
	(void)index;
	work_inside(site_at(*(int *)round), *(int *)round);
}

static void step_through_call(int type, int round, bool held)
{
	struct site *s;
	struct team *t;
	int (*call)(pthread_cond_t *) = round % 3 ? pthread_cond_broadcast : pthread_cond_signal;

	memset(&stepped, 0, sizeof stepped);
	memset(&yard, 0, sizeof yard);
	yard_make(type, true, 0);
	s = site_at(round);
	t = team_start(crew_of(round), one_of_crew, &round);
	SOON(atomic_load(&yard.waiting[round]) == crew_of(round));
	MUST(pthread_mutex_lock(&s->m)); /* once for the dynamic linker */
	MUST(pthread_mutex_unlock(&s->m));
	MUST(pthread_mutex_lock(&s->m));
	s->go = true;
	if (!held)
		MUST(pthread_mutex_unlock(&s->m));
	STEPPED(call(&s->c); if (held) pthread_mutex_unlock(&s->m));
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&yard.gone), 1);
	ck_assert_uint_gt(stepped.steps, stepped.steps_after);
	munmap(yard.ground, (size_t)ROUNDS * PAGE);
}

START_TEST(held_up_at_each_instruction)
{
	struct sigaction action = {.sa_handler = on_step};

	/* One waiter and two, signal and broadcast; no access and 0xff. */
	static const int rounds[KINDS] = {0, 1, CREW, CREW + 1};

	sigaction(SIGTRAP, &action, NULL);
	step_through_call(kinds[_i].type, rounds[_i], true);
	step_through_call(kinds[_i].type, rounds[_i ^ 1], true);
	for (int tries = 0; suite_served() && tries < 20; tries++) {
		step_through_call(kinds[_i].type, rounds[_i], false);
		if (stepped.steps_after)
			return;
	}
	ck_assert_msg(!suite_served(), "nobody was woken before the call had ended");
}
END_TEST

static void on_late_step(int signal)
{
	int saved = errno;

	(void)signal;
	if (atomic_fetch_add(&stepped.steps, 1) - atomic_load(&stepped.from) < 50 && !atomic_load(&yard.gone))
		sleep_us(30);
	errno = saved;
}

static void be_late_in_steps(int index, void *arg)
{
	struct site *s = arg;
	struct timespec then;
	int rc = 0;

	(void)index;
	MUST(pthread_mutex_lock(&yard.m));
	then = deadline(CLOCK_MONOTONIC, 100000);
	STEPPED(rc = pthread_cond_clockwait(&s->c, &yard.m, CLOCK_MONOTONIC, &then));
	if (rc)
		WANT(rc, ETIMEDOUT);
	MUST(pthread_mutex_unlock(&yard.m));
	atomic_store(&yard.late, 1);
}

/* A waiter whose deadline has passed, on its way out, held up at any place of it, and one that tears everything down.
 */
START_TEST(late_at_each_instruction)
{
	struct sigaction action = {.sa_handler = on_late_step};
	uint32_t luck = (uint32_t)now_ns() | 1; /* each run of the suite sees other places */
	unsigned all = 0;

	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < 12; i++) {
		int round = i % 2 * CREW; /* what becomes of the page */
		unsigned from = i ? all / 3 + dice(&luck) % (all - all / 3) : UINT_MAX / 2;
		struct team *t;

		memset(&yard, 0, sizeof yard);
		yard_make(kinds[i % KINDS].type, false, 0);
		atomic_store(&stepped.steps, 0);
		atomic_store(&stepped.from, from);
		t = team_start(1, be_late_in_steps, site_at(round));
		SOON(atomic_load(&stepped.steps) >= from || atomic_load(&yard.late));
		MUST(pthread_mutex_lock(&yard.m));
		CALL(pthread_cond_broadcast(&site_at(round)->c), 0);
		tear_down(site_at(round), round);
		MUST(pthread_mutex_unlock(&yard.m));
		team_join(t);
		if (round)
			want_untouched(site_at(round), PAGE);
		munmap(yard.ground, (size_t)ROUNDS * PAGE);
		stop_if_complained();
		if (i == 0)
			all = atomic_load(&stepped.steps);
	}
}
END_TEST
#else
START_TEST(late_at_each_instruction)
{
}
END_TEST

START_TEST(held_up_at_each_instruction)
{
	if (_i == 0)
		say("SKIP: this machine has no trap flag; no single steps");
}
END_TEST
#endif

/* ---- memory, and short lives ---- */

static void want_no_growth(struct memory then, const char *what)
{
	struct memory now = memory_now();

	if (now.touched - then.touched > 128 || now.mapped - then.mapped > 1024)
		complain("%s cost %ld KiB of memory, and %ld of address space", what, now.touched - then.touched,
			 now.mapped - then.mapped);
}

enum { LONELY = 1500, CONDS = 500 };

/* Nobody ever signals: deadlines alone must not leave anything behind. */
START_TEST(lonely_deadlines)
{
	static struct {
		pthread_cond_t one, many[CONDS];
	} conds;
	pthread_mutex_t m;
	struct memory then = {0};

	memset(&conds, 1, sizeof conds); /* touched */
	memset(&conds, 0, sizeof conds);
	mutex_make(&m, kinds[_i].type);
	MUST(pthread_mutex_lock(&m));
	for (int i = 0; i < LONELY + CONDS; i++) {
		struct timespec soon = deadline(CLOCK_MONOTONIC, 1000);

		if (i == 100)
			then = memory_now();
		CALL(pthread_cond_clockwait(i < LONELY ? &conds.one : &conds.many[i % CONDS], &m, CLOCK_MONOTONIC,
					    &soon),
		     ETIMEDOUT);
	}
	want_no_growth(then, "waiting in vain");
	MUST(pthread_mutex_unlock(&m));
	MUST(pthread_mutex_destroy(&m));
	CALL(pthread_cond_destroy(&conds.one), 0);
	for (int i = 0; i < CONDS; i++)
		CALL(pthread_cond_destroy(&conds.many[i]), 0);
	assert_no_complaint();
}
END_TEST

/* Threads that wait once, and end. */
START_TEST(short_threads)
{
	struct hall h = {.way = WAIT};
	struct memory then = {0};

	for (int i = 0; i < 200; i++) {
		struct team *t;

		h.way = i % WAYS;
		t = team_start(1, hall_guest, &h);
		hall_gather(&h, 1);
		hall_call(&h, i % HOWS, 1);
		team_join(t);
		if (i == 50)
			then = memory_now();
	}
	want_no_growth(then, "threads that wait once");
	CALL(pthread_cond_destroy(&h.c), 0);
	assert_no_complaint();
}
END_TEST

static void wait_at_the_end(void *hall)
{
	struct hall *h = hall;
	struct timespec soon;

	hall_come_in(h);
	soon = deadline(CLOCK_MONOTONIC, 200000);
	while (!complained()) { /* a thread that ends may wake up for nothing */
		int rc = pthread_cond_clockwait(&h->c, &h->m, CLOCK_MONOTONIC, &soon);

		HELD(&h->m);
		if (rc == ETIMEDOUT)
			break;
		WANT(rc, 0);
	}
	atomic_fetch_add(&h->late, 1);
	hall_wait(h);
}

struct ending {
	struct hall h;
	pthread_key_t key;
};

static void end_waiting(int index, void *arg)
{
	struct ending *e = arg;
	struct timespec soon = deadline(CLOCK_MONOTONIC, 1000);

	if (index % 2) {
		MUST(pthread_mutex_lock(&e->h.m));
		CALL(pthread_cond_clockwait(&e->h.c, &e->h.m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
		MUST(pthread_mutex_unlock(&e->h.m));
	}
	pthread_setspecific(e->key, &e->h);
}

/* The destructor of a key waits: in vain, and then for a ticket. */
START_TEST(waits_of_a_destructor)
{
	struct ending e = {.h.way = WAIT};

	mutex_make(&e.h.m, kinds[_i].type);
	ck_assert_int_eq(pthread_key_create(&e.key, wait_at_the_end), 0);
	for (int round = 0; round < 4; round++) {
		struct team *t = team_start(4, end_waiting, &e);

		SOON(atomic_load(&e.h.late) == 4 * round + 4);
		hall_gather(&e.h, 4);
		hall_call(&e.h, SIGNAL_HELD + round % 2, 1);
		SOON(atomic_load(&e.h.out) == 4 * round + 1);
		hall_gather(&e.h, 3);
		hall_call(&e.h, BROADCAST_HELD + round % 2, 3);
		team_join(t);
	}
	CALL(pthread_cond_destroy(&e.h.c), 0);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-lifetime");

	SUITE_CASE_OF(s, destroyed_after_the_call, 60, KINDS);
	SUITE_CASE_OF(s, destroyed_at_the_deadline, 60, KINDS);
	SUITE_CASE_OF(s, woken_destroy, 60, KINDS);
	SUITE_CASE_OF(s, woken_destroy_under_the_signal, 60, KINDS);
	SUITE_CASE_OF(s, held_up_at_each_instruction, 60, KINDS);
	SUITE_CASE(s, late_at_each_instruction, 60);
	SUITE_CASE_OF(s, lonely_deadlines, 60, KINDS);
	SUITE_CASE(s, short_threads, 60);
	SUITE_CASE_OF(s, waits_of_a_destructor, 60, KINDS);
	return suite_run(s);
}
