/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How long a round of spinning takes (rt/rounds.c), by a clock that is the test's own. */
#include "rt/rounds.h"

#include <stdbool.h>

#include "rt/config.h"
#include "unit.h"

enum { PART = 64, READINGS = 8 }; /* rounds that are timed at a time; how often the clock is read for one measurement */

static unsigned rate;	  /* rounds in a microsecond, as the clock has it */
static unsigned readings; /* how many there were */
static bool disturbed;	  /* the last reading of a measurement waits for another thread's */
static uint64_t now;

uint64_t __wrap_pk_clock_ns(void);

uint64_t __wrap_pk_clock_ns(void)
{
	unsigned slow = rate;

	if (++readings == READINGS && disturbed) {
		disturbed = false;
		rate *= 4;
		pk_rounds_in(1000);
		rate = slow;
	}
	return now += rate ? PART * 1000 / rate : 0;
}

/* So many rounds were as quick as if a microsecond had so many. */
static void took(unsigned rounds, unsigned per_us)
{
	pk_rounds_took(rounds, UINT64_C(1000) * rounds / per_us);
}

/* Rounds that turn out to be quicker raise their rate, by a quarter at a time, if they are enough of them, to four times
 * what it was. */
START_TEST(quicker)
{
	enum { MANY = 6400 };

	pk_config.spin = 1000;
	rate = 40;
	ck_assert_uint_eq(pk_rounds_in(1000), 41);
	ck_assert_uint_eq(pk_rounds_in(30000), 30 * 41);
	took(MANY, 41);
	took(MANY, 10);
	took(PART / 2, 1000);
	pk_rounds_took(MANY, 0); /* the clock has not moved */
	ck_assert_uint_eq(pk_rounds_in(1000), 41);
	took(MANY, 45);
	ck_assert_uint_eq(pk_rounds_in(1000), 45);
	took(MANY, 90);
	ck_assert_uint_eq(pk_rounds_in(1000), 45 + 45 / 4 + 1);
	for (int i = 0; i < 20; i++)
		took(MANY, 1000);
	ck_assert_uint_eq(pk_rounds_in(1000), 4 * 41);
}
END_TEST

/* Of those who measure at the same time the first is right, also about how far it may be raised: the others were disturbed. */
START_TEST(disturbs)
{
	pk_config.spin = 1000;
	rate = 8;
	disturbed = true;
	ck_assert_uint_eq(pk_rounds_in(1000), 33);
	took(PART, 1000);
	ck_assert_uint_eq(pk_rounds_in(1000), 33 + 33 / 4 + 1);
	for (int i = 0; i < 20; i++)
		took(PART, 1000);
	ck_assert_uint_eq(pk_rounds_in(1000), 4 * 33);
}
END_TEST

/* Who has asked for few rounds is taken at his word; and if the clock does not move, a round takes a microsecond in the end. */
START_TEST(unknown)
{
	pk_config.spin = 100;
	rate = 40;
	ck_assert_uint_eq(pk_rounds_in(1000), 0);
	ck_assert_uint_eq(readings, 0);
	pk_config.spin = 1000;
	rate = 0;
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(pk_rounds_in(1000), 0);
	ck_assert_uint_eq(pk_rounds_in(1000), 1);
}
END_TEST

UNIT("rounds", {quicker, 1}, {disturbs, 1}, {unknown, 1})
