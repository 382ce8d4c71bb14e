/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The memory of C11, as an operational model; the contract is in world.h.
 *
 * Source: Lahav, Vafeiadis, Kang, Hur and Dreyer, Repairing Sequential Consistency in C/C++11,
 *	PLDI 2017 (RC11); release sequences as C++20 has them, without the later stores of the
 *	same thread.
 *
 * A load returns any store that is not older than the thread's view of the place, and moves
 * the view there. A store goes anywhere behind the view, not always to the end: two threads'
 * stores may be ordered otherwise than they are made here. A read-modify-write stands right
 * behind what it has read, for good. A release store carries the thread's view, an acquire
 * load joins it. Executions are made in an order that has program order and reads-from in it,
 * which RC11 allows; so load buffering, which it forbids, does not occur.
 *
 * Sequential consistency: the order in which the accesses are made is the order S. A seq_cst
 * load returns nothing older than what seq_cst stores before it have written, or what fences
 * before it have seen; a fence joins all of that, and adds what its thread has seen.
 *
 * Races: two accesses of different threads, one of them a write and one of them plain, neither
 * of which is known to have happened before the other. */
#include "model/world.h"

#include <stdio.h>
#include <string.h>

struct mc_world mc_world;

/* In an execution at random threads stand still, and no store would be forgotten: so many are kept. */
enum { KEPT = 4 };

/* Plain stores that the code is about to make: places of which the history is to be told. */
static int unsettled[64];
static unsigned unsettled_n;

static struct mc_state *me(unsigned thread)
{
	return &mc_world.thread[thread];
}

