/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Simulated time, threads and CPUs.
 *
 * Threads are coroutines on one host thread, so that what they do between two calls
 * from here is atomic; the order in which they go on is that of simulated time, and of
 * nothing else: two runs with the same seed are the same run. Times are in cycles.
 *
 * A CPU runs one thread at a time. A thread that can go on waits for its CPU in a queue;
 * who has run for a quantum while others wait goes to its end. An idle CPU takes a
 * thread from the longest queue of its node, then of any. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "rt/thread.h"
#include "sim/machine.h"

struct sim_line;
struct sim_thread;

struct sim_event {
	uint64_t at, turn; /* of two at the same time the one that was asked for first */
	unsigned slot;	   /* in the heap, from 1 on; 0: nowhere */
	bool is_cpu;
};

/* A thread that spins sleeps until one of the lines that it looks at is taken away. */
enum {
	SIM_WATCHES = 8,
	SIM_FETCHES = 10, /* line fill buffers, of a Haswell and its like */
};

struct sim_watch {
	struct sim_thread *thread;
	struct sim_line *line; /* null: not in use */
	struct sim_watch *next, **link;
};

enum sim_state { SIM_RUNNING, SIM_READY, SIM_BLOCKED, SIM_DONE };

struct sim_thread {
	struct sim_event event; /* running: when it goes on; blocked: its deadline */
	enum sim_state state;
	unsigned number, cpu;
	bool soft;	    /* what it does now can be interrupted: work, or spinning */
	bool late;	    /* its deadline has passed */
	uint64_t remaining; /* ready: of what it was doing */
	uint64_t debt;	    /* cycles spent that the clock does not know of yet */
	struct sim_thread *next;
	struct pk_thread self;
	void (*body)(unsigned number);
	char *stack;
	jmp_buf place;
	ucontext_t start;
	bool started;
	uint64_t dice, chance;
	/* What it has loaded from since its last round of spinning. */
	struct sim_line *seen[SIM_WATCHES];
	unsigned loads, loads_before;
	struct sim_watch watch[SIM_WATCHES];
	/* lines.c: it waits for its turn at a line, and is not preempted there */
	bool asks;
	struct sim_thread *asks_next;
	/* lines.c: what it has asked for, and when that is there */
	struct {
		struct sim_line *line;
		uint64_t done;
	} fetches[SIM_FETCHES];
	uint64_t fetched; /* all of it */
	/* kernel.c */
	const void *futex;
	uint32_t futex_bits;
	struct sim_thread *futex_next;
	/* Where glibc's struct rseq would be, or as much of it as is looked at. */
	uint32_t rseq[16];
};

struct sim_cpu {
	struct sim_event tick;
	struct sim_thread *current, *first, **last;
	unsigned ready;
	uint64_t began, since; /* its current thread has been given it, and runs */
	bool resched;
	uint64_t stores; /* when the last of its stores is done */
};

/* The current thread, or null outside of a run. */
extern struct sim_thread *sim_self;
extern uint64_t sim_now;
extern struct sim_cpu *sim_cpus;

/* What counts. */
struct sim_counts {
	uint64_t switches, preempted, migrated, parks, wakes, futexes;
	uint64_t busy; /* cycles of processor time, while the load is measured */
};
extern struct sim_counts sim_counts;

/* Once, after the machine has been read. */
void sim_engine_setup(uint64_t seed);

/* A thread that will run body(number) on that CPU, from the start on. */
struct sim_thread *sim_spawn(void (*body)(unsigned number), unsigned number, unsigned cpu);

enum sim_end { SIM_FINISHED, SIM_DEADLOCK, SIM_TOO_LONG };

/* Run until all have finished, nobody can go on, or that time. */
enum sim_end sim_run(uint64_t limit);

/* For the current thread. */
void sim_wait_until(uint64_t at, bool soft);
void sim_block(uint64_t deadline); /* until sim_ready(), or then; UINT64_MAX: never */
void sim_suspend(void);		   /* on its CPU, until sim_resume() */
void sim_resume(struct sim_thread *t, uint64_t at);
void sim_yield(void);
uint64_t sim_time(void); /* now, and what it has spent since */
uint64_t sim_random(void);
uint64_t sim_chance(void); /* the same, of what happens to it: it does what it does all the same */

/* A blocked thread is about to be woken: it will not be late. Then it can go on; who calls
 * has paid for it meanwhile. */
void sim_claim(struct sim_thread *t);
void sim_ready(struct sim_thread *t);

/* It sleeps with watches on: let it go on then, if that is earlier. */
void sim_hasten(struct sim_thread *t, uint64_t at);

/* Work that can be interrupted. */
void sim_work(uint64_t cycles);

/* Work too short to be interrupted. */
static inline void sim_compute(unsigned cycles)
{
	if (sim_self)
		sim_self->debt += cycles;
}

/* Whether that is the current thread's own stack. */
static inline bool sim_is_stack(const volatile void *p)
{
	extern const uintptr_t sim_stack_size;

	return (uintptr_t)p - (uintptr_t)sim_self->stack < sim_stack_size;
}

/* Memory of the simulated program: zeroed, and at the same address in each run. */
void *sim_memory(uint64_t size);

#endif
