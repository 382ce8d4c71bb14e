/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* All executions of a client, or some at random; the contract is in model.h and world.h.
 *
 * Threads are coroutines, which stop before each access to a shared atomic place. A state is
 * their stacks, the memory that they have written, and what memory.c and kernel.c know; the
 * search goes depth first, puts states back from copies, and turns round where the hash of a
 * state (64 bits) has been seen before. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/coroutine.h"
#include "model/world.h"

enum {
	STACK = 1 << 15,
	DEPTH = 20000,
	ROAM = 5000,	   /* the longest execution that is to show what is shared */
	LONGEST = 60000,   /* the longest one at random: no clock (struct mc_view) passes that */
	PATIENCE = 100000, /* accesses that concern nobody else, in a row */
	RANDOM_RUNS = 60,
	WEAKENED = 512,
	SITES = 4096,
	REACHED = 64,
	ARCS = 256,
	BLOCKS = 1 << 14,
};

const struct mc_client *mc_client;
const struct mc_options *mc_options;
int mc_current = -1;
bool mc_telling;

static uint8_t stacks[MC_THREADS][STACK] __attribute__((aligned(4096)));
static void *scheduler;
static char failure[512];
static unsigned long patience;

static struct {
	uint8_t *p;
	size_t size;
} local;

static struct step {
	uint8_t thread;
	uint16_t way;
} path[LONGEST];
static unsigned depth, longest;

/* ---- what there is to be told ---- */

void mc_fail(const char *format, ...)
{
	va_list args;

	if (!failure[0]) {
		va_start(args, format);
		vsnprintf(failure, sizeof(failure), format, args);
		va_end(args);
	}
	if (mc_current >= 0)
		mc_switch(&(void *){NULL}, scheduler);
}

void mc_tell(unsigned thread, const void *from, const char *format, ...)
{
	va_list args;

	if (!mc_telling)
		return;
	printf("  thread %u  ", thread);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	if (from)
		printf("  @%lx", (unsigned long)from - 1);
	putchar('\n');
}

int mc_thread(void)
{
	return mc_current;
}

static struct {
	const char *what;
	unsigned long times;
} reached[REACHED];

void mc_reached(const char *what)
{
	unsigned n = 0;

	while (n < REACHED - 1 && reached[n].what && strcmp(reached[n].what, what))
		n++;
	reached[n].what = what;
	reached[n].times++;
}

static struct {
	const char *of, *from, *to;
} arcs[ARCS];

void mc_arc(const char *of, const char *from, const char *to)
{
	unsigned n = 0;

	while (n < ARCS - 1 && arcs[n].of &&
	       (strcmp(arcs[n].of, of) || strcmp(arcs[n].from, from) || strcmp(arcs[n].to, to)))
		n++;
	arcs[n].of = of;
	arcs[n].from = from;
	arcs[n].to = to;
}

void mc_print_arcs(void)
{
	for (unsigned n = 0; n < ARCS && arcs[n].of; n++)
		printf("arc\t%s\t%s\t%s\n", arcs[n].of, arcs[n].from, arcs[n].to);
}

void mc_print_reached(void)
{
	for (unsigned n = 0; n < REACHED && reached[n].what; n++)
		printf("reached %s\n", reached[n].what);
}

/* Where the code has been, if it was compiled with -fsanitize-coverage=trace-pc: the compiler
 * puts a call into each basic block. */
static uintptr_t blocks[BLOCKS];

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	uintptr_t from = (uintptr_t)__builtin_return_address(0);
	unsigned n = (unsigned)(from * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BLOCKS;

	while (blocks[n] && blocks[n] != from)
		n = (n + 1) % BLOCKS;
	if (mc_client && !blocks[n])
		blocks[n] = from;
}

void mc_print_blocks(void)
{
	for (unsigned n = 0; n < BLOCKS; n++)
		if (blocks[n])
			printf("block %lx\n", (unsigned long)blocks[n]);
}

/* ---- orders ---- */

static struct {
	uintptr_t from;
	int order;
} weakened[WEAKENED];
static unsigned weakened_n;

static struct site {
	uintptr_t from;
	int kind, order;
} sites[SITES];

