/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* When a sleeper looks, and for the last time; with the kernel's sleeps and the clock here. */
#include "rt/doze.h"

#include <errno.h>
#include <signal.h>

#include "rt/clock.h"
#include "rt/config.h"
#include "rt/thread.h"
#include "unit.h"

#include "../suites/steps.h"

enum { FIRST_US = 250000, LOOKS = 6 };

/* How a sleep for a time ends, and how long it was to last; how many without, or with a deadline. */
static int ends;
static unsigned slept_us, plain;

int __wrap_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us);
int __wrap_pk_futex_wait_for(const void *word, uint32_t expected, unsigned us)
{
	(void)word;
	(void)expected;
	ck_assert(pk_self.asleep);
	slept_us = us;
	return ends;
}

int __wrap_pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline);
int __wrap_pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	(void)word;
	(void)expected;
	plain++;
	return deadline ? ETIMEDOUT : 0;
}

static uint64_t now_us = 1, left_us;

uint64_t __wrap_pk_clock_us(void);
uint64_t __wrap_pk_clock_us(void)
{
	return now_us;
}

uint64_t __wrap_pk_clock_left_us(clockid_t clock, const struct timespec *abstime);
uint64_t __wrap_pk_clock_left_us(clockid_t clock, const struct timespec *abstime)
{
	(void)clock;
	(void)abstime;
	return left_us;
}

static unsigned looks, lasts;

static void look(bool last)
{
	ck_assert(!pk_self.asleep); /* no handler gives up what is being given up */
	looks++;
	lasts += last;
}

static struct pk_waiter waiter;
static int word = 2;

static void begin(void)
{
	pk_config.look = FIRST_US / 1000;
	pk_doze_setup(look);
	pk_doze_begin(&waiter, &word, NULL, NULL);
}

/* Twice as long each time, or up to a quarter less; from the sixth time on there is no other way. */
START_TEST(with_time)
{
	begin();
	ends = ETIMEDOUT;
	for (unsigned n = 0; n < 12; n++) {
		unsigned us = FIRST_US << (n < 8 ? n : 8);

		ck_assert_int_eq(pk_doze(&word, 2, NULL), 0);
		ck_assert_uint_le(slept_us, us);
		ck_assert_uint_ge(slept_us, us / 4 * 3);
		ck_assert_uint_eq(looks, n + 1);
		ck_assert_uint_eq(lasts, n + 1 < LOOKS ? 0 : n + 2 - LOOKS);
	}
	ck_assert_uint_eq(plain, 0);
	begin();
	pk_doze(&word, 2, NULL);
	ck_assert_uint_le(slept_us, FIRST_US);
}
END_TEST

/* Who is woken does not look, nor who has not slept; after a handler it does, and it is as if it had not been asleep. */
START_TEST(before_time)
{
	begin();
	for (unsigned n = 0; n < 2 * LOOKS; n++) {
		ends = n % 2 ? EINTR : n % 4 ? EAGAIN : 0;
		ck_assert_int_eq(pk_doze(&word, 2, NULL), 0);
		ck_assert_uint_le(slept_us, FIRST_US);
		ck_assert_uint_eq(looks, (n + 1) / 2);
	}
	ck_assert_uint_eq(lasts, 0);
	pk_self.waits = NULL;
	pk_doze(&word, 2, NULL);
	ck_assert_uint_eq(looks, LOOKS);
	for (int i = 0; i < 2; i++) {
		unsigned alone = 0;
		bool look = true;

		ends = i ? EAGAIN : 0;
		pk_self.asleep = true;
		ck_assert_int_eq(pk_doze_alone(&word, 2, NULL, &alone, &look), ends);
		ck_assert(!look);
		ck_assert_uint_eq(alone, 0);
	}
	pk_self.asleep = false;
}
END_TEST

/* A deadline that comes first ends the sleep itself, and by a clock that may be set one is not slept for longer than a
 * second. */
START_TEST(deadlines)
{
	struct timespec t = {0, 0};
	struct pk_deadline monotonic = {&t, CLOCK_MONOTONIC}, realtime = {&t, CLOCK_REALTIME};

	begin();
	ends = ETIMEDOUT;
	left_us = 1000;
	ck_assert_int_eq(pk_doze(&word, 2, &monotonic), ETIMEDOUT);
	ck_assert_uint_eq(plain, 1);
	ck_assert_uint_eq(looks, 0);
	left_us = UINT64_MAX;
	for (unsigned n = 0; n < LOOKS; n++) {
		ck_assert_int_eq(pk_doze(&word, 2, &monotonic), 0);
		ck_assert_uint_ge(slept_us, (FIRST_US << n) / 4 * 3);
	}
	begin();
	for (unsigned n = 0; n < LOOKS; n++) {
		ck_assert_int_eq(pk_doze(&word, 2, &realtime), 0);
		ck_assert_uint_le(slept_us, 1000000);
	}
	ck_assert_uint_eq(plain, 1);
	ck_assert_uint_eq(lasts, 2);
}
END_TEST

START_TEST(never)
{
	begin();
	pk_doze_setup(NULL);
	ck_assert(!pk_doze_looks());
	ends = ETIMEDOUT;
	ck_assert_int_eq(pk_doze(&word, 2, NULL), 0);
	pk_doze_over();
	now_us += 10 * FIRST_US;
	pk_doze_over();
	ck_assert_uint_eq(plain, 1);
	ck_assert_uint_eq(looks, 0);
}
END_TEST

/* Who sleeps for a short time and again looks by the clock, whatever has ended the sleep; after 15 s the
 * last time. */
START_TEST(short_sleeps)
{
	unsigned at_first = 0, at_last = 0;

	begin();
	for (unsigned ms = 0; ms < 20000 && !lasts; ms += 10, now_us += 10000) {
		pk_doze_over();
		at_first = looks && !at_first ? ms : at_first;
		at_last = ms;
	}
	ck_assert_uint_eq(at_first, FIRST_US / 1000);
	ck_assert_uint_ge(at_last, 15000);
	ck_assert_uint_lt(at_last, 16000);
}
END_TEST

#ifdef STEPPED
static int other = 2;
static unsigned steps, early;

/* A handler that waits as well writes there as long as nobody waits yet, and that would last. */
static void handler(int sig)
{
	(void)sig;
	steps++;
	early += pk_self.waits != &waiter && pk_self.wanted.word == &word;
	if (!pk_self.waits)
		pk_self.wanted.word = &other;
}
#endif

START_TEST(handlers_that_wait)
{
#ifdef STEPPED
	begin();
	pk_self.waits = NULL;
	pk_self.wanted.word = NULL;
	ck_assert(signal(SIGTRAP, handler) != SIG_ERR);
	STEPPED(pk_doze_begin(&waiter, &word, NULL, NULL));
	ck_assert_uint_ge(steps, 8);
	ck_assert_uint_eq(early, 0);
	ck_assert_ptr_eq(pk_self.wanted.word, &word);
#endif
}
END_TEST

#ifdef STEPPED
enum { STEPPED_RUNS = 1 };
#else
enum { STEPPED_RUNS = 0 };
#endif

UNIT("doze", {with_time, 1}, {before_time, 1}, {deadlines, 1}, {never, 1}, {short_sleeps, 1},
     {handlers_that_wait, STEPPED_RUNS})
