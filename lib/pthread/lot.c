/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Parking by socket; the contract is in lot.h.
 *
 * Paper: Kashyap, Min and Kim, ATC'17, sections 4.2 and 5.1: parking lists per socket,
 *	batch wake-up, the re-queue state R.
 * Deviations
 *  D81	The list of a socket is the kernel's, of those who sleep on its bay: there is no
 *	list of nodes to keep, and none to be skipped in the queue.
 *  D82	Who is called queues again; nobody is made the head asleep. So it may find
 *	another one in the queue, and sleep again.
 *  D83	Who has waited for 100 ms queues for good, in its place, as with
 *	PARKADE_PARKING=queue. This bounds the wait where the queue never runs dry: the
 *	paper wakes a socket's sleepers when the lock moves on to another one.
 *  D84	One in ROTATION who come to the queue calls a sleeper of its socket, too, or more, or else the
 *	same few threads have the lock while they keep the queue from running dry. And one in
 *	DELEGATION of these calls one of another cohort, each in turn, which stays in the
 *	queue until it is served: the lock moves on to a socket of which somebody is in the queue when a batch
 *	ends, and a spinner would have left by then.
 *  D85	A socket's spinners leave the queue when their budget is spent. How many there may
 *	be is therefore learnt (rt/spin.h).
 *  D86	Where several cache groups share a socket the lists are theirs (*cohorts* below): so
 *	those who circulate are of one group for a while. The others of its socket come next.
 *
 * A bay's key is the address of the queue's `aux`: the policies have bays of the queue
 * (admit/cst.c), readers of the lock (readers.c).
 *
 * State of PK_FLAG_LOT, beside the queue
 *	0 -> 1	by who is about to sleep, in its bay already
 *	1 -> 0	by who has found nobody in the bays; it looks again afterwards, and sets it
 *		if somebody has come
 *
 * Lost wake-ups. Whoever sleeps has seen somebody in the queue. The last one there looks
 * at the flag after it has left:
 *  O1	park: enter the bay, set the flag, fence, look at the queue;
 *	check: the queue is empty, fence, look at the flag. One of the two sees the other.
 *  O2	clear the flag, fence, look at the bays again: as O1, with the bay for the queue.
 *	Somebody may have looked at the flag while it was cleared by mistake, and has
 *	called nobody: so the queue is looked at again as well.
 *  O3	calls: release, acquire in pk_park_ready(): who has counted the call sees an
 *	empty queue.
 * Whoever has been called is awake, and does the same when its own wait is over.
 *
 * A thread that is cancelled asynchronously in its sleep here, or whose handler leaves by
 * longjmp, remains counted in the bay: its socket then seems to have sleepers for good, and
 * those of others are left to their 100 ms. */
#include "pthread/lot.h"

#include <string.h>

#include "admit/aux.h"
#include "admit/order.h"
#include "rt/config.h"
#include "rt/park.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	ROTATION = 64,
	DELEGATION = 4,
	FEW = 4,  /* spinners of a socket: if there are fewer, so many are called at most */
	MORE = 8,
	GROUP_LEAST = 3, /* CPUs of a cache group, on average */
	STAY = 1 << 30, /* in a bay's `lead`: who is up first is a delegate */
};

bool pk_lot_open;
bool pk_lot_adapts;

static bool by_cache; /* a cohort is a cache group */

void pk_lot_setup(const char *parking)
{
	pk_lot_adapts = !strcmp(parking, "auto") && pk_spin_anywhere();
	pk_order_learns = pk_lot_adapts;
	pk_lot_open = pk_lot_adapts || !strcmp(parking, "socket");
	by_cache = false;
}

void pk_lot_divide(void)
{
	unsigned n = pk_cohorts(PK_COHORT_CACHE), cpus = 0;

	for (unsigned s = 0; s < pk_sockets; s++)
		cpus += pk_socket_cpus(s);
	for (unsigned i = 0; i < pk_levels.n; i++)
		by_cache |= pk_lot_open && pk_levels.kind[i] == PK_COHORT_CACHE && n > pk_sockets && n <= PK_SOCKETS_MAX &&
			    cpus / n >= GROUP_LEAST;
}

unsigned pk_lot_cohort(unsigned socket, uint32_t serial)
{
	return by_cache ? pk_cohort_here(PK_COHORT_CACHE, serial) : socket;
}

