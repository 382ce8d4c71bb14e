/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping together (rt/hall.c): a call is not missed by who is about to sleep, and wakes those whom it is for. */
#include "rt/hall.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "rt/clock.h"
#include "../stats/sleepers.h"
#include "unit.h"

enum { HALL = 5, OTHER = 6, LONG_US = 60000000, THREADS = 4 };

/* How many have been woken by the last call, and what the word was then. */
static int woken;
static uint32_t counted;
int __real_pk_futex_wake_bits(const void *word, uint32_t bits);
int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits);

int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits)
{
	counted = pk_load_relaxed((const uint32_t *)word);
	return woken = __real_pk_futex_wake_bits(word, bits);
}

static int sleep_until(unsigned hall, uint32_t calls, uint32_t serial, uint64_t us)
{
	struct timespec until = pk_clock_after(us);
	struct pk_deadline deadline = {&until, CLOCK_MONOTONIC};

	return pk_hall_sleep(hall, calls, serial, &deadline);
}

/* Between the look and the sleep somebody calls, whomever: no sleep. Not so in another hall. */
START_TEST(called_meanwhile)
{
	uint32_t calls = pk_hall_ready(HALL), others = pk_hall_ready(OTHER);

	ck_assert_int_eq(sleep_until(HALL, calls, 1, 2000), ETIMEDOUT);
	pk_hall_call(HALL, pk_hall_bit(2));
	ck_assert_uint_ne(counted, calls); /* or who comes after the kernel has looked would sleep */
	ck_assert_int_eq(sleep_until(HALL, calls, 1, LONG_US), 0);
	ck_assert_int_eq(pk_hall_sleep(HALL, calls, 1, NULL), 0);
	ck_assert_int_eq(sleep_until(OTHER, others, 1, 2000), ETIMEDOUT);
	ck_assert_uint_eq(pk_hall_ready(OTHER), others);
	ck_assert_uint_ne(pk_hall_ready(HALL), calls);
	ck_assert_int_eq(sleep_until(HALL, pk_hall_ready(HALL), 1, 2000), ETIMEDOUT);
}
END_TEST

static uint32_t up; /* which numbers have been told to go on */

static void *sleep_there(void *arg)
{
	uint32_t serial = (uint32_t)(uintptr_t)arg, calls;

	sleepers_about_to_wait();
	do
		calls = pk_hall_ready(HALL);
	while (!(pk_load_relaxed(&up) & UINT32_C(1) << serial % 32) && !sleep_until(HALL, calls, serial, LONG_US));
	return NULL;
}

static void tell(uint32_t bits)
{
	pk_store_relaxed(&up, up | bits);
}

/* Those sleep whose bits are not called, and those are woken whose bits are. */
START_TEST(bits)
{
	static const uint32_t serial[THREADS] = {3, 35, 4, 95}; /* the second one has the first one's bit */
	pthread_t thread[THREADS];
	unsigned all = 0;

	pk_clock_us(); /* they do not look that up at the same time, and sleep for it */
	sleepers_expect(THREADS);
	for (int i = 0; i < THREADS; i++) {
		all |= pk_hall_bit(serial[i]);
		ck_assert_int_eq(pthread_create(&thread[i], NULL, sleep_there, (void *)(uintptr_t)serial[i]), 0);
	}
	ck_assert_uint_eq(all, 1u << 3 | 1u << 4 | 1u << 31);
	sleepers_await();
	pk_hall_call(HALL, ~all);
	ck_assert_int_eq(woken, 0);
	pk_hall_call(OTHER, all);
	ck_assert_int_eq(woken, 0);
	tell(pk_hall_bit(4));
	pk_hall_call(HALL, pk_hall_bit(4));
	ck_assert_int_eq(woken, 1);
	ck_assert_int_eq(pthread_join(thread[2], NULL), 0);
	tell(pk_hall_bit(3) | pk_hall_bit(95));
	pk_hall_call(HALL, pk_hall_bit(3) | pk_hall_bit(95));
	ck_assert_int_eq(woken, 3);
	for (int i = 0; i < THREADS; i++)
		ck_assert(i == 2 || pthread_join(thread[i], NULL) == 0);
}
END_TEST

