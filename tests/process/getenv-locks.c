/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A program that interposes getenv and secure_getenv and locks a mutex in them, as Firefox does.
 *
 * A library that asks for its settings when the first lock is contended comes back to this very mutex.  Threads
 * contend on it through getenv before any library's constructor has run, and again in main.  Exits 0 when every
 * answer was right and both phases were contended.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 6

extern char **environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long calls, contended;

char *getenv(const char *name)
{
	char *value = NULL;
	size_t length = strlen(name);

	if (pthread_mutex_trylock(&mutex) != 0) {
		pthread_mutex_lock(&mutex);
		contended++;
	}
	if (++calls % 1000 == 0)
		usleep(300); /* with the lock held, so that others find it taken, however busy the machine is */
	else if (calls % 32 == 0)
		sched_yield();
	for (char **entry = environ; entry && *entry; entry++)
		if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
			value = *entry + length + 1;
	pthread_mutex_unlock(&mutex);
	return value;
}

char *secure_getenv(const char *name)
{
	return getenv(name);
}

static void *ask(void *rounds)
{
	for (long i = (long)rounds; i > 0; i--) {
		const char *answer = getenv("GETENV_LOCKS");
		if (!answer || strcmp(answer, "yes") != 0)
			return "wrong";
	}
	return NULL;
}

static void contend(long rounds)
{
	pthread_t thread[THREADS];
	void *wrong = NULL, *result;
	long expected = calls + rounds * THREADS;

	contended = 0;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, ask, (void *)rounds) != 0)
			_exit(2);
	for (int i = 0; i < THREADS; i++)
		if (pthread_join(thread[i], &result) != 0 || result)
			wrong = result;
	/* More calls than ours are the library's own. */
	if (wrong || contended == 0 || calls < expected)
		_exit(1);
}

static void before_constructors(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	environ = envp;
	contend(2000);
}

typedef void initialiser(int, char **, char **);
__attribute__((section(".preinit_array"), used)) static initialiser *const preinit = before_constructors;

int main(void)
{
	contend(10000);
	return 0;
}
