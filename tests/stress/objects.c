/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Objects of every kind and their shadows; the contract is in torture.h. */
#include "torture.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jumps.h"

const struct kind kinds[] = {
	/* name, family, type, shared, robust, inherits, by hand */
	{"normal", MUTEX, PTHREAD_MUTEX_NORMAL, 0, 0, 0, 0},
	{"static", MUTEX, PTHREAD_MUTEX_TIMED_NP, 0, 0, 0, 1},
	{"recursive", MUTEX, PTHREAD_MUTEX_RECURSIVE, 0, 0, 0, 0},
	{"errorcheck", MUTEX, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0, 0},
	{"adaptive", MUTEX, PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0, 0},
	{"static-recursive", MUTEX, PTHREAD_MUTEX_RECURSIVE, 0, 0, 0, 1},
	{"mtx", C11, mtx_timed, 0, 0, 0, 0},
	{"mtx-recursive", C11, mtx_timed | mtx_recursive, 0, 0, 0, 0},
	{"rwlock", RWLOCK, PTHREAD_RWLOCK_PREFER_READER_NP, 0, 0, 0, 0},
	{"rwlock-static", RWLOCK, PTHREAD_RWLOCK_PREFER_READER_NP, 0, 0, 0, 1},
	{"rwlock-writer", RWLOCK, PTHREAD_RWLOCK_PREFER_WRITER_NP, 0, 0, 0, 0},
	{"rwlock-nonrecursive", RWLOCK, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, 0, 0, 0, 0},
	{"spin", SPIN, PTHREAD_PROCESS_PRIVATE, 0, 0, 0, 0},
	{"spin-shared", SPIN, PTHREAD_PROCESS_SHARED, 1, 0, 0, 0},
	{"robust", MUTEX, PTHREAD_MUTEX_NORMAL, 0, 1, 0, 0},
	{"inheriting", MUTEX, PTHREAD_MUTEX_RECURSIVE, 0, 0, 1, 0},
	{"shared", MUTEX, PTHREAD_MUTEX_NORMAL, 1, 0, 0, 0},
	{"shared-recursive", MUTEX, PTHREAD_MUTEX_RECURSIVE, 1, 0, 0, 0},
	{"shared-robust", MUTEX, PTHREAD_MUTEX_ERRORCHECK, 1, 1, 0, 0},
	{"rwlock-shared", RWLOCK, PTHREAD_RWLOCK_PREFER_READER_NP, 1, 0, 0, 0},
};
const int kinds_number = sizeof(kinds) / sizeof(kinds[0]);

static void must(int rc, const char *what, const struct lock *l)
{
	if (rc)
		fail("%s of object %d (%s) returned %d (%s)", what, l->number, l->kind->name, rc, strerror(rc));
}

static bool is_recursive(const struct kind *k)
{
	return (k->family == MUTEX && k->type == PTHREAD_MUTEX_RECURSIVE) ||
	       (k->family == C11 && (k->type & mtx_recursive));
}

/* C11's results as the others' errors. */
static int of_c11(int rc)
{
	return rc == thrd_success ? 0 : rc == thrd_busy ? EBUSY : rc == thrd_timedout ? ETIMEDOUT : EINVAL;
}

static void mutex_make(struct lock *l)
{
	static const pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER,
				     recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	pthread_mutexattr_t attr;

	if (l->kind->by_hand) {
		memcpy(&l->mutex, is_recursive(l->kind) ? &recursive : &plain, sizeof(l->mutex));
		return;
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, l->kind->type);
	if (l->kind->shared)
		pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (l->kind->robust)
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (l->kind->inherits)
		pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	must(pthread_mutex_init(&l->mutex, &attr), "init", l);
	pthread_mutexattr_destroy(&attr);
}

static void rwlock_make(struct lock *l)
{
	static const pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER;
	pthread_rwlockattr_t attr;

	if (l->kind->by_hand) {
		memcpy(&l->rwlock, &plain, sizeof(plain));
		return;
	}
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, l->kind->type);
	if (l->kind->shared)
		pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	must(pthread_rwlock_init(&l->rwlock, &attr), "init", l);
	pthread_rwlockattr_destroy(&attr);
}

void lock_make(struct lock *l, const struct kind *kind, int number)
{
	l->kind = kind;
	l->number = number;
	atomic_store(&l->owner, 0);
	atomic_store(&l->readers, 0);
	l->depth = 0;
	l->left = l->right = 0;
	l->orphaned = false;
	switch (kind->family) {
	case MUTEX:
		mutex_make(l);
		break;
	case RWLOCK:
		rwlock_make(l);
		break;
	case SPIN:
		must(pthread_spin_init(&l->spin, kind->type), "init", l);
		break;
	case C11:
		must(of_c11(mtx_init(&l->mtx, kind->type)), "init", l);
		break;
	}
}

