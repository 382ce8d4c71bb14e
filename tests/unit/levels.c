/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Composed policies, step by step: each waiter is a thread that sleeps as soon as it has to wait, and the heads leave
 * one at a time. The machine has two nodes, each with two cache groups of two cores: cores A to D and E to H. And all
 * compositions, shortly. */
#include "admit/levels.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admit/aux.h"
#include "admit/tail.h"
#include "pthread/turn.h"
#include "rt/config.h"
#include "rt/futex.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/thread.h"
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

/* The composition, with other locks if a test wants that. */
static struct pk_composed spied;
static bool spying;
const struct pk_composed *__real_pk_composed_of(unsigned policy);
const struct pk_composed *__wrap_pk_composed_of(unsigned policy);

const struct pk_composed *__wrap_pk_composed_of(unsigned policy)
{
	return spying ? &spied : __real_pk_composed_of(policy);
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

static void *visit(void *arg)
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

static int state_of(int i)
{
	return pk_load_acquire(&guest[i].state);
}

/* Whether the guest waits, and the kernel says that it sleeps, not that it is on its way. */
static bool sleeps(int i)
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
static void settle(void)
{
	for (int i = 0; i < count; i++)
		while (state_of(i) == WAITS && !sleeps(i))
			sched_yield();
}

static void use(const char *name)
{
	pk_incarnation_next();
	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	pk_policy_select(name);
	ops = pk_admit;
	ck_assert_ptr_nonnull(ops->root);
}

static void bound(int batch)
{
	pk_config.batch = batch;
	pk_config_batch_given = true;
}

static struct pk_waiter *node_at(char core)
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
static int arrive_until(char core, const struct pk_deadline *deadline)
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

static void arrive_all(const char *cores)
{
	while (*cores)
		arrive_until(*cores++, NULL);
}

static void let_go(int i)
{
	sem_post(&guest[i].may_leave);
	while (state_of(i) != GONE)
		sched_yield();
	settle();
}

/* The head; -1 if nobody waits, either. Never more than one. */
static int head(void)
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

static const char *order(void)
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

static unsigned busy_contexts(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < pk_contexts_known(); i++) {
		struct pk_waiter *w = pk_context_nth(i);

		n += w && (w->busy || w->record);
	}
	return n;
}

static unsigned users(void)
{
	unsigned n = 0;

	for (unsigned s = PK_SOCKETS_MAX; s < PK_SOCKETS_MAX + pk_contexts_known() / (PK_BAYS * PK_BAY_CONTEXTS); s++)
		for (struct pk_bay *bay = NULL; (bay = pk_bay_next(s, &queue, bay));)
			n += pk_bay_users(bay, &queue);
	return n;
}

/* Nobody is left, and nothing of them: no user of a bay, no context, no node; nothing in the lock. */
static void check_idle(void)
{
	ck_assert_uint_eq(queue.tail, 0);
	ck_assert_uint_eq(queue.aux, 0);
	for (int i = 0; i < count; i++)
		ck_assert_uint_eq(guest[i].w->busy, 0);
	ck_assert_uint_eq(users(), 0);
	ck_assert_uint_eq(busy_contexts(), 0);
}

/* ---- who is next ---- */

/* Those of the own core first, then of the cache group, of the node; each in their order. */
START_TEST(nearest_first)
{
	use(fair[_i]);
	arrive_all("AEBACFE");
	ck_assert_str_eq(order(), "0 3 2 4 1 6 5");
	check_idle();
	count = 0;
	arrive_all("HAHGEFAB");
	ck_assert_str_eq(order(), "0 2 3 4 5 1 6 7");
	check_idle();
}
END_TEST

/* At each level so many hand-overs and no more, each counted by itself. */
START_TEST(bounds)
{
	static const char *const runs[][2] = {
		{"AAAAE", "0 1 4 2 3"},
		{"AECBABA", "0 4 3 5 2 1 6"},
		{"ABABE", "0 2 1 3 4"},
		{"AEABA", "0 2 3 1 4"},
	};

	use(fair[_i % FAIR]);
	bound(1);
	arrive_all(runs[_i / FAIR][0]);
	ck_assert_str_eq(order(), runs[_i / FAIR][1]);
	check_idle();
}
END_TEST

