/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping together; the contract is in hall.h.
 *
 * Ledger
 *  O1	calls: release in pk_hall_call(), acquire in pk_hall_ready(): who has counted the call sees what was said before it,
 *	so it does not sleep on an old look and a new count. On an old count it does not sleep either, or is woken: the kernel
 *	compares it. (A handler's stir is its own thread's.) */
#include "rt/hall.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/compiler.h"

enum { PROBES = 4 }; /* halls at which an object looks for one that is free */

static struct {
	uint32_t calls;
	uint32_t then;	/* how many these were when another object wanted it in vain */
	const void *of; /* the object, or null */
} PK_ALIGNED(PK_CACHE_LINE) halls[PK_HALLS];

static bool take(unsigned hall, const void *from, const void *object)
{
	if (!pk_cas_relaxed(&halls[hall].of, &from, object))
		return false;
	pk_store_relaxed(&halls[hall].then, pk_load_relaxed(&halls[hall].calls) - 1);
	return true;
}

/* Its own; one that is free; one where nobody has been called since it was last wanted in vain. */
unsigned pk_hall_take(const void *object)
{
	uint32_t hash = (uint32_t)((uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15) >> 32);
	unsigned hall[PROBES];
	const void *of[PROBES];

	for (unsigned i = 0; i < PROBES; i++) {
		hall[i] = (hash + i) % PK_HALLS;
		of[i] = pk_load_relaxed(&halls[hall[i]].of);
		if (of[i] == object)
			return hall[i];
	}
	for (unsigned i = 0; i < PROBES; i++)
		if (!of[i] && take(hall[i], NULL, object))
			return hall[i];
	for (unsigned i = 0; i < PROBES; i++) {
		uint32_t calls = pk_load_relaxed(&halls[hall[i]].calls);

		if (pk_load_relaxed(&halls[hall[i]].then) == calls && take(hall[i], of[i], object))
			return hall[i];
		pk_store_relaxed(&halls[hall[i]].then, calls);
	}
	return PK_HALLS;
}

void pk_hall_leave(unsigned hall, const void *object)
{
	if (hall < PK_HALLS)
		pk_cas_relaxed(&halls[hall].of, &object, NULL);
}

uint32_t pk_hall_ready(unsigned hall)
{
	return pk_load_acquire(&halls[hall].calls); /* O1 */
}

int pk_hall_sleep(unsigned hall, uint32_t calls, uint32_t serial, const struct pk_deadline *deadline)
{
	return pk_futex_wait_bits(&halls[hall].calls, calls, pk_hall_bit(serial), deadline);
}

void pk_hall_call(unsigned hall, uint32_t bits)
{
	pk_add_release(&halls[hall].calls, 1); /* O1 */
	pk_futex_wake_bits(&halls[hall].calls, bits);
}

/* relaxed: for the thread itself */
void pk_hall_stir(unsigned hall)
{
	pk_add_relaxed(&halls[hall].calls, 1);
}

void pk_hall_fork_child(void)
{
	for (unsigned hall = 0; hall < PK_HALLS; hall++)
		pk_hall_stir(hall);
}
