/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reader-writer locks of all kinds; who reads is told from what the actors count. The contract is in calls.h. */
#include "calls.h"

struct rwlock rwlocks[RWLOCKS];

bool is_wanted_rw(int n)
{
	for (int i = 0; i < ACTORS; i++)
		if (!awake(i) && (actors[i].op == &rw_read_op || actors[i].op == &rw_write_op) && actors[i].object == n)
			return true;
	return false;
}

static bool rw_is_dead(const struct actor *a, int n)
{
	(void)a;
	return !rwlocks[n].alive;
}

static int rw_init_call(struct actor *a, int n)
{
	static const int rw_kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
				       PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
	pthread_rwlockattr_t attr;
	int rc;

	rwlocks[n].alive = true;
	if (a->die % 4 == 0)
		return pthread_rwlock_init(&rwlocks[n].rw, NULL);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, rw_kinds[a->die / 4 % 3]);
	pthread_rwlockattr_setpshared(&attr, a->die / 16 % 4 ? PTHREAD_PROCESS_PRIVATE : PTHREAD_PROCESS_SHARED);
	rc = pthread_rwlock_init(&rwlocks[n].rw, &attr);
	pthread_rwlockattr_destroy(&attr);
	return rc;
}

static int readers_of(int n)
{
	int sum = 0;

	for (int i = 0; i < ACTORS; i++)
		sum += actors[i].reads[n];
	return sum;
}

int writer_of(int n)
{
	return actor_of(rwlocks[n].rw.__data.__cur_writer);
}

static bool may_try_rw(const struct actor *a, int n)
{
	(void)a;
	return rwlocks[n].alive && !is_wanted_rw(n);
}

/* Not so often that nobody ever writes. */
static bool may_read(const struct actor *a, int n)
{
	int w = writer_of(n);

	return may_try_rw(a, n) && a->reads[n] < 3 && (w == NOBODY || awake(w));
}

static bool may_write(const struct actor *a, int n)
{
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].reads[n] && (i == self_of(a) || !awake(i)))
			return false;
	return may_read(a, n);
}

static bool may_unlock_rw(const struct actor *a, int n)
{
	return rwlocks[n].alive && (a->reads[n] || writer_of(n) == self_of(a));
}

static bool may_end_rw(const struct actor *a, int n)
{
	return may_try_rw(a, n) && !readers_of(n) && writer_of(n) == NOBODY;
}

static int counted(struct actor *a, int n, int rc)
{
	a->reads[n] += !rc;
	return rc;
}

static int read_call(struct actor *a, int n)
{
	return counted(a, n, pthread_rwlock_rdlock(&rwlocks[n].rw));
}

static int write_call(struct actor *a, int n)
{
	(void)a;
	return pthread_rwlock_wrlock(&rwlocks[n].rw);
}

static int try_rw_call(struct actor *a, int n)
{
	pthread_rwlock_t *rw = &rwlocks[n].rw;

	switch (a->die % 8) {
	case 0:
		return pthread_rwlock_timedwrlock(rw, &past);
	case 1:
		return pthread_rwlock_clockwrlock(rw, CLOCK_MONOTONIC, &past);
	case 2:
		return counted(a, n, pthread_rwlock_timedrdlock(rw, &past));
	case 3:
		return counted(a, n, pthread_rwlock_clockrdlock(rw, CLOCK_MONOTONIC, &past));
	case 4:
		return a->die / 8 % 2 ? pthread_rwlock_timedwrlock(rw, &bad_ns)
				      : counted(a, n, pthread_rwlock_timedrdlock(rw, &bad_ns));
	case 5:
		return a->die / 8 % 2 ? pthread_rwlock_clockwrlock(rw, CLOCK_PROCESS_CPUTIME_ID, &past)
				      : counted(a, n, pthread_rwlock_clockrdlock(rw, CLOCK_PROCESS_CPUTIME_ID, &past));
	case 6:
		return pthread_rwlock_trywrlock(rw);
	default:
		return counted(a, n, pthread_rwlock_tryrdlock(rw));
	}
}

static int unlock_rw_call(struct actor *a, int n)
{
	bool writer = writer_of(n) == self_of(a);

	a->reads[n] -= !writer;
	return pthread_rwlock_unlock(&rwlocks[n].rw);
}

static int destroy_rw_call(struct actor *a, int n)
{
	(void)a;
	rwlocks[n].alive = false;
	return pthread_rwlock_destroy(&rwlocks[n].rw);
}

const struct op rw_init_op = {"init rw", RWLOCKS, rw_is_dead, rw_init_call};
const struct op rw_read_op = {"rdlock rw", RWLOCKS, may_read, read_call};
const struct op rw_write_op = {"wrlock rw", RWLOCKS, may_write, write_call};
const struct op rw_try_op = {"try rw", RWLOCKS, may_try_rw, try_rw_call};
const struct op rw_unlock_op = {"unlock rw", RWLOCKS, may_unlock_rw, unlock_rw_call};
const struct op rw_destroy_op = {"destroy rw", RWLOCKS, may_end_rw, destroy_rw_call};
