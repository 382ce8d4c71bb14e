/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Which memory the threads of a client share; the contract is in world.h.
 *
 * Only accesses to memory that several threads use, and some of them write, can matter to
 * others. Which memory that is, is learnt: an exploration treats as private, or as constant,
 * what no execution seen so far has shown to be shared; when one shows it, the exploration
 * starts again and knows. The last one has met no surprise, so what it left out was really
 * private or constant in all executions. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/world.h"

enum { PLACES = 1 << 14, WORDS = 1 << 14, NAMES = 256, RANGES = 16, WATCHED = 128 };

static struct mc_place places[PLACES];
static unsigned place_n;
static struct mc_place *shared_place[MC_SHARED];
unsigned mc_shared, mc_checked;
bool mc_surprised, mc_fences;

static struct {
	uintptr_t addr;
	uint64_t initial;
	bool ignored;
} words[WORDS];
unsigned mc_words;
static unsigned word_slot[2 * WORDS]; /* 1 + index */

static struct range {
	uintptr_t from, to;
} ignored[RANGES];
static unsigned ignored_n;

static struct {
	struct range where;
	char text[40];
} names[NAMES];
static unsigned names_n;

static struct {
	uintptr_t addr;
	mc_changes *changes;
} watched[WATCHED];
static unsigned watched_n;

/* What threads have filled, ever. */
static struct {
	struct range where;
	uint8_t by;
} filled[RANGES];
static unsigned filled_n;

