/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Cache lines: who holds which, and what it costs to get one.
 *
 * A line is held by any number of cores to be read, or by one to be written (MESI; a core's
 * threads share its caches). Who does not hold it as needed gets it from the nearest core
 * that has it, else from memory, and takes turns with the others who want it: this is where
 * contention costs time. A line's home is the node that touched it first.
 *
 * A plain or atomic store does not wait for its line, as long as nothing depends on it: the
 * CPU's next read-modify-write or fence does (a store buffer, in order, of any length).
 *
 * Not modelled: capacity, bandwidth, prefetching (but for what is asked for: sim_line_fetch()), reads ahead of their
 * turn. */
#ifndef SIM_LINES_H
#define SIM_LINES_H

#include "harness/access.h"
#include "sim/engine.h"

enum { SIM_LINE = 64 };

/* Transfers to a core, by how far away the line was; from memory. */
extern uint64_t sim_transfers[SIM_LEVELS], sim_fetches;

/* Stalls: before one of eight accesses a thread waits for up to so many cycles. 0: none. */
extern unsigned sim_stall;

void sim_lines_setup(void);

/* The current thread makes that access, or is about to: the time passes. */
void sim_line_access(const struct hn_access *a);

/* A read-modify-write of the kernel's own, at an address that is nobody's; then the line is
 * kept for so long. */
void sim_line_lock(uintptr_t address, unsigned held);

/* The current thread will read that line: it comes, and nobody waits for it yet. */
void sim_line_fetch(uintptr_t address);

/* A round of spinning of the current thread, of `budget' that are left: how many have
 * passed. More than one only if it is seen to look at the same lines each time. */
unsigned sim_line_spin(unsigned budget);

/* Off with its watches; whether there were any. */
bool sim_unwatch(struct sim_thread *t);

#endif
