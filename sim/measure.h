/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What is counted while a load runs, and asserted: that who has a lock has it alone. Costs
 * no simulated time. */
#ifndef SIM_MEASURE_H
#define SIM_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/* One for each lock that is looked at; zeroed. */
struct sim_probe {
	unsigned holder, last; /* 1 + CPU; who has it, who had it last */
	unsigned readers;
};

enum { SIM_BUCKETS = 64 * 8 };

struct sim_measure {
	uint64_t taken, handed[5 + 1]; /* hand-overs by level; to itself: [5] */
	uint64_t waits[SIM_BUCKETS];   /* by time, eight to a doubling */
	uint64_t longest;
	uint64_t *ops; /* of each thread */
	bool begun, broken;
};

extern struct sim_measure sim_measure;

/* Around a wait for a lock: when it begins, and that it is over. Without `shared` nobody
 * else may have it. */
uint64_t sim_asks(void);
void sim_has(struct sim_probe *p, uint64_t asked, bool shared);
void sim_gives(struct sim_probe *p, bool shared);

/* The current thread's number, and the node where it is. */
unsigned sim_number(void);
unsigned sim_node(void);

/* One operation of the load is done. */
void sim_op(void);

/* Whether the time is over. */
bool sim_over(void);

/* For assertions: `what' does not hold. */
void sim_fail(const char *what);

/* The time of that many permille of waits, in cycles. */
uint64_t sim_wait_permille(unsigned permille);

#endif
