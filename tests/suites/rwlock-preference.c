/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-preference: who may go on while a writer waits, for each kind of reader-writer lock.
 *
 * It would catch: a reader that waits for a writer that waits for it, a writer-preferring lock that lets readers
 * overtake, or leaves them behind when the writer has given up, a reader behind a writer that does not give up in time
 * or takes the writer's turn with it.
 */

#include "errand.h"

#include <errno.h>

/* ---- a writer waits: the kinds that allow recursion ---- */

/* Who holds a read lock gets it again, and so does a thread that the holder waits for. */
START_TEST(readers_pass_a_waiting_writer)
{
	struct servant *writer = servant_hire(), *reader = servant_hire();

	for (int warm = 0; warm < 2; warm++) {
		struct errand w = {.api = &bound, .side = WRITE}, r = {.api = &bound, .side = READ};
		pthread_rwlock_t l;
		uint64_t start;

		w.l = r.l = &l;
		rwlock_make(&bound, &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
		if (warm)
			warm_up(&l);
		ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
		servant_begin(writer, call_hold_unlock, &w);
		await_asleep(&w);
		start = now_ns();
		for (int i = 0; i < 3; i++) {
			struct timespec t = deadline(CLOCK_REALTIME, LATE_NS);

			ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
			ck_assert_int_eq(pthread_rwlock_tryrdlock(&l), 0);
			ck_assert_int_eq(pthread_rwlock_timedrdlock(&l, &t), 0);
			ck_assert_int_eq(probe(reader, &bound, &l, READ), 0);
			ck_assert_int_eq(probe(reader, &bound, &l, WRITE), EBUSY);
		}
		for (int i = 0; i < 4; i++) {
			servant_do(reader, call_hold_unlock, &r); /* we wait for it as a join would */
			ck_assert_int_eq(r.rc, 0);
		}
		ck_assert_int_lt(now_ns() - start, LATE_NS);
		for (int i = 0; i < 10; i++) {
			ck_assert_int_eq(atomic_load(&w.state), 1);
			ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
		}
		servant_end(writer);
		ck_assert_int_eq(w.rc, 0);
		assert_free(&bound, &l);
		ck_assert_int_eq(pthread_rwlock_destroy(&l), 0);
	}
	servant_dismiss(writer);
	servant_dismiss(reader);
	assert_no_complaint();
}
END_TEST

/* Many read locks of one thread, a writer behind each: all can be taken again, also those a small table forgets. */
START_TEST(many_recursions_pass_writers)
{
	enum { LOCKS = 12 };
	struct servant *writers[LOCKS];
	struct errand w[LOCKS];
	pthread_rwlock_t l[LOCKS];
	uint64_t start;

	for (int i = 0; i < LOCKS; i++) {
		rwlock_make(&bound, &l[i], preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
		w[i] = (struct errand){.api = &bound, .l = &l[i], .side = WRITE};
		writers[i] = servant_hire();
		ck_assert_int_eq(pthread_rwlock_rdlock(&l[i]), 0);
	}
	for (int i = 0; i < LOCKS; i++) {
		servant_begin(writers[i], call_hold_unlock, &w[i]);
		await_asleep(&w[i]);
	}
	start = now_ns();
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < LOCKS; i++)
			ck_assert_int_eq(pthread_rwlock_rdlock(&l[i]), 0);
	ck_assert_int_lt(now_ns() - start, 2 * LATE_NS);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < LOCKS; i++) {
			ck_assert_int_eq(atomic_load(&w[i].state), 1);
			ck_assert_int_eq(pthread_rwlock_unlock(&l[i]), 0);
		}
	for (int i = 0; i < LOCKS; i++) {
		servant_end(writers[i]);
		servant_dismiss(writers[i]);
		ck_assert_int_eq(w[i].rc, 0);
		assert_free(&bound, &l[i]);
	}
	assert_no_complaint();
}
END_TEST

/* ---- a writer waits: the kind that prefers it ---- */

/* Begins a write lock, and returns when it waits: then a reader is refused; false if it has given up before. */
static bool begin_writer(struct servant *s, struct errand *w, struct servant *prober)
{
	uint64_t end = now_ns() + LATE_NS;

	servant_begin(s, call_hold_unlock, w);
	while (probe(prober, &bound, w->l, READ) == 0) {
		if (atomic_load(&w->state) == 2)
			return false;
		ck_assert_msg(now_ns() < end, "a waiting writer does not keep a reader out");
		sleep_us(100);
	}
	return true;
}

/* Two waiting writers both go before the reader that came last. */
START_TEST(writers_go_first)
{
	struct servant *s[3] = {servant_hire(), servant_hire(), servant_hire()};

	for (int round = 0; round < 6; round++) {
		enum side holder = round % 2 ? READ : WRITE;
		pthread_rwlock_t l = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
		atomic_int order = 0;
		struct errand e[3], h = {.api = &bound, .l = &l, .side = holder};

		if (round / 2 == 1)
			warm_up(&l);
		call(&h);
		for (int i = 0; i < 3; i++) {
			e[i] = (struct errand){.api = &bound, .l = &l, .side = i < 2 ? WRITE : READ, .order = &order};
			e[i].hold_us = i < 2 ? 50000 : 0; /* so that the second is there when the first goes */
			if (i == 0 && holder == READ)
				ck_assert(begin_writer(s[i], &e[i], s[2]));
			else
				servant_begin(s[i], call_hold_unlock, &e[i]);
			await_asleep(&e[i]);
			ck_assert_int_eq(atomic_load(&e[i].state), 1);
		}
		unlock(&h);
		for (int i = 0; i < 3; i++) {
			servant_end(s[i]);
			ck_assert_int_eq(e[i].rc, 0);
		}
		ck_assert_int_eq(e[2].place, 2);
		assert_free(&bound, &l);
	}
	for (int i = 0; i < 3; i++)
		servant_dismiss(s[i]);
	assert_no_complaint();
}
END_TEST