/* Without PARKADE_BATCH it is the policy's own bound. */
START_TEST(own_bounds)
{
	use(_i ? "hmcs" : "c-tkt-tkt");
	ck_assert_uint_eq(pk_composed_of(ops->policy)->bound, _i ? 128 : 100);
	pk_config.batch = 1;
	arrive_all("AAAE");
	ck_assert_str_eq(order(), "0 1 2 3");
	check_idle();
}
END_TEST

/* Time ends a cohort's turn as well, counted from when it has had the lock for a while. */
START_TEST(long_turn)
{
	use(fair[_i]);
	bound(1000);
	arrive_all("AAAAAAAAAAAAE");
	for (int i = 0; i < 8; i++)
		let_go(head()); /* the eighth looks at the clock */
	now += 20002;
	for (int i = 8; i < 11; i++)
		let_go(head()); /* no hand-over looks again before the sixteenth */
	ck_assert_int_eq(head(), 11);
	ck_assert_str_eq(order(), "b c");
	check_idle();

	/* the levels above look each time */
	count = 0;
	now += 5;
	arrive_all("ABE");
	let_go(head());
	arrive_all("A");
	now += 20002;
	ck_assert_str_eq(order(), "1 2 3");
	check_idle();
}
END_TEST

/* Cohort locks have two levels: the order within a node is that of its lock, where that is fair. */
START_TEST(cohort_order)
{
	use(cohorts[_i]);
	ck_assert_uint_eq(pk_composed_of(ops->policy)->root, 1);
	bound(2);
	arrive_all("AEBDAF");
	if (_i < 2)
		ck_assert_str_eq(order(), "0 2 3 1 5 4");
	else /* whoever looks first */
		ck_assert_uint_eq(strlen(order()), 11);
	check_idle();
}
END_TEST

/* One node only; and no level at all. */
START_TEST(few_levels)
{
	pk_topology_read("", _i & 1 ? "1x4x2@thread" : "1");
	pk_incarnation_next();
	pk_levels_read("", "");
	ck_assert_uint_eq(pk_levels.n, _i & 1 ? 1 : 0);
	pk_policy_select(_i & 2 ? "clof:tkt-mcs-clh" : "hmcs");
	ops = pk_admit;
	arrive_all("AAA");
	ck_assert_str_eq(order(), "0 1 2");
	check_idle();
}
END_TEST

/* ---- names ---- */

START_TEST(names)
{
	static const struct {
		const char *name, *levels;
		int root; /* -1: it is no name */
	} runs[] = {
		{"clof:tkt-mcs", "", 1},
		{"clof:tkt-mcs-clh", "", 2},
		{"clof:tkt-mcs-clh-hem", "", 3},
		{"clof", "", 3},
		{"hmcs", "", 3},
		{"hmcs", "node,cache", 2},
		{"hmcs", "core", 1},
		{"clof:tkt-mcs-clh-hem", "core,node", 2},
		{"clof", "node", 1},
		{"clof:", "", 3},
		{"clof:mcs", "", -1},
		{"clof:mcs-", "", -1},
		{"clof:mcs-mcs-mcs-mcs-mcs", "", -1},
		{"clof:mcs-ptl", "", -1},
		{"clof:mcs--mcs", "", -1},
		{"clof:-mcs", "", -1},
	};
	const struct pk_composed *c;

	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", runs[_i].levels);
	pk_policy_select(runs[_i].name);
	if (runs[_i].root < 0) {
		ck_assert_uint_eq(pk_admit->policy, PK_POLICY_shfl);
		ck_assert_str_eq(pk_config.policy, "shfl");
		return;
	}
	c = pk_composed_of(pk_admit->policy);
	ck_assert_int_eq(c->root, runs[_i].root);
	if (!strcmp(runs[_i].name, "clof:tkt-mcs")) { /* the outermost level of the machine */
		ck_assert_uint_eq(c->kind[0], PK_COHORT_NODE);
		ck_assert_ptr_eq(c->lock[0], &pk_basic_tkt);
	}
	if (!strcmp(runs[_i].levels, "core,node") && c->root == 2) { /* the first of the locks is left out */
		ck_assert_ptr_eq(c->lock[0], &pk_basic_mcs);
		ck_assert_ptr_eq(c->lock[2], &pk_basic_hem);
		ck_assert_uint_eq(c->kind[0], PK_COHORT_CORE);
		ck_assert_uint_eq(c->kind[1], PK_COHORT_NODE);
	}
}
END_TEST

