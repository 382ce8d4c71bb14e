/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Crowds: waiters for a condition variable who sleep in one hall, and are woken by one call: when that is learnt and forgotten, who
 * sleeps there and who stays away, and how they leave. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "admit/list.h"
#include "rt/clock.h"
#include "waiters.h"

/* What the thread has called to wake others, and where it has slept in a hall. */
static __thread struct {
	int each, together;
	const void *word;
	uint32_t bits;
} woke;
static struct {
	const void *word;
	uint32_t bits;
	int times;
} slept[MANY];

/* Where who goes to sleep in a hall is held up until it has been signalled. */
enum place { NOWHERE, BEFORE_READY, AFTER_READY, BEFORE_SLEEP, SIGNALLED };
static enum place held_up, arrived;

static void pass(enum place place)
{
	if (pk_load_acquire(&held_up) != place)
		return;
	pk_store_release(&arrived, place);
	while (pk_load_acquire(&held_up) == place)
		usleep(100);
}

uint32_t __real_pk_hall_ready(unsigned hall);
uint32_t __wrap_pk_hall_ready(unsigned hall);
int __real_pk_futex_wake(const void *word, int n);
int __wrap_pk_futex_wake(const void *word, int n);
int __real_pk_futex_wake_bits(const void *word, uint32_t bits);
int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits);
int __real_pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline);
int __wrap_pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline);

uint32_t __wrap_pk_hall_ready(unsigned hall)
{
	uint32_t calls;

	pass(BEFORE_READY);
	calls = __real_pk_hall_ready(hall);
	pass(AFTER_READY);
	return calls;
}

int __wrap_pk_futex_wake(const void *word, int n)
{
	woke.each++;
	return __real_pk_futex_wake(word, n);
}

int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits)
{
	woke.together++;
	woke.word = word;
	woke.bits = bits;
	return __real_pk_futex_wake_bits(word, bits);
}

int __wrap_pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline)
{
	for (int me = 0; me < MANY; me++)
		if (tid_of[me] == gettid()) {
			slept[me].word = word;
			slept[me].bits = bits;
			slept[me].times++;
			pass(BEFORE_SLEEP);
		}
	return __real_pk_futex_wait_bits(word, expected, bits, deadline);
}

static unsigned hall(void)
{
	return PK_TOGETHER + pk_hall_take(&cond);
}

/* One call has woken the hall, for at least those: 'h' in `where`, of which there is one by number. */
static void check_call(const char *where)
{
	ck_assert_int_eq(woke.together, 1);
	for (int i = 0; where[i]; i++)
		if (where[i] == 'h') {
			ck_assert_ptr_eq(woke.word, slept[i].word);
			ck_assert_uint_eq(woke.bits & slept[i].bits, slept[i].bits);
		}
}

enum how { BROADCAST, SIGNAL, HELD = 2, WORD = 4 /* the policy */ };

static void call(enum how how)
{
	if (how & HELD)
		pk_mutex_lock(&mutex);
	memset(&woke, 0, sizeof(woke));
	if (how & SIGNAL)
		pk_cond_signal(&cond);
	else
		pk_cond_broadcast(&cond);
}

