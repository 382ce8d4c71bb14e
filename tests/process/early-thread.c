/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A library whose constructor starts threads, lets them contend, and waits for them.
 *
 * It is linked with -z initfirst: preloaded, its constructor runs before that of any other library.  Opened with
 * dlopen it runs with the loader's lock held by the opening thread, so that a lock path that calls into the loader
 * (dlsym, the first use of a lazily bound function that needs resolving) never comes back.  Says so on stdout.
 *
 * It also has a fork handler, which runs in the child before that of a library that is initialised later, even if that one
 * puts its own before others', as it asks libc itself: it starts a thread that waits on a condition variable, and one that
 * signals it when the handlers are through.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define THREADS 6
#define ROUNDS 3000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total, contended;

static pthread_barrier_t all_there; /* or the first one may be through before the last one starts */

static void *work(void *unused)
{
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < ROUNDS; i++) {
		if (pthread_mutex_trylock(&mutex) != 0) {
			pthread_mutex_lock(&mutex);
			contended++;
		}
		long before = *(volatile long *)&total;
		if (i % 1000 == 0)
			usleep(300); /* with the lock held, so that others find it taken, however busy the machine is */
		else if (i % 16 == 0)
			sched_yield();
		*(volatile long *)&total = before + 1;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waits, woken;

static void *wait_in_child(void *unused)
{
	static const char good[] = "early: woken in the child\n";

	pthread_mutex_lock(&mutex);
	waits = 1;
	while (!woken)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	_exit(write(1, good, sizeof good - 1) < 0);
	return unused;
}

static void *signal_in_child(void *unused)
{
	usleep(100000); /* the other handlers have run */
	pthread_mutex_lock(&mutex);
	woken = 1;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void in_child(void)
{
	pthread_t thread;

	alarm(20);
	if (pthread_create(&thread, NULL, wait_in_child, NULL) != 0)
		_exit(2);
	for (int there = 0; !there; usleep(1000)) {
		pthread_mutex_lock(&mutex);
		there = waits;
		pthread_mutex_unlock(&mutex);
	}
	if (pthread_create(&thread, NULL, signal_in_child, NULL) != 0)
		_exit(2);
}

/* As pthread_atfork(NULL, NULL, handler), but of whoever comes after this library, which is libc. */
static void register_in_libc(void (*handler)(void))
{
	int (*add)(void (*)(void), void (*)(void), void (*)(void), void *);

	*(void **)&add = dlsym(RTLD_NEXT, "__register_atfork");
	if (!add || add(NULL, NULL, handler, NULL))
		_exit(2);
}

__attribute__((constructor)) static void contend(void)
{
	static const char *const said[] = {"early: wrong\n", "early: never contended\n", "early: contended\n"};
	pthread_t thread[THREADS];
	int result;

	register_in_libc(in_child);
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, NULL) != 0)
			_exit(2);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	result = total != (long)THREADS * ROUNDS ? 0 : contended ? 2 : 1;
	if (write(1, said[result], strlen(said[result])) < 0)
		_exit(3);
}
