/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* parkade-sim: one load on one machine under one policy, simulated. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_SYS_SINGLE_THREADED_H
#include <sys/single_threaded.h>
#endif

#include "admit/admit.h"
#include "pthread/cond.h"
#include "pthread/lot.h"
#include "pthread/readers.h"
#include "rt/config.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "sim/kernel.h"
#include "sim/lines.h"
#include "sim/load.h"
#include "sim/main.h"
#include "sim/measure.h"

enum { USAGE = 2, CPUS_NAMED = 64 };

uint64_t sim_warm, sim_end_of_load, sim_trace_from, sim_trace_to;

static struct {
	const char *machine;
	const struct sim_load *load;
	struct sim_options load_options;
	const struct sim_textbook *textbook;
	uint64_t us, warmup, seed;
	uint64_t trace, trace_ns;
	bool pack, spare, header;
	unsigned cpu[CPUS_NAMED], cpus;
} asked = {
	.load_options = {.threads = 1, .lines = 2},
	.us = 2000,
	.seed = 1,
	.trace = UINT64_MAX,
	.trace_ns = 10000,
};

/* Their names. */
static const char *textbooks(void)
{
	static char names[64];

	*names = 0;
	for (unsigned i = 0; i < sim_textbook_count; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "", sim_textbooks[i].name);
	return names;
}

static void help(void)
{
	printf("Usage: parkade-sim --machine=FILE [OPTION]...\n"
	       "Simulate the library on a machine that is not there; one line of comma-separated values.\n\n"
	       "  --machine=FILE    a description (sim/machines)\n"
	       "  --load=NAME       what the threads do (below)\n"
	       "  --threads=N       how many (1)\n"
	       "  --us=N            for how many simulated microseconds (2000)\n"
	       "  --warmup=N        for how many before, which do not count (0)\n"
	       "  --seed=N          the dice (1)\n"
	       "  --pack            fill the machine one node after the other; without it the packages in turn\n"
	       "  --spare           a group of cores more in each node, where nobody begins: no waiter sleeps as CPUs are too few\n"
	       "  --textbook=NAME   %s: queue locks that only spin, as in the papers, instead of mutexes\n"
	       "  --cpus=N,N,...    the CPUs of the first threads, on which they are to begin\n"
	       "  --lines=N         lines that a critical section writes (2)\n"
	       "  --held=NS         work in a critical section (0)\n"
	       "  --outside=NS      work between operations\n"
	       "  --writes=N        permille of operations that change something\n"
	       "  --trace=NS        tell what happens from then on, on standard error\n"
	       "  --trace-ns=NS     for so long (10000)\n"
	       "  --stall=N         stall threads now and then for up to N cycles (0)\n"
	       "  --header          print the names of the values only\n"
	       "  --help\n\n"
	       "PARKADE_* variables are the library's: PARKADE_POLICY, PARKADE_SPIN ...\n\nLoads:\n",
	       textbooks());
	for (unsigned i = 0; i < sim_load_count; i++)
		printf("  %-10s %s\n", sim_loads[i]->name, sim_loads[i]->doc);
}

static __attribute__((noreturn)) void usage(const char *what, const char *value)
{
	fprintf(stderr, "parkade-sim: %s: %s (--help says more)\n", value, what);
	exit(USAGE);
}

static uint64_t number(const char *name, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (end == text || *end || *text == '-' || errno || v < min || v > max) {
		fprintf(stderr, "parkade-sim: --%s=%s: not a number from %llu to %llu\n", name, text,
			(unsigned long long)min, (unsigned long long)max);
		exit(USAGE);
	}
	return v;
}

static void read_cpus(const char *text)
{
	char one[16];

	for (asked.cpus = 0; asked.cpus < CPUS_NAMED; asked.cpus++) {
		size_t len = strcspn(text, ",");

		snprintf(one, sizeof(one), "%.*s", (int)len, text);
		asked.cpu[asked.cpus] = (unsigned)number("cpus", one, 0, SIM_CPUS_MAX - 1);
		text += len;
		if (!*text++) {
			asked.cpus++;
			return;
		}
	}
	usage("too many", "--cpus");
}

static unsigned place_of(unsigned thread)
{
	if (thread >= asked.cpus)
		return sim_place(thread % sim_cpus_in_use(), !asked.pack);
	if (asked.cpu[thread] >= sim_machine.cpus)
		usage("the machine has no such CPU", "--cpus");
	return asked.cpu[thread];
}

static const struct sim_load *load_named(const char *name)
{
	for (unsigned i = 0; i < sim_load_count; i++)
		if (!strcmp(sim_loads[i]->name, name))
			return sim_loads[i];
	usage("no such load", name);
}

static const struct sim_textbook *textbook_named(const char *name)
{
	for (unsigned i = 0; i < sim_textbook_count; i++)
		if (!strcmp(sim_textbooks[i].name, name))
			return &sim_textbooks[i];
	fprintf(stderr, "parkade-sim: --textbook=%s: not one of %s\n", name, textbooks());
	exit(USAGE);
}

