/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What a run has been asked for. */
#ifndef SIM_MAIN_H
#define SIM_MAIN_H

#include <stdbool.h>
#include <stdint.h>

/* When counting begins, and when the load's threads are to come to an end. */
extern uint64_t sim_warm, sim_end_of_load;

/* Forget what has been counted. */
void sim_start_over(void);

/* From when to when, in cycles, what happens is printed: a line for each access to memory
 * that is shared, each look at a futex and each lock that changes hands. */
extern uint64_t sim_trace_from, sim_trace_to;

void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline bool sim_traces(void)
{
	extern uint64_t sim_now;

	return sim_now >= sim_trace_from && sim_now < sim_trace_to;
}

#endif