/* Two compositions are two policies, with bays of their own; the same one again is the same. */
START_TEST(compositions)
{
	const struct pk_admit_ops *first;
	char name[32];

	use("clof:mcs-tkt");
	first = ops;
	use("clof:tkt-mcs");
	ck_assert_uint_ne(ops->policy, first->policy);
	ck_assert_ptr_eq(pk_policy_ops(ops->policy), ops);
	ck_assert_uint_ne(pk_composed_of(ops->policy)->storey[0], pk_composed_of(first->policy)->storey[0]);
	use("clof:mcs-tkt");
	ck_assert_ptr_eq(ops, first);
	for (int i = 0; i < 64; i++) { /* there is an end to it */
		snprintf(name, sizeof(name), "clof:%s-%s-%s", &"mcs\0tkt\0clh\0hem"[i % 4 * 4],
			 &"mcs\0tkt\0clh\0hem"[i / 4 % 4 * 4], &"mcs\0tkt\0clh\0hem"[i / 16 * 4]);
		pk_policy_select(name);
	}
	ck_assert_uint_eq(pk_admit->policy, PK_POLICY_shfl);
}
END_TEST

/* ---- the recursion ---- */

static char events[256];
static const struct pk_waiter *inside[64];
static bool shared;

/* By who leaves and by who comes in, at the same time. */
static void note(unsigned level, char what)
{
	static int busy;
	size_t n;

	while (pk_xchg_acquire(&busy, 1))
		sched_yield();
	n = strlen(events);
	if (n + 3 < sizeof(events))
		sprintf(events + n, "%u%c ", level, what);
	pk_store_release(&busy, 0);
}

/* A node is in one lock at a time. */
static void go_in(const struct pk_waiter *w)
{
	for (int i = 0; i < 64; i++)
		if (pk_load_acquire(&inside[i]) == w)
			shared = true;
	for (int i = 0;; i = (i + 1) % 64) {
		const struct pk_waiter *none = NULL;

		if (pk_cas_acq_rel(&inside[i], &none, w))
			return;
	}
}

static void go_out(const struct pk_waiter *w)
{
	for (int i = 0; i < 64; i++)
		if (pk_load_acquire(&inside[i]) == w) {
			pk_store_release(&inside[i], NULL);
			return;
		}
	shared = true;
}

#define SPY(n)                                                                                                         \
	static const struct pk_basic *real##n;                                                                         \
	static enum pk_entered enter##n(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *d)          \
	{                                                                                                              \
		enum pk_entered how;                                                                                   \
                                                                                                                       \
		go_in(w);                                                                                              \
		how = real##n->enter(q, w, d);                                                                         \
		if (how == PK_IS_HEAD)                                                                                 \
			note(n, '+');                                                                                  \
		return how;                                                                                            \
	}                                                                                                              \
	static void leave##n(struct pk_queue *q, struct pk_waiter *w, int *held)                                       \
	{                                                                                                              \
		note(n, '-');                                                                                          \
		go_out(w);                                                                                             \
		real##n->leave(q, w, held);                                                                            \
	}                                                                                                              \
	static bool pass##n(struct pk_queue *q, struct pk_waiter *w, int *held)                                        \
	{                                                                                                              \
		go_out(w);                                                                                             \
		if (real##n->pass(q, w, held)) {                                                                       \
			note(n, '>');                                                                                  \
			return true;                                                                                   \
		}                                                                                                      \
		go_in(w);                                                                                              \
		return false;                                                                                          \
	}

SPY(0)
SPY(1)
SPY(2)
SPY(3)

