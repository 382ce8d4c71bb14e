/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite c11: mtx_* and cnd_* of <threads.h>, call by call as glibc's, and in use.
 *
 * Each table was written from glibc's behaviour and runs in step on two objects, one by the functions that this
 * program is bound to, one by glibc's own: return codes and bytes must be the same.  glibc's mtx_t and cnd_t have
 * the layout of its pthread types, and programs pass one for the other: some cases do.  It would catch: an error
 * that is mapped to another result, a type that is taken for another, a field that differs, a call that writes
 * errno, a deadline in the wrong clock, C11 calls that are served by one library and pthread calls by another, a
 * wake-up that is lost between them.
 */

#include "suite.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is a pthread_mutex_t");
static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t is a pthread_cond_t");

enum { ERRNO_MARK = 4242 };

/*
 * Rounds end early where they are slow (huge spin budgets on few CPUs), but for a few; what was begun is counted to
 * its end.
 */
enum { SCENE_MS = 60, FEW = 5 };

/* All that mtx_init takes. */
static const struct {
	const char *name;
	int type;
	bool recursive;
} types[] = {
	{"plain", mtx_plain, false},
	{"timed", mtx_timed, false},
	{"plain recursive", mtx_plain | mtx_recursive, true},
	{"timed recursive", mtx_timed | mtx_recursive, true},
};
enum { TYPES = sizeof types / sizeof types[0] };

static pthread_mutex_t *as_mutex(mtx_t *m)
{
	return (pthread_mutex_t *)m;
}

static pthread_cond_t *as_cond(cnd_t *c)
{
	return (pthread_cond_t *)c;
}

/* ---- the functions as this program is bound, and glibc's own ---- */

struct c11_api {
	const char *name;
	int (*mtx_init)(mtx_t *, int);
	int (*mtx_lock)(mtx_t *);
	int (*mtx_trylock)(mtx_t *);
	int (*mtx_timedlock)(mtx_t *, const struct timespec *);
	int (*mtx_unlock)(mtx_t *);
	void (*mtx_destroy)(mtx_t *);
	int (*cnd_init)(cnd_t *);
	int (*cnd_wait)(cnd_t *, mtx_t *);
	int (*cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);
	int (*cnd_signal)(cnd_t *);
	int (*cnd_broadcast)(cnd_t *);
	void (*cnd_destroy)(cnd_t *);
};

#define C11_FUNCTIONS(f)                                                                                               \
	f(mtx_init) f(mtx_lock) f(mtx_trylock) f(mtx_timedlock) f(mtx_unlock) f(mtx_destroy) f(cnd_init) f(cnd_wait)   \
		f(cnd_timedwait) f(cnd_signal) f(cnd_broadcast) f(cnd_destroy)

/* A handle's search never passes through preloaded objects; before 2.34 they are in libpthread. */
static void *glibc_symbol(const char *name)
{
	static const char *const homes[] = {"libpthread.so.0", "libc.so.6"};

	for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
		void *handle = dlopen(homes[i], RTLD_LAZY | RTLD_NOLOAD), *symbol = handle ? dlsym(handle, name) : NULL;
		Dl_info where;

		if (symbol && dladdr(symbol, &where) && !strstr(where.dli_fname, "libparkade"))
			return symbol;
	}
	say("glibc's own %s is not to be found", name);
	exit(EXIT_FAILURE);
}

static const struct c11_api *bound(void)
{
#define BOUND(function) .function = function,
	static const struct c11_api api = {.name = "bound", C11_FUNCTIONS(BOUND)};

	return &api;
}

static const struct c11_api *glibc(void)
{
	static struct c11_api api;

#define GLIBC(function) api.function = (__typeof__(api.function))glibc_symbol(#function);
	if (!api.name) {
		C11_FUNCTIONS(GLIBC)
		api.name = "glibc";
	}
	return &api;
}

/* A deadline in TIME_UTC, C11's only clock. */
static struct timespec utc(int64_t ns_from_now)
{
	return deadline(CLOCK_REALTIME, ns_from_now);
}

