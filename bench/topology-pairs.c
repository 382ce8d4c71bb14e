/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How fast two CPUs pass a cache line to each other: two threads, one on each, take turns in incrementing a counter.
 *
 * Paper: Chehab et al. (CLoF), SOSP 2021, section 3.1.
 *
 * Reads pairs of CPU numbers, a line each, and answers each at once with a line `A B RATE': increments a second, or `-'
 * where the two could not be made to run there. `parkade topology --measure' asks. Nothing pauses the processor while
 * it waits: on some that lasts longer than what is measured. Exit status 2 for wrong usage. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	LINE = 128, /* bytes, two cache lines: they are fetched in pairs */
	CPUS_MAX = 8192,
	PATIENCE = 2 /* seconds for both to be there */
};

static _Atomic uint64_t counter __attribute__((aligned(LINE)));
static atomic_bool stop __attribute__((aligned(LINE)));

/* One of the two; each writes to its own line alone. */
struct player {
	unsigned cpu;
	uint64_t first;	 /* turn */
	double from, to; /* the clock at its second turn and at the end */
	uint64_t turns;	 /* of both, in that time */
	sem_t *met;
} __attribute__((aligned(LINE)));

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool go_to(unsigned cpu)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	bool good;

	if (!set)
		return false;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	good = !sched_setaffinity(0, size, set);
	CPU_FREE(set);
	return good;
}

/* Until it is the player's turn; false: it is over. */
static bool await_turn(uint64_t turn)
{
	while (atomic_load_explicit(&counter, memory_order_acquire) != turn)
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			return false;
	return true;
}

static void *play(void *arg)
{
	struct player *p = arg;
	uint64_t turn = p->first;

	if (!go_to(p->cpu)) {
		atomic_store_explicit(&stop, true, memory_order_relaxed);
		sem_post(p->met);
		return NULL;
	}
	for (; await_turn(turn); turn += 2) {
		if (turn == p->first + 2) {
			p->from = now(CLOCK_MONOTONIC);
			sem_post(p->met);
		}
		atomic_fetch_add_explicit(&counter, 1, memory_order_acq_rel);
	}
	p->to = now(CLOCK_MONOTONIC);
	p->turns = turn > p->first + 2 ? turn - p->first - 2 : 0;
	return NULL;
}

/* Both are there, or there is no use in waiting. */
static bool meet(sem_t *met)
{
	double end = now(CLOCK_REALTIME) + PATIENCE;
	struct timespec limit = {.tv_sec = (time_t)end};

	while (sem_timedwait(met, &limit))
		if (errno != EINTR)
			return false;
	return true;
}

static void nap(unsigned ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* Increments a second, or 0. */
static double rate_of(unsigned a, unsigned b, unsigned ms)
{
	static struct player player[2];
	pthread_t id[2];
	sem_t met;
	int started = 0;

	atomic_store(&counter, 0);
	atomic_store(&stop, false);
	sem_init(&met, 0, 0);
	for (; started < 2; started++) {
		player[started] = (struct player){.cpu = started ? b : a, .first = (uint64_t)started, .met = &met};
		if (pthread_create(&id[started], NULL, play, &player[started]))
			break;
	}
	if (started == 2 && meet(&met))
		nap(ms);
	atomic_store(&stop, true);
	while (started > 0)
		pthread_join(id[--started], NULL);
	sem_destroy(&met);
	return player[0].turns ? (double)player[0].turns / (player[0].to - player[0].from) : 0;
}

static const char help[] = "usage: topology-pairs [-m MILLISECONDS]\n"
			   "\n"
			   "Reads pairs of CPU numbers, a line each. For each, two threads on these CPUs take\n"
			   "turns on a counter; a line `A B RATE' has the increments a second, or - where the\n"
			   "two could not run there.\n"
			   "\n"
			   "  -m, --milliseconds=N   for each pair (100)\n"
			   "  -h, --help             print this\n";

static const struct option options[] = {
	{"milliseconds", required_argument, NULL, 'm'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

int main(int argc, char **argv)
{
	unsigned a, b, ms = 100;
	char line[64], more;
	double rate;
	int option;

	while ((option = getopt_long(argc, argv, "m:h", options, NULL)) != -1)
		switch (option) {
		case 'm':
			if (sscanf(optarg, "%u%c", &ms, &more) == 1 && ms && ms <= 60000)
				break;
			fprintf(stderr, "topology-pairs: -m %s: a number from 1 to 60000 is wanted\n", optarg);
			return 2;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return 2;
		}
	if (optind < argc) {
		fprintf(stderr, "topology-pairs: %s: what is that for?\n", argv[optind]);
		return 2;
	}
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%u %u %c", &a, &b, &more) != 2 || a >= CPUS_MAX || b >= CPUS_MAX || a == b) {
			fprintf(stderr, "topology-pairs: not two CPUs: %s", line);
			return 2;
		}
		rate = rate_of(a, b, ms);
		printf(rate ? "%u %u %.0f\n" : "%u %u -\n", a, b, rate);
		fflush(stdout);
	}
	return 0;
}
