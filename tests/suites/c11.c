/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What suites of <threads.h> share; the contract is in c11.h. */

#include "c11.h"

#include <assert.h>
#include <errno.h>

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is a pthread_mutex_t");
static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t is a pthread_cond_t");

const struct c11_type types[TYPES] = {
	{"plain", mtx_plain, false},
	{"timed", mtx_timed, false},
	{"plain recursive", mtx_plain | mtx_recursive, true},
	{"timed recursive", mtx_timed | mtx_recursive, true},
};

#define C11_FUNCTIONS(f)                                                                                               \
	f(mtx_init) f(mtx_lock) f(mtx_trylock) f(mtx_timedlock) f(mtx_unlock) f(mtx_destroy) f(cnd_init) f(cnd_wait)   \
		f(cnd_timedwait) f(cnd_signal) f(cnd_broadcast) f(cnd_destroy)

const struct c11_api *bound(void)
{
#define BOUND(function) .function = function,
	static const struct c11_api api = {.name = "bound", C11_FUNCTIONS(BOUND)};

	return &api;
}

const struct c11_api *glibc(void)
{
	static struct c11_api api;

#define GLIBC(function) api.function = (__typeof__(api.function))glibc_symbol(#function, NULL);
	if (!api.name) {
		C11_FUNCTIONS(GLIBC)
		api.name = "glibc";
	}
	return &api;
}

struct timespec utc(int64_t ns_from_now)
{
	return deadline(CLOCK_REALTIME, ns_from_now);
}

bool utc_passed(const struct timespec *t)
{
	struct timespec now;

	if (timespec_get(&now, TIME_UTC) != TIME_UTC)
		complain("no TIME_UTC");
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

const char *const op_names[END] = {
	"lock", "trylock", "timedlock(past)", "timedlock(negative)", "timedlock(bad ns)", "unlock", "destroy",
};

void errand_run(void *arg)
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

bool same_fields(const mtx_t *a, const mtx_t *b, bool asked)
{
	const struct __pthread_mutex_s *x = &((const pthread_mutex_t *)a)->__data;
	const struct __pthread_mutex_s *y = &((const pthread_mutex_t *)b)->__data;

	return (x->__lock == y->__lock || (asked && x->__lock && y->__lock)) && x->__owner == y->__owner &&
	       x->__count == y->__count && x->__nusers == y->__nusers && x->__kind == y->__kind;
}
