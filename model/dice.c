/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Who goes next in an execution at random, and which way; the contract is in world.h.
 *
 * Paper: Burckhardt, Kothari, Musuvathi and Nagarakatte, A Randomized Scheduler with Probabilistic Guarantees of Finding
 *	Bugs, ASPLOS 2010: the thread of the highest rank goes, and at a few steps it sinks to the lowest one.
 *
 * D1	Ranks are one manner of four: what is found by few changes of threads is not found by evenly many, and the other way
 *	round. An execution has one manner throughout. Changes only where a thread is about to write (or to make a system call)
 *	find what takes several at the right moments some fifty times as soon: most steps are loads of what nobody changes.
 * D2	One that has the highest rank, and waits for another one awake, sinks after some hundred steps in a row.
 * D3	Threads *stand still*, besides: at a step at random who would have made it makes none for a long stretch, or until
 *	nobody else can go on. That is what a busy machine, or a handler that blocks, does to a thread. Half of them do so before
 *	a system call: what that is to tell others is in memory by then.
 *
 * After FAIR steps everybody goes evenly often: what has no end then has none. */
#include <string.h>

#include "model/world.h"

enum {
	FAIR = 20000,
	STALLS = 2,
	SINKS = 3,
	FIRST_LENGTH = 500, /* how long an execution is held to be before there was one */
	MOST_IN_A_ROW = 300,
	STRETCH = 13, /* 2^13: the longest stretch that one stands still for */
};

enum manner { EVENLY, STEADILY, AT_WRITES, BY_RANK, MANNERS };

static struct {
	uint64_t state;
	enum manner manner;
	unsigned length; /* of other executions, on average */
	unsigned step, last, in_a_row;
	unsigned rank[MC_THREADS]; /* from 0, the lowest */
	unsigned sinks_at[SINKS];
	unsigned seldom; /* a sleep whose time may pass goes in one of so many steps */
	unsigned stale;	 /* one of so many loads may be of an older value; 0: none */
	unsigned stands_at[STALLS];
	bool calls[STALLS]; /* who is about to make a system call stands still, from that step on */
	unsigned until[MC_THREADS]; /* it stands still, up to that step, or for as long as others can go on */
	bool patient;		    /* sleeps end with time, as far as they may, before that is over */
} d;

static unsigned below(unsigned n)
{
	d.state ^= d.state >> 12;
	d.state ^= d.state << 25;
	d.state ^= d.state >> 27;
	return (unsigned)((d.state * UINT64_C(0x2545f4914f6cdd1d) >> 32) * n >> 32);
}

void mc_dice_begin(uint64_t seed, unsigned length)
{
	static const unsigned seldom[] = {1, 8, 64, 1024}, stale[] = {0, 2, 16};
	unsigned stalls;

	memset(&d, 0, sizeof(d));
	d.state = mc_mix(seed + 1, UINT64_C(0x9e3779b97f4a7c15)) | 1;
	d.length = length ? length : FIRST_LENGTH;
	d.manner = (enum manner)below(MANNERS);
	d.seldom = seldom[below(sizeof(seldom) / sizeof(seldom[0]))];
	d.patient = below(2);
	d.stale = stale[below(sizeof(stale) / sizeof(stale[0]))];
	for (unsigned t = 0; t < mc_client->threads; t++) {
		unsigned u = below(t + 1);

		d.rank[t] = d.rank[u];
		d.rank[u] = t;
	}
	for (unsigned n = 0; n < SINKS; n++)
		d.sinks_at[n] = below(2 * d.length);
	stalls = below(STALLS + 1);
	for (unsigned n = 0; n < stalls; n++) {
		d.stands_at[n] = below(d.length) + 1;
		d.calls[n] = below(2);
	}
}

static void sink(unsigned t)
{
	for (unsigned u = 0; u < mc_client->threads; u++)
		d.rank[u] += d.rank[u] < d.rank[t];
	d.rank[t] = 0;
}

static bool stands_still(unsigned t)
{
	return d.until[t] > d.step && d.step < FAIR;
}

static bool only_loads(unsigned t)
{
	const struct mc_state *s = &mc_world.thread[t];

	return s->what == MC_ACCESS && s->access.kind == HN_LOAD;
}

/* Of the threads that can go on, asleep or awake as that says, one by the manner; or MC_THREADS. */
static unsigned one_of(bool asleep)
{
	unsigned some[MC_THREADS], n = 0, best = 0;
	bool last = false;

	for (unsigned t = 0; t < mc_client->threads; t++)
		if ((mc_world.thread[t].what == MC_ASLEEP) == asleep && !stands_still(t) && mc_ways(t)) {
			last |= t == d.last;
			best = !n || d.rank[t] > d.rank[some[best]] ? n : best;
			some[n++] = t;
		}
	if (!n)
		return MC_THREADS;
	if (asleep || d.manner == EVENLY || d.step >= FAIR)
		return some[below(n)];
	if (d.manner == STEADILY)
		return last && below(16) ? d.last : some[below(n)];
	if (d.manner == AT_WRITES)
		return last && only_loads(d.last) && d.in_a_row < MOST_IN_A_ROW - 1 ? d.last : some[below(n)];
	return some[best];
}

/* Nobody is awake but who stands still: either that is over, or a sleeper's time passes before. */
static unsigned one_of_the_rest(void)
{
	unsigned t = d.patient || below(2) ? one_of(true) : MC_THREADS;

	if (t < MC_THREADS)
		return t;
	for (unsigned u = 0; u < mc_client->threads; u++)
		if (stands_still(u) && mc_client->apart) {
			mc_client->apart();
			break;
		}
	memset(d.until, 0, sizeof(d.until));
	t = one_of(false);
	return t < MC_THREADS ? t : one_of(true);
}

static unsigned way_of(unsigned t)
{
	const struct mc_state *s = &mc_world.thread[t];
	unsigned ways = mc_ways(t);

	if (ways == 1)
		return 0;
	if (s->what == MC_ACCESS && (!d.stale || below(d.stale)))
		return ways - 1; /* the newest */
	return below(ways);
}

bool mc_dice_cast(unsigned *thread, unsigned *way)
{
	unsigned t = below(d.seldom) ? MC_THREADS : one_of(true);

	d.step++;
	for (unsigned n = 0; t == MC_THREADS && n <= STALLS; n++) {
		t = one_of(false);
		if (t == MC_THREADS)
			break;
		for (unsigned i = 0; i < STALLS; i++)
			if (d.stands_at[i] && d.step >= d.stands_at[i] &&
			    (!d.calls[i] || mc_world.thread[t].what == MC_CALL)) {
				d.stands_at[i] = 0;
				d.until[t] = d.step + (1u << below(STRETCH + 1));
				t = MC_THREADS;
				break;
			}
	}
	if (t == MC_THREADS)
		t = one_of_the_rest();
	if (t == MC_THREADS)
		return false;
	d.in_a_row = t == d.last ? d.in_a_row + 1 : 0;
	d.last = t;
	for (unsigned n = 0; n < SINKS; n++)
		if (d.sinks_at[n] == d.step)
			sink(t);
	if (d.in_a_row == MOST_IN_A_ROW) {
		d.in_a_row = 0;
		sink(t);
	}
	*thread = t;
	*way = way_of(t);
	return true;
}
