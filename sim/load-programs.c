/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What some programs do with locks, in small:
 *
 *	barrier	streamcluster (ShflLock 6.4): phases of work between barriers that are made
 *		of trylock, lock and a condition variable
 *	dedup	the same: many short-lived mutexes, each used a few times by one thread or
 *		two, under one allocator's lock when they come and go
 *	malloc	mmicro (Cohort 5.1.2): blocks from one list under one lock; each is written,
 *		and goes back first
 *	wakeup	one thread wakes all others, by a broadcast, again and again
 *	after	the same, but it lets the lock go before it does so */
#include <stddef.h>

#include "pthread/cond.h"
#include "sim/load.h"

static struct sim_lock shared;
static struct {
	pthread_cond_t cond;
} PK_ALIGNED(64) all;
static struct {
	uint64_t waiting, phase, leaver;
} PK_ALIGNED(64) state;
static struct sim_options options;
static uint64_t phases_of[SIM_THREADS_MAX];
static bool after; /* is a broadcast, when the lock has been let go */

static void prepare(const struct sim_options *o)
{
	options = *o;
}

static void prepare_after(const struct sim_options *o)
{
	prepare(o);
	after = true;
}

static const char *no_check(void)
{
	return NULL;
}

/* ---- barrier ---- */

enum { TRIES = 100 };

static void lock_by_trying(void)
{
	uint64_t asked = sim_asks();
	bool has = false;

	for (unsigned i = 0; i < TRIES && !has; i++) {
		has = !pk_mutex_trylock(&shared.mutex);
		sim_compute(20);
	}
	if (!has)
		pk_mutex_lock(&shared.mutex);
	sim_has(&shared.probe, asked, false);
}

/* All come to the same end: the first who sees that the time is over says so to those of
 * the next phase. */
static void barrier_body(unsigned number)
{
	bool leave = false;

	while (!leave) {
		uint64_t phase;

		sim_work_for(options.outside);
		lock_by_trying();
		phase = state.phase;
		phases_of[number]++;
		if (sim_over() && !state.leaver)
			state.leaver = phase + 1;
		if (++state.waiting == options.threads) {
			state.waiting = 0;
			state.phase++;
			pk_cond_broadcast(&all.cond);
		} else {
			while (state.phase == phase) {
				sim_gives(&shared.probe, false);
				pk_cond_wait(&all.cond, &shared.mutex);
				sim_has(&shared.probe, sim_asks(), false);
			}
		}
		leave = state.leaver && state.phase >= state.leaver;
		sim_unlock(&shared);
		sim_op();
	}
}

static const char *barrier_check(void)
{
	for (unsigned i = 1; i < options.threads; i++)
		if (phases_of[i] != phases_of[0])
			return "threads have passed different numbers of barriers";
	return state.waiting ? "somebody is missing" : NULL;
}

/* ---- dedup ---- */

enum { CHUNKS = 4096, USES = 4 };

static struct chunk {
	struct chunk *next;
	struct sim_lock lock;
	uint64_t uses;
} chunks[CHUNKS], *idle;
static uint64_t made, used;

static void prepare_dedup(const struct sim_options *o)
{
	options = *o;
	for (unsigned i = 0; i < CHUNKS; i++) {
		chunks[i].next = idle;
		idle = &chunks[i];
	}
}

static void dedup_body(unsigned number)
{
	(void)number;
	while (!sim_over()) {
		struct chunk *c;

		sim_lock(&shared);
		c = idle;
		if (c)
			idle = c->next;
		sim_unlock(&shared);
		if (!c)
			continue;
		c->lock.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		c->uses = 0;
		for (unsigned i = 0; i < USES; i++) {
			sim_lock(&c->lock);
			c->uses++;
			sim_unlock(&c->lock);
			sim_work_for(options.outside);
		}
		sim_lock(&shared);
		made++;
		used += c->uses;
		c->next = idle;
		idle = c;
		sim_unlock(&shared);
		sim_op();
	}
}

static const char *dedup_check(void)
{
	unsigned n = 0;

	for (struct chunk *c = idle; c; c = c->next)
		n++;
	return n == CHUNKS && used == made * USES ? NULL : "chunks are lost";
}

/* ---- malloc ---- */

enum { BLOCKS_LIVE = 4 };

static struct block {
	struct block *next;
	uint64_t user;
} PK_ALIGNED(64) blocks[SIM_THREADS_MAX * BLOCKS_LIVE], *list;

static void prepare_malloc(const struct sim_options *o)
{
	options = *o;
	for (unsigned i = 0; i < o->threads * BLOCKS_LIVE; i++) {
		blocks[i].next = list;
		list = &blocks[i];
	}
}

static void malloc_body(unsigned number)
{
	while (!sim_over()) {
		struct block *mine[BLOCKS_LIVE];

		for (unsigned i = 0; i < BLOCKS_LIVE; i++) {
			sim_lock(&shared);
			mine[i] = list;
			list = list->next;
			sim_unlock(&shared);
			mine[i]->user = 1 + number;
			sim_work_for(options.outside);
		}
		for (unsigned i = 0; i < BLOCKS_LIVE; i++) {
			if (mine[i]->user != 1 + number)
				sim_fail("a block has been given to two");
			sim_lock(&shared);
			mine[i]->next = list;
			list = mine[i];
			sim_unlock(&shared);
			sim_op();
		}
	}
}

static const char *malloc_check(void)
{
	unsigned n = 0;

	for (struct block *b = list; b; b = b->next)
		n++;
	return n == options.threads * BLOCKS_LIVE ? NULL : "blocks are lost";
}

/* ---- wakeup ---- */

static void wakeup_body(unsigned number)
{
	uint64_t seen = 0;

	if (number) {
		while (seen != UINT64_MAX) {
			sim_lock(&shared);
			while (state.phase == seen) {
				sim_gives(&shared.probe, false);
				pk_cond_wait(&all.cond, &shared.mutex);
				sim_has(&shared.probe, sim_asks(), false);
			}
			seen = state.phase;
			state.waiting++;
			sim_unlock(&shared);
			sim_op();
		}
		return;
	}
	for (bool over = false; !over;) {
		bool due;

		sim_work_for(options.outside);
		over = sim_over();
		sim_lock(&shared);
		/* Once all have seen the last one. */
		due = state.waiting == options.threads - 1 || !state.phase || over;
		if (due) {
			state.waiting = 0;
			state.phase = over ? UINT64_MAX : state.phase + 1;
		}
		if (due && !after)
			pk_cond_broadcast(&all.cond);
		sim_unlock(&shared);
		if (due && after)
			pk_cond_broadcast(&all.cond);
	}
}

const struct sim_load sim_barrier = {
	"barrier",    "work, and barriers of trylock and a condition variable (streamcluster)",
	20000,	      0,
	prepare,      barrier_body,
	barrier_check, false};
const struct sim_load sim_dedup = {"dedup",    "short-lived mutexes (dedup)", 200, 0, prepare_dedup, dedup_body,
				   dedup_check, true};
const struct sim_load sim_malloc = {"malloc",	 "blocks from one list (mmicro)", 400, 0, prepare_malloc, malloc_body,
				    malloc_check, true};
const struct sim_load sim_wakeup = {"wakeup", "one thread wakes the others, all at once", 5000, 0, prepare, wakeup_body,
				    no_check, false};
const struct sim_load sim_after = {"after", "the same, when it has let the lock go", 5000, 0, prepare_after, wakeup_body,
				   no_check, false};
