/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite wakeup: whoever waits is woken, however the others around it come and go.
 *
 * A lost wake-up is a hang, which the case's time limit turns into a failure.  Each case aims at one way to lose
 * one: a release that sees no sleeper, a sleeper that takes the word as if nobody else slept, headship that dies
 * with a waiter that gave up, a wake-up eaten by a signal, one that arrives together with the deadline.
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_ENOUGH_NS = 20000000 }; /* a waiter of that age has stopped spinning */

/* Rounds end early where they are slow (huge spin budgets on few CPUs); the first thread tells the others. */
enum { SCENE_MS = 250 };

static uint64_t scene_end(void)
{
	return now_ns() + suite_scale(SCENE_MS) * 1000000;
}

/*
 * Ping-pong by mutexes alone: each thread waits on its own baton until the other one unlocks it.  Every hand-over
 * counts, there is nobody else to make good for a lost one.
 */
struct batons {
	pthread_mutex_t baton[2];
	int rounds, passed;
	uint64_t end_ns;
	unsigned pause_us;
	volatile int turn;
	bool over;
};

static void baton_body(int index, void *arg)
{
	struct batons *b = arg;

	for (;;) {
		MUST(pthread_mutex_lock(&b->baton[index]));
		if (index == 0)
			b->over = ++b->passed > b->rounds || now_ns() > b->end_ns || complained();
		if (b->turn != index)
			complain("thread %d had its baton out of turn", index);
		if (b->pause_us)
			sleep_us(b->pause_us);
		b->turn = !index;
		if (b->over) { /* the second thread learns of it with its last baton */
			MUST(pthread_mutex_unlock(&b->baton[!index]));
			return;
		}
		MUST(pthread_mutex_unlock(&b->baton[!index]));
	}
}

static void ping_pong(int type, int rounds, unsigned pause_us)
{
	struct batons b = {.rounds = suite_scale(rounds), .pause_us = pause_us, .end_ns = scene_end()};

	for (int i = 0; i < 2; i++)
		mutex_make(&b.baton[i], type);
	ck_assert_int_eq(pthread_mutex_lock(&b.baton[1]), 0);
	team_run(2, baton_body, &b);
	assert_no_complaint();
	ck_assert_int_eq(pthread_mutex_trylock(&b.baton[0]), 0);
}

/* Only these kinds let another thread unlock. */
static const int baton_types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP};

START_TEST(ping_pong_fast)
{
	ping_pong(baton_types[_i], 10000, 0);
}
END_TEST

START_TEST(ping_pong_asleep)
{
	ping_pong(baton_types[_i], 300, 100);
	ping_pong(baton_types[_i], 5, LONG_ENOUGH_NS / 1000);
}
END_TEST

/*
 * Convoys: a holder waits until all the others stand behind it, then lets go once.  All must get through, by
 * their own hand-overs alone.
 */
struct convoy {
	pthread_mutex_t m;
	int size, rounds;
	uint64_t end_ns;
	bool ends;  /* after this round: written by the first thread between two gates */
	bool timed; /* every second waiter has a deadline, every fourth a hopeless one */
	pthread_barrier_t gate;
	atomic_int arriving, through, over;
	uint64_t slowest_ns;
};

static void convoy_lead(struct convoy *c, int round)
{
	uint64_t start, took;

	while (atomic_load(&c->arriving) < c->size - 1)
		sleep_us(50);
	sleep_us(round % 16 == 15 ? LONG_ENOUGH_NS / 1000 : 300 * (round % 4)); /* all parked, or just in the queue */
	start = now_ns();
	MUST(pthread_mutex_unlock(&c->m));
	while (atomic_load(&c->through) < c->size - 1)
		sleep_us(20);
	took = now_ns() - start;
	if (took > c->slowest_ns)
		c->slowest_ns = took;
	atomic_store(&c->arriving, 0);
	atomic_store(&c->through, 0);
	c->ends = now_ns() > c->end_ns;
}

static void convoy_follow(struct convoy *c, int index, uint32_t luck)
{
	bool hopeless = c->timed && index % 4 == 1;
	int rc;

	atomic_fetch_add(&c->arriving, 1);
	if (c->timed && index % 2) {
		struct timespec t = deadline(CLOCK_MONOTONIC, hopeless ? luck % 1500000 : (int64_t)60000000000);
		rc = pthread_mutex_clocklock(&c->m, CLOCK_MONOTONIC, &t);
	} else {
		rc = pthread_mutex_lock(&c->m);
	}
	if (!(hopeless && rc == ETIMEDOUT) && WANT(rc, 0))
		MUST(pthread_mutex_unlock(&c->m));
	atomic_fetch_add(&c->through, 1);
}

