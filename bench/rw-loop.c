/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reader-writer locks at work: how often, at what cost, and how evenly. `rw-loop --help' says what can be played.
 *
 * Paper: Kashyap et al., SOSP 2019, section 6.3 and figure 11 (g), (h): `hash', a chained hash table behind one lock.
 * The fairness factor is the one defined there; of an odd number of threads the middle one counts to both halves.
 *
 * Plain pthread calls: the same program runs on glibc and under the library. It prints one line of name=number
 * fields, for bench/compare. Exit status 1 if the lock did not exclude or a call failed, 2 for wrong usage.
 *
 * Every key has its node from the start, linked in or not, so nothing is allocated with the lock held, and under a
 * lock that is broken chains go wrong but no node is ever freed memory. */
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
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { LINE = 128 }; /* bytes, two cache lines: they are fetched in pairs */

static double duration = 1;
static int threads, write_percent = 1, held, outside = 16, keys = 4096, buckets = 1024, kind;
static bool pinned;

/* What one thread knows and counts. */
struct worker {
	uint64_t random;
	unsigned long reads, writes, found;
	long added;	     /* to the table, less what was taken out */
	unsigned long wrong; /* calls that failed, and times that the lock did not exclude */
	pthread_t id;
} __attribute__((aligned(LINE)));

static struct worker *worker;
static pthread_rwlock_t lock __attribute__((aligned(LINE)));
static atomic_bool stop __attribute__((aligned(LINE)));

static pthread_barrier_t ready;
static double begun;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("rw-loop: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static void *memory(size_t count, size_t size)
{
	void *p = aligned_alloc(LINE, (count * size + LINE - 1) / LINE * LINE);

	if (!p)
		fail("%m");
	return memset(p, 0, count * size);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void nap(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&t, &t) && errno == EINTR)
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

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* One of 0 to n - 1. */
static uint32_t below(uint32_t random, int n)
{
	return (uint32_t)((uint64_t)random * (uint32_t)n >> 32);
}

/* ---- threads ---- */

static void make_lock(void)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	if ((errno = pthread_rwlockattr_setkind_np(&attr, kind)) || (errno = pthread_rwlock_init(&lock, &attr)))
		fail("pthread_rwlock_init: %m");
	pthread_rwlockattr_destroy(&attr);
}

/* Thread i goes to the CPU i, modulo their number, of those that are ours. */
static void pin(pthread_attr_t *attr, int i)
{
	cpu_set_t ours, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(ours), &ours))
		fail("sched_getaffinity: %m");
	for (i %= CPU_COUNT(&ours); i >= 0; i--)
		while (!CPU_ISSET(++cpu, &ours))
			;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if ((errno = pthread_attr_setaffinity_np(attr, sizeof(one), &one)))
		fail("pthread_attr_setaffinity_np: %m");
}

/* All begin together, and the clock with them. */
static void wait_ready(void)
{
	if (pthread_barrier_wait(&ready) == PTHREAD_BARRIER_SERIAL_THREAD)
		begun = now();
}

static void start(void *(*run)(void *))
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_barrier_init(&ready, NULL, (unsigned)threads + 1);
	for (int i = 0; i < threads; i++) {
		worker[i].random = (uint64_t)i << 32;
		if (pinned)
			pin(&attr, i);
		if ((errno = pthread_create(&worker[i].id, &attr, run, &worker[i])))
			fail("pthread_create: %m");
	}
	pthread_attr_destroy(&attr);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The share of all that the busier half of the threads did; theirs are sorted. */
static double fairness(const double *ops, int n, double sum)
{
	double half = n % 2 ? ops[n / 2] / 2 : 0;

	for (int i = n - n / 2; i < n; i++)
		half += ops[i];
	return sum > 0 ? half / sum : 0;
}

/* Lets the threads run, and adds up what they counted. */
static struct worker play(void *(*run)(void *), double *seconds, double *cpu)
{
	struct worker sum = {0};

	make_lock();
	worker = memory((size_t)threads, sizeof(*worker));
	start(run);
	*cpu = cpu_seconds();
	wait_ready();
	nap(duration);
	atomic_store_explicit(&stop, true, memory_order_relaxed);
	for (int i = 0; i < threads; i++) {
		struct worker *w = &worker[i];

		pthread_join(w->id, NULL);
		sum.reads += w->reads;
		sum.writes += w->writes;
		sum.found += w->found;
		sum.added += w->added;
		sum.wrong += w->wrong;
	}
	*seconds = now() - begun;
	*cpu = cpu_seconds() - *cpu;
	return sum;
}

/* As play(), and prints the fields that all have but pair: operations a second, the CPU time of each, evenness. */
static struct worker contend(const char *what, void *(*run)(void *), double *seconds)
{
	double cpu, *ops = memory((size_t)threads, sizeof(*ops));
	struct worker sum = play(run, seconds, &cpu);
	double all = (double)(sum.reads + sum.writes);

