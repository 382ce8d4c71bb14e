/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-progress: nobody waits for ever: not for a stream of the other side, not for somebody who has given
 * up, not because a wake-up got lost.
 *
 * A case that waits for ever fails by its time limit; where a bound is checked it is seconds, since the machine may
 * be busy, and what it would catch is unbounded.  It would catch: readers that let no writer in or the reverse, a
 * writer that gives up and leaves the readers behind it waiting, a wake-up that reaches some of many readers or lets
 * them in one by one, one that is given to a waiter whose deadline passes in that moment, or that comes between a
 * waiter's last look at the lock and its sleep.
 */

#include "rwlocks.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT = 0 }; /* as pthread_rwlockattr_setkind_np numbers the kinds */

static const uint64_t BOUND_NS = 5000000000;

static void assert_free(pthread_rwlock_t *l)
{
	assert_no_complaint();
	ck_assert_int_eq(l->__data.__cur_writer, 0);
	ck_assert_uint_eq(l->__data.__readers >> 3, 0);
	ck_assert_int_eq(pthread_rwlock_trywrlock(l), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(l), 0);
	ck_assert_int_eq(pthread_rwlock_destroy(l), 0);
}

/* ---- streams ---- */

enum { READERS = 8, WRITERS = 4, TURNS = 12 };

/* How the readers of a stream read: once, twice at the same time, beside another lock. */
enum manner { SINGLY, TWICE, NESTED, MANNERS };

struct stream {
	pthread_rwlock_t l, other;
	enum manner manner;
	int first_guest; /* threads from here on want in, the others are the stream */
	bool guests_write;
	atomic_int guests, inside;
	atomic_ulong turns;
	uint64_t worst_ns;
};

static void stream_read(struct stream *s)
{
	MUST(pthread_rwlock_rdlock(&s->l));
	atomic_fetch_add(&s->turns, 1);
	sleep_us(100);
	if (s->manner == TWICE)
		MUST(pthread_rwlock_rdlock(&s->l));
	if (s->manner == NESTED)
		MUST(pthread_rwlock_rdlock(&s->other));
	sleep_us(100);
	if (s->manner == NESTED)
		MUST(pthread_rwlock_unlock(&s->other));
	if (s->manner == TWICE)
		MUST(pthread_rwlock_unlock(&s->l));
	MUST(pthread_rwlock_unlock(&s->l));
}

static void stream_write(struct stream *s)
{
	MUST(pthread_rwlock_wrlock(&s->l));
	atomic_fetch_add(&s->turns, 1);
	if (atomic_fetch_add(&s->inside, 1))
		complain("two writers inside");
	spin_ns(100000);
	atomic_fetch_sub(&s->inside, 1);
	MUST(pthread_rwlock_unlock(&s->l));
}

static void stream_body(int index, void *arg)
{
	struct stream *s = arg;

	if (index < s->first_guest) {
		while (atomic_load(&s->guests) && !complained())
			if (s->guests_write)
				stream_read(s);
			else
				stream_write(s);
		return;
	}
	for (int i = 0; i < TURNS && !complained(); i++) {
		uint64_t start, waited;

		sleep_us(2000);
		start = now_ns();
		MUST(s->guests_write ? pthread_rwlock_wrlock(&s->l) : pthread_rwlock_rdlock(&s->l));
		waited = now_ns() - start;
		MUST(pthread_rwlock_unlock(&s->l));
		if (waited > BOUND_NS)
			complain("the stream kept a thread out for %.3f s", waited / 1e9);
	}
	atomic_fetch_sub(&s->guests, 1);
}

static void stream(int kind, enum manner manner, int size, int guests, bool guests_write)
{
	struct stream s = {.manner = manner, .first_guest = size, .guests = guests, .guests_write = guests_write};

	rwlock_make(&s.l, kind);
	rwlock_make(&s.other, kind);
	team_run(size + guests, stream_body, &s);
	assert_no_complaint();
	ck_assert_uint_gt(atomic_load(&s.turns), 0);
	assert_free(&s.l);
	assert_free(&s.other);
}