static unsigned cohorts(void)
{
	return pk_cohorts(by_cache ? PK_COHORT_CACHE : PK_COHORT_NODE);
}

static unsigned socket_of(unsigned cohort)
{
	return by_cache ? pk_cohort_around(PK_COHORT_CACHE, cohort, PK_COHORT_NODE) : cohort;
}

bool pk_lot_adapts_to(const struct pk_site *at, unsigned socket)
{
	return pk_lot_adapts && at->marks && pk_spin_limit(socket);
}

enum pk_manner pk_lot_manner(const struct pk_site *at, unsigned socket)
{
	if (!pk_lot_open || (pk_lot_adapts && !pk_lot_adapts_to(at, socket)))
		return PK_STAYS;
	if (!pk_lot_adapts)
		return PK_LEAVES;
	if (pk_site_flags(at) & PK_FLAG_SLOW)
		return PK_SLEEPS;
	return pk_spin_crowded() ? PK_STAYS : PK_LEAVES;
}

bool pk_lot_pays(const struct pk_site *at)
{
	return pk_order_pays(at->seen ? &at->seen->queue : &at->gate->queue);
}

bool pk_lot_apart(const struct pk_site *at, unsigned socket)
{
	return pk_lot_adapts_to(at, socket) && (pk_sockets == 1 || !pk_lot_pays(at));
}

static const void *object_of(const struct pk_gate *gate)
{
	return &gate->queue.aux;
}

/* How many have been called from a bay since sleepers of another socket were, and STAY. It
 * is a guide: changes may be lost. In what readers have there a rest does no harm, either
 * (rt/park.c). */
static uint32_t *turns_of(struct pk_bay *bay)
{
	return &bay->lead;
}

static bool is_delegate(struct pk_bay *bay)
{
	uint32_t turns = pk_load_relaxed(turns_of(bay));

	if (!(turns & STAY))
		return false;
	pk_store_relaxed(turns_of(bay), turns & ~(uint32_t)STAY);
	return true;
}

enum pk_manner pk_lot_park(struct pk_gate *gate, unsigned cohort, const struct timespec *until)
{
	const struct pk_deadline deadline = {until, CLOCK_MONOTONIC};
	struct pk_bay *bay = pk_park_enter(cohort, object_of(gate));
	uint32_t calls;
	bool stays = false;

	if (!bay)
		return PK_STAYS;
	calls = pk_park_ready(bay); /* O2, O3 */
	if (!(pk_load_relaxed(&gate->flags) & PK_FLAG_LOT)) {
		pk_or_relaxed(&gate->flags, PK_FLAG_LOT);
		pk_fence(); /* O1 */
	}
	if (pk_queue_busy(&gate->queue)) {
		pk_count_in(pk_self.record, PK_STAT_parked);
		stays = pk_futex_wait(&bay->calls, calls, &deadline) || is_delegate(bay);
	}
	pk_bay_leave(bay, object_of(gate));
	if (stays || (pk_lot_adapts && pk_spin_crowded()))
		return PK_STAYS;
	return pk_spin_limit(socket_of(cohort)) ? PK_CALLED : PK_LEAVES;
}

/* Call so many of a cohort's sleepers, or (0) a delegate of them. How many were there, or at least 1 if there are some. */
static unsigned call_cohort(struct pk_gate *gate, unsigned cohort, unsigned batch)
{
	unsigned called = 0;

	for (struct pk_bay *bay = NULL; (bay = pk_bay_next(cohort, object_of(gate), bay));) {
		int woken;

		pk_store_relaxed(turns_of(bay), batch ? pk_load_relaxed(turns_of(bay)) + batch
						      : pk_load_relaxed(turns_of(bay)) | STAY);
		pk_add_release(&bay->calls, 1); /* O3 */
		woken = pk_futex_wake(&bay->calls, batch ? (int)batch : 1);
		called += woken > 1 ? (unsigned)woken : 1;
	}
	return called;
}

/* As many of a cohort's sleepers as its socket has room for; false if there are none. */
static bool call_some(struct pk_gate *gate, unsigned cohort)
{
	return call_cohort(gate, cohort, 1 + pk_spin_rooms(socket_of(cohort)));
}