	for (int i = 0; i < threads; i++)
		ops[i] = (double)(worker[i].reads + worker[i].writes);
	qsort(ops, (size_t)threads, sizeof(*ops), by_value);
	printf("%s: rate=%.0f cpu-ns=%.1f fairness=%.3f least=%.0f", what, all / *seconds,
	       all > 0 ? cpu * 1e9 / all : 0, fairness(ops, threads, all), ops[0]);
	free(ops);
	return sum;
}

static int finish(unsigned long wrong)
{
	printf("\n");
	if (wrong)
		printf("the lock did not exclude, or a call failed: %lu times\n", wrong);
	free(worker);
	return wrong > 0;
}

/* ---- hash: a table that is looked up and changed ---- */

struct node {
	struct node *next;
	uint32_t key;
};

static struct {
	struct node *node;    /* one for each key */
	struct node **bucket; /* where the chains begin */

	/* Odd during a write; as what follows, only the writer's to change. */
	atomic_ulong version __attribute__((aligned(LINE)));
	long entries;
} table;

static struct node **head_of(uint32_t key)
{
	return &table.bucket[key % (uint32_t)buckets];
}

/* What points to the key's node, or to nothing. A chain that a broken lock let be closed has an end, too. */
static struct node **find(struct node **link, uint32_t key)
{
	for (int n = 0; *link && (*link)->key != key && n < keys; n++)
		link = &(*link)->next;
	return link;
}

/* Puts the key in if it is not there, takes it out if it is. 1 more or 1 less. */
static int toggle(struct node **head, uint32_t key)
{
	struct node **link = find(head, key), *node = &table.node[key];
	int more = *link ? -1 : 1;

	if (*link) {
		*link = node->next;
	} else {
		node->next = *head;
		*head = node;
	}
	table.entries += more;
	return more;
}

static void make_table(void)
{
	uint64_t random = 1;

	table.node = memory((size_t)keys, sizeof(*table.node));
	table.bucket = memory((size_t)buckets, sizeof(struct node *));
	for (uint32_t key = 0; key < (uint32_t)keys; key++) {
		table.node[key].key = key;
		if (random_next(&random) & 1)
			toggle(head_of(key), key);
	}
}

static void hash_read(struct worker *w, struct node **head, uint32_t key)
{
	w->wrong += pthread_rwlock_rdlock(&lock) != 0;

	unsigned long version = atomic_load_explicit(&table.version, memory_order_relaxed);

	w->found += *find(head, key) != NULL;
	work(held);
	w->wrong += version % 2 || atomic_load_explicit(&table.version, memory_order_relaxed) != version;
	w->wrong += pthread_rwlock_unlock(&lock) != 0;
	w->reads++;
}

static void hash_write(struct worker *w, struct node **head, uint32_t key)
{
	w->wrong += pthread_rwlock_wrlock(&lock) != 0;

	unsigned long version = atomic_load_explicit(&table.version, memory_order_relaxed) + 1;

	atomic_store_explicit(&table.version, version, memory_order_relaxed);
	w->added += toggle(head, key);
	work(held);
	w->wrong += version % 2 == 0 || atomic_load_explicit(&table.version, memory_order_relaxed) != version;
	atomic_store_explicit(&table.version, version + 1, memory_order_relaxed);
	w->wrong += pthread_rwlock_unlock(&lock) != 0;
	w->writes++;
}

static void *hash_run(void *arg)
{
	struct worker *w = arg;

	wait_ready();
	while (!over()) {
		uint64_t random = random_next(&w->random);
		uint32_t key = below((uint32_t)random, keys);
		struct node **head = head_of(key);

		if (below((uint32_t)(random >> 32), 100) < (uint32_t)write_percent)
			hash_write(w, head, key);
		else
			hash_read(w, head, key);
		work(outside);
	}
	return NULL;
}

static int hash(void)
{
	double seconds;
	struct worker sum;
	long before, entries = 0;

	make_table();
	before = table.entries;
	sum = contend("hash", hash_run, &seconds);
	printf(" reads=%.0f writes=%.0f hits=%.2f", (double)sum.reads / seconds, (double)sum.writes / seconds,
	       sum.reads ? (double)sum.found / (double)sum.reads : 0);
	for (uint32_t key = 0; key < (uint32_t)keys; key++)
		entries += *find(head_of(key), key) != NULL;
	free(table.node);
	free(table.bucket);
	return finish(sum.wrong + (entries != table.entries || entries != before + sum.added));
}

/* ---- read, write: nothing but the lock ---- */

static void *read_run(void *arg)
{
	struct worker *w = arg;

	for (wait_ready(); !over(); w->reads++) {
		w->wrong += pthread_rwlock_rdlock(&lock) != 0;
		work(held);
		w->wrong += pthread_rwlock_unlock(&lock) != 0;
		work(outside);
	}
	return NULL;
}

static void *write_run(void *arg)
{
	struct worker *w = arg;

	for (wait_ready(); !over(); w->writes++) {
		w->wrong += pthread_rwlock_wrlock(&lock) != 0;
		work(held);
		w->wrong += pthread_rwlock_unlock(&lock) != 0;
		work(outside);
	}
	return NULL;
}

static int read_only(void)
{
	double seconds;

	return finish(contend("read", read_run, &seconds).wrong);
}

