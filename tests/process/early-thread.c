/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A library whose constructor starts threads, lets them contend, and waits for them.
 *
 * It is linked with -z initfirst: preloaded, its constructor runs before that of any other library.  Opened with
 * dlopen it runs with the loader's lock held by the opening thread, so that a lock path that calls into the loader
 * (dlsym, the first use of a lazily bound function that needs resolving) never comes back.  Says so on stdout.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define THREADS 6
#define ROUNDS 3000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total, contended;

static void *work(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (pthread_mutex_trylock(&mutex) != 0) {
			pthread_mutex_lock(&mutex);
			contended++;
		}
		long before = *(volatile long *)&total;
		if (i % 16 == 0)
			sched_yield();
		*(volatile long *)&total = before + 1;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

__attribute__((constructor)) static void contend(void)
{
	static const char good[] = "early: contended\n", bad[] = "early: wrong\n";
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, NULL) != 0)
			_exit(2);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	int right = total == (long)THREADS * ROUNDS && contended > 0;
	if (write(1, right ? good : bad, right ? sizeof good - 1 : sizeof bad - 1) < 0)
		_exit(3);
}
