/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to standard error; the contract is in report.h. */
#include "rt/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/arch.h"
#include "rt/hush.h"

/* One write, so that lines of several processes do not mix. */
static void print(const char *line, int len)
{
	struct pk_hush h;
	long n;

	pk_hush_begin(&h);
	n = pk_arch_syscall(SYS_write, STDERR_FILENO, (long)line, len, 0, 0, 0);
	pk_hush_end(&h, n < 0 ? (int)-n : 0);
}

void pk_report(const char *format, ...)
{
	int saved = errno;
	char line[512];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (len >= (int)sizeof(line)) {
		len = sizeof(line) - 1;
		line[len - 1] = '\n';
	}
	if (len > 0)
		print(line, len);
	errno = saved;
}