void mc_weaken(uintptr_t from, int order)
{
	if (weakened_n == WEAKENED) {
		fputs("model: too many accesses to weaken\n", stderr);
		exit(2);
	}
	weakened[weakened_n].from = from;
	weakened[weakened_n++].order = order;
}

/* The order of a failure that goes with that of a success, as far as it is allowed. */
static int failure_for(int failure_order, int order)
{
	if (order == __ATOMIC_RELAXED || order == __ATOMIC_RELEASE)
		return __ATOMIC_RELAXED;
	return order == __ATOMIC_SEQ_CST || failure_order != __ATOMIC_SEQ_CST ? failure_order : __ATOMIC_ACQUIRE;
}

static void weaken(struct hn_access *a)
{
	for (unsigned n = 0; n < weakened_n; n++)
		if (weakened[n].from == (uintptr_t)a->from) {
			a->order = weakened[n].order;
			a->failure = failure_for(a->failure, a->order);
		}
}

static void note_site(const struct hn_access *a)
{
	unsigned n;

	if (a->kind < HN_LOAD || a->order == __ATOMIC_RELAXED)
		return;
	n = (unsigned)((uintptr_t)a->from * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SITES;
	while (sites[n].from && sites[n].from != (uintptr_t)a->from)
		n = (n + 1) % SITES;
	sites[n] = (struct site){(uintptr_t)a->from, (int)a->kind, a->order};
}

void mc_print_sites(void)
{
	for (unsigned n = 0; n < SITES; n++)
		if (sites[n].from)
			printf("site %lx %d %d\n", (unsigned long)sites[n].from, sites[n].kind, sites[n].order);
}

/* ---- a thread runs ---- */

static struct mc_state *me(void)
{
	return &mc_world.thread[mc_current];
}

bool mc_on_stack(uintptr_t addr)
{
	return addr - (uintptr_t)stacks < sizeof(stacks);
}

static bool is_local(uintptr_t addr)
{
	return mc_on_stack(addr) || addr - (uintptr_t)local.p < local.size;
}

uint64_t mc_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9fb21c651e98df25);
	return hash ^ hash >> 32;
}

static void run(unsigned t)
{
	struct mc_state *s = &mc_world.thread[t];
	uint64_t hash = 0;

	mc_current = (int)t;
	patience = PATIENCE;
	memcpy(local.p, s->local, local.size);
	mc_switch(&scheduler, s->sp);
	memcpy(s->local, local.p, local.size);
	mc_current = -1;
	mc_memory_settle();
	for (const uint64_t *w = s->sp; s->what != MC_DONE && w < (const uint64_t *)(stacks[t] + STACK); w++)
		hash = mc_mix(hash, *w);
	s->stack_hash = hash;
}

static void begin(void)
{
	mc_client->body((unsigned)mc_current);
	mc_memory_settle();
	me()->what = MC_DONE;
	mc_switch(&me()->sp, scheduler);
}

uint64_t mc_stop(void)
{
	mc_memory_settle();
	mc_switch(&me()->sp, scheduler);
	return me()->result;
}

unsigned mc_choose(unsigned n)
{
	if (mc_current < 0)
		return 0;
	me()->what = MC_CHOICE;
	me()->call[0] = n;
	return (unsigned)mc_stop();
}

void mc_check_freed(unsigned t, const volatile void *p, const void *from)
{
	char text[64];

	for (unsigned n = 0; n < mc_world.freed_n; n++)
		if ((uintptr_t)p >= mc_world.freed[n].from && (uintptr_t)p < mc_world.freed[n].to) {
			mc_tell(t, from, "uses %s", mc_name_of(p, text));
			mc_fail("%s is used by thread %u after it has been freed", mc_name_of(p, text), t);
		}
}

/* Accesses that are not atomic, of any size, to whatever lies there. */
static void plain(const struct hn_access *a)
{
	uintptr_t at = (uintptr_t)a->p, end = at + a->size;
	bool writes = a->kind == HN_WRITE;

	if (writes)
		mc_word_note(at, a->size);
	while (at < end) {
		struct mc_place *known = mc_place_at((void *)at);
		size_t size = known ? known->size : end - at < 8 ? end - at : 8;
		struct mc_place *place = mc_place_of((void *)at, size, false, writes);

		if (place && place->checked >= 0) {
			char text[64];

			if (mc_telling)
				mc_tell((unsigned)mc_current, a->from, "%s %s", writes ? "write" : "read",
					mc_name_of((void *)at, text));
			mc_memory_check(place, false, !writes, writes);
		}
		at += size;
	}
}

