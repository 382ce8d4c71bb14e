/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The program must not die of what the library writes: SIGPIPE when nobody reads it, SIGXFSZ where no file may grow so
 * far (RLIMIT_FSIZE). They are kept back, and taken away unless another one was waiting already. */
#ifndef PK_HUSH_H
#define PK_HUSH_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/compiler.h"

struct pk_hush {
	sigset_t signals, before, pending;
};

PK_INLINE void pk_hush_begin(struct pk_hush *h)
{
	sigemptyset(&h->signals);
	sigaddset(&h->signals, SIGPIPE);
	sigaddset(&h->signals, SIGXFSZ);
	sigpending(&h->pending);
	pthread_sigmask(SIG_BLOCK, &h->signals, &h->before);
}

/* `why`: the error of the call, or 0. */
PK_INLINE void pk_hush_end(struct pk_hush *h, int why)
{
	static const struct timespec now;
	int number = why == EPIPE ? SIGPIPE : why == EFBIG ? SIGXFSZ : 0;

	if (number && !sigismember(&h->pending, number)) {
		sigemptyset(&h->signals);
		sigaddset(&h->signals, number);
		sigtimedwait(&h->signals, NULL, &now);
	}
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

#endif