static bool utc_passed(const struct timespec *t)
{
	struct timespec now;

	if (timespec_get(&now, TIME_UTC) != TIME_UTC)
		complain("no TIME_UTC");
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* ---- tables: who calls what, and what it returns ---- */

enum who { M, O }; /* the main thread, another one */
enum op { LOCK, TRY, PAST, NEGATIVE, BADNS, UNLOCK, DESTROY, END };

static const char *const op_names[] = {
	"lock", "trylock", "timedlock(past)", "timedlock(negative)", "timedlock(bad ns)", "unlock", "destroy",
};

struct step {
	enum who who;
	enum op op;
	int rc;
};

/* mtx_destroy tells nothing, and does nothing to a mutex that is held; one that is destroyed takes no call. */
#define DESTROYED                                                                                                      \
	{M, DESTROY, 0}, {M, LOCK, thrd_error}, {M, TRY, thrd_error}, {M, PAST, thrd_error}, {M, UNLOCK, thrd_error},  \
	{                                                                                                              \
		M, END, 0                                                                                              \
	}

/* A deadline is looked at only by who must wait. */
static const struct step plain_alone[] = {
	{M, LOCK, thrd_success},
	{M, TRY, thrd_busy},
	{M, DESTROY, 0},
	{M, PAST, thrd_timedout},
	{M, NEGATIVE, thrd_timedout},
	{M, BADNS, thrd_error},
	{M, UNLOCK, thrd_success},
	{M, TRY, thrd_success},
	{M, UNLOCK, thrd_success},
	{M, PAST, thrd_success},
	{M, UNLOCK, thrd_success},
	{M, BADNS, thrd_success},
	{M, UNLOCK, thrd_success},
	DESTROYED,
};

static const struct step plain_two[] = {
	{M, LOCK, thrd_success},
	{O, TRY, thrd_busy},
	{O, PAST, thrd_timedout},
	{O, BADNS, thrd_error},
	{O, DESTROY, 0},
	{O, UNLOCK, thrd_success}, /* not the owner: nobody asks */
	{O, LOCK, thrd_success},
	{M, TRY, thrd_busy},
	{M, NEGATIVE, thrd_timedout},
	{O, UNLOCK, thrd_success},
	{O, PAST, thrd_success},
	{O, UNLOCK, thrd_success},
	DESTROYED,
};

static const struct step recursive_alone[] = {
	{M, UNLOCK, thrd_error},   {M, LOCK, thrd_success},   {M, LOCK, thrd_success},
	{M, TRY, thrd_success},	   {M, PAST, thrd_success},   {M, BADNS, thrd_success},
	{M, DESTROY, 0},	   {M, UNLOCK, thrd_success}, {M, UNLOCK, thrd_success},
	{M, UNLOCK, thrd_success}, {M, UNLOCK, thrd_success}, {M, UNLOCK, thrd_success},
	{M, UNLOCK, thrd_error},   {M, TRY, thrd_success},    {M, UNLOCK, thrd_success},
	{M, BADNS, thrd_success},  {M, UNLOCK, thrd_success}, DESTROYED,
};

static const struct step recursive_two[] = {
	{M, LOCK, thrd_success},   {M, LOCK, thrd_success},	 {O, TRY, thrd_busy},	    {O, UNLOCK, thrd_error},
	{O, PAST, thrd_timedout},  {O, BADNS, thrd_error},	 {M, LOCK, thrd_success},   {M, UNLOCK, thrd_success},
	{M, UNLOCK, thrd_success}, {O, TRY, thrd_busy},		 {M, UNLOCK, thrd_success}, {O, TRY, thrd_success},
	{M, UNLOCK, thrd_error},   {M, NEGATIVE, thrd_timedout}, {O, UNLOCK, thrd_success}, DESTROYED,
};

struct errand {
	const struct c11_api *api;
	mtx_t *m;
	enum op op;
	int rc;
};

static void errand_run(void *arg)
{
	struct errand *e = arg;
	struct timespec past = utc(-1000000), bad = {past.tv_sec + 100, 1000000000}, negative = {-1, 0};

	errno = ERRNO_MARK;
	e->rc = 0;
	switch (e->op) {
	case LOCK:
		e->rc = e->api->mtx_lock(e->m);
		break;
	case TRY:
		e->rc = e->api->mtx_trylock(e->m);
		break;
	case PAST:
		e->rc = e->api->mtx_timedlock(e->m, &past);
		break;
	case NEGATIVE:
		e->rc = e->api->mtx_timedlock(e->m, &negative);
		break;
	case BADNS:
		e->rc = e->api->mtx_timedlock(e->m, &bad);
		break;
	case UNLOCK:
		e->rc = e->api->mtx_unlock(e->m);
		break;
	case DESTROY:
		e->api->mtx_destroy(e->m);
		break;
	case END:
		break;
	}
	if (errno != ERRNO_MARK)
		complain("%s: mtx_%s made errno %d", e->api->name, op_names[e->op], errno);
}

/*
 * The fields that glibc has.  A waiter that gave up may have left 2 in the word, or not: then 1 and 2 are the same.
 * The spin estimate of adaptive mutexes, and what the library keeps behind it, are nobody's business.
 */
static bool same_fields(const mtx_t *a, const mtx_t *b, bool asked)
{
	const struct __pthread_mutex_s *x = &((const pthread_mutex_t *)a)->__data;
	const struct __pthread_mutex_s *y = &((const pthread_mutex_t *)b)->__data;

	return (x->__lock == y->__lock || (asked && x->__lock && y->__lock)) && x->__owner == y->__owner &&
	       x->__count == y->__count && x->__nusers == y->__nusers && x->__kind == y->__kind;
}

static void table_run(int type, const struct step *step, struct servant *servant)
{
	const struct c11_api *api[2] = {bound(), glibc()};
	bool asked = false;
	mtx_t m[2];

	for (int i = 0; i < 2; i++) {
		memset(&m[i], 0xa5, sizeof m[i]);
		ck_assert_int_eq(api[i]->mtx_init(&m[i], types[type].type), thrd_success);
	}
	ck_assert_mem_eq(&m[0], &m[1], sizeof m[0]);
	for (int n = 0; step->op != END; n++, step++) {
		char where[120];

		snprintf(where, sizeof where, "%s mutex, step %d: mtx_%s by the %s thread", types[type].name, n,
			 op_names[step->op], step->who == O ? "other" : "main");
		for (int i = 0; i < 2; i++) {
			struct errand e = {api[i], &m[i], step->op, -1};

			if (step->who == O)
				servant_do(servant, errand_run, &e);
			else
				errand_run(&e);
			ck_assert_msg(e.rc == step->rc, "%s: %s: returned %d, wanted %d", api[i]->name, where, e.rc,
				      step->rc);
		}
		asked |= step->rc == thrd_timedout;
		ck_assert_msg(same_fields(&m[0], &m[1], asked), "%s: the fields differ", where);
		ck_assert_msg(asked || memcmp(&m[0], &m[1], sizeof m[0]) == 0, "%s: the bytes differ", where);
		assert_no_complaint();
	}
}

/* Before any thread was made: the plain stores of a single-threaded process. */
START_TEST(table_alone)
{
	table_run(_i, types[_i].recursive ? recursive_alone : plain_alone, NULL);
}
END_TEST

START_TEST(table_two_threads)
{
	struct servant *s = servant_hire();

	table_run(_i, types[_i].recursive ? recursive_alone : plain_alone, s);
	table_run(_i, types[_i].recursive ? recursive_two : plain_two, s);
	servant_dismiss(s);
}
END_TEST

/* Numbers that are no type: refused or taken for one, as glibc does; the bytes tell which. */
START_TEST(bad_types)
{
	static const int bad[] = {-1, 4, 5, 6, 7, 8, 9, 64, 255, 256, 0x10001, INT32_MAX, INT32_MIN};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		mtx_t a, b;

		memset(&a, 0xa5, sizeof a);
		memset(&b, 0xa5, sizeof b);
		ck_assert_int_eq(bound()->mtx_init(&a, bad[i]), glibc()->mtx_init(&b, bad[i]));
		ck_assert_msg(memcmp(&a, &b, sizeof a) == 0, "mtx_init differs for type %d", bad[i]);
	}
}
END_TEST