static const struct {
	const char *topology;
	int waiters;
	unsigned how, before, after;
} crowds_of[] = {
	/* Four are a crowd; */
	{"1", 4, BROADCAST, 0, 1},
	{"1", 4, BROADCAST, 1, 2},
	{"1", 9, BROADCAST, 2, 2},
	{"1", 3, BROADCAST, 1, 1},
	{"1", 3, BROADCAST, 2, 2},
	{"1x8@thread", 4, BROADCAST, 1, 2},
	{"1", 0, BROADCAST, 2, 2},
	{"2x4@thread", 4, BROADCAST, 1, 2},
	{"2x4@thread", 3, BROADCAST, 1, 1},
	{"4x4@thread", 12, BROADCAST, 0, 1},
	/* with the mutex held three are, who may spin, so many at most; */
	{"1x8@thread", 3, BROADCAST | HELD, 0, 1},
	{"1x8@thread", 16, BROADCAST | HELD, 1, 2},
	{"1x8@thread", 17, BROADCAST | HELD, 2, 0},
	{"2x4@thread", 5, BROADCAST | HELD, 1, 2},
	{"2x4@thread", 3, BROADCAST | HELD, 2, 2},
	{"1x8@thread", 4, BROADCAST | HELD | WORD, 1, 0},
	{"1x8@thread", 4, BROADCAST | WORD, 1, 2},
	/* no more, once all have been moved, */
	{"1", 9, BROADCAST | HELD, 2, 0},
	{"1", 4, BROADCAST | HELD, 1, 0},
	{"1", 1, BROADCAST | HELD, 2, 0},
	{"1x8@thread", 2, BROADCAST | HELD, 2, 0},
	{"2x4@thread", 6, BROADCAST | HELD, 2, 0},
	{"1", 0, BROADCAST | HELD, 2, 2},
	/* or one has been woken. */
	{"1", 2, SIGNAL, 2, 0},
	{"1", 9, SIGNAL, 1, 0},
	{"1", 1, SIGNAL, 2, 2},
	{"1", 0, SIGNAL, 1, 1},
	{"1", 2, SIGNAL | HELD, 2, 0},
	{"1", 1, SIGNAL | HELD, 2, 0},
	{"1", 0, SIGNAL | HELD, 2, 2},
};

/* Another object, which would have that hall, too. */
static const void *rival_for(unsigned hall, const void *after)
{
	const char *object = after ? after : &cond;

	for (;;) {
		unsigned its = pk_hall_take(object += sizeof(cond));

		if (its < PK_HALLS)
			pk_hall_leave(its, object);
		if (its == hall)
			return object;
	}
}

/* When it is learnt that waiters come as a crowd, and forgotten. The hall is kept. */
START_TEST(crowds)
{
	struct pk_cond *c = pk_cond_of(&cond);
	unsigned before = crowds_of[_i].before, after = crowds_of[_i].after, own = pk_hall_take(&cond);
	const void *rival;

	setup(crowds_of[_i].how & WORD ? "word" : "shfl", crowds_of[_i].topology);
	pk_hall_leave(own, &cond);
	rival = rival_for(own, NULL);
	set_apart(before);
	start(crowds_of[_i].waiters);
	ck_assert_uint_eq(c->apart, before);
	call(crowds_of[_i].how);
	ck_assert_uint_eq(c->apart, after);
	ck_assert_uint_eq(c->hall, before == 2 || after == 2 ? own + 1 : 0);
	ck_assert_int_eq(pk_hall_take(rival) == own, before < 2 && after < 2);
	if (crowds_of[_i].how & HELD)
		pk_mutex_unlock(&mutex);
	pk_cond_broadcast(&cond);
	join(crowds_of[_i].waiters);
}
END_TEST

/* Where its first hall is another's it has another one, and none where too many are: then the next crowd asks again, and has one that is free
 * by then, or (_i 4) where nobody has been called since. It gives its hall up when it is destroyed. */
START_TEST(halls)
{
	enum { TAKEN = 4 };
	struct pk_cond *c = pk_cond_of(&cond);
	const void *rival[TAKEN], *r = NULL;
	unsigned own = pk_hall_take(&cond), got;

	setup("shfl", "1");
	pk_hall_leave(own, &cond);
	for (int i = 0; i < TAKEN; i++)
		rival[i] = r = rival_for(own, r);
	for (unsigned i = 0; i < TAKEN; i++)
		ck_assert_uint_eq(pk_hall_take(rival[i]), (own + i) % PK_HALLS);
	c->apart = 1;
	start(4);
	call(BROADCAST);
	ck_assert_uint_eq(c->apart, 1);
	join(4);
	got = (own + (unsigned)_i % TAKEN) % PK_HALLS;
	if (_i < TAKEN)
		pk_hall_leave(got, rival[_i]);
	start(4);
	call(BROADCAST);
	ck_assert_uint_eq(c->apart, 2);
	ck_assert_uint_eq(c->hall, 1 + got);
	join(4);
	start_one(0);
	ck_assert_uint_eq(last()->manner, PK_TOGETHER + got);
	call(BROADCAST);
	ck_assert_uint_eq(c->apart, 2);
	join(1);
	ck_assert_int_eq(pk_cond_destroy(&cond), 0);
	ck_assert_uint_eq(c->apart, 0);
	ck_assert_uint_eq(c->hall, 0);
	ck_assert_uint_eq(pk_hall_take(rival[_i % TAKEN]), got);
}
END_TEST

