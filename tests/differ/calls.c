/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Makes random calls, one at a time, and prints what each of them returns and leaves behind.
 *
 *	usage: calls SEED STEPS
 *
 * Three actors are told by dice what to call: mutexes of all kinds, condition variables, reader-writer and spin locks,
 * C11's names, errors that POSIX names, deadlines that have passed, cancellation, the end of a thread, fork. A call may
 * block; then the others go on. The next step begins when everybody is done or asleep, and of two threads that would be
 * served in some order only one may wait; so what is printed depends on the seed alone. What POSIX leaves undefined is
 * not called, but for the unlock of a normal mutex in its owner's place, which works with glibc. What is legal is told
 * from the objects: from what glibc and debuggers read.
 *
 * Not printed, as it may differ: whether a mutex's word is 1 or 2, the users of a process-shared mutex, of which glibc
 * counts those who wait for a condition variable, the readers of an rwlock, of which it counts those who wait, and its
 *phases.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { ACTORS = 3, MUTEXES = 8, CONDS = 3, RWLOCKS = 4, SPINS = 2 };
enum { NOBODY = -1, GONE = -2 };
enum { ERRNO_MARK = 4242, TID_BITS = 0x3fffffff, INCONSISTENT = 0x7fffffff, UNRECOVERABLE = 0x7ffffffe };
enum { LINE = 160, LOG = 4096 };

struct mutex {
	pthread_mutex_t m;
	bool alive;
	int type, shared, robust, protocol;
};

struct cond {
	pthread_cond_t c;
	bool alive;
	int waiter; /* the actor that sleeps there, not called yet, or NOBODY */
	int mutex;  /* with that */
};

struct rwlock {
	pthread_rwlock_t rw;
	bool alive;
};

struct spin {
	pthread_spinlock_t s;
	int holder;
};

struct actor;

/* What is called; a is who does, n which object of its sort. */
struct op {
	const char *name;
	int objects;
	bool (*legal)(const struct actor *a, int n);
	int (*call)(struct actor *a, int n);
};

struct actor {
	pthread_t thread;
	pid_t tid;
	sem_t go, ready;
	const struct op *op;
	int object;
	uint32_t die; /* what the call needs of the dice */
	int rc;
	bool errno_kept;
	atomic_bool busy; /* in a call */
	atomic_bool ended;
	bool pending; /* it has been cancelled, and does not know yet */
	int at, with; /* the cond and mutex of its wait, or NOBODY */
	int reads[RWLOCKS];
	char log[LOG];
};

static struct actor actors[ACTORS];
static struct mutex mutexes[MUTEXES];
static struct cond conds[CONDS];
static struct rwlock rwlocks[RWLOCKS];
static struct spin spins[SPINS];
static const struct timespec past = {1, 0}, bad_ns = {1, -1};

static uint64_t state;

static uint32_t dice(void)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33);
}

static int self_of(const struct actor *a)
{
	return (int)(a - actors);
}

static void note(struct actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct actor *a, const char *format, ...)
{
	size_t used = strlen(a->log);
	va_list args;

	va_start(args, format);
	vsnprintf(a->log + used, sizeof a->log - used, format, args);
	va_end(args);
}

/* ---- who has what, and who waits ---- */

static int actor_of(int tid)
{
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].tid == tid)
			return i;
	return tid ? GONE : NOBODY;
}

static bool in_kernel(const struct mutex *m)
{
	return m->robust || m->protocol == PTHREAD_PRIO_INHERIT;
}

/* The word of these has the owner in it. */
static int holder(const struct mutex *m)
{
	if (in_kernel(m))
		return actor_of(m->m.__data.__lock & TID_BITS);
	return m->m.__data.__lock || m->m.__data.__owner ? actor_of(m->m.__data.__owner) : NOBODY;
}

static bool awake(int actor)
{
	return actor >= 0 && !atomic_load(&actors[actor].busy);
}

static const struct op mutex_lock_op, cond_wait_op, read_op, write_op;

/* Of the calls these may have to wait. */
static bool blocks(const struct op *op)
{
	return op == &mutex_lock_op || op == &cond_wait_op || op == &read_op || op == &write_op;
}

/* Somebody waits to lock it. */
static bool is_wanted(const struct mutex *m)
{
	for (int i = 0; i < ACTORS; i++) {
		const struct actor *a = &actors[i];

		if (!awake(i) && ((a->op == &mutex_lock_op && &mutexes[a->object] == m) ||
				  (a->op == &cond_wait_op && conds[a->at].waiter != i && &mutexes[a->with] == m)))
			return true;
	}
	return false;
}