static void convoy_body(int index, void *arg)
{
	struct convoy *c = arg;
	uint32_t luck = 1234567u * (index + 1);

	for (int round = 0; round < c->rounds && !c->ends; round++) {
		if (index == 0)
			MUST(pthread_mutex_lock(&c->m));
		pthread_barrier_wait(&c->gate);
		if (index == 0)
			convoy_lead(c, round);
		else
			convoy_follow(c, index, dice(&luck));
		pthread_barrier_wait(&c->gate);
	}
	atomic_store(&c->over, 1);
}

static atomic_ulong signals_seen;

static void on_signal(int signal)
{
	(void)signal;
	errno = 0; /* a handler may; the call that it interrupted must not care */
	atomic_fetch_add_explicit(&signals_seen, 1, memory_order_relaxed);
}

/* Signals rain on a team until it says that it is over. */
static void rain(struct team *t, int size, int flags, const atomic_int *over)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	uint32_t luck = 42;

	sigaction(SIGUSR1, &action, NULL);
	do {
		for (int i = 0; i < size; i++)
			if (dice(&luck) % 4)
				pthread_kill(team_thread(t, i), SIGUSR1);
		sleep_us(dice(&luck) % 200);
	} while (!atomic_load(over));
}

static void convoy(int type, int size, int rounds, bool timed, int signal_flags)
{
	struct convoy c = {.size = size, .rounds = suite_scale(rounds), .timed = timed, .end_ns = scene_end()};
	struct team *t;

	mutex_make(&c.m, type);
	pthread_barrier_init(&c.gate, NULL, size);
	t = team_start(size, convoy_body, &c);
	if (signal_flags >= 0)
		rain(t, size, signal_flags, &c.over);
	team_join(t);
	assert_no_complaint();
	ck_assert_msg(c.slowest_ns < 10000000000, "a convoy of %d took %.1f s", size, c.slowest_ns / 1e9);
	ck_assert_int_eq(pthread_mutex_destroy(&c.m), 0);
	pthread_barrier_destroy(&c.gate);
}

START_TEST(convoy_parked)
{
	convoy(kinds[_i].type, 2, 24, false, -1);
	convoy(kinds[_i].type, 3, 24, false, -1);
	convoy(kinds[_i].type, 40, 16, false, -1);
}
END_TEST

START_TEST(convoy_timed)
{
	convoy(kinds[_i].type, 3, 32, true, -1);
	convoy(kinds[_i].type, 40, 16, true, -1);
}
END_TEST

START_TEST(convoy_under_signals)
{
	static const int flags[] = {0, SA_RESTART};

	/* A shortened one may be over before the first signal. */
	for (int tries = 0; tries < 20 && !atomic_load(&signals_seen); tries++)
		convoy(kinds[_i / 2].type, 12, 24, true, flags[_i % 2]);
	ck_assert_uint_gt(atomic_load(&signals_seen), 0);
}
END_TEST

/* Signals on threads that come and go all the time: every stage of waiting is interrupted. */
struct busy {
	pthread_mutex_t m;
	volatile unsigned long count;
	uint64_t end_ns;
	atomic_ulong sections;
	atomic_int done, over;
	int size;
};

static void busy_body(int index, void *arg)
{
	struct busy *b = arg;
	uint32_t luck = 31 * (index + 1);
	unsigned long sections = 0;

	do {
		struct timespec t = deadline(CLOCK_REALTIME, dice(&luck) % 300000);
		bool timed = luck >> 20 & 1;
		int rc = timed ? pthread_mutex_timedlock(&b->m, &t) : pthread_mutex_lock(&b->m);

		if (timed && rc == ETIMEDOUT)
			continue;
		if (!WANT(rc, 0))
			break;
		b->count++;
		if (luck % 16 == 0)
			spin_ns(luck / 16 % 50000);
		MUST(pthread_mutex_unlock(&b->m));
		sections++;
		/* A short run would be over before the first signal. */
	} while ((now_ns() < b->end_ns || !atomic_load(&signals_seen)) && !complained());
	atomic_fetch_add(&b->sections, sections);
	if (atomic_fetch_add(&b->done, 1) + 1 == b->size)
		atomic_store(&b->over, 1);
}