/* A hall is for 256 of them: others would have the same bit. */
START_TEST(too_many)
{
	enum { GHOSTS = 254 };
	struct pk_cond *c = pk_cond_of(&cond);

	setup("shfl", "1");
	keep_together();
	c->refs += GHOSTS * PK_COND_WAITER;
	aloof[2] = 5;
	for (int i = 0; i < 3; i++) {
		start_one(i);
		ck_assert_uint_eq(last()->manner, i < 2 ? hall() : PK_UNTIMED);
	}
	call(BROADCAST);
	join(3);
	ck_assert_uint_eq(aloof[2], 5);
	ck_assert_uint_eq(waiting(), GHOSTS);
}
END_TEST

/* Who comes sleeps in the hall, if there have been two crowds; but for so many such waits of who stays away. */
START_TEST(manners)
{
	setup("shfl", "1");
	set_apart((unsigned)_i);
	aloof[1] = 2;
	start(2);
	ck_assert_uint_eq(last()->hint->manner, _i == 2 ? hall() : PK_UNTIMED);
	ck_assert_uint_eq(last()->manner, PK_UNTIMED);
	pk_cond_broadcast(&cond);
	join(2);
	ck_assert_uint_eq(aloof[0], 0);
	ck_assert_uint_eq(aloof[1], _i == 2 ? 1 : 2);
}
END_TEST

/* So with a deadline, which passes. */
START_TEST(deadlines)
{
	setup("shfl", "1");
	keep_together();
	tid_of[0] = gettid();
	pk_self.aloof = 2;
	for (int wait = 0; wait < 6; wait++) {
		struct timespec until = pk_clock_after(wait % 2 ? 0 : 3000);

		slept[0].times = 0;
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		ck_assert_int_eq(pk_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until), ETIMEDOUT);
		ck_assert_int_eq(pk_mutex_trylock(&mutex), EBUSY);
		ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
		ck_assert_int_eq(slept[0].times > 0, wait >= 2);
		ck_assert_uint_eq(pk_self.aloof, wait < 2 ? 1 - wait : 0);
		ck_assert_uint_eq(waiting(), 0);
	}
}
END_TEST

/* Some in the hall (h), and some at their own words (w). */
static const char *const mixes[] = {"hhhhhhhh", "hhhhhhhhhhhh", "hwhwhwhw", "whwh", "whhh", "hhhw", "wwwwwwwwwhhh", "hwwwwwwhwwwh"};
enum { MIXES = sizeof(mixes) / sizeof(mixes[0]) };

static int start_mix(const char *where)
{
	int n = (int)strlen(where);

	pk_thread_record(); /* whose counters count */
	for (int i = 0; i < n; i++) {
		keep_together();
		aloof[i] = where[i] == 'w';
		start_one(i);
		ck_assert_uint_eq(last()->manner, where[i] == 'h' ? hall() : PK_UNTIMED);
	}
	await_asleep(n);
	return n;
}

/* A broadcast wakes all who are in the hall by one call, whether the mutex is held or not, and moves none of them; the others go their
 * way, in their order. */
