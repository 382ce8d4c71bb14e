/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-api: what each reader-writer lock function returns in each state, and the fields glibc leaves.
 *
 * The table of return codes is run on the functions that this program is bound to, on the names of old binaries, and
 * on glibc's own, so that a wrong table cannot excuse a wrong library.  Calls are errands (errand.h).
 *
 * It would catch: a return code or a field that differs, a call that writes errno, a deadline read in the wrong clock
 * or refused where glibc takes it, a reader more than can be counted, an old name that is another library's.
 */

#include "errand.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- the functions under three names ---- */

static void *glibc_own(const char *name)
{
	return glibc_symbol(name, NULL);
}

/* What a binary from before 2.34 is bound to; where glibc has no such name, there are no such binaries. */
static void *old_name(const char *name)
{
	static const char *const nodes[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.27"};
	void *symbol = dlsym(RTLD_DEFAULT, name);

	for (size_t i = 0; !symbol && i < sizeof nodes / sizeof nodes[0]; i++)
		symbol = dlvsym(RTLD_DEFAULT, name, nodes[i]);
	return symbol;
}

#define GET(api, field, find, name)                                                                                    \
	do {                                                                                                           \
		__typeof__((api)->field) found = (__typeof__((api)->field))find(name);                                 \
		if (found)                                                                                             \
			(api)->field = found;                                                                          \
	} while (0)

static const struct rwlock_api *glibc_api(void)
{
	static struct rwlock_api own = {.name = "glibc"};

	GET(&own, init, glibc_own, "pthread_rwlock_init");
	GET(&own, destroy, glibc_own, "pthread_rwlock_destroy");
	GET(&own, rdlock, glibc_own, "pthread_rwlock_rdlock");
	GET(&own, tryrdlock, glibc_own, "pthread_rwlock_tryrdlock");
	GET(&own, timedrdlock, glibc_own, "pthread_rwlock_timedrdlock");
	GET(&own, clockrdlock, glibc_own, "pthread_rwlock_clockrdlock");
	GET(&own, wrlock, glibc_own, "pthread_rwlock_wrlock");
	GET(&own, trywrlock, glibc_own, "pthread_rwlock_trywrlock");
	GET(&own, timedwrlock, glibc_own, "pthread_rwlock_timedwrlock");
	GET(&own, clockwrlock, glibc_own, "pthread_rwlock_clockwrlock");
	GET(&own, unlock, glibc_own, "pthread_rwlock_unlock");
	return &own;
}

/* The timed ones never had an old name. */
static const struct rwlock_api *old_api(void)
{
	static struct rwlock_api old;

	old = bound;
	old.name = "old names";
	GET(&old, init, old_name, "__pthread_rwlock_init");
	GET(&old, destroy, old_name, "__pthread_rwlock_destroy");
	GET(&old, rdlock, old_name, "__pthread_rwlock_rdlock");
	GET(&old, tryrdlock, old_name, "__pthread_rwlock_tryrdlock");
	GET(&old, wrlock, old_name, "__pthread_rwlock_wrlock");
	GET(&old, trywrlock, old_name, "__pthread_rwlock_trywrlock");
	GET(&old, unlock, old_name, "__pthread_rwlock_unlock");
	return &old;
}

/* ---- the table ---- */

static const char *const side_names[] = {"rd", "wr"};
static const char *const how_names[] = {"lock",
					"trylock",
					"timedlock(ahead)",
					"clocklock(ahead)",
					"timedlock(past)",
					"timedlock(negative)",
					"clocklock(past)",
					"timedlock(10^9 ns)",
					"timedlock(-1 ns)",
					"clocklock(10^9 ns)",
					"clocklock(bad clock)"};

enum state { FREE, I_READ, I_WRITE, OTHER_READS, OTHER_WRITES, BOTH_READ, STATES, ALONE = OTHER_READS };
static const char *const state_names[] = {
	"free", "read by me", "written by me", "read by another", "written by another", "read by both"};

/* Clock and nanoseconds are always looked at, the time only by who must wait; -1: it would wait. */
static int wanted(enum state state, enum side side, enum how how)
{
	if (how >= BAD_NS)
		return EINVAL;
	if (state == FREE || (side == READ && state != I_WRITE && state != OTHER_WRITES))
		return 0;
	if (how == TRY)
		return EBUSY;
	if (state == I_WRITE)
		return EDEADLK;
	return how >= PAST ? ETIMEDOUT : -1;
}

static void state_enter(const struct rwlock_api *api, pthread_rwlock_t *l, enum state state, struct servant *s)
{
	struct errand mine = {.api = api, .l = l, .side = state == I_WRITE ? WRITE : READ};
	struct errand other = {.api = api, .l = l, .side = state == OTHER_WRITES ? WRITE : READ};

	if (state == I_READ || state == I_WRITE || state == BOTH_READ) {
		call(&mine);
		ck_assert_int_eq(mine.rc, 0);
	}
	if (state >= ALONE) {
		servant_do(s, call, &other);
		ck_assert_int_eq(other.rc, 0);
	}
}

static void state_leave(const struct rwlock_api *api, pthread_rwlock_t *l, enum state state, struct servant *s)
{
	struct errand e = {.api = api, .l = l};

	if (state == I_READ || state == I_WRITE || state == BOTH_READ)
		unlock(&e);
	if (state >= ALONE)
		servant_do(s, unlock, &e);
	assert_no_complaint();
	assert_free(api, l);
}

static void table_run(const struct rwlock_api *api, pthread_rwlock_t *l, struct servant *s, bool warm)
{
	for (enum state state = 0; state < (s ? STATES : ALONE); state++)
		for (enum side side = READ; side <= WRITE; side++) {
			if (warm)
				warm_up(l);
			state_enter(api, l, state, s);
			if (warm && wanted(state, READ, TRY) == 0 && state != FREE)
				warm_up(l);
			for (enum how how = 0; how < HOWS; how++) {
				struct errand e = {.api = api, .l = l, .side = side, .how = how};
				int rc = wanted(state, side, how), writer = l->__data.__cur_writer;

				if (rc < 0)
					continue;
				call(&e);
				ck_assert_msg(e.rc == rc, "%s, %s%s of a lock %s: %d, wanted %d", api->name,
					      side_names[side], how_names[how], state_names[state], e.rc, rc);
				ck_assert_msg(e.errno_after == ERRNO_MARK, "%s, %s%s of a lock %s: errno became %d",
					      api->name, side_names[side], how_names[how], state_names[state],
					      e.errno_after);
				if (rc == 0 && side == WRITE)
					ck_assert_int_eq(l->__data.__cur_writer, gettid());
				if (rc == 0)
					unlock(&e);
				ck_assert_int_eq(l->__data.__cur_writer, writer);
			}
			ck_assert_int_eq(l->__data.__cur_writer != 0, state == I_WRITE || state == OTHER_WRITES);
			if (state == I_WRITE)
				ck_assert_int_eq(l->__data.__cur_writer, gettid());
			state_leave(api, l, state, s);
		}
}

static void table_of(const struct rwlock_api *api, int kind, struct servant *s, bool warm)
{
	pthread_rwlock_t l;

	rwlock_make(api, &l, kind, PTHREAD_PROCESS_PRIVATE);
	ck_assert_int_eq(l.__data.__flags, kind);
	table_run(api, &l, s, warm);
	ck_assert_int_eq(l.__data.__flags, kind);
	errno = ERRNO_MARK;
	ck_assert_int_eq(api->destroy(&l), 0);
	ck_assert_int_eq(errno, ERRNO_MARK);
}

/* Before any thread was made. */
START_TEST(table_alone)
{
	table_of(&bound, preferences[_i].type, NULL, false);
	table_of(glibc_api(), preferences[_i].type, NULL, false);
	table_of(old_api(), preferences[_i].type, NULL, false);
}
END_TEST

START_TEST(table_two_threads)
{
	struct servant *s = servant_hire();

	table_of(&bound, preferences[_i].type, s, false);
	table_of(&bound, preferences[_i].type, s, true);
	table_of(glibc_api(), preferences[_i].type, s, false);
	table_of(old_api(), preferences[_i].type, s, false);
	table_of(old_api(), preferences[_i].type, s, true);
	servant_dismiss(s);
}
END_TEST

/* Old names and new ones are the same functions' names: a lock may be taken by one and let go by the other. */
START_TEST(old_names_mix)
{
	static const char *const names[] = {"__pthread_rwlock_init",   "__pthread_rwlock_destroy",
					    "__pthread_rwlock_rdlock", "__pthread_rwlock_tryrdlock",
					    "__pthread_rwlock_wrlock", "__pthread_rwlock_trywrlock",
					    "__pthread_rwlock_unlock"};
	const struct rwlock_api *a[] = {&bound, old_api()};
	struct servant *s = servant_hire();
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	Dl_info here, there;
	int found = 0;

	ck_assert_int_ne(dladdr(dlsym(RTLD_NEXT, "pthread_rwlock_rdlock"), &here), 0);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (old_name(names[i]) && ++found) {
			ck_assert_int_ne(dladdr(old_name(names[i]), &there), 0);
			ck_assert_msg(here.dli_fbase == there.dli_fbase, "%s is in %s, pthread_rwlock_rdlock in %s",
				      names[i], there.dli_fname, here.dli_fname);
		}
	if (!found)
		say("SKIP: this glibc has no old names of reader-writer locks");
	for (int in = 0; in < 2; in++)
		for (int out = 0; out < 2; out++)
			for (int warm = 0; warm < 2; warm++) {
				if (warm)
					warm_up(&l);
				ck_assert_int_eq(a[in]->rdlock(&l), 0);
				ck_assert_int_eq(a[in]->tryrdlock(&l), 0);
				ck_assert_int_eq(probe(s, a[out], &l, WRITE), EBUSY);
				ck_assert_int_eq(a[out]->unlock(&l), 0);
				ck_assert_int_eq(probe(s, a[out], &l, WRITE), EBUSY);
				ck_assert_int_eq(probe(s, a[out], &l, READ), 0);
				ck_assert_int_eq(a[out]->unlock(&l), 0);
				assert_free(a[out], &l);
				ck_assert_int_eq(a[in]->wrlock(&l), 0);
				ck_assert_int_eq(probe(s, a[out], &l, READ), EBUSY);
				ck_assert_int_eq(probe(s, a[out], &l, WRITE), EBUSY);
				ck_assert_int_eq(a[out]->unlock(&l), 0);
				ck_assert_int_eq(a[in]->trywrlock(&l), 0);
				ck_assert_int_eq(a[out]->unlock(&l), 0);
				assert_free(a[out], &l);
			}
	servant_dismiss(s);
}
END_TEST

/* ---- making ---- */

/* init over rubbish: the fields that mean something are glibc's, and the lock works. */
START_TEST(init_fields)
{
	for (int kind = 0; kind < PREFERENCES; kind++)
		for (int shared = 0; shared < 2; shared++) {
			pthread_rwlock_t a, b;

			memset(&a, 0xa5, sizeof a);
			memset(&b, 0xa5, sizeof b);
			rwlock_make(&bound, &a, preferences[kind].type, shared);
			rwlock_make(glibc_api(), &b, preferences[kind].type, shared);
			ck_assert_int_eq(a.__data.__flags, b.__data.__flags);
			ck_assert_int_eq(a.__data.__shared, b.__data.__shared);
			ck_assert_uint_eq(a.__data.__readers, b.__data.__readers);
			ck_assert_int_eq(a.__data.__cur_writer, b.__data.__cur_writer);
			table_run(&bound, &a, NULL, false);
			ck_assert_int_eq(a.__data.__flags, b.__data.__flags);
			ck_assert_int_eq(a.__data.__shared, b.__data.__shared);
			ck_assert_int_eq(pthread_rwlock_destroy(&a), 0);
			ck_assert_int_eq(pthread_rwlock_init(&a, NULL), 0);
			ck_assert_int_eq(a.__data.__flags, 0);
			table_run(&bound, &a, NULL, false);
		}
	assert_no_complaint();
}
END_TEST

/* The initialisers, and memory that nobody initialised: zero is a lock of the default kind. */
START_TEST(initialisers)
{
	static pthread_rwlock_t zero;
	pthread_rwlock_t l[] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, zero};
	static const int flags[] = {0, 2, 0};

	for (int threads = 0; threads < 2; threads++) {
		struct servant *s = threads ? servant_hire() : NULL;

		for (int i = 0; i < 3; i++) {
			table_run(&bound, &l[i], s, false);
			ck_assert_int_eq(l[i].__data.__flags, flags[i]);
		}
		if (s)
			servant_dismiss(s);
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_rwlock_destroy(&l[i]), 0);
}
END_TEST