/* A handler, or who forks in one, has its thread not sleep on; nobody else is woken. */
START_TEST(stirred)
{
	uint32_t calls[PK_HALLS];
	pthread_t thread;

	for (unsigned hall = 0; hall < PK_HALLS; hall++)
		calls[hall] = pk_hall_ready(hall);
	if (_i)
		pk_hall_fork_child();
	else
		pk_hall_stir(HALL);
	for (unsigned hall = 0; hall < PK_HALLS; hall++)
		ck_assert_int_eq(pk_hall_ready(hall) != calls[hall], _i || hall == HALL);
	ck_assert_int_eq(sleep_until(HALL, calls[HALL], 1, LONG_US), 0);
	sleepers_expect(1);
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_there, (void *)(uintptr_t)1), 0);
	sleepers_await();
	tell(pk_hall_bit(1));
	pk_hall_stir(HALL);
	pk_hall_call(HALL, pk_hall_bit(1));
	ck_assert_int_eq(woken, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* The hall that an object would have if it were alone. */
static unsigned hall_of(const void *object)
{
	unsigned hall = pk_hall_take(object);

	if (hall < PK_HALLS)
		pk_hall_leave(hall, object);
	return hall;
}

/* Objects side by side, wherever they lie, are spread over all halls: no hall has more than a few times its share. */
START_TEST(spread)
{
	static const size_t apart[] = {4, 8, 48, 64, 88, 128, 4096, 65536, (size_t)1 << 20};
	enum { EACH = 16, TIMES = 3 };
	const char *base = (const char *)(uintptr_t)0x7f0000000000;
	unsigned in[PK_HALLS] = {0};

	for (size_t i = 0; i < (size_t)EACH * PK_HALLS; i++) {
		unsigned hall = hall_of(base + i * apart[_i]);

		ck_assert_uint_lt(hall, PK_HALLS);
		in[hall]++;
	}
	for (unsigned hall = 0; hall < PK_HALLS; hall++) {
		ck_assert_uint_ge(in[hall], 1);
		ck_assert_uint_le(in[hall], TIMES * EACH);
	}
}
END_TEST

/* Somebody is called in each of them. */
static void all_are_used(unsigned first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		pk_hall_call((first + i) % PK_HALLS, 1);
}

/* Whose a hall is: one object's at a time, until it leaves it. Who comes later has one of the next three, or none; but if it asks again,
 * and nobody has been called in one of them since, that one. */
START_TEST(taken)
{
	enum { PROBES = 4, RIVALS = PROBES + 1 };
	const char *rival[RIVALS], *object = (const char *)(uintptr_t)0x7f0000000000;
	unsigned first = hall_of(object);

	for (int n = 0; n < RIVALS; object += 8)
		if (hall_of(object) == first)
			rival[n++] = object;
	for (int twice = 0; twice < 2; twice++) {
		all_are_used(first, PROBES);
		for (unsigned i = 0; i < RIVALS; i++)
			ck_assert_uint_eq(pk_hall_take(rival[i]), i < PROBES ? (first + i) % PK_HALLS : PK_HALLS);
	}
	all_are_used(first, PROBES);
	pk_hall_leave(first, rival[1]);
	pk_hall_leave(PK_HALLS, rival[1]);
	pk_hall_leave(-1u, rival[1]);
	ck_assert_uint_eq(pk_hall_take(rival[PROBES]), PK_HALLS);
	all_are_used(first, PROBES);
	pk_hall_leave((first + 2) % PK_HALLS, rival[2]);
	ck_assert_uint_eq(pk_hall_take(rival[PROBES]), (first + 2) % PK_HALLS);
	ck_assert_uint_eq(pk_hall_take(rival[2]), PK_HALLS);
	all_are_used(first, 1);
	ck_assert_uint_eq(pk_hall_take(rival[2]), (first + 1) % PK_HALLS);
	pk_hall_leave((first + 1) % PK_HALLS, rival[1]);
	ck_assert_uint_eq(pk_hall_take(rival[2]), (first + 1) % PK_HALLS);
}
END_TEST

UNIT("hall", {called_meanwhile, 1}, {bits, 1}, {stirred, 2}, {spread, 9}, {taken, 1})