const struct sim_textbook *sim_textbook(void)
{
	return asked.textbook;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"machine", 1, NULL, 'm'}, {"load", 1, NULL, 'l'},
		{"threads", 1, NULL, 't'}, {"us", 1, NULL, 'u'},
		{"seed", 1, NULL, 's'},	   {"pack", 0, NULL, 'p'},
		{"lines", 1, NULL, 'n'},   {"outside", 1, NULL, 'o'},
		{"writes", 1, NULL, 'w'},  {"header", 0, NULL, 'H'},
		{"help", 0, NULL, 'h'},	   {"stall", 1, NULL, 'S'},
		{"trace", 1, NULL, 'T'},   {"trace-ns", 1, NULL, 'N'},
		{"cpus", 1, NULL, 'c'},	   {"held", 1, NULL, 'e'},
		{"warmup", 1, NULL, 'W'},  {"spare", 0, NULL, 'P'},
		{"textbook", 1, NULL, 'B'},
		{0},
	};
	struct sim_options *o = &asked.load_options;
	bool outside = false, writes = false;
	int c, which;

	asked.load = sim_loads[0];
	while ((c = getopt_long(argc, argv, "", options, &which)) != -1) {
		const char *name = c == '?' ? "" : options[which].name;

		switch (c) {
		case 'm':
			asked.machine = optarg;
			break;
		case 'l':
			asked.load = load_named(optarg);
			break;
		case 't':
			o->threads = (unsigned)number(name, optarg, 1, SIM_THREADS_MAX);
			break;
		case 'u':
			asked.us = number(name, optarg, 1, 100000000);
			break;
		case 'W':
			asked.warmup = number(name, optarg, 0, 100000000);
			break;
		case 's':
			asked.seed = number(name, optarg, 0, UINT64_MAX);
			break;
		case 'p':
			asked.pack = true;
			break;
		case 'P':
			asked.spare = true;
			break;
		case 'B':
			asked.textbook = textbook_named(optarg);
			break;
		case 'c':
			read_cpus(optarg);
			break;
		case 'n':
			o->lines = (unsigned)number(name, optarg, 0, 64);
			break;
		case 'e':
			o->held = number(name, optarg, 0, 1000000000);
			break;
		case 'o':
			o->outside = number(name, optarg, 0, 1000000000);
			outside = true;
			break;
		case 'w':
			o->writes = (unsigned)number(name, optarg, 0, 1000);
			writes = true;
			break;
		case 'T':
			asked.trace = number(name, optarg, 0, UINT64_MAX - 1);
			break;
		case 'N':
			asked.trace_ns = number(name, optarg, 1, UINT64_MAX);
			break;
		case 'S':
			sim_stall = (unsigned)number(name, optarg, 0, 1000000);
			break;
		case 'H':
			asked.header = true;
			break;
		case 'h':
			help();
			exit(0);
		default:
			exit(USAGE);
		}
	}
	if (optind < argc)
		usage("unexpected", argv[optind]);
	if (!asked.machine && !asked.header)
		usage("is needed", "--machine");
	if (asked.textbook && !asked.load->only_locks)
		usage("has more than mutexes, or several at a time: not with --textbook", asked.load->name);
	if (!outside)
		o->outside = asked.load->outside;
	if (!writes)
		o->writes = asked.load->writes;
}

/* As pthread/init.c, but for what concerns the process. */
static void setup_library(void)
{
#ifdef HAVE_SYS_SINGLE_THREADED_H
	__libc_single_threaded = 0;
#endif
	pk_config_read(NULL);
	pk_topology_read("", pk_config.topology);
	if (!pk_levels_check(pk_config.levels))
		usage("not some of core,cache,node,package", pk_config.levels);
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_readers_setup(pk_config.readers);
	pk_lot_setup(pk_config.parking);
	if (pk_policy_has_levels(pk_config.policy))
		pk_levels_read("", pk_config.levels);
	else if (pk_lot_open)
		pk_levels_read("", *pk_config.levels ? pk_config.levels : "cache,node");
	pk_lot_divide();
	pk_thread_setup(pk_cond_waiter_gone);
	if (pk_policy_select(pk_config.policy) == PK_POLICY_glibc)
		pk_thread_forward();
}

static const char *const stats[] = {
#define PK_STAT(name, doc) #name,
#include "rt/stat.def"
#undef PK_STAT
};

static uint64_t before[PK_STATS]; /* it began to count */

void sim_start_over(void)
{
	struct sim_thread *self = sim_self;

	memset(sim_measure.ops, 0, asked.load_options.threads * sizeof(*sim_measure.ops));
	memset(sim_measure.handed, 0, sizeof(sim_measure.handed));
	memset(sim_measure.waits, 0, sizeof(sim_measure.waits));
	sim_measure.taken = sim_measure.longest = 0;
	memset(sim_transfers, 0, sizeof(sim_transfers));
	sim_fetches = 0;
	memset(&sim_counts, 0, sizeof(sim_counts));
	/* Nobody's: it takes no time of the thread that happens to be the first, and may hold the lock. */
	sim_self = NULL;
	for (int i = 0; i < PK_STATS; i++)
		before[i] = pk_stat_sum(i);
	sim_self = self;
}

