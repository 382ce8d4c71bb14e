/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Cache lines; the contract is in lines.h. */
#include "sim/lines.h"

#include <stdlib.h>
#include <string.h>

enum {
	NOBODY = -1,
	AHEAD = 100, /* cycles that a thread may run ahead of the others while it has all it needs */
	STRIDE = 32, /* the library looks at other things each so many rounds (pthread/word.c) */
	WORDS_MAX = SIM_CORES_MAX / 64,
	NEXT = 6, /* cycles that a line stays that has come to be read: other loads wait for it, too */
};

struct sim_line {
	uintptr_t key; /* address / SIM_LINE; 0: no line */
	int owner;     /* the core that may write, or NOBODY */
	unsigned home;
	uint64_t free; /* when the last who wanted it has got it */
	uint64_t lost; /* until then those who had it before its owner may read it: a store waits for them, too */
	struct sim_watch *watches;
	struct sim_thread *asking; /* those who have to wait for it, in turn */
	uint64_t holders[];	   /* cores, and those who had it before */
};

uint64_t sim_transfers[SIM_LEVELS], sim_fetches;
unsigned sim_stall;

static struct sim_line **table;
static uint64_t size, used;
static unsigned words;

void sim_lines_setup(void)
{
	size = 1 << 14;
	table = calloc(size, sizeof(*table));
	words = (sim_machine.all_cores + 63) / 64;
	if (!table)
		abort();
}

static uint64_t slot_of(uintptr_t key)
{
	uint64_t i = (key * 0x9e3779b97f4a7c15) >> 20 & (size - 1);

	while (table[i] && table[i]->key != key)
		i = (i + 1) & (size - 1);
	return i;
}

static void grow(void)
{
	struct sim_line **old = table;
	uint64_t n = size;

	size *= 2;
	table = calloc(size, sizeof(*table));
	if (!table)
		abort();
	for (uint64_t i = 0; i < n; i++)
		if (old[i])
			table[slot_of(old[i]->key)] = old[i];
	free(old);
}

static struct sim_line *line_at(uintptr_t key)
{
	uint64_t i = slot_of(key);
	struct sim_line *l = table[i];

	if (l)
		return l;
	if (++used > size / 2) {
		grow();
		i = slot_of(key);
	}
	l = calloc(1, sizeof(*l) + 2 * words * sizeof(uint64_t));
	if (!l)
		abort();
	l->key = key;
	l->owner = NOBODY;
	l->home = sim_node_of(sim_self->cpu);
	return table[i] = l;
}

static unsigned core_here(void)
{
	return sim_core_of(sim_self->cpu);
}

static bool holds(const struct sim_line *l, unsigned core)
{
	return l->holders[core / 64] >> core % 64 & 1;
}

/* Whether it has it still, or had it until a store took it that waits for its turn. */
static bool may_read(const struct sim_line *l, unsigned core)
{
	return holds(l, core) || (sim_time() < l->lost && l->holders[words + core / 64] >> core % 64 & 1);
}

/* Whether one of the cores from `first' on, so many, holds the line. */
static bool held_among(const struct sim_line *l, unsigned first, unsigned n)
{
	unsigned last = first + n - 1;

	for (unsigned w = first / 64; w <= last / 64; w++) {
		uint64_t mask = ~0ull;

		if (w == first / 64)
			mask &= ~0ull << first % 64;
		if (w == last / 64)
			mask &= ~0ull >> (63 - last % 64);
		if (l->holders[w] & mask)
			return true;
	}
	return false;
}

/* How far away the nearest core is that holds the line; SIM_LEVELS: there is none. */
static enum sim_level nearest(const struct sim_line *l, unsigned core)
{
	enum sim_level level = SIM_CACHE;

	if (l->owner != NOBODY)
		return sim_level_of(core * sim_machine.threads, (unsigned)l->owner * sim_machine.threads);
	for (; level < SIM_LEVELS; level++) {
		unsigned n = sim_machine.width[level] / sim_machine.threads;

		if (held_among(l, core / n * n, n))
			return level;
	}
	return SIM_LEVELS;
}

/* And the farthest. */
static enum sim_level farthest(const struct sim_line *l, unsigned core)
{
	enum sim_level level = SIM_SYSTEM;

	for (; level > SIM_CACHE; level--) {
		unsigned n = sim_machine.width[level - 1] / sim_machine.threads, first = core / n * n;

		if ((first && held_among(l, 0, first)) ||
		    (first + n < sim_machine.all_cores && held_among(l, first + n, sim_machine.all_cores - first - n)))
			return level;
	}
	return level;
}

static unsigned from_memory(const struct sim_line *l)
{
	sim_fetches++;
	return l->home == sim_node_of(sim_self->cpu) ? sim_machine.local : sim_machine.remote;
}

static unsigned half(enum sim_level level)
{
	return sim_machine.at[level].clean / 2;
}

/* How far a request to write has to go: to all who hold the line. */
static enum sim_level reach(const struct sim_line *l, unsigned core)
{
	enum sim_level level = nearest(l, core);

