/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A library that has a clock of its own, and locks to read it, as libfaketime does. Preloaded behind the library. */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	long ret;

	pthread_mutex_lock(&mutex);
	ret = syscall(SYS_clock_gettime, clock, now);
	pthread_mutex_unlock(&mutex);
	return (int)ret;
}