/* Who wants it may wait for it: somebody else will let it go. */
static bool can_be_had(const struct mutex *m)
{
	int h = holder(m);

	return !is_wanted(m) && (h == NOBODY || (h == GONE && m->robust) || awake(h));
}

static bool is_wanted_rw(int n)
{
	for (int i = 0; i < ACTORS; i++)
		if (!awake(i) && (actors[i].op == &read_op || actors[i].op == &write_op) && actors[i].object == n)
			return true;
	return false;
}

static unsigned users_of(const struct mutex *m)
{
	return m->shared == PTHREAD_PROCESS_SHARED ? 0 : m->m.__data.__nusers;
}

static bool asks_for_owner(const struct mutex *m)
{
	return m->type == PTHREAD_MUTEX_RECURSIVE || m->type == PTHREAD_MUTEX_ERRORCHECK || m->robust;
}

/* ---- mutexes ---- */

static int mutex_init_call(struct actor *a, int n)
{
	static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
				    PTHREAD_MUTEX_ADAPTIVE_NP};
	struct mutex *m = &mutexes[n];
	uint32_t die = a->die;
	pthread_mutexattr_t attr;
	int rc;

	m->type = types[die % 4];
	m->shared = die / 4 % 4 ? PTHREAD_PROCESS_PRIVATE : PTHREAD_PROCESS_SHARED;
	m->robust = die / 16 % 4 ? PTHREAD_MUTEX_STALLED : PTHREAD_MUTEX_ROBUST;
	m->protocol = die / 64 % 8 == 0	  ? PTHREAD_PRIO_INHERIT
		      : die / 64 % 8 == 1 ? PTHREAD_PRIO_PROTECT
					  : PTHREAD_PRIO_NONE;
	if (m->protocol == PTHREAD_PRIO_PROTECT)
		m->robust = PTHREAD_MUTEX_STALLED;
	m->alive = true;
	if (die / 512 % 8 == 0) {
		m->type = PTHREAD_MUTEX_NORMAL;
		m->shared = PTHREAD_PROCESS_PRIVATE;
		m->robust = PTHREAD_MUTEX_STALLED;
		m->protocol = PTHREAD_PRIO_NONE;
		return pthread_mutex_init(&m->m, NULL);
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, m->type);
	pthread_mutexattr_setpshared(&attr, m->shared);
	pthread_mutexattr_setrobust(&attr, m->robust);
	pthread_mutexattr_setprotocol(&attr, m->protocol);
	rc = pthread_mutex_init(&m->m, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc;
}

static bool mutex_is_dead(const struct actor *a, int n)
{
	(void)a;
	return !mutexes[n].alive;
}

/* glibc's trylock breaks a robust mutex that cannot be recovered, and may leave the dead owner's name in a recursive
 * one. */
static bool is_usable(const struct mutex *m)
{
	int h = holder(m), owner = m->m.__data.__owner;

	return m->alive && owner != UNRECOVERABLE &&
	       (!m->robust || h < 0 || owner == INCONSISTENT || actor_of(owner) == h);
}

static bool mutex_is_alive(const struct actor *a, int n)
{
	(void)a;
	return is_usable(&mutexes[n]);
}

static bool may_lock(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];

	if (!is_usable(m) || !can_be_had(m))
		return false;
	return holder(m) != self_of(a) || m->type == PTHREAD_MUTEX_RECURSIVE || m->type == PTHREAD_MUTEX_ERRORCHECK;
}

static int lock_call(struct actor *a, int n)
{
	return a->die % 4 ? pthread_mutex_lock(&mutexes[n].m) : mtx_lock((mtx_t *)&mutexes[n].m);
}

static int trylock_call(struct actor *a, int n)
{
	return a->die % 4 ? pthread_mutex_trylock(&mutexes[n].m) : mtx_trylock((mtx_t *)&mutexes[n].m);
}

/* The kernel finds cycles among the inheriting ones, which glibc asserts are not there. */
static bool may_lock_timed(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];
	int h = holder(m);

	return mutex_is_alive(a, n) && (m->protocol != PTHREAD_PRIO_INHERIT || h < 0 || awake(h));
}

