/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Counts; the contract is in measure.h. */
#include "sim/measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/engine.h"
#include "sim/main.h"

struct sim_measure sim_measure;

uint64_t sim_asks(void)
{
	return sim_time();
}

/* What comes before is warming up. */
static void begin(void)
{
	if (sim_time() < sim_warm || sim_measure.begun)
		return;
	sim_measure.begun = true;
	sim_start_over();
}

/* Eight to a doubling: at most an eighth too low. */
static unsigned bucket(uint64_t cycles)
{
	unsigned log;

	if (cycles < 8)
		return (unsigned)cycles;
	log = 63 - (unsigned)__builtin_clzll(cycles);
	return (log - 2) * 8 + (unsigned)(cycles >> (log - 3) & 7);
}

static uint64_t of_bucket(unsigned b)
{
	return b < 8 ? b : (8ull + b % 8) << (b / 8 - 1);
}

void sim_has(struct sim_probe *p, uint64_t asked, bool shared)
{
	uint64_t waited = sim_time() - asked;
	unsigned cpu = sim_self->cpu;

	begin();
	if (p->holder || (p->readers && !shared))
		sim_fail("two have the lock");
	if (shared)
		p->readers++;
	else
		p->holder = 1 + cpu;
	sim_measure.taken++;
	sim_measure.waits[bucket(waited)]++;
	if (waited > sim_measure.longest)
		sim_measure.longest = waited;
	if (sim_traces())
		sim_trace("has it, after %llu ns", (unsigned long long)sim_ns(waited));
	if (p->last && !shared)
		sim_measure.handed[p->last == 1 + cpu ? SIM_LEVELS : sim_level_of(p->last - 1, cpu)]++;
	p->last = 1 + cpu;
}

void sim_gives(struct sim_probe *p, bool shared)
{
	if (sim_traces())
		sim_trace("lets it go");
	if (shared)
		p->readers--;
	else
		p->holder = 0;
}

unsigned sim_number(void)
{
	return sim_self->number;
}

unsigned sim_node(void)
{
	return sim_node_of(sim_self->cpu);
}

void sim_op(void)
{
	begin();
	if (!sim_over())
		sim_measure.ops[sim_self->number]++;
}

bool sim_over(void)
{
	return sim_time() >= sim_end_of_load;
}

void sim_fail(const char *what)
{
	if (!sim_measure.broken)
		fprintf(stderr, "parkade-sim: at %llu ns, thread %u: %s\n", (unsigned long long)sim_ns(sim_time()),
			sim_self ? sim_self->number : 0, what);
	sim_measure.broken = true;
}

uint64_t sim_wait_permille(unsigned permille)
{
	uint64_t sum = 0;

	for (unsigned b = 0; b < SIM_BUCKETS; b++) {
		sum += sim_measure.waits[b];
		if (sum * 1000 >= sim_measure.taken * permille)
			return of_bucket(b);
	}
	return sim_measure.longest;
}