START_TEST(together)
{
	const char *where = mixes[_i / 4], *policy = _i & 2 ? "word" : "shfl";
	bool held = _i % 2;
	int n, own = 0, latest = NOBODY;

	setup(policy, "1");
	n = start_mix(where);
	for (int i = 0; i < n; i++)
		own += where[i] == 'w';
	call(BROADCAST | (held ? HELD : 0));
	check_call(where);
	if (!own)
		ck_assert_int_eq(woke.each, 0);
	if (!held)
		ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), own <= 8 ? (unsigned)n : (unsigned)(n - own + 1));
	else if (own != 1)
		ck_assert_uint_eq(pk_stat_sum(PK_STAT_signalled), (unsigned)(n - own));
	if (held && own != 1)
		ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), _i & 2 ? own > 0 : (unsigned)own);
	if (held)
		pk_mutex_unlock(&mutex);
	join(n);
	ck_assert_int_eq(returned, n);
	for (int i = 0; i < n && _i & 2 && (held || own > 8); i++)
		if (where[order[i]] == 'w') {
			ck_assert_int_lt(latest, order[i]);
			latest = order[i];
		}
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

/* A signal wakes the first one in the hall, and none of the others: they are few enough to have a bit each. */
START_TEST(one_of_them)
{
	int n;

	setup("shfl", "1");
	n = start_mix("hhhhhhhh");
	for (int i = 0; i < n; i++) {
		memset(&woke, 0, sizeof(woke));
		ck_assert_int_eq(signal_one(_i), i);
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
		ck_assert_int_eq(woke.together, 1);
		ck_assert_ptr_eq(woke.word, slept[i].word);
		ck_assert_uint_eq(woke.bits, slept[i].bits);
		ck_assert_uint_eq(woke.bits, pk_hall_bit(serial_of[i]));
	}
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(slept[i].times, 1);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_morphed), 0);
}
END_TEST

/* Who is signalled on the way there does not sleep. */
START_TEST(on_the_way)
{
	setup("shfl", "1");
	keep_together();
	held_up = (enum place)(BEFORE_READY + _i / 2);
	start_one(0);
	while (pk_load_acquire(&arrived) != held_up)
		usleep(100);
	if (_i % 2)
		pk_cond_signal(&cond);
	else
		pk_cond_broadcast(&cond);
	pk_store_release(&held_up, SIGNALLED);
	join(1);
	ck_assert_int_eq(returned, 1);
}
END_TEST

