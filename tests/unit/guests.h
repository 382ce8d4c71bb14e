/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Composed policies, step by step: each waiter is a guest, a thread that sleeps as soon as it has to wait, and the
 * heads leave one at a time. The machine has two nodes, each with two cache groups of two cores: cores A to D and E
 * to H. What is called __wrap here is linked in the place of the library's (local.am). */
#ifndef GUESTS_H
#define GUESTS_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admit/levels.h"
#include "rt/config.h"
#include "rt/futex.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "unit.h"

enum { MAX = 16, CORES = 8 };

static const char *const fair[] = {
	"hmcs",
	"clof:tkt-tkt-tkt-tkt",
	"clof:mcs-mcs-mcs-mcs",
	"clof:clh-clh-clh-clh",
	"clof:hem-hem-hem-hem",
	"clof:mcs-tkt-clh-hem",
	"clof:tkt-clh-hem-mcs",
	"clof:clh-hem-mcs-tkt",
	"clof:hem-mcs-tkt-clh",
};
enum { FAIR = sizeof(fair) / sizeof(fair[0]) };

static const char *const cohorts[] = {"c-tkt-tkt", "c-ptl-tkt", "c-bo-mcs", "a-c-bo-clh", "a-c-bo-bo"};
enum { COHORTS = sizeof(cohorts) / sizeof(cohorts[0]) };

static struct pk_queue queue;
static const struct pk_admit_ops *ops;

/* Where who has that record is (local.am). */
static unsigned core_of[256];
static bool real_places;
unsigned __real_pk_cohort_here(enum pk_cohort kind, uint32_t serial);
unsigned __wrap_pk_cohort_here(enum pk_cohort kind, uint32_t serial);

unsigned __wrap_pk_cohort_here(enum pk_cohort kind, uint32_t serial)
{
	if (real_places)
		return __real_pk_cohort_here(kind, serial);
	return pk_cohort_around(PK_COHORT_CORE, core_of[serial], kind);
}

/* The policies' clock. */
static uint64_t now = 5;
static bool real_time;
uint64_t __real_pk_clock_us(void);
uint64_t __wrap_pk_clock_us(void);

uint64_t __wrap_pk_clock_us(void)
{
	return real_time ? __real_pk_clock_us() : now;
}

/* Who sleeps is not woken while this is set. */
static bool quiet;
int __real_pk_futex_wake(const void *word, int n);
int __wrap_pk_futex_wake(const void *word, int n);
int __real_pk_futex_wake_bits(const void *word, uint32_t bits);
int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits);

int __wrap_pk_futex_wake(const void *word, int n)
{
	return quiet ? 0 : __real_pk_futex_wake(word, n);
}

int __wrap_pk_futex_wake_bits(const void *word, uint32_t bits)
{
	return quiet ? 0 : __real_pk_futex_wake_bits(word, bits);
}

enum { WAITS, ENTERED, GONE };

static struct guest {
	struct pk_waiter *w;
	pthread_t thread;
	sem_t may_leave;
	const struct pk_deadline *deadline;
	enum pk_entered how;
	int state;
	int tid;
	const bool *asleep;
} guest[MAX];
static int count;

static inline void *visit(void *arg)
{
	struct guest *g = arg;

	g->tid = gettid();
	pk_store_release(&g->asleep, &pk_self.asleep);
	g->how = ops->enter(&queue, g->w, g->deadline);
	pk_store_release(&g->state, ENTERED);
	sem_wait(&g->may_leave);
	if (g->how == PK_IS_HEAD)
		ops->leave(&queue, g->w, NULL);
	pk_store_release(&g->state, GONE);
	return NULL;
}

static inline int state_of(int i)
{
	return pk_load_acquire(&guest[i].state);
}

/* Whether the guest waits, and the kernel says that it sleeps, not that it is on its way. */
static inline bool sleeps(int i)
{
	const bool *asleep = pk_load_acquire(&guest[i].asleep);
	char path[64], text[256], *name;
	bool yes;
	FILE *f;

	if (!asleep || !pk_load_relaxed(asleep))
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", guest[i].tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	name = strrchr(text, ')');
	yes = name && name[2] == 'S';
	return yes && pk_load_relaxed(asleep);
}

/* Everybody has done what is theirs. */
static inline void settle(void)
{
	for (int i = 0; i < count; i++)
		while (state_of(i) == WAITS && !sleeps(i))
			sched_yield();
}

static inline void use(const char *name)
{
	pk_incarnation_next();
	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	pk_policy_select(name);
	ops = pk_admit;
	ck_assert_ptr_nonnull(ops->root);
}

static inline void bound(int batch)
{
	pk_config.batch = batch;
	pk_config_batch_given = true;
}

static inline struct pk_waiter *node_at(char core)
{
	struct pk_record *r = pk_record_take();
	struct pk_waiter *w = pk_waiter_take(r);

	core_of[r->index] = (unsigned)(core - 'A');
	w->policy = ops->policy;
	w->manner = PK_STAYS;
	w->queue = NULL;
	return w;
}

/* The next guest comes, and is inside or sleeps. */
static inline int arrive_until(char core, const struct pk_deadline *deadline)
{
	struct guest *g = &guest[count];

	memset(g, 0, sizeof(*g));
	g->w = node_at(core);
	g->deadline = deadline;
	sem_init(&g->may_leave, 0, 0);
	ck_assert_int_eq(pthread_create(&g->thread, NULL, visit, g), 0);
	count++;
	settle();
	return count - 1;
}

static inline void arrive_all(const char *cores)
{
	while (*cores)
		arrive_until(*cores++, NULL);
}

static inline void let_go(int i)
{
	sem_post(&guest[i].may_leave);
	while (state_of(i) != GONE)
		sched_yield();
	settle();
}

/* The head; -1 if nobody waits, either. Never more than one. */
static inline int head(void)
{
	int found = -1;

	settle();
	for (int i = 0; i < count; i++)
		if (state_of(i) == ENTERED && guest[i].how == PK_IS_HEAD) {
			ck_assert_int_eq(found, -1);
			found = i;
		}
	for (int i = 0; i < count && found < 0; i++)
		ck_assert_int_ne(state_of(i), WAITS); /* stranded */
	return found;
}

static inline const char *order(void)
{
	static char text[3 * MAX + 1];
	char *end = text;

	text[0] = 0;
	for (int i; (i = head()) >= 0;) {
		end += sprintf(end, "%s%x", end == text ? "" : " ", (unsigned)i);
		let_go(i);
	}
	return text;
}

static inline unsigned busy_contexts(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < pk_contexts_known(); i++) {
		struct pk_waiter *w = pk_context_nth(i);

		n += w && (w->busy || w->record);
	}
	return n;
}

static inline unsigned users(void)
{
	unsigned n = 0;

	for (unsigned s = PK_SOCKETS_MAX; s < PK_SOCKETS_MAX + pk_contexts_known() / (PK_BAYS * PK_BAY_CONTEXTS); s++)
		for (struct pk_bay *bay = NULL; (bay = pk_bay_next(s, &queue, bay));)
			n += pk_bay_users(bay, &queue);
	return n;
}

/* Nobody is left, and nothing of them: no user of a bay, no context, no node; nothing in the lock. */
static inline void check_idle(void)
{
	ck_assert_uint_eq(queue.tail, 0);
	ck_assert_uint_eq(queue.aux, 0);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(guest[i].w->busy, 0);
	ck_assert_uint_eq(users(), 0);
	ck_assert_uint_eq(busy_contexts(), 0);
}

#endif