/* ---- mutexes that are waited for ---- */

struct hold {
	mtx_t *m;
	atomic_int state; /* 1 held, 2 let go */
};

static void hold_until_told(void *arg)
{
	struct hold *h = arg;

	WANT(mtx_lock(h->m), thrd_success);
	atomic_store(&h->state, 1);
	while (atomic_load(&h->state) != 2)
		sleep_us(200);
	WANT(mtx_unlock(h->m), thrd_success);
}

static void hold_wait(struct hold *h)
{
	while (!atomic_load(&h->state))
		sleep_us(100);
}

/* A deadline ahead: never early, and the waiter that gave up leaves a mutex that works. */
START_TEST(deadline_ahead)
{
	static const int64_t aheads[] = {0, 1, 1000, 50000, 2000000, 20000000};
	struct servant *s = servant_hire();
	mtx_t m;

	ck_assert_int_eq(mtx_init(&m, types[_i].type), thrd_success);
	for (size_t i = 0; i < sizeof aheads / sizeof aheads[0]; i++) {
		struct hold h = {&m, 0};
		struct timespec until;
		int rc;

		servant_begin(s, hold_until_told, &h);
		hold_wait(&h);
		until = utc(aheads[i]);
		errno = ERRNO_MARK;
		rc = mtx_timedlock(&m, &until);
		ck_assert_int_eq(errno, ERRNO_MARK);
		ck_assert_int_eq(rc, thrd_timedout);
		ck_assert_msg(utc_passed(&until), "gave up before the deadline");
		ck_assert_int_eq(mtx_trylock(&m), thrd_busy);
		atomic_store(&h.state, 2);
		servant_end(s);
		ck_assert_int_eq(as_mutex(&m)->__data.__lock, 0);
		ck_assert_int_eq(as_mutex(&m)->__data.__owner, 0);
		ck_assert_uint_eq(as_mutex(&m)->__data.__nusers, 0);
	}
	mtx_destroy(&m);
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* A mutex that is let go in time; errno stays. */
START_TEST(got_in_time)
{
	struct servant *s = servant_hire();
	mtx_t m;

	ck_assert_int_eq(mtx_init(&m, types[_i].type), thrd_success);
	for (int round = 0; round < 20; round++) {
		struct timespec until = utc(60000000000);
		struct hold h = {&m, 0};
		int rc;

		servant_begin(s, hold_until_told, &h);
		hold_wait(&h);
		atomic_store(&h.state, 2); /* the servant sees it some 100 us later */
		errno = ERRNO_MARK;
		rc = round % 2 ? mtx_timedlock(&m, &until) : mtx_lock(&m);
		ck_assert_int_eq(errno, ERRNO_MARK);
		ck_assert_int_eq(rc, thrd_success);
		ck_assert_int_eq(as_mutex(&m)->__data.__owner, gettid());
		ck_assert_uint_eq(as_mutex(&m)->__data.__nusers, 1);
		ck_assert_int_eq(mtx_unlock(&m), thrd_success);
		ck_assert_int_eq(errno, ERRNO_MARK);
		servant_end(s);
	}
	mtx_destroy(&m);
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* ---- condition variables, call by call ---- */

/* Asserts what a call on a condition variable returned, that errno stayed, and that the mutex is ours as before. */
#define ASSERT_CND(call, wanted, depth)                                                                                \
	do {                                                                                                           \
		errno = ERRNO_MARK;                                                                                    \
		ck_assert_int_eq((call), (wanted));                                                                    \
		ck_assert_int_eq(errno, ERRNO_MARK);                                                                   \
		ck_assert_uint_eq(as_mutex(&m)->__data.__count, types[_i].recursive ? (depth) : 0u);                   \
		ck_assert_int_eq(as_mutex(&m)->__data.__owner, (depth) ? gettid() : 0);                                \
		ck_assert_int_eq(as_mutex(&m)->__data.__lock != 0, (depth) != 0);                                      \
		ck_assert_uint_eq(as_mutex(&m)->__data.__nusers, (depth) != 0);                                        \
	} while (0)

START_TEST(condition_returns)
{
	const struct c11_api *apis[] = {bound(), glibc()};
	struct timespec past, bad = utc(0), negative = {-1, 0}, ahead;
	cnd_t fresh[2];

	bad.tv_nsec = 1000000000;
	for (int i = 0; i < 2; i++) {
		const struct c11_api *api = apis[i];
		cnd_t c;
		mtx_t m;

		memset(&c, 0xa5, sizeof c);
		ASSERT_CND(api->mtx_init(&m, types[_i].type), thrd_success, 0u);
		ASSERT_CND(api->cnd_init(&c), thrd_success, 0u);
		fresh[i] = c;
		ASSERT_CND(api->cnd_signal(&c), thrd_success, 0u);
		ASSERT_CND(api->cnd_broadcast(&c), thrd_success, 0u);
		if (types[_i].recursive) { /* who waits without the mutex is told */
			ASSERT_CND(api->cnd_wait(&c, &m), thrd_error, 0u);
			ahead = utc(1000000000);
			ASSERT_CND(api->cnd_timedwait(&c, &m, &ahead), thrd_error, 0u);
		}
		ASSERT_CND(api->mtx_lock(&m), thrd_success, 1u);
		past = utc(-1000000);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &past), thrd_timedout, 1u);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &negative), thrd_timedout, 1u);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &bad), thrd_error, 1u);
		bad.tv_nsec = -1;
		ASSERT_CND(api->cnd_timedwait(&c, &m, &bad), thrd_error, 1u);
		bad.tv_nsec = 1000000000;
		/* Signals that met nobody are not kept for who comes later. */
		ASSERT_CND(api->cnd_signal(&c), thrd_success, 1u);
		ASSERT_CND(api->cnd_broadcast(&c), thrd_success, 1u);
		ahead = utc(2000000);
		ASSERT_CND(api->cnd_timedwait(&c, &m, &ahead), thrd_timedout, 1u);
		ck_assert_msg(utc_passed(&ahead), "%s: cnd_timedwait ended before its deadline", api->name);
		ASSERT_CND(api->mtx_unlock(&m), thrd_success, 0u);
		api->cnd_destroy(&c);
		ASSERT_CND(api->cnd_init(&c), thrd_success, 0u); /* destroyed, it may be made again */
		ASSERT_CND(api->cnd_signal(&c), thrd_success, 0u);
		api->cnd_destroy(&c);
		api->mtx_destroy(&m);
	}
	ck_assert_mem_eq(&fresh[0], &fresh[1], sizeof fresh[0]);
	assert_no_complaint();
}
END_TEST

