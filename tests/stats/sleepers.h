/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waiting until threads sleep that were about to wait: the kernel says of each how it is. For C and C++.
 *
 * A thread that has said so does nothing more that sleeps, but for what it is about to wait for. */
#ifndef PK_TEST_SLEEPERS_H
#define PK_TEST_SLEEPERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPERS_MAX = 64 };

static int sleepers_tid[SLEEPERS_MAX], sleepers_said, sleepers_expected;

static inline void sleepers_expect(int n)
{
	sleepers_said = 0;
	for (int i = 0; i < n; i++)
		sleepers_tid[i] = 0;
	sleepers_expected = n;
}

static inline void sleepers_about_to_wait(void)
{
	int n = __atomic_fetch_add(&sleepers_said, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&sleepers_tid[n], (int)syscall(SYS_gettid), __ATOMIC_RELAXED);
}

static inline int sleepers_sleeps(int tid)
{
	char path[64], line[512] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	end = strrchr(line, ')');
	return end && end[1] == ' ' && end[2] == 'S';
}

static inline void sleepers_await(void)
{
	const struct timespec moment = {0, 200000};

	for (int i = 0; i < sleepers_expected; i++) {
		int tid;

		while (!(tid = __atomic_load_n(&sleepers_tid[i], __ATOMIC_RELAXED)) || !sleepers_sleeps(tid))
			nanosleep(&moment, NULL);
	}
}

#endif