static int write_only(void)
{
	double seconds;

	return finish(contend("write", write_run, &seconds).wrong);
}

/* ---- pair: what a lock and an unlock cost alone ---- */

enum { BATCH = 1000, MOST = 100000 };
static double read_ns[MOST], write_ns[MOST];
static int batches;

static double pair_ns(struct worker *w, int (*enter)(pthread_rwlock_t *))
{
	double begin = now();

	for (int i = 0; i < BATCH; i++) {
		w->wrong += enter(&lock) != 0;
		w->wrong += pthread_rwlock_unlock(&lock) != 0;
	}
	return (now() - begin) * 1e9 / BATCH;
}

static void *pair_run(void *arg)
{
	wait_ready();
	do {
		read_ns[batches] = pair_ns(arg, pthread_rwlock_rdlock);
		write_ns[batches] = pair_ns(arg, pthread_rwlock_wrlock);
	} while (++batches < MOST && !over());
	return NULL;
}

static int pair(void)
{
	double seconds, cpu;
	struct worker sum = play(pair_run, &seconds, &cpu);

	qsort(read_ns, (size_t)batches, sizeof(*read_ns), by_value);
	qsort(write_ns, (size_t)batches, sizeof(*write_ns), by_value);
	printf("pair: read-ns=%.2f write-ns=%.2f read-least=%.2f write-least=%.2f batches=%d", read_ns[batches / 2],
	       write_ns[batches / 2], read_ns[0], write_ns[0], batches);
	return finish(sum.wrong);
}

/* ---- usage ---- */

static const struct play {
	const char *name;
	int (*play)(void);
	int threads, outside;
	const char *options; /* those that mean something to it, beside -s, -k and -p */
} plays[] = {
	{"hash", hash, 4, 16, "nwHoeb"},
	{"read", read_only, 2, 0, "nHo"},
	{"write", write_only, 2, 0, "nHo"},
	{"pair", pair, 1, 0, ""},
};

static const char help[] =
	"usage: rw-loop PLAY [OPTION]...\n"
	"\n"
	"Measures reader-writer locks. Prints a line of fields: rate, operations a second; cpu-ns, CPU time for each;\n"
	"fairness, the share of them that the busier half of the threads did, 0.5 to 1; least, how many the thread\n"
	"did that did the fewest.\n"
	"\n"
	"  hash        threads look up and change a hash table behind one lock; also reads, writes, each a second;\n"
	"              hits, the share of the looked up that was there\n"
	"  read        threads read lock and unlock\n"
	"  write       threads write lock and unlock\n"
	"  pair        one thread alone: read-ns, write-ns, the median time of a lock and an unlock, read-least,\n"
	"              write-least; of so many batches of a thousand\n"
	"\n"
	"  -s, --seconds=S        how long (1)\n"
	"  -n, --threads=N        how many (4 in hash, 2 in read and write)\n"
	"  -w, --writes=PERCENT   of the operations: put a key in or take it out (1; hash)\n"
	"  -H, --held=ROUNDS      of an empty loop, with the lock held (0; not pair)\n"
	"  -o, --outside=ROUNDS   of an empty loop, between operations (16 in hash, 0 in read and write)\n"
	"  -e, --keys=N           that there are; half of them are in the table (4096; hash)\n"
	"  -b, --buckets=N        (1024; hash)\n"
	"  -k, --kind=KIND        of the lock: 0 prefers readers, 1 is the same, 2 prefers writers (0)\n"
	"  -p, --pin              thread I to CPU I, modulo their number\n"
	"  -h, --help             print this\n";

static const struct option options[] = {
	{"seconds", required_argument, NULL, 's'},
	{"threads", required_argument, NULL, 'n'},
	{"writes", required_argument, NULL, 'w'},
	{"held", required_argument, NULL, 'H'},
	{"outside", required_argument, NULL, 'o'},
	{"keys", required_argument, NULL, 'e'},
	{"buckets", required_argument, NULL, 'b'},
	{"kind", required_argument, NULL, 'k'},
	{"pin", no_argument, NULL, 'p'},
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
	case 'n':
		threads = number(option, 1, 30000);
		break;
	case 'w':
		write_percent = number(option, 0, 100);
		break;
	case 'H':
		held = number(option, 0, INT_MAX);
		break;
	case 'o':
		outside = number(option, 0, INT_MAX);
		break;
	case 'e':
		keys = number(option, 1, 1 << 24);
		break;
	case 'b':
		buckets = number(option, 1, 1 << 24);
		break;
	case 'k':
		kind = number(option, 0, 2);
		break;
	case 'p':
		pinned = true;
		break;
	}
}

/* fail() for an option that the play makes nothing of. */
static void check_option(const struct play *p, int option)
{
	if (!strchr("skp", option) && !strchr(p->options, option))
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
	if (p) {
		threads = p->threads;
		outside = p->outside;
	}
	optind = name ? 2 : 1;
	while ((option = getopt_long(argc, argv, "s:n:w:H:o:e:b:k:ph", options, NULL)) != -1) {
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
	if (optind < argc)
		fail("%s: what is that for?", argv[optind]);
	return p->play();
}
