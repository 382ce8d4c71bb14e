/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that read at random from one LevelDB database: leveldb THREADS SECONDS.
 *
 * This is the papers' readrandom: every read takes the database's one mutex to pin the current version, and a block
 * cache's mutex. The database is made under $TMPDIR, fits into the cache, and is removed at the end. */
#include "client.h"

#include <leveldb/c.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 50000, KEY = 16, VALUE = 100, CACHE = 64 << 20 };

static leveldb_t *database;

static void check(char *error)
{
	if (!error)
		return;
	fprintf(stderr, "leveldb: %s\n", error);
	exit(1);
}

static void make_key(char key[KEY], unsigned number)
{
	for (int i = KEY; i-- > 0; number /= 10)
		key[i] = (char)('0' + number % 10);
}

uint64_t client_run(int number)
{
	leveldb_readoptions_t *options = leveldb_readoptions_create();
	uint64_t random = 88172645463325252u + (uint64_t)number, n = 0;
	char key[KEY], *error = NULL;

	for (; !client_over(); n++) {
		size_t size = 0;
		char *value;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		make_key(key, (unsigned)(random % ENTRIES));
		value = leveldb_get(database, options, key, KEY, &size, &error);
		check(error);
		check(size == VALUE ? NULL : "an entry is missing");
		leveldb_free(value);
	}
	leveldb_readoptions_destroy(options);
	return n;
}

static void fill(void)
{
	leveldb_writeoptions_t *options = leveldb_writeoptions_create();
	char key[KEY], value[VALUE], *error = NULL;

	memset(value, 'v', VALUE);
	for (unsigned i = 0; i < ENTRIES; i++) {
		make_key(key, i);
		leveldb_put(database, options, key, KEY, value, VALUE, &error);
		check(error);
	}
	leveldb_compact_range(database, NULL, 0, NULL, 0);
	leveldb_writeoptions_destroy(options);
}

int main(int argc, char **argv)
{
	const char *directory = getenv("TMPDIR");
	leveldb_cache_t *cache = leveldb_cache_create_lru(CACHE);
	leveldb_options_t *options = leveldb_options_create();
	char path[4096], *error = NULL;
	int status;

	snprintf(path, sizeof(path), "%s/leveldb.XXXXXX", directory ? directory : "/tmp");
	check(mkdtemp(path) ? NULL : "no directory for the database");
	leveldb_options_set_create_if_missing(options, 1);
	leveldb_options_set_cache(options, cache);
	leveldb_options_set_compression(options, leveldb_no_compression);
	database = leveldb_open(options, path, &error);
	check(error);
	fill();
	status = client_main(argc, argv);
	leveldb_close(database);
	leveldb_destroy_db(options, path, &error);
	rmdir(path);
	leveldb_options_destroy(options);
	leveldb_cache_destroy(cache);
	return status;
}
