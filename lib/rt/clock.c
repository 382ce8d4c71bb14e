/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The time; the contract is in clock.h. */
#include "rt/clock.h"

#include <errno.h>

#include "rt/real.h"

static bool read_clock(clockid_t clock, struct timespec *now)
{
	int saved = errno;
	int ret = pk_real()->clock_gettime(clock, now);

	errno = saved;
	return !ret;
}

uint64_t pk_clock_us(void)
{
	struct timespec now;

	if (!read_clock(CLOCK_MONOTONIC, &now))
		return 0;
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool pk_clock_passed(clockid_t clock, const struct timespec *abstime)
{
	struct timespec now;

	if (!read_clock(clock, &now))
		return true;
	if (now.tv_sec != abstime->tv_sec)
		return now.tv_sec > abstime->tv_sec;
	return now.tv_nsec >= abstime->tv_nsec;
}
