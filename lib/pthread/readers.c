/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Readers counted apart; the contract is in readers.h.
 *
 * State of an entry of a thread's record (L: the lock's address)
 *	from	to		by
 *	0,
 *	L + VOID	L	the thread, before it looks at the state again
 *	L	0		the thread, when it unlocks or finds that it must not
 *				count itself apart; another, which unlocks in its place
 *	L	L + CENTRAL	recall, which has counted the reader in the state before
 *	L	L + VOID	spread and forget: left over from a lock that was freed while
 *				it was read-locked, and whose address is a lock's again, or from a
 *				thread that was about to withdraw it, and is not in this child of fork;
 *				or the thread, which unlocks while nobody is counted apart: left over, or
 *				a handler's, and its thread is about to find that it must not count itself so
 *	any	0		the thread
 *	0,
 *	L + VOID	L + IN_BAY	the thread, once its socket's bay counts it
 *
 * Ledger
 *  O1	An entry (or a bay) is written and then the state read, by the reader; the
 *	state is written (SPREAD cleared) and then the entries read, by recall. All
 *	four are sequentially consistent: the reader sees that SPREAD has gone, or
 *	recall sees the reader. If the reader's record is new recall has to see that,
 *	too: for that there is a fence in recall, and in who takes a record.
 *  O2	The release of an entry or a bay by an unlocking reader pairs with the acquire
 *	of recall, which finds it gone: what the reader read, it read before. If another
 *	one took the entry away, its thread hands that on when it uses the entry again.
 *  O3	acquire of the state with SPREAD pairs with the last writer's unlock: the
 *	writes of the critical section are seen.
 *  O4	recall adds to the state before it takes an entry or a bay away (release), and
 *	a reader that finds it gone (acquire) finds itself counted in the state. It adds
 *	more than there can be, in the exchange that clears SPREAD, and takes away in the
 *	end what was too much: the state is written twice, however many readers there are,
 *	and never counts fewer than there are, whoever unlocks in whose place meanwhile.
 *  O5	The release that sets SPREAD pairs with the acquire of who sees it: entries
 *	that were made void before are seen so. They need not be if that was done before, in
 *	this process: then what is no reader's is withdrawn by a thread that is there.
 *  O6	The release of `closed_by` by the first front of a process pairs with the acquire of who asks whether there has been
 *	one: it sees that it is not known when readers were counted apart, or that they have been since. */
#include "pthread/readers.h"

#include <string.h>

#include "base/arch/arch.h"
#include "base/atomic.h"
#include "rt/clock.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	/* So many contended reads, before readers are counted apart. */
	HEAT = 2,
	/* For a recall that took t so many t are to go by before readers have their lock spread again, so that writers lose
	 * no more than a third of their time to it (BRAVO has 9 in section 3; doc/DESIGN.md 10). What has gone by
	 * before it counts, up to SAVED t: where writes are rare, readers are counted apart again at once. */
	INHIBIT = 2,
	SAVED = 16,
	/* So many readers are counted in the state while those are looked for who are there: no lock has more of them apart. */
	RECALLED = 1 << 24,
	/* A recall that finds one reader in so many records, or more, has so many writers after it leave the lock spread, though
	 * they find none. What a recall costs grows with the records, and what it saves with the readers. */
	SOUGHT = 64,
	CREDIT = 4,
	/* Records that are fetched while others are looked at: as many as most CPUs wait for at a time. */
	AHEAD = 8,
};

bool pk_readers_eager;
bool pk_readers_visible;
static bool in_bays; /* else visible, or neither */
static uint32_t heat_wanted = HEAT;

void pk_readers_setup(const char *mode)
{
	pk_readers_visible = !strcmp(mode, "bravo") || !strcmp(mode, "auto");
	in_bays = !strcmp(mode, "socket");
	heat_wanted = !strcmp(mode, "auto") ? HEAT : 1;
	pk_readers_eager = (pk_readers_visible || in_bays) && heat_wanted == 1;
}

