/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waiters for a spin lock in their sockets' bays: the order of each socket is that of arrival, bays are left as they
 * were found, whoever was passed, and the child of a fork leaves none that is another's. */
#include "pthread/spinlock.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admit/admit.h"
#include "pthread/turn.h"
#include "rt/arena.h"
#include "rt/config.h"
#include "rt/fork.h"
#include "rt/real.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "unit.h"

enum { SOCKETS = 2, WAITERS = 6, THREADS = 12, LOCKS = 3, ROUNDS = 20000 };

/* Any policy that queues: what it does is not asked. */
static const struct pk_admit_ops any;
const struct pk_admit_ops *pk_admit = &any;

/* No handler interrupts a wait for a lock of another kind. */
void pk_turn_step_back(void)
{
}

static pthread_spinlock_t locks[LOCKS];

static void nobody(struct pk_waiter *w)
{
	(void)w;
}

static void set_up(const char *topology)
{
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_fork_setup();
	pk_real();
	pk_topology_read("", topology);
	pk_thread_setup(nobody);
	for (int i = 0; i < LOCKS; i++)
		pk_spinlock_init(&locks[i], 0);
}

static unsigned users_of(unsigned socket, const void *object)
{
	unsigned n = 0;

	for (struct pk_bay *bay = NULL; (bay = pk_bay_next(socket, object, bay));)
		n += pk_bay_users(bay, object);
	return n;
}

/* Nobody is in any bay of the lock's, and the bays of its sets, which are claimed one after the other, are zero. */
static void assert_clean(pthread_spinlock_t *lock)
{
	static const uint64_t zero[6];

	for (unsigned s = 0; s < SOCKETS; s++) {
		struct pk_bay *bay[PK_BAY_WAYS];

		ck_assert_uint_eq(users_of(s, (void *)lock), 0);
		for (int i = 0; i < PK_BAY_WAYS; i++) {
			bay[i] = pk_bay_enter(s, (void *)lock);
			for (int n = 1; n < PK_BAY_USERS_MAX; n++)
				ck_assert_ptr_eq(pk_bay_enter(s, (void *)lock), bay[i]);
			ck_assert_mem_eq(bay[i]->unused, zero, sizeof(zero));
		}
		for (int i = 0; i < PK_BAY_WAYS; i++)
			ck_assert(pk_bay_close(bay[i], (void *)lock, PK_BAY_USERS_MAX));
	}
}

/* ---- order ---- */

static int order[WAITERS], arrived;
static unsigned socket_of[WAITERS];

static void *wait_once(void *arg)
{
	int me = (int)(uintptr_t)arg;

	socket_of[me] = pk_socket_here(pk_thread_record()->index);
	pk_spinlock_lock(&locks[0]);
	order[arrived++] = me;
	pk_spinlock_unlock(&locks[0]);
	return NULL;
}

/* Nobody looks before it is his turn, as those do who have waited for a while. */
START_TEST(order_of_arrival)
{
	pthread_t thread[WAITERS];
	int last[SOCKETS] = {-1, -1};

	set_up("2x4@thread");
	pk_config.spin = 1 << 30;
	pk_spinlock_lock(&locks[0]);
	for (uintptr_t i = 0; i < WAITERS; i++) {
		ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_once, (void *)i), 0);
		while (users_of(0, (void *)&locks[0]) + users_of(1, (void *)&locks[0]) <= i)
			usleep(100);
		usleep(10000); /* in line by now */
	}
	pk_spinlock_unlock(&locks[0]);
	for (int i = 0; i < WAITERS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < WAITERS; i++) {
		ck_assert_int_gt(order[i], last[socket_of[order[i]]]);
		last[socket_of[order[i]]] = order[i];
	}
	ck_assert_int_ge(last[0], 0);
	ck_assert_int_ge(last[1], 0);
	assert_clean(&locks[0]);
}
END_TEST

/* ---- many ---- */

static unsigned count[LOCKS];

static void *lock_many(void *arg)
{
	unsigned luck = (unsigned)(uintptr_t)arg * 7919;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned which;

		luck = luck * 1664525 + 1013904223;
		which = luck >> 24;
		which %= LOCKS;
		pk_spinlock_lock(&locks[which]);
		count[which]++;
		if (i % 64 == 0)
			usleep(10);
		pk_spinlock_unlock(&locks[which]);
	}
	return NULL;
}

/* Waiters are passed by those behind them, and pass others. */
START_TEST(bays_are_left_clean)
{
	pthread_t thread[THREADS];
	unsigned sum = 0;

	set_up("2x8@thread");
	pk_config.spin = _i ? 300 : 3;
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, lock_many, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < LOCKS; i++)
		sum += count[i];
	ck_assert_uint_eq(sum, THREADS * ROUNDS);
	ck_assert_uint_gt(pk_stat_sum(PK_STAT_spun), 0);
	for (int i = 0; i < LOCKS; i++)
		assert_clean(&locks[i]);
}
END_TEST