/* What a mutex looks like while its holder waits, and to whom it belongs then. */
struct sleeper {
	const struct c11_api *api;
	mtx_t m;
	cnd_t c;
	bool timed, came, go;
};

static void sleep_until_told(void *arg)
{
	struct sleeper *s = arg;
	struct timespec ahead = utc(60000000000);

	WANT(s->api->mtx_lock(&s->m), thrd_success);
	s->came = true;
	errno = ERRNO_MARK;
	while (!s->go)
		WANT(s->timed ? s->api->cnd_timedwait(&s->c, &s->m, &ahead) : s->api->cnd_wait(&s->c, &s->m),
		     thrd_success);
	if (errno != ERRNO_MARK)
		complain("%s: a wait made errno %d", s->api->name, errno);
	if (as_mutex(&s->m)->__data.__owner != gettid())
		complain("%s: back from a wait, but the owner is %d", s->api->name, as_mutex(&s->m)->__data.__owner);
	WANT(s->api->mtx_unlock(&s->m), thrd_success);
}

/* When this returns the sleeper waits and nobody holds the mutex. */
static void sleeper_wait(struct sleeper *s)
{
	bool came;

	do {
		sleep_us(100);
		ck_assert_int_eq(s->api->mtx_lock(&s->m), thrd_success);
		came = s->came;
		ck_assert_int_eq(s->api->mtx_unlock(&s->m), thrd_success);
	} while (!came);
}