static bool acquires(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
	       order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void join(struct mc_view *to, const struct mc_view *from)
{
	for (unsigned v = 0; v < mc_shared; v++)
		to->at[v] = to->at[v] > from->at[v] ? to->at[v] : from->at[v];
	for (unsigned u = 0; u < mc_client->threads; u++)
		to->clock[u] = to->clock[u] > from->clock[u] ? to->clock[u] : from->clock[u];
}

static uint64_t load_raw(const volatile void *p, size_t size)
{
	return hn_perform(&(struct hn_access){.kind = HN_LOAD, .size = size, .p = (volatile void *)p});
}

static void store_raw(volatile void *p, size_t size, uint64_t value)
{
	mc_word_note((uintptr_t)p, size);
	hn_perform(&(struct hn_access){.kind = HN_STORE, .size = size, .p = p, .value = value});
}

void mc_memory_begin(void)
{
	memset(&mc_world, 0, sizeof(mc_world));
	unsettled_n = 0;
	for (unsigned v = 0; v < mc_shared; v++) {
		struct mc_place *p = mc_shared_place(v);

		mc_world.history[v].n = 1;
		mc_world.history[v].store[0].value = load_raw((void *)p->addr, p->size);
	}
	for (unsigned t = 0; t < mc_client->threads; t++) {
		struct mc_state *s = me(t);

		s->spurious = (uint8_t)mc_options->spurious;
		s->looks = (uint8_t)mc_options->looks;
		/* An epoch of 0 is none. */
		s->now.clock[t] = 1;
		s->acquired = s->now;
	}
}

/* ---- messages ---- */

static uint16_t message_of(const struct mc_view *view)
{
	unsigned m = 0;

	while (m < MC_MESSAGES && mc_world.message_used[m])
		m++;
	if (m == MC_MESSAGES) {
		mc_fail("too many messages");
		return 0;
	}
	mc_world.message_used[m] = 1;
	if (m >= mc_world.messages)
		mc_world.messages = m + 1;
	mc_world.message[m] = *view;
	return (uint16_t)(m + 1);
}

static struct mc_view *message(const struct mc_store *store)
{
	return store->message ? &mc_world.message[store->message - 1] : NULL;
}

/* ---- views when a store is put in, or the oldest ones are forgotten ---- */

static void each_view(void (*change)(struct mc_view *view, unsigned v, unsigned by), unsigned v, unsigned by)
{
	for (unsigned t = 0; t < mc_client->threads; t++) {
		change(&me(t)->now, v, by);
		if (mc_fences) {
			change(&me(t)->acquired, v, by);
			change(&me(t)->released, v, by);
		}
	}
	change(&mc_world.sc, v, by);
	for (unsigned m = 0; m < mc_world.messages; m++)
		if (mc_world.message_used[m])
			change(&mc_world.message[m], v, by);
}

static void push_up(struct mc_view *view, unsigned v, unsigned from)
{
	view->at[v] += view->at[v] >= from;
}

static void pull_down(struct mc_view *view, unsigned v, unsigned by)
{
	view->at[v] = view->at[v] > by ? (uint8_t)(view->at[v] - by) : 0;
}

static struct mc_store *put(unsigned v, unsigned at)
{
	struct mc_history *h = &mc_world.history[v];

	if (h->n == MC_HISTORY) {
		mc_fail("too many stores to one place");
		h->n--;
		at = at < h->n ? at : h->n;
	}
	memmove(&h->store[at + 1], &h->store[at], (h->n - at) * sizeof(h->store[0]));
	h->n++;
	each_view(push_up, v, at);
	return &h->store[at];
}

void mc_memory_trim(void)
{
	for (unsigned v = 0; v < mc_shared; v++) {
		struct mc_history *h = &mc_world.history[v];
		unsigned oldest = h->n - 1;

		for (unsigned t = 0; t < mc_client->threads && !mc_options->sc; t++)
			if (me(t)->what != MC_DONE && me(t)->now.at[v] < oldest)
				oldest = me(t)->now.at[v];
		if (mc_options->random && h->n > KEPT && oldest < h->n - KEPT)
			oldest = h->n - KEPT;
		if (!oldest)
			continue;
		h->n -= oldest;
		memmove(h->store, h->store + oldest, h->n * sizeof(h->store[0]));
		h->store[0].rmw = false;
		each_view(pull_down, v, oldest);
	}
	memset(mc_world.message_used, 0, mc_world.messages);
	for (unsigned v = 0; v < mc_shared; v++)
		for (unsigned i = 0; i < mc_world.history[v].n; i++) {
			unsigned m = mc_world.history[v].store[i].message;

			if (m)
				mc_world.message_used[m - 1] = 1;
		}
	while (mc_world.messages && !mc_world.message_used[mc_world.messages - 1])
		mc_world.messages--;
}

/* ---- races ---- */

static void check(unsigned t, const uint16_t epochs[MC_THREADS], struct mc_place *place, const char *what)
{
	char text[64];

	for (unsigned u = 0; u < mc_client->threads; u++)
		if (u != t && epochs[u] > me(t)->now.clock[u])
			mc_fail("data race: %s %s by thread %u, which thread %u does not know to be over", what,
				mc_name_of((void *)place->addr, text), u, t);
}

static void check_place(unsigned t, struct mc_place *place, bool atomic, bool reads, bool writes)
{
	struct mc_epochs *e;
	uint16_t now = me(t)->now.clock[t];

	if (!place || place->checked < 0)
		return;
	e = &mc_world.epochs[place->checked];
	check(t, e->write, place, "a plain write of");
	if (writes)
		check(t, e->read, place, "a plain read of");
	if (!atomic) {
		check(t, e->store, place, "an atomic write of");
		if (writes)
			check(t, e->load, place, "an atomic read of");
	}
	if (reads)
		(atomic ? e->load : e->read)[t] = now;
	if (writes)
		(atomic ? e->store : e->write)[t] = now;
}

void mc_memory_check(struct mc_place *place, bool atomic, bool reads, bool writes)
{
	check_place((unsigned)mc_current, place, atomic, reads, writes);
	if (!place || place->shared < 0 || atomic || !writes)
		return;
	/* Everything before has happened before, or this is a race. */
	mc_world.history[place->shared].n = 1;
	mc_world.history[place->shared].store[0] = (struct mc_store){0};
	each_view(pull_down, (unsigned)place->shared, MC_HISTORY);
	if (unsettled_n < sizeof(unsettled) / sizeof(unsettled[0]))
		unsettled[unsettled_n++] = place->shared;
	else
		mc_fail("too many plain stores in a row");
}

void mc_memory_settle(void)
{
	while (unsettled_n) {
		int v = unsettled[--unsettled_n];
		struct mc_place *p = mc_shared_place((unsigned)v);

		mc_world.history[v].store[0].value = load_raw((void *)p->addr, p->size);
	}
}

/* ---- accesses ---- */

/* The oldest store that the thread may read with that order. */
static unsigned oldest_for(unsigned t, unsigned v, int order)
{
	unsigned oldest = me(t)->now.at[v];

	if (mc_options->sc)
		return mc_world.history[v].n - 1;
	if (order == __ATOMIC_SEQ_CST && mc_world.sc.at[v] > oldest)
		oldest = mc_world.sc.at[v];
	return oldest;
}

/* Whether another store may come right behind that one. */
static bool is_open(unsigned v, unsigned i)
{
	const struct mc_history *h = &mc_world.history[v];

	return i == h->n - 1 || (!mc_options->append && !mc_options->sc && !h->store[i + 1].rmw);
}

static bool reads_only(const struct hn_access *a)
{
	return a->kind == HN_LOAD;
}

static bool writes_only(const struct hn_access *a)
{
	return a->kind == HN_STORE;
}

static uint64_t masked(const struct hn_access *a, uint64_t value)
{
	return a->size == 8 ? value : value & ((UINT64_C(1) << 8 * a->size) - 1);
}

static uint64_t modified(const struct hn_access *a, uint64_t was)
{
	switch (a->kind) {
	case HN_ADD:
		return masked(a, was + a->value);
	case HN_SUB:
		return masked(a, was - a->value);
	case HN_AND:
		return was & a->value;
	case HN_OR:
		return was | a->value;
	case HN_XOR:
		return was ^ a->value;
	default:
		return masked(a, a->value);
	}
}

/* Whether store i is one of the ways in which the access can go: read, or, for a store, put
 * behind. */
static bool may_take(unsigned t, unsigned v, const struct hn_access *a, unsigned i)
{
	bool fails = a->kind == HN_CAS && mc_world.history[v].store[i].value != masked(a, a->seen);

	if (i < oldest_for(t, v, fails ? a->failure : a->order))
		return false;
	return reads_only(a) || fails || is_open(v, i);
}

static unsigned shared_of(const struct hn_access *a)
{
	return (unsigned)mc_place_at(a->p)->shared;
}

unsigned mc_memory_ways(unsigned t)
{
	const struct hn_access *a = &me(t)->access;
	unsigned v, ways = 0;

	if (a->kind == HN_FENCE)
		return 1;
	v = shared_of(a);
	for (unsigned i = 0; i < mc_world.history[v].n; i++)
		ways += may_take(t, v, a, i);
	return ways;
}

static void read_from(unsigned t, unsigned v, unsigned i, int order)
{
	const struct mc_view *with = message(&mc_world.history[v].store[i]);
	struct mc_state *s = me(t);

	if (s->now.at[v] < i)
		s->now.at[v] = (uint8_t)i;
	if (with && acquires(order))
		join(&s->now, with);
	if (mc_fences) {
		if (with)
			join(&s->acquired, with);
		join(&s->acquired, &s->now);
	}
}

/* What a store at that position carries. `read`: the message of what it has read. */
static uint16_t carry(unsigned t, unsigned v, unsigned at, int order, uint16_t read)
{
	struct mc_state *s = me(t);
	struct mc_view view;

	if (!releases(order) && !mc_fences)
		return read;
	view = releases(order) ? s->now : s->released;
	view.at[v] = (uint8_t)at;
	if (read)
		join(&view, &mc_world.message[read - 1]);
	if (releases(order))
		s->now.clock[t]++;
	return message_of(&view);
}

static void write_behind(unsigned t, unsigned v, unsigned i, uint64_t value, int order, bool rmw)
{
	struct mc_place *p = mc_shared_place(v);
	uint64_t was = mc_world.history[v].store[i].value;
	uint16_t read = rmw ? mc_world.history[v].store[i].message : 0;
	struct mc_store *store = put(v, i + 1);
	struct mc_state *s = me(t);

	if (p->changes && was != value)
		p->changes(was, value);
	store->value = value;
	store->rmw = rmw;
	store->message = 0; /* there is none while one is made */
	s->now.at[v] = (uint8_t)(i + 1);
	store->message = carry(t, v, i + 1, order, read);
	if (mc_fences)
		join(&s->acquired, &s->now);
	if (order == __ATOMIC_SEQ_CST)
		mc_world.sc.at[v] = (uint8_t)(i + 1);
	if (i + 2 == mc_world.history[v].n)
		store_raw((void *)p->addr, p->size, value);
}

static void fence(unsigned t, int order)
{
	struct mc_state *s = me(t);

	if (acquires(order))
		join(&s->now, &s->acquired);
	if (order == __ATOMIC_SEQ_CST)
		mc_memory_fence(t);
	if (releases(order)) {
		s->released = s->now;
		s->now.clock[t]++;
	}
	join(&s->acquired, &s->now);
}

/* What others' fences have seen, and they what this thread has. */
void mc_memory_fence(unsigned t)
{
	struct mc_state *s = me(t);

	for (unsigned v = 0; v < mc_shared; v++) {
		if (s->now.at[v] < mc_world.sc.at[v])
			s->now.at[v] = mc_world.sc.at[v];
		mc_world.sc.at[v] = s->now.at[v];
	}
	if (mc_fences)
		join(&s->acquired, &s->now);
}

static const char *const kinds[HN_KINDS] = {"read", "write", "load", "store", "xchg", "add",
					    "sub",  "and",   "or",   "xor",   "cas",  "fence"};
static const char *const orders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};