/* Readers that overlap without a gap; their second read lock, or another lock's, must not keep the writer out. */
START_TEST(writer_among_readers)
{
	int kind = _i / MANNERS;
	enum manner manner = _i % MANNERS;

	if (kind != NONRECURSIVE && !suite_served()) {
		say("SKIP: glibc's readers may keep a writer out for ever");
		return;
	}
	if (kind == NONRECURSIVE && manner == TWICE)
		return; /* would deadlock, as it says */
	stream(kind, manner, READERS, 2, true);
}
END_TEST

/* Writers that lock again at once; of the kinds that prefer writers nothing is asked. */
START_TEST(readers_among_writers)
{
	stream(DEFAULT, SINGLY, WRITERS, 3, false);
}
END_TEST

/* Two writers that hold the lock for longer than anybody's patience, one always waiting: who sleeps meanwhile has to be
 * told of each unlock, or it is passed for ever. Or four, that give up before it is let go, again and again: so does who is in front. A
 * reader that is passed for long now and then is not as many times in as it should be. */
enum { SLOW_HOLD_US = 10000, SHORTER_HOLD_US = 3000, HASTY_US = 2000 };

static struct {
	pthread_rwlock_t l;
	atomic_int in;
	int writers, readers, times;
} slow;

static void slow_write(bool hasty)
{
	int ret = 0;

	do {
		struct timespec soon = deadline(CLOCK_REALTIME, HASTY_US * 1000);

		ret = hasty ? pthread_rwlock_timedwrlock(&slow.l, &soon) : pthread_rwlock_wrlock(&slow.l);
	} while (ret == ETIMEDOUT && atomic_load(&slow.in) < slow.readers * slow.times);
	if (ret == ETIMEDOUT)
		return;
	MUST(ret);
	sleep_us(hasty ? SHORTER_HOLD_US : SLOW_HOLD_US);
	MUST(pthread_rwlock_unlock(&slow.l));
}

static void slow_body(int index, void *arg)
{
	uint64_t end = now_ns() + BOUND_NS;

	(void)arg;
	if (index >= slow.writers) {
		sleep_us(5 * SLOW_HOLD_US);
		for (int n = 0; n < slow.times; n++) {
			MUST(pthread_rwlock_rdlock(&slow.l));
			atomic_fetch_add(&slow.in, 1);
			MUST(pthread_rwlock_unlock(&slow.l));
			sleep_us(SHORTER_HOLD_US); /* until somebody writes again */
		}
		return;
	}
	sleep_us(index * SLOW_HOLD_US / 2);
	while (atomic_load(&slow.in) < slow.readers * slow.times) {
		slow_write(slow.writers > 2);
		if (now_ns() > end) {
			complain("%d of %d times a reader was in", atomic_load(&slow.in), slow.readers * slow.times);
			return;
		}
	}
}

START_TEST(readers_among_slow_writers)
{
	rwlock_make(&slow.l, DEFAULT);
	slow.writers = _i ? 4 : 2;
	slow.readers = _i ? 1 : 4;
	slow.times = _i ? 30 : 1;
	team_run(slow.writers + slow.readers, slow_body, NULL);
	assert_no_complaint();
	assert_free(&slow.l);
}
END_TEST

/* A task that holds the lock for reading waits for its helpers, who read, too, while a writer waits: glibc lets them in
 * at once, and none may be left behind the writer. Helpers come in crowds, so that some come when it is closed again.
 */
static struct {
	pthread_rwlock_t l;
	atomic_int in;
	int helpers;
} task;

static void task_body(int index, void *arg)
{
	uint64_t end = now_ns() + 3 * BOUND_NS;

	(void)arg;
	if (index == 1) {
		sleep_us(5000);
		MUST(pthread_rwlock_wrlock(&task.l));
	} else {
		if (index > 1)
			sleep_us(20000);
		MUST(pthread_rwlock_rdlock(&task.l));
	}
	atomic_fetch_add(&task.in, index > 1);
	while (index == 0 && atomic_load(&task.in) < task.helpers) {
		sleep_us(1000);
		if (now_ns() > end) {
			complain("%d of %d helpers in", atomic_load(&task.in), task.helpers);
			break;
		}
	}
	MUST(pthread_rwlock_unlock(&task.l));
}