START_TEST(while_one_waits)
{
	const struct c11_api *apis[] = {bound(), glibc()};
	struct servant *servant = servant_hire();

	for (int how = 0; how < 4; how++) {
		mtx_t peeked[2];

		for (int i = 0; i < 2; i++) {
			struct sleeper s = {.api = apis[i], .timed = how & 1};

			ck_assert_int_eq(s.api->mtx_init(&s.m, types[_i].type), thrd_success);
			ck_assert_int_eq(s.api->cnd_init(&s.c), thrd_success);
			servant_begin(servant, sleep_until_told, &s);
			sleeper_wait(&s);
			memcpy(&peeked[i], &s.m, sizeof s.m);
			ck_assert_int_eq(s.api->mtx_trylock(&s.m), thrd_success);
			s.go = true;
			errno = ERRNO_MARK;
			ck_assert_int_eq(how & 2 ? s.api->cnd_broadcast(&s.c) : s.api->cnd_signal(&s.c), thrd_success);
			ck_assert_int_eq(errno, ERRNO_MARK);
			ck_assert_int_eq(s.api->mtx_unlock(&s.m), thrd_success);
			servant_end(servant);
			assert_no_complaint();
			ck_assert_int_eq(as_mutex(&s.m)->__data.__lock, 0);
			ck_assert_int_eq(as_mutex(&s.m)->__data.__owner, 0);
			ck_assert_uint_eq(as_mutex(&s.m)->__data.__nusers, 0);
			s.api->cnd_destroy(&s.c);
			s.api->mtx_destroy(&s.m);
		}
		ck_assert_msg(same_fields(&peeked[0], &peeked[1], false), "the fields differ while one waits");
	}
	servant_dismiss(servant);
}
END_TEST

/* Locked twice: a wait gives back one level only, so nobody can come; the deadline ends it, at the old depth. */
static void try_later(void *arg)
{
	struct errand *e = arg;

	sleep_us(1000);
	errand_run(e);
	if (e->rc == thrd_success)
		WANT(e->api->mtx_unlock(e->m), thrd_success);
}

START_TEST(waiting_at_depth_two)
{
	const struct c11_api *apis[] = {bound(), glibc()};
	struct servant *servant = servant_hire();

	for (int i = 0; i < 2; i++) {
		struct timespec until;
		struct errand e = {.api = apis[i], .op = TRY};
		cnd_t c;
		mtx_t m;

		e.m = &m;
		ck_assert_int_eq(apis[i]->mtx_init(&m, mtx_timed | mtx_recursive), thrd_success);
		ck_assert_int_eq(apis[i]->cnd_init(&c), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_lock(&m), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_lock(&m), thrd_success);
		until = utc(10000000);
		servant_begin(servant, try_later, &e);
		ck_assert_int_eq(apis[i]->cnd_timedwait(&c, &m, &until), thrd_timedout);
		servant_end(servant);
		ck_assert_msg(e.rc == thrd_busy, "%s: a wait at depth two let somebody in", apis[i]->name);
		ck_assert_uint_eq(as_mutex(&m)->__data.__count, 2);
		ck_assert_int_eq(apis[i]->mtx_unlock(&m), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_unlock(&m), thrd_success);
		ck_assert_int_eq(apis[i]->mtx_unlock(&m), thrd_error);
		apis[i]->cnd_destroy(&c);
		apis[i]->mtx_destroy(&m);
	}
	servant_dismiss(servant);
	assert_no_complaint();
}
END_TEST

/* ---- mutexes that C11 cannot make ---- */

START_TEST(pthread_kinds)
{
	struct servant *servant = servant_hire();
	int type = kinds[_i].type;
	bool asks = type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK;
	int twice = type == PTHREAD_MUTEX_RECURSIVE ? thrd_success : thrd_busy;
	const struct c11_api *apis[] = {bound(), glibc()};

	for (int i = 0; i < 2; i++) {
		const struct c11_api *api = apis[i];
		struct errand e = {.api = api, .op = TRY};
		struct timespec past = utc(-1000000);
		pthread_mutex_t m;
		cnd_t c;

		e.m = (mtx_t *)&m;
		mutex_make(&m, type);
		ck_assert_int_eq(api->cnd_init(&c), thrd_success);
		ck_assert_int_eq(api->mtx_lock(e.m), thrd_success);
		ck_assert_int_eq(api->mtx_trylock(e.m), twice);
		if (twice == thrd_success)
			ck_assert_int_eq(api->mtx_unlock(e.m), thrd_success);
		if (type == PTHREAD_MUTEX_ERRORCHECK) {
			ck_assert_int_eq(api->mtx_lock(e.m), thrd_error);
			ck_assert_int_eq(api->mtx_timedlock(e.m, &past), thrd_error);
		}
		ck_assert_int_eq(api->cnd_timedwait(&c, e.m, &past), thrd_timedout);
		servant_do(servant, errand_run, &e);
		ck_assert_int_eq(e.rc, thrd_busy);
		e.op = PAST;
		servant_do(servant, errand_run, &e);
		ck_assert_int_eq(e.rc, thrd_timedout);
		ck_assert_int_eq(api->mtx_unlock(e.m), thrd_success);
		if (asks) {
			ck_assert_int_eq(api->mtx_unlock(e.m), thrd_error);
			ck_assert_int_eq(api->cnd_wait(&c, e.m), thrd_error);
		}
		api->cnd_destroy(&c);
		ck_assert_int_eq(pthread_mutex_destroy(&m), 0);
	}
	servant_dismiss(servant);
	assert_no_complaint();
}
END_TEST

/* ---- a mutex by C11 and by pthread calls at the same time ---- */

enum { VISITORS = 6, VISITS = 4000 };

static struct {
	mtx_t m;
	bool recursive;
	atomic_int inside;
	unsigned long count;
	atomic_ulong visits;
} both;

