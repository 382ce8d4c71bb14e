/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Condition variables at work: how often, how long, at what cost. `cond-loop --help' says what can be played.
 *
 * Plain pthread calls: the same program runs on glibc and under the library. It prints one line of name=number
 * fields, for bench/compare. Exit status 1 if the numbers of what was given and got differ, 2 for wrong usage. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_US = 2000 }; /* the waiters of a broadcast are asleep then */

static double duration = 1;
static int threads, conds = 2, hold_us, work_rounds, producers = 2, consumers = 2, slots = 16, deadline_us = 50;
static bool after; /* signals are sent after the unlock */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static pthread_cond_t all_in = PTHREAD_COND_INITIALIZER;
static atomic_bool stop;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("cond-loop: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void spin_us(int us)
{
	for (double end = now() + us * 1e-6; us > 0 && now() < end;)
		;
}

static void work(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

static bool over(void)
{
	return atomic_load_explicit(&stop, memory_order_relaxed);
}

/* Signal c and unlock, in the order that was asked for. */
static void signal_unlock(pthread_cond_t *c)
{
	if (!after)
		pthread_cond_signal(c);
	pthread_mutex_unlock(&mutex);
	if (after)
		pthread_cond_signal(c);
}

static pthread_t *start(int n, void *(*run)(void *))
{
	pthread_t *id = calloc((size_t)n, sizeof(*id));
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (intptr_t i = 0; i < n; i++)
		if ((rc = pthread_create(&id[i], &attr, run, (void *)i))) {
			errno = rc;
			fail("pthread_create: %m");
		}
	pthread_attr_destroy(&attr);
	return id;
}

static void join(pthread_t *id, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(id[i], NULL);
	free(id);
}

static void nap(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static double cpu_seconds(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* The fields that all have: operations a second, and the CPU time of each. */
static void print_rate(const char *what, unsigned long n, double seconds)
{
	printf("%s: rate=%.0f cpu-ns=%.0f", what, (double)n / seconds, n ? cpu_seconds() * 1e9 / (double)n : 0);
}

/* ---- pingpong: two threads hand a turn to and fro ---- */

static int turn;
static unsigned long turns;

static void *pingpong_run(void *arg)
{
	int me = (int)(intptr_t)arg;
	pthread_cond_t *mine = &cond[me % conds], *other = &cond[!me % conds];

	for (;;) {
		bool last;

		pthread_mutex_lock(&mutex);
		while (turn != me && !over())
			pthread_cond_wait(mine, &mutex);
		last = over();
		if (turn == me)
			turns++;
		turn = !me;
		signal_unlock(other);
		if (last)
			return NULL;
	}
}

static int pingpong(void)
{
	double begin = now();
	pthread_t *id = start(2, pingpong_run);

	nap(duration);
	atomic_store(&stop, true);
	join(id, 2);
	print_rate("pingpong", turns, now() - begin);
	printf("\n");
	return 0;
}

/* ---- broadcast: from the call until all have had the mutex ---- */

static int in, out;
static unsigned generation;
static double all_out;

static void *broadcast_run(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!over()) {
		unsigned before = generation;

		if (++in == threads)
			pthread_cond_signal(&all_in);
		while (generation == before)
			pthread_cond_wait(&cond[0], &mutex);
		work(work_rounds);
		if (++out == threads) {
			all_out = now();
			pthread_cond_signal(&cond[1]);
		}
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double broadcast_once(void)
{
	double begin;

	pthread_mutex_lock(&mutex);
	while (in < threads)
		pthread_cond_wait(&all_in, &mutex);
	pthread_mutex_unlock(&mutex);
	nap(SETTLE_US * 1e-6);

	pthread_mutex_lock(&mutex);
	in = out = 0;
	generation++;
	if (after)
		pthread_mutex_unlock(&mutex);
	begin = now();
	pthread_cond_broadcast(&cond[0]);
	if (after)
		pthread_mutex_lock(&mutex);
	else
		spin_us(hold_us);
	while (out < threads)
		pthread_cond_wait(&cond[1], &mutex);
	begin = all_out - begin;
	pthread_mutex_unlock(&mutex);
	return begin;
}

static int broadcast(void)
{
	enum { MOST = 100000 };
	static double us[MOST];
	pthread_t *id = start(threads, broadcast_run);
	double end = now() + duration;
	int n = 0;

	do {
		us[n++] = broadcast_once() * 1e6;
	} while (now() < end && n < MOST);
	atomic_store(&stop, true);
	broadcast_once();
	join(id, threads);
	qsort(us, (size_t)n, sizeof(*us), by_value);
	printf("broadcast: us=%.1f least=%.1f most=%.1f cpu-us=%.1f rounds=%d\n", us[n / 2], us[0], us[n - 1],
	       cpu_seconds() * 1e6 / (n + 1), n);
	return 0;
}

/* ---- queue: a bounded buffer ---- */

static int used;
static unsigned long put, got;
static bool closed;

static void *queue_run(void *arg)
{
	pthread_cond_t *not_full = &cond[0], *not_empty = &cond[1];
	bool producer = (intptr_t)arg < producers;

	for (;;) {
		pthread_mutex_lock(&mutex);
		while (producer ? used == slots && !over() : used == 0 && !closed)
			pthread_cond_wait(producer ? not_full : not_empty, &mutex);
		if (producer ? over() : used == 0) {
			pthread_mutex_unlock(&mutex);
			return NULL;
		}
		if (producer) {
			used++;
			put++;
		} else {
			used--;
			got++;
		}
		signal_unlock(producer ? not_empty : not_full);
		work(work_rounds);
	}
}

static int queue(void)
{
	double begin = now();
	pthread_t *id = start(producers + consumers, queue_run);

	nap(duration);
	pthread_mutex_lock(&mutex);
	atomic_store(&stop, true);
	pthread_cond_broadcast(&cond[0]);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < producers; i++)
		pthread_join(id[i], NULL);
	pthread_mutex_lock(&mutex);
	closed = true;
	pthread_cond_broadcast(&cond[1]);
	pthread_mutex_unlock(&mutex);
	for (int i = producers; i < producers + consumers; i++)
		pthread_join(id[i], NULL);
	free(id);
	print_rate("queue", got, now() - begin);
	printf("\n");
	if (put != got)
		printf("%lu items were put in, %lu came out\n", put, got);
	return put != got;
}

/* ---- timeouts: waits that nobody ends ---- */

static unsigned long timeouts;
static double late;

static void *timeouts_run(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!over()) {
		struct timespec t;

		clock_gettime(CLOCK_MONOTONIC, &t);
		t.tv_nsec += deadline_us % 1000000 * 1000L;
		t.tv_sec += deadline_us / 1000000 + t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		if (pthread_cond_clockwait(&cond[0], &mutex, CLOCK_MONOTONIC, &t) != ETIMEDOUT)
			continue;
		timeouts++;
		late += now() - ((double)t.tv_sec + (double)t.tv_nsec * 1e-9);
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

static int time_out(void)
{
	double begin = now();
	pthread_t *id = start(threads, timeouts_run);

	nap(duration);
	atomic_store(&stop, true);
	join(id, threads);
	print_rate("timeouts", timeouts, now() - begin);
	printf(" late-us=%.1f\n", timeouts ? late * 1e6 / (double)timeouts : 0);
	return 0;
}

/* ---- usage ---- */

static const struct play {
	const char *name;
	int (*play)(void);
	int threads;
	const char *options; /* those that mean something to it, beside -s */
} plays[] = {
	{"pingpong", pingpong, 2, "ac"},
	{"broadcast", broadcast, 256, "anHw"},
	{"queue", queue, 0, "aPCBw"},
	{"timeouts", time_out, 4, "nu"},
};

static const char help[] =
	"usage: cond-loop PLAY [OPTION]...\n"
	"\n"
	"Measures condition variables. Prints a line of fields: rate, operations a second; cpu-ns, CPU time for each.\n"
	"\n"
	"  pingpong    two threads hand a turn to and fro: hand-overs\n"
	"  broadcast   threads wait, one calls all, again and again: us, the median time from a broadcast until\n"
	"              all have had the mutex; least, most; cpu-us, CPU time for one\n"
	"  queue       producers and consumers of a bounded buffer: items\n"
	"  timeouts    threads wait for what never comes, with deadlines: waits; late-us, how late on average\n"
	"\n"
	"  -s, --seconds=S      how long (1)\n"
	"  -a, --after          signal after the mutex has been unlocked, not before (pingpong, broadcast, queue)\n"
	"  -c, --conds=N        one condition variable for both threads or one for each: 1 or 2 (2; pingpong)\n"
	"  -n, --threads=N      how many wait (256 in broadcast, 4 in timeouts)\n"
	"  -H, --hold=US        microseconds that the mutex is held on after the call (0; broadcast without -a)\n"
	"  -w, --work=ROUNDS    of an empty loop: with the mutex held (0; broadcast), between the items (0; queue)\n"
	"  -P, --producers=N    (2; queue)\n"
	"  -C, --consumers=N    (2; queue)\n"
	"  -B, --buffer=N       items that there is room for (16; queue)\n"
	"  -u, --deadline=US    microseconds until a deadline (50; timeouts)\n"
	"  -h, --help           print this\n";

static const struct option options[] = {
	{"seconds", required_argument, NULL, 's'},
	{"after", no_argument, NULL, 'a'},
	{"conds", required_argument, NULL, 'c'},
	{"threads", required_argument, NULL, 'n'},
	{"hold", required_argument, NULL, 'H'},
	{"work", required_argument, NULL, 'w'},
	{"producers", required_argument, NULL, 'P'},
	{"consumers", required_argument, NULL, 'C'},
	{"buffer", required_argument, NULL, 'B'},
	{"deadline", required_argument, NULL, 'u'},
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

static void set(int option)
{
	char *end;

	switch (option) {
	case 's':
		duration = strtod(optarg, &end);
		if (end == optarg || *end || !(duration > 0 && duration < 1e6))
			fail("-s %s: a number of seconds is wanted", optarg);
		break;
	case 'a':
		after = true;
		break;
	case 'c':
		conds = number(option, 1, 2);
		break;
	case 'n':
		threads = number(option, 1, 30000);
		break;
	case 'H':
		hold_us = number(option, 0, INT_MAX);
		break;
	case 'w':
		work_rounds = number(option, 0, INT_MAX);
		break;
	case 'P':
		producers = number(option, 1, 10000);
		break;
	case 'C':
		consumers = number(option, 1, 10000);
		break;
	case 'B':
		slots = number(option, 1, INT_MAX);
		break;
	case 'u':
		deadline_us = number(option, 0, INT_MAX);
		break;
	}
}

/* fail() for an option that the play makes nothing of. */
static void check_option(const struct play *p, int option)
{
	if (option != 's' && !strchr(p->options, option))
		fail("%s has no option -%c", p->name, option);
}

int main(int argc, char **argv)
{
	const struct play *p = NULL;
	const char *name = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
	int option;

	for (size_t i = 0; name && i < sizeof(plays) / sizeof(plays[0]); i++)
		if (strcmp(plays[i].name, name) == 0)
			p = &plays[i];
	if (name && !p)
		fail("%s: there is no such play; try --help", name);
	if (p)
		threads = p->threads;
	optind = name ? 2 : 1;
	while ((option = getopt_long(argc, argv, "s:ac:n:H:w:P:C:B:u:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (option == '?')
			return 2;
		if (p)
			check_option(p, option);
		set(option);
	}
	if (!p)
		fail("a play is wanted; try --help");
	if (after && hold_us)
		fail("-H holds the mutex on after the call, so not with -a");
	if (optind < argc)
		fail("%s: what is that for?", argv[optind]);
	return p->play();
}
