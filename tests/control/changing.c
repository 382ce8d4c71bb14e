/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* 32 threads that contend for a mutex and an rwlock while somebody changes the policy (tests/control/steering).
 *
 *	changing [fork|rwlock|spin|cond|later]
 *
 * Prints a line when all have begun; ends when standard input does: then it says how many sections there were and
 * whether two threads were ever in one at once, or `stuck' if a thread makes no progress for ten seconds. With `fork' a
 * child does all this, which has no page; with `later' threads begin when a byte comes in, and so do their waits; with the
 * others threads wait for such an object only. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 32, PATIENCE = 10 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static const char *only = "";
static int inside, writing;
static unsigned long sections, collisions;
static int over;
static struct {
	unsigned long rounds;
	char unshared[120];
} progress[THREADS];

static void enter(int *in)
{
	if (__atomic_fetch_add(in, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&collisions, 1, __ATOMIC_RELAXED);
	for (volatile int i = 0; i < 50; i++)
		;
	__atomic_fetch_sub(in, 1, __ATOMIC_RELAXED);
}

static void use_cond(void)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 1000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	pthread_mutex_lock(&own);
	pthread_cond_timedwait(&never, &own, &soon);
	pthread_mutex_unlock(&own);
	__atomic_fetch_add(&sections, 1, __ATOMIC_RELAXED);
}

static void *contend(void *arg)
{
	unsigned long *rounds = arg;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		__atomic_store_n(rounds, *rounds + 1, __ATOMIC_RELAXED);
		if (!strcmp(only, "cond")) {
			use_cond();
			continue;
		}
		if (!strcmp(only, "spin")) {
			pthread_spin_lock(&spinlock);
			enter(&inside);
			sections++;
			pthread_spin_unlock(&spinlock);
			continue;
		}
		if (strcmp(only, "rwlock")) {
			pthread_mutex_lock(&mutex);
			enter(&inside);
			sections++;
			pthread_mutex_unlock(&mutex);
		}
		if (*rounds % 4) {
			pthread_rwlock_rdlock(&rwlock);
			if (__atomic_load_n(&writing, __ATOMIC_RELAXED))
				__atomic_fetch_add(&collisions, 1, __ATOMIC_RELAXED);
		} else {
			pthread_rwlock_wrlock(&rwlock);
			enter(&writing);
			sections += !strcmp(only, "rwlock");
		}
		pthread_rwlock_unlock(&rwlock);
	}
	return NULL;
}

static void *watch(void *unused)
{
	unsigned long last[THREADS] = {0};

	for (;;) {
		sleep(PATIENCE);
		for (int i = 0; i < THREADS; i++) {
			unsigned long now = __atomic_load_n(&progress[i].rounds, __ATOMIC_RELAXED);

			if (now == last[i]) {
				printf("stuck\n");
				fflush(stdout);
				_exit(1);
			}
			last[i] = now;
		}
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], watcher;
	char byte;

	if (argc > 1 && !strcmp(argv[1], "fork")) {
		pid_t child = fork();

		if (child)
			return waitpid(child, NULL, 0) != child;
	} else if (argc > 1 && !strcmp(argv[1], "later")) {
		printf("%d\n", (int)getpid());
		fflush(stdout);
		if (read(0, &byte, 1) != 1)
			return 1;
	} else if (argc > 1) {
		only = argv[1];
	}
	pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, contend, &progress[i].rounds);
	pthread_create(&watcher, NULL, watch, NULL);
	if (argc < 2 || strcmp(argv[1], "later") != 0) {
		printf("%d\n", (int)getpid());
		fflush(stdout);
	}
	while (read(0, &byte, 1) > 0)
		;
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lu sections, %lu collisions\n", sections, collisions);
	return collisions != 0;
}