static void spy(void)
{
	static struct pk_basic spies[4];

	spied = *__real_pk_composed_of(ops->policy);
	ck_assert_uint_eq(spied.root, 3);
	real0 = spied.lock[0];
	real1 = spied.lock[1];
	real2 = spied.lock[2];
	real3 = spied.lock[3];
	spies[0] = (struct pk_basic){enter0, leave0, pass0, real0->flee, NULL};
	spies[1] = (struct pk_basic){enter1, leave1, pass1, real1->flee, NULL};
	spies[2] = (struct pk_basic){enter2, leave2, pass2, real2->flee, NULL};
	spies[3] = (struct pk_basic){enter3, leave3, pass3, real3->flee, NULL};
	for (int i = 0; i < 4; i++)
		spied.lock[i] = &spies[i];
	spying = true;
}

/* The high lock is let go before the low one, and not taken by who has been passed it. */
START_TEST(high_before_low)
{
	use(fair[_i]);
	spy();
	arrive_all("AABC");
	ck_assert_str_eq(events, "0+ 1+ 2+ 3+ 0+ 0+ 1+ ");
	events[0] = 0;
	let_go(0);
	ck_assert_uint_eq(strlen(events), 6);
	ck_assert(strstr(events, "0>") && strstr(events, "0+"));
	events[0] = 0;
	let_go(1);
	/* within the cache group; then the core's lock */
	ck_assert_ptr_nonnull(strstr(events, "1>"));
	ck_assert(strstr(events, "0-") > strstr(events, "1>"));
	ck_assert_ptr_null(strchr(events, '2'));
	events[0] = 0;
	let_go(2);
	ck_assert_ptr_nonnull(strstr(events, "2>"));
	ck_assert(strstr(events, "1-") > strstr(events, "2>") && strstr(events, "0-") > strstr(events, "1-"));
	ck_assert_ptr_null(strchr(events, '3'));
	events[0] = 0;
	let_go(3);
	ck_assert_str_eq(events, "3- 2- 1- 0- ");
	ck_assert(!shared);
	check_idle();
}
END_TEST

static long turns, sections;
static bool stop;

static void *come_and_go(void *arg)
{
	unsigned luck = 7919 * (1 + (unsigned)(uintptr_t)arg);
	struct pk_record *r = pk_record_take();

	while (!pk_load_relaxed(&stop)) {
		struct pk_waiter *w = pk_waiter_take(r);

		if (!w) {
			sched_yield();
			continue;
		}
		luck = luck * 1664525 + 1013904223;
		core_of[r->index] = luck >> 16 & 7;
		w->policy = ops->policy;
		w->manner = PK_STAYS;
		w->queue = NULL;
		if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
			continue;
		sections++; /* there is one head */
		pk_add_relaxed(&turns, 1);
		if (luck >> 28 == 0)
			sched_yield();
		ops->leave(&queue, w, NULL);
	}
	return NULL;
}

/* Many threads: a context is never in two places, there is one head at a time, and nothing is left behind. */
START_TEST(contexts_alone)
{
	enum { THREADS = 12 };
	pthread_t thread[THREADS];

	use(fair[_i]);
	bound(1 + _i % 3);
	real_time = true;
	spy();
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, come_and_go, (void *)i), 0);
	usleep(200000);
	pk_store_relaxed(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert(!shared);
	ck_assert_int_gt(turns, 20);
	ck_assert_int_eq(turns, sections);
	ck_assert_uint_eq(users(), 0);
	ck_assert_uint_eq(busy_contexts(), 0);
	ck_assert(!pk_queue_busy(&queue));
}
END_TEST

/* ---- giving up ---- */

static void nothing(int number)
{
	(void)number;
}

/* What a handler in the sleeping guest does that has to wait, twice, or waits and ends its thread then. */
static void give_up(int i)
{
	struct pk_queue *low = guest[i].w->queue;

	ops->give_up(low, guest[i].w);
	ops->give_up(low, guest[i].w);
}

/* And then returns to the sleep, which goes on if the kernel finds the word as it was. */

static void go_on(int i)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
	while (state_of(i) == WAITS) {
		pthread_kill(guest[i].thread, SIGUSR1);
		usleep(1000);
	}
	ck_assert_int_eq(guest[i].how, PK_ORPHANED);
}

