/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* One lock over some lines that are written:
 *
 *	lbench	Cohort 5.1.1: two lines, 4 us outside
 *	line	CST 7.3, figure 7 (b): one line, nothing outside
 *	empty	lock, unlock
 *	leveldb	what readrandom does with LevelDB's lock (ShflLock 6.4, CLoF 5.1.2): a few
 *		counters on four lines, then a search of some 2 us without the lock
 *	cache	what a read of RocksDB does with its block cache of one shard: four short sections
 *		in a row, a third of a microsecond apart, then 1.2 us without the lock (perf, db_bench)
 *
 * and of a line without a lock:
 *
 *	turns	CLoF 3.1: two threads, or more, take turns in incrementing a counter */
#include <stddef.h>

#include "base/atomic.h"
#include "base/await.h"

#include "sim/load.h"

enum { LINES_MAX = 64, IN_A_ROW = 4, APART_NS = 300 };

static struct sim_lock shared;
static struct line {
	uint64_t word[8];
} PK_ALIGNED(64) lines[LINES_MAX];
static struct sim_options options;
static struct {
	uint64_t ops;
} PK_ALIGNED(64) done[SIM_THREADS_MAX];

static void prepare(const struct sim_options *o)
{
	options = *o;
}

static void prepare_line(const struct sim_options *o)
{
	options = *o;
	options.lines = 1;
}

static void prepare_empty(const struct sim_options *o)
{
	options = *o;
	options.lines = 0;
}

static void prepare_leveldb(const struct sim_options *o)
{
	options = *o;
	options.lines = 4;
}

static void body(unsigned number)
{
	while (!sim_over()) {
		sim_lock(&shared);
		for (unsigned i = 0; i < options.lines; i++)
			lines[i].word[0]++;
		sim_work_for(options.held);
		sim_unlock(&shared);
		done[number].ops++;
		sim_op();
		sim_work_for(options.outside);
	}
}

static void body_cache(unsigned number)
{
	while (!sim_over()) {
		for (int n = 0; n < IN_A_ROW; n++) {
			sim_work_for(APART_NS);
			sim_lock(&shared);
			lines[0].word[0]++;
			sim_unlock(&shared);
			done[number].ops++;
		}
		sim_op();
		sim_work_for(options.outside);
	}
}

/* What was counted under the lock is what was done. */
static const char *check(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < options.threads; i++)
		sum += done[i].ops;
	for (unsigned i = 0; i < options.lines; i++)
		if (lines[i].word[0] != sum)
			return "increments under the lock are lost";
	return NULL;
}

static uint64_t counter PK_ALIGNED(64);

static void body_turns(unsigned number)
{
	while (!sim_over()) {
		unsigned rounds = 1000; /* the one before may have seen that it is over */

		while (pk_load_acquire(&counter) % options.threads != number)
			if (pk_spent(&rounds))
				return;
		pk_store_release(&counter, counter + 1);
		sim_op();
	}
}

static const char *check_turns(void)
{
	return counter ? NULL : "nobody has had a turn";
}

const struct sim_load sim_lbench = {"lbench", "write --lines lines (2), 4 us outside (LBench)", 4000, 0, prepare, body,
				    check, true};
const struct sim_load sim_line = {"line", "write one line", 0, 0, prepare_line, body, check, true};
const struct sim_load sim_empty = {"empty", "lock and unlock", 0, 0, prepare_empty, body, check, true};
const struct sim_load sim_leveldb = {"leveldb", "write four lines, 2 us outside", 2000, 0, prepare_leveldb, body,
				     check, true};
const struct sim_load sim_cache = {"cache", "four short sections in a row, 1.2 us outside (RocksDB)", 1200, 0, prepare_line,
				   body_cache, check, true};
const struct sim_load sim_turns = {"turns",    "take turns in incrementing a counter", 0, 0, prepare, body_turns,
				   check_turns, false};