	return l->owner != NOBODY || level == SIM_LEVELS ? level : farthest(l, core);
}

/* Or a bit more or less. If all ways took as long as the last time threads would meet in step, and a few cycles more in one of them decide
 * for good who comes first. */
static uint64_t travel(unsigned cycles)
{
	unsigned most = cycles * sim_machine.vary / 100;

	return cycles - most + (most ? sim_chance() % (2 * most + 1) : 0);
}

/* A request travels for half of a transfer, and waits for those before it. Until its turn
 * whoever has the line goes on using it: so the near ones win races, and who has just let a
 * lock go may have it again before somebody far away has heard of it. Returns what has been
 * paid for. The caller takes the line at once, and has the next one served. */
static unsigned request(struct sim_line *l, enum sim_level level)
{
	struct sim_thread *t = sim_self, **last = &l->asking;
	unsigned paid = level < SIM_LEVELS ? half(level) : 0;

	sim_wait_until(sim_time() + travel(paid), false);
	if (sim_now >= l->free && !l->asking)
		return paid;
	while (*last)
		last = &(*last)->asks_next;
	*last = t;
	t->asks_next = NULL;
	t->asks = true; /* nothing stops it until it has got the line: others wait for that */
	if (l->asking != t)
		sim_suspend();
	while (sim_now < l->free)
		sim_wait_until(l->free, false);
	t->asks = false;
	l->asking = t->asks_next;
	return paid;
}

static void serve_next(struct sim_line *l)
{
	if (l->asking)
		sim_resume(l->asking, l->free > sim_now ? l->free : sim_now);
}

static unsigned less(unsigned cost, unsigned paid)
{
	return cost > paid ? cost - paid : 1;
}

/* Take the line to read it, from that time on; when it is there. */
static uint64_t get_shared(struct sim_line *l, unsigned core, uint64_t at, unsigned paid)
{
	enum sim_level level = nearest(l, core);
	unsigned cost;

	if (level == SIM_LEVELS) {
		cost = from_memory(l);
	} else {
		cost = less(l->owner != NOBODY ? sim_machine.at[level].dirty : sim_machine.at[level].clean, paid);
		sim_transfers[level]++;
	}
	/* The first reader takes it from its writer; others may be served side by side. */
	l->free = at + (l->owner != NOBODY ? cost + NEXT : cost * sim_machine.share / 100);
	l->owner = NOBODY;
	l->holders[core / 64] |= 1ull << core % 64;
	return at + cost;
}

/* The same to write it, from that time on. It stays for as long as the next request needs to
 * find it: long enough to try a compare-and-swap again. */
static uint64_t get_owned(struct sim_line *l, unsigned core, uint64_t at, unsigned paid)
{
	enum sim_level level = reach(l, core);
	unsigned cost, stays = 0;

	if (level == SIM_LEVELS) {
		cost = from_memory(l);
	} else {
		/* All others have to let it go. */
		cost = less(sim_machine.at[level].write, paid);
		stays = half(level);
		sim_transfers[level]++;
	}
	memcpy(l->holders + words, l->holders, words * sizeof(uint64_t));
	l->lost = at;
	memset(l->holders, 0, words * sizeof(uint64_t));
	l->holders[core / 64] |= 1ull << core % 64;
	l->owner = (int)core;
	l->free = at + cost + stays;
	return at + cost;
}

bool sim_unwatch(struct sim_thread *t)
{
	bool any = false;

	for (unsigned i = 0; i < SIM_WATCHES && t->watch[i].line; i++) {
		struct sim_watch *w = &t->watch[i];

		*w->link = w->next;
		if (w->next)
			w->next->link = w->link;
		w->line = NULL;
		any = true;
	}
	return any;
}

/* The line has been written. */
static void tell(struct sim_line *l, uint64_t at)
{
	for (struct sim_watch *w = l->watches; w; w = w->next)
		if (w->thread != sim_self)
			sim_hasten(w->thread, at);
}

/* The line is here: go on, a little ahead of the others. */
static void spend(unsigned cycles)
{
	sim_self->debt += cycles;
	if (sim_self->debt > AHEAD)
		sim_wait_until(sim_time(), false);
}

/* The thread may have asked for it, and then has to wait until it is there. */
static void await_fetch(const struct sim_line *l)
{
	for (unsigned i = 0; i < SIM_FETCHES; i++)
		if (sim_self->fetches[i].line == l && sim_self->fetches[i].done > sim_time())
			sim_wait_until(sim_self->fetches[i].done, false);
}

/* So many at a time: one more waits for the first of them. */
static void fetch(struct sim_line *l, unsigned core)
{
	unsigned first = 0;
	uint64_t at;

	spend(1);
	if (may_read(l, core))
		return;
	for (unsigned i = 1; i < SIM_FETCHES; i++)
		if (sim_self->fetches[i].done < sim_self->fetches[first].done)
			first = i;
	if (sim_self->fetches[first].done > sim_time())
		sim_wait_until(sim_self->fetches[first].done, false);
	at = sim_time() > l->free ? sim_time() : l->free;
	sim_self->fetches[first].line = l;
	sim_self->fetches[first].done = get_shared(l, core, at, 0);
	if (sim_self->fetched < sim_self->fetches[first].done)
		sim_self->fetched = sim_self->fetches[first].done;
}