void lock_destroy(struct lock *l)
{
	switch (l->kind->by_hand ? -1 : (int)l->kind->family) {
	case MUTEX:
		must(pthread_mutex_destroy(&l->mutex), "destroy", l);
		break;
	case RWLOCK:
		must(pthread_rwlock_destroy(&l->rwlock), "destroy", l);
		break;
	case SPIN:
		must(pthread_spin_destroy(&l->spin), "destroy", l);
		break;
	case C11:
		mtx_destroy(&l->mtx);
		break;
	}
}

/* ---- shadows ---- */

void shadow_enter(struct lock *l)
{
	int was = atomic_exchange(&l->owner, me->slot + 1), readers = atomic_load(&l->readers);

	if (was)
		fail("exclusion: object %d (%s) was given to thread %d while thread %d has it", l->number,
		     l->kind->name, me->slot, was - 1);
	if (readers)
		fail("exclusion: object %d (%s) was given to writer %d while %d read", l->number, l->kind->name,
		     me->slot, readers);
	l->depth = 1;
	l->left = l->left + 1;
	me->taken[l->number]++;
}

void shadow_leave(struct lock *l)
{
	if (atomic_load(&l->owner) != me->slot + 1 || atomic_load(&l->readers))
		fail("exclusion: thread %d was in object %d (%s), and finds thread %d and %d readers there", me->slot,
		     l->number, l->kind->name, atomic_load(&l->owner) - 1, atomic_load(&l->readers));
	l->right = l->right + 1;
	if (l->left != l->right)
		fail("exclusion: the counters of object %d (%s) are %" PRIu64 " and %" PRIu64, l->number, l->kind->name,
		     l->left, l->right);
	atomic_store(&l->owner, 0);
}

static void shadow_read(struct lock *l)
{
	atomic_fetch_add(&l->readers, 1);
	if (atomic_load(&l->owner))
		fail("exclusion: object %d (%s) was given to reader %d while thread %d writes", l->number,
		     l->kind->name, me->slot, atomic_load(&l->owner) - 1);
}

static void shadow_unread(struct lock *l)
{
	if (atomic_load(&l->owner))
		fail("exclusion: thread %d read object %d (%s), and finds thread %d there", me->slot, l->number,
		     l->kind->name, atomic_load(&l->owner) - 1);
	atomic_fetch_sub(&l->readers, 1);
}

/* ---- operations ---- */

/* No function of pthreads touches errno. */
enum { MAGIC = 12345 };

static void check_errno(const char *what, int number)
{
	if (errno != MAGIC)
		fail("errno: %s object %d has set it to %d", what, number, errno);
}

static struct timespec deadline(clockid_t clock, long us)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += us % 1000000 * 1000;
	t.tv_sec += us / 1000000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* The clock may have been set during the wait: then what it says at most is looked at. */
static void look_at_clock(clockid_t clock, struct timespec *now)
{
	if (!lax_clock || clock != CLOCK_REALTIME) {
		clock_gettime(clock, now);
		return;
	}
	syscall(SYS_clock_gettime, clock, now);
	now->tv_nsec += JUMPS_AHEAD_NS;
	now->tv_sec += now->tv_nsec / 1000000000;
	now->tv_nsec %= 1000000000;
}

static void check_deadline(clockid_t clock, const struct timespec *until, const struct lock *l)
{
	struct timespec now;

	look_at_clock(clock, &now);
	if (now.tv_sec < until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec < until->tv_nsec))
		fail("time: a wait for object %d (%s) ended before its deadline", l->number, l->kind->name);
}

