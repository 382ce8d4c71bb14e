/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A policy for one mutex, from inside a program (tests/control/one-mutex).
 *
 *	own attributes POLICY...	the attribute functions, next to the C library's own; prints what is wrong
 *	own queue POLICY		waiters of such a mutex, and of one that was moved to it by a broadcast; prints
 *					what the mutex and the counters say
 *	own contend POLICY TYPE		threads by the library's functions and the C library's own, with deadlines,
 *tries and a condition variable; prints collisions and the policy's byte in the end
 *	own bytes			the same while that byte takes every value there is. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PARKADE_OPTIONAL
#include "parkade.h"
#include "stats/sleepers.h"

enum { WAITERS = 3, THREADS = 6, SIZE = 40, BYTE = 22, TAIL = 24, ROUNDS = 4000 };

static struct {
	int (*init)(pthread_mutex_t *, const pthread_mutexattr_t *);
	int (*lock)(pthread_mutex_t *);
	int (*unlock)(pthread_mutex_t *);
	int (*destroy)(pthread_mutex_t *);
} glibc;

static pthread_mutex_t mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int go, inside, over;
static unsigned long sections, collisions;

#define WRONG(...) (printf(__VA_ARGS__), putchar('\n'))

static void find_glibc(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	*(void **)&glibc.init = dlsym(libc, "pthread_mutex_init");
	*(void **)&glibc.lock = dlsym(libc, "pthread_mutex_lock");
	*(void **)&glibc.unlock = dlsym(libc, "pthread_mutex_unlock");
	*(void **)&glibc.destroy = dlsym(libc, "pthread_mutex_destroy");
	if (!glibc.init || !glibc.lock || !glibc.unlock || !glibc.destroy || glibc.lock == pthread_mutex_lock)
		abort();
}

static uint64_t counter(const char *name)
{
	uint64_t value = 0;

	if (parkade_stat(name, &value))
		abort();
	return value;
}

/* ---- attributes ---- */

/* All that the C library says of them. */
static void read_all(const pthread_mutexattr_t *attr, int all[4])
{
	pthread_mutexattr_gettype(attr, &all[0]);
	pthread_mutexattr_getpshared(attr, &all[1]);
	pthread_mutexattr_getrobust(attr, &all[2]);
	pthread_mutexattr_getprotocol(attr, &all[3]);
}

static int has(const pthread_mutexattr_t *attr, const char *policy)
{
	char name[32] = "?";

	return parkade_mutexattr_getpolicy_np(attr, name, sizeof(name)) == 0 && !strcmp(name, policy);
}

static void of_type(int type, const char *policy)
{
	pthread_mutexattr_t plain, ours;
	pthread_mutex_t made[3];
	int before[4], after[4];

	pthread_mutexattr_init(&plain);
	pthread_mutexattr_init(&ours);
	pthread_mutexattr_settype(&plain, type);
	if (parkade_mutexattr_setpolicy_np(&ours, policy))
		WRONG("%s is refused", policy);
	pthread_mutexattr_settype(&ours, type);
	if (!has(&ours, policy))
		WRONG("%s, type %d: the policy is lost", policy, type);
	read_all(&plain, before);
	read_all(&ours, after);
	if (memcmp(before, after, sizeof(before)) != 0)
		WRONG("%s, type %d: the C library sees other attributes", policy, type);
	memset(made, 0xa5, sizeof(made));
	if (glibc.init(&made[0], &plain) || glibc.init(&made[1], &ours) || memcmp(&made[0], &made[1], SIZE) != 0)
		WRONG("%s, type %d: the C library's pthread_mutex_init makes another mutex of it", policy, type);
	if (pthread_mutex_init(&made[2], &ours) || !((unsigned char *)&made[2])[BYTE])
		WRONG("%s, type %d: the mutex has not got it", policy, type);
	if (glibc.lock(&made[2]) || glibc.unlock(&made[2]))
		WRONG("%s, type %d: the C library does not lock it", policy, type);
	if (!((unsigned char *)&made[2])[BYTE])
		WRONG("%s, type %d: the C library takes it away", policy, type);
	((unsigned char *)&made[2])[BYTE] = 0;
	if (memcmp(&made[0], &made[2], SIZE) != 0)
		WRONG("%s, type %d: more than one byte of the mutex is another", policy, type);
	if (glibc.destroy(&made[2]) || pthread_mutex_init(&made[2], NULL) || ((unsigned char *)&made[2])[BYTE])
		WRONG("%s, type %d: it stays with the address", policy, type);
	if (parkade_mutexattr_setpolicy_np(&ours, NULL) || memcmp(&plain, &ours, sizeof(int)) != 0)
		WRONG("%s, type %d: it cannot be taken back", policy, type);
}