/* The thread goes round without an access that is known to concern others: maybe it waits for
 * this one to, and they have not come by yet. */
static void give_up_on(const struct hn_access *a)
{
	struct mc_place *place = mc_place_at(a->p);

	if (place && !(place->written && place->by == UINT8_MAX)) {
		place->written = true;
		place->by = UINT8_MAX;
		mc_surprised = true;
	}
	mc_fail("thread %d goes on for ever", mc_current);
}

static bool finishing; /* final() runs */

uint64_t hn_access(const struct hn_access *access)
{
	struct hn_access a = *access;
	struct mc_place *place;
	bool is_plain = a.kind == HN_READ || a.kind == HN_WRITE;

	if (mc_current < 0) {
		/* What final() changes is to be as it was for the next execution. */
		if (finishing && !is_plain && a.kind != HN_LOAD && a.kind != HN_FENCE && !is_local((uintptr_t)a.p))
			mc_word_note((uintptr_t)a.p, a.size);
		return is_plain ? 0 : hn_perform(&a);
	}
	if (!--patience)
		give_up_on(&a);
	mc_memory_settle();
	if (a.kind == HN_FENCE) {
		note_site(&a);
		weaken(&a);
		if (!mc_fences)
			mc_fences = mc_surprised = true;
		me()->access = a;
		me()->what = MC_ACCESS;
		return mc_stop();
	}
	if (is_local((uintptr_t)a.p))
		return is_plain ? 0 : hn_perform(&a);
	mc_check_freed((unsigned)mc_current, a.p, a.from);
	if (is_plain) {
		plain(&a);
		return 0;
	}
	note_site(&a);
	weaken(&a);
	place = mc_place_of(a.p, a.size, true, a.kind != HN_LOAD);
	if (!place || place->shared < 0) {
		if (a.kind != HN_LOAD) /* the memory may be constant */
			mc_word_note((uintptr_t)a.p, a.size);
		return hn_perform(&a);
	}
	me()->access = a;
	me()->what = MC_ACCESS;
	return mc_stop();
}

static void overwrite_place(struct mc_place *place)
{
	struct mc_place *p = mc_place_of((void *)place->addr, place->size, false, true);

	if (p && p->checked >= 0)
		mc_memory_check(p, false, false, true);
	mc_memory_settle();
}

void mc_filled(const void *p, size_t size)
{
	mc_places_fill((uintptr_t)p, (uintptr_t)p + size);
	mc_places_in((uintptr_t)p, (uintptr_t)p + size, overwrite_place);
	mc_tell((unsigned)mc_current, NULL, "maps memory");
}

void mc_free(const void *p, size_t size)
{
	if (mc_world.freed_n == MC_FREED)
		mc_fail("too much is freed");
	mc_places_in((uintptr_t)p, (uintptr_t)p + size, overwrite_place);
	mc_world.freed[mc_world.freed_n++] = (struct mc_freed){(uintptr_t)p, (uintptr_t)p + size};
	mc_tell((unsigned)mc_current, NULL, "frees memory");
}

void mc_thread_local(void *p, size_t size)
{
	local.p = p;
	local.size = size;
	if (size > MC_LOCAL) {
		fputs("model: too much thread-local memory\n", stderr);
		exit(2);
	}
}

/* ---- states ---- */

struct copy {
	size_t fixed, threads, history, epochs, messages;
	unsigned words;
	size_t stack[MC_THREADS], size;
	uint64_t bytes[];
};

static size_t stack_used(unsigned t)
{
	if (mc_world.thread[t].what == MC_DONE)
		return 0;
	return (size_t)(stacks[t] + STACK - (uint8_t *)mc_world.thread[t].sp);
}

static struct copy *save(void)
{
	struct copy c = {offsetof(struct mc_world, thread),
			 mc_client->threads * sizeof(struct mc_state),
			 mc_shared * sizeof(struct mc_history),
			 mc_checked * sizeof(struct mc_epochs),
			 mc_world.messages * sizeof(struct mc_view),
			 mc_words,
			 {0},
			 0};
	struct copy *copy;
	uint8_t *to;