/* No more readers than the word can count; who is refused is not counted. */
START_TEST(reader_limit)
{
	static const enum how hows[] = {PLAIN, TRY, AHEAD, CLOCK_AHEAD, PAST, CLOCK_PAST};
	const struct rwlock_api *apis[] = {&bound, glibc_api(), old_api()};
	const unsigned limit = 0x7ffffff8u;

	for (size_t a = 0; a < 3; a++) {
		pthread_rwlock_t l;

		rwlock_make(apis[a], &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
		l.__data.__readers = limit;
		for (size_t h = 0; h < sizeof hows / sizeof hows[0]; h++) {
			struct errand e = {.api = apis[a], .l = &l, .how = hows[h]};

			call(&e);
			ck_assert_msg(e.rc == EAGAIN, "%s, rd%s at the limit: %d", apis[a]->name, how_names[hows[h]],
				      e.rc);
			ck_assert_int_eq(e.errno_after, ERRNO_MARK);
			ck_assert_uint_eq(l.__data.__readers, limit);
		}
		ck_assert_int_eq(apis[a]->trywrlock(&l), EBUSY);
		l.__data.__readers = limit - (1u << READER_SHIFT);
		ck_assert_int_eq(apis[a]->rdlock(&l), 0);
		ck_assert_int_eq(apis[a]->rdlock(&l), EAGAIN);
		ck_assert_int_eq(apis[a]->unlock(&l), 0);
		ck_assert_int_eq(apis[a]->rdlock(&l), 0);
		ck_assert_int_eq(apis[a]->unlock(&l), 0);
		l.__data.__readers = 0;
		assert_free(apis[a], &l);
	}
}
END_TEST

/* ---- waiting ---- */

/* Who waits for whom; a reader does not wait for a reader. */
static const struct pair {
	enum side holder, waiter;
} pairs[] = {{READ, WRITE}, {WRITE, READ}, {WRITE, WRITE}};
enum { PAIRS = 3 };

/* A deadline ahead: never early, in either clock; and who gave up leaves a lock that works. */
START_TEST(deadline_ahead)
{
	static const int64_t aheads[] = {1, 1000, 50000, 2000000, 30000000};
	struct servant *s = servant_hire();
	pthread_rwlock_t l;

	rwlock_make(&bound, &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
	for (size_t i = 0; i < sizeof aheads / sizeof aheads[0]; i++)
		for (int n = 0; n < 2 * PAIRS; n++) {
			const struct pair *p = &pairs[n / 2];
			clockid_t clock = n % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
			struct errand h = {.api = &bound, .l = &l, .side = p->holder};
			struct timespec until, now;
			int64_t late;
			int rc;

			servant_begin(s, call_until_told, &h);
			await_state(&h, 2);
			until = deadline(clock, aheads[i]);
			errno = ERRNO_MARK;
			if (p->waiter == READ)
				rc = clock == CLOCK_REALTIME ? pthread_rwlock_timedrdlock(&l, &until)
							     : pthread_rwlock_clockrdlock(&l, clock, &until);
			else
				rc = clock == CLOCK_REALTIME ? pthread_rwlock_timedwrlock(&l, &until)
							     : pthread_rwlock_clockwrlock(&l, clock, &until);
			ck_assert_int_eq(errno, ERRNO_MARK);
			clock_gettime(clock, &now);
			ck_assert_int_eq(rc, ETIMEDOUT);
			late = (now.tv_sec - until.tv_sec) * 1000000000LL + now.tv_nsec - until.tv_nsec;
			ck_assert_msg(late >= 0, "gave up %lld ns early", (long long)-late);
			ck_assert_msg(late < LATE_NS, "gave up %lld ns late", (long long)late);
			atomic_store(&h.state, 3);
			servant_end(s);
			assert_free(&bound, &l);
		}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* With glibc no time at all is no deadline. */
START_TEST(null_deadline)
{
	const struct timespec *volatile never = NULL;
	pthread_rwlock_t l;

	rwlock_make(&bound, &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
	ck_assert_int_eq(pthread_rwlock_timedrdlock(&l, never), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
	ck_assert_int_eq(pthread_rwlock_timedwrlock(&l, never), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
	ck_assert_int_eq(pthread_rwlock_clockrdlock(&l, CLOCK_MONOTONIC, never), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
	ck_assert_int_eq(pthread_rwlock_clockwrlock(&l, CLOCK_MONOTONIC, never), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(&l), 0);
	assert_free(&bound, &l);
}
END_TEST

/* errno and the fields after real waiting, briefly (perhaps spinning) and long (surely asleep). */
START_TEST(errno_kept_by_waiters)
{
	static const unsigned holds[] = {0, 20, 300, 3000, 30000};
	static const enum how hows[] = {PLAIN, AHEAD, CLOCK_AHEAD};
	struct servant *s = servant_hire();
	pthread_rwlock_t l;

	rwlock_make(&bound, &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
	for (size_t i = 0; i < sizeof holds / sizeof holds[0]; i++)
		for (int n = 0; n < 3 * PAIRS; n++) {
			const struct pair *p = &pairs[n / 3];
			struct errand h = {.api = &bound, .l = &l, .side = p->holder, .hold_us = holds[i]};
			struct errand e = {.api = &bound, .l = &l, .side = p->waiter, .how = hows[n % 3]};

			servant_begin(s, call_hold_unlock, &h);
			await_state(&h, 2);
			call(&e);
			ck_assert_int_eq(e.rc, 0);
			ck_assert_int_eq(e.errno_after, ERRNO_MARK);
			ck_assert_int_eq(l.__data.__cur_writer, p->waiter == WRITE ? gettid() : 0);
			unlock(&e);
			servant_end(s);
			assert_free(&bound, &l);
		}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* The same for the unlocker with sleepers to wake, which get the lock. */
START_TEST(errno_kept_by_waker)
{
	struct servant *s[2] = {servant_hire(), servant_hire()};
	pthread_rwlock_t l;

	rwlock_make(&bound, &l, preferences[_i].type, PTHREAD_PROCESS_PRIVATE);
	for (int round = 0; round < 4 * PAIRS; round++) {
		const struct pair *p = &pairs[round % PAIRS];
		struct errand h = {.api = &bound, .l = &l, .side = p->holder};
		struct errand e[2] = {{.api = &bound, .l = &l, .side = p->waiter},
				      {.api = &bound, .l = &l, .side = p->waiter, .how = AHEAD}};

		call(&h);
		for (int i = 0; i < 2; i++) {
			servant_begin(s[i], call_hold_unlock, &e[i]);
			await_asleep(&e[i]);
			ck_assert_int_eq(atomic_load(&e[i].state), 1);
		}
		unlock(&h);
		for (int i = 0; i < 2; i++) {
			servant_end(s[i]);
			ck_assert_int_eq(e[i].rc, 0);
		}
		assert_free(&bound, &l);
	}
	for (int i = 0; i < 2; i++)
		servant_dismiss(s[i]);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-api");

	SUITE_CASE_OF(s, table_alone, 60, PREFERENCES);
	SUITE_CASE_OF(s, table_two_threads, 60, PREFERENCES);
	SUITE_CASE(s, old_names_mix, 60);
	SUITE_CASE(s, init_fields, 60);
	SUITE_CASE(s, initialisers, 60);
	SUITE_CASE_OF(s, reader_limit, 60, PREFERENCES);
	SUITE_CASE_OF(s, deadline_ahead, 60, PREFERENCES);
	SUITE_CASE_OF(s, null_deadline, 60, PREFERENCES);
	SUITE_CASE_OF(s, errno_kept_by_waiters, 60, PREFERENCES);
	SUITE_CASE_OF(s, errno_kept_by_waker, 60, PREFERENCES);
	return suite_run(s);
}
