/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waits that are cut short, or in the middle of which the process forks: what tests/stats/report compares with the
 * statistics.
 *
 *	cut deferred		waiters for a mutex are cancelled, which takes effect when they have had it
 *	cut asynchronous	the same, at once: such a wait never ends, and does not count
 *	cut condition		waiters for a condition variable are cancelled
 *	cut fork		the process forks while threads wait; in the child they do not exist
 *	cut handler		a waiter forks, in a signal handler; in the child its wait goes on, and is not its own
 *
 * Prints a line as tests/stats/hot does. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/sleepers.h"

enum { THREADS = 4, ROUNDS = 10 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int signalled, type = PTHREAD_CANCEL_DEFERRED, ends;
static pid_t child = -1;

static void let_go(void *held)
{
	pthread_mutex_unlock(held);
	__atomic_fetch_add(&ends, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline, noclone)) static void *waited_for_mutex(void *unused)
{
	pthread_setcanceltype(type, NULL);
	sleepers_about_to_wait();
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(let_go, &mutex);
	pthread_testcancel();
	pthread_cleanup_pop(1);
	return unused;
}

__attribute__((noinline, noclone)) static void *waited_for_condition(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(let_go, &mutex);
	sleepers_about_to_wait();
	while (!signalled)
		pthread_cond_wait(&condition, &mutex);
	pthread_cleanup_pop(1);
	return unused;
}

static void start(pthread_t *threads, void *(*body)(void *))
{
	sleepers_expect(THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, body, NULL))
			abort();
}

/* Which of them are cancelled: all but the first. */
static void end(pthread_t *threads, int cancelled)
{
	void *how;

	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &how);
		if ((how == PTHREAD_CANCELED) != (cancelled && i > 0))
			abort();
	}
}

static void cancel_waiters(void)
{
	pthread_t threads[THREADS];

	pthread_mutex_lock(&mutex);
	start(threads, waited_for_mutex);
	sleepers_await();
	for (int i = 1; i < THREADS; i++)
		pthread_cancel(threads[i]);
	for (int i = 1; type == PTHREAD_CANCEL_ASYNCHRONOUS && i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_unlock(&mutex);
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		pthread_join(threads[0], NULL);
	else
		end(threads, 1);
}

static void cancel_sleepers(void)
{
	pthread_t threads[THREADS];

	signalled = 0;
	start(threads, waited_for_condition);
	sleepers_await();
	for (int i = 1; i < THREADS; i++)
		pthread_cancel(threads[i]);
	/* Those that are cancelled are out before the signal, which is for the other one. */
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_lock(&mutex);
	signalled = 1;
	pthread_mutex_unlock(&mutex);
	pthread_cond_signal(&condition); /* with the mutex held it might have to wait for that, too */
	pthread_join(threads[0], NULL);
}

static void wait_once(void (*meanwhile)(pthread_t))
{
	pthread_t threads[THREADS];

	pthread_mutex_lock(&mutex);
	start(threads, waited_for_mutex);
	sleepers_await();
	meanwhile(threads[0]);
	pthread_mutex_unlock(&mutex);
	end(threads, 0);
}

static void nothing(pthread_t waiter)
{
	(void)waiter;
}

static void fork_here(pthread_t waiter)
{
	(void)waiter;
	child = fork();
	if (child)
		return;
	/* Whoever waited is not here, and did not wait here. The mutex is ours to let go. */
	pthread_mutex_unlock(&mutex);
	wait_once(nothing);
	exit(0);
}

static void handler(int signal)
{
	(void)signal;
	child = fork();
	if (child)
		return;
	alarm(20);
	pthread_mutex_unlock(&mutex); /* its holder is not here; the wait that was interrupted goes on, and ends */
}

static void *leave_in_child(void *unused)
{
	waited_for_mutex(unused);
	if (!child)
		exit(0);
	return unused;
}

static void fork_in_handler(void)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	const struct timespec moment = {0, 1000000};
	pthread_t thread;

	sigaction(SIGUSR1, &action, NULL);
	pthread_mutex_lock(&mutex);
	sleepers_expect(1);
	pthread_create(&thread, NULL, leave_in_child, NULL);
	sleepers_await();
	pthread_kill(thread, SIGUSR1);
	while (__atomic_load_n(&child, __ATOMIC_RELAXED) < 0)
		nanosleep(&moment, NULL);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

static void rounds(void (*body)(void), const char *what, int got, int late)
{
	for (int i = 0; i < ROUNDS; i++)
		body();
	printf("waited_for_%s %s %d %d\n", what, what, got * ROUNDS, late * ROUNDS);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int status = 0;

	if (!strcmp(how, "deferred")) {
		rounds(cancel_waiters, "mutex", THREADS, 0);
	} else if (!strcmp(how, "asynchronous")) {
		type = PTHREAD_CANCEL_ASYNCHRONOUS;
		rounds(cancel_waiters, "mutex", 1, 0);
	} else if (!strcmp(how, "condition")) {
		rounds(cancel_sleepers, "condition", 1, THREADS - 1);
	} else if (!strcmp(how, "fork")) {
		wait_once(fork_here);
		printf("waited_for_mutex mutex %d 0\n", THREADS);
	} else if (!strcmp(how, "handler")) {
		fork_in_handler();
		printf("waited_for_mutex mutex 1 0\n");
	} else {
		return 2;
	}
	if (child > 0 && (waitpid(child, &status, 0) != child || status))
		return 1;
	return 0;
}
