/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-fork: a process forks while its threads hold reader-writer locks, and wait for them.
 *
 * It would catch: ghosts of the parent's readers and waiters in a child, an inherited lock that the child cannot unlock,
 * or that keeps out its own threads once it has, and a lock that a child makes anew at an address where its parent's
 * readers were noted.
 */

#include "rwlocks.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { HELD = 6, USERS = 4, GENERATIONS = 2, CHILD_SECONDS = 50 };

struct shared {
	pthread_rwlock_t l;
	volatile unsigned long a, b;
};

static void shared_use(struct shared *s, uint32_t *luck)
{
	struct timespec t = deadline(CLOCK_MONOTONIC, dice(luck) % 100000);
	bool writing = dice(luck) % 4 == 0;
	int rc;

	if (*luck / 4 % 4)
		rc = writing ? pthread_rwlock_wrlock(&s->l) : pthread_rwlock_rdlock(&s->l);
	else
		rc = writing ? pthread_rwlock_clockwrlock(&s->l, CLOCK_MONOTONIC, &t)
			     : pthread_rwlock_clockrdlock(&s->l, CLOCK_MONOTONIC, &t);
	if (*luck / 4 % 4 == 0 && rc == ETIMEDOUT)
		return;
	if (!WANT(rc, 0))
		return;
	if (writing)
		s->a++;
	if (*luck % 64 == 3)
		sched_yield();
	if (s->a != s->b + writing)
		complain("a writer beside another thread");
	if (writing)
		s->b++;
	MUST(pthread_rwlock_unlock(&s->l));
}

/* glibc takes the child's unlock of an inherited write lock for a reader's: there the child makes the lock anew. */
static void inherited_write_unlock(pthread_rwlock_t *l, int kind)
{
	if (suite_served())
		MUST(pthread_rwlock_unlock(l));
	else
		rwlock_make(l, kind);
}

struct held {
	struct shared s[HELD];
	int generation;
};

enum { IDLE = 0, WRITTEN = 1 }; /* and from 2 on read, so many times less one */

static int held_kind(int i)
{
	return i == HELD - 1 ? NONRECURSIVE : i % 2;
}

static void held_use_body(int index, void *arg)
{
	struct held *h = arg;
	uint32_t luck = 4099 * (index + 1);

	for (int i = 0; i < HELD; i++) {
		read_often(&h->s[i].l, 200);
		for (int n = 0; n < 100; n++)
			shared_use(&h->s[i], &luck);
	}
}

static void held_release(struct held *h, bool child)
{
	struct servant *s = servant_hire();

	if (child)
		inherited_write_unlock(&h->s[WRITTEN].l, held_kind(WRITTEN));
	else
		MUST(pthread_rwlock_unlock(&h->s[WRITTEN].l));
	for (int i = 2; i < HELD; i++)
		for (int n = i - 1; n > 0; n--) {
			WANT(try_write(s, &h->s[i].l), EBUSY);
			MUST(pthread_rwlock_unlock(&h->s[i].l));
		}
	for (int i = 0; i < HELD; i++)
		WANT(try_write(s, &h->s[i].l), 0);
	servant_dismiss(s);
	team_run(USERS, held_use_body, h);
}

static void held_fork(struct held *h)
{
	pid_t child;

	for (int i = 0; i < HELD; i++)
		warm_up(&h->s[i].l);
	MUST(pthread_rwlock_wrlock(&h->s[WRITTEN].l));
	for (int i = 2; i < HELD; i++)
		for (int n = i - 1; n > 0; n--) {
			MUST(pthread_rwlock_rdlock(&h->s[i].l));
			if (n == 2)
				warm_up(&h->s[i].l);
		}
	if ((child = fork()) == 0) {
		alarm(CHILD_SECONDS);
		h->generation++;
		held_release(h, true);
		if (h->generation < GENERATIONS)
			held_fork(h);
		child_exit();
	}
	held_release(h, false);
	child_reap(child, "a child with inherited locks");
}

/* A child meets a lock that it has inherited as written before the forking thread lets it go. */
static struct {
	pthread_rwlock_t l;
	bool reads;
} early;

static void *meet_early(void *unused)
{
	MUST(early.reads ? pthread_rwlock_rdlock(&early.l) : pthread_rwlock_wrlock(&early.l));
	MUST(pthread_rwlock_unlock(&early.l));
	return unused;
}

static void unlock_late(void)
{
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		MUST(pthread_create(&thread[i], NULL, meet_early, NULL));
	sleep_us(20000);
	MUST(pthread_rwlock_unlock(&early.l));
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(thread[i], NULL));
	/* Nobody is counted as waiting that does not. */
	MUST(pthread_rwlock_tryrdlock(&early.l));
	MUST(pthread_rwlock_unlock(&early.l));
	MUST(pthread_rwlock_trywrlock(&early.l));
	MUST(pthread_rwlock_unlock(&early.l));
}

START_TEST(fork_and_wait_for_the_writer)
{
	static const int kinds[] = {0, NONRECURSIVE};

	if (!suite_served())
		return; /* glibc's do not let it go */
	/* 4 and up: while another thread of the parent waits for it, long enough to have closed it. */
	for (int i = 0; i < 8; i++) {
		pthread_t waiter;
		pid_t child;

		early.reads = i & 1;
		rwlock_make(&early.l, kinds[i / 2 % 2]);
		MUST(pthread_rwlock_wrlock(&early.l));
		if (i >= 4) {
			MUST(pthread_create(&waiter, NULL, meet_early, NULL));
			sleep_us(20000);
		}
		if ((child = fork()) == 0) {
			alarm(CHILD_SECONDS);
			unlock_late();
			child_exit();
		}
		MUST(pthread_rwlock_unlock(&early.l));
		if (i >= 4)
			MUST(pthread_join(waiter, NULL));
		child_reap(child, "a child that waits for itself");
	}
	assert_no_complaint();
}
END_TEST