uint64_t mc_memory_go(unsigned t, unsigned way)
{
	struct hn_access a = me(t)->access;
	struct mc_store seen;
	unsigned v, i = 0;
	bool fails;
	char text[64], stale[48] = "";

	if (a.kind == HN_FENCE) {
		mc_tell(t, a.from, "fence %s", orders[a.order]);
		fence(t, a.order);
		return 0;
	}
	v = shared_of(&a);
	while (!may_take(t, v, &a, i) || way--)
		i++;
	seen = mc_world.history[v].store[i];
	fails = a.kind == HN_CAS && seen.value != masked(&a, a.seen);
	check_place(t, mc_place_at(a.p), true, !writes_only(&a), !reads_only(&a) && !fails);
	if (mc_telling && i != mc_world.history[v].n - 1)
		snprintf(stale, sizeof(stale), writes_only(&a) ? " (before %lx)" : " (though %lx has been written)",
			 (long)mc_world.history[v].store[mc_world.history[v].n - 1].value);
	if (mc_telling)
		mc_name_of(a.p, text);
	if (reads_only(&a) || fails)
		mc_tell(t, a.from, "%s %s %s: %lx%s", fails ? "failing cas" : "load",
			orders[fails ? a.failure : a.order], text, (long)seen.value, stale);
	else if (writes_only(&a))
		mc_tell(t, a.from, "store %s %s = %lx%s", orders[a.order], text, (long)a.value, stale);
	else
		mc_tell(t, a.from, "%s %s %s: %lx -> %lx%s", kinds[a.kind], orders[a.order], text, (long)seen.value,
			(long)modified(&a, seen.value), stale);
	if (!writes_only(&a))
		read_from(t, v, i, fails ? a.failure : a.order);
	if (!reads_only(&a) && !fails)
		write_behind(t, v, i, modified(&a, seen.value), a.order, !writes_only(&a));
	return seen.value;
}

