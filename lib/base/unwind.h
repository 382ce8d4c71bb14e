/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What is to be done for a call that does not return: a handler that has come into it ends the thread, acts on a cancellation, or jumps
 * out.
 *
 * glibc runs what is pushed here when the stack is unwound, and when a handler leaves by siglongjmp; it costs no setjmp, as
 * <pthread.h>'s macros do in C. Exported at all times, but not declared any more. What is run takes its frame off first: another
 * handler may call pthread_exit, and glibc would come there again. */
#ifndef PK_BASE_UNWIND_H
#define PK_BASE_UNWIND_H

#include <pthread.h>

extern void _pthread_cleanup_push(struct _pthread_cleanup_buffer *frame, void (*run)(void *), void *arg);
extern void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *frame, int execute);

#endif