static void both_lock(uint32_t luck)
{
	struct timespec ahead = utc(60000000000);

	switch (luck % 6) {
	case 0:
		WANT(mtx_timedlock(&both.m, &ahead), thrd_success);
		break;
	case 1:
		MUST(pthread_mutex_timedlock(as_mutex(&both.m), &ahead));
		break;
	case 2:
		if (mtx_trylock(&both.m) == thrd_success)
			break;
		/* fall through */
	case 3:
		WANT(mtx_lock(&both.m), thrd_success);
		break;
	case 4:
		if (pthread_mutex_trylock(as_mutex(&both.m)) == 0)
			break;
		/* fall through */
	default:
		MUST(pthread_mutex_lock(as_mutex(&both.m)));
		break;
	}
}

static void both_unlock(uint32_t luck)
{
	if (luck & 1)
		WANT(mtx_unlock(&both.m), thrd_success);
	else
		MUST(pthread_mutex_unlock(as_mutex(&both.m)));
}

static void both_body(int index, void *arg)
{
	uint64_t end_ns = now_ns() + suite_scale(SCENE_MS) * 1000000;
	unsigned long visits = 0, limit = suite_scale(VISITS);
	uint32_t luck = 11 * (index + 1);
	(void)arg;

	for (; visits < limit && (visits < FEW || now_ns() < end_ns) && !complained(); visits++) {
		int depth = 1 + (both.recursive && dice(&luck) % 3 == 0);

		for (int i = 0; i < depth; i++)
			both_lock(dice(&luck));
		if (atomic_exchange_explicit(&both.inside, 1, memory_order_relaxed))
			complain("two inside");
		both.count++;
		if ((luck >> 8 & 31) == 0)
			sched_yield();
		atomic_store_explicit(&both.inside, 0, memory_order_relaxed);
		for (int i = 0; i < depth; i++)
			both_unlock(luck >> (16 + i));
	}
	atomic_fetch_add(&both.visits, visits);
}

START_TEST(by_both_families)
{
	both.recursive = types[_i].recursive;
	ck_assert_int_eq(mtx_init(&both.m, types[_i].type), thrd_success);
	team_run(VISITORS, both_body, NULL);
	assert_no_complaint();
	ck_assert_uint_gt(both.count, 0);
	ck_assert_uint_eq(both.count, atomic_load(&both.visits));
	ck_assert_int_eq(pthread_mutex_trylock(as_mutex(&both.m)), 0);
	ck_assert_int_eq(mtx_unlock(&both.m), thrd_success);
	ck_assert_int_eq(pthread_mutex_destroy(as_mutex(&both.m)), 0);
}
END_TEST

/* ---- classics ---- */

enum { CREW = 6 };

/* Runs CREW threads by thrd_create and returns the sum of their results. */
static long crew_run(thrd_start_t body)
{
	static int index[CREW];
	thrd_t thread[CREW];
	long sum = 0;

	for (int i = 0; i < CREW; i++) {
		index[i] = i;
		ck_assert_int_eq(thrd_create(&thread[i], body, &index[i]), thrd_success);
	}
	for (int i = 0; i < CREW; i++) {
		int result;

		ck_assert_int_eq(thrd_join(thread[i], &result), thrd_success);
		sum += result;
	}
	return sum;
}

static struct {
	mtx_t m;
	cnd_t a, b;
	bool mixed; /* each call by the one family or the other, by chance */
	bool timed; /* some waits with a deadline that may well pass */
	atomic_int inside;
	uint64_t end_ns;
} scene;

static void scene_make(int i, bool timed)
{
	scene.mixed = i >= TYPES;
	scene.timed = timed;
	ck_assert_int_eq(mtx_init(&scene.m, types[i % TYPES].type), thrd_success);
	ck_assert_int_eq(cnd_init(&scene.a), thrd_success);
	ck_assert_int_eq(cnd_init(&scene.b), thrd_success);
	scene.end_ns = now_ns() + suite_scale(SCENE_MS) * 1000000;
}

static bool scene_over(int done)
{
	return (done >= FEW && now_ns() > scene.end_ns) || complained();
}

static void scene_unmake(void)
{
	assert_no_complaint();
	ck_assert_int_eq(mtx_trylock(&scene.m), thrd_success);
	ck_assert_int_eq(mtx_unlock(&scene.m), thrd_success);
	cnd_destroy(&scene.a);
	cnd_destroy(&scene.b);
	mtx_destroy(&scene.m);
}

static bool by_pthread(uint32_t *luck)
{
	return scene.mixed && dice(luck) >> 5 & 1;
}

static void step_in(void)
{
	if (atomic_exchange_explicit(&scene.inside, 1, memory_order_relaxed))
		complain("two inside");
}

static void step_out(void)
{
	if (!atomic_exchange_explicit(&scene.inside, 0, memory_order_relaxed))
		complain("two were inside");
}

static void enter(uint32_t *luck)
{
	if (by_pthread(luck))
		MUST(pthread_mutex_lock(as_mutex(&scene.m)));
	else
		WANT(mtx_lock(&scene.m), thrd_success);
	step_in();
}

static void leave(uint32_t *luck)
{
	step_out();
	if (by_pthread(luck))
		MUST(pthread_mutex_unlock(as_mutex(&scene.m)));
	else
		WANT(mtx_unlock(&scene.m), thrd_success);
}

