/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Makes random calls, one at a time, and prints what each of them returns and leaves behind.
 *
 *	usage: calls SEED STEPS
 *
 * Three actors are told by dice what to call: mutexes of all kinds, condition variables, reader-writer and spin locks,
 * C11's names, errors that POSIX names, deadlines that have passed, cancellation, the end of a thread, fork. A call may
 * block; then the others go on. The next step begins when everybody is done or asleep, and of two threads that would be
 * served in some order only one may wait; so what is printed depends on the seed alone. What POSIX leaves undefined is
 * not called, but for the unlock of a normal mutex in its owner's place, which works with glibc. What is legal is told
 * from the objects: from what glibc and debuggers read.
 *
 * Not printed, as it may differ: whether a mutex's word is 1 or 2, the users of a process-shared mutex, of which glibc
 * counts those who wait for a condition variable, the readers of an rwlock, of which it counts those who wait, and its
 * phases.
 */
#include "calls.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 160 };

const struct timespec past = {1, 0}, bad_ns = {1, -1};

static uint64_t state;

static uint32_t dice(void)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33);
}

/* ---- steps ---- */

static const struct {
	unsigned weight;
	const struct op *op;
} table[] = {
	{40, &mutex_lock_op},
	{30, &cond_wait_op},
	{20, &rw_read_op},
	{15, &rw_write_op},
	{1, &leave_op},
	{1, &fork_op},
	{10, &mutex_init_op},
	{10, &mutex_trylock_op},
	{10, &mutex_timedlock_op},
	{60, &mutex_unlock_op},
	{3, &mutex_destroy_op},
	{4, &mutex_consistent_op},
	{1, &mutex_ceiling_op},
	{10, &cond_init_op},
	{1, &cond_destroy_op},
	{20, &cond_call_op},
	{10, &cond_wait_past_op},
	{2, &cond_wait_bad_op},
	{10, &rw_init_op},
	{15, &rw_try_op},
	{60, &rw_unlock_op},
	{5, &rw_destroy_op},
	{4, &spin_lock_op},
	{4, &spin_unlock_op},
	{4, &cancel_op},
	{4, &interrupt_op},
};

static const struct op *draw(void)
{
	unsigned sum = 0, n;

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		sum += table[i].weight;
	n = dice() % sum;
	for (size_t i = 0;; n -= table[i++].weight)
		if (n < table[i].weight)
			return table[i].op;
}

/* Of the calls these may have to wait. */
static bool blocks(const struct op *op)
{
	return op == &mutex_lock_op || op == &cond_wait_op || op == &rw_read_op || op == &rw_write_op;
}

/* The actor sleeps, and has been given the CPU so often; else 0. */
static unsigned long asleep(const struct actor *a)
{
	char path[64], text[4096], *at;
	unsigned long sum = 1;
	ssize_t got;
	int file;

	snprintf(path, sizeof path, "/proc/self/task/%d/status", a->tid);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0; /* it ends */
	got = read(file, text, sizeof text - 1);
	close(file);
	text[got > 0 ? got : 0] = '\0';
	at = strstr(text, "\nState:\t");
	if (!at || at[8] != 'S')
		return 0;
	for (at = text; (at = strstr(at, "ctxt_switches:\t")); at++)
		sum += strtoul(at + 15, NULL, 10);
	return sum;
}

/* Until everybody is done or asleep, and has not been up between two looks. */
static void settle(void)
{
	unsigned long seen[ACTORS] = {0}, now;

	for (int same = 0; same < 2;) {
		same++;
		for (int i = 0; i < ACTORS; i++) {
			now = !atomic_load(&actors[i].busy) ? 1 : blocks(actors[i].op) ? asleep(&actors[i]) : 0;
			if (!now || now != seen[i])
				same = 0;
			seen[i] = now;
		}
		if (!same)
			sched_yield();
	}
}

/* ---- what is printed ---- */

static const char *name_of(int tid)
{
	static const char *const names[] = {"0", "1", "2"};
	int i = actor_of(tid);

	if (tid == INCONSISTENT || tid == UNRECOVERABLE)
		return tid == INCONSISTENT ? "inconsistent" : "unrecoverable";
	return i >= 0 ? names[i] : i == NOBODY ? "-" : "gone";
}