START_TEST(busy_under_signals)
{
	static const int flags[] = {0, SA_RESTART};
	struct busy b = {.size = 8, .end_ns = now_ns() + suite_scale(300) * 1000000};
	struct team *t;

	mutex_make(&b.m, kinds[_i / 2].type);
	t = team_start(b.size, busy_body, &b);
	rain(t, b.size, flags[_i % 2], &b.over);
	team_join(t);
	assert_no_complaint();
	ck_assert_uint_eq(b.count, atomic_load(&b.sections));
	ck_assert_uint_gt(atomic_load(&signals_seen), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&b.m), 0);
}
END_TEST

/*
 * Bursts: two or three threads meet, each passes through the mutex once, and nobody comes after them who could
 * wake by chance whom they forgot.
 */
struct burst {
	pthread_mutex_t m;
	pthread_barrier_t gate;
	int rounds;
	uint64_t end_ns;
	bool over; /* written by the first thread between two gates */
	unsigned long passed;
	volatile unsigned long count;
};

static void burst_body(int index, void *arg)
{
	struct burst *b = arg;
	uint32_t luck = 555 * (index + 1);

	for (int round = 0;; round++) {
		pthread_barrier_wait(&b->gate);
		if (index == 0)
			b->over = round == b->rounds || (round > 0 && now_ns() > b->end_ns);
		pthread_barrier_wait(&b->gate);
		if (b->over)
			break;
		if (index == 0)
			b->passed++;
		spin_ns(dice(&luck) % 2000);
		MUST(pthread_mutex_lock(&b->m));
		b->count++;
		if (luck % 64 == 0)
			sleep_us(luck / 64 % 300);
		else if (luck % 2)
			spin_ns(luck / 64 % 5000);
		MUST(pthread_mutex_unlock(&b->m));
	}
}

START_TEST(bursts)
{
	for (int size = 2; size <= 5; size++) {
		struct burst b = {.rounds = suite_scale(1000), .end_ns = scene_end()};

		mutex_make(&b.m, kinds[_i].type);
		pthread_barrier_init(&b.gate, NULL, size);
		team_run(size, burst_body, &b);
		assert_no_complaint();
		ck_assert_uint_eq(b.count, size * b.passed);
		ck_assert_uint_gt(b.passed, 0);
		ck_assert_int_eq(pthread_mutex_destroy(&b.m), 0);
		pthread_barrier_destroy(&b.gate);
	}
}
END_TEST

/*
 * The hand-over meets the deadline: the holder lets go just when the waiters' time runs out; the moment follows
 * the outcomes, so that both keep happening.  Whoever timed out must not keep the mutex or the wake-up that was
 * meant for the next one.
 */
struct meeting {
	pthread_mutex_t m;
	pthread_barrier_t gate;
	int size, rounds;
	uint64_t ahead_ns, end_ns;
	bool over;		 /* written by the holder between two gates */
	_Atomic int64_t when_ns; /* the waiters' common deadline, 0 until the holder has chosen it */
	volatile int holder;
	atomic_int got, late; /* of one round */
	unsigned long got_all, late_all;
};

static void meeting_hold(struct meeting *w, int64_t *offset)
{
	uint64_t when;

	MUST(pthread_mutex_lock(&w->m));
	when = now_ns() + w->ahead_ns;
	atomic_store(&w->when_ns, when);
	pthread_barrier_wait(&w->gate);
	w->over = when > w->end_ns;
	if (w->ahead_ns > 1000000)
		sleep_us(w->ahead_ns / 1000 - 300);
	while ((int64_t)now_ns() < (int64_t)when + *offset)
		;
	MUST(pthread_mutex_unlock(&w->m));
	pthread_barrier_wait(&w->gate); /* all came through */
	if (WANT(pthread_mutex_trylock(&w->m), 0))
		MUST(pthread_mutex_unlock(&w->m));
	*offset += (atomic_load(&w->got) > atomic_load(&w->late) ? 1 : -1) * (int64_t)(w->ahead_ns / 64 + 500);
	w->got_all += atomic_exchange(&w->got, 0);
	w->late_all += atomic_exchange(&w->late, 0);
}

