/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * hog SECONDS: one thread holds a mutex nearly always, two others want it now and then.
 *
 * The hog lets the mutex go for the few instructions between an unlock and the next lock, so a waiter that has to
 * be woken first comes too late nearly every time: without a bound on overtaking the others starve.  Prints how
 * often one of them was overtaken at most, while it waited once.  That says more than the time: it does not grow when
 * the whole process has to wait for a CPU.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define VICTIMS 2
#define SECTION_NS 1000000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;
static atomic_long sections;

static long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* The hog has the first CPU for itself: waiters are woken on others, or it would make room for them. */
static void stay(int hog)
{
	cpu_set_t allowed, first;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
		return;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	CPU_CLR(cpu, &allowed);
	sched_setaffinity(0, sizeof first, hog ? &first : &allowed);
}

static void *hog(void *unused)
{
	stay(1);
	while (!atomic_load(&stop)) {
		pthread_mutex_lock(&mutex);
		atomic_fetch_add(&sections, 1);
		for (long end = now_ns() + SECTION_NS; now_ns() < end;)
			;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static void *victim(void *most)
{
	struct timespec pause = {0, 1000000};

	stay(0);
	while (!atomic_load(&sections))
		nanosleep(&pause, NULL);
	do {
		long before = atomic_load(&sections);
		pthread_mutex_lock(&mutex);
		long overtaken = atomic_load(&sections) - before;
		pthread_mutex_unlock(&mutex);
		if (overtaken > *(long *)most)
			*(long *)most = overtaken;
		nanosleep(&pause, NULL);
	} while (!atomic_load(&stop));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[1 + VICTIMS];
	long most[VICTIMS] = {0}, worst = 0;
	struct timespec length = {argc > 1 ? atol(argv[1]) : 1, 0};

	if (pthread_create(&thread[VICTIMS], NULL, hog, NULL) != 0)
		return 1;
	for (int i = 0; i < VICTIMS; i++)
		if (pthread_create(&thread[i], NULL, victim, &most[i]) != 0)
			return 1;
	nanosleep(&length, NULL);
	atomic_store(&stop, 1);
	for (int i = 0; i <= VICTIMS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < VICTIMS; i++)
		worst = most[i] > worst ? most[i] : worst;
	printf("%ld\n", worst);
	return 0;
}