static void describe_mutex(int n, char *line)
{
	const struct mutex *m = &mutexes[n];
	int h = m->alive ? holder(m) : NOBODY;

	snprintf(line, LINE, "m%d %s: holder %d owner %s count %u users %u kind %#x", n, m->alive ? "alive" : "dead", h,
		 m->alive ? name_of(m->m.__data.__owner) : "", m->m.__data.__count, users_of(m),
		 (unsigned)m->m.__data.__kind);
}

/* Flags and, where the library counts its waiters (before glibc 2.41), these. */
#define REFS (offsetof(pthread_cond_t, __data.__wrefs) == 36 ? UINT_MAX : 3u)

static void describe_cond(int n, char *line)
{
	const struct cond *c = &conds[n];

	snprintf(line, LINE, "c%d %s: refs %u", n, c->alive ? "alive" : "dead", c->alive ? c->c.__data.__wrefs & REFS : 0);
}

static void describe_rwlock(int n, char *line)
{
	const struct rwlock *l = &rwlocks[n];

	snprintf(line, LINE, "rw%d %s: readers %u writer %s flags %u shared %d", n, l->alive ? "alive" : "dead",
		 l->alive && !is_wanted_rw(n) ? l->rw.__data.__readers >> 3 : 0,
		 l->alive ? name_of(l->rw.__data.__cur_writer) : "", l->alive ? l->rw.__data.__flags : 0,
		 l->alive ? (int)l->rw.__data.__shared : 0);
}

/* What has changed. */
static void describe(void)
{
	static char before[MUTEXES + CONDS + RWLOCKS][LINE];
	static void (*const describes[])(int, char *) = {describe_mutex, describe_cond, describe_rwlock};
	static const int counts[] = {MUTEXES, CONDS, RWLOCKS};
	char line[LINE], (*old)[LINE] = before;

	for (int sort = 0; sort < 3; sort++)
		for (int i = 0; i < counts[sort]; i++, old++) {
			describes[sort](i, line);
			if (strcmp(line, *old)) {
				printf("  %s\n", line);
				strcpy(*old, line);
			}
		}
}

/* The actor's call has returned, or has ended its thread. */
static void report(struct actor *a)
{
	bool over = a->op == &leave_op || a->log[0];

	if (over && a->log[0])
		printf("  %d is cancelled:%s\n", self_of(a), a->log);
	else
		printf("  %d returns %d%s\n", self_of(a), a->rc, a->errno_kept ? "" : ", errno written");
	a->op = NULL;
	a->at = NOBODY;
	a->log[0] = '\0';
	if (!over)
		return;
	pthread_join(a->thread, NULL);
	begin(a);
}

static void step(int number)
{
	struct actor *a = &actors[dice() % ACTORS];
	const struct op *op = draw();
	int n = (int)(dice() % (unsigned)op->objects);

	a->die = awake(self_of(a)) ? dice() : a->die;
	if (!awake(self_of(a)) || (op == &cancel_op && n == self_of(a)) || !op->legal(a, n))
		return;
	printf("%d: %d %s%d (%u)\n", number, self_of(a), op->name, n, a->die % 4096);
	fflush(stdout);
	a->op = op;
	a->object = n;
	if (op == &cond_wait_op && holder(&mutexes[mutex_for(a)]) == self_of(a)) {
		a->at = n;
		a->with = mutex_for(a);
		conds[n].waiter = self_of(a);
		conds[n].mutex = a->with;
	}
	atomic_store(&a->busy, true);
	sem_post(&a->go);
	settle();
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].op && !atomic_load(&actors[i].busy)) {
			for (int c = 0; c < CONDS; c++)
				if (conds[c].waiter == i)
					conds[c].waiter = NOBODY;
			report(&actors[i]);
		}
	describe();
}

static void ignore(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = ignore};
	long steps;

	if (argc != 3 || (steps = strtol(argv[2], NULL, 10)) <= 0) {
		fprintf(stderr, "usage: calls SEED STEPS\n");
		return 2;
	}
	state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < SPINS; i++) {
		pthread_spin_init(&spins[i].s, PTHREAD_PROCESS_PRIVATE);
		spins[i].holder = NOBODY;
	}
	for (int i = 0; i < CONDS; i++)
		conds[i].waiter = NOBODY;
	for (int i = 0; i < ACTORS; i++) {
		sem_init(&actors[i].go, 0, 0);
		sem_init(&actors[i].ready, 0, 0);
		begin(&actors[i]);
	}
	for (int i = 0; i < steps; i++)
		step(i);
	printf("done\n");
	fflush(stdout);
	_exit(0); /* some may be blocked */
}
