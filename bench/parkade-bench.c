/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Benchmarks of locks and condition variables. `parkade-bench --help' says which there are and how they are told what
 * to do.
 *
 * Plain pthread calls: the same program runs on glibc, under the library and under any other that is preloaded. Options
 * with several values make a sweep; every cell of it runs in a process of its own, forked while there is one thread.
 * Exit status 1 if a call failed or a lock did not exclude, 2 for wrong usage. */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUES = 64 };

/* What an option may be; with several values in one that can be swept. */
static struct axis {
	const char letter, *name, *what;
	long long least, most;
	bool is_time;
	long long value[VALUES];
	int n; /* 0: the workload's default */
} axes[] = {
	{'n', "threads", "how many", 1, 8192, false, {0}, 0},
	{'H', "held", "time of work with the lock held", 0, 1000000000, true, {0}, 0},
	{'o', "outside", "time of work outside", 0, 1000000000, true, {0}, 0},
	{'l', "lines", "shared cache lines written with the lock held", 0, 1 << 16, false, {0}, 0},
	{'w', "writes", "percent of the operations that change something", 0, 100, false, {0}, 0},
	{'e', "objects", "keys, chunks, locks", 2, 1 << 24, false, {0}, 0},
};
enum { AXES = sizeof(axes) / sizeof(axes[0]) };

/* What a cell found, written by its process. */
static struct report {
	bool ended;
	uint64_t wrong;
	int n;
	struct {
		char name[24];
		double value;
	} field[BENCH_FIELDS];
} * report;

static const struct workload *workload;
static bool json, wide_header_done;

void bench_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("parkade-bench: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

/* The last one of a name counts. */
void bench_put(const char *name, double value)
{
	int i = 0;

	while (i < report->n && strcmp(report->field[i].name, name) != 0)
		i++;
	if (i == BENCH_FIELDS)
		bench_fail("too many figures: %s", name);
	report->n += i == report->n;
	snprintf(report->field[i].name, sizeof(report->field[i].name), "%s", name);
	report->field[i].value = value;
}

/* ---- a cell ---- */

static bool means(char letter)
{
	return strchr(workload->options, letter) != NULL;
}

static long long setting(int axis)
{
	const struct bench_options *b = &bench;

	switch (axes[axis].letter) {
	case 'n':
		return b->threads;
	case 'H':
		return (long long)b->held;
	case 'o':
		return (long long)b->outside;
	case 'l':
		return b->lines;
	case 'w':
		return b->writes;
	}
	return b->objects;
}

static void set(int axis, long long value)
{
	switch (axes[axis].letter) {
	case 'n':
		bench.threads = (int)value;
		break;
	case 'H':
		bench.held = (uint64_t)value;
		break;
	case 'o':
		bench.outside = (uint64_t)value;
		break;
	case 'l':
		bench.lines = (int)value;
		break;
	case 'w':
		bench.writes = (int)value;
		break;
	case 'e':
		bench.objects = (int)value;
		break;
	}
}

static void print_json(void)
{
	printf("{\"workload\": \"%s\"", workload->name);
	for (int i = 0; i < AXES; i++)
		if (means(axes[i].letter))
			printf(", \"%s\": %lld", axes[i].name, setting(i));
	if (workload->kinds)
		printf(", \"kind\": \"%s\"", workload->kinds[bench.kind]);
	if (means('a'))
		printf(", \"after\": %s", bench.after ? "true" : "false");
	for (int i = 0; i < report->n; i++)
		printf(", \"%s\": %.10g", report->field[i].name, report->field[i].value);
	printf("}\n");
}

static void print_row(void)
{
	if (!wide_header_done) {
		for (int i = 0; i < AXES; i++)
			if (means(axes[i].letter))
				printf("%*s ", (int)strlen(axes[i].name) < 7 ? 7 : (int)strlen(axes[i].name),
				       axes[i].name);
		for (int i = 0; i < report->n; i++)
			printf("%*s%s", 13, report->field[i].name, i + 1 < report->n ? " " : "\n");
		wide_header_done = true;
	}
	for (int i = 0; i < AXES; i++)
		if (means(axes[i].letter))
			printf("%*lld ", (int)strlen(axes[i].name) < 7 ? 7 : (int)strlen(axes[i].name), setting(i));
	for (int i = 0; i < report->n; i++)
		printf("%13.*f%s", report->field[i].value < 100 ? 3 : 0, report->field[i].value,
		       i + 1 < report->n ? " " : "\n");
}

/* The worst exit status of the cell. */
static int run_cell(void)
{
	int status;
	pid_t child;

	*report = (struct report){0};
	fflush(stdout);
	child = fork();
	if (child < 0)
		bench_fail("fork: %m");
	if (child == 0) {
		report->wrong = workload->play();
		report->ended = true;
		exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			bench_fail("waitpid: %m");
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "parkade-bench: %s: killed by signal %d\n", workload->name, WTERMSIG(status));
		return 1;
	}
	if (WEXITSTATUS(status) || !report->ended)
		return WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
	if (json)
		print_json();
	else
		print_row();
	if (report->wrong)
		fprintf(stderr, "parkade-bench: %s: wrong %llu times: a call failed, or the lock did not exclude\n",
			workload->name, (unsigned long long)report->wrong);
	return report->wrong != 0;
}

/* Every cell of the sweep, the last axis fastest. */
static int sweep(int axis)
{
	int worst = 0;

	if (axis == AXES)
		return run_cell();
	if (!axes[axis].n)
		return sweep(axis + 1);
	for (int i = 0; i < axes[axis].n; i++) {
		int status;

		set(axis, axes[axis].value[i]);
		status = sweep(axis + 1);
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* ---- usage ---- */

static void print_help(void)
{
	printf("usage: parkade-bench WORKLOAD [OPTION]...\n\n"
	       "Measures locks and condition variables, whosever they are.\n\nworkloads, and the options that they "
	       "have:\n");
	for (int i = 0; bench_workloads[i]; i++) {
		const struct workload *w = bench_workloads[i];

		printf("  %-10s %-6s %s\n", w->name, w->options, w->what);
		for (int k = 0; w->kinds && w->kinds[k]; k++)
			printf("%s%s", k ? ", " : "                    -k ", w->kinds[k]);
		printf("%s", w->kinds ? "\n" : "");
	}
	printf("\noptions; several values, as 2,4,8, are run one after the other, and in all combinations:\n");
	for (int i = 0; i < AXES; i++)
		printf("  -%c, --%s=%s,...%*s%s\n", axes[i].letter, axes[i].name, axes[i].is_time ? "TIME" : "N",
		       14 - (int)strlen(axes[i].name) - (axes[i].is_time ? 4 : 1), "", axes[i].what);
	printf("  -k, --kind=KIND            of the lock, or which call\n"
	       "  -a, --after                signal after the unlock, not before\n"
	       "  -s, --seconds=S            how long each runs (1)\n"
	       "  -S, --speed=R              rounds of an empty loop in a nanosecond (measured)\n"
	       "  -j, --json                 print an object for each, not a table\n"
	       "  -c, --calibrate            print the speed, and do nothing else\n"
	       "  -L, --list                 print the names of the workloads\n"
	       "  -h, --help                 print this\n"
	       "\nA TIME is in nanoseconds, or has a unit: 10us.\n"
	       "\nfigures: rate, operations a second; cpu_ns, processor time for each; fairness, the share of them "
	       "that\n"
	       "the busier half of the threads did, 0.5 is even; least, how many the thread did that did the fewest;\n"
	       "p50_ns to longest_ns, how long a thread waited; bytes_per_lock, memory beyond the object itself.\n");
}

/* A number; of a time with its unit. */
static long long number(const struct axis *a, const char *text, char **end)
{
	static const struct {
		const char *name;
		long long ns;
	} unit[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}};
	double value = strtod(text, end);
	bool good = *end != text;

	for (size_t i = 0; a->is_time && i < sizeof(unit) / sizeof(unit[0]); i++)
		if (strncmp(*end, unit[i].name, 2) == 0) {
			value *= (double)unit[i].ns;
			*end += 2;
			break;
		}
	if (!good || value != value || value < (double)a->least || value > (double)a->most ||
	    value != (double)(long long)value || (**end && **end != ','))
		bench_fail("--%s=%s: a number from %lld to %lld is wanted, or several with commas", a->name, text,
			   a->least, a->most);
	return (long long)value;
}

static void parse_axis(struct axis *a, const char *text)
{
	char *end;

	a->n = 0;
	do {
		if (a->n == VALUES)
			bench_fail("--%s: more than %d values", a->name, VALUES);
		a->value[a->n++] = number(a, text, &end);
		text = end + 1;
	} while (*end);
}

static double real(const char *name, const char *text, double most)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0 && value < most))
		bench_fail("--%s=%s: a number above 0 is wanted", name, text);
	return value;
}

static int find_kind(const char *name)
{
	for (int i = 0; workload->kinds[i]; i++)
		if (strcmp(workload->kinds[i], name) == 0)
			return i;
	bench_fail("--kind=%s: %s has no such kind; try --help", name, workload->name);
}

static const struct workload *find_workload(const char *name)
{
	for (int i = 0; bench_workloads[i]; i++)
		if (strcmp(bench_workloads[i]->name, name) == 0)
			return bench_workloads[i];
	bench_fail("%s: there is no such workload; try --help", name);
}

static const struct option options[] = {
	{"threads", required_argument, NULL, 'n'},
	{"held", required_argument, NULL, 'H'},
	{"outside", required_argument, NULL, 'o'},
	{"lines", required_argument, NULL, 'l'},
	{"writes", required_argument, NULL, 'w'},
	{"objects", required_argument, NULL, 'e'},
	{"kind", required_argument, NULL, 'k'},
	{"after", no_argument, NULL, 'a'},
	{"seconds", required_argument, NULL, 's'},
	{"speed", required_argument, NULL, 'S'},
	{"json", no_argument, NULL, 'j'},
	{"calibrate", no_argument, NULL, 'c'},
	{"list", no_argument, NULL, 'L'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

/* An option that is no request for information. */
static void take(int option, double *seconds, double *speed)
{
	switch (option) {
	case 's':
		*seconds = real("seconds", optarg, 1e6);
		return;
	case 'S':
		*speed = real("speed", optarg, 1e3);
		return;
	case 'j':
		json = true;
		return;
	case '?':
		exit(2);
	}
	if (!workload)
		return; /* said below */
	if (!means((char)option))
		bench_fail("%s has no option -%c", workload->name, option);
	if (option == 'k')
		bench.kind = find_kind(optarg);
	else if (option == 'a')
		bench.after = true;
	for (int i = 0; i < AXES; i++)
		if (axes[i].letter == option)
			parse_axis(&axes[i], optarg);
}

int main(int argc, char **argv)
{
	double seconds = 1, speed = 0;
	int option;

	if (argc > 1 && argv[1][0] != '-') {
		workload = find_workload(argv[1]);
		bench = workload->start;
		optind = 2;
	}
	while ((option = getopt_long(argc, argv, "n:H:o:l:w:e:k:as:S:jcLh", options, NULL)) != -1)
		switch (option) {
		case 'h':
			print_help();
			return 0;
		case 'L':
			for (int i = 0; bench_workloads[i]; i++)
				puts(bench_workloads[i]->name);
			return 0;
		case 'c':
			printf("%.6f\n", bench_calibrate());
			return 0;
		default:
			take(option, &seconds, &speed);
		}
	if (!workload)
		bench_fail("a workload is wanted first; try --help");
	if (optind < argc)
		bench_fail("%s: what is that for?", argv[optind]);
	bench.seconds = seconds;
	bench.speed = speed > 0 ? speed : bench_calibrate();
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		bench_fail("mmap: %m");
	return sweep(0);
}