	c.messages = (c.messages + 7) & ~(size_t)7;
	c.size = c.fixed + c.threads + c.history + c.epochs + c.messages + c.words * sizeof(uint64_t);
	for (unsigned t = 0; t < mc_client->threads; t++)
		c.size += c.stack[t] = stack_used(t);
	copy = malloc(sizeof(c) + c.size);
	if (!copy) {
		fputs("model: out of memory\n", stderr);
		exit(2);
	}
	*copy = c;
	to = (uint8_t *)copy->bytes;
	mc_words_save((uint64_t *)to);
	to += c.words * sizeof(uint64_t);
	to = (uint8_t *)memcpy(to, &mc_world, c.fixed) + c.fixed;
	to = (uint8_t *)memcpy(to, mc_world.thread, c.threads) + c.threads;
	to = (uint8_t *)memcpy(to, mc_world.history, c.history) + c.history;
	to = (uint8_t *)memcpy(to, mc_world.epochs, c.epochs) + c.epochs;
	to = (uint8_t *)memcpy(to, mc_world.message, c.messages) + c.messages;
	for (unsigned t = 0; t < mc_client->threads; t++)
		to = (uint8_t *)memcpy(to, stacks[t] + STACK - c.stack[t], c.stack[t]) + c.stack[t];
	return copy;
}

static void restore(const struct copy *c)
{
	const uint8_t *from = (const uint8_t *)c->bytes;

	mc_words_restore(c->bytes, c->words);
	from += c->words * sizeof(uint64_t);
	memcpy(&mc_world, from, c->fixed);
	from += c->fixed;
	memcpy(mc_world.thread, from, c->threads);
	from += c->threads;
	memcpy(mc_world.history, from, c->history);
	from += c->history;
	memcpy(mc_world.epochs, from, c->epochs);
	from += c->epochs;
	memcpy(mc_world.message, from, c->messages);
	from += c->messages;
	for (unsigned t = 0; t < mc_client->threads; t++) {
		memcpy(stacks[t] + STACK - c->stack[t], from, c->stack[t]);
		from += c->stack[t];
	}
}

static uint64_t hash_state(void)
{
	uint64_t hash = mc_mix(mc_words_hash(), mc_memory_hash());

	for (unsigned t = 0; t < mc_client->threads; t++) {
		const struct mc_state *s = &mc_world.thread[t];

		hash = mc_mix(hash, s->what | s->arrived << 8);
		if (s->what == MC_DONE)
			continue;
		hash = mc_mix(hash, s->stack_hash);
		hash = mc_mix(hash, s->spurious | s->looks << 8);
		for (unsigned n = 0; n < local.size / 8; n++)
			hash = mc_mix(hash, ((const uint64_t *)s->local)[n]);
		if (s->what == MC_ACCESS) {
			hash = mc_mix(hash, (uintptr_t)s->access.p ^ s->access.kind);
			hash = mc_mix(hash, (uintptr_t)s->access.from);
			hash = mc_mix(hash, s->access.value);
			hash = mc_mix(hash, s->access.seen);
		} else if (s->what == MC_CALL) {
			for (unsigned n = 0; n < 7; n++)
				hash = mc_mix(hash, (uint64_t)s->call[n]);
		} else if (s->what == MC_ASLEEP) {
			hash = mc_mix(hash, (uintptr_t)s->futex);
		}
	}
	hash = mc_mix(hash, mc_world.freed_n);
	return hash ? hash : 1;
}

/* The states that have been seen, by number: how the first way to each ends, and where each
 * step has led. */
static struct slot {
	uint64_t hash;
	uint32_t number;
} * seen;
static size_t seen_size, seen_n;

static struct origin {
	uint32_t from;
	struct step step;
	bool ends; /* everything can come to an end from here */
} * origins;
static struct edge {
	uint32_t from, to;
} * edges;
static size_t origins_size, edges_n, edges_size;

static void *resized(void *p, size_t n, size_t each)
{
	p = realloc(p, n * each);
	if (!p) {
		fputs("model: out of memory\n", stderr);
		exit(2);
	}
	return p;
}