static void meeting_wait(struct meeting *w, int index, uint32_t luck)
{
	struct timespec t;
	uint64_t when;
	int rc;

	pthread_barrier_wait(&w->gate);
	when = atomic_load(&w->when_ns) + luck % 8000;
	t.tv_sec = when / 1000000000;
	t.tv_nsec = when % 1000000000;
	if (luck >> 16 & 1)
		spin_ns(luck >> 20);
	if (index % 3 == 2)
		rc = pthread_mutex_lock(&w->m);
	else
		rc = pthread_mutex_clocklock(&w->m, CLOCK_MONOTONIC, &t);
	if (rc == ETIMEDOUT && index % 3 != 2) {
		if (now_ns() < when)
			complain("gave up %lld ns early", (long long)(when - now_ns()));
		atomic_fetch_add(&w->late, 1);
	} else if (WANT(rc, 0)) {
		if (w->holder)
			complain("two inside");
		w->holder = index;
		if (index % 3 != 2)
			atomic_fetch_add(&w->got, 1);
		w->holder = 0;
		MUST(pthread_mutex_unlock(&w->m));
	}
	pthread_barrier_wait(&w->gate);
}

static void meeting_body(int index, void *arg)
{
	struct meeting *w = arg;
	uint32_t luck = 4711 * (index + 1);
	int64_t offset = 0;

	for (int round = 0; round < w->rounds && !w->over; round++)
		if (index == 0)
			meeting_hold(w, &offset);
		else
			meeting_wait(w, index, dice(&luck));
}

START_TEST(handover_meets_deadline)
{
	static const struct {
		int size, rounds;
		uint64_t ahead_ns;
	} scenes[] = {{2, 1000, 30000}, {2, 500, 300000},  {3, 700, 100000},
		      {5, 400, 200000}, {16, 150, 500000}, {4, 10, 20000000}};
	enum { SCENES = sizeof scenes / sizeof scenes[0] };
	unsigned long got = 0, late = 0;

	for (size_t n = 0; n < SCENES || (n < 4 * SCENES && !(got && late)); n++) {
		size_t i = n % SCENES;
		struct meeting w = {.size = scenes[i].size, .ahead_ns = scenes[i].ahead_ns, .end_ns = scene_end()};

		w.rounds = suite_scale(scenes[i].rounds);
		mutex_make(&w.m, kinds[_i].type);
		pthread_barrier_init(&w.gate, NULL, w.size);
		team_run(w.size, meeting_body, &w);
		assert_no_complaint();
		ck_assert_int_eq(pthread_mutex_destroy(&w.m), 0);
		pthread_barrier_destroy(&w.gate);
		got += w.got_all;
		late += w.late_all;
	}
	ck_assert_msg(got > 0 && late > 0, "%lu waiters got it, %lu were late: they never met", got, late);
}
END_TEST

/*
 * Those who sleep get their turns one right after the other: nobody is left to wait until some timer finds it.  A busy
 * machine may take its time now and then, so the best of some tries counts.
 */
enum { QUEUERS = 5, PROMPT_MS = 20, TRIES = 8 };

struct sleepers {
	pthread_mutex_t m;
	uint64_t last_ns; /* guarded by m */
};

static void sleeper_body(int index, void *arg)
{
	struct sleepers *s = arg;

	(void)index;
	MUST(pthread_mutex_lock(&s->m));
	s->last_ns = now_ns();
	MUST(pthread_mutex_unlock(&s->m));
}

START_TEST(one_after_the_other)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES && best > PROMPT_MS * UINT64_C(1000000); i++) {
		struct sleepers s = {.last_ns = 0};
		struct team *team;
		uint64_t start;

		mutex_make(&s.m, kinds[_i].type);
		ck_assert_int_eq(pthread_mutex_lock(&s.m), 0);
		team = team_start(QUEUERS, sleeper_body, &s);
		sleep_us(LONG_ENOUGH_NS / 1000);
		start = now_ns();
		ck_assert_int_eq(pthread_mutex_unlock(&s.m), 0);
		team_join(team);
		if (s.last_ns - start < best)
			best = s.last_ns - start;
	}
	assert_no_complaint();
	ck_assert_uint_le(best, PROMPT_MS * UINT64_C(1000000));
}
END_TEST

int main(void)
{
	Suite *s = suite_make("wakeup");

	SUITE_CASE_OF(s, ping_pong_fast, 120, 2);
	SUITE_CASE_OF(s, ping_pong_asleep, 120, 2);
	SUITE_CASE_OF(s, convoy_parked, 120, KINDS);
	SUITE_CASE_OF(s, convoy_timed, 120, KINDS);
	SUITE_CASE_OF(s, convoy_under_signals, 120, 2 * KINDS);
	SUITE_CASE_OF(s, busy_under_signals, 120, 2 * KINDS);
	SUITE_CASE_OF(s, bursts, 120, KINDS);
	SUITE_CASE_OF(s, handover_meets_deadline, 120, KINDS);
	SUITE_CASE_OF(s, one_after_the_other, 60, KINDS);
	return suite_run(s);
}