START_TEST(helpers_of_a_reader)
{
	static const int crowds[] = {4, 16, 64};

	rwlock_make(&task.l, DEFAULT);
	task.helpers = crowds[_i];
	team_run(2 + task.helpers, task_body, NULL);
	assert_no_complaint();
	assert_free(&task.l);
}
END_TEST

/* ---- many sleepers ---- */

enum { CROWD = 200 };

struct crowd {
	pthread_rwlock_t l;
	int round;
	bool timed;
	uint64_t opens_ns; /* when the writer leaves, about */
	pthread_barrier_t meeting;
	atomic_int came, read, wrote, late;
};

/* All readers are let in together: nobody leaves before all are inside. */
static void meet_body(int index, void *arg)
{
	struct crowd *c = arg;
	(void)index;

	atomic_fetch_add(&c->came, 1);
	MUST(pthread_rwlock_rdlock(&c->l));
	pthread_barrier_wait(&c->meeting);
	MUST(pthread_rwlock_unlock(&c->l));
	atomic_fetch_add(&c->read, 1);
}

/* One in eight writes; the deadlines lie around the moment of the unlock. */
static void crowd_body(int index, void *arg)
{
	struct crowd *c = arg;
	uint32_t luck = 0x9e3779b9u * (index + 1) + c->round;
	bool writing = dice(&luck) % 8 == 0, timed = c->timed && luck / 8 % 4;
	struct timespec t;
	int64_t ns;
	int rc;

	atomic_fetch_add(&c->came, 1);
	ns = (int64_t)(c->opens_ns - now_ns()) + (int64_t)(dice(&luck) % 6000000) - 3000000;
	t = deadline(CLOCK_MONOTONIC, ns);
	if (timed)
		rc = writing ? pthread_rwlock_clockwrlock(&c->l, CLOCK_MONOTONIC, &t)
			     : pthread_rwlock_clockrdlock(&c->l, CLOCK_MONOTONIC, &t);
	else
		rc = writing ? pthread_rwlock_wrlock(&c->l) : pthread_rwlock_rdlock(&c->l);
	if (timed && rc == ETIMEDOUT) {
		atomic_fetch_add(&c->late, 1);
		return;
	}
	if (WANT(rc, 0))
		MUST(pthread_rwlock_unlock(&c->l));
	atomic_fetch_add(writing ? &c->wrote : &c->read, 1);
}

static void crowd_wakes(struct crowd *c, team_body *body)
{
	uint64_t left;
	struct team *t;

	MUST(pthread_rwlock_wrlock(&c->l));
	c->opens_ns = now_ns() + 50000000;
	t = team_start(CROWD, body, c);
	while (atomic_load(&c->came) < CROWD || now_ns() < c->opens_ns)
		sleep_us(200);
	ck_assert_int_eq(atomic_load(&c->read) + atomic_load(&c->wrote), 0);
	MUST(pthread_rwlock_unlock(&c->l));
	left = now_ns();
	team_join(t);
	ck_assert_uint_lt(now_ns() - left, 2 * BOUND_NS);
	ck_assert_int_eq(atomic_load(&c->read) + atomic_load(&c->wrote) + atomic_load(&c->late), CROWD);
	assert_free(&c->l);
}

START_TEST(sleeping_readers_meet)
{
	for (int round = 0; round < 4; round++) {
		struct crowd c = {.round = round};

		rwlock_make(&c.l, _i);
		pthread_barrier_init(&c.meeting, NULL, CROWD);
		crowd_wakes(&c, meet_body);
		pthread_barrier_destroy(&c.meeting);
		ck_assert_int_eq(atomic_load(&c.read), CROWD);
	}
}
END_TEST

START_TEST(sleeping_crowd_wakes)
{
	int in = 0, late = 0;

	for (int round = 0; round < 8; round++) {
		struct crowd c = {.round = round, .timed = round % 4 != 0};

		rwlock_make(&c.l, _i);
		crowd_wakes(&c, crowd_body);
		in += atomic_load(&c.read) + atomic_load(&c.wrote);
		late += atomic_load(&c.late);
	}
	ck_assert_int_gt(in, 0);
	ck_assert_int_gt(late, 0);
}
END_TEST

/* ---- rounds: in each everybody locks once, and nothing comes after that could repair a lost wake-up ---- */

