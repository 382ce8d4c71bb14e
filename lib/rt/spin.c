/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Counts the spinners of each socket; the contract is in spin.h. */
#include "rt/spin.h"

#include <string.h>

#include "base/atomic.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/rounds.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	PLACES_MAX = 16, /* spinners of a socket */
	PATIENT_US = 30, /* a few times what a sleep and a wake-up take */
	BRIEF_US = 10,
	SHARES = 32,	 /* one is gained for each that is served, SHARES are lost for one that is not */
	/* Who has looked away as a head does not count how long so many of its next waits take: others do so, too. */
	AWAYS = 32,
	/* Who spins for so long had no CPU meanwhile, and so long they are taken for crowded then. */
	AWAY_US = 200,
	CROWDED_US = 10000,
};

/* One line a socket: only threads of that socket write it. */
static struct {
	int spinning;
	int limit;
	int shares; /* of places that are worth it, in units of 1/SHARES: no more than the limit */
	unsigned lost_us; /* when the last place was lost, modulo 2^32 */
} PK_ALIGNED(PK_CACHE_LINE) sockets[PK_SOCKETS_MAX];

static bool front;

static bool crowded;
static unsigned crowded_us; /* since when, modulo 2^32 */

void pk_spin_setup(void)
{
	bool stay = !strcmp(pk_config.parking, "queue");
	unsigned all = 0;

	for (unsigned s = 0; s < pk_sockets; s++) {
		int cpus = (int)pk_socket_cpus(s);
		/* With more than one socket, most: the lock leaves one when nobody there spins for it. */
		int most = stay ? cpus - 2 : pk_sockets > 1 ? cpus - (cpus + 7) / 8 : cpus / 2;

		sockets[s].limit = cpus <= 2 ? 0 : stay || most < PLACES_MAX ? most : PLACES_MAX;
		sockets[s].shares = sockets[s].limit * SHARES;
		all += (unsigned)cpus;
	}
	front = all > 2;
}

void pk_spin_fork_child(void)
{
	for (unsigned s = 0; s < pk_sockets; s++)
		pk_store_relaxed(&sockets[s].spinning, 0);
	crowded = false;
}

unsigned pk_spin_head(void)
{
	return pk_knob(spin);
}

/* So long, and no less than so many rounds. */
static unsigned rounds_for(unsigned us, unsigned least)
{
	unsigned rounds = pk_rounds_in(us * 1000);

	return rounds > least ? rounds : least;
}

static unsigned budget(void)
{
	return rounds_for(PATIENT_US, pk_knob(spin));
}

unsigned pk_spin_patient(unsigned socket)
{
	return sockets[socket].limit ? budget() : pk_knob(spin);
}

unsigned pk_spin_limit(unsigned socket)
{
	return pk_knob(spin) ? (unsigned)sockets[socket].limit : 0;
}

bool pk_spin_anywhere(void)
{
	for (unsigned s = 0; s < pk_sockets; s++)
		if (pk_spin_limit(s))
			return true;
	return false;
}

bool pk_spin_cramped(void)
{
	return !front;
}

unsigned pk_spin_steal(unsigned head)
{
	return head / 3;
}

unsigned pk_spin_front(void)
{
	return front ? pk_knob(spin) : 0;
}

unsigned pk_spin_brief(void)
{
	return front ? rounds_for(BRIEF_US, (pk_knob(spin) + 2) / 3) : 0; /* 1 is 1: the model has it */
}

/* How many may spin on that socket now. */
static int places(unsigned socket)
{
	return pk_knob(spin) ? pk_load_relaxed(&sockets[socket].shares) / SHARES : 0;
}

bool pk_spin_room(unsigned socket)
{
	return pk_load_relaxed(&sockets[socket].spinning) < places(socket);
}

unsigned pk_spinners(unsigned socket)
{
	return (unsigned)pk_load_relaxed(&sockets[socket].spinning);
}

unsigned pk_spin_rooms(unsigned socket)
{
	int rooms = places(socket) - pk_load_relaxed(&sockets[socket].spinning);

	return rooms > 0 ? (unsigned)rooms : 0;
}

unsigned pk_spin_begin(struct pk_waiter *w)
{
	if (w->manner == PK_SLEEPS || (w->manner != PK_CALLED && !pk_spin_room(w->socket)))
		return 0;
	/* Two may pass the test at once: the limit is a guide, not a bound. */
	pk_add_relaxed(&sockets[w->socket].spinning, 1);
	w->spins = true;
	pk_self.spins_us = (unsigned)pk_clock_us();
	return budget();
}

bool pk_spin_crowded(void)
{
	unsigned since;

	if (!pk_load_relaxed(&crowded))
		return false;
	since = pk_load_relaxed(&crowded_us); /* before the clock, or it may be later */
	if ((unsigned)pk_clock_us() - since < CROWDED_US)
		return true;
	pk_store_relaxed(&crowded, false);
	return false;
}

/* The thread has spun since pk_self.spins_us; by a budget that is far from AWAY_US. Where there are several sockets, and
 * many spin, one or the other is always held up by something. */
static void look_at_clock(void)
{
	unsigned now = (unsigned)pk_clock_us();

	if (pk_likely(now - pk_self.spins_us < AWAY_US) || pk_sockets > 1 || pk_knob(spin) > pk_rounds_in(AWAY_US * 1000 / 2))
		return;
	pk_store_relaxed(&crowded_us, now);
	pk_store_relaxed(&crowded, true);
}

/* Give the place up; false if w has none. */
static bool stop(struct pk_waiter *w)
{
	if (!w->spins)
		return false;
	w->spins = false;
	pk_sub_relaxed(&sockets[w->socket].spinning, 1);
	return true;
}

void pk_spin_end(struct pk_waiter *w)
{
	if (w->spins)
		look_at_clock();
	pk_spin_done(w);
}

void pk_spin_done(struct pk_waiter *w)
{
	if (stop(w) && pk_load_relaxed(&sockets[w->socket].shares) < sockets[w->socket].limit * SHARES)
		pk_add_relaxed(&sockets[w->socket].shares, 1);
}

/* Those who spin in vain at the same time have one reason, as a head that slept: they cost one place together, or one such
 * moment would cost all of them. */
static bool counts(unsigned socket)
{
	unsigned now = (unsigned)pk_clock_us(), lost = pk_load_relaxed(&sockets[socket].lost_us);

	return now - lost >= PATIENT_US && pk_cas_relaxed(&sockets[socket].lost_us, &lost, now);
}

void pk_spin_missed(struct pk_waiter *w)
{
	if (w->spins)
		look_at_clock();
	/* One place remains: with none, nobody would find out that it has become worth it. */
	if (stop(w) && pk_load_relaxed(&sockets[w->socket].shares) >= 2 * SHARES && counts(w->socket) &&
	    pk_sub_relaxed(&sockets[w->socket].shares, SHARES) < 2 * SHARES)
		pk_add_relaxed(&sockets[w->socket].shares, SHARES); /* others have been faster */
}

void pk_spin_away(void)
{
	pk_self.aways = AWAYS;
}

void pk_spin_served(struct pk_waiter *w, unsigned rounds)
{
	unsigned most = pk_sockets == 1 && w->spins ? pk_rounds_in(PK_SPIN_LONG_NS) : 0;

	if (!most || rounds <= most || pk_knob(spin) > pk_rounds_in(PATIENT_US * 1000))
		pk_spin_end(w);
	else if (pk_self.aways) {
		pk_self.aways--;
		pk_spin_end(w);
	} else
		pk_spin_missed(w);
}