static void expect(int got, int wanted, const char *what)
{
	if (got != wanted)
		WRONG("%s: %d and not %d", what, got, wanted);
}

static void refused(const char *policy)
{
	static const char *const unfit[] = {"glibc", "clof:mcs-tkt"}, *const unknown[] = {"banana", "", "auto", "mc"};
	pthread_mutexattr_t attr, before;
	pthread_mutex_t made;
	char small[2];

	pthread_mutexattr_init(&attr);
	before = attr;
	for (unsigned i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++)
		expect(parkade_mutexattr_setpolicy_np(&attr, unfit[i]), ENOTSUP, unfit[i]);
	for (unsigned i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		expect(parkade_mutexattr_setpolicy_np(&attr, unknown[i]), EINVAL, unknown[i]);
	if (memcmp(&attr, &before, sizeof(attr)) != 0)
		WRONG("a refused policy leaves something");
	for (int way = 0; way < 4; way++)
		for (int late = 0; late < 2; late++) {
			pthread_mutexattr_init(&attr);
			if (late)
				expect(parkade_mutexattr_setpolicy_np(&attr, policy), 0, policy);
			if (way == 0)
				pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
			else if (way == 1)
				pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
			else
				pthread_mutexattr_setprotocol(&attr,
							      way == 2 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_PROTECT);
			if (!late)
				expect(parkade_mutexattr_setpolicy_np(&attr, policy), ENOTSUP,
				       "a mutex of another kind");
			else
				expect(pthread_mutex_init(&made, &attr), ENOTSUP, "initialising one of another kind");
			expect(parkade_mutexattr_setpolicy_np(&attr, NULL), 0, "taking it back");
			expect(pthread_mutex_init(&made, &attr), 0, "without a policy");
		}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprioceiling(&attr, 7);
	if (!has(&attr, ""))
		WRONG("a priority ceiling is taken for a policy");
	expect(parkade_mutexattr_setpolicy_np(&attr, NULL), 0, "taking nothing back");
	if (memcmp(&attr, &before, sizeof(attr)) == 0)
		WRONG("a priority ceiling is taken away");
	expect(pthread_mutex_init(&made, &attr), 0, "with a priority ceiling");
	parkade_mutexattr_setpolicy_np(&attr, policy);
	expect(parkade_mutexattr_getpolicy_np(&attr, small, sizeof(small)), ERANGE, "a small buffer");
}

/* Which bits of the attributes glibc's pthread_mutex_init does not look at, and its getters do not show. */
static void bits(void)
{
	for (int bit = 12; bit < 24; bit++) {
		pthread_mutexattr_t attr;
		pthread_mutex_t with, without;
		int before[4], after[4];
		unsigned word;

		pthread_mutexattr_init(&attr);
		read_all(&attr, before);
		glibc.init(&without, &attr);
		memcpy(&word, &attr, sizeof(word));
		word |= 1u << bit;
		memcpy(&attr, &word, sizeof(word));
		read_all(&attr, after);
		if (glibc.init(&with, &attr) || memcmp(&with, &without, SIZE) != 0 ||
		    memcmp(before, after, sizeof(before)) != 0)
			WRONG("bit %d of the attributes means something", bit);
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
		memcpy(&word, &attr, sizeof(word));
		if (!(word >> bit & 1))
			WRONG("bit %d of the attributes is not kept", bit);
	}
}

static void attributes(char **policies)
{
	static const int types[] = {PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				    PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};

	bits();
	refused(policies[0]);
	for (; *policies; policies++)
		for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
			of_type(types[i], *policies);
}

/* ---- waiters ---- */

static void make(const char *policy, int type)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	if (parkade_mutexattr_setpolicy_np(&attr, policy) || pthread_mutex_init(&mutex, &attr))
		abort();
}

