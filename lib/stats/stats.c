/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The statistics module: a record for each lock that somebody had to wait for.
 *
 * Records are found by a lock-free hash table, liburcu's cds_lfht: it takes one lookup, and for a new lock one
 *insertion, without locks and without memory (the node is in the record). Of RCU it needs nothing. A grace period
 *protects those who read from what is taken away, and here nothing is: records stay, and the table, of fixed size, is
 *never resized. So there are no read-side critical sections, no thread is registered (which would lock, map memory and
 *set thread-local values in a thread that may be in the middle of an allocator), and fork finds nothing of liburcu's to
 *be put in order.
 *
 * Ledger
 *  S1	object: release when a record is complete, acquire by who reads the table of records in order (report, live
 *view). Who comes by the hash table gets it by the table's own publication. The numbers are relaxed: each is a sum or a
 *maximum of its own, and nobody concludes anything from two of them. */
#define _LGPL_SOURCE
#include "stats/stats.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <urcu/urcu-bp.h>
#include <urcu/rculfhash.h>

#include "base/atomic.h"
#include "parkade.h"

enum { BUCKETS = 4096 };

_Static_assert(sizeof(struct cds_lfht_node) <= sizeof(((struct pk_lock *)0)->link), "the node has room");

const struct pk_watch_host *pk_stats_host;
struct pk_stats_head *pk_stats_head;
struct pk_lock *pk_stats_locks;

const char *const pk_stats_kinds[PK_WATCH_KINDS] = {"mutex", "rwlock (read)", "rwlock (write)", "condition",
						    "spin lock"};

static struct cds_lfht *table;

enum { KIND_NAME = PK_WATCH_KINDS }; /* a record that holds a name only */