/* ---- for the kernel ---- */

/* The word may be half of a place. */
static struct mc_place *place_with(const void *word)
{
	struct mc_place *place = mc_place_at(word);

	if (!place || place->shared < 0)
		place = mc_place_at((const void *)((uintptr_t)word & ~(uintptr_t)7));
	return place && place->shared >= 0 && place->addr + place->size >= (uintptr_t)word + 4 ? place : NULL;
}

unsigned mc_memory_futex_ways(unsigned t, const void *word)
{
	struct mc_place *place = place_with(word);
	unsigned v;

	if (!place)
		return 1;
	v = (unsigned)place->shared;
	return mc_world.history[v].n - oldest_for(t, v, __ATOMIC_SEQ_CST);
}

uint32_t mc_memory_futex_load(unsigned t, const void *word, unsigned way)
{
	struct mc_place *place = place_with(word);
	unsigned v, i;

	if (!place) { /* of no concern to others so far */
		uint32_t value;

		memcpy(&value, word, sizeof(value));
		return value;
	}
	v = (unsigned)place->shared;
	i = oldest_for(t, v, __ATOMIC_SEQ_CST) + way;
	mc_memory_fence(t);
	if (me(t)->now.at[v] < i)
		me(t)->now.at[v] = (uint8_t)i;
	return (uint32_t)(mc_world.history[v].store[i].value >> 8 * ((uintptr_t)word - place->addr));
}

