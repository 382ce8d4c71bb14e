/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-unlock: the one unlock of reader-writer locks knows what it unlocks.
 *
 * It is not told whether it ends a read or a write, nor who began it, and the library may have counted a reader in the
 * lock, by thread or by CPU.  Another thread probes after each unlock what is left.
 *
 * It would catch: an unlock that takes a read lock for a write lock or finds another lock's entry, one that gives up
 * too much or too little when a thread holds many locks or another thread's read lock, an entry that stays behind and
 * makes a later write lock look like a read.
 */

#include "errand.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { MANY = 40 };

struct holding {
	pthread_rwlock_t l;
	int reads; /* -1: held for writing */
};

static void holding_check(struct holding *h, struct servant *s)
{
	ck_assert_int_eq(probe(s, &bound, &h->l, READ), h->reads < 0 ? EBUSY : 0);
	ck_assert_int_eq(probe(s, &bound, &h->l, WRITE), h->reads ? EBUSY : 0);
	ck_assert_int_eq(h->l.__data.__cur_writer, h->reads < 0 ? gettid() : 0);
}

/* Random locks are taken, taken again and let go in any order; another thread sees after each unlock what is left. */
START_TEST(many_held_at_once)
{
	struct holding *h = calloc(MANY, sizeof *h);
	struct servant *s = servant_hire();
	uint32_t luck = 4711 + _i;

	for (int i = 0; i < MANY; i++) {
		rwlock_make(&bound, &h[i].l, preferences[i % PREFERENCES].type, PTHREAD_PROCESS_PRIVATE);
		if (_i && i < 12)
			warm_up(&h[i].l);
	}
	for (int round = 0; round < (int)suite_scale(20); round++) {
		int held = 0;

		for (int n = 0; n < 2 * MANY; n++) {
			struct holding *one = &h[dice(&luck) % MANY];

			if (one->reads < 0)
				continue;
			if (one->reads == 0 && luck % 3 == 0) {
				ck_assert_int_eq(pthread_rwlock_wrlock(&one->l), 0);
				one->reads = -1;
			} else {
				ck_assert_int_eq(pthread_rwlock_rdlock(&one->l), 0);
				one->reads++;
			}
			held++;
		}
		while (held) {
			struct holding *one = &h[dice(&luck) % MANY];

			if (!one->reads)
				continue;
			ck_assert_int_eq(pthread_rwlock_unlock(&one->l), 0);
			one->reads = one->reads < 0 ? 0 : one->reads - 1;
			held--;
			holding_check(one, s);
			holding_check(&h[dice(&luck) % MANY], s);
		}
	}
	for (int i = 0; i < MANY; i++) {
		assert_free(&bound, &h[i].l);
		ck_assert_int_eq(pthread_rwlock_destroy(&h[i].l), 0);
	}
	servant_dismiss(s);
	free(h);
}
END_TEST

static void read_all(void *arg)
{
	struct holding *h = arg;

	for (int i = 0; i < MANY; i++)
		for (int n = 0; n < h[i].reads; n++)
			MUST(pthread_rwlock_rdlock(&h[i].l));
}

static void unlock_once_each(void *arg)
{
	struct holding *h = arg;

	for (int i = 0; i < MANY; i++)
		if (h[i].reads > 0)
			MUST(pthread_rwlock_unlock(&h[i].l));
}

/* One thread reads, another, which may hold the lock itself, unlocks; the first may have exited by then. */
START_TEST(unlocked_by_another)
{
	struct holding *h = calloc(MANY, sizeof *h);
	struct servant *prober = servant_hire();

	for (int round = 0; round < 8; round++) {
		struct servant *taker = servant_hire();
		bool own = round % 2, taker_exits = round / 2 % 2, warm = round / 4;

		for (int i = 0; i < MANY; i++) {
			rwlock_make(&bound, &h[i].l, preferences[i % PREFERENCES].type, PTHREAD_PROCESS_PRIVATE);
			if (warm && i % 4 == 0)
				warm_up(&h[i].l);
			h[i].reads = i % 4;
		}
		servant_do(taker, read_all, h);
		if (taker_exits)
			servant_dismiss(taker);
		if (own)
			read_all(h); /* so that this thread has entries of its own */
		for (int n = 1; n < 4; n++)
			for (int i = 0; i < MANY; i++)
				if (n <= h[i].reads) {
					ck_assert_int_eq(probe(prober, &bound, &h[i].l, WRITE), EBUSY);
					ck_assert_int_eq(pthread_rwlock_unlock(&h[i].l), 0);
					ck_assert_int_eq(probe(prober, &bound, &h[i].l, WRITE),
							 n == h[i].reads && !own ? 0 : EBUSY);
				}
		if (own)
			for (int n = 1; n < 4;
			     n++) { /* the rest: by the taker, if it is there, as it holds more than the others */
				if (taker_exits)
					unlock_once_each(h);
				else
					servant_do(taker, unlock_once_each, h);
				for (int i = 0; i < MANY; i++)
					h[i].reads -= h[i].reads > 0;
			}
		for (int i = 0; i < MANY; i++) {
			ck_assert_int_eq(probe(prober, &bound, &h[i].l, WRITE), 0);
			assert_free(&bound, &h[i].l);
			ck_assert_int_eq(pthread_rwlock_destroy(&h[i].l), 0);
		}
		if (!taker_exits)
			servant_dismiss(taker);
	}
	servant_dismiss(prober);
	assert_no_complaint();
	free(h);
}
END_TEST

/* A thread that once read-locked, and was unlocked by another, write-locks: its unlock is a writer's. And back. */
START_TEST(stale_entries)
{
	struct servant *s = servant_hire();

	for (int warm = 0; warm < 2; warm++) {
		pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
		struct errand e = {.api = &bound, .l = &l};

		for (int round = 0; round < 20; round++) {
			if (warm)
				warm_up(&l);
			ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
			servant_do(s, unlock, &e);
			ck_assert_int_eq(pthread_rwlock_wrlock(&l), 0);
			ck_assert_int_eq(probe(s, &bound, &l, READ), EBUSY);
			ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
			ck_assert_int_eq(probe(s, &bound, &l, WRITE), 0);
			ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
			ck_assert_int_eq(probe(s, &bound, &l, WRITE), EBUSY);
			ck_assert_int_eq(probe(s, &bound, &l, READ), 0);
			ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
			assert_free(&bound, &l);
		}
	}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-unlock");

	SUITE_CASE_OF(s, many_held_at_once, 60, 2);
	SUITE_CASE(s, unlocked_by_another, 60);
	SUITE_CASE(s, stale_entries, 60);
	return suite_run(s);
}
