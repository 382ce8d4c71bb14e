/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-api: what each reader-writer lock function returns in each state, the fields glibc leaves, who may go
 * on while a writer waits.
 *
 * The table of return codes is run on the functions that this program is bound to, on the names of old binaries, and
 * on glibc's own, so that a wrong table cannot excuse a wrong library.  It would catch: a return code or a field that
 * differs, a call that writes errno, a deadline read in the wrong clock or refused where glibc takes it, an unlock
 * that takes a read lock for a write lock or finds another lock's entry, a reader that waits for a writer that waits
 * for it, a writer-preferring lock that lets readers overtake or leaves them behind when the writer has given up.
 */

#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PREFERENCES = 3, ERRNO_MARK = 4242, READER_SHIFT = 3 };

static const int64_t LATE_NS = 10000000000;

static const struct kind preferences[PREFERENCES] = {
	{"default", PTHREAD_RWLOCK_PREFER_READER_NP},
	{"prefer-writer", PTHREAD_RWLOCK_PREFER_WRITER_NP}, /* which glibc treats much as the default */
	{"nonrecursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP},
};
enum { RECURSIVE_KINDS = 2, NONRECURSIVE = 2 };

/* ---- the functions under three names ---- */

struct rwlock_api {
	const char *name;
	int (*init)(pthread_rwlock_t *, const pthread_rwlockattr_t *);
	int (*destroy)(pthread_rwlock_t *);
	int (*rdlock)(pthread_rwlock_t *);
	int (*tryrdlock)(pthread_rwlock_t *);
	int (*timedrdlock)(pthread_rwlock_t *, const struct timespec *);
	int (*clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*wrlock)(pthread_rwlock_t *);
	int (*trywrlock)(pthread_rwlock_t *);
	int (*timedwrlock)(pthread_rwlock_t *, const struct timespec *);
	int (*clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*unlock)(pthread_rwlock_t *);
};

static const struct rwlock_api bound = {
	.name = "bound",
	.init = pthread_rwlock_init,
	.destroy = pthread_rwlock_destroy,
	.rdlock = pthread_rwlock_rdlock,
	.tryrdlock = pthread_rwlock_tryrdlock,
	.timedrdlock = pthread_rwlock_timedrdlock,
	.clockrdlock = pthread_rwlock_clockrdlock,
	.wrlock = pthread_rwlock_wrlock,
	.trywrlock = pthread_rwlock_trywrlock,
	.timedwrlock = pthread_rwlock_timedwrlock,
	.clockwrlock = pthread_rwlock_clockwrlock,
	.unlock = pthread_rwlock_unlock,
};

/* A handle's search never passes through preloaded objects. */
static void *glibc_own(const char *name)
{
	static const char *const homes[] = {"libpthread.so.0", "libc.so.6"}; /* the first until 2.33 */

	for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
		void *handle = dlopen(homes[i], RTLD_LAZY | RTLD_NOLOAD);
		void *symbol = handle ? dlsym(handle, name) : NULL;
		Dl_info where;

		if (symbol && dladdr(symbol, &where) && !strstr(where.dli_fname, "libparkade"))
			return symbol;
	}
	ck_abort_msg("glibc's own %s is not to be found", name);
	return NULL;
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

static void rwlock_make(const struct rwlock_api *api, pthread_rwlock_t *l, int kind, int shared)
{
	pthread_rwlockattr_t attr;

	MUST(pthread_rwlockattr_init(&attr));
	MUST(pthread_rwlockattr_setkind_np(&attr, kind));
	MUST(pthread_rwlockattr_setpshared(&attr, shared));
	MUST(api->init(l, &attr));
	MUST(pthread_rwlockattr_destroy(&attr));
}

/* Many threads read at once, so that the library may count this lock's readers elsewhere from here on. */
static void read_often(int index, void *arg)
{
	uint64_t end = now_ns() + 10000000;
	(void)index;

	while (now_ns() < end)
		for (int i = 0; i < 50; i++) {
			MUST(pthread_rwlock_rdlock(arg));
			MUST(pthread_rwlock_unlock(arg));
		}
}

static void warm_up(pthread_rwlock_t *l)
{
	team_run(4, read_often, l);
}

/* ---- errands: a call made by some thread ---- */

enum side { READ, WRITE };
enum how {
	PLAIN,
	TRY,
	AHEAD,
	CLOCK_AHEAD,
	PAST,
	NEGATIVE,
	CLOCK_PAST,
	BAD_NS,
	NEGATIVE_NS,
	CLOCK_BAD_NS,
	BAD_CLOCK,
	HOWS
};
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

struct errand {
	const struct rwlock_api *api;
	pthread_rwlock_t *l;
	enum side side;
	enum how how;
	int64_t ahead_ns; /* of the deadlines ahead; 0: a minute */
	unsigned hold_us;
	atomic_int *order; /* takes a number when it has the lock, if it is to unlock it, too */
	pid_t tid;
	int rc, errno_after, place;
	atomic_int state; /* 1 about to call, 2 the call returned, 3 told to end */
};

static void call(void *arg)
{
	struct errand *e = arg;
	const struct rwlock_api *a = e->api;
	int (*plain)(pthread_rwlock_t *) = e->side == READ ? a->rdlock : a->wrlock;
	int (*try)(pthread_rwlock_t *) = e->side == READ ? a->tryrdlock : a->trywrlock;
	int (*timed)(pthread_rwlock_t *, const struct timespec *) = e->side == READ ? a->timedrdlock : a->timedwrlock;
	int (*clocked)(pthread_rwlock_t *, clockid_t, const struct timespec *) =
		e->side == READ ? a->clockrdlock : a->clockwrlock;
	int64_t ns = e->how == PAST || e->how == CLOCK_PAST ? -1000000 : e->ahead_ns ? e->ahead_ns : 60000000000;
	struct timespec real = deadline(CLOCK_REALTIME, ns), mono = deadline(CLOCK_MONOTONIC, ns);

	if (e->how == BAD_NS || e->how == CLOCK_BAD_NS)
		real.tv_nsec = mono.tv_nsec = 1000000000;
	if (e->how == NEGATIVE_NS)
		real.tv_nsec = -1;
	if (e->how == NEGATIVE)
		real = (struct timespec){-1, 0};
	e->tid = gettid();
	errno = ERRNO_MARK;
	atomic_store(&e->state, 1);
	switch (e->how) {
	case PLAIN:
		e->rc = plain(e->l);
		break;
	case TRY:
		e->rc = try(e->l);
		break;
	case CLOCK_AHEAD:
	case CLOCK_PAST:
	case CLOCK_BAD_NS:
		e->rc = clocked(e->l, CLOCK_MONOTONIC, &mono);
		break;
	case BAD_CLOCK:
		e->rc = clocked(e->l, CLOCK_PROCESS_CPUTIME_ID, &real);
		break;
	default:
		e->rc = timed(e->l, &real);
		break;
	}
	e->errno_after = errno;
	if (e->order)
		e->place = atomic_fetch_add(e->order, 1);
	atomic_store(&e->state, 2);
}

static void unlock(void *arg)
{
	struct errand *e = arg;

	errno = ERRNO_MARK;
	MUST(e->api->unlock(e->l));
	WANT(errno, ERRNO_MARK);
}

static void call_hold_unlock(void *arg)
{
	struct errand *e = arg;

	call(arg);
	if (e->hold_us)
		sleep_us(e->hold_us);
	if (e->rc == 0)
		unlock(arg);
}

static void call_until_told(void *arg)
{
	struct errand *e = arg;

	call(arg);
	while (atomic_load(&e->state) != 3)
		sleep_us(100);
	if (e->rc == 0)
		unlock(arg);
}

static void await_state(struct errand *e, int state)
{
	while (atomic_load(&e->state) < state)
		sleep_us(100);
}

static bool asleep(pid_t tid)
{
	char name[64], text[512], *state;
	int fd;
	ssize_t n;

	snprintf(name, sizeof name, "/proc/self/task/%d/stat", tid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

/* Waits until a call has certainly begun to wait (a huge spin budget never sleeps: then it has had long enough). */
static void await_asleep(struct errand *e)
{
	uint64_t end = now_ns() + 1000000000;

	await_state(e, 1);
	sleep_us(1000);
	while (now_ns() < end && atomic_load(&e->state) == 1 && !asleep(e->tid))
		sleep_us(1000);
	sleep_us(5000);
}

/* What another thread can have, without keeping it. */
static int probe(struct servant *s, const struct rwlock_api *api, pthread_rwlock_t *l, enum side side)
{
	struct errand e = {.api = api, .l = l, .side = side, .how = TRY};

	servant_do(s, call_hold_unlock, &e);
	ck_assert_int_eq(e.errno_after, ERRNO_MARK);
	return e.rc;
}

static void assert_free(const struct rwlock_api *api, pthread_rwlock_t *l)
{
	ck_assert_int_eq(l->__data.__cur_writer, 0);
	ck_assert_uint_eq(l->__data.__readers >> READER_SHIFT, 0);
	ck_assert_int_eq(api->trywrlock(l), 0);
	ck_assert_int_eq(l->__data.__cur_writer, gettid());
	ck_assert_int_eq(api->unlock(l), 0);
	ck_assert_int_eq(l->__data.__cur_writer, 0);
	ck_assert_uint_eq(l->__data.__readers >> READER_SHIFT, 0);
	ck_assert_int_eq(api->tryrdlock(l), 0);
	ck_assert_int_eq(api->unlock(l), 0);
	ck_assert_uint_eq(l->__data.__readers >> READER_SHIFT, 0);
}

/* ---- the table ---- */

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

	ck_assert_int_ne(dladdr(dlsym(RTLD_DEFAULT, "pthread_rwlock_rdlock"), &here), 0);
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

/* ---- unlock knows what it unlocks ---- */

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

/* ---- process-shared ---- */

struct shop {
	pthread_rwlock_t l;
	volatile unsigned long a, b;
	atomic_int open;
};

static void shop_work(struct shop *shop, uint32_t luck)
{
	for (uint64_t end = now_ns() + suite_scale(150) * 1000000; now_ns() < end && !complained();) {
		struct timespec t = deadline(CLOCK_REALTIME, dice(&luck) % 50000);
		int rc;

		switch (luck % 4) {
		case 0:
			MUST(pthread_rwlock_wrlock(&shop->l));
			shop->a++;
			if (luck / 4 % 16 == 0)
				sleep_us(100);
			shop->b++;
			break;
		case 1:
			rc = pthread_rwlock_timedrdlock(&shop->l, &t);
			if (rc == ETIMEDOUT)
				continue;
			WANT(rc, 0);
			break;
		default:
			MUST(pthread_rwlock_rdlock(&shop->l));
			break;
		}
		if (shop->a != shop->b)
			complain("two processes were inside");
		MUST(pthread_rwlock_unlock(&shop->l));
	}
}

START_TEST(process_shared)
{
	struct shop *shop = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	ck_assert_ptr_ne(shop, MAP_FAILED);
	rwlock_make(&bound, &shop->l, preferences[_i].type, PTHREAD_PROCESS_SHARED);
	ck_assert_int_eq(pthread_rwlock_wrlock(&shop->l), 0);
	if ((child = fork()) == 0) {
		alarm(60);
		WANT(pthread_rwlock_tryrdlock(&shop->l), EBUSY);
		WANT(pthread_rwlock_trywrlock(&shop->l), EBUSY);
		atomic_store(&shop->open, 1);
		MUST(pthread_rwlock_rdlock(&shop->l));
		MUST(pthread_rwlock_rdlock(&shop->l));
		atomic_store(&shop->open, 2);
		sleep_us(20000);
		MUST(pthread_rwlock_unlock(&shop->l));
		MUST(pthread_rwlock_unlock(&shop->l));
		shop_work(shop, 77);
		child_exit();
	}
	while (!atomic_load(&shop->open))
		sleep_us(100);
	sleep_us(10000);
	ck_assert_int_eq(atomic_load(&shop->open), 1);
	ck_assert_int_eq(pthread_rwlock_unlock(&shop->l), 0);
	while (atomic_load(&shop->open) != 2)
		sleep_us(100);
	ck_assert_int_eq(pthread_rwlock_wrlock(&shop->l), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(&shop->l), 0);
	shop_work(shop, 88);
	child_reap(child, "the other process");
	assert_no_complaint();
	assert_free(&bound, &shop->l);
	ck_assert_int_eq(pthread_rwlock_destroy(&shop->l), 0);
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
	SUITE_CASE_OF(s, errno_kept_by_waiters, 60, PREFERENCES);
	SUITE_CASE_OF(s, errno_kept_by_waker, 60, PREFERENCES);
	SUITE_CASE_OF(s, readers_pass_a_waiting_writer, 60, RECURSIVE_KINDS);
	SUITE_CASE_OF(s, many_recursions_pass_writers, 60, RECURSIVE_KINDS);
	SUITE_CASE(s, writers_go_first, 60);
	SUITE_CASE(s, writer_gives_up, 60);
	SUITE_CASE(s, reader_behind_gives_up, 60);
	SUITE_CASE_OF(s, many_held_at_once, 60, 2);
	SUITE_CASE(s, unlocked_by_another, 60);
	SUITE_CASE(s, stale_entries, 60);
	SUITE_CASE_OF(s, process_shared, 60, PREFERENCES);
	return suite_run(s);
}
