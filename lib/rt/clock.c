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

uint64_t pk_clock_ns(void)
{
	struct timespec now;

	if (!read_clock(CLOCK_MONOTONIC, &now))
		return 0;
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t pk_clock_us(void)
{
	return pk_clock_ns() / 1000;
}

uint64_t pk_clock_left_us(clockid_t clock, const struct timespec *abstime)
{
	struct timespec now;
	int64_t left;

	if (!read_clock(clock, &now) || abstime->tv_sec < now.tv_sec)
		return 0;
	if (abstime->tv_sec - now.tv_sec > INT32_MAX)
		return (uint64_t)INT32_MAX * 1000000;
	left = (abstime->tv_sec - now.tv_sec) * 1000000 + (abstime->tv_nsec - now.tv_nsec) / 1000;
	return left > 0 ? (uint64_t)left : 0;
}

struct timespec pk_clock_after(uint64_t us)
{
	struct timespec then = {0, 0};

	read_clock(CLOCK_MONOTONIC, &then);
	us += (uint64_t)then.tv_nsec / 1000;
	then.tv_sec += (time_t)(us / 1000000);
	then.tv_nsec = (long)(us % 1000000) * 1000;
	return then;
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