/* Mutexes have two sides: the functions that this program is bound to, and glibc's own. */
struct side {
	int (*lock)(pthread_mutex_t *);
	int (*trylock)(pthread_mutex_t *);
	int (*timedlock)(pthread_mutex_t *, const struct timespec *);
	int (*clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
	int (*unlock)(pthread_mutex_t *);
};
static const struct side bound = {pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_timedlock,
				  pthread_mutex_clocklock, pthread_mutex_unlock};
static struct side glibc;

/* A handle's search never passes through preloaded objects. */
void mutexes_setup(void)
{
	void *handle = dlopen("libpthread.so.0", RTLD_LAZY | RTLD_NOLOAD); /* their home until 2.33 */

	if (!handle || !dlsym(handle, "pthread_mutex_clocklock"))
		handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	glibc = bound;
	if (!handle || !dlsym(handle, "pthread_mutex_clocklock"))
		return;
	glibc.lock = (int (*)(pthread_mutex_t *))dlsym(handle, "pthread_mutex_lock");
	glibc.trylock = (int (*)(pthread_mutex_t *))dlsym(handle, "pthread_mutex_trylock");
	glibc.timedlock = (int (*)(pthread_mutex_t *, const struct timespec *))dlsym(handle, "pthread_mutex_timedlock");
	glibc.clocklock = (int (*)(pthread_mutex_t *, clockid_t, const struct timespec *))dlsym(
		handle, "pthread_mutex_clocklock");
	glibc.unlock = (int (*)(pthread_mutex_t *))dlsym(handle, "pthread_mutex_unlock");
}

static const struct side *side(void)
{
	return (common->plan.mixed || me->mixed) && one_in(&me->dice, 2) ? &glibc : &bound;
}

static int take_mutex(struct lock *l, long timeout_us, clockid_t clock, const struct timespec *until)
{
	const struct side *s = side();

	if (timeout_us < 0)
		return s->trylock(&l->mutex);
	if (!timeout_us)
		return s->lock(&l->mutex);
	if (clock == CLOCK_REALTIME && (until->tv_nsec & 1))
		return s->timedlock(&l->mutex, until);
	return s->clocklock(&l->mutex, clock, until);
}

static int take_rwlock(struct lock *l, bool reading, long timeout_us, clockid_t clock, const struct timespec *until)
{
	if (timeout_us < 0)
		return reading ? pthread_rwlock_tryrdlock(&l->rwlock) : pthread_rwlock_trywrlock(&l->rwlock);
	if (!timeout_us)
		return reading ? pthread_rwlock_rdlock(&l->rwlock) : pthread_rwlock_wrlock(&l->rwlock);
	if (clock == CLOCK_REALTIME && (until->tv_nsec & 1))
		return reading ? pthread_rwlock_timedrdlock(&l->rwlock, until)
			       : pthread_rwlock_timedwrlock(&l->rwlock, until);
	return reading ? pthread_rwlock_clockrdlock(&l->rwlock, clock, until)
		       : pthread_rwlock_clockwrlock(&l->rwlock, clock, until);
}

/* The dead owner's shadow goes with it. */
static int take_over(struct lock *l)
{
	if (!l->orphaned)
		fail("robust: object %d (%s) says that its owner died, which it did not", l->number, l->kind->name);
	l->orphaned = false;
	l->right = l->left;
	atomic_store(&l->owner, 0);
	atomic_fetch_add(&common->died, 1);
	must(pthread_mutex_consistent(&l->mutex), "consistent", l);
	return 0;
}

int lock_take(struct lock *l, bool reading, long timeout_us)
{
	/* PI mutexes cannot wait by the monotonic clock before glibc 2.37's kernel interface: spare them. */
	clockid_t clock =
		l->kind->family == C11 || l->kind->inherits || one_in(&me->dice, 2) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	struct timespec until = {0, 0};
	int rc;

	if (timeout_us > 0)
		until = deadline(clock, timeout_us);
	note(reading ? READ : LOCK, l->number, -1);
	errno = MAGIC;
	stumble_begin();
	switch (l->kind->family) {
	case MUTEX:
		rc = take_mutex(l, timeout_us, clock, &until);
		break;
	case RWLOCK:
		rc = take_rwlock(l, reading, timeout_us, clock, &until);
		break;
	case SPIN:
		rc = timeout_us < 0 ? pthread_spin_trylock(&l->spin) : pthread_spin_lock(&l->spin);
		break;
	default:
		rc = of_c11(timeout_us < 0 ? mtx_trylock(&l->mtx)
			    : timeout_us   ? mtx_timedlock(&l->mtx, &until)
					   : mtx_lock(&l->mtx));
	}
	if (me->stumble)
		stumble_end();
	check_errno("taking", l->number);
	note(reading ? READ : LOCK, l->number, rc);
	if (rc == EOWNERDEAD && l->kind->robust)
		rc = take_over(l);
	if (rc == ETIMEDOUT && timeout_us > 0)
		check_deadline(clock, &until, l);
	else if (rc && !(rc == EBUSY && timeout_us < 0))
		must(rc, "taking", l);
	if (rc)
		return rc;
	if (reading)
		shadow_read(l);
	else if (is_recursive(l->kind) && atomic_load(&l->owner) == me->slot + 1)
		l->depth++;
	else
		shadow_enter(l);
	if (!reading && l->kind->family == MUTEX && me->tid && l->mutex.__data.__owner != me->tid)
		fail("bits: the owner of object %d (%s) is %d, not %d", l->number, l->kind->name,
		     l->mutex.__data.__owner, me->tid);
	return 0;
}

void lock_drop(struct lock *l, bool reading)
{
	int rc, number = l->number; /* afterwards it may be another object */

	if (reading)
		shadow_unread(l);
	else if (--l->depth == 0)
		shadow_leave(l);
	errno = MAGIC;
	stumble_begin();
	switch (l->kind->family) {
	case MUTEX:
		rc = side()->unlock(&l->mutex);
		break;
	case RWLOCK:
		rc = pthread_rwlock_unlock(&l->rwlock);
		break;
	case SPIN:
		rc = pthread_spin_unlock(&l->spin);
		break;
	default:
		rc = of_c11(mtx_unlock(&l->mtx));
	}
	if (me->stumble || me->held_up)
		stumble_end();
	check_errno("unlocking", number);
	note(UNLOCK, number, rc);
	if (rc)
		fail("unlocking object %d returned %d (%s)", number, rc, strerror(rc));
}

bool lock_idle(struct lock *l)
{
	for (int reading = l->kind->family == RWLOCK; reading >= 0; reading--) {
		if (lock_take(l, reading, -1))
			return false;
		lock_drop(l, reading);
	}
	return true;
}

void lock_bits(struct lock *l)
{
	if ((l->kind->family == MUTEX || l->kind->family == C11) && !l->kind->robust && !l->kind->inherits &&
	    (l->mutex.__data.__lock || l->mutex.__data.__owner || l->mutex.__data.__nusers))
		fail("bits: object %d (%s) is idle, with word %d, owner %d, users %u", l->number, l->kind->name,
		     l->mutex.__data.__lock, l->mutex.__data.__owner, l->mutex.__data.__nusers);
}

static void want(int rc, int wanted, const char *what, const struct lock *l)
{
	if (rc != wanted)
		fail("%s of object %d (%s) returned %d, not %d", what, l->number, l->kind->name, rc, wanted);
}

void lock_refusals(struct lock *l)
{
	bool mine = atomic_load(&l->owner) == me->slot + 1;

	if (l->kind->family != MUTEX || l->kind->robust || l->kind->inherits)
		return;
	if (mine && l->kind->type == PTHREAD_MUTEX_ERRORCHECK)
		want(pthread_mutex_lock(&l->mutex), EDEADLK, "a second lock", l);
	if (mine && l->kind->type != PTHREAD_MUTEX_RECURSIVE)
		want(pthread_mutex_trylock(&l->mutex), EBUSY, "a trylock by the owner", l);
	if (!mine && (l->kind->type == PTHREAD_MUTEX_ERRORCHECK || l->kind->type == PTHREAD_MUTEX_RECURSIVE))
		want(pthread_mutex_unlock(&l->mutex), EPERM, "an unlock by another thread", l);
}

/* ---- boxes ---- */

void box_make(struct box *b, const struct kind *kind, bool monotonic, int number)
{
	static const pthread_cond_t plain = PTHREAD_COND_INITIALIZER;
	pthread_condattr_t attr;

	lock_make(&b->guard, kind, number);
	b->monotonic = monotonic && kind->family == MUTEX;
	b->closing = false;
	b->waiting = 0;
	b->tokens = b->made = b->spent = 0;
	b->arrivals = b->upto = 0;
	b->owed = b->before = 0;
	if (kind->family == C11) {
		must(of_c11(cnd_init(&b->signal.cnd)), "cnd_init", &b->guard);
		return;
	}
	if (kind->by_hand && !b->monotonic) {
		memcpy(&b->signal.cond, &plain, sizeof(plain));
		return;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, b->monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME);
	if (kind->shared)
		pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	must(pthread_cond_init(&b->signal.cond, &attr), "cond_init", &b->guard);
	pthread_condattr_destroy(&attr);
}

void box_destroy(struct box *b)
{
	if (b->guard.kind->family == C11)
		cnd_destroy(&b->signal.cnd);
	else
		must(pthread_cond_destroy(&b->signal.cond), "cond_destroy", &b->guard);
	lock_destroy(&b->guard);
}

static int wait(struct box *b, long timeout_us, clockid_t clock, const struct timespec *until)
{
	if (b->guard.kind->family == C11)
		return of_c11(timeout_us ? cnd_timedwait(&b->signal.cnd, &b->guard.mtx, until)
					 : cnd_wait(&b->signal.cnd, &b->guard.mtx));
	if (!timeout_us)
		return pthread_cond_wait(&b->signal.cond, &b->guard.mutex);
	if (clock == (b->monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME) && (until->tv_nsec & 1))
		return pthread_cond_timedwait(&b->signal.cond, &b->guard.mutex, until);
	return pthread_cond_clockwait(&b->signal.cond, &b->guard.mutex, clock, until);
}

/* The caller, with the mutex held, is about to signal: one of those who wait has to return for it, or all. Some of them
 * may be on their way out already, and if all that are left are such, so will they be. Who has come since
 * the last signal owes nothing for that one. */
void box_owe(struct box *b, bool all)
{
	if (!b->waiting)
		return;
	if (b->upto != b->arrivals)
		b->owed = 0;
	b->upto = b->arrivals;
	b->before = b->waiting;
	if (all)
		b->owed = b->waiting;
	else if (b->owed < b->waiting)
		b->owed++;
}

/* A waiter is out. Neither a deadline nor a cancellation uses a signal up. */
void box_depart(struct box *b, uint64_t arrival, bool woken)
{
	b->waiting--;
	if (b->owed && woken)
		b->owed--;
	if (arrival <= b->upto && --b->before <= 0)
		b->before = b->owed = 0;
}

int box_wait(struct box *b, long timeout_us)
{
	clockid_t clock = b->guard.kind->family == C11 || one_in(&me->dice, 2) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	struct timespec until = {0, 0};
	int rc;

	if (timeout_us)
		until = deadline(clock, timeout_us);
	b->waiting++;
	me->arrival = ++b->arrivals;
	shadow_leave(&b->guard);
	note(WAIT, b->guard.number, -1);
	errno = MAGIC;
	rc = wait(b, timeout_us, clock, &until);
	check_errno("waiting for", b->guard.number);
	note(WAIT, b->guard.number, rc);
	if (rc == EOWNERDEAD && b->guard.kind->robust)
		rc = take_over(&b->guard);
	shadow_enter(&b->guard);
	box_depart(b, me->arrival, rc != ETIMEDOUT);
	if (rc == ETIMEDOUT && timeout_us)
		check_deadline(clock, &until, &b->guard);
	else
		must(rc, "waiting in the box", &b->guard);
	return rc;
}

void box_signal(struct box *b, bool all)
{
	int rc;

	errno = MAGIC;
	if (b->guard.kind->family == C11)
		rc = of_c11(all ? cnd_broadcast(&b->signal.cnd) : cnd_signal(&b->signal.cnd));
	else
		rc = all ? pthread_cond_broadcast(&b->signal.cond) : pthread_cond_signal(&b->signal.cond);
	check_errno("signalling", b->guard.number);
	note(WAKE, b->guard.number, rc);
	if (rc)
		fail("a signal returned %d (%s)", rc, strerror(rc));
}

/* ---- for the report ---- */

static void print_words(const uint64_t *word, int n)
{
	for (int i = 0; i < n; i++)
		dprintf(2, " %016" PRIx64, word[i]);
}

void lock_print(const struct lock *l)
{
	dprintf(2, "  object %d: %s: shadow: owner %d, readers %d, depth %d, counters %" PRIu64 " %" PRIu64 "\n",
		l->number, l->kind->name, atomic_load(&l->owner) - 1, atomic_load(&l->readers), l->depth, l->left,
		l->right);
	if (l->kind->family == MUTEX || l->kind->family == C11)
		dprintf(2, "    word %d, count %u, owner %d, users %u, kind %#x\n", l->mutex.__data.__lock,
			l->mutex.__data.__count, l->mutex.__data.__owner, l->mutex.__data.__nusers,
			(unsigned)l->mutex.__data.__kind);
	dprintf(2, "    raw");
	print_words(l->raw, (int)(sizeof(l->raw) / sizeof(l->raw[0])));
	dprintf(2, "\n");
}

void box_print(const struct box *b)
{
	lock_print(&b->guard);
	dprintf(2,
		"    box: %s clock, tokens %" PRIu64 " (%" PRIu64 " made, %" PRIu64
		" spent), %d waiting, %d of %d owed a signal%s\n    cond",
		b->monotonic ? "monotonic" : "realtime", b->tokens, b->made, b->spent, b->waiting, b->owed, b->before,
		b->closing ? ", closing" : "");
	print_words(b->signal.raw, 6);
	dprintf(2, "\n");
}