/* Who is cancelled there wakes up, and nobody else. */
START_TEST(cancelled_there)
{
	void *result;

	setup("shfl", "1");
	start_mix("hhhh");
	memset(&woke, 0, sizeof(woke));
	ck_assert_int_eq(pk_cancel(thread[2]), 0);
	ck_assert_int_eq(pthread_join(thread[2], &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_int_eq(woke.together, 1);
	ck_assert_uint_eq(woke.bits, pk_hall_bit(serial_of[2]));
	ck_assert_int_eq(pk_mutex_trylock(&mutex), 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_uint_eq(waiting(), 3);
	ck_assert_int_eq(returned, 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(slept[i].times, 1);
	pk_cond_broadcast(&cond);
	for (int i = 0; i < 4; i++)
		ck_assert(i == 2 || pthread_join(thread[i], NULL) == 0);
}
END_TEST

static pthread_mutex_t another = PTHREAD_MUTEX_INITIALIZER;

static void lock_another(int number)
{
	(void)number;
	pk_mutex_lock(&another);
	pk_mutex_unlock(&another);
}

/* A handler that has to wait gives the place up, and its thread comes back from there: the kernel would go on with the sleep of
 * SA_RESTART. */
START_TEST(handler_there)
{
	struct sigaction action = {.sa_handler = lock_another, .sa_flags = SA_RESTART};
	struct pk_waiter *w;
	int who = NOBODY;

	setup("shfl", "1");
	sigaction(SIGUSR1, &action, NULL);
	start_mix("hh");
	w = last()->hint;
	pk_mutex_lock(&another);
	ck_assert_int_eq(pthread_kill(thread[0], SIGUSR1), 0);
	while (pk_state(pk_load_relaxed(&w->status)) != PK_LEAVING)
		usleep(100);
	pk_mutex_unlock(&another);
	for (int i = 0; i < SOON / 10 && who == NOBODY; i++, usleep(100)) {
		pk_mutex_lock(&mutex);
		if (returned)
			who = order[0];
		pk_mutex_unlock(&mutex);
	}
	ck_assert_int_eq(who, 0);
	ck_assert_int_eq(signal_one(false), 1);
	join(2);
}
END_TEST

/* ---- crowds that meet at the mutex ---- */

static struct pk_record *guest; /* its record */
static uint8_t crowded;		/* when it begins, and after each wait */
static uint16_t stays_away;
static bool one_node; /* is all that it has */
static int comes_back; /* how often it has */

static void *wait_often(void *times)
{
	pk_mutex_lock(&mutex);
	tid_of[0] = gettid();
	pk_store_release(&guest, pk_thread_record());
	pk_self.crowded = crowded;
	while (one_node && pk_waiters_idle(guest) > 1)
		pk_waiter_take(guest);
	for (int i = 0; i < *(int *)times; i++) {
		keep_together(); /* who signals with the mutex held takes that for no crowd */
		ck_assert_int_eq(pk_cond_wait(&cond, &mutex), 0);
		crowded = pk_self.crowded;
		stays_away = pk_self.aloof;
		pk_store_release(&comes_back, comes_back + 1);
	}
	pk_mutex_unlock(&mutex);
	return NULL;
}

/* w: it has to wait for the mutex as well; f: that is free; a: the same as w, and it is not in the hall. */
static const struct {
	uint8_t before;
	const char *waits;
	uint8_t after;
	uint16_t aloof;
} meetings[] = {
	{0, "w", 2, 0},	       {0, "f", 0, 0},	    {1, "f", 0, 0},	   {28, "w", 30, 0},	 {29, "w", 15, 1000},
	{30, "w", 15, 1000},   {30, "fw", 15, 1000}, {30, "ffw", 30, 0},   {28, "wfw", 15, 1000}, {27, "wfw", 30, 0},
	{29, "waa", 15, 998},  {0, "wffwffw", 2, 0}, {0, "wwwwwwwwwwwwwww", 30, 0},		 {0, "wwwwwwwwwwwwwwww", 15, 1000},
};

/* Who meets others at the mutex more than every third time stays away, whether they wait there in the queue (_i even) or, without a node, at the word. */
START_TEST(meets)
{
	const char *waits = meetings[_i / 2].waits;
	int times = (int)strlen(waits);
	pthread_t waiter;

	setup("shfl", "1");
	crowded = meetings[_i / 2].before;
	one_node = _i % 2;
	ck_assert_int_eq(pthread_create(&waiter, NULL, wait_often, &times), 0);
	for (int n = 0; n < times; n++) {
		const uint64_t *stat;
		uint64_t before;

		while (waiting() != 1 || !sleepers_sleeps(tid_of[0]))
			usleep(100);
		stat = pk_load_acquire(&guest)->stat;
		ck_assert_int_eq(last()->manner == hall(), waits[n] != 'a');
		before = stat[PK_STAT_entered] + stat[PK_STAT_bypassed];
		if (waits[n] != 'f')
			pk_mutex_lock(&mutex);
		pk_cond_signal(&cond);
		if (waits[n] == 'w')
			while (pk_load_relaxed(&stat[PK_STAT_entered]) + pk_load_relaxed(&stat[PK_STAT_bypassed]) == before)
				usleep(100);
		if (waits[n] != 'f')
			pk_mutex_unlock(&mutex);
		while (pk_load_acquire(&comes_back) == n)
			usleep(100);
	}
	ck_assert_int_eq(pthread_join(waiter, NULL), 0);
	ck_assert_uint_eq(!pk_stat_sum(PK_STAT_bypassed), !(one_node && strchr(waits, 'w')));
	ck_assert_uint_eq(crowded, meetings[_i / 2].after);
	ck_assert_uint_eq(stays_away, meetings[_i / 2].aloof);
}
END_TEST

UNIT("crowds", {crowds, sizeof(crowds_of) / sizeof(crowds_of[0])}, {halls, 5}, {too_many, 1}, {manners, 3}, {deadlines, 1}, {together, 4 * MIXES},
     {one_of_them, 2}, {on_the_way, 6}, {cancelled_there, 1}, {handler_there, 1}, {meets, 2 * sizeof(meetings) / sizeof(meetings[0])})
