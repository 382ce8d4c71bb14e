/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that read at random from one LevelDB database.
 *
 *   leveldb-readrandom [-t THREADS] [-s SECONDS] [-n ENTRIES]
 *
 * This is the papers' readrandom: every read takes the database's one mutex to
 * pin the current version, and a block cache's mutex. The database is made
 * under $TMPDIR, fits into the cache, and is removed at the end. Prints
 *   readrandom: RATE ops/s, THREADS threads, fewest FEW most MANY
 * where FEW and MANY are the reads of the slowest and the fastest thread.
 */

#include <leveldb/c.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256
#define KEY_BYTES 16
#define VALUE_BYTES 100
#define CACHE_BYTES (64u << 20)
#define LINE_BYTES 128

struct reader {
	pthread_t thread;
	uint64_t random;
	uint64_t reads;
	char *error;
} __attribute__((aligned(LINE_BYTES)));

static leveldb_t *database;
static long entries = 50000;
static volatile sig_atomic_t stop;
static struct reader readers[MAX_THREADS];

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void make_key(char key[KEY_BYTES], long number)
{
	for (int i = KEY_BYTES; i-- > 0; number /= 10)
		key[i] = '0' + number % 10;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *read_at_random(void *argument)
{
	struct reader *self = argument;
	leveldb_readoptions_t *options = leveldb_readoptions_create();
	uint64_t reads = 0;
	char key[KEY_BYTES];

	while (!stop && !self->error) {
		size_t size = 0;
		char *value;

		make_key(key, next_random(&self->random) % entries);
		value = leveldb_get(database, options, key, KEY_BYTES, &size, &self->error);
		if (!self->error && size != VALUE_BYTES)
			self->error = strdup("an entry is missing");
		leveldb_free(value);
		reads++;
	}
	self->reads = reads;
	leveldb_readoptions_destroy(options);
	return NULL;
}

static char *fill(void)
{
	leveldb_writeoptions_t *options = leveldb_writeoptions_create();
	char key[KEY_BYTES], value[VALUE_BYTES], *error = NULL;

	memset(value, 'v', sizeof value);
	for (long i = 0; i < entries && !error && !stop; i++) {
		make_key(key, i);
		leveldb_put(database, options, key, KEY_BYTES, value, sizeof value, &error);
	}
	leveldb_compact_range(database, NULL, 0, NULL, 0);
	leveldb_writeoptions_destroy(options);
	return error;
}

/* Sleep for so long, or until a signal says stop. */
static void wait_seconds(double seconds)
{
	for (double end = now() + seconds; !stop && now() < end;)
		usleep(10000);
	stop = 1;
}

static char *measure(long threads, double seconds)
{
	uint64_t total = 0, few = UINT64_MAX, many = 0;
	char *error = NULL;
	double start = now();
	long started = 0;

	for (; started < threads; started++) {
		readers[started].random = 88172645463325252u + started;
		if (pthread_create(&readers[started].thread, NULL, read_at_random, &readers[started]))
			break;
	}
	if (started < threads)
		error = strdup("no more threads can be had");
	wait_seconds(error ? 0 : seconds);
	for (long i = 0; i < started; i++) {
		pthread_join(readers[i].thread, NULL);
		error = error ? error : readers[i].error;
		total += readers[i].reads;
		few = readers[i].reads < few ? readers[i].reads : few;
		many = readers[i].reads > many ? readers[i].reads : many;
	}
	if (!error)
		printf("readrandom: %.0f ops/s, %ld threads, fewest %llu most %llu\n", total / (now() - start), threads,
		       (unsigned long long)few, (unsigned long long)many);
	return error;
}

/* In PATH: make the database, measure, remove it; an error message or NULL. */
static char *run(const char *path, long threads, double seconds)
{
	leveldb_cache_t *cache = leveldb_cache_create_lru(CACHE_BYTES);
	leveldb_options_t *options = leveldb_options_create();
	char *error = NULL, *ignored = NULL;

	leveldb_options_set_create_if_missing(options, 1);
	leveldb_options_set_cache(options, cache);
	leveldb_options_set_compression(options, leveldb_no_compression);
	database = leveldb_open(options, path, &error);
	if (!error)
		error = fill();
	if (!error)
		error = measure(threads, seconds);
	if (database)
		leveldb_close(database);
	leveldb_destroy_db(options, path, &ignored);
	leveldb_free(ignored);
	leveldb_options_destroy(options);
	leveldb_cache_destroy(cache);
	return error;
}

int main(int argc, char **argv)
{
	const char *directory = getenv("TMPDIR");
	char path[4096], *error;
	double seconds = 2;
	long threads = 4;
	int option;

	while ((option = getopt(argc, argv, "t:s:n:")) != -1) {
		if (option == 't')
			threads = atol(optarg);
		else if (option == 's')
			seconds = atof(optarg);
		else if (option == 'n')
			entries = atol(optarg);
		else
			return 2;
	}
	if (threads < 1 || threads > MAX_THREADS || seconds <= 0 || entries < 1) {
		fprintf(stderr, "leveldb-readrandom: an argument is out of range\n");
		return 2;
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);

	snprintf(path, sizeof path, "%s/leveldb-readrandom.XXXXXX", directory ? directory : "/tmp");
	if (!mkdtemp(path)) {
		perror(path);
		return 1;
	}
	error = run(path, threads, seconds);
	rmdir(path);
	if (error)
		fprintf(stderr, "leveldb-readrandom: %s\n", error);
	return error != NULL;
}
