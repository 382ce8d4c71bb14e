/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Contestants: queue locks as the papers have them, without what the library puts around its own. Who waits is in the
 * queue, and spins until it is its turn: nobody takes the lock in front of the queue, sleeps, or gives up.
 *
 *	mcs	Mellor-Crummey and Scott, TOCS 1991
 *	cna	Dice and Kogan, EuroSys 2019, section 5
 *
 * Compiled as the library is. A thread has at most one of them at a time. */
#ifndef SIM_TEXTBOOK_H
#define SIM_TEXTBOOK_H

struct sim_textbook_node;

/* A free one is zero. */
struct sim_textbook_lock {
	struct sim_textbook_node *tail;
};

struct sim_textbook {
	const char *name;
	void (*lock)(struct sim_textbook_lock *l);
	void (*unlock)(struct sim_textbook_lock *l);
};

extern const struct sim_textbook sim_textbooks[];
extern const unsigned sim_textbook_count;

/* What the loads' mutexes are instead of the library's, or null. (A function: what is not compiled as the library is
 * costs nothing.) */
const struct sim_textbook *sim_textbook(void);

#endif