struct rounds {
	pthread_rwlock_t l;
	int size, round;
	bool held_over, ends; /* held_over: a read lock that lasts the round; both written between two gates */
	uint64_t end_ns;
	pthread_barrier_t gate;
	atomic_int readers_left, in, late;
};

static void rounds_run(struct rounds *r, int kind, int size, unsigned ms, team_body *body)
{
	r->size = size;
	r->end_ns = now_ns() + suite_scale(ms) * 1000000;
	rwlock_make(&r->l, kind);
	pthread_barrier_init(&r->gate, NULL, size);
	team_run(size, body, r);
	pthread_barrier_destroy(&r->gate);
	assert_free(&r->l);
}

/* However little of its time the machine leaves us: what is looked for has to happen, if it ever does. */
static bool is_over(struct rounds *r)
{
	bool happened = atomic_load(&r->in) && atomic_load(&r->late);
	uint64_t now = now_ns();

	return complained() || (now > r->end_ns && (happened || now > r->end_ns + 6 * BOUND_NS));
}

/* Between the rounds the first thread says whether there is another, and all read for a moment, at times. */
static bool next_round(struct rounds *r, int index, int round)
{
	pthread_barrier_wait(&r->gate);
	if (index == 0)
		r->ends = is_over(r);
	pthread_barrier_wait(&r->gate);
	if (round % 4 == 3)
		for (int i = 0; i < 200; i++) {
			MUST(pthread_rwlock_rdlock(&r->l));
			MUST(pthread_rwlock_unlock(&r->l));
		}
	return !r->ends;
}

static void short_stay_body(int index, void *arg)
{
	struct rounds *r = arg;
	uint32_t luck = 0x85ebca6bu * (index + 1);

	for (int round = 0; next_round(r, index, round); round++) {
		bool writing = dice(&luck) % 3 == 0, timed = dice(&luck) % 2;
		struct timespec t = deadline(CLOCK_REALTIME, dice(&luck) % 3000000);
		int rc;

		if (luck % 4 == 0)
			spin_ns(luck / 4 % 100000);
		if (timed)
			rc = writing ? pthread_rwlock_timedwrlock(&r->l, &t) : pthread_rwlock_timedrdlock(&r->l, &t);
		else
			rc = writing ? pthread_rwlock_wrlock(&r->l) : pthread_rwlock_rdlock(&r->l);
		if (timed && rc == ETIMEDOUT) {
			atomic_fetch_add(&r->late, 1);
			continue;
		}
		if (!WANT(rc, 0))
			continue;
		if (dice(&luck) % 2)
			sleep_us(luck / 2 % 1000);
		MUST(pthread_rwlock_unlock(&r->l));
		atomic_fetch_add(&r->in, 1);
	}
}

/* Deadlines of 0 to 3 ms beside untimed waits, and stays of 0 to 1 ms. */
START_TEST(rounds_of_short_stays)
{
	struct rounds r = {.in = 0};

	rounds_run(&r, _i, 10, 900, short_stay_body);
	ck_assert_int_gt(atomic_load(&r.in), 0);
	ck_assert_int_gt(atomic_load(&r.late), 0);
}
END_TEST

/*
 * A read lock is held all the while: the writers give up one after the other, and the readers that came behind them
 * get in.  Were they to wait for the holder the round would never end, since the holder waits for them.
 */
static void giving_up_body(int index, void *arg)
{
	struct rounds *r = arg;
	uint32_t luck = 31337 * (index + 1);

	for (int round = 0; next_round(r, index, round); round++) {
		struct timespec t = deadline(CLOCK_MONOTONIC, dice(&luck) % 3000000);

		if (index == 0) {
			MUST(pthread_rwlock_rdlock(&r->l));
			atomic_store(&r->readers_left, r->size - 3);
			pthread_barrier_wait(&r->gate);
			while (atomic_load(&r->readers_left))
				sleep_us(50);
			pthread_barrier_wait(&r->gate); /* the writers have gone */
			MUST(pthread_rwlock_unlock(&r->l));
			continue;
		}
		pthread_barrier_wait(&r->gate);
		if (index < 3) {
			WANT(pthread_rwlock_clockwrlock(&r->l, CLOCK_MONOTONIC, &t), ETIMEDOUT);
			atomic_fetch_add(&r->late, 1);
		} else {
			spin_ns(luck % 1000 * 500);
			MUST(pthread_rwlock_rdlock(&r->l));
			if (index % 2)
				sleep_us(luck / 1000 % 500);
			MUST(pthread_rwlock_unlock(&r->l));
			atomic_fetch_sub(&r->readers_left, 1);
			atomic_fetch_add(&r->in, 1);
		}
		pthread_barrier_wait(&r->gate);
	}
}