static unsigned long hash_of(uint64_t object, uint64_t kind)
{
	return (unsigned long)((object >> 2 ^ kind << 60) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

static struct pk_lock *lock_of(struct cds_lfht_node *node)
{
	return (struct pk_lock *)(void *)node;
}

static int is_same(struct cds_lfht_node *node, const void *key)
{
	const struct pk_lock *lock = lock_of(node), *wanted = key;

	return lock->object == wanted->object && lock->kind == wanted->kind;
}

uint64_t pk_stats_used(void)
{
	uint64_t used = pk_load_relaxed(&pk_stats_head->used), most = pk_stats_head->table;

	return used < most ? used : most;
}

static struct pk_lock *find(uint64_t object, uint64_t kind)
{
	struct pk_lock key = {.object = object, .kind = kind};
	struct cds_lfht_iter iter;

	cds_lfht_lookup(table, hash_of(object, kind), is_same, &key, &iter);
	return cds_lfht_iter_get_node(&iter) ? lock_of(cds_lfht_iter_get_node(&iter)) : NULL;
}

/* The object's record, a new one if need be; null: the table is full. */
static struct pk_lock *find_or_add(uint64_t object, uint64_t kind)
{
	struct pk_lock *lock = find(object, kind), *winner;
	struct cds_lfht_node *node;
	uint64_t n;

	if (lock)
		return lock;
	n = pk_add_relaxed(&pk_stats_head->used, 1);
	if (n >= pk_stats_head->table)
		return NULL;
	lock = &pk_stats_locks[n];
	node = (struct cds_lfht_node *)(void *)lock->link;
	lock->kind = kind;
	if (kind != KIND_NAME)
		pk_sites_find(lock->site);
	pk_store_release(&lock->object, object); /* S1 */
	cds_lfht_node_init(node);
	winner = lock_of(cds_lfht_add_unique(table, hash_of(object, kind), is_same, lock, node));
	if (winner != lock)
		pk_store_relaxed(&lock->object, 0); /* another thread was faster */
	return winner;
}

static void at_least(uint64_t *most, uint64_t value)
{
	uint64_t seen = pk_load_relaxed(most);

	while (seen < value && !pk_cas_relaxed(most, &seen, value))
		;
}

/* Whose turn came after whose. Two readers may get the lock at once: by exchanging, one of them comes after the other. */
static void count_turn(struct pk_lock *lock, const struct pk_waited *w)
{
	const struct pk_levels *levels = pk_stats_host->levels;
	uint64_t place = 0, from, last;
	unsigned level = 0;

	for (unsigned i = 0; i < levels->n; i++)
		place |= (uint64_t)w->place[i] << 16 * i;
	from = pk_xchg_acq_rel(&lock->last_place, place);
	last = pk_xchg_acq_rel(&lock->last_ns, w->until);
	if (last) {
		while (level < levels->n && (uint16_t)(from >> 16 * level) != (uint16_t)(place >> 16 * level))
			level++;
		pk_add_relaxed(&lock->near[level < levels->n ? level : PK_COHORTS], 1);
		if (w->since < last && w->until > last) {
			pk_add_relaxed(&lock->turns, 1);
			pk_add_relaxed(&lock->turn_ns, w->until - last);
		}
	}
}

static void waited(const struct pk_waited *w)
{
	struct pk_lock *lock = find_or_add((uintptr_t)w->object, w->kind);
	uint64_t ns = w->until > w->since ? w->until - w->since : 0;
	unsigned time = 0;

	if (!lock)
		return;
	while (time < PK_STATS_TIMES - 1 && ns >> time >= 1000)
		time++;
	pk_add_relaxed(w->got ? &lock->got : &lock->late, 1);
	pk_add_relaxed(&lock->wait_ns, ns);
	pk_add_relaxed(&lock->times[time], 1);
	at_least(&lock->wait_max_ns, ns);
	for (int i = 0; i < PK_STATS; i++)
		if (w->gained[i])
			pk_add_relaxed(&lock->gained[i], w->gained[i]);
	if (w->got && w->kind != PK_WATCH_COND)
		count_turn(lock, w);
}

/* Hand-overs within a node, or between nodes. Levels are in order, the innermost first; where nodes are none, all of
 * the system is near. */
static void add_near(const struct pk_lock *lock, struct parkade_lock_stats *sum)
{
	const struct pk_levels *levels = pk_stats_host->levels;
	bool far = false;

	for (unsigned i = 0; i < levels->n; i++) {
		*(far ? &sum->far : &sum->near) += pk_load_relaxed(&lock->near[i]);
		far |= levels->kind[i] == PK_COHORT_NODE;
	}
	*(far ? &sum->far : &sum->near) += pk_load_relaxed(&lock->near[PK_COHORTS]);
}

static bool add_up(const void *object, struct parkade_lock_stats *sum)
{
	bool known = false;

	for (uint64_t kind = 0; kind < PK_WATCH_KINDS; kind++) {
		const struct pk_lock *lock = find((uintptr_t)object, kind);
		uint64_t got, late, most;

		if (!lock)
			continue;
		known = true;
		got = pk_load_relaxed(&lock->got);
		late = pk_load_relaxed(&lock->late);
		most = pk_load_relaxed(&lock->wait_max_ns);
		sum->got += got;
		sum->late += late;
		sum->reads += kind == PK_WATCH_READ ? got + late : 0;
		sum->wait_ns += pk_load_relaxed(&lock->wait_ns);
		sum->wait_max_ns = most > sum->wait_max_ns ? most : sum->wait_max_ns;
		add_near(lock, sum);
		sum->turns += pk_load_relaxed(&lock->turns);
		sum->turn_ns += pk_load_relaxed(&lock->turn_ns);
		sum->stolen += pk_load_relaxed(&lock->gained[PK_STAT_stolen]);
		sum->sleeps += pk_load_relaxed(&lock->gained[PK_STAT_parked]) +
			       pk_load_relaxed(&lock->gained[PK_STAT_slept]) +
			       pk_load_relaxed(&lock->gained[PK_STAT_rparked]);
	}
	return known;
}

static void name(const void *object, const char *text)
{
	struct pk_lock *lock = find_or_add((uintptr_t)object, KIND_NAME);

	/* To the end of the field: the address may have had a longer name. */
	for (unsigned i = 0; lock && i < sizeof(lock->name) - 1; i++) {
		lock->name[i] = *text >= ' ' && *text < 127 ? *text : *text ? '?' : '\0';
		text += *text != '\0';
	}
}

const char *pk_stats_name(uint64_t object)
{
	const struct pk_lock *lock = find(object, KIND_NAME);

	return lock ? lock->name : "";
}

/* Names one after the other, with commas. */
static void append(char *text, size_t size, const char *more)
{
	size_t len = strlen(text);

	if (len + strlen(more) + 2 > size)
		return;
	if (len)
		text[len++] = ',';
	strcpy(text + len, more);
}

/* Memory for records, `memory` if there is enough of it; and a table without any in it. */
static bool start(void *memory, size_t size)
{
	size_t wanted = PK_STATS_HEAD + sizeof(struct pk_lock) * PK_STATS_TABLE;
	struct timespec now = {0, 0};

	if (!memory || size < PK_STATS_HEAD + sizeof(struct pk_lock)) {
		size = wanted;
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			return false;
	}
	table = cds_lfht_new_flavor(BUCKETS, BUCKETS, BUCKETS, 0, &urcu_bp_flavor, NULL);
	if (!table)
		return false;
	pk_stats_head = memory;
	pk_stats_locks = (struct pk_lock *)((char *)memory + PK_STATS_HEAD);
	clock_gettime(CLOCK_MONOTONIC, &now);
	pk_stats_head->format = PK_STATS_FORMAT;
	pk_stats_head->record_size = sizeof(struct pk_lock);
	pk_stats_head->table = (size - PK_STATS_HEAD) / sizeof(struct pk_lock);
	pk_stats_head->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	for (unsigned i = 0; i < pk_stats_host->levels->n; i++)
		append(pk_stats_head->levels, sizeof(pk_stats_head->levels),
		       pk_stats_host->level_name(pk_stats_host->levels->kind[i]));
	for (unsigned i = 0; i < PK_STATS; i++)
		append(pk_stats_head->counters, sizeof(pk_stats_head->counters), pk_stats_host->counters[i]);
	pk_store_release(&pk_stats_head->magic, PK_STATS_MAGIC); /* S1 */
	return true;
}

/* What the parent has counted stays with it: its memory, which may be shared, is not touched. */
static bool fork_child(void)
{
	return start(NULL, 0);
}

static const struct pk_watch watch = {waited, add_up, name, pk_stats_report, fork_child};

__attribute__((visibility("default"))) const struct pk_watch *pk_stats_open(const struct pk_watch_host *host)
{
	pk_stats_host = host;
	pk_sites_setup();
	return start(host->memory, host->size) ? &watch : NULL;
}