/* More than the socket has CPUs do not queue. */
START_TEST(no_more_than_cpus)
{
	pthread_t thread[WAITERS];

	set_up("2x1@thread");
	pk_spinlock_lock(&locks[0]);
	for (uintptr_t i = 0; i < WAITERS; i++) {
		ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_once, (void *)i), 0);
		usleep(2000);
	}
	while (pk_stat_sum(PK_STAT_yielded) < 1000)
		usleep(1000);
	/* Those who find no room are in the bay for a moment. */
	while (users_of(0, (void *)&locks[0]) + users_of(1, (void *)&locks[0]) != pk_stat_sum(PK_STAT_spun))
		usleep(1000);
	/* Two who come at once may claim two bays. */
	ck_assert_uint_lt(pk_stat_sum(PK_STAT_spun), WAITERS - 1);
	pk_spinlock_unlock(&locks[0]);
	for (int i = 0; i < WAITERS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	assert_clean(&locks[0]);
}
END_TEST

/* ---- fork ---- */

static pid_t child, parent;
static struct pk_bay *others;

/* In the child the bay is claimed anew for the same lock, before the wait goes on. */
static void fork_here(int number)
{
	(void)number;
	child = fork();
	if (child)
		return;
	alarm(20);
	others = pk_bay_enter(0, (void *)&locks[0]);
	pk_add_relaxed(&others->unused[5], UINT64_C(1) << 44); /* and in line there */
	pk_spinlock_unlock(&locks[0]);
}

static void *wait_and_fork(void *arg)
{
	pk_spinlock_lock(&locks[0]);
	if (getpid() != parent)
		_exit(users_of(0, (void *)&locks[0]) != 1 || others->unused[5] != UINT64_C(1) << 44);
	pk_spinlock_unlock(&locks[0]);
	return arg;
}

/* A lock in a packed struct, which x86 alone puts up with: its address is no key of a bay, so its waiters do not queue.
 */
#ifdef __x86_64__
static struct {
	char odd;
	pthread_spinlock_t lock;
} __attribute__((packed)) packed_lock;

static void *wait_packed(void *unused)
{
	pthread_spinlock_t *lock = (void *)((char *)&packed_lock + 1);

	pk_thread_record();
	pk_spinlock_wait(lock);
	pk_spinlock_unlock(lock);
	return unused;
}

START_TEST(misaligned)
{
	pthread_t thread[WAITERS];

	set_up("2x4@thread");
	packed_lock.lock = PK_SPIN_HELD;
	for (int i = 0; i < WAITERS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_packed, NULL), 0);
	usleep(20000);
	packed_lock.lock = PK_SPIN_FREE;
	for (int i = 0; i < WAITERS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_spun), 0);
}
END_TEST
#define MISALIGNED {misaligned, 1},
#else
#define MISALIGNED
#endif

static void *wait_whole(void *unused)
{
	pk_spinlock_lock(&locks[0]);
	pk_spinlock_unlock(&locks[0]);
	return unused;
}

/* Sockets that are cache groups have no bays here: the word is looked at. _i: others have. */
START_TEST(cache_groups)
{
	pthread_t thread;

	set_up("2x4@thread");
	pk_sockets_are_caches = !_i;
	locks[0] = PK_SPIN_HELD;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_whole, NULL), 0);
	while (!pk_stat_sum(PK_STAT_yielded)) /* it waits */
		usleep(1000);
	locks[0] = PK_SPIN_FREE;
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(pk_stat_sum(PK_STAT_spun), (unsigned)_i);
}
END_TEST

START_TEST(fork_in_a_handler)
{
	struct sigaction action = {.sa_handler = fork_here};
	pthread_t thread;
	int status;

	set_up("2x4");
	/* Whatever CPU the thread is on is socket 0's. */
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	parent = getpid();
	pk_spinlock_lock(&locks[0]);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_and_fork, NULL), 0);
	while (!users_of(0, (void *)&locks[0]))
		usleep(100);
	usleep(10000);
	ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
	while (!pk_load_relaxed(&child))
		usleep(100);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	pk_spinlock_unlock(&locks[0]);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	assert_clean(&locks[0]);
}
END_TEST

UNIT("spinlock", {order_of_arrival, 3}, {bays_are_left_clean, 2}, {no_more_than_cpus, 1},
     MISALIGNED{cache_groups, 2}, {fork_in_a_handler, 1})
