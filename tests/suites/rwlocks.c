/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The contract is in rwlocks.h. */
#include "rwlocks.h"

void rwlock_make(pthread_rwlock_t *l, int kind)
{
	pthread_rwlockattr_t attr;

	MUST(pthread_rwlockattr_init(&attr));
	MUST(pthread_rwlockattr_setkind_np(&attr, kind));
	MUST(pthread_rwlock_init(l, &attr));
	MUST(pthread_rwlockattr_destroy(&attr));
}

void read_often(pthread_rwlock_t *l, int times)
{
	while (times-- > 0) {
		MUST(pthread_rwlock_rdlock(l));
		MUST(pthread_rwlock_unlock(l));
	}
}

static void warm_body(int index, void *arg)
{
	uint64_t end = now_ns() + 5000000;
	(void)index;

	while (now_ns() < end)
		read_often(arg, 50);
}

void warm_up(pthread_rwlock_t *l)
{
	team_run(4, warm_body, l);
}

struct attempt {
	pthread_rwlock_t *l;
	int rc;
};

static void attempt_write(void *arg)
{
	struct attempt *a = arg;

	a->rc = pthread_rwlock_trywrlock(a->l);
	if (a->rc == 0)
		MUST(pthread_rwlock_unlock(a->l));
}

int try_write(struct servant *s, pthread_rwlock_t *l)
{
	struct attempt a = {l, -1};

	servant_do(s, attempt_write, &a);
	return a.rc;
}
