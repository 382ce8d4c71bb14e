/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * The first process of a PID namespace forks into another one: the child is number 1 again, as its parent is.
 *
 * Its main thread and three others write and read under a reader-writer lock that the parent has used, each of them for
 * half a second and at least once.  A library that knows its threads by their numbers, and those of its parent by
 * theirs, takes the one for the other, and hangs.  Exit status 77, and the reason on
 * stderr, if no namespaces are to be had.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, MILLISECONDS = 500, PATIENCE_S = 15 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile long written;
static long done[THREADS + 1];
static int stop;

static void write_once(int who)
{
	pthread_rwlock_wrlock(&lock);
	written++;
	for (volatile int i = 0; i < 300; i++)
		;
	pthread_rwlock_unlock(&lock);
	done[who]++;
}

static void read_once(void)
{
	pthread_rwlock_rdlock(&lock);
	pthread_rwlock_unlock(&lock);
}

static void *work(void *who)
{
	do {
		write_once((long)who);
		read_once();
	} while (!__atomic_load_n(&stop, __ATOMIC_RELAXED));
	return NULL;
}

static int contend(void)
{
	struct timespec begun, now, until;
	pthread_t thread[THREADS];
	long all = 0;
	int late = 0;

	alarm(PATIENCE_S);
	written = 0;
	memset(done, 0, sizeof(done));
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)i))
			return 2;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		for (int i = 0; i < 20; i++)
			write_once(THREADS);
		read_once();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < MILLISECONDS);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S / 2;
	for (int i = 0; i < THREADS; i++)
		late |= pthread_timedjoin_np(thread[i], NULL, &until);
	for (int i = 0; i <= THREADS; i++)
		all += done[i];
	printf("number %d: %ld %ld %ld, main thread %ld%s\n", (int)getpid(), done[0], done[1], done[2], done[THREADS],
	       late		? ": hangs"
	       : written == all ? ""
				: ": updates were lost");
	fflush(stdout);
	return late || written != all;
}

/* In a namespace of its own, of which it is the first process. */
static pid_t fork_apart(void)
{
	pid_t child;

	if (unshare(CLONE_NEWPID) && (errno != EPERM || unshare(CLONE_NEWUSER | CLONE_NEWPID))) {
		fprintf(stderr, "namespaces: unshare: %s\n", strerror(errno));
		_exit(77);
	}
	child = fork();
	if (child < 0) {
		fprintf(stderr, "namespaces: fork: %s\n", strerror(errno));
		_exit(77);
	}
	return child;
}

static void end_as(pid_t child)
{
	int status = 0;

	if (waitpid(child, &status, 0) != child)
		_exit(2);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

int main(void)
{
	write_once(0);
	read_once();
	for (int level = 0; level < 2; level++) {
		pid_t child = fork_apart();

		if (child)
			end_as(child);
		if (getpid() != 1)
			_exit(2);
		write_once(0);
		read_once();
	}
	_exit(contend());
}