/* ---- the hash ---- */

/* Clocks mean nothing but whether what a thread knows of another one includes a certain
 * access. So they are numbered anew: epochs that nobody tells apart get the same number. */
static uint16_t number[MC_THREADS][1024];

static void renumber(unsigned u)
{
	static uint8_t is_epoch[1024], is_known[1024];
	unsigned top = me(u)->now.clock[u], lowest = top, group = 0;
	bool known = true;

	if (top >= 1024) {
		mc_fail("an execution without end");
		return;
	}
	memset(is_epoch, 0, top + 1);
	memset(is_known, 0, top + 1);
	for (unsigned n = 0; n < mc_checked; n++) {
		const struct mc_epochs *e = &mc_world.epochs[n];

		is_epoch[e->read[u]] = is_epoch[e->write[u]] = is_epoch[e->load[u]] = is_epoch[e->store[u]] = 1;
	}
	for (unsigned t = 0; t < mc_client->threads; t++) {
		if (me(t)->what == MC_DONE)
			continue;
		is_known[me(t)->now.clock[u]] = 1;
		if (mc_fences)
			is_known[me(t)->acquired.clock[u]] = is_known[me(t)->released.clock[u]] = 1;
		if (t != u && me(t)->now.clock[u] < lowest)
			lowest = me(t)->now.clock[u];
	}
	for (unsigned m = 0; m < mc_world.messages; m++)
		if (mc_world.message_used[m])
			is_known[mc_world.message[m].clock[u]] = 1;
	for (unsigned k = 0; k <= top; k++) {
		if (is_epoch[k] && k > lowest && known) {
			group++;
			known = false;
		}
		number[u][k] = (uint16_t)group;
		known |= is_known[k];
	}
}

static uint64_t hash_view(uint64_t hash, const struct mc_view *view)
{
	uint64_t eight;

	/* Behind those in use they are 0. */
	for (unsigned v = 0; v < mc_shared; v += sizeof(eight)) {
		memcpy(&eight, &view->at[v], sizeof(eight));
		hash = mc_mix(hash, eight);
	}
	for (unsigned u = 0; u < mc_client->threads; u++)
		hash = mc_mix(hash, number[u][view->clock[u]]);
	return hash;
}

uint64_t mc_memory_hash(void)
{
	uint64_t hash = 0;

	for (unsigned u = 0; u < mc_client->threads; u++)
		renumber(u);
	for (unsigned t = 0; t < mc_client->threads; t++) {
		if (me(t)->what == MC_DONE)
			continue;
		hash = hash_view(mc_mix(hash, t), &me(t)->now);
		if (mc_fences)
			hash = hash_view(hash_view(hash, &me(t)->acquired), &me(t)->released);
	}
	hash = hash_view(hash, &mc_world.sc);
	for (unsigned v = 0; v < mc_shared; v++)
		for (unsigned i = 0; i < mc_world.history[v].n; i++) {
			const struct mc_store *s = &mc_world.history[v].store[i];

			hash = mc_mix(hash, s->value);
			hash = mc_mix(hash, v << 1 | s->rmw);
			if (s->message)
				hash = hash_view(hash, message(s));
		}
	for (unsigned n = 0; n < mc_checked; n++)
		for (unsigned u = 0; u < mc_client->threads; u++) {
			const struct mc_epochs *e = &mc_world.epochs[n];

			hash = mc_mix(hash, number[u][e->read[u]] | (uint64_t)number[u][e->write[u]] << 16 |
						    (uint64_t)number[u][e->load[u]] << 32 |
						    (uint64_t)number[u][e->store[u]] << 48);
		}
	return hash;
}