START_TEST(writers_give_up)
{
	struct rounds r = {.in = 0};

	rounds_run(&r, _i, 8, 700, giving_up_body);
	ck_assert_int_gt(atomic_load(&r.in), 0);
	ck_assert_int_gt(atomic_load(&r.late), 0);
}
END_TEST

/* The first writer gives up, the second does not; whoever goes first then, all go when the holder leaves. */
static void one_gives_up_body(int index, void *arg)
{
	struct rounds *r = arg;
	uint32_t luck = 1013 * (index + 1);

	for (int round = 0; next_round(r, index, round); round++) {
		struct timespec t = deadline(CLOCK_MONOTONIC, 1000000 + dice(&luck) % 500000);

		if (index == 0)
			MUST(pthread_rwlock_rdlock(&r->l));
		pthread_barrier_wait(&r->gate);
		switch (index) {
		case 0: /* leaves before, while or after the first gives up */
			sleep_us(500 + luck % 1000);
			MUST(pthread_rwlock_unlock(&r->l));
			continue;
		case 1:
			if (pthread_rwlock_clockwrlock(&r->l, CLOCK_MONOTONIC, &t) == ETIMEDOUT) {
				atomic_fetch_add(&r->late, 1);
				continue;
			}
			break;
		case 2:
			sleep_us(luck % 300);
			MUST(pthread_rwlock_wrlock(&r->l));
			break;
		default:
			sleep_us(luck % 600);
			MUST(pthread_rwlock_rdlock(&r->l));
			break;
		}
		MUST(pthread_rwlock_unlock(&r->l));
		atomic_fetch_add(&r->in, 1);
	}
}

START_TEST(one_of_two_writers_gives_up)
{
	struct rounds r = {.in = 0};

	rounds_run(&r, _i, 6, 600, one_gives_up_body);
	ck_assert_int_gt(atomic_load(&r.in), 0);
	ck_assert_int_gt(atomic_load(&r.late), 0);
}
END_TEST

/* ---- an unlock against one waiter on its way to sleep ---- */

struct duel {
	pthread_rwlock_t l;
	bool holder_writes, waiter_writes, timed;
	uint64_t end_ns;
	atomic_uint holds, done; /* rounds in which it is held, that the waiter has finished */
	atomic_bool over;
};

/* Each on a CPU of its own, where there are two. */
static void pin(int index)
{
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof all, &all);
	CPU_ZERO(&one);
	for (int cpu = 0, n = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && n++ == index)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof one, &one);
}

/* Waits for the other thread, which most often runs. */
static bool await_round(struct duel *d, atomic_uint *what, unsigned round)
{
	for (unsigned spins = 1; atomic_load(what) != round; spins++) {
		if (atomic_load(&d->over))
			return atomic_load(what) == round;
		if (spins % 1000 == 0)
			sched_yield();
	}
	return true;
}

/* How long it is held: until about when the other comes, has spun for a while, or sleeps. */
static uint64_t hold_ns(uint32_t luck)
{
	static const unsigned most[] = {500, 2000, 2000, 4000, 4000, 8000, 30000, 200000};

	return luck / 8 % most[luck % 8];
}