static uint64_t name_of(const struct pk_rwlock *rw)
{
	return (uint64_t)(uintptr_t)rw;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_free(uint64_t entry)
{
	return !entry || (entry & PK_READ_TAG) == PK_READ_VOID;
}

/* The state still has SPREAD, now that the reader can be seen. */
static bool has_spread(struct pk_rwlock *rw)
{
	return pk_likely(pk_load_seq_cst(&rw->state) & PK_RW_SPREAD); /* O1, O3 */
}

bool pk_readers_confirm(struct pk_rwlock *rw, uint64_t *entry)
{
	uint64_t was;

	/* Not void: that would be from before SPREAD was set. O5 */
	if (has_spread(rw) && pk_likely(pk_load_relaxed(entry) == name_of(rw))) {
		pk_self.apart++;
		return true;
	}
	/* What is gone is counted: by recall in the state, or it was unlocked in place
	 * of somebody else's, which is ours now. */
	was = pk_xchg_acq_rel(entry, 0); /* O4 */
	return was != name_of(rw) && (was & PK_READ_TAG) != PK_READ_VOID;
}

static bool enter_entry(struct pk_rwlock *rw, uint64_t *entry)
{
	uint64_t was = pk_load_relaxed(entry);

	if (!is_free(was) || !pk_cas_seq_cst(entry, &was, name_of(rw))) /* O1 */
		return false; /* a signal handler was here */
	return pk_readers_confirm(rw, entry);
}

static bool enter_bay(struct pk_rwlock *rw, struct pk_record *r, unsigned n)
{
	unsigned socket = pk_socket_here(r->index);
	struct pk_bay *bay = pk_bay_enter(socket, rw); /* O1 */

	if (!bay)
		return false;
	if (has_spread(rw)) {
		r->reads.socket[n] = (uint8_t)socket;
		pk_store_release(&r->reads.lock[n], name_of(rw) | PK_READ_IN_BAY); /* O2 of what was there */
		pk_self.apart++;
		return true;
	}
	return !pk_bay_leave(bay, rw); /* O4 */
}

/* One that is not void, if there is one: that may be of a thread in whose pk_readers_confirm() this handler has come, and tell it something. */
static unsigned free_entry(const struct pk_reads *reads)
{
	unsigned found = PK_RECORD_READS;

	for (unsigned n = 0; n < PK_RECORD_READS; n++) {
		uint64_t entry = pk_load_acquire(&reads->lock[n]); /* O2 of who has taken away what was there */

		if (!entry)
			return n;
		if (is_free(entry))
			found = n;
	}
	return found;
}

bool pk_readers_enter(struct pk_rwlock *rw)
{
	struct pk_record *r = pk_thread_record();
	unsigned n;

	if (pk_unlikely(!r))
		return false;
	n = free_entry(&r->reads);
	if (n == PK_RECORD_READS)
		return false;
	return in_bays ? enter_bay(rw, r, n) : enter_entry(rw, &r->reads.lock[n]);
}

static unsigned used(const struct pk_reads *reads)
{
	unsigned n = 0;

	for (unsigned k = 0; k < PK_RECORD_READS; k++)
		n += !is_free(pk_load_relaxed(&reads->lock[k]));
	return n;
}

/* Away with the thread's entry; true if with it goes the reader. */
static bool leave_entry(struct pk_rwlock *rw, struct pk_reads *reads, unsigned n, bool apart)
{
	uint64_t entry = name_of(rw);

	/* Visible, but the lock counts nobody apart: left over from another one, or it is of a thread in whose pk_readers_confirm() this
	 * handler has come. That is to see that it is not counted; unless a recall has done it by now. */
	if (apart || !pk_cas_relaxed(&reads->lock[n], &entry, name_of(rw) | PK_READ_VOID))
		entry = pk_xchg_acq_rel(&reads->lock[n], 0); /* O2, O4 */
	pk_self.apart = used(reads);
	if (!apart)
		return false;
	return entry == name_of(rw) ||
	       ((entry & PK_READ_TAG) == PK_READ_IN_BAY && pk_bay_leave_any(reads->socket[n], rw));
}

bool pk_readers_leave(struct pk_rwlock *rw, uint64_t state)
{
	struct pk_record *r = pk_self.record;
	int found = -1;

	if (!r)
		return false;
	/* One that counts before one that does not. */
	for (int n = 0; n < PK_RECORD_READS; n++) {
		uint64_t entry = pk_load_relaxed(&r->reads.lock[n]);

		if ((entry & ~(uint64_t)PK_READ_TAG) != name_of(rw) || (entry & PK_READ_TAG) == PK_READ_VOID)
			continue;
		found = n;
		if ((entry & PK_READ_TAG) != PK_READ_CENTRAL)
			break;
	}
	if (found < 0) {
		pk_self.apart = used(&r->reads); /* others may have taken some away */
		return false;
	}
	return leave_entry(rw, &r->reads, (unsigned)found, state & (PK_RW_SPREAD | PK_RW_RECALL));
}

bool pk_readers_leave_any(struct pk_rwlock *rw)
{
	for (uint32_t i = 0, n = pk_arena_known(); i < n; i++)
		for (unsigned k = 0; k < PK_RECORD_READS; k++) {
			uint64_t entry = name_of(rw);

			if (pk_cas_acq_rel(&pk_record_nth(i)->reads.lock[k], &entry, 0)) /* O2 */
				return true;
		}
	for (unsigned s = 0; s < pk_sockets; s++)
		if (pk_bay_leave_any(s, rw))
			return true;
	return false;
}

/* Make entries void that the lock's address has inherited: nobody is counted apart. */
static void make_void(struct pk_rwlock *rw)
{
	for (uint32_t i = 0, n = pk_arena_known(); i < n; i++)
		for (unsigned k = 0; k < PK_RECORD_READS; k++) {
			uint64_t *where = &pk_record_nth(i)->reads.lock[k];
			uint64_t entry = name_of(rw);

			if (pk_load_relaxed(where) == entry)
				pk_cas_acq_rel(where, &entry, entry | PK_READ_VOID);
		}
}

/* Users of the lock's bays cannot be told from inherited ones. */
static bool has_bays(struct pk_rwlock *rw)
{
	for (unsigned s = 0; s < pk_sockets; s++)
		if (pk_bay_next(s, rw, NULL))
			return true;
	return false;
}

/* Unless a writer waits, or another thread was faster. */
static bool may_spread(uint64_t s)
{
	return !(s & ~(PK_RW_READERS | PK_FLAG_QUEUE | PK_FLAG_SPINNER | PK_FLAG_LOT | PK_FLAG_SLOW));
}

/* It has been spread before, and a front of this process has been there since: entries that name it are its readers', or
 * of some that are about to withdraw them. */
static bool is_swept(const struct pk_rwlock *rw)
{
	uint32_t now = pk_incarnation();

	return now && pk_load_acquire(&rw->closed_by) == now && pk_load_relaxed(&rw->spread_at); /* O6 */
}

static PK_COLD void spread(struct pk_rwlock *rw)
{
	uint64_t s;

	if (!pk_rwlock_front_try(rw))
		return;
	s = pk_load_relaxed(&rw->state);
	if (may_spread(s) && (is_swept(rw) || !(in_bays && has_bays(rw)))) {
		if (!is_swept(rw))
			make_void(rw);
		while (may_spread(s))
			if (pk_cas_release(&rw->state, &s, s | PK_RW_SPREAD)) { /* O5 */
				pk_count_in(pk_self.record, PK_STAT_spread);
				break;
			}
	}
	pk_rwlock_front_leave(rw);
}

void pk_readers_warm(struct pk_rwlock *rw)
{
	unsigned heat = pk_load_relaxed(&rw->heat) + 1u;

	if (!(pk_readers_visible || in_bays) || (pk_load_relaxed(&rw->state) & PK_RW_SPREAD))
		return;
	/* In a packed struct: an entry has a tag there. */
	if (pk_unlikely((uintptr_t)rw & PK_READ_TAG))
		return;
	if (heat < heat_wanted) {
		pk_store_relaxed(&rw->heat, (uint16_t)heat);
		return;
	}
	pk_store_relaxed(&rw->heat, 0);
	if (pk_clock_ns() >= pk_load_relaxed(&rw->spread_at) && pk_thread_record())
		spread(rw);
}

/* Not by making them void here: an unlock in the child may take this front for its parent's until it has said whose it is,
 * and have readers counted apart by another one meanwhile. Whoever spreads it does that. */
void pk_readers_inherit(struct pk_rwlock *rw)
{
	pk_store_relaxed(&rw->spread_at, 0);
}

uint64_t pk_readers_resume(const struct pk_rwlock *rw, uint64_t s)
{
	bool spread = pk_load_relaxed(&rw->credit) && !pk_load_relaxed(&rw->lock) && may_spread(s) && is_swept(rw);

	return spread ? s | PK_RW_SPREAD : s;
}

/* How many readers are no more counted apart. They are among those that have been added to the state. */
static unsigned recall_record(struct pk_rwlock *rw, struct pk_reads *reads)
{
	unsigned found = 0;

	for (unsigned k = 0; k < PK_RECORD_READS; k++) {
		uint64_t entry = name_of(rw);

		if (pk_load_seq_cst(&reads->lock[k]) == entry) /* O1, O2 */
			found += pk_cas_acq_rel(&reads->lock[k], &entry, entry | PK_READ_CENTRAL); /* O4 */
	}
	return found;
}

static unsigned recall_bay(struct pk_rwlock *rw, struct pk_bay *bay)
{
	unsigned users;

	do
		users = pk_bay_users(bay, rw); /* O2 */
	while (users && !pk_bay_close(bay, rw, users)); /* O4 */
	return users;
}

static unsigned recall_all(struct pk_rwlock *rw)
{
	unsigned found = 0;

	for (uint32_t i = 0, n = pk_arena_known(); i < n + AHEAD; i++) {
		if (i < n)
			pk_arch_fetch(&pk_record_nth(i)->reads);
		if (i >= AHEAD)
			found += recall_record(rw, &pk_record_nth(i - AHEAD)->reads);
	}
	for (unsigned s = 0; in_bays && s < pk_sockets; s++)
		for (struct pk_bay *bay = NULL; (bay = pk_bay_next(s, rw, bay));)
			found += recall_bay(rw, bay);
	return found;
}

/* A recall has taken from `before` until now. */
static void pay(struct pk_rwlock *rw, uint64_t before)
{
	uint64_t took = pk_clock_ns() - before, earliest = before > SAVED * took ? before - SAVED * took : 0;
	uint64_t from = pk_load_relaxed(&rw->spread_at);

	pk_store_relaxed(&rw->spread_at, (from > earliest ? from : earliest) + (1 + INHIBIT) * took);
}

void pk_readers_recall(struct pk_rwlock *rw, bool close)
{
	uint64_t before = pk_clock_ns(), set = PK_RW_RECALL | (close ? PK_RW_CLOSED : 0);
	uint64_t s = pk_load_relaxed(&rw->state), added, over;
	unsigned found, credit = pk_load_relaxed(&rw->credit);

	/* A child of fork is made ready by the first who asks for a record. */
	pk_count_in(pk_thread_record(), PK_STAT_recalled);
	do {
		if (!(s & PK_RW_SPREAD))
			return;
		added = smaller(RECALLED * PK_RW_READER, PK_RW_READERS - (s & PK_RW_READERS));
	} while (!pk_cas_seq_cst(&rw->state, &s, ((s & ~PK_RW_SPREAD) | set) + added)); /* O1, O4 */
	pk_fence(); /* and records that are new: rt/thread.c */
	found = recall_all(rw);
	pk_store_relaxed(&rw->credit, (uint16_t)(found * SOUGHT >= pk_arena_known() ? CREDIT : credit - !!credit));
	pay(rw, before);
	s = pk_load_relaxed(&rw->state);
	added -= smaller(found * PK_RW_READER, added);
	do /* who has unlocked more than there was to unlock has done that for nothing */
		over = smaller(added, s & PK_RW_READERS);
	while (!pk_cas_release(&rw->state, &s, (s & ~PK_RW_RECALL) - over));
}

void pk_readers_forget(struct pk_rwlock *rw)
{
	make_void(rw);
	for (unsigned s = 0; s < pk_sockets; s++)
		while (pk_bay_leave_any(s, rw))
			;
}