/* Who gives up is passed over, wherever it waits: among others, as the last one, and as the first of its cohort, who
 * waits for the lock of the cache group, of the node, of all; others of its cohort then do so. A letter in lower case
 * gives up, at once or when all have come. */
START_TEST(gives_up)
{
	static const char *const runs[][2] = {
		{"Aa", "0"},	   {"AaA", "0 2"},    {"AaaA", "0 3"}, {"Ab", "0"},
		{"AbB", "0 2"},	   {"Ac", "0"},	      {"AcC", "0 2"},  {"AcD", "0 2"},
		{"Ae", "0"},	   {"AeE", "0 2"},    {"AeF", "0 2"},  {"AeG", "0 2"},
		{"AEeG", "0 1 3"}, {"AeEB", "0 3 2"}, {"AbcE", "0 3"}, {"AeBE", "0 2 3"},
	};
	enum { RUNS = sizeof(runs) / sizeof(runs[0]) };
	const char *cores = runs[_i / 2 % RUNS][0];
	bool late = _i & 1;

	ck_assert_uint_eq(RUNS, 16);
	use(fair[_i / 2 / RUNS]);
	for (int i = 0; cores[i]; i++) {
		arrive_until((char)(cores[i] & ~32), NULL);
		if (cores[i] & 32 && !late) {
			give_up(i);
			go_on(i);
		}
	}
	for (int i = 0; late && cores[i]; i++)
		if (cores[i] & 32) {
			give_up(i);
			settle();
		}
	for (int i = 0; late && cores[i]; i++)
		if (cores[i] & 32)
			go_on(i);
	ck_assert_str_eq(order(), runs[_i / 2 % RUNS][1]);
	check_idle();
}
END_TEST

/* The same when it has just got the lock of its cohort, or the one that it waits for above, and has not woken: whether
 * those above are held or not, the next one gets it. */
START_TEST(given_up_as_head)
{
	static const char *const runs[][2] = {{"AAA", "2"}, {"AAE", "2"}, {"ABA", "2"}, {"ABB", "2"},
					      {"AC", ""},   {"AEE", "2"}, {"AEF", "2"}, {"AEEB", "3 2"}};
	const char *cores = runs[_i % 8][0];

	use(_i / 8 < FAIR ? fair[_i / 8] : cohorts[_i / 8 - FAIR]);
	if (_i / 8 >= FAIR && (_i % 8 == 2 || _i % 8 == 7 || _i / 8 - FAIR > 1))
		return; /* another order */
	arrive_all(cores);
	quiet = true;
	let_go(0);
	quiet = false;
	if (_i % 8 == 7) { /* it was 3's turn: the cache group's */
		ck_assert(sleeps(3));
		give_up(3);
		go_on(3);
		ck_assert_str_eq(order(), "1 2");
	} else if (_i % 8 == 2) {
		ck_assert(sleeps(2));
		give_up(2);
		go_on(2);
		ck_assert_str_eq(order(), "1");
	} else {
		ck_assert(sleeps(1));
		give_up(1);
		go_on(1);
		ck_assert_str_eq(order(), runs[_i % 8][1]);
	}
	check_idle();
}
END_TEST

/* While the handler of one that has given up goes on waiting, its context is nobody's; the cohort has another one, and
 * no third. */
START_TEST(handler_waits)
{
	use(fair[_i]);
	arrive_all("AEEE");
	give_up(1);
	settle();
	ck_assert(sleeps(2));
	give_up(2);
	while (state_of(3) == WAITS)
		sched_yield();
	ck_assert_int_eq(guest[3].how, PK_ORPHANED);
	go_on(1);
	go_on(2);
	ck_assert_str_eq(order(), "0");
	check_idle();
	arrive_all("E");
	ck_assert_str_eq(order(), "4");
	check_idle();
}
END_TEST

static const struct timespec past = {1, 0};
static const struct pk_deadline deadline = {&past, CLOCK_MONOTONIC};