static struct slot *slot_of(uint64_t hash)
{
	size_t n = hash & (seen_size - 1);

	while (seen[n].hash && seen[n].hash != hash)
		n = (n + 1) & (seen_size - 1);
	return &seen[n];
}

static void forget(void)
{
	memset(seen, 0, seen_size * sizeof(*seen));
	seen_n = edges_n = 0;
}

static void grow(void)
{
	struct slot *old = seen;
	size_t old_size = seen_size;

	seen_size = seen_size ? 2 * seen_size : 1 << 16;
	seen = resized(NULL, seen_size, sizeof(*seen));
	memset(seen, 0, seen_size * sizeof(*seen));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].hash)
			*slot_of(old[i].hash) = old[i];
	free(old);
}

/* The present state has come from that one by that step. True if it is a new one. */
static bool insert(uint32_t from, struct step step, uint32_t *number)
{
	uint64_t hash = hash_state();
	struct slot *slot;
	bool is_new;

	if (2 * seen_n >= seen_size)
		grow();
	slot = slot_of(hash);
	is_new = !slot->hash;
	if (is_new) {
		if (seen_n == origins_size) {
			origins_size = origins_size ? 2 * origins_size : 1 << 16;
			origins = resized(origins, origins_size, sizeof(*origins));
		}
		origins[seen_n] = (struct origin){from, step, false};
		*slot = (struct slot){hash, (uint32_t)seen_n++};
	}
	if (edges_n == edges_size) {
		edges_size = edges_size ? 2 * edges_size : 1 << 16;
		edges = resized(edges, edges_size, sizeof(*edges));
	}
	*number = slot->number;
	edges[edges_n++] = (struct edge){from, *number};
	return is_new;
}

/* A state from which nothing ends any more, or -1. */
static long stuck(void)
{
	uint32_t *first = resized(NULL, seen_n + 2, sizeof(*first)),
		 *by_target = resized(NULL, edges_n, sizeof(*first));
	uint32_t *todo = resized(NULL, seen_n, sizeof(*first));
	size_t n = 0;
	long found = -1;

	memset(first, 0, (seen_n + 2) * sizeof(*first));
	for (size_t e = 0; e < edges_n; e++)
		first[edges[e].to + 2]++;
	for (size_t i = 2; i < seen_n + 2; i++)
		first[i] += first[i - 1];
	for (size_t e = 0; e < edges_n; e++)
		by_target[first[edges[e].to + 1]++] = edges[e].from;
	for (uint32_t i = 0; i < seen_n; i++)
		if (origins[i].ends)
			todo[n++] = i;
	while (n) {
		uint32_t to = todo[--n];

		for (uint32_t e = first[to]; e < first[to + 1]; e++)
			if (!origins[by_target[e]].ends) {
				origins[by_target[e]].ends = true;
				todo[n++] = by_target[e];
			}
	}
	for (uint32_t i = 0; i < seen_n && found < 0; i++)
		if (!origins[i].ends)
			found = i;
	free(first);
	free(by_target);
	free(todo);
	return found;
}

/* The way to a state. */
static void trace_back(uint32_t number)
{
	unsigned n = 0;

	for (uint32_t i = number; i && n < DEPTH; i = origins[i].from)
		n++;
	depth = n;
	for (uint32_t i = number; i && n; i = origins[i].from)
		path[--n] = origins[i].step;
}

/* ---- steps ---- */

static bool is_arrival(const struct mc_state *s)
{
	return s->what == MC_ACCESS && s->access.kind > HN_STORE && s->access.kind != HN_FENCE;
}

/* Threads that are alike arrive in order: the other executions are these with other names. */
static bool is_early(unsigned t)
{
	const struct mc_state *s = &mc_world.thread[t];

	return mc_client->after[t] && is_arrival(s) && !s->arrived && !mc_world.thread[mc_client->after[t] - 1].arrived;
}

unsigned mc_ways(unsigned t)
{
	const struct mc_state *s = &mc_world.thread[t];

	switch (s->what) {
	case MC_ACCESS:
		return is_early(t) ? 0 : mc_memory_ways(t);
	case MC_CALL:
	case MC_ASLEEP:
		return mc_kernel_ways(t);
	case MC_CHOICE:
		return (unsigned)s->call[0];
	default:
		return 0;
	}
}

