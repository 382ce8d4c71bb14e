/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * crowd: as many threads and locks as a process can have: 32,000 threads and four million mutexes and rwlocks.
 *
 * All threads are there at once, wait for one broadcast, then lock: each a lock of its own choice among the millions a
 * few times, and all one mutex and one rwlock. Counters say whether everybody has been in alone; the watcher fails
 * if nothing moves for --patience seconds. Printed is what memory there is beside the locks and stacks.
 *
 *	crowd [--threads N] [--locks N] [--patience S]
 *
 * Exit status: 0; 1 failed; 2 usage; 77 so many threads cannot be had.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 16384, ROUNDS = 4, LEAST = 10000 };

static int threads = 32000;
static long locks = 4000000;
static double patience = 60;

/* Nobody initialises them: zeroed memory, as in most programs. */
static struct {
	union {
		pthread_mutex_t mutex;
		pthread_rwlock_t rwlock;
	};
	uint32_t uses;
} * lock;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER, all = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t open_gate = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t read_by_all = PTHREAD_RWLOCK_INITIALIZER;
static bool opened;
static atomic_long steps, waiting, done;
static long sum, written;

static void *run(void *arg)
{
	uint64_t dice = (uint64_t)(intptr_t)arg * 0x9e3779b97f4a7c15u;

	pthread_mutex_lock(&gate);
	waiting++;
	while (!opened)
		pthread_cond_wait(&open_gate, &gate);
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < ROUNDS; i++) {
		long which;

		dice = dice * 6364136223846793005u + 1442695040888963407u;
		which = (long)((dice >> 20) % (uint64_t)locks);
		if (which % 2) {
			pthread_mutex_lock(&lock[which].mutex);
			lock[which].uses++;
			pthread_mutex_unlock(&lock[which].mutex);
		} else {
			pthread_rwlock_wrlock(&lock[which].rwlock);
			lock[which].uses++;
			pthread_rwlock_unlock(&lock[which].rwlock);
		}
		pthread_mutex_lock(&all);
		sum++;
		pthread_mutex_unlock(&all);
		if (i) {
			pthread_rwlock_rdlock(&read_by_all);
			pthread_rwlock_unlock(&read_by_all);
		} else {
			pthread_rwlock_wrlock(&read_by_all);
			written++;
			pthread_rwlock_unlock(&read_by_all);
		}
		steps++;
	}
	done++;
	return NULL;
}

static long kilobytes(const char *what)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kb = -1;

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, what, strlen(what)))
			kb = strtol(line + strlen(what), NULL, 10);
	if (status)
		fclose(status);
	return kb;
}

static double number(const char *text, double least)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= least)) {
		fprintf(stderr, "crowd: %s: a number of at least %g is wanted\n", text, least);
		exit(2);
	}
	return value;
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"threads", 1, NULL, 't'}, {"locks", 1, NULL, 'l'}, {"patience", 1, NULL, 'p'},
		{"help", 0, NULL, 'h'},	   {NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", names, NULL)) != -1)
		switch (c) {
		case 't':
			threads = (int)number(optarg, 1);
			break;
		case 'l':
			locks = (long)number(optarg, 1);
			break;
		case 'p':
			patience = number(optarg, 0.1);
			break;
		default:
			fprintf(c == 'h' ? stdout : stderr,
				"usage: crowd [--threads N (32000)] [--locks N (4000000)] [--patience S (60)]\n");
			exit(c == 'h' ? 0 : 2);
		}
}

/* Wait until all have done it; false if nothing has moved for too long. */
static bool wait_for(atomic_long *count, long wanted)
{
	struct timespec tick = {0, 10000000};
	long seen = -1;

	for (double still = 0; atomic_load(count) < wanted; still += 0.01) {
		if (still > patience)
			return false;
		if (steps + *count != seen)
			still = 0;
		seen = steps + *count;
		nanosleep(&tick, NULL);
	}
	return true;
}

int main(int argc, char **argv)
{
	size_t stacks;
	pthread_attr_t attr;
	pthread_t *thread;
	uint64_t uses = 0;
	char *stack;
	long before;

	read_options(argc, argv);
	stacks = (size_t)threads * STACK;
	thread = calloc((size_t)threads, sizeof(*thread));
	lock = calloc((size_t)locks, sizeof(*lock));
	/* One mapping for all: a mapping each would be more than a process may have. */
	stack = mmap(NULL, stacks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!thread || !lock || stack == MAP_FAILED) {
		puts("SKIP: no memory for so many");
		return 77;
	}
	before = kilobytes("RssAnon:");
	pthread_attr_init(&attr);
	for (int i = 0; i < threads; i++) {
		pthread_attr_setstack(&attr, stack + (size_t)i * STACK, STACK);
		if (pthread_create(&thread[i], &attr, run, (void *)(intptr_t)(i + 1))) {
			if (i < LEAST) {
				printf("SKIP: only %d threads can be had\n", i);
				_exit(77);
			}
			threads = i; /* PIDs run out at 32768 on many machines */
		}
	}
	if (!wait_for(&waiting, threads)) {
		printf("crowd: %ld of %d threads have come to the gate\n", waiting, threads);
		_exit(1);
	}
	pthread_mutex_lock(&gate);
	opened = true;
	pthread_cond_broadcast(&open_gate);
	pthread_mutex_unlock(&gate);
	if (!wait_for(&done, threads)) {
		printf("crowd: %ld of %d threads are done, %ld steps\n", done, threads, steps);
		_exit(1);
	}
	printf("crowd: %d threads, %ld locks: %ld kB more than before the threads\n", threads, locks,
	       kilobytes("RssAnon:") - before);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (long i = 0; i < locks; i++)
		uses += lock[i].uses;
	if (uses != (uint64_t)threads * ROUNDS || sum != (long)threads * ROUNDS || written != threads) {
		printf("crowd: %" PRIu64 ", %ld, %ld: somebody was not alone\n", uses, sum, written);
		return 1;
	}
	return 0;
}
