/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* clock_gettime() as of a machine whose CLOCK_REALTIME jumps; preloaded behind the library, which then sees it, too. */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jumps.h"

int clock_gettime(clockid_t clock, struct timespec *t)
{
	struct timespec mono;
	long rc = syscall(SYS_clock_gettime, clock, t);
	int64_t ns;

	if (rc || clock != CLOCK_REALTIME)
		return (int)rc;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &mono);
	ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + jump_ns((int64_t)mono.tv_sec * 1000000000 + mono.tv_nsec);
	t->tv_sec = ns / 1000000000;
	t->tv_nsec = ns % 1000000000;
	return 0;
}