static void header(void)
{
	printf("kind,machine,cpus,load,policy,threads,seed,us,ops,ops_per_us,fairness,taken");
	for (int l = 0; l < SIM_LEVELS; l++)
		printf(",handed_%s", sim_level_name(l));
	printf(",handed_self");
	for (int l = 0; l < SIM_LEVELS; l++)
		printf(",lines_%s", sim_level_name(l));
	printf(",lines_memory,parks,wakes,futexes,switches,preempted,migrated,wait_p50_ns,wait_p90_ns,wait_p99_ns,"
	       "wait_max_ns,cpu_ns");
	for (int i = 0; i < PK_STATS; i++)
		printf(",%s", stats[i]);
	printf("\n");
}

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* The share of the operations that the busier half of the threads has done: 0.5 is fair, 1
 * is not (CNA 7.1.1, figure 8). */
static double fairness(uint64_t sum)
{
	unsigned n = asked.load_options.threads;
	uint64_t half = 0;

	qsort(sim_measure.ops, n, sizeof(*sim_measure.ops), descending);
	for (unsigned i = 0; i < (n + 1) / 2; i++)
		half += sim_measure.ops[i];
	return sum && n > 1 ? (double)half / (double)sum : 0.5;
}

#define U(x) ((unsigned long long)(x))

static void report(void)
{
	uint64_t ops = 0;
	double fair;

	for (unsigned i = 0; i < asked.load_options.threads; i++)
		ops += sim_measure.ops[i];
	fair = fairness(ops);
	printf("simulated,%s,%u,%s,%s%s,%u,%llu,%llu,%llu,%.4f,%.4f,%llu", sim_machine.title, sim_cpus_in_use(),
	       asked.load->name, asked.textbook ? "textbook-" : "",
	       asked.textbook ? asked.textbook->name : pk_config.policy, asked.load_options.threads, U(asked.seed), U(asked.us), U(ops),
	       (double)ops / (double)asked.us, fair, U(sim_measure.taken));
	for (int l = 0; l <= SIM_LEVELS; l++)
		printf(",%llu", U(sim_measure.handed[l]));
	for (int l = 0; l < SIM_LEVELS; l++)
		printf(",%llu", U(sim_transfers[l]));
	printf(",%llu,%llu,%llu,%llu,%llu,%llu,%llu", U(sim_fetches), U(sim_counts.parks), U(sim_counts.wakes),
	       U(sim_counts.futexes), U(sim_counts.switches), U(sim_counts.preempted), U(sim_counts.migrated));
	printf(",%llu,%llu,%llu,%llu", U(sim_ns(sim_wait_permille(500))), U(sim_ns(sim_wait_permille(900))),
	       U(sim_ns(sim_wait_permille(990))), U(sim_ns(sim_measure.longest)));
	printf(",%.1f", ops ? (double)sim_ns(sim_counts.busy) / (double)ops : 0.0);
	for (int i = 0; i < PK_STATS; i++)
		printf(",%llu", U(pk_stat_sum(i) - before[i]));
	printf("\n");
}

void sim_trace(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%9llu ns  thread %-5u cpu %-5u ", U(sim_ns(sim_time())), sim_self ? sim_self->number : 0,
		sim_self ? sim_self->cpu : 0);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static int run(void)
{
	const struct sim_options *o = &asked.load_options;
	const char *wrong;
	uint64_t limit;

	sim_measure.ops = calloc(o->threads, sizeof(*sim_measure.ops));
	if (!sim_measure.ops)
		abort();
	if (asked.trace != UINT64_MAX) {
		sim_trace_from = sim_cycles(asked.trace);
		sim_trace_to = sim_trace_from + sim_cycles(asked.trace_ns);
	}
	sim_warm = sim_cycles(asked.warmup * 1000);
	sim_end_of_load = sim_warm + sim_cycles(asked.us * 1000);
	/* Those who wait get their turn still, however slowly; not where that may take a quantum each. */
	limit = asked.textbook ? sim_end_of_load : sim_end_of_load * 20 + sim_cycles(2000000000);
	asked.load->prepare(o);
	for (unsigned i = 0; i < o->threads; i++)
		sim_spawn(asked.load->body, i, place_of(i));
	switch (sim_run(limit)) {
	case SIM_FINISHED:
		break;
	case SIM_DEADLOCK:
		sim_fail("nobody goes on: threads sleep for ever");
		break;
	case SIM_TOO_LONG:
		if (asked.textbook)
			return sim_measure.broken; /* in the midst of it: there is no sum to be checked */
		sim_fail("threads do not come to an end");
	}
	wrong = sim_measure.broken ? NULL : asked.load->check();
	if (wrong)
		sim_fail(wrong);
	if (sim_unknown_calls)
		sim_fail("a system call that is not simulated");
	return sim_measure.broken;
}

int main(int argc, char **argv)
{
	int bad;

	parse(argc, argv);
	if (asked.header) {
		header();
		return 0;
	}
	if (!sim_machine_read(asked.machine, asked.spare))
		return USAGE;
	sim_engine_setup(asked.seed);
	sim_lines_setup();
	setup_library();
	bad = run();
	report();
	return bad;
}
