/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The table of loads, and how they lock; the contract is in load.h. */
#include "sim/load.h"

extern const struct sim_load sim_lbench, sim_line, sim_empty, sim_leveldb, sim_avl, sim_hash, sim_barrier, sim_dedup,
	sim_malloc, sim_wakeup, sim_after, sim_turns, sim_cache, sim_pool, sim_buffer,
	sim_sent;

const struct sim_load *const sim_loads[] = {&sim_lbench,  &sim_line,  &sim_empty,  &sim_leveldb, &sim_avl,  &sim_hash,
					    &sim_barrier, &sim_dedup, &sim_malloc, &sim_wakeup, &sim_after, &sim_turns,
					    &sim_cache,	  &sim_pool,   &sim_buffer, &sim_sent};
const unsigned sim_load_count = sizeof(sim_loads) / sizeof(sim_loads[0]);

void sim_lock(struct sim_lock *l)
{
	const struct sim_textbook *book = sim_textbook();
	uint64_t asked = sim_asks();

	if (book)
		book->lock(&l->textbook);
	else
		pk_mutex_lock(&l->mutex);
	sim_has(&l->probe, asked, false);
}

void sim_unlock(struct sim_lock *l)
{
	const struct sim_textbook *book = sim_textbook();

	sim_gives(&l->probe, false);
	if (book)
		book->unlock(&l->textbook);
	else
		pk_mutex_unlock(&l->mutex);
}

void sim_work_for(uint64_t ns)
{
	uint64_t cycles = sim_cycles(ns);

	if (cycles)
		sim_work(cycles / 2 + sim_random() % (cycles + 1));
}
