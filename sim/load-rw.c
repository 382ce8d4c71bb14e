/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A hash table under one reader-writer lock: ShflLock 6.3 (1 % and 50 % writes), CST 7.3
 * (10 %). A look-up goes through a chain; a write replaces an entry, and the two sums that
 * every reader compares are the same at any time. */
#include <stddef.h>

#include "pthread/rwlock.h"
#include "sim/load.h"

enum { BUCKETS = 512, CHAIN = 4, PER_OP = 60 };

static struct {
	pthread_rwlock_t lock;
} PK_ALIGNED(64) shared;
static struct {
	uint64_t left, right;
} PK_ALIGNED(64) sums;
static struct entry {
	uint64_t key, value;
} PK_ALIGNED(64) table[BUCKETS][CHAIN];
static struct sim_probe probe;
static struct sim_options options;

static void prepare(const struct sim_options *o)
{
	options = *o;
	for (unsigned i = 0; i < BUCKETS * CHAIN; i++)
		table[i % BUCKETS][i / BUCKETS].key = i;
}

static struct entry *find(uint64_t key)
{
	struct entry *e = table[key % BUCKETS];

	while (e->key != key)
		e++;
	return e;
}

static void body(unsigned number)
{
	(void)number;
	while (!sim_over()) {
		uint64_t dice = sim_random(), key = dice % (BUCKETS * CHAIN), asked;
		bool writes = (dice >> 32) % 1000 < options.writes;

		sim_compute(PER_OP);
		asked = sim_asks();
		if (writes) {
			pk_rwlock_wrlock(&shared.lock);
			sim_has(&probe, asked, false);
			sums.left++;
			find(key)->value++;
			sums.right++;
		} else {
			pk_rwlock_rdlock(&shared.lock);
			sim_has(&probe, asked, true);
			sim_compute(PER_OP);
			find(key);
			if (sums.left != sums.right)
				sim_fail("a reader sees half a write");
		}
		sim_work_for(options.held);
		sim_gives(&probe, !writes);
		pk_rwlock_unlock(&shared.lock);
		sim_op();
		sim_work_for(options.outside);
	}
}

static const char *check(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BUCKETS * CHAIN; i++)
		sum += table[i % BUCKETS][i / BUCKETS].value;
	return sum == sums.left && sum == sums.right ? NULL : "writes are lost";
}

const struct sim_load sim_hash = {
	"hash", "a hash table under a reader-writer lock, --writes permille (10)", 0, 10, prepare, body, check, false};
