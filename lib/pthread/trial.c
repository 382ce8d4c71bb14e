/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Trials; the contract is in trial.h. */
#include "pthread/trial.h"

#include "admit/order.h"
#include "base/atomic.h"

_Static_assert((uint8_t)PK_TRIAL_ASKS == 0 && PK_TRIAL_ASKS % PK_TRIAL_ASKS_APART == 0 && PK_TRIAL_COUNTS <= UINT8_MAX, "they are counted in bytes");

enum {
	BUSY = 1,   /* in the address of a gate: its trial is just beginning, or ending */
	HALF_NS = PK_TRIAL_PHASE_NS / 2,
	/* A trial has so many, or less: halves are numbered, and so are trials. */
	HALVES = 32,
	/* In these all wait apart: by turns with the other way, which comes first and last, so that it favours none if they become busier meanwhile, or less. */
	ARE_APART = 0xf << 2 | 0xf << 10,
	/* These are looked at, as many of either way: late ones, when who has slept in the other way is awake. */
	COUNT = 1 << 1 | 3 << 4 | 3 << 8 | 3 << 12 | 1 << 17,
	SLOTS = 16, /* for what threads count */
	AGAIN = 32, /* from that bit on, in what they count: who has taken it again after waits for condition variables */
	/* Where uses are not one in so many of these the mutex is one of those who only wait and signal, and they are counted, too. */
	USES = 8,
	/* PK_FLAG_APART and _BACK were set; and where they do not all wait apart they wait as if it was not tried. */
	WAS_APART = 1,
	WAS_BACK = 2,
	USUAL = 4,
};

uint8_t pk_trial_half PK_ALIGNED(PK_CACHE_LINE);

static struct {
	uintptr_t lock; /* the gate that is tried, or 0 */
	uint64_t began;
	uint32_t before; /* how it was: WAS_APART, WAS_BACK, USUAL */
	uint64_t counted[2]; /* the sums of all counts when it began */
	uint64_t ended;	    /* the last trial, which was of `last`: that one is not tried again before so many pauses, no other before one */
	uintptr_t last;
	uint32_t pauses;
} trial PK_ALIGNED(PK_CACHE_LINE);

/* How often mutexes were used in trials, where all queued, and where they waited apart; and AGAIN. Who counts has the mutex that all wait for, so it is
 * to be quick: if it has to get a line from far away the others look away meanwhile, and what is tried fares better than it will
 * (sim/FINDINGS.md). So threads have lines of their own, as long as they are few. */
static struct slot {
	uint64_t of[2];
} PK_ALIGNED(PK_CACHE_LINE) counts[SLOTS];