static void *wait_for_it(void *unused)
{
	sleepers_about_to_wait();
	pthread_mutex_lock(&mutex);
	sections++;
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *wait_for_signal(void *unused)
{
	pthread_mutex_lock(&mutex);
	sleepers_about_to_wait();
	while (!go)
		pthread_cond_wait(&condition, &mutex);
	sections++;
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void queue(const char *policy)
{
	const struct timespec past = {1, 0};
	pthread_t thread[WAITERS];
	uint64_t tail;

	make(policy, PTHREAD_MUTEX_DEFAULT);
	sleepers_expect(WAITERS);
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < WAITERS; i++)
		pthread_create(&thread[i], NULL, wait_for_it, NULL);
	sleepers_await();
	memcpy(&tail, (char *)&mutex + TAIL, sizeof(tail));
	printf("tail %u entered %llu byte %u\n", (unsigned)(tail >> 24) & 0xff, (unsigned long long)counter("entered"),
	       ((unsigned char *)&mutex)[BYTE]);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(thread[i], NULL);
	sleepers_expect(WAITERS);
	for (int i = 0; i < WAITERS; i++)
		pthread_create(&thread[i], NULL, wait_for_signal, NULL);
	sleepers_await();
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&condition, &mutex, &past); /* who has never waited counts nothing */
	go = 1;
	pthread_cond_broadcast(&condition);
	memcpy(&tail, (char *)&mutex + TAIL, sizeof(tail));
	printf("tail %u morphed %llu byte %u\n", (unsigned)(tail >> 24) & 0xff, (unsigned long long)counter("morphed"),
	       ((unsigned char *)&mutex)[BYTE]);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(thread[i], NULL);
	printf("sections %lu\n", sections);
}

/* ---- contention ---- */

static void section(void)
{
	if (__atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&collisions, 1, __ATOMIC_RELAXED);
	for (volatile int i = 0; i < 100; i++)
		;
	sections++;
	__atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
}

static void *contend(void *arg)
{
	long id = (long)arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct timespec soon;

		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 50000;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
		if (id == 0) {
			if (glibc.lock(&mutex))
				abort();
			section();
			glibc.unlock(&mutex);
			continue;
		}
		if (id == 1 && pthread_mutex_timedlock(&mutex, &soon))
			continue;
		if (id == 2 && pthread_mutex_trylock(&mutex))
			continue;
		if (id > 2 && pthread_mutex_lock(&mutex))
			abort();
		section();
		if (id == 3 && i % 8 == 0)
			pthread_cond_timedwait(&condition, &mutex, &soon);
		if (id == 4 && i % 8 == 0)
			pthread_cond_broadcast(&condition);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *change(void *unused)
{
	for (unsigned n = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); n++) {
		/* As one access of 8 bytes: the flags beside it belong to others. */
		uint64_t *kind = (uint64_t *)(void *)((char *)&mutex + BYTE / 8 * 8), seen, want;

		seen = __atomic_load_n(kind, __ATOMIC_RELAXED);
		do {
			want = seen;
			((unsigned char *)&want)[BYTE % 8] = (unsigned char)n;
		} while (!__atomic_compare_exchange_n(kind, &seen, want, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
		usleep(50);
	}
	return unused;
}

static void crowd(int changing)
{
	pthread_t thread[THREADS], changer;

	for (long i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, contend, (void *)i);
	if (changing)
		pthread_create(&changer, NULL, change, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	if (changing)
		pthread_join(changer, NULL);
	printf("collisions %lu sections %d byte %u impatient %d\n", collisions, sections > 3 * ROUNDS,
	       ((unsigned char *)&mutex)[BYTE], counter("impatient") > 0);
	if (pthread_mutex_destroy(&mutex))
		abort();
}

int main(int argc, char **argv)
{
	find_glibc();
	if (argc > 2 && !strcmp(argv[1], "attributes"))
		attributes(argv + 2);
	else if (argc == 3 && !strcmp(argv[1], "queue"))
		queue(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "contend"))
		make(argv[2], atoi(argv[3])), crowd(0);
	else if (argc == 2 && !strcmp(argv[1], "bytes"))
		make("shfl", PTHREAD_MUTEX_DEFAULT), crowd(1);
	else
		return 2;
	return 0;
}