static void load(struct sim_line *l, unsigned core)
{
	struct sim_thread *t = sim_self;
	unsigned i = 0;

	while (i < t->loads && i < SIM_WATCHES && t->seen[i] != l)
		i++;
	if (i == t->loads && i < SIM_WATCHES)
		t->seen[i] = l;
	t->loads += i == t->loads;
	if (may_read(l, core)) {
		if (t->fetched > sim_time())
			await_fetch(l);
		spend(1);
	} else {
		unsigned paid = request(l, nearest(l, core));
		uint64_t done = holds(l, core) ? sim_now + 1 : get_shared(l, core, sim_now, paid);

		serve_next(l);
		sim_wait_until(done, false);
	}
}

/* Does not wait for its turn, for nobody waits for it. */
static void store(struct sim_line *l, unsigned core)
{
	struct sim_cpu *c = &sim_cpus[sim_self->cpu];
	uint64_t at = sim_time() > c->stores ? sim_time() : c->stores;

	if (l->owner == (int)core)
		c->stores = at + 1;
	else
		c->stores = get_owned(l, core, at > l->free ? at : l->free, 0);
	tell(l, c->stores);
	spend(1);
}

static void modify(struct sim_line *l, unsigned core, unsigned held)
{
	struct sim_cpu *c = &sim_cpus[sim_self->cpu];
	uint64_t done;

	if (sim_time() < c->stores)
		sim_wait_until(c->stores, false);
	if (l->owner == (int)core) {
		done = sim_time() + sim_machine.atomic;
	} else {
		unsigned paid = request(l, reach(l, core));

		done = (l->owner == (int)core ? sim_now : get_owned(l, core, sim_now, paid)) + sim_machine.atomic;
	}
	if (held && l->free < done + held)
		l->free = done + held;
	serve_next(l);
	tell(l, done);
	sim_wait_until(done + held, false);
}

void sim_line_access(const struct hn_access *a)
{
	unsigned core = core_here();
	uintptr_t first = (uintptr_t)a->p / SIM_LINE;
	uintptr_t last = a->size ? ((uintptr_t)a->p + a->size - 1) / SIM_LINE : first;

	if (sim_stall) {
		uint64_t dice = sim_random();

		if (dice % 8 == 0) {
			sim_wait_until(sim_time() + (dice >> 32) % sim_stall, false);
			core = core_here();
		}
	}
	switch (a->kind) {
	case HN_READ:
		for (; first <= last; first++)
			load(line_at(first), core);
		break;
	case HN_WRITE:
		for (; first <= last; first++)
			store(line_at(first), core);
		break;
	case HN_LOAD:
		load(line_at(first), core);
		break;
	case HN_STORE:
		if (a->order == __ATOMIC_SEQ_CST)
			modify(line_at(first), core, 0);
		else
			store(line_at(first), core);
		break;
	case HN_FENCE: {
		struct sim_cpu *c = &sim_cpus[sim_self->cpu];

		if (a->order == __ATOMIC_SEQ_CST) {
			uint64_t at = sim_time() > c->stores ? sim_time() : c->stores;

			sim_wait_until(at + sim_machine.atomic, false);
		}
		break;
	}
	default:
		modify(line_at(first), core, 0);
	}
}

void sim_line_lock(uintptr_t address, unsigned held)
{
	modify(line_at(address / SIM_LINE), core_here(), held);
}

/* Watch what has been looked at since the last round. False: it is not all here any more. */
static bool watch_seen(struct sim_thread *t)
{
	unsigned core = core_here();

	for (unsigned i = 0; i < t->loads; i++)
		if (!holds(t->seen[i], core))
			return false;
	for (unsigned i = 0; i < t->loads; i++) {
		struct sim_watch *w = &t->watch[i];

		w->line = t->seen[i];
		w->next = w->line->watches;
		w->link = &w->line->watches;
		if (w->next)
			w->next->link = &w->next;
		w->line->watches = w;
	}
	return true;
}

unsigned sim_line_spin(unsigned budget)
{
	struct sim_thread *t = sim_self;
	unsigned cost = sim_machine.relax + t->loads;
	bool looks = t->loads && t->loads_before && t->loads <= SIM_WATCHES && watch_seen(t);
	unsigned most = looks ? (budget - 1) % STRIDE + 1 : 1, rounds = 1;
	uint64_t since = sim_time();

	t->loads_before = t->loads;
	t->loads = 0;
	if (!t->loads_before) { /* a delay */
		spend(sim_machine.relax);
		return 1;
	}
	sim_wait_until(since + (uint64_t)most * cost, true);
	if (looks) {
		sim_unwatch(t);
		rounds = (unsigned)((sim_now - since + cost - 1) / cost);
		rounds = !rounds ? 1 : rounds > most ? most : rounds;
	}
	return rounds;
}

void sim_line_fetch(uintptr_t address)
{
	fetch(line_at(address / SIM_LINE), core_here());
}