static int timedlock_call(struct actor *a, int n)
{
	pthread_mutex_t *m = &mutexes[n].m;

	switch (a->die % 8) {
	case 0:
		return mtx_timedlock((mtx_t *)m, &past);
	case 1:
		return pthread_mutex_timedlock(m, &bad_ns);
	case 2:
		return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &bad_ns);
	case 3:
		return pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past);
	case 4:
		return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past);
	default:
		return pthread_mutex_timedlock(m, &past);
	}
}

static bool may_unlock(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];
	int h = holder(m);

	if (!is_usable(m))
		return false;
	return h == self_of(a) || asks_for_owner(m) || (h >= 0 && m->protocol == PTHREAD_PRIO_NONE);
}

static int unlock_call(struct actor *a, int n)
{
	return a->die % 4 ? pthread_mutex_unlock(&mutexes[n].m) : mtx_unlock((mtx_t *)&mutexes[n].m);
}

static bool may_destroy(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[n];

	(void)a;
	for (int i = 0; i < CONDS; i++)
		if (conds[i].waiter != NOBODY && conds[i].mutex == n)
			return false;
	return m->alive && !is_wanted(m) && !(m->robust && holder(m) != NOBODY);
}

static int destroy_call(struct actor *a, int n)
{
	int rc = pthread_mutex_destroy(&mutexes[n].m);

	(void)a;
	mutexes[n].alive = rc != 0;
	return rc;
}

static int consistent_call(struct actor *a, int n)
{
	(void)a;
	return pthread_mutex_consistent(&mutexes[n].m);
}

static int ceiling_call(struct actor *a, int n)
{
	int ceiling;

	(void)a;
	return pthread_mutex_getprioceiling(&mutexes[n].m, &ceiling);
}

/* ---- condition variables ---- */

static bool cond_is_dead(const struct actor *a, int n)
{
	(void)a;
	return !conds[n].alive;
}

