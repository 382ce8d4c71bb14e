/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The arena of thread records; the contract is in arena.h.
 *
 * Records lie in chunks of 32, 64, 128, ... The first is static, so that most
 * programs need no mapping of their own and a program whose memory is limited
 * still queues. A chunk is mapped when the records before it are all in use.
 *
 * The free list is a stack of indices, its head tagged against ABA:
 *	free = tag << 32 | 1 + index
 * Ledger
 *  O1	release in pk_record_give() pairs with acquire in pop(): the next
 *	thread sees the record as the last one left it.
 *  O2	release of a chunk's address pairs with acquire in chunk_of(): the
 *	names of its nodes come with it.
 *  O3	release of `used` pairs with acquire in pk_waiter_named(),
 *	pk_record_of() and pk_stat_sum(): every record below it lies in a mapped
 *	chunk. */
#include "rt/arena.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/arch.h"
#include "rt/storey.h"

enum {
	FIRST_CHUNK_LOG2 = 5,
	FIRST_CHUNK = 1 << FIRST_CHUNK_LOG2,
	CHUNKS = 16, /* 2 million records; half of the names are left to contexts (storey.h) */
};

_Static_assert(((uint64_t)FIRST_CHUNK << CHUNKS) * PK_RECORD_NODES <= PK_CONTEXT_IDS,
	       "an id has no room for that many records");

const char *const pk_stat_names[PK_STATS] = {
#define PK_STAT(name, doc) #name,
#include "rt/stat.def"
#undef PK_STAT
};

static struct pk_record first_chunk[FIRST_CHUNK];
static struct pk_record *chunks[CHUNKS] = {first_chunk};
static uint32_t used;  /* records ever taken, and */
static uint32_t first; /* those of them that were a forking ancestor's */
static uint32_t known; /* how many there were in a forking ancestor */
static uint64_t free_list;

/* In a page that the kernel empties at fork, where it can: then what was inherited
 * names ghosts from the child's first instruction on, whichever fork it was (_Fork
 * and clone run no handlers) and whoever's handler runs before ours. */
static uint32_t plain_incarnation;
static uint32_t *incarnation = &plain_incarnation;
static uint32_t *claimed; /* there too, or null */
static uint32_t plain_settled[2] = {UINT32_MAX};
uint32_t *pk_settled = plain_settled; /* there too, or 0 for good; with how often it was asked for */

static inline unsigned chunk_number(uint32_t index)
{
	return 31 - __builtin_clz(index + FIRST_CHUNK) - FIRST_CHUNK_LOG2;
}

static inline uint32_t chunk_first(unsigned chunk)
{
	return ((uint32_t)FIRST_CHUNK << chunk) - FIRST_CHUNK;
}

static struct pk_record *record_at(uint32_t index)
{
	unsigned c = chunk_number(index);

	return pk_load_acquire(&chunks[c]) + (index - chunk_first(c)); /* O2 */
}

static bool map_chunk(unsigned chunk)
{
	size_t size = ((size_t)FIRST_CHUNK << chunk) * sizeof(struct pk_record);
	struct pk_record *seen = NULL;
	long addr;

	if (chunk >= CHUNKS)
		return false;
	if (pk_load_acquire(&chunks[chunk]))
		return true;
	addr = pk_arch_syscall(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (addr < 0 && addr > -4096)
		return false;
	if (!pk_cas_release(&chunks[chunk], &seen, (struct pk_record *)addr)) /* O2 */
		pk_arch_syscall(SYS_munmap, addr, (long)size, 0, 0, 0, 0);
	return true;
}

static struct pk_record *pop(void)
{
	uint64_t head = pk_load_acquire(&free_list); /* O1 */

	while ((uint32_t)head) {
		struct pk_record *r = record_at((uint32_t)head - 1);
		uint64_t want = (head & ~(uint64_t)UINT32_MAX) + ((uint64_t)1 << 32) + pk_load_relaxed(&r->next_free);

		/* O1; on failure `head` is what the next round starts from */
		if (pk_cas_acq_rel(&free_list, &head, want))
			return r;
	}
	return NULL;
}

static struct pk_record *grow(void)
{
	uint32_t index = pk_load_relaxed(&used);

	do {
		if (!map_chunk(chunk_number(index)))
			return NULL;
	} while (!pk_cas_release(&used, &index, index + 1)); /* O3 */

	struct pk_record *r = record_at(index);

	r->index = index;
	pk_store_relaxed(&r->thread, 0);
	for (unsigned i = 0; i < PK_RECORD_NODES; i++) {
		struct pk_waiter *w = &r->node[i];

		w->id = index * PK_RECORD_NODES + i + 1;
		w->record = r;
		pk_store_relaxed(&w->busy, 0);
	}
	for (unsigned i = 0; i < PK_STATS; i++)
		pk_store_relaxed(&r->stat[i], 0);
	return r;
}

struct pk_record *pk_record_take(void)
{
	struct pk_record *r = pop();

	return r ? r : grow();
}

void pk_record_give(struct pk_record *r)
{
	uint64_t head = pk_load_relaxed(&free_list);
	uint64_t want;

	do {
		pk_store_relaxed(&r->next_free, (uint32_t)head);
		want = (head & ~(uint64_t)UINT32_MAX) + ((uint64_t)1 << 32) + r->index + 1;
	} while (!pk_cas_release(&free_list, &head, want)); /* O1 */
}

struct pk_waiter *pk_waiter_take(struct pk_record *r)
{
	for (unsigned i = 0; i < PK_RECORD_NODES; i++)
		if (!pk_load_relaxed(&r->node[i].busy) && !pk_xchg_acquire(&r->node[i].busy, 1))
			return &r->node[i];
	return NULL;
}

unsigned pk_waiters_idle(const struct pk_record *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PK_RECORD_NODES; i++)
		n += !pk_load_relaxed(&r->node[i].busy);
	return n;
}

