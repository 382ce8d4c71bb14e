/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the library has glibc run when a stack is unwound: nothing. Simulated threads are on stacks of their own, one
 * thread's in glibc's eyes, which would take a jump from one to another for a jump out of a wait. */
#include <pthread.h>

void _pthread_cleanup_push(struct _pthread_cleanup_buffer *frame, void (*run)(void *), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *frame, int execute);

void _pthread_cleanup_push(struct _pthread_cleanup_buffer *frame, void (*run)(void *), void *arg)
{
	(void)frame;
	(void)run;
	(void)arg;
}

void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *frame, int execute)
{
	(void)frame;
	(void)execute;
}