static int cond_init_call(struct actor *a, int n)
{
	struct cond *c = &conds[n];
	pthread_condattr_t attr;
	int rc;

	c->alive = true;
	if (a->die % 4 == 0)
		return pthread_cond_init(&c->c, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, a->die / 4 % 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
	pthread_condattr_setclock(&attr, a->die / 8 % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME);
	rc = pthread_cond_init(&c->c, &attr);
	pthread_condattr_destroy(&attr);
	return rc;
}

static bool may_end(const struct actor *a, int n)
{
	(void)a;
	return conds[n].alive && conds[n].waiter == NOBODY;
}

static int cond_destroy_call(struct actor *a, int n)
{
	(void)a;
	conds[n].alive = false;
	return pthread_cond_destroy(&conds[n].c);
}

/* Whoever is called can have its mutex, now or when its owner lets it go. */
static bool may_call(const struct actor *a, int n)
{
	(void)a;
	return conds[n].alive && (conds[n].waiter == NOBODY || can_be_had(&mutexes[conds[n].mutex]));
}

static int signal_call(struct actor *a, int n)
{
	static int (*const calls[])(pthread_cond_t *) = {pthread_cond_signal, pthread_cond_broadcast};

	conds[n].waiter = NOBODY;
	if (a->die % 4 == 0)
		return a->die / 4 % 2 ? cnd_signal((cnd_t *)&conds[n].c) : cnd_broadcast((cnd_t *)&conds[n].c);
	return calls[a->die / 4 % 2](&conds[n].c);
}

/* Lets go of all that the actor has. */
static void release_all(struct actor *a)
{
	for (int i = 0; i < MUTEXES; i++)
		while (mutexes[i].alive && holder(&mutexes[i]) == self_of(a)) {
			int rc = pthread_mutex_unlock(&mutexes[i].m);

			note(a, " unlock m%d %d", i, rc);
			if (rc)
				break;
		}
	for (int i = 0; i < RWLOCKS; i++)
		for (; rwlocks[i].alive && (a->reads[i] || rwlocks[i].rw.__data.__cur_writer == a->tid);
		     a->reads[i] -= a->reads[i] > 0)
			note(a, " unlock rw%d %d", i, pthread_rwlock_unlock(&rwlocks[i].rw));
	for (int i = 0; i < SPINS; i++)
		if (spins[i].holder == self_of(a)) {
			spins[i].holder = NOBODY;
			note(a, " unlock s%d %d", i, pthread_spin_unlock(&spins[i].s));
		}
}

static void cancelled(void *actor)
{
	struct actor *a = actor;
	int state;

	/* To be cancelled in the handler would be wrong. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	note(a, " cleanup:");
	release_all(a);
	atomic_store(&a->busy, false);
}

/* The mutex for a wait: mostly one that the actor has. */
static int mutex_for(const struct actor *a)
{
	for (uint32_t i = 0; a->die / 512 % 8 && i < MUTEXES; i++) {
		int n = (int)((a->die / 64 + i) % MUTEXES);

		if (is_usable(&mutexes[n]) && holder(&mutexes[n]) == self_of(a))
			return n;
	}
	return (int)(a->die / 64 % MUTEXES);
}

static pthread_mutex_t *mutex_of(const struct actor *a)
{
	return &mutexes[mutex_for(a)].m;
}

/* It has the mutex, once; or is told that it has not. Who has been cancelled lets go of it and
 * wants it again at once. */
static bool may_wait_with(const struct actor *a, int n)
{
	const struct mutex *m = &mutexes[mutex_for(a)];
	const struct cond *c = &conds[n];

	if (!c->alive || !is_usable(m) || c->waiter != NOBODY || (a->pending && is_wanted(m)))
		return false;
	if (holder(m) == self_of(a))
		return m->m.__data.__count <= 1 && m->m.__data.__owner != INCONSISTENT;
	return asks_for_owner(m) && !a->pending;
}

static bool may_wait_past(const struct actor *a, int n)
{
	return may_wait_with(a, n) && !is_wanted(&mutexes[mutex_for(a)]);
}

static int past_call(struct actor *a, int n)
{
	pthread_cond_t *c = &conds[n].c;
	int state, rc;

	pthread_cleanup_push(cancelled, a);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	switch (a->die % 8) {
	case 0:
		rc = cnd_timedwait((cnd_t *)c, (mtx_t *)mutex_of(a), &past);
		break;
	case 1:
		rc = pthread_cond_clockwait(c, mutex_of(a), CLOCK_MONOTONIC, &past);
		break;
	default:
		rc = pthread_cond_timedwait(c, mutex_of(a), &past);
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cleanup_pop(0);
	return rc;
}

static bool cond_is_alive(const struct actor *a, int n)
{
	return conds[n].alive && mutexes[mutex_for(a)].alive;
}

static int bad_call(struct actor *a, int n)
{
	pthread_cond_t *c = &conds[n].c;

	switch (a->die % 3) {
	case 0:
		return pthread_cond_timedwait(c, mutex_of(a), &bad_ns);
	case 1:
		return pthread_cond_clockwait(c, mutex_of(a), CLOCK_REALTIME, &bad_ns);
	default:
		return pthread_cond_clockwait(c, mutex_of(a), CLOCK_PROCESS_CPUTIME_ID, &past);
	}
}

/* Somebody else has to be there who calls it, and lets the mutex go. */
static bool may_wait(const struct actor *a, int n)
{
	bool others = false;

	for (int i = 0; i < ACTORS; i++)
		others |= i != self_of(a) && awake(i);
	return others && may_wait_with(a, n);
}

static int wait_call(struct actor *a, int n)
{
	struct timespec far = {INT32_MAX, 0};
	int state, rc;

	pthread_cleanup_push(cancelled, a);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	switch (a->die % 4) {
	case 0:
		rc = pthread_cond_timedwait(&conds[n].c, mutex_of(a), &far);
		break;
	case 1:
		rc = cnd_wait((cnd_t *)&conds[n].c, (mtx_t *)mutex_of(a));
		break;
	default:
		rc = pthread_cond_wait(&conds[n].c, mutex_of(a));
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cleanup_pop(0);
	return rc;
}

/* ---- reader-writer locks ---- */

static bool rw_is_dead(const struct actor *a, int n)
{
	(void)a;
	return !rwlocks[n].alive;
}

static int rw_init_call(struct actor *a, int n)
{
	static const int rw_kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
				       PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
	pthread_rwlockattr_t attr;
	int rc;

	rwlocks[n].alive = true;
	if (a->die % 4 == 0)
		return pthread_rwlock_init(&rwlocks[n].rw, NULL);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, rw_kinds[a->die / 4 % 3]);
	pthread_rwlockattr_setpshared(&attr, a->die / 16 % 4 ? PTHREAD_PROCESS_PRIVATE : PTHREAD_PROCESS_SHARED);
	rc = pthread_rwlock_init(&rwlocks[n].rw, &attr);
	pthread_rwlockattr_destroy(&attr);
	return rc;
}

static int readers_of(int n)
{
	int sum = 0;

	for (int i = 0; i < ACTORS; i++)
		sum += actors[i].reads[n];
	return sum;
}

static int writer_of(int n)
{
	return actor_of(rwlocks[n].rw.__data.__cur_writer);
}

static bool may_try_rw(const struct actor *a, int n)
{
	(void)a;
	return rwlocks[n].alive && !is_wanted_rw(n);
}

/* Not so often that nobody ever writes. */
static bool may_read(const struct actor *a, int n)
{
	int w = writer_of(n);

	return may_try_rw(a, n) && a->reads[n] < 3 && (w == NOBODY || awake(w));
}

static bool may_write(const struct actor *a, int n)
{
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].reads[n] && (i == self_of(a) || !awake(i)))
			return false;
	return may_read(a, n);
}

static bool may_unlock_rw(const struct actor *a, int n)
{
	return rwlocks[n].alive && (a->reads[n] || writer_of(n) == self_of(a));
}

static bool may_end_rw(const struct actor *a, int n)
{
	return may_try_rw(a, n) && !readers_of(n) && writer_of(n) == NOBODY;
}

static int counted(struct actor *a, int n, int rc)
{
	a->reads[n] += !rc;
	return rc;
}

static int read_call(struct actor *a, int n)
{
	return counted(a, n, pthread_rwlock_rdlock(&rwlocks[n].rw));
}

static int write_call(struct actor *a, int n)
{
	(void)a;
	return pthread_rwlock_wrlock(&rwlocks[n].rw);
}

static int try_rw_call(struct actor *a, int n)
{
	pthread_rwlock_t *rw = &rwlocks[n].rw;

	switch (a->die % 8) {
	case 0:
		return pthread_rwlock_timedwrlock(rw, &past);
	case 1:
		return pthread_rwlock_clockwrlock(rw, CLOCK_MONOTONIC, &past);
	case 2:
		return counted(a, n, pthread_rwlock_timedrdlock(rw, &past));
	case 3:
		return counted(a, n, pthread_rwlock_clockrdlock(rw, CLOCK_MONOTONIC, &past));
	case 4:
		return a->die / 8 % 2 ? pthread_rwlock_timedwrlock(rw, &bad_ns)
				      : counted(a, n, pthread_rwlock_timedrdlock(rw, &bad_ns));
	case 5:
		return a->die / 8 % 2 ? pthread_rwlock_clockwrlock(rw, CLOCK_PROCESS_CPUTIME_ID, &past)
				      : counted(a, n, pthread_rwlock_clockrdlock(rw, CLOCK_PROCESS_CPUTIME_ID, &past));
	case 6:
		return pthread_rwlock_trywrlock(rw);
	default:
		return counted(a, n, pthread_rwlock_tryrdlock(rw));
	}
}

static int unlock_rw_call(struct actor *a, int n)
{
	bool writer = writer_of(n) == self_of(a);

	a->reads[n] -= !writer;
	return pthread_rwlock_unlock(&rwlocks[n].rw);
}

static int destroy_rw_call(struct actor *a, int n)
{
	(void)a;
	rwlocks[n].alive = false;
	return pthread_rwlock_destroy(&rwlocks[n].rw);
}

/* ---- spin locks ---- */

static bool may_try_spin(const struct actor *a, int n)
{
	(void)a;
	(void)n;
	return true;
}

static int try_spin_call(struct actor *a, int n)
{
	int rc = spins[n].holder == NOBODY && a->die % 2 ? pthread_spin_lock(&spins[n].s)
							 : pthread_spin_trylock(&spins[n].s);

	if (!rc)
		spins[n].holder = self_of(a);
	return rc;
}

static bool may_unlock_spin(const struct actor *a, int n)
{
	return spins[n].holder == self_of(a);
}

static int unlock_spin_call(struct actor *a, int n)
{
	(void)a;
	spins[n].holder = NOBODY;
	return pthread_spin_unlock(&spins[n].s);
}

/* ---- threads and processes ---- */

/* n is an actor: it is cancelled in its wait, and has its mutex then; or is told of it at the next one. */
static bool may_cancel(const struct actor *a, int n)
{
	struct actor *target = &actors[n];

	(void)a;
	if (target->pending)
		return false;
	if (awake(n))
		return true;
	return target->op == &cond_wait_op && conds[target->at].waiter == n &&
	       can_be_had(&mutexes[conds[target->at].mutex]);
}

static int cancel_call(struct actor *a, int n)
{
	struct actor *target = &actors[n];

	(void)a;
	target->pending = true;
	if (!awake(n))
		conds[target->at].waiter = NOBODY;
	return pthread_cancel(target->thread);
}

static bool may_interrupt(const struct actor *a, int n)
{
	(void)a;
	return !awake(n);
}

static int interrupt_call(struct actor *a, int n)
{
	(void)a;
	return pthread_kill(actors[n].thread, SIGUSR1);
}

/* It ends with nothing but robust mutexes. */
static bool may_leave(const struct actor *a, int n)
{
	(void)n;
	for (int i = 0; i < MUTEXES; i++)
		if (mutexes[i].alive && !mutexes[i].robust && holder(&mutexes[i]) == self_of(a))
			return false;
	for (int i = 0; i < RWLOCKS; i++)
		if (rwlocks[i].alive && (a->reads[i] || writer_of(i) == self_of(a)))
			return false;
	for (int i = 0; i < SPINS; i++)
		if (spins[i].holder == self_of(a))
			return false;
	return true;
}

static int leave_call(struct actor *a, int n)
{
	(void)n;
	atomic_store(&a->ended, true);
	return 0;
}

/* The child tries everything that cannot block. */
static int child(struct actor *a)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < MUTEXES; i++) {
		struct mutex *m = &mutexes[i];
		int rc, h = m->alive ? holder(m) : NOBODY;

		if (!is_usable(m) || m->protocol != PTHREAD_PRIO_NONE)
			continue;
		rc = pthread_mutex_trylock(&m->m);
		note(a, " m%d %d", i, rc);
		if (!rc || (h == self_of(a) && asks_for_owner(m)))
			note(a, ",%d", pthread_mutex_unlock(&m->m));
		note(a, ",%d", pthread_mutex_timedlock(&m->m, &past));
		note(a, "=%u/%u", m->m.__data.__count, users_of(m));
	}
	pthread_mutex_lock(&own);
	for (int i = 0; i < CONDS; i++)
		if (conds[i].alive && conds[i].waiter == NOBODY)
			note(a, " c%d %d,%d,%d", i, pthread_cond_signal(&conds[i].c),
			     pthread_cond_timedwait(&conds[i].c, &own, &past), pthread_cond_broadcast(&conds[i].c));
	for (int i = 0; i < RWLOCKS; i++)
		if (rwlocks[i].alive && !is_wanted_rw(i))
			note(a, " rw%d %d,%d", i, pthread_rwlock_tryrdlock(&rwlocks[i].rw),
			     pthread_rwlock_trywrlock(&rwlocks[i].rw));
	return write(STDOUT_FILENO, a->log, strlen(a->log)) < 0;
}

