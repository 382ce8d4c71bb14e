/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The fairness and locality probe: who had a lock after whom, on which node, and after how long a wait.
 *
 * Each thread that gets the lock notes so while it holds it: the notes are plain memory, and the lock guards them.
 *
 *	turn		the acquisitions in a row by one thread
 *	hand-over	between two turns: the lock goes from one thread to another
 *	run		the turns in a row on one node; a thread that comes back on another node begins one
 *
 * Paper: Dice and Kogan, EuroSys 2019: the fairness factor of section 7.1.1. With an odd number of threads the
 * middle one counts half to each half, so that a lock that is even is always at 0.5. */
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

struct handover {
	int threads;
	uint64_t *taken; /* how often, by each thread */
	int thread;	 /* who had it last, or -1 */
	unsigned node;	 /* where */
	uint64_t handovers, local;
	uint64_t runs, run, longest_run, turns; /* `run`: turns in the one that goes on */
	uint64_t longest;			/* wait, in nanoseconds */
	unsigned (*socket)(void);		/* parkade's, or null */
};

struct handover_figures {
	uint64_t acquisitions, handovers, least; /* `least`: of the thread with the fewest acquisitions */
	double local;				 /* share of the hand-overs that stayed on the node; 0 of none */
	double fairness; /* share of the busier half of the threads: 0.5 fair, to 1; 0 of none */
	double run;	 /* mean length, in turns */
	uint64_t longest_run, longest;
};

/* Threads are numbered from 0. False: no memory. */
bool handover_init(struct handover *h, int threads);
void handover_free(struct handover *h);

/* By the holder of the lock. `waited`: nanoseconds from its call until it had the lock. */
void handover_note(struct handover *h, int thread, unsigned node, uint64_t waited);

/* When nobody notes any more, or with the lock held. Sorts the counts: the last call. */
struct handover_figures handover_figures(struct handover *h);

/* The caller's node: parkade's idea of it where parkade is loaded, else the kernel's. */
unsigned handover_node(const struct handover *h);

/* The clock for waits, in nanoseconds. */
uint64_t handover_now(void);

#endif