/* Abortable cohort locks: a deadline passes in the cohort, and for the first of one, alone or with others behind. */
START_TEST(times_out)
{
	static const char *const runs[][2] = {{"Aa", "0"},    {"AaA", "0 2"},	 {"Ae", "0"},	  {"AeE", "0 2"},
					      {"AEe", "0 1"}, {"AEeE", "0 1 3"}, {"AaaeE", "0 4"}};
	const char *cores = runs[_i % 7][0];

	use(_i / 7 ? "a-c-bo-bo" : "a-c-bo-clh");
	ck_assert(ops->abortable);
	for (int i = 0; cores[i]; i++) {
		bool late = cores[i] & 32;

		arrive_until((char)(cores[i] & ~32), late ? &deadline : NULL);
		while (late && state_of(i) == WAITS)
			sched_yield();
		ck_assert(!late || guest[i].how == PK_TIMED_OUT);
	}
	ck_assert_str_eq(order(), runs[_i % 7][1]);
	check_idle();
}
END_TEST

/* ---- doing without, strangers ---- */

/* Others have all the bays where `queue` has its own, in that storey. */
static void fill_set(unsigned storey)
{
	static char objects[1 << 16];
	struct pk_bay *set = pk_bay_enter(storey, &queue), *bay;
	unsigned n = 0;

	pk_bay_leave(set, &queue);
	for (size_t i = 0; i < sizeof(objects) && n < PK_BAY_WAYS; i += 8) {
		bay = pk_bay_enter(storey, &objects[i]);
		if (bay && bay >= set && bay < set + PK_BAY_WAYS)
			n++;
		else if (bay)
			pk_bay_leave(bay, &objects[i]);
	}
	ck_assert_uint_eq(n, PK_BAY_WAYS);
}

/* No bay at one of the levels: who needs it has no place, and who is behind neither. */
START_TEST(full_set)
{
	int level = _i % 3;

	use(fair[_i / 3]);
	arrive_all("A");
	fill_set(pk_composed_of(ops->policy)->storey[level] + pk_cohort_around(PK_COHORT_CORE, 4, level));
	arrive_all("E");
	ck_assert_int_eq(guest[1].how, PK_ORPHANED);
	ck_assert_uint_eq(guest[1].w->busy, 0);
	ck_assert_str_eq(order(), "0");
	check_idle();
}
END_TEST

/* Another policy has the root: no place with tickets or backoff, a queue of their own with the others. */
START_TEST(another_policy)
{
	static const char *const refused[] = {"clof:mcs-tkt", "c-tkt-tkt", "c-ptl-tkt", "c-bo-mcs", "a-c-bo-clh"};
	struct pk_waiter *w;

	use(refused[_i]);
	queue.aux = pk_aux_of(&queue, PK_AUX_CST, 1);
	arrive_all("AA");
	ck_assert_int_eq(guest[0].how, PK_ORPHANED);
	ck_assert_int_eq(guest[1].how, PK_ORPHANED);
	queue.aux = 0;
	check_idle();

	count = 0;
	use("clof:tkt-mcs");
	pk_policy_select("mcs");
	w = node_at('A');
	w->policy = PK_POLICY_mcs;
	ck_assert_int_eq(pk_admit->enter(&queue, w, NULL), PK_IS_HEAD);
	arrive_all("A");
	ck_assert_int_eq(head(), 0);
	ck_assert_ptr_eq(w->next, PK_END);
	pk_admit->leave(&queue, w, NULL);
	ck_assert_str_eq(order(), "0");
	check_idle();
}
END_TEST

/* What a copied lock, or a ghost, names is nobody. */
START_TEST(strangers)
{
	struct pk_queue copy;
	struct pk_waiter *w;

	use(_i < FAIR ? fair[_i] : cohorts[_i - FAIR]);
	arrive_all("AE");
	copy = queue;
	w = node_at('B');
	ck_assert_int_eq(ops->enter(&copy, w, NULL), PK_IS_HEAD);
	ck_assert_ptr_eq(ops->root(w), &copy);
	ops->leave(&copy, w, NULL);
	ck_assert(!pk_queue_busy(&copy));
	ck_assert_str_eq(order(), "0 1");
	check_idle();
}
END_TEST

/* In a child of fork bays and contexts are free. Who forked in a handler, waiting as the first of its cohort, finds its
 * wait ended there, and its context is not another's before. */
