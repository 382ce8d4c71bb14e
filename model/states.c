/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The states that the tables at the heads of the sources name: which values have which names.
 * `check' compares what the clients do with what these tables say. */
#include "admit/tail.h"
#include "model/locks.h"
#include "pthread/rwlock.h"
#include "rt/storey.h"
#include "rt/topology.h"

static void status(uint64_t from, uint64_t to)
{
	static const char *const names[PK_STATE_MASK + 1] = {
		[PK_WAITING] = "WAITING",     [PK_SPINNING] = "SPINNING", [PK_PARKED] = "PARKED",
		[PK_BLOCKED] = "BLOCKED",     [PK_CLAIMED] = "CLAIMED",	  [PK_HEAD] = "HEAD",
		[PK_ABANDONED] = "ABANDONED", [PK_ORPHAN] = "ORPHAN",	  [PK_SIGNALLED] = "SIGNALLED",
		[PK_LEAVING] = "LEAVING",     [PK_DEAD] = "DEAD"};
	bool anew = pk_uses((uint32_t)from) != pk_uses((uint32_t)to);

	if (anew || pk_state((uint32_t)from) != pk_state((uint32_t)to))
		mc_arc("status", anew ? "last use" : names[pk_state((uint32_t)from)], names[pk_state((uint32_t)to)]);
}

static const char *next_name(uint64_t value)
{
	static const char *const marks[] = {"null", "LEFT", "END", "FLED"};

	return value < sizeof(marks) / sizeof(marks[0]) ? marks[value] : value & PK_SLEEPER ? "sleeper" : "node";
}

static void next(uint64_t from, uint64_t to)
{
	mc_arc("next", next_name(from), next_name(to));
}

static void word(uint64_t from, uint64_t to)
{
	static const char *const names[] = {"0", "1", "2"};

	mc_arc("word", from < 3 ? names[from] : "other", to < 3 ? names[to] : "other");
}

static const char *entry_name(uint64_t value)
{
	static const char *const tags[] = {"L", "L + IN_BAY", "L + CENTRAL", "L + VOID"};

	return value ? tags[value & PK_READ_TAG] : "0";
}

static void entry(uint64_t from, uint64_t to)
{
	mc_arc("entry", entry_name(from), entry_name(to));
}

/* The flags, and whether there are more readers or fewer. */
static void rwlock(uint64_t from, uint64_t to)
{
	static const struct {
		uint64_t bit;
		const char *set, *cleared;
	} flags[] = {{PK_RW_WRITER, "+ WRITER", "- WRITER"}, {PK_RW_CLOSED, "+ CLOSED", "- CLOSED"},
		     {PK_RW_SLEEPER, "+ SLEEPER", "- SLEEPER"}, {PK_RW_PARKED, "+ PARKED", "- PARKED"},
		     {PK_RW_SPREAD, "+ SPREAD", "- SPREAD"}, {PK_RW_RECALL, "+ RECALL", "- RECALL"}};
	const uint64_t readers = PK_RW_READERS, waiters = PK_RW_WAITERS, kept = PK_RW_KEPT;

	for (unsigned n = 0; n < sizeof(flags) / sizeof(flags[0]); n++)
		if ((from ^ to) & flags[n].bit)
			mc_arc("state", "", to & flags[n].bit ? flags[n].set : flags[n].cleared);
	if ((from ^ to) & readers)
		mc_arc("state", "", (to & readers) > (from & readers) ? "+ READER" : "- READER");
	if ((from ^ to) & waiters)
		mc_arc("state", "", (to & waiters) > (from & waiters) ? "+ WAITER" : "- WAITER");
	if ((from ^ to) & kept)
		mc_arc("state", "", to & kept ? "+ KEPT" : "- KEPT");
}

static void key(uint64_t from, uint64_t to)
{
	unsigned n = from & PK_BAY_USERS_MAX;

	if (!from)
		mc_arc("key", "0", "(object, 1)");
	else if (to)
		mc_arc("key", "(object, n)", to > from ? "(object, n + 1)" : "(object, n - 1)");
	else
		mc_arc("key", n == 1 ? "(object, 1)" : "(object, n)", "0");
}

void mc_watch_node(struct pk_waiter *w)
{
	mc_watch(&w->status, status);
	mc_watch(&w->next, next);
}

void mc_watch_record(struct pk_record *r)
{
	for (unsigned n = 0; n < PK_RECORD_NODES; n++)
		mc_watch_node(&r->node[n]);
	for (unsigned n = 0; n < PK_RECORD_READS; n++)
		mc_watch(&r->reads.lock[n], entry);
}

void mc_watch_word(const int *p)
{
	mc_watch(p, word);
}

void mc_watch_rwlock(const struct pk_rwlock *rw)
{
	mc_watch(&rw->state, rwlock);
}

/* The first bay on each socket. */
void mc_watch_bays(const void *object)
{
	for (unsigned s = 0; s < pk_sockets; s++) {
		struct pk_bay *bay = pk_bay_enter(s, object);

		mc_watch(&bay->key, key);
		pk_bay_leave(bay, object);
	}
}
