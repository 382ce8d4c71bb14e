/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A library whose constructor starts a thread that lasts, and has it lock a mutex, an rwlock and a spin lock.
 *
 * Later the program calls early_meet(): the thread waits at a condition variable, is called by the program's main
 * thread, and both count under each of the locks.  If the library under test serves the one and leaves the other to
 * glibc, the call is not heard, or only as the wait ends by itself now and then, a writer is not woken, or a count is
 * lost.  early_meet returns 0 if all went well.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 2000, PATIENCE_S = 15, CALL_AFTER_US = 100000, BY_ITSELF = 2, HOLD_US = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
enum { NOT_YET, LOCKED, WAITS, CALLED, CAME };
static int state = NOT_YET; /* with the mutex held */
static int met;
static volatile long mutexed, written, spun;
static int returns; /* of the wait */
static pthread_t thread;
static pthread_barrier_t both; /* or the one may be through before the other one counts */

static void set_state(int now)
{
	pthread_mutex_lock(&mutex);
	state = now;
	pthread_mutex_unlock(&mutex);
}

/* At most that long: 0 if it came to pass. The mutex is held after it. */
static int await_state(int wanted)
{
	for (int ms = 0;; ms++) {
		pthread_mutex_lock(&mutex);
		if (state == wanted)
			return 0;
		if (ms > PATIENCE_S * 1000)
			return 1;
		pthread_mutex_unlock(&mutex);
		usleep(1000);
	}
}

static void count(void)
{
	pthread_barrier_wait(&both);
	for (int i = 0; i < ROUNDS; i++) {
		long before;

		pthread_mutex_lock(&mutex);
		before = mutexed;
		if (i % 64 == 0)
			sched_yield();
		mutexed = before + 1;
		pthread_mutex_unlock(&mutex);
		if (i % 4 == 0) { /* or the other one meets it there, and never as a writer */
			pthread_rwlock_rdlock(&rwlock);
			pthread_rwlock_unlock(&rwlock);
		}
		pthread_rwlock_wrlock(&rwlock);
		before = written;
		if (i % 64 == 1)
			usleep(HOLD_US); /* the other one sleeps for it meanwhile */
		written = before + 1;
		pthread_rwlock_unlock(&rwlock);
		pthread_spin_lock(&spinlock);
		spun++;
		pthread_spin_unlock(&spinlock);
	}
}

static void *live(void *arg)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_spin_lock(&spinlock);
	pthread_spin_unlock(&spinlock);
	set_state(LOCKED);
	while (!__atomic_load_n(&met, __ATOMIC_ACQUIRE))
		usleep(1000);
	pthread_mutex_lock(&mutex);
	state = WAITS;
	while (state != CALLED) {
		pthread_cond_wait(&cond, &mutex);
		returns++;
	}
	state = CAME;
	pthread_mutex_unlock(&mutex);
	count();
	return arg;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_barrier_init(&both, NULL, 2);
	pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
	if (pthread_create(&thread, NULL, live, NULL) || await_state(LOCKED))
		_exit(2);
	pthread_mutex_unlock(&mutex);
}

int early_meet(void)
{
	struct timespec until;

	__atomic_store_n(&met, 1, __ATOMIC_RELEASE);
	if (await_state(WAITS))
		return 3;
	pthread_mutex_unlock(&mutex);
	usleep(CALL_AFTER_US);
	pthread_mutex_lock(&mutex);
	state = CALLED;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	if (await_state(CAME))
		return 4;
	pthread_mutex_unlock(&mutex);
	if (returns > BY_ITSELF)
		return 7;
	count();
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (pthread_timedjoin_np(thread, NULL, &until))
		return 5;
	return mutexed == 2 * ROUNDS && written == 2 * ROUNDS && spun == 2 * ROUNDS ? 0 : 6;
}