START_TEST(fork_child)
{
	pid_t child;
	int status;

	use(_i < FAIR ? fair[_i] : cohorts[_i - FAIR]);
	arrive_all("AEE");
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct pk_waiter *w;
		unsigned held = 0;

		pk_self.record = guest[1].w->record;
		pk_storeys_fork_child();
		for (uint32_t i = 0; i < pk_contexts_known(); i++) {
			w = pk_context_nth(i);
			if (!w || !w->id)
				continue;
			if (w->busy || pk_state(w->status) != PK_ORPHAN || (w->record && w->record != pk_self.record))
				_exit(1);
			held += w->record != NULL;
		}
		if (held != 1 || users())
			_exit(2);
		pk_incarnation_next();
		w = node_at('E');
		if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
			_exit(3);
		ops->leave(&queue, w, NULL);
		_exit(pk_queue_busy(&queue) || users() ? 4 : 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	if (_i < FAIR)
		ck_assert_str_eq(order(), "0 1 2");
}
END_TEST

/* ---- all of them ---- */

enum { LOCKS = 4, COMPOSITIONS = 16 + 64 + 256, TOGETHER = 6 };

/* The n-th of all compositions of two to four locks. */
static const char *composition(unsigned n)
{
	static const char *const lock[LOCKS] = {"tkt", "mcs", "clh", "hem"};
	static char name[32];
	unsigned levels = 2;
	char *end;

	for (unsigned all = 16; n >= all; all *= LOCKS, levels++)
		n -= all;
	end = name + sprintf(name, "clof");
	for (unsigned i = 0; i < levels; i++, n /= LOCKS)
		end += sprintf(end, "%c%s", i ? '-' : ':', lock[n % LOCKS]);
	return name;
}

static struct {
	struct pk_gate gate;
	int word;
	long sections; /* guarded by it */
	long mine[8];
} lock;

static void *contend(void *number)
{
	struct pk_site at = {&lock.word, &lock.gate, 8, 0, true};

	for (int i = 0; i < 150; i++) {
		int seen = 0;

		if (i % 8 == 0 || !pk_cas_acquire(&lock.word, &seen, 1))
			pk_turn_wait(&at, NULL); /* some queue although it is free */
		lock.sections++;
		lock.mine[(uintptr_t)number]++;
		if (i % 16 == 0)
			sched_yield();
		if (pk_xchg_release(&lock.word, 0) > 1)
			pk_futex_wake(&lock.word, 1);
	}
	return NULL;
}

/* Eight threads take turns on one lock: each composition in a process of its own. What is left behind is nothing. */
static int try_composition(unsigned n)
{
	enum { THREADS = 8 };
	pthread_t thread[THREADS];
	const struct pk_composed *c;

	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	bound(3 + (int)n % 5);
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_policy_select(composition(n));
	c = pk_composed_of(pk_admit->policy);
	if (!c || c->root != (n < 16 ? 1 : n < 80 ? 2 : 3))
		return 1;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, contend, (void *)i))
			return 2;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	if (lock.sections != THREADS * 150 || lock.word || pk_queue_busy(&lock.gate.queue) || lock.gate.flags & ~PK_FLAG_SLOW)
		return 3;
	for (uint32_t i = 0; i < pk_arena_known(); i++)
		if (pk_waiters_idle(pk_record_nth(i)) != PK_RECORD_NODES)
			return 4;
	for (unsigned s = PK_SOCKETS_MAX; s < c->storey[0] + 64; s++)
		if (pk_bay_next(s, &lock.gate.queue, NULL))
			return 5;
	return busy_contexts() ? 6 : 0;
}

START_TEST(every_composition)
{
	real_time = real_places = true;
	for (unsigned n = (unsigned)_i; n < COMPOSITIONS; n += 8 * TOGETHER) {
		pid_t child[TOGETHER];

		for (unsigned i = 0; i < TOGETHER; i++) {
			child[i] = n + 8 * i < COMPOSITIONS ? fork() : 0;
			if (child[i] == 0 && n + 8 * i < COMPOSITIONS) {
				alarm(30);
				_exit(try_composition(n + 8 * i));
			}
		}
		for (unsigned i = 0; i < TOGETHER; i++) {
			int status = 0;

			if (child[i])
				ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
			if (status)
				ck_abort_msg("%s: status %x", composition(n + 8 * i), (unsigned)status);
		}
	}
}
END_TEST

