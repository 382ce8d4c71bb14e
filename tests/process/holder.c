/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * One thread holds a mutex, others wait for it; then everything stands still for a debugger in look_now().
 *
 * owner_tid is what the mutex should name as its owner.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
int owner_tid;
static pthread_barrier_t barrier;

__attribute__((noinline)) void look_now(void)
{
	__asm__ volatile("" ::: "memory");
}

static void *hold(void *unused)
{
	struct timespec settle = {0, 200000000};

	pthread_mutex_lock(&held);
	owner_tid = (int)syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	nanosleep(&settle, NULL);
	look_now();
	pthread_mutex_unlock(&held);
	return unused;
}

static void *wait_for_it(void *unused)
{
	pthread_barrier_wait(&barrier);
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
	return unused;
}

int main(void)
{
	pthread_t thread[4];

	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, i == 1 ? hold : wait_for_it, NULL) != 0)
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
