/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Storeys; the contract is in storey.h.
 *
 * State of a key
 *	from		to		by
 *	0		(object, 1)	enter, which claims the bay
 *	(object, n)	(object, n + 1)	enter, n < PK_BAY_USERS_MAX
 *	(object, n)	(object, n - 1)	leave
 *	(object, 1)	0		leave, which returns it
 *	(object, n)	0		close
 * All are compare-and-swaps of the whole word, so a user is never lost or counted
 * twice, and a bay that was returned and claimed anew is either the same object's
 * again (its users are alike) or refused by the key.
 *
 * Ledger
 *  O1	The release that publishes a storey pairs with the acquire of who uses it:
 *	the kernel's zeroes come with it.
 *  O2	seq_cst of enter and of next: see the contract.
 *  O3	busy, record: release by the last one to use the context, acquire by who takes it.
 *  O4	leave, close: release of who takes users out, acquire of who looks how many are left (users, close)
 *	and of who finds that it is none any more (leave): it goes on as what another one has left it. */
#include "rt/storey.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/arch/arch.h"
#include "base/atomic.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	USERS_MASK = PK_BAY_USERS_MAX,
	CONTEXTS = PK_BAYS * PK_BAY_CONTEXTS, /* of a storey */
};

_Static_assert(PK_STOREYS_MORE *CONTEXTS < PK_CONTEXT_IDS, "contexts have no room among the names");

typedef struct pk_bay bay_set[PK_BAY_WAYS];

static bay_set *storeys[PK_SOCKETS_MAX + PK_STOREYS_MORE];
static uint32_t allotted; /* beyond the sockets' */

/* The key of a bay without users. User space has 56 bits of address at most; a tag
 * in the highest byte is no part of it. */
static uint64_t key_of(const void *object)
{
	return (uint64_t)(uintptr_t)object << 8;
}

static bool is_of(uint64_t key, const void *object)
{
	return (key & ~(uint64_t)USERS_MASK) == key_of(object) && key;
}