static void go(unsigned t, unsigned way)
{
	struct mc_state *s = &mc_world.thread[t];
	bool goes_on = true;

	if (s->what == MC_ACCESS) {
		if (s->access.kind != HN_FENCE) /* it was not yet when the thread stopped */
			mc_check_freed(t, s->access.p, s->access.from);
		if (failure[0])
			return;
		s->arrived |= is_arrival(s);
		s->result = mc_memory_go(t, way);
	} else if (s->what == MC_CHOICE) {
		s->result = way;
		mc_tell(t, NULL, "chooses %u", way);
	} else {
		goes_on = mc_kernel_go(t, way);
	}
	if (goes_on && !failure[0])
		run(t);
	for (unsigned u = 0; u < mc_client->threads && !failure[0]; u++)
		if (mc_world.thread[u].what == MC_AWAKE)
			run(u);
	mc_memory_trim();
}

static void start(void)
{
	mc_words_restore(NULL, 0);
	mc_memory_begin();
	for (unsigned t = 0; t < mc_client->threads; t++)
		mc_world.thread[t].sp = mc_stack(stacks[t] + STACK, begin);
	for (unsigned t = 0; t < mc_client->threads && !failure[0]; t++) {
		memset(mc_world.thread[t].local, 0, MC_LOCAL);
		run(t);
	}
	for (unsigned t = 1; mc_options->asleep && t < mc_client->threads; t++)
		while (!failure[0] && mc_world.thread[t].what != MC_ASLEEP && mc_ways(t))
			go(t, mc_ways(t) - 1); /* the newest of all values */
	depth = 0;
}

/* Nothing can happen any more. */
static void finish(struct mc_result *result)
{
	bool all = true;

	if (failure[0])
		return;
	for (unsigned t = 0; t < mc_client->threads; t++)
		all &= mc_world.thread[t].what == MC_DONE;
	result->ends++;
	if (!all) {
		mc_fail("a lost wake-up: all threads that have not ended sleep");
	} else if (mc_client->final) {
		finishing = true;
		mc_client->final();
		finishing = false;
	}
}

static bool asleep_for_good(void)
{
	bool any = false;

	for (unsigned t = 0; t < mc_client->threads; t++) {
		const struct mc_state *s = &mc_world.thread[t];

		if (s->what != MC_DONE && !mc_kernel_for_good(t))
			return false;
		any |= s->what != MC_DONE;
	}
	return any;
}

static void stepped(struct mc_result *result, unsigned t, unsigned way)
{
	result->steps++;
	if (depth == longest)
		mc_fail("an execution without end");
	else
		path[depth++] = (struct step){(uint8_t)t, (uint16_t)way};
	if (depth > result->depth)
		result->depth = depth;
	/* A sleep that may end for no reason is no excuse. */
	if (!failure[0] && asleep_for_good())
		mc_fail("a lost wake-up: all threads that have not ended sleep");
}

/* A few executions at random, to see what is shared, and to find plain errors soon. One that has met a surprise ends there: views
 * without a place of it are old ones, and code may not survive what they show. (A survey goes on, to see more.) */
static bool roam(struct mc_result *result)
{
	static uint64_t dice = 88172645463325252;

	start();
	while (!failure[0] && (!mc_surprised || mc_options->survey) && depth < ROAM) { /* one that is longer just goes round for a while */
		unsigned n = 0, pick;

		for (unsigned t = 0; t < mc_client->threads; t++)
			n += mc_ways(t);
		if (!n)
			break;
		dice ^= dice << 13;
		dice ^= dice >> 7;
		dice ^= dice << 17;
		pick = (unsigned)(dice % n);
		for (unsigned t = 0; t < mc_client->threads; t++) {
			unsigned here = mc_ways(t);

			if (pick < here) {
				go(t, pick);
				stepped(result, t, pick);
				break;
			}
			pick -= here;
		}
	}
	if (depth < ROAM && !mc_surprised)
		finish(result);
	if (mc_surprised)
		failure[0] = 0;
	return !failure[0];
}

