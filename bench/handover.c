/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that lock one mutex: to whom it goes from whom, how evenly, and how long anybody waits. `handover --help'
 * says what is printed.
 *
 * Paper: Dice and Kogan, EuroSys 2019, section 7.1.1, for the fairness factor.
 *
 * Plain pthread calls: the same program runs on glibc and under the library, of which it only asks where a thread is
 * (PARKADE_TOPOLOGY may say so). Exit status 1 if the mutex did not exclude, 2 for wrong usage. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

enum { LINE = 128 }; /* bytes, two cache lines: they are fetched in pairs */

static double duration = 1;
static int threads = 4, held = 50, outside, asleep;
static bool json, kernel, pinned;

static pthread_mutex_t mutex __attribute__((aligned(LINE))) = PTHREAD_MUTEX_INITIALIZER;
static struct handover probe __attribute__((aligned(LINE)));
static atomic_bool stop __attribute__((aligned(LINE)));
static pthread_barrier_t ready;

struct worker {
	int number;
	uint64_t done;
	pthread_t id;
};

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("handover: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static void work(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

static void nap(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* Stay on one CPU: threads that sleep are woken near their wakers, and after a while they are all there. */
static void pin(int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)(number % (int)sysconf(_SC_NPROCESSORS_ONLN)), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity: %m");
}

static void *loop(void *arg)
{
	struct worker *w = arg;
	uint64_t n = 0;

	if (pinned)
		pin(w->number);
	pthread_barrier_wait(&ready);
	for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) {
		uint64_t called = handover_now();

		pthread_mutex_lock(&mutex);
		handover_note(&probe, w->number, handover_node(&probe), handover_now() - called);
		work(held);
		if (asleep)
			nap(asleep * 1e-6);
		pthread_mutex_unlock(&mutex);
		work(outside);
	}
	w->done = n;
	return NULL;
}

/* How long the threads ran, in seconds. `done`: what they counted themselves. */
static double play(uint64_t *done)
{
	struct worker *worker = calloc((size_t)threads, sizeof(*worker));
	uint64_t begin;

	if (!worker || !handover_init(&probe, threads))
		fail("%m");
	if (kernel)
		probe.socket = NULL;
	pthread_barrier_init(&ready, NULL, (unsigned)threads + 1);
	for (int i = 0; i < threads; i++) {
		worker[i].number = i;
		if ((errno = pthread_create(&worker[i].id, NULL, loop, &worker[i])))
			fail("pthread_create: %m");
	}
	begin = handover_now();
	pthread_barrier_wait(&ready);
	nap(duration);
	atomic_store_explicit(&stop, true, memory_order_relaxed);
	*done = 0;
	for (int i = 0; i < threads; i++) {
		pthread_join(worker[i].id, NULL);
		*done += worker[i].done;
	}
	free(worker);
	return (double)(handover_now() - begin) * 1e-9;
}

static void print(double seconds)
{
	const struct handover_figures f = handover_figures(&probe);
	const struct {
		const char *name;
		double value;
		int decimals;
	} field[] = {
		{"rate", (double)f.acquisitions / seconds, 0},
		{"handovers", (double)f.handovers / seconds, 0},
		{"local", f.local, 4},
		{"fairness", f.fairness, 4},
		{"least", (double)f.least, 0},
		{"longest-ms", (double)f.longest * 1e-6, 3},
		{"run", f.run, 2},
		{"longest-run", (double)f.longest_run, 0},
	};

	printf(json ? "{" : "handover:");
	for (size_t i = 0; i < sizeof(field) / sizeof(field[0]); i++)
		if (json)
			printf("%s\"%s\": %.*f", i ? ", " : "", field[i].name, field[i].decimals, field[i].value);
		else
			printf(" %s=%.*f", field[i].name, field[i].decimals, field[i].value);
	printf(json ? "}\n" : "\n");
}

static const char help[] =
	"usage: handover [OPTION]...\n"
	"\n"
	"Threads lock one mutex. Prints a line of fields:\n"
	"\n"
	"  rate          acquisitions a second\n"
	"  handovers     of them those by another thread than the one before, a second\n"
	"  local         the share of the hand-overs that stayed on the node\n"
	"  fairness      the share of the acquisitions by the busier half of the threads: 0.5, even, to 1\n"
	"  least         how many the thread had that had the fewest\n"
	"  longest-ms    the longest wait of a thread for the mutex, in milliseconds\n"
	"  run           how many threads in a row had it on one node: the mean\n"
	"  longest-run   and the most\n"
	"\n"
	"Under parkade nodes are its sockets (PARKADE_TOPOLOGY), else, or with --kernel, the kernel's.\n"
	"\n"
	"  -n, --threads=N        how many (4)\n"
	"  -s, --seconds=S        how long (1)\n"
	"  -H, --held=ROUNDS      of an empty loop, with the mutex held (50)\n"
	"  -o, --outside=ROUNDS   of an empty loop, between two acquisitions (0)\n"
	"  -a, --asleep=US        microseconds of sleep, with the mutex held (0)\n"
	"  -k, --kernel           the kernel's nodes, whatever parkade's are\n"
	"  -p, --pinned           thread N stays on CPU N, modulo the number of CPUs\n"
	"  -j, --json             print an object instead\n"
	"  -h, --help             print this\n";

static const struct option options[] = {
	{"threads", required_argument, NULL, 'n'},
	{"seconds", required_argument, NULL, 's'},
	{"held", required_argument, NULL, 'H'},
	{"outside", required_argument, NULL, 'o'},
	{"asleep", required_argument, NULL, 'a'},
	{"json", no_argument, NULL, 'j'},
	{"pinned", no_argument, NULL, 'p'},
	{"kernel", no_argument, NULL, 'k'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int number(int option, int least, int most)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(optarg, &end, 10);
	if (errno || end == optarg || *end || n < least || n > most)
		fail("-%c %s: a number from %d to %d is wanted", option, optarg, least, most);
	return (int)n;
}

static double seconds(int option)
{
	char *end;
	double s = strtod(optarg, &end);

	if (end == optarg || *end || !(s > 0 && s < 1e6))
		fail("-%c %s: a number of seconds is wanted", option, optarg);
	return s;
}

int main(int argc, char **argv)
{
	int option;
	uint64_t done;

	while ((option = getopt_long(argc, argv, "n:s:H:o:a:kpjh", options, NULL)) != -1)
		switch (option) {
		case 'n':
			threads = number(option, 1, 30000);
			break;
		case 's':
			duration = seconds(option);
			break;
		case 'H':
			held = number(option, 0, INT_MAX);
			break;
		case 'o':
			outside = number(option, 0, INT_MAX);
			break;
		case 'a':
			asleep = number(option, 0, 1000000);
			break;
		case 'k':
			kernel = true;
			break;
		case 'p':
			pinned = true;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return 2;
		}
	if (optind < argc)
		fail("%s: what is that for?", argv[optind]);
	print(play(&done));
	for (int i = 0; i < threads; i++)
		done -= probe.taken[i];
	if (done)
		printf("the mutex did not exclude\n");
	handover_free(&probe);
	return done != 0;
}