uint64_t pk_waiter_name(const struct pk_waiter *w)
{
	return (uint64_t)pk_load_relaxed(incarnation) << 32 | (uint32_t)w->policy << PK_NAME_POLICY_SHIFT | w->id;
}

struct pk_waiter *pk_waiter_named(uint64_t name)
{
	uint32_t id = (uint32_t)name & ((1u << PK_NAME_POLICY_SHIFT) - 1);

	if (!id || name >> 32 != pk_load_relaxed(incarnation))
		return NULL;
	if (id > PK_CONTEXT_IDS)
		return pk_context_nth(id - PK_CONTEXT_IDS - 1);
	if ((id - 1) / PK_RECORD_NODES >= pk_load_acquire(&used)) /* O3 */
		return NULL;					  /* no name that we gave: the object is garbage */
	return &record_at((id - 1) / PK_RECORD_NODES)->node[(id - 1) % PK_RECORD_NODES];
}

uint32_t pk_incarnation(void)
{
	return pk_load_acquire(incarnation);
}

void pk_incarnation_setup(void)
{
	enum { PAGE = 4096 }; /* or larger: the kernel rounds up */
	long page = pk_arch_syscall(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	bool mapped = page >= 0 || page <= -4096;

	if (mapped && pk_arch_syscall(SYS_madvise, page, PAGE, MADV_WIPEONFORK, 0, 0, 0) == 0) {
		claimed = (incarnation = (uint32_t *)page) + 1;
		pk_settled = incarnation + 2;
		pk_settle(true);
		return;
	}
	/* Kernels before 4.14, and gVisor. A child that runs no handlers cannot be told from its parent, so everybody asks. */
	if (mapped)
		pk_arch_syscall(SYS_munmap, page, PAGE, 0, 0, 0, 0);
	pk_settle_never();
}

bool pk_incarnation_claim(void)
{
	return !claimed || !pk_xchg_acquire(claimed, 1);
}

void pk_settle(bool known)
{
	/* Who gives a thread another number by hand does so at once. */
	enum { ASKS = 100 };

	if (pk_settled == plain_settled)
		return;
	if (known || pk_add_relaxed(&pk_settled[1], 1) + 1 >= ASKS)
		pk_store_relaxed(pk_settled, UINT32_MAX);
}

void pk_settle_never(void)
{
	pk_store_relaxed(plain_settled, 0);
	pk_settled = plain_settled;
}

/* The process ID tells siblings apart (they may share memory), the count of
 * forks tells a process from its ancestors (whose ID may be used again). */
void pk_incarnation_next(void)
{
	static uint32_t forks;
	long pid = pk_arch_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	/* release: the arena is ready for who sees it */
	pk_store_release(incarnation, ++forks << 22 | ((uint32_t)pid & 0x3fffff));
}

/* The bays are about to go. Who was counted in one is counted by the entry; who was
 * counted in the lock meanwhile, there. */
static void keep_reads(struct pk_reads *reads)
{
	for (unsigned n = 0; n < PK_RECORD_READS; n++) {
		uint64_t lock = reads->lock[n] & ~(uint64_t)PK_READ_TAG;

		if (reads->lock[n] == (lock | PK_READ_IN_BAY))
			reads->lock[n] = lock | (pk_bay_leave_any(reads->socket[n], (void *)lock) ? PK_READ_HERE
												  : PK_READ_CENTRAL);
	}
}

void pk_arena_fork_child(uint32_t kept)
{
	known = pk_arena_known();
	for (uint32_t i = 0; i < known; i++) {
		keep_reads(&record_at(i)->reads);
		/* admit/ticket.h looks among all nodes for one that has a number. */
		for (struct pk_waiter *w = record_at(i)->node; w < record_at(i)->node + PK_RECORD_NODES; w++) {
			w->status = pk_in_state(w->status, PK_ORPHAN);
			w->spins = false; /* rt/spin.c counts nobody any more */
		}
	}
	used = first = kept;
	free_list = 0;
}

uint32_t pk_arena_used(void)
{
	return pk_load_relaxed(&used);
}

uint32_t pk_arena_known(void)
{
	uint32_t n = pk_load_acquire(&used); /* O3 */

	return n > known ? n : known;
}

struct pk_record *pk_record_nth(uint32_t index)
{
	return record_at(index);
}

struct pk_record *pk_record_of(pthread_t thread, const struct pk_record *after)
{
	uint32_t n = pk_load_acquire(&used); /* O3 */

	for (uint32_t i = after ? after->index + 1 : first; i < n; i++) {
		struct pk_record *r = record_at(i);

		if (pk_load_acquire(&r->thread) == thread)
			return r;
	}
	return NULL;
}

uint64_t pk_stat_sum(int which)
{
	uint32_t n = pk_load_acquire(&used); /* O3 */
	uint64_t sum = 0;

	for (uint32_t i = first; i < n; i++)
		sum += pk_load_relaxed(&record_at(i)->stat[which]);
	return sum;
}