/* One execution, by the dice. */
static void play(struct mc_result *result)
{
	unsigned t, way;

	start();
	while (!failure[0] && !mc_surprised && mc_dice_cast(&t, &way) && !failure[0]) {
		go(t, way);
		stepped(result, t, way);
	}
	if (!mc_surprised)
		finish(result);
}

/* An execution that has met a surprise did not reckon with it: it is played again, by the same seed. */
static void play_all(struct mc_result *result)
{
	unsigned length = 0;

	memset(result, 0, sizeof(*result));
	while (result->states < mc_options->random && !failure[0]) {
		unsigned long steps = result->steps;

		mc_dice_begin(mc_options->seed + result->states, length);
		play(result);
		if (mc_surprised) {
			failure[0] = 0;
			result->steps = steps;
			mc_places_begin();
			continue;
		}
		result->states++;
		length = (unsigned)(result->steps / result->states);
	}
}

struct frame {
	struct copy *copy;
	uint32_t number;
	unsigned thread, way;
};

static void search(struct mc_result *result)
{
	static struct frame stack[DEPTH];
	unsigned n = 0;
	uint32_t number;
	bool there = true; /* the topmost state is the present one */

	start();
	insert(0, (struct step){0, 0}, &number);
	stack[n++] = (struct frame){save(), number, 0, 0};
	while (n && !mc_surprised && !failure[0] && result->states < mc_options->states) {
		struct frame *f = &stack[n - 1];
		bool any = f->thread || f->way;
		struct step step;

		if (!there)
			restore(f->copy);
		there = false;
		depth = n - 1;
		while (f->thread < mc_client->threads && f->way >= mc_ways(f->thread)) {
			f->thread++;
			f->way = 0;
		}
		if (f->thread == mc_client->threads) {
			if (!any) { /* nothing at all could be done here */
				origins[f->number].ends = true;
				finish(result);
			}
			free(f->copy);
			n--;
			continue;
		}
		step = (struct step){(uint8_t)f->thread, (uint16_t)f->way};
		go(f->thread, f->way);
		stepped(result, f->thread, f->way++);
		if (!failure[0] && insert(f->number, step, &number)) {
			result->states++;
			stack[n++] = (struct frame){save(), number, 0, 0};
			there = true;
		}
	}
	if (n && !failure[0] && !mc_surprised)
		mc_fail("gave up after %lu states", result->states);
	if (!failure[0] && !mc_surprised && stuck() >= 0) {
		trace_back((uint32_t)stuck());
		mc_fail("from here on threads go round for ever: nothing that can happen ends it");
	}
	while (n)
		free(stack[--n].copy);
}

static void tell(void)
{
	static struct step steps[LONGEST];
	struct mc_result ignored = {0};
	unsigned n = depth;
	char why[sizeof(failure)];

	memcpy(why, failure, sizeof(why));
	memcpy(steps, path, sizeof(path));
	failure[0] = 0;
	mc_telling = true;
	start();
	for (unsigned i = 0; i < n && !failure[0]; i++) {
		go(steps[i].thread, steps[i].way);
		stepped(&ignored, steps[i].thread, steps[i].way);
	}
	mc_telling = false;
	memcpy(failure, why, sizeof(why));
	printf("  %s\n", failure);
}

void mc_explore(const struct mc_client *client, const struct mc_options *options, struct mc_result *result)
{
	static struct mc_options now;

	now = *options;
	mc_options = &now;
	mc_client = client;
	longest = now.random ? LONGEST : DEPTH;
	client->setup();
	if (now.random && !now.survey) {
		mc_places_begin();
		play_all(result);
	}
	while (!now.random || now.survey) {
		memset(result, 0, sizeof(*result));
		mc_places_begin();
		for (unsigned n = 0; n < RANDOM_RUNS && roam(result); n++)
			;
		if (!failure[0] && !mc_surprised && !now.survey) {
			forget();
			memset(result, 0, sizeof(*result));
			result->states = 1;
			search(result);
		}
		if (failure[0] && !mc_surprised)
			break;
		failure[0] = 0;
		if (!mc_surprised)
			break;
	}
	result->shared = mc_shared;
	result->failure = failure[0] ? failure : NULL;
	if (failure[0] && strncmp(failure, "gave up", 7))
		tell();
}