/* The only writer gives up: the readers behind it go on, beside the one that holds the lock. */
START_TEST(writer_gives_up)
{
	enum { READERS = 3, ROUNDS = 8 };
	struct servant *writer = servant_hire(), *reader[READERS];
	int raced = 0;

	for (int i = 0; i < READERS; i++)
		reader[i] = servant_hire();
	for (int round = 0; round < ROUNDS; round++) {
		pthread_rwlock_t l = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
		struct errand w = {.api = &bound, .l = &l, .side = WRITE, .how = round % 2 ? AHEAD : CLOCK_AHEAD};
		struct errand r[READERS];
		bool waited;

		w.ahead_ns = 60000000;
		if (round / 2 % 2)
			warm_up(&l);
		ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
		waited = begin_writer(writer, &w, reader[0]);
		for (int i = 0; i < READERS; i++) {
			r[i] = (struct errand){.api = &bound, .l = &l, .side = READ, .how = i == 1 ? AHEAD : PLAIN};
			servant_begin(reader[i], call_until_told, &r[i]);
		}
		servant_end(writer);
		ck_assert_int_eq(w.rc, ETIMEDOUT);
		for (int i = 0; i < READERS; i++) {
			await_state(&r[i], 2); /* while we still hold it */
			ck_assert_int_eq(r[i].rc, 0);
			atomic_store(&r[i].state, 3);
		}
		ck_assert_int_eq(pthread_rwlock_tryrdlock(&l), 0);
		ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
		ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
		for (int i = 0; i < READERS; i++)
			servant_end(reader[i]);
		assert_free(&bound, &l);
		raced += waited;
	}
	for (int i = 0; i < READERS; i++)
		servant_dismiss(reader[i]);
	servant_dismiss(writer);
	assert_no_complaint();
	ck_assert_int_gt(raced, 0);
}
END_TEST

/* A reader behind a waiting writer gives up in time, and the writer still gets the lock. */
START_TEST(reader_behind_gives_up)
{
	struct servant *writer = servant_hire(), *reader = servant_hire();

	for (int round = 0; round < 4; round++) {
		pthread_rwlock_t l = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
		struct errand w = {.api = &bound, .l = &l, .side = WRITE}, r = {.api = &bound, .l = &l, .side = READ};
		uint64_t start;

		r.how = round % 2 ? AHEAD : CLOCK_AHEAD;
		r.ahead_ns = 20000000;
		if (round / 2)
			warm_up(&l);
		ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
		ck_assert(begin_writer(writer, &w, reader));
		start = now_ns();
		servant_do(reader, call_hold_unlock, &r);
		ck_assert_int_eq(r.rc, ETIMEDOUT);
		ck_assert_int_ge(now_ns() - start, r.ahead_ns - 1000000); /* two clocks */
		ck_assert_int_lt(now_ns() - start, LATE_NS);
		r.how = round % 2 ? PAST : CLOCK_PAST;
		servant_do(reader, call_hold_unlock, &r);
		ck_assert_int_eq(r.rc, ETIMEDOUT);
		ck_assert_int_eq(atomic_load(&w.state), 1);
		ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
		servant_end(writer);
		ck_assert_int_eq(w.rc, 0);
		assert_free(&bound, &l);
	}
	servant_dismiss(writer);
	servant_dismiss(reader);
	assert_no_complaint();
}
END_TEST

/* A read lock that tryrdlock would get does not time out (POSIX, pthread_rwlock_timedrdlock), however long a writer has waited. */
START_TEST(late_readers_get_what_can_be_had)
{
	struct servant *writer = servant_hire(), *reader = servant_hire();
	struct errand w = {.api = &bound, .side = WRITE}, r = {.api = &bound, .side = READ, .how = PAST};
	const uint64_t start = now_ns();
	pthread_rwlock_t l;

	w.l = r.l = &l;
	rwlock_make(&bound, &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
	ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
	servant_begin(writer, call_hold_unlock, &w);
	await_asleep(&w);
	while (now_ns() - start < 300000000) {
		servant_do(reader, call_hold_unlock, &r);
		ck_assert_int_eq(r.rc, 0);
		sleep_us(1000);
	}
	ck_assert_int_eq(atomic_load(&w.state), 1);
	ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
	servant_end(writer);
	ck_assert_int_eq(w.rc, 0);
	assert_free(&bound, &l);
	servant_dismiss(writer);
	servant_dismiss(reader);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-preference");

	SUITE_CASE_OF(s, readers_pass_a_waiting_writer, 60, RECURSIVE_KINDS);
	SUITE_CASE_OF(s, many_recursions_pass_writers, 60, RECURSIVE_KINDS);
	SUITE_CASE_OF(s, late_readers_get_what_can_be_had, 60, RECURSIVE_KINDS);
	SUITE_CASE(s, writers_go_first, 60);
	SUITE_CASE(s, writer_gives_up, 60);
	SUITE_CASE(s, reader_behind_gives_up, 60);
	return suite_run(s);
}