static unsigned hash_of(uintptr_t addr)
{
	return (unsigned)((uint64_t)addr * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static struct mc_place *slot_of(uintptr_t addr)
{
	unsigned n = hash_of(addr) % PLACES;

	while (places[n].addr && places[n].addr != addr)
		n = (n + 1) % PLACES;
	return &places[n];
}

struct mc_place *mc_place_at(const volatile void *p)
{
	struct mc_place *place = slot_of((uintptr_t)p);

	return place->addr ? place : NULL;
}

static bool is_shared(const struct mc_place *p)
{
	return p->written && p->by & (p->by - 1);
}

struct mc_place *mc_place_of(const volatile void *p, size_t size, bool atomic, bool writes)
{
	struct mc_place *place = slot_of((uintptr_t)p);
	struct mc_place was = *place;

	if (!place->addr) {
		if (++place_n > PLACES / 2)
			mc_fail("too many places");
		place->addr = (uintptr_t)p;
		place->size = (uint8_t)size;
		place->shared = place->checked = -1;
		for (unsigned n = 0; n < watched_n; n++)
			if (watched[n].addr == place->addr)
				place->changes = watched[n].changes;
		for (unsigned n = 0; n < filled_n; n++)
			if (place->addr >= filled[n].where.from && place->addr < filled[n].where.to) {
				place->by |= filled[n].by;
				place->written = place->plain = true;
			}
	}
	if (atomic && place->size != size) {
		char text[64];

		/* Plain accesses may be merged or split by the compiler. */
		if (place->atomic)
			mc_fail("%s is accessed with %u and with %u bytes", mc_name_of(p, text), place->size,
				(unsigned)size);
		place->size = (uint8_t)size;
	}
	place->by |= (uint8_t)(1 << mc_current);
	place->written |= writes;
	place->atomic |= atomic;
	place->plain |= !atomic;
	if (!is_shared(place))
		return NULL;
	if (!is_shared(&was) || place->atomic != was.atomic || place->plain != was.plain)
		mc_surprised = true;
	return place->shared < 0 && place->checked < 0 ? NULL : place;
}

void mc_places_fill(uintptr_t from, uintptr_t to)
{
	unsigned n = 0;

	while (n < filled_n && (filled[n].where.from != from || filled[n].where.to != to))
		n++;
	if (n == RANGES) {
		mc_fail("too many ranges are mapped");
		return;
	}
	filled[n].where = (struct range){from, to};
	filled[n].by |= (uint8_t)(1 << mc_current);
	filled_n += n == filled_n;
}

static void too_many(void)
{
	fputs("model: too many shared places\n", stderr);
	exit(2);
}

void mc_places_begin(void)
{
	mc_surprised = false;
	mc_shared = mc_checked = 0;
	for (unsigned n = 0; n < PLACES; n++) {
		struct mc_place *p = &places[n];

		p->shared = p->checked = -1;
		if (!p->addr || !is_shared(p))
			continue;
		if (p->atomic) {
			if (mc_shared == MC_SHARED)
				too_many();
			shared_place[mc_shared] = p;
			p->shared = (int)mc_shared++;
		}
		if (p->plain) {
			if (mc_checked == MC_CHECKED)
				too_many();
			p->checked = (int)mc_checked++;
		}
	}
}

struct mc_place *mc_shared_place(unsigned n)
{
	return shared_place[n];
}

void mc_places_in(uintptr_t from, uintptr_t to, void (*visit)(struct mc_place *place))
{
	for (unsigned n = 0; n < PLACES; n++)
		if (places[n].addr >= from && places[n].addr < to)
			visit(&places[n]);
}

/* ---- words ---- */

static bool is_ignored(uintptr_t addr)
{
	for (unsigned n = 0; n < ignored_n; n++)
		if (addr >= ignored[n].from && addr < ignored[n].to)
			return true;
	return false;
}

static void note(uintptr_t addr)
{
	unsigned slot = hash_of(addr) % (2 * WORDS);

	while (word_slot[slot]) {
		if (words[word_slot[slot] - 1].addr == addr)
			return;
		slot = (slot + 1) % (2 * WORDS);
	}
	if (mc_words == WORDS) {
		fputs("model: too much memory is written\n", stderr);
		exit(2);
	}
	words[mc_words].addr = addr;
	words[mc_words].initial = *(const uint64_t *)addr;
	words[mc_words].ignored = is_ignored(addr);
	word_slot[slot] = ++mc_words;
}

void mc_word_note(uintptr_t addr, size_t size)
{
	for (uintptr_t at = addr & ~(uintptr_t)7; at < addr + size; at += 8)
		note(at);
}

void mc_words_save(uint64_t *to)
{
	for (unsigned n = 0; n < mc_words; n++)
		to[n] = *(const uint64_t *)words[n].addr;
}

void mc_words_restore(const uint64_t *from, unsigned n)
{
	unsigned i = 0;

	for (; i < n; i++)
		*(uint64_t *)words[i].addr = from[i];
	for (; i < mc_words; i++)
		*(uint64_t *)words[i].addr = words[i].initial;
}

uint64_t mc_words_hash(void)
{
	uint64_t sum = 0;

	for (unsigned n = 0; n < mc_words; n++)
		if (!words[n].ignored && *(const uint64_t *)words[n].addr != words[n].initial)
			sum += mc_mix(words[n].addr, *(const uint64_t *)words[n].addr);
	return sum;
}

/* ---- what the client says ---- */

void mc_ignore(const void *p, size_t size)
{
	if (ignored_n == RANGES)
		mc_fail("too many ranges to ignore");
	else
		ignored[ignored_n++] = (struct range){(uintptr_t)p, (uintptr_t)p + size};
}

void mc_watch(const volatile void *p, mc_changes *changes)
{
	if (watched_n == WATCHED) {
		mc_fail("too many words to watch");
		return;
	}
	watched[watched_n].addr = (uintptr_t)p;
	watched[watched_n++].changes = changes;
}

void mc_name(const volatile void *p, size_t size, const char *format, ...)
{
	va_list args;

	if (names_n == NAMES)
		return;
	names[names_n].where = (struct range){(uintptr_t)p, (uintptr_t)p + size};
	va_start(args, format);
	vsnprintf(names[names_n++].text, sizeof(names[0].text), format, args);
	va_end(args);
}

const char *mc_name_of(const volatile void *p, char text[64])
{
	uintptr_t addr = (uintptr_t)p;

	/* The last name given is the most precise one. */
	for (unsigned n = names_n; n--;)
		if (addr >= names[n].where.from && addr < names[n].where.to) {
			if (addr == names[n].where.from)
				snprintf(text, 64, "%s", names[n].text);
			else
				snprintf(text, 64, "%s+%u", names[n].text, (unsigned)(addr - names[n].where.from));
			return text;
		}
	snprintf(text, 64, "%p", (const void *)addr);
	return text;
}