/* One wait; the caller looks again in any case. */
static void await(cnd_t *c, uint32_t *luck)
{
	struct timespec until = utc(dice(luck) % 200000);
	bool timed = scene.timed && *luck >> 20 & 1, pthread = by_pthread(luck);
	int rc, late = pthread ? ETIMEDOUT : thrd_timedout;

	step_out();
	if (pthread)
		rc = timed ? pthread_cond_timedwait(as_cond(c), as_mutex(&scene.m), &until)
			   : pthread_cond_wait(as_cond(c), as_mutex(&scene.m));
	else
		rc = timed ? cnd_timedwait(c, &scene.m, &until) : cnd_wait(c, &scene.m);
	if (rc && !(timed && rc == late))
		complain("a wait by %s returned %d", pthread ? "pthread" : "C11", rc);
	if (rc && !utc_passed(&until))
		complain("a wait by %s ended before its deadline", pthread ? "pthread" : "C11");
	step_in();
}

static void wake_one(cnd_t *c, uint32_t *luck)
{
	if (by_pthread(luck))
		MUST(pthread_cond_signal(as_cond(c)));
	else
		WANT(cnd_signal(c), thrd_success);
}

static void wake_all(cnd_t *c, uint32_t *luck)
{
	if (by_pthread(luck))
		MUST(pthread_cond_broadcast(as_cond(c)));
	else
		WANT(cnd_broadcast(c), thrd_success);
}

/* Producers and consumers with a bounded buffer: a: not full, b: not empty. */
enum { SLOTS = 3, PRODUCERS = CREW / 2, ITEMS = 2000 };

static struct {
	int slot[SLOTS], first, used;
	int next, items; /* the number of the next item, and how many there will be */
	int producers_left;
	atomic_uchar *marks; /* how often each was consumed */
	unsigned long sum_in;
	atomic_ulong sum_out;
} buffer;

static int produce(uint32_t *luck)
{
	int made = 0;
	bool over;

	do {
		enter(luck);
		while (buffer.used == SLOTS)
			await(&scene.a, luck);
		over = buffer.next == buffer.items || scene_over(buffer.next);
		if (!over) {
			buffer.slot[(buffer.first + buffer.used++) % SLOTS] = buffer.next;
			buffer.sum_in += buffer.next++;
			made++;
			wake_one(&scene.b, luck);
		} else if (--buffer.producers_left == 0) {
			wake_all(&scene.b, luck);
		} else {
			wake_one(&scene.a, luck); /* the slot that we were woken for is another's */
		}
		leave(luck);
	} while (!over);
	return made;
}

static int consume(uint32_t *luck)
{
	for (int taken = 0;; taken++) {
		int item;

		enter(luck);
		while (!buffer.used && buffer.producers_left)
			await(&scene.b, luck);
		if (!buffer.used) {
			leave(luck);
			return -taken;
		}
		item = buffer.slot[buffer.first];
		buffer.first = (buffer.first + 1) % SLOTS;
		buffer.used--;
		leave(luck);
		wake_one(&scene.a, luck);
		atomic_fetch_add(&buffer.marks[item], 1);
		atomic_fetch_add(&buffer.sum_out, item);
	}
}

static int buffer_body(void *arg)
{
	int index = *(int *)arg;
	uint32_t luck = 19 * (index + 1);

	return index < PRODUCERS ? produce(&luck) : consume(&luck);
}

START_TEST(producers_and_consumers)
{
	scene_make(_i, _i % 2);
	buffer.items = suite_scale(ITEMS);
	buffer.marks = calloc(buffer.items, 1);
	buffer.producers_left = PRODUCERS;
	ck_assert_int_eq(crew_run(buffer_body), 0); /* as many consumed as produced */
	scene_unmake();
	ck_assert_int_eq(buffer.used, 0);
	ck_assert_int_gt(buffer.next, 0);
	ck_assert_uint_eq(buffer.sum_in, atomic_load(&buffer.sum_out));
	for (int i = 0; i < buffer.items; i++)
		ck_assert_msg(atomic_load(&buffer.marks[i]) == (i < buffer.next), "item %d was consumed %d times", i,
			      atomic_load(&buffer.marks[i]));
	free((void *)buffer.marks);
}
END_TEST

/* A pool of threads, fed by its first; closed while work is left, which must be done all the same: a: work or end. */
enum { TASKS = 1500 };

static struct {
	int queued, given, tasks; /* tasks given..queued-1 are waiting */
	bool closed;
	unsigned char *done;
} pool;

static int pool_feed(uint32_t *luck)
{
	bool over = false;

	while (!over) {
		int batch = 1 + dice(luck) % 5;

		enter(luck);
		for (; batch && pool.queued < pool.tasks; batch--) {
			pool.queued++;
			wake_one(&scene.a, luck);
		}
		over = pool.queued == pool.tasks || scene_over(pool.queued);
		if (over) {
			pool.closed = true;
			wake_all(&scene.a, luck);
		}
		leave(luck);
		if (*luck % 4 == 0)
			sched_yield();
	}
	return 0;
}