/* From `then` to `now`; 0 if who has read the clock for `now` did so before. */
static uint64_t between(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

static uint64_t elapsed(uint64_t now)
{
	return between(pk_load_relaxed(&trial.began), now);
}

static unsigned half_at(uint64_t since)
{
	return since < PK_TRIAL_NS ? (unsigned)(since / HALF_NS) : HALVES - 1;
}

/* The number of a trial that began then, times HALVES: seldom that of the one before. */
static uint8_t number_of(uint64_t began)
{
	return (uint8_t)(began / PK_TRIAL_NS * HALVES);
}

/* Which way is tried then: apart, if it is not 0. */
static unsigned way_in(unsigned half)
{
	return (unsigned)ARE_APART >> half & 1;
}

static uint64_t sum(unsigned way)
{
	uint64_t all = 0;

	for (unsigned n = 0; n < SLOTS; n++)
		all += pk_load_relaxed(&counts[n].of[way]);
	return all;
}

/* From now on they wait in this way, if the trial goes on: the caller may have been held up for long since it has seen that. */
static void go(struct pk_gate *gate, bool apart)
{
	uint64_t seen = pk_load_relaxed(&gate->flags);

	while (seen & PK_FLAG_TRIED && !(seen & PK_FLAG_APART) == apart && !pk_cas_relaxed(&gate->flags, &seen, seen ^ PK_FLAG_APART))
		;
}

/* Another trial has taken its place, or it has just ended. */
static void forget(struct pk_gate *gate)
{
	uint64_t seen = pk_load_relaxed(&gate->flags);

	while (seen & PK_FLAG_TRIED && !pk_cas_relaxed(&gate->flags, &seen, seen & ~(PK_FLAG_TRIED | PK_FLAG_APART)))
		;
}

static void begin(struct pk_gate *gate, uint64_t now, bool usual)
{
	uintptr_t seen = pk_load_acquire(&trial.lock); /* T1 */
	unsigned pauses = pk_load_relaxed(&trial.last) == (uintptr_t)gate ? pk_load_relaxed(&trial.pauses) : 1;
	const uint64_t flags = pk_load_relaxed(&gate->flags);

	if (seen ? elapsed(now) < PK_TRIAL_NS + PK_TRIAL_PAUSE_NS
		 : between(pk_load_relaxed(&trial.ended), now) < (uint64_t)pauses * PK_TRIAL_PAUSE_NS)
		return;
	if (!pk_cas_relaxed(&trial.lock, &seen, (uintptr_t)gate | BUSY))
		return;
	pk_store_relaxed(&trial.began, now);
	pk_store_relaxed(&trial.before, (flags & PK_FLAG_APART ? WAS_APART : 0u) |
						(flags & PK_FLAG_BACK			   ? WAS_BACK
						 : usual && pk_order_pays(&gate->queue) ? USUAL
											: 0u));
	pk_store_relaxed(&pk_trial_half, number_of(now));
	for (unsigned way = 0; way < 2; way++)
		pk_store_relaxed(&trial.counted[way], sum(way));
	seen = (uintptr_t)gate | BUSY;
	if (!pk_cas_release(&trial.lock, &seen, (uintptr_t)gate)) /* T1 */
		return;
	pk_or_relaxed(&gate->flags, PK_FLAG_TRIED);
	go(gate, false);
}

static void end(struct pk_gate *gate, uint64_t now)
{
	uintptr_t seen = (uintptr_t)gate;
	uint32_t before, pauses = 1;
	uint64_t queued, apart;
	uint64_t mask, found, flags;
	bool was, usual, only_waits, is, decided, back;

	if (!pk_cas_relaxed(&trial.lock, &seen, (uintptr_t)gate | BUSY))
		return;
	before = pk_load_relaxed(&trial.before);
	was = before & WAS_APART;
	usual = before & USUAL;
	queued = sum(0) - pk_load_relaxed(&trial.counted[0]);
	apart = sum(1) - pk_load_relaxed(&trial.counted[1]);
	only_waits = (uint32_t)queued + (uint32_t)apart < ((queued >> AGAIN) + (apart >> AGAIN)) / USES;
	queued = (uint32_t)queued + (only_waits ? queued >> AGAIN : 0);
	apart = (uint32_t)apart + (only_waits ? apart >> AGAIN : 0);
	/* If nobody was there at its end it is not known for how long somebody was. */
	decided = queued >= PK_TRIAL_LEAST && apart >= PK_TRIAL_LEAST && elapsed(now) < PK_TRIAL_NS + PK_TRIAL_PHASE_NS;
	is = decided ? apart > queued - queued / PK_TRIAL_SHARE : was;
	back = decided ? !is : before & WAS_BACK; /* who queued as that was tried has said so, too (turn.c) */
	if (pk_load_relaxed(&trial.last) == (uintptr_t)gate && decided && was == is) {
		pauses = 2 * pk_load_relaxed(&trial.pauses);
		pauses = pauses < PK_TRIAL_PAUSES ? pauses : PK_TRIAL_PAUSES;
	}
	pk_store_relaxed(&trial.ended, now);
	pk_store_relaxed(&trial.last, (uintptr_t)gate);
	pk_store_relaxed(&trial.pauses, pauses);
	if (usual && !is) { /* what is said of its users is said by themselves */
		mask = PK_FLAG_TRIED | PK_FLAG_APART | PK_FLAG_PROVED;
		found = 0;
	} else {
		mask = PK_FLAG_TRIED | PK_FLAG_APART | PK_FLAG_PROVED | PK_FLAG_BACK;
		found = (is ? PK_FLAG_APART : 0) | (decided && !is ? PK_FLAG_PROVED : 0) | (back ? PK_FLAG_BACK : 0);
	}
	flags = pk_load_relaxed(&gate->flags);
	while (!pk_cas_relaxed(&gate->flags, &flags, (flags & ~mask) | found))
		;
	pk_store_release(&trial.lock, 0); /* T1 */
}

/* The thread has counted so many, in the half in which it was; of the trial that began then. */
static void add(uint64_t n, uint64_t began)
{
	unsigned half = pk_self.half % HALVES;

	if (n && (unsigned)COUNT >> half & 1 && pk_self.half - half == number_of(began))
		pk_add_relaxed(&counts[(unsigned)pk_self.tid % SLOTS].of[way_in(half)], n);
}

void pk_trial_tell(struct pk_gate *gate, uint64_t now)
{
	const unsigned n = pk_self.counted, again = pk_self.again < n ? pk_self.again : n;
	uint64_t began;
	unsigned half;

	pk_self.counted = pk_self.again = 0;
	if (pk_load_acquire(&trial.lock) != (uintptr_t)gate) { /* T1 */
		forget(gate);
		return;
	}
	began = pk_load_relaxed(&trial.began);
	add((uint64_t)again << AGAIN | (n - again), began);
	half = half_at(between(began, now));
	if (half == HALVES - 1) {
		end(gate, now);
		return;
	}
	pk_self.half = (uint8_t)(number_of(began) + half);
	if (pk_load_relaxed(&pk_trial_half) != pk_self.half)
		pk_store_relaxed(&pk_trial_half, pk_self.half);
	go(gate, way_in(half));
}

/* Whether the caller is the one in so many who asks for a trial. */
static bool asks(uint64_t flags)
{
	return (pk_self.asked++ + (unsigned)pk_self.tid) % (flags & PK_FLAG_BACK ? PK_TRIAL_ASKS : PK_TRIAL_ASKS_APART) == 0;
}

enum pk_trial_way pk_trial_find(struct pk_gate *gate, uint64_t flags, uint64_t now)
{
	if (flags & PK_FLAG_TRIED) {
		pk_trial_tell(gate, now);
		if (pk_load_relaxed(&trial.lock) == (uintptr_t)gate)
			return way_in(half_at(elapsed(now)))		? PK_TRIAL_APART
			       : pk_load_relaxed(&trial.before) & USUAL ? PK_TRIAL_SAYS_NOTHING
									: PK_TRIAL_QUEUES;
		flags = pk_load_relaxed(&gate->flags); /* it is over */
	} else if (asks(flags)) {
		begin(gate, now, false);
	}
	return flags & PK_FLAG_APART ? PK_TRIAL_APART : PK_TRIAL_SAYS_NOTHING;
}

void pk_trial_ask(struct pk_gate *gate)
{
	uint64_t flags = pk_load_relaxed(&gate->flags);

	if (!asks(flags))
		return;
	if (flags & PK_FLAG_TRIED) /* it may be long over */
		pk_trial_tell(gate, pk_clock_ns());
	else
		begin(gate, pk_clock_ns(), true);
}
