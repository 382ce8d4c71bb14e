/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The time. glibc's own clock_gettime, which makes no system call where the kernel
 * offers the vDSO, and never the one that a program may put before it. */
#ifndef PK_CLOCK_H
#define PK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in microseconds, in nanoseconds; 0 if it cannot be read. */
uint64_t pk_clock_us(void);
uint64_t pk_clock_ns(void);

/* How many microseconds are left until that time: 0 if it has passed, or if the clock
 * cannot be read. */
uint64_t pk_clock_left_us(clockid_t clock, const struct timespec *abstime);

/* That many microseconds from now, on CLOCK_MONOTONIC. */
struct timespec pk_clock_after(uint64_t us);

/* Whether that time has passed; so if the clock cannot be read. */
bool pk_clock_passed(clockid_t clock, const struct timespec *abstime);

#endif