static unsigned set_of(const void *object)
{
	/* Fibonacci hashing: locks lie at regular distances. */
	return (unsigned)((key_of(object) >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % PK_BAY_SETS;
}

/* In an allotted storey the contexts lie behind the bays. */
static struct pk_waiter *contexts_of(unsigned storey)
{
	bay_set *bays = pk_load_acquire(&storeys[storey]); /* O1 */

	return bays ? (struct pk_waiter *)(bays + PK_BAY_SETS) : NULL;
}

static bay_set *map_storey(unsigned socket)
{
	bay_set *seen = NULL;
	size_t size = sizeof(bay_set) * PK_BAY_SETS;
	long addr;

	if (socket >= PK_SOCKETS_MAX)
		size += sizeof(struct pk_waiter) * CONTEXTS;
	addr = pk_arch_syscall(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr < 0 && addr > -4096)
		return NULL;
	/* Its pages are touched by their first user, who is on that socket. The kernel joins
	 * mappings that lie side by side: a huge page would be of several storeys. */
	pk_arch_syscall(SYS_madvise, addr, (long)size, MADV_NOHUGEPAGE, 0, 0, 0);
	if (pk_cas_seq_cst(&storeys[socket], &seen, (bay_set *)addr)) /* O1, O2 */
		return (bay_set *)addr;
	pk_arch_syscall(SYS_munmap, addr, (long)size, 0, 0, 0, 0);
	return pk_load_acquire(&storeys[socket]); /* O1 */
}

/* Become a user of a bay that is the object's; its key was `key`. */
static bool join(struct pk_bay *bay, const void *object, uint64_t key)
{
	while (is_of(key, object) && (key & USERS_MASK) < PK_BAY_USERS_MAX)
		if (pk_cas_seq_cst(&bay->key, &key, key + 1)) /* O2 */
			return true;
	return false;
}

struct pk_bay *pk_bay_enter(unsigned socket, const void *object)
{
	bay_set *storey = pk_load_acquire(&storeys[socket]); /* O1 */
	struct pk_bay *bay;

	/* In a packed struct, where x86 alone puts up with it: the key has no room for the lowest bits. */
	if (pk_unlikely((uintptr_t)object % 4))
		return NULL;
	if (pk_unlikely(!storey) && !(storey = map_storey(socket)))
		return NULL;
	bay = storey[set_of(object)];
	for (unsigned i = 0; i < PK_BAY_WAYS; i++)
		if (join(&bay[i], object, pk_load_relaxed(&bay[i].key)))
			return &bay[i];
	/* Who claims the same one, and comes later, joins. */
	for (unsigned i = 0; i < PK_BAY_WAYS; i++) {
		uint64_t key = pk_load_relaxed(&bay[i].key);

		if (!key && pk_cas_seq_cst(&bay[i].key, &key, key_of(object) | 1)) /* O2 */
			return &bay[i];
		if (join(&bay[i], object, key))
			return &bay[i];
	}
	return NULL;
}

unsigned pk_bay_leave(struct pk_bay *bay, const void *object)
{
	uint64_t key = pk_load_acquire(&bay->key); /* O4 */

	while (is_of(key, object))
		if (pk_cas_acq_rel(&bay->key, &key, (key & USERS_MASK) == 1 ? 0 : key - 1)) /* O4 */
			return key & USERS_MASK;
	return 0;
}

bool pk_bay_leave_any(unsigned socket, const void *object)
{
	for (struct pk_bay *bay = NULL; (bay = pk_bay_next(socket, object, bay));)
		if (pk_bay_leave(bay, object))
			return true;
	return false;
}

struct pk_bay *pk_bay_next(unsigned socket, const void *object, struct pk_bay *last)
{
	bay_set *storey = pk_load_seq_cst(&storeys[socket]); /* O2 */
	struct pk_bay *set;

	if (!storey)
		return NULL;
	set = storey[set_of(object)];
	for (struct pk_bay *bay = last ? last + 1 : set; bay < set + PK_BAY_WAYS; bay++)
		if (is_of(pk_load_seq_cst(&bay->key), object)) /* O2 */
			return bay;
	return NULL;
}

unsigned pk_bay_users(struct pk_bay *bay, const void *object)
{
	uint64_t key = pk_load_acquire(&bay->key);

	return is_of(key, object) ? key & USERS_MASK : 0;
}

const void *pk_bay_object(const struct pk_bay *bay)
{
	return (const void *)(uintptr_t)((pk_load_relaxed(&bay->key) & ~(uint64_t)USERS_MASK) >> 8);
}

bool pk_bay_close(struct pk_bay *bay, const void *object, unsigned users)
{
	uint64_t key = key_of(object) | users;

	return pk_cas_acq_rel(&bay->key, &key, 0);
}

uint32_t pk_bay_number(unsigned socket, const struct pk_bay *bay)
{
	/* relaxed: who has a bay there has acquired the storey */
	return socket * PK_BAYS + (uint32_t)(bay - pk_load_relaxed(&storeys[socket])[0]);
}

struct pk_bay *pk_bay_numbered(uint32_t number)
{
	bay_set *storey = number < PK_BAYS_MAX ? pk_load_acquire(&storeys[number / PK_BAYS]) : NULL; /* O1 */

	return storey ? storey[0] + number % PK_BAYS : NULL;
}

unsigned pk_storeys_allot(unsigned n)
{
	uint32_t before = pk_load_relaxed(&allotted);

	do {
		if (n > PK_STOREYS_MORE - before)
			return 0;
	} while (!pk_cas_release(&allotted, &before, before + n));
	return PK_SOCKETS_MAX + before;
}

struct pk_waiter *pk_context_take(unsigned storey, const struct pk_bay *bay, struct pk_record *record)
{
	uint32_t first = (uint32_t)(bay - storeys[storey][0]) * PK_BAY_CONTEXTS;

	for (uint32_t n = first; n < first + PK_BAY_CONTEXTS; n++) {
		struct pk_waiter *w = contexts_of(storey) + n;

		/* O3. One at a time takes here, so it need not be done in one. */
		if (pk_load_acquire(&w->busy) || pk_load_acquire(&w->record))
			continue;
		pk_store_relaxed(&w->busy, 1);
		w->record = record;
		w->id = PK_CONTEXT_IDS + 1 + (storey - PK_SOCKETS_MAX) * CONTEXTS + n;
		return w;
	}
	return NULL;
}

uint32_t pk_contexts_known(void)
{
	return pk_load_acquire(&allotted) * CONTEXTS;
}

struct pk_waiter *pk_context_nth(uint32_t n)
{
	struct pk_waiter *first = n < pk_contexts_known() ? contexts_of(PK_SOCKETS_MAX + n / CONTEXTS) : NULL;

	return first ? first + n % CONTEXTS : NULL;
}

static void free_contexts(struct pk_waiter *w)
{
	for (unsigned n = 0; n < CONTEXTS; n++, w++) {
		if (!w->id)
			continue; /* never used: its page is not to be touched */
		w->status = pk_in_state(w->status, PK_ORPHAN);
		w->spins = false;
		w->busy = 0;
		if (w->record != pk_self.record)
			w->record = NULL;
	}
}

void pk_storeys_fork_child(void)
{
	for (unsigned s = 0; s < PK_SOCKETS_MAX + allotted; s++)
		if (storeys[s]) {
			memset(storeys[s], 0, sizeof(bay_set) * PK_BAY_SETS);
			if (s >= PK_SOCKETS_MAX)
				free_contexts(contexts_of(s));
		}
}