static void duel_body(int index, void *arg)
{
	struct duel *d = arg;
	uint32_t luck = 65537 * (index + 1);

	pin(index);
	for (unsigned round = 1;; round++)
		if (index == 0) {
			/* One round at least, however little of the time a busy machine leaves. */
			if ((now_ns() > d->end_ns && round > 1) || complained()) {
				atomic_store(&d->over, true);
				return;
			}
			MUST(d->holder_writes ? pthread_rwlock_wrlock(&d->l) : pthread_rwlock_rdlock(&d->l));
			atomic_store(&d->holds, round);
			spin_ns(hold_ns(dice(&luck)));
			MUST(pthread_rwlock_unlock(&d->l));
			await_round(d, &d->done, round);
		} else {
			struct timespec t;
			int rc;

			if (!await_round(d, &d->holds, round))
				return;
			spin_ns(dice(&luck) % 1000);
			t = deadline(CLOCK_MONOTONIC, luck / 1000 % 10000);
			if (d->timed)
				rc = d->waiter_writes ? pthread_rwlock_clockwrlock(&d->l, CLOCK_MONOTONIC, &t)
						      : pthread_rwlock_clockrdlock(&d->l, CLOCK_MONOTONIC, &t);
			else
				rc = d->waiter_writes ? pthread_rwlock_wrlock(&d->l) : pthread_rwlock_rdlock(&d->l);
			if (!(d->timed && rc == ETIMEDOUT) && WANT(rc, 0))
				MUST(pthread_rwlock_unlock(&d->l));
			atomic_store(&d->done, round);
		}
}

START_TEST(unlock_meets_waiter)
{
	for (int pair = 1; pair < 4; pair++)
		for (int timed = 0; timed < 2; timed++) {
			struct duel d = {.holder_writes = pair & 1, .waiter_writes = pair & 2, .timed = timed};

			d.end_ns = now_ns() + suite_scale(120) * 1000000;
			rwlock_make(&d.l, _i);
			team_run(2, duel_body, &d);
			ck_assert_uint_gt(atomic_load(&d.done), 0);
			assert_free(&d.l);
		}
}
END_TEST

/* ---- torture: long and short stays, sleeps inside, several locks, now and then two at a time ---- */

enum { LOCKS = 3 };

struct torture {
	pthread_rwlock_t l[LOCKS];
	uint64_t end_ns;
	atomic_int done;
};

static void torture_body(int index, void *arg)
{
	struct torture *all = arg;
	uint32_t luck = 271828 * (index + 1);

	do {
		int a = dice(&luck) % LOCKS, b = luck / 8 % 4 ? a : (int)(luck / 32 % LOCKS);

		MUST(dice(&luck) % 4 ? pthread_rwlock_rdlock(&all->l[a]) : pthread_rwlock_wrlock(&all->l[a]));
		if (b > a)
			MUST(dice(&luck) % 4 ? pthread_rwlock_rdlock(&all->l[b]) : pthread_rwlock_wrlock(&all->l[b]));
		if (dice(&luck) % 4 == 0)
			sleep_us(luck / 4 % 400);
		if (b > a)
			MUST(pthread_rwlock_unlock(&all->l[b]));
		if (dice(&luck) % 16 == 0)
			sleep_us(luck / 16 % 2000);
		MUST(pthread_rwlock_unlock(&all->l[a]));
		if (dice(&luck) % 8 == 0)
			sleep_us(luck / 8 % 500);
	} while (now_ns() < all->end_ns && !complained());
	atomic_fetch_add(&all->done, 1);
}

START_TEST(torture)
{
	struct torture all = {.end_ns = now_ns() + suite_scale(400) * 1000000};

	for (int i = 0; i < LOCKS; i++)
		rwlock_make(&all.l[i], _i < KINDS_OF_RWLOCK ? _i : i);
	team_run(12, torture_body, &all);
	ck_assert_int_eq(atomic_load(&all.done), 12);
	for (int i = 0; i < LOCKS; i++)
		assert_free(&all.l[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-progress");

	SUITE_CASE_OF(s, writer_among_readers, 60, KINDS_OF_RWLOCK * MANNERS);
	SUITE_CASE(s, readers_among_writers, 60);
	SUITE_CASE_OF(s, readers_among_slow_writers, 60, 2);
	SUITE_CASE_OF(s, helpers_of_a_reader, 60, 3);
	SUITE_CASE_OF(s, sleeping_readers_meet, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, sleeping_crowd_wakes, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, rounds_of_short_stays, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, writers_give_up, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, one_of_two_writers_gives_up, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, unlock_meets_waiter, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, torture, 60, KINDS_OF_RWLOCK + 1);
	return suite_run(s);
}