static int pool_body(void *arg)
{
	int index = *(int *)arg;
	uint32_t luck = 23 * (index + 1);

	if (index == 0)
		return pool_feed(&luck);
	for (int done = 0;; done++) {
		int task;

		enter(&luck);
		while (pool.given == pool.queued && !pool.closed)
			await(&scene.a, &luck);
		if (pool.given == pool.queued) {
			leave(&luck);
			return done;
		}
		task = pool.given++;
		leave(&luck);
		pool.done[task]++; /* not atomic: nobody else has it */
	}
}

START_TEST(thread_pool)
{
	scene_make(_i, false);
	pool.tasks = suite_scale(TASKS);
	pool.done = calloc(pool.tasks, 1);
	ck_assert_int_eq(crew_run(pool_body), pool.queued);
	scene_unmake();
	ck_assert_int_gt(pool.queued, 0);
	for (int i = 0; i < pool.tasks; i++)
		ck_assert_msg(pool.done[i] == (i < pool.queued), "task %d was done %d times", i, pool.done[i]);
	free(pool.done);
}
END_TEST

/* A barrier, generation after generation: a: the next one has begun. */
enum { GENERATIONS = 250 };

static struct {
	int arrived, generation, generations;
	int at[CREW]; /* where each is: written before a barrier, read by all between it and the next */
	bool over;
} barrier;

/* 1 for one of the crew, the last to come; it may decide to end. */
static int barrier_wait(uint32_t *luck, bool may_end)
{
	int generation, last = 0;

	enter(luck);
	generation = barrier.generation;
	if (++barrier.arrived == CREW) {
		last = 1;
		barrier.arrived = 0;
		barrier.generation++;
		barrier.over =
			may_end && (barrier.generation / 2 >= barrier.generations || scene_over(barrier.generation));
		wake_all(&scene.a, luck);
	}
	while (barrier.generation == generation)
		await(&scene.a, luck);
	if (barrier.generation != generation + 1)
		complain("somebody slept through a generation");
	leave(luck);
	return last;
}

static int barrier_body(void *arg)
{
	int index = *(int *)arg, serial = 0;
	uint32_t luck = 29 * (index + 1);

	for (int n = 1; !barrier.over; n++) {
		barrier.at[index] = n;
		serial += barrier_wait(&luck, false);
		for (int i = 0; i < CREW; i++)
			if (barrier.at[i] != n)
				complain("past barrier %d, but thread %d is at %d", n, i, barrier.at[i]);
		serial += barrier_wait(&luck, true);
	}
	return serial;
}

START_TEST(barriers)
{
	scene_make(_i, false);
	barrier.generations = suite_scale(GENERATIONS);
	ck_assert_int_eq(crew_run(barrier_body), barrier.generation);
	scene_unmake();
	ck_assert_int_ge(barrier.generation, 2);
	ck_assert_int_eq(barrier.generation, 2 * barrier.at[0]);
}
END_TEST

/* A relay: one baton, each runner with a condition variable of its own; one lost signal is the end. */
enum { LEGS = 500 };

static struct {
	cnd_t yours[CREW];
	int turn, legs, run;
	bool over;
} relay;

static int relay_body(void *arg)
{
	int index = *(int *)arg, run = 0, next = (index + 1) % CREW;
	uint32_t luck = 37 * (index + 1);
	bool over = false;

	while (!over) {
		bool inside = dice(&luck) & 1; /* signal inside or after */

		enter(&luck);
		while (relay.turn != index)
			await(&relay.yours[index], &luck);
		relay.turn = next;
		relay.over |= relay.run == relay.legs || scene_over(relay.run);
		over = relay.over; /* once round, so that all learn of it */
		if (!over) {
			relay.run++;
			run++;
		}
		if (inside)
			wake_one(&relay.yours[next], &luck);
		leave(&luck);
		if (!inside)
			wake_one(&relay.yours[next], &luck);
	}
	return run;
}

START_TEST(relays)
{
	scene_make(_i, false);
	relay.legs = suite_scale(LEGS);
	for (int i = 0; i < CREW; i++)
		ck_assert_int_eq(cnd_init(&relay.yours[i]), thrd_success);
	ck_assert_int_eq(crew_run(relay_body), relay.run);
	for (int i = 0; i < CREW; i++)
		cnd_destroy(&relay.yours[i]);
	scene_unmake();
	ck_assert_int_gt(relay.run, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("c11");

	SUITE_CASE_OF(s, table_alone, 60, TYPES);
	SUITE_CASE_OF(s, table_two_threads, 60, TYPES);
	SUITE_CASE(s, bad_types, 60);
	SUITE_CASE_OF(s, deadline_ahead, 60, TYPES);
	SUITE_CASE_OF(s, got_in_time, 60, TYPES);
	SUITE_CASE_OF(s, condition_returns, 60, TYPES);
	SUITE_CASE_OF(s, while_one_waits, 60, TYPES);
	SUITE_CASE(s, waiting_at_depth_two, 60);
	SUITE_CASE_OF(s, pthread_kinds, 60, KINDS);
	SUITE_CASE_OF(s, by_both_families, 60, TYPES);
	SUITE_CASE_OF(s, producers_and_consumers, 60, 2 * TYPES);
	SUITE_CASE_OF(s, thread_pool, 60, 2 * TYPES);
	SUITE_CASE_OF(s, barriers, 60, 2 * TYPES);
	SUITE_CASE_OF(s, relays, 60, 2 * TYPES);
	return suite_run(s);
}