/* So many of the other cohorts of its socket, together. */
static bool call_neighbours(struct pk_gate *gate, unsigned cohort, unsigned room)
{
	unsigned socket = socket_of(cohort), left = room;

	for (unsigned i = 1; by_cache && i < cohorts() && left; i++) {
		unsigned c = (cohort + i) % cohorts();

		if (socket_of(c) == socket) {
			unsigned called = call_cohort(gate, c, left);

			left -= called < left ? called : left;
		}
	}
	return left < room;
}

/* Whether the sleepers of that cohort have had their turn: others go first then. A socket's cohorts share its turn. */
static bool had_turn(struct pk_gate *gate, unsigned cohort)
{
	struct pk_bay *bay = pk_bay_next(cohort, object_of(gate), NULL);
	uint32_t turns = bay ? pk_load_relaxed(turns_of(bay)) : 0;

	if (!bay || (turns & ~(uint32_t)STAY) < pk_knob(batch) * pk_sockets / cohorts())
		return false;
	pk_cas_relaxed(turns_of(bay), &turns, 0); /* it may be a reader-writer lock's by now, whose readers are not to lose theirs */
	return true;
}

/* Call sleepers of one cohort, of the given one if it has some, or of its socket's; false if there are none
 * anywhere. */
static bool call(struct pk_gate *gate, unsigned cohort)
{
	unsigned room = 1 + pk_spin_rooms(socket_of(cohort));

	if (!had_turn(gate, cohort) && (call_some(gate, cohort) || call_neighbours(gate, cohort, room)))
		return true;
	for (unsigned i = 1; i <= cohorts(); i++)
		if (call_some(gate, (cohort + i) % cohorts()))
			return true;
	return false;
}

/* How many of a socket are called for one who comes. The lock leaves one of which nobody is in the queue, for others of which nearly nobody
 * is there, either: so more than one are, where few spin and there is room. Not where its users come back at once, who keep it. */
static unsigned how_many(const struct pk_gate *gate, unsigned socket)
{
	unsigned rooms = pk_spin_rooms(socket);

	if (pk_sockets == 1 || pk_spinners(socket) >= FEW || pk_load_relaxed(&gate->flags) & PK_FLAG_BACK)
		return 1;
	return rooms < MORE ? 1 + rooms : MORE;
}

void pk_lot_rotate(struct pk_gate *gate, unsigned cohort, unsigned turn)
{
	unsigned turns = turn / ROTATION;

	if (turn % ROTATION || !(pk_load_relaxed(&gate->flags) & PK_FLAG_LOT))
		return;
	if (turns % DELEGATION) {
		const unsigned batch = how_many(gate, socket_of(cohort));

		if (!call_cohort(gate, cohort, batch))
			call_neighbours(gate, cohort, batch);
		return;
	}
	/* Each of the others is the first in turn. */
	for (unsigned i = 0; i < cohorts(); i++) {
		unsigned c = (cohort + 1 + turns / DELEGATION + i) % cohorts();

		if (c != cohort && call_cohort(gate, c, 0))
			return;
	}
}

/* Sleepers are to be called: nobody is in the queue, or they are crowded, and had better be there. */
static bool is_due(const struct pk_gate *gate)
{
	return pk_load_relaxed(&gate->flags) & PK_FLAG_LOT &&
	       (!pk_queue_busy(&gate->queue) || (pk_lot_adapts && pk_spin_crowded()));
}

void pk_lot_check(struct pk_gate *gate, unsigned cohort)
{
	pk_fence(); /* O1 */
	if (!is_due(gate) || call(gate, cohort))
		return;
	pk_and_relaxed(&gate->flags, ~PK_FLAG_LOT);
	pk_fence(); /* O2 */
	for (unsigned c = 0; c < cohorts(); c++)
		if (pk_bay_next(c, object_of(gate), NULL)) {
			pk_or_relaxed(&gate->flags, PK_FLAG_LOT);
			pk_fence();
			if (is_due(gate))
				call(gate, cohort);
			return;
		}
}

void pk_lot_check_here(struct pk_gate *gate)
{
	uint32_t serial = pk_self.record ? pk_self.record->index : 0;

	pk_lot_check(gate, pk_lot_cohort(pk_socket_here(serial), serial));
}