START_TEST(fork_with_locks_held)
{
	for (int round = 0; round < 3; round++) {
		struct held h = {.generation = 0};

		for (int i = 0; i < HELD; i++)
			rwlock_make(&h.s[i].l, held_kind(i));
		held_fork(&h);
		assert_no_complaint();
	}
}
END_TEST

/* Handlers write-lock what the others contend for, as a program's allocator does. */
static struct {
	struct shared s[KINDS_OF_RWLOCK];
	int generation;
	atomic_bool stop;
} program;

static void before_fork(void)
{
	for (int i = 0; i < KINDS_OF_RWLOCK; i++)
		MUST(pthread_rwlock_wrlock(&program.s[i].l));
}

static void after_fork_in_parent(void)
{
	for (int i = KINDS_OF_RWLOCK; i-- > 0;)
		MUST(pthread_rwlock_unlock(&program.s[i].l));
}

static void after_fork_in_child(void)
{
	for (int i = KINDS_OF_RWLOCK; i-- > 0;)
		inherited_write_unlock(&program.s[i].l, i);
}

/* A pause between two uses: glibc's readers would keep the handler out for ever. */
static void work(int index, void *arg)
{
	uint32_t luck = 1009 * (index + 1) + getpid();
	(void)arg;

	while (!atomic_load(&program.stop) && !complained()) {
		struct shared *s = &program.s[dice(&luck) % KINDS_OF_RWLOCK];

		shared_use(s, &luck);
		if (luck % 32 == 0)
			read_often(&s->l, 100);
		if (!suite_served())
			sleep_us(luck / 32 % 64);
	}
}

static void generation(void);

static void forker(int index, void *arg)
{
	int forks = *(int *)arg;
	(void)index;

	for (int i = 0; i < forks && !complained(); i++) {
		pid_t child = fork();

		if (child == 0) {
			alarm(CHILD_SECONDS);
			program.generation++;
			generation();
			child_exit();
		}
		child_reap(child, "a child");
		sleep_us(200);
	}
}

static void generation(void)
{
	int forks = program.generation == 0 ? (int)suite_scale(6) : 1;
	struct team *workers;

	atomic_store(&program.stop, false);
	workers = team_start(USERS, work, NULL);
	sleep_us(2000);
	if (program.generation < GENERATIONS)
		team_run(2, forker, &forks);
	else
		sleep_us(10000);
	atomic_store(&program.stop, true);
	team_join(workers);
	for (int i = 0; i < KINDS_OF_RWLOCK; i++) {
		pthread_rwlock_t *l = &program.s[i].l;

		if (l->__data.__cur_writer || l->__data.__readers >> 3)
			complain("generation %d: a lock is left locked", program.generation);
		MUST(pthread_rwlock_trywrlock(l));
		MUST(pthread_rwlock_unlock(l));
	}
}

START_TEST(fork_in_handlers)
{
	for (int i = 0; i < KINDS_OF_RWLOCK; i++)
		rwlock_make(&program.s[i].l, i);
	ck_assert_int_eq(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
	generation();
	assert_no_complaint();
}
END_TEST

/* Others read, write and wait while this thread forks without the lock: the child makes it anew, as runtimes do. */
static void anew_body(int index, void *arg)
{
	uint32_t luck = 31 * (index + 1);

	read_often(&((struct shared *)arg)->l, 500);
	for (int n = 0; n < 200; n++)
		shared_use(arg, &luck);
	read_often(&((struct shared *)arg)->l, 500);
	MUST(pthread_rwlock_wrlock(&((struct shared *)arg)->l));
	MUST(pthread_rwlock_unlock(&((struct shared *)arg)->l));
}

START_TEST(child_starts_anew)
{
	struct team *t;

	rwlock_make(&program.s[0].l, _i);
	rwlock_make(&program.s[1].l, _i);
	rwlock_make(&program.s[2].l, _i);
	t = team_start(6, work, NULL);
	for (int i = 0; i < (int)suite_scale(16) && !complained(); i++) {
		pid_t child;

		sleep_us(i % 5 * 300);
		if ((child = fork()) == 0) {
			alarm(CHILD_SECONDS);
			for (int n = 0; n < KINDS_OF_RWLOCK; n++) {
				if (i % 2)
					rwlock_make(&program.s[n].l, _i);
				else
					memset(&program.s[n].l, 0, sizeof program.s[n].l);
				program.s[n].a = program.s[n].b = 0;
				team_run(USERS, anew_body, &program.s[n]);
				WANT(pthread_rwlock_trywrlock(&program.s[n].l), 0);
			}
			child_exit();
		}
		child_reap(child, "a child that starts anew");
	}
	atomic_store(&program.stop, true);
	team_join(t);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-fork");

	SUITE_CASE(s, fork_with_locks_held, 60);
	SUITE_CASE(s, fork_and_wait_for_the_writer, 60);
	SUITE_CASE(s, fork_in_handlers, 60);
	SUITE_CASE_OF(s, child_starts_anew, 60, KINDS_OF_RWLOCK);
	return suite_run(s);
}
