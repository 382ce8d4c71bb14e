/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to standard error; the contract is in report.h. */
#include "rt/report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/arch.h"

/* One write, so that lines of several processes do not mix. When nobody reads
 * the pipe that it goes to, the program must not die of our line: the SIGPIPE is
 * kept back, and taken away unless another one was waiting already. */
static void print(const char *line, int len)
{
	static const struct timespec now;
	sigset_t pipe_only, before, pending;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	if (pk_arch_syscall(SYS_write, STDERR_FILENO, (long)line, len, 0, 0, 0) == -EPIPE &&
	    !sigismember(&pending, SIGPIPE))
		sigtimedwait(&pipe_only, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
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
