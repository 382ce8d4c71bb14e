/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Measures the rounds of a spin; the contract is in rounds.h. */
#include "rt/rounds.h"

#include "base/atomic.h"
#include "base/await.h"
#include "rt/clock.h"
#include "rt/config.h"

enum {
	MEASURED = 256,	   /* rounds, to see how long they take, */
	PARTS = 4,	   /* in so many parts: what disturbs one of them does not count */
	ROUNDS_MAX = 1000, /* in a microsecond, unless the clock is wrong */
	RAISE = 64,	   /* rounds: fewer do not tell the rate, */
	RAISE_SHARE = 4,   /* which is raised by such a part of it at most, */
	RAISE_MOST = 4,	   /* and to so many times what was measured */
	TRIES = 8,	   /* then a round takes a microsecond, as in an emulator, or the clock is of no use */
};

/* Rounds in a microsecond, and what that may be raised to, in the upper half: both at most ROUNDS_MAX. 0: not measured yet. */
static uint32_t rates;
static unsigned tries; /* to find out, in vain */

PK_INLINE unsigned per_us_in(uint32_t seen)
{
	return seen & UINT16_MAX;
}

PK_INLINE unsigned most_in(uint32_t seen)
{
	return seen >> 16;
}

PK_INLINE unsigned least_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* By the first who spins in earnest, instead of looking. */
static PK_COLD unsigned measure(void)
{
	uint64_t least = UINT64_MAX;
	unsigned rounds;
	uint32_t seen = 0;

	for (int i = 0; i < PARTS; i++) {
		uint64_t began = pk_clock_ns(), took;

		for (rounds = MEASURED / PARTS; !pk_spent(&rounds);)
			;
		took = pk_clock_ns() - began;
		least = took < least ? took : least;
	}
	if (least && least / 1000 < MEASURED / PARTS)
		rounds = (unsigned)(MEASURED / PARTS * UINT64_C(1000) / least) + 1;
	else if (pk_add_relaxed(&tries, 1) < TRIES)
		return 0; /* it was held up: once more, some other time */
	else
		rounds = 1;
	rounds = least_of(rounds, ROUNDS_MAX);
	/* Whoever has taken the longest has been disturbed by the others. */
	if (!pk_cas_relaxed(&rates, &seen, least_of(RAISE_MOST * rounds, ROUNDS_MAX) << 16 | rounds))
		return per_us_in(seen);
	return rounds;
}

/* How many rounds a microsecond has; 0: it is not known. Who has asked for fewer rounds than
 * finding out takes is taken at his word. */
static unsigned rounds_per_us(void)
{
	unsigned rounds = per_us_in(pk_load_relaxed(&rates));

	if (pk_knob(spin) < MEASURED)
		return 0;
	return pk_likely(rounds) ? rounds : measure();
}

unsigned pk_rounds_in(unsigned ns)
{
	return rounds_per_us() * ns / 1000;
}

/* relaxed: one of several who know better wins, the others will, if they have to. */
void pk_rounds_took(unsigned rounds, uint64_t ns)
{
	uint32_t seen = pk_load_relaxed(&rates);
	unsigned now = per_us_in(seen), next = least_of(now + now / RAISE_SHARE + 1, most_in(seen));
	uint64_t rate = ns ? rounds * UINT64_C(1000) / ns : 0; /* or the clock is too coarse */

	if (rounds < RAISE || rate <= now || next <= now)
		return;
	pk_cas_relaxed(&rates, &seen, (uint32_t)most_in(seen) << 16 | (rate < next ? (unsigned)rate : next));
}