/* ---- where the lock goes ---- */

enum { ENOUGH = 3000 };

static unsigned handovers[4]; /* to one of the same core, cache group, node, and beyond */
static unsigned all;	      /* of them; at ENOUGH the threads stop */
static unsigned last_core = CORES;

static void *stay(void *number)
{
	static const enum pk_cohort kinds[] = {PK_COHORT_CORE, PK_COHORT_CACHE, PK_COHORT_NODE};
	struct pk_record *r = pk_record_take();

	core_of[r->index] = (unsigned)(uintptr_t)number % CORES;
	while (!pk_load_relaxed(&stop)) {
		struct pk_waiter *w = pk_waiter_take(r);
		unsigned core = core_of[r->index], near = 0;

		if (!w) {
			usleep(100);
			continue;
		}
		w->policy = ops->policy;
		w->manner = PK_STAYS;
		w->queue = NULL;
		if (ops->enter(&queue, w, NULL) != PK_IS_HEAD)
			continue;
		if (last_core < CORES) {
			while (near < 3 && pk_cohort_around(PK_COHORT_CORE, core, kinds[near]) !=
						   pk_cohort_around(PK_COHORT_CORE, last_core, kinds[near]))
				near++;
			handovers[near]++;
			if (++all == ENOUGH)
				pk_store_relaxed(&stop, true);
		}
		last_core = core;
		usleep(50); /* the others have time to come back */
		ops->leave(&queue, w, NULL);
	}
	return NULL;
}

/* With four levels the lock goes to the same core most often, then to the same cache group, then to the same node. With
 * two it stays in the node, and there the nearer ones are not preferred. */
START_TEST(locality)
{
	enum { THREADS = 32 };
	static const char *const names[] = {"clof:mcs-mcs-mcs-mcs", "hmcs", "clof:tkt-clh-hem-mcs", "c-tkt-tkt",
					    "clof:mcs-mcs"};
	pthread_t thread[THREADS];

	use(names[_i]);
	bound(5);
	real_time = true;
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, stay, (void *)i), 0);
	for (int tenths = 0; tenths < 100 && !pk_load_relaxed(&stop); tenths++)
		usleep(100000);
	pk_store_relaxed(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%s: hand-overs within a core %.3f, a cache group %.3f, a node %.3f, beyond %.3f, of %u\n", names[_i],
	       handovers[0] * 1.0 / all, handovers[1] * 1.0 / all, handovers[2] * 1.0 / all, handovers[3] * 1.0 / all,
	       all);
	ck_assert_uint_gt(all, 300);
	if (_i < 3) {
		ck_assert_uint_gt(handovers[0], 2 * handovers[1]);
		ck_assert_uint_gt(handovers[1], 2 * handovers[2]);
		ck_assert_uint_gt(handovers[2], handovers[3]);
	} else {
		ck_assert_uint_gt(handovers[0] + handovers[1] + handovers[2], 3 * handovers[3]);
		ck_assert_uint_lt(handovers[0], all * 2 / 5); /* by chance: 3 in 15 */
	}
	ck_assert_uint_eq(users() + busy_contexts(), 0);
}
END_TEST

UNIT("levels", {nearest_first, FAIR}, {bounds, 4 * FAIR}, {own_bounds, 2}, {long_turn, FAIR}, {cohort_order, COHORTS},
     {few_levels, 4}, {names, 16}, {compositions, 1}, {high_before_low, FAIR}, {contexts_alone, FAIR},
     {gives_up, 2 * 16 * FAIR}, {given_up_as_head, 8 * (FAIR + COHORTS)}, {handler_waits, FAIR}, {times_out, 14},
     {full_set, 3 * FAIR}, {another_policy, 5}, {strangers, FAIR + COHORTS}, {fork_child, FAIR + COHORTS},
     {every_composition, 8}, {locality, 5})
