/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that look rows up through one SQLite connection, in memory: sqlite THREADS SECONDS. It is serialised, by
 * recursive mutexes. */
#include "client.h"

#include <sqlite3.h>

enum { ROWS = 10000 };

static sqlite3 *database;

static void check(int good)
{
	if (good)
		return;
	fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(database));
	exit(1);
}

uint64_t client_run(int number)
{
	unsigned random = (unsigned)number * 7919 + 1;
	sqlite3_stmt *query;
	uint64_t n = 0;

	check(sqlite3_prepare_v2(database, "select b from t where a = ?", -1, &query, NULL) == SQLITE_OK);
	for (; !client_over(); n++) {
		random = random * 1103515245 + 12345;
		sqlite3_bind_int(query, 1, (int)(random >> 8) % ROWS);
		check(sqlite3_step(query) == SQLITE_ROW);
		sqlite3_reset(query);
	}
	sqlite3_finalize(query);
	return n;
}

int main(int argc, char **argv)
{
	int status;

	check(sqlite3_config(SQLITE_CONFIG_SERIALIZED) == SQLITE_OK);
	check(sqlite3_open(":memory:", &database) == SQLITE_OK);
	check(sqlite3_exec(database,
			   "create table t(a integer primary key, b text);"
			   "with recursive n(i) as (select 0 union all select i + 1 from n where i < 9999)"
			   "insert into t select i, 'row ' || i from n;",
			   NULL, NULL, NULL) == SQLITE_OK);
	status = client_main(argc, argv);
	sqlite3_close(database);
	return status;
}
