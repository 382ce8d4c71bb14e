/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Locks that the benchmark must not take for good ones: with BROKEN they do not exclude, else they are slow. */
#include <pthread.h>

#define ONE(name, type)                                                                                                \
	int name(type *lock)                                                                                           \
	{                                                                                                              \
		(void)lock;                                                                                            \
		return 0;                                                                                              \
	}

#ifdef BROKEN
ONE(pthread_mutex_lock, pthread_mutex_t)
ONE(pthread_mutex_unlock, pthread_mutex_t)
ONE(pthread_rwlock_rdlock, pthread_rwlock_t)
ONE(pthread_rwlock_wrlock, pthread_rwlock_t)
ONE(pthread_rwlock_unlock, pthread_rwlock_t)
ONE(pthread_spin_lock, pthread_spinlock_t)
ONE(pthread_spin_unlock, pthread_spinlock_t)
#else
/* A signal to nobody that takes its time; everything else is glibc's. */
int pthread_cond_signal(pthread_cond_t *cond)
{
	(void)cond;
	for (volatile int i = 0; i < 200; i++)
		;
	return 0;
}
#endif
