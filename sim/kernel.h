/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The kernel of the simulated machine, as far as the library asks it for something:
 * futexes, the time, memory, and the files that describe the machine. */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

#include <time.h>

#include "sim/engine.h"

/* A thread that sleeps on a futex does so no more: its time is over. */
void sim_futex_forget(struct sim_thread *t);

/* Every clock shows the same. */
struct timespec sim_clock(void);

/* Calls that are not answered: seen in a run, they are a gap in the simulation. */
extern unsigned sim_unknown_calls;

#endif