static int fork_call(struct actor *a, int n)
{
	pid_t pid = fork();
	int status = 0;

	(void)n;
	if (!pid) {
		note(a, "  child:");
		status = child(a);
		_exit(status || write(STDOUT_FILENO, "\n", 1) != 1);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	errno = ERRNO_MARK;
	return status;
}

/* ---- steps ---- */

static const struct op mutex_lock_op = {"lock m", MUTEXES, may_lock, lock_call};
static const struct op cond_wait_op = {"wait c", CONDS, may_wait, wait_call};
static const struct op read_op = {"rdlock rw", RWLOCKS, may_read, read_call};
static const struct op write_op = {"wrlock rw", RWLOCKS, may_write, write_call};
static const struct op leave_op = {"end", 1, may_leave, leave_call};
static const struct op fork_op = {"fork", 1, may_try_spin, fork_call};

static const struct {
	unsigned weight;
	const struct op *op;
} table[] = {
	{40, &mutex_lock_op},
	{30, &cond_wait_op},
	{20, &read_op},
	{15, &write_op},
	{1, &leave_op},
	{1, &fork_op},
	{10, &(const struct op){"init m", MUTEXES, mutex_is_dead, mutex_init_call}},
	{10, &(const struct op){"trylock m", MUTEXES, mutex_is_alive, trylock_call}},
	{10, &(const struct op){"timedlock m", MUTEXES, may_lock_timed, timedlock_call}},
	{60, &(const struct op){"unlock m", MUTEXES, may_unlock, unlock_call}},
	{3, &(const struct op){"destroy m", MUTEXES, may_destroy, destroy_call}},
	{4, &(const struct op){"consistent m", MUTEXES, mutex_is_alive, consistent_call}},
	{1, &(const struct op){"getprioceiling m", MUTEXES, mutex_is_alive, ceiling_call}},
	{10, &(const struct op){"init c", CONDS, cond_is_dead, cond_init_call}},
	{1, &(const struct op){"destroy c", CONDS, may_end, cond_destroy_call}},
	{20, &(const struct op){"call c", CONDS, may_call, signal_call}},
	{10, &(const struct op){"timedwait(past) c", CONDS, may_wait_past, past_call}},
	{2, &(const struct op){"timedwait(bad) c", CONDS, cond_is_alive, bad_call}},
	{10, &(const struct op){"init rw", RWLOCKS, rw_is_dead, rw_init_call}},
	{15, &(const struct op){"try rw", RWLOCKS, may_try_rw, try_rw_call}},
	{60, &(const struct op){"unlock rw", RWLOCKS, may_unlock_rw, unlock_rw_call}},
	{5, &(const struct op){"destroy rw", RWLOCKS, may_end_rw, destroy_rw_call}},
	{4, &(const struct op){"lock s", SPINS, may_try_spin, try_spin_call}},
	{4, &(const struct op){"unlock s", SPINS, may_unlock_spin, unlock_spin_call}},
	{4, &(const struct op){"cancel ", ACTORS, may_cancel, cancel_call}},
	{4, &(const struct op){"interrupt ", ACTORS, may_interrupt, interrupt_call}},
};

static const struct op *draw(void)
{
	unsigned sum = 0, n;

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		sum += table[i].weight;
	n = dice() % sum;
	for (size_t i = 0;; n -= table[i++].weight)
		if (n < table[i].weight)
			return table[i].op;
}

static void *act(void *actor)
{
	struct actor *a = actor;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	a->tid = (pid_t)syscall(SYS_gettid);
	sem_post(&a->ready);
	do {
		while (sem_wait(&a->go))
			;
		errno = ERRNO_MARK;
		a->rc = a->op->call(a, a->object);
		a->errno_kept = errno == ERRNO_MARK;
		atomic_store(&a->busy, false);
	} while (!atomic_load(&a->ended));
	return NULL;
}

static void begin(struct actor *a)
{
	memset(a->reads, 0, sizeof a->reads);
	a->pending = false;
	a->at = NOBODY;
	atomic_store(&a->ended, false);
	if (pthread_create(&a->thread, NULL, act, a))
		abort();
	while (sem_wait(&a->ready))
		;
}

/* The actor sleeps, and has been given the CPU so often; else 0. */
static unsigned long asleep(const struct actor *a)
{
	char path[64], text[4096], *at;
	unsigned long sum = 1;
	ssize_t got;
	int file;

	snprintf(path, sizeof path, "/proc/self/task/%d/status", a->tid);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0; /* it ends */
	got = read(file, text, sizeof text - 1);
	close(file);
	text[got > 0 ? got : 0] = '\0';
	at = strstr(text, "\nState:\t");
	if (!at || at[8] != 'S')
		return 0;
	for (at = text; (at = strstr(at, "ctxt_switches:\t")); at++)
		sum += strtoul(at + 15, NULL, 10);
	return sum;
}

/* Until everybody is done or asleep, and has not been up between two looks. */
static void settle(void)
{
	unsigned long seen[ACTORS] = {0}, now;

	for (int same = 0; same < 2;) {
		same++;
		for (int i = 0; i < ACTORS; i++) {
			now = !atomic_load(&actors[i].busy) ? 1 : blocks(actors[i].op) ? asleep(&actors[i]) : 0;
			if (!now || now != seen[i])
				same = 0;
			seen[i] = now;
		}
		if (!same)
			sched_yield();
	}
}

/* ---- what is printed ---- */

static const char *name_of(int tid)
{
	static const char *const names[] = {"0", "1", "2"};
	int i = actor_of(tid);

	if (tid == INCONSISTENT || tid == UNRECOVERABLE)
		return tid == INCONSISTENT ? "inconsistent" : "unrecoverable";
	return i >= 0 ? names[i] : i == NOBODY ? "-" : "gone";
}

static void describe_mutex(int n, char *line)
{
	const struct mutex *m = &mutexes[n];
	int h = m->alive ? holder(m) : NOBODY;

	snprintf(line, LINE, "m%d %s: holder %d owner %s count %u users %u kind %#x", n, m->alive ? "alive" : "dead", h,
		 m->alive ? name_of(m->m.__data.__owner) : "", m->m.__data.__count, users_of(m),
		 (unsigned)m->m.__data.__kind);
}

static void describe_cond(int n, char *line)
{
	const struct cond *c = &conds[n];

	snprintf(line, LINE, "c%d %s: refs %u", n, c->alive ? "alive" : "dead", c->alive ? c->c.__data.__wrefs : 0);
}

static void describe_rwlock(int n, char *line)
{
	const struct rwlock *l = &rwlocks[n];

	snprintf(line, LINE, "rw%d %s: readers %u writer %s flags %u shared %d", n, l->alive ? "alive" : "dead",
		 l->alive && !is_wanted_rw(n) ? l->rw.__data.__readers >> 3 : 0,
		 l->alive ? name_of(l->rw.__data.__cur_writer) : "", l->alive ? l->rw.__data.__flags : 0,
		 l->alive ? (int)l->rw.__data.__shared : 0);
}

/* What has changed. */
static void describe(void)
{
	static char before[MUTEXES + CONDS + RWLOCKS][LINE];
	static void (*const describes[])(int, char *) = {describe_mutex, describe_cond, describe_rwlock};
	static const int counts[] = {MUTEXES, CONDS, RWLOCKS};
	char line[LINE], (*old)[LINE] = before;

	for (int sort = 0; sort < 3; sort++)
		for (int i = 0; i < counts[sort]; i++, old++) {
			describes[sort](i, line);
			if (strcmp(line, *old)) {
				printf("  %s\n", line);
				strcpy(*old, line);
			}
		}
}

/* The actor's call has returned, or has ended its thread. */
static void report(struct actor *a)
{
	bool over = a->op == &leave_op || a->log[0];

	if (over && a->log[0])
		printf("  %d is cancelled:%s\n", self_of(a), a->log);
	else
		printf("  %d returns %d%s\n", self_of(a), a->rc, a->errno_kept ? "" : ", errno written");
	a->op = NULL;
	a->at = NOBODY;
	a->log[0] = '\0';
	if (!over)
		return;
	pthread_join(a->thread, NULL);
	begin(a);
}

static void step(int number)
{
	struct actor *a = &actors[dice() % ACTORS];
	const struct op *op = draw();
	int n = (int)(dice() % (unsigned)op->objects);

	a->die = awake(self_of(a)) ? dice() : a->die;
	if (!awake(self_of(a)) || (op->objects == ACTORS && op->legal == may_cancel && n == self_of(a)) ||
	    !op->legal(a, n))
		return;
	printf("%d: %d %s%d (%u)\n", number, self_of(a), op->name, n, a->die % 4096);
	fflush(stdout);
	a->op = op;
	a->object = n;
	if (op == &cond_wait_op && holder(&mutexes[mutex_for(a)]) == self_of(a)) {
		a->at = n;
		a->with = mutex_for(a);
		conds[n].waiter = self_of(a);
		conds[n].mutex = a->with;
	}
	atomic_store(&a->busy, true);
	sem_post(&a->go);
	settle();
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].op && !atomic_load(&actors[i].busy)) {
			for (int c = 0; c < CONDS; c++)
				if (conds[c].waiter == i)
					conds[c].waiter = NOBODY;
			report(&actors[i]);
		}
	describe();
}

static void ignore(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = ignore};
	long steps;

	if (argc != 3 || (steps = strtol(argv[2], NULL, 10)) <= 0) {
		fprintf(stderr, "usage: calls SEED STEPS\n");
		return 2;
	}
	state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < SPINS; i++) {
		pthread_spin_init(&spins[i].s, PTHREAD_PROCESS_PRIVATE);
		spins[i].holder = NOBODY;
	}
	for (int i = 0; i < CONDS; i++)
		conds[i].waiter = NOBODY;
	for (int i = 0; i < ACTORS; i++) {
		sem_init(&actors[i].go, 0, 0);
		sem_init(&actors[i].ready, 0, 0);
		begin(&actors[i]);
	}
	for (int i = 0; i < steps; i++)
		step(i);
	printf("done\n");
	fflush(stdout);
	_exit(0); /* some may be blocked */
}
