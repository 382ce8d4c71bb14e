/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The table of workloads: a row here is what a new one needs, beside its file. */
#include "bench.h"

extern const struct workload workload_alone, workload_mutex, workload_spin, workload_rwlock, workload_hash,
	workload_avl, workload_alloc, workload_pingpong, workload_broadcast, workload_buffer, workload_deadline,
	workload_pool, workload_accept, workload_barrier, workload_pipeline, workload_memory;

const struct workload *const bench_workloads[] = {
	&workload_alone,     &workload_mutex,	 &workload_spin,     &workload_rwlock,
	&workload_hash,	     &workload_avl,	 &workload_alloc,    &workload_pingpong,
	&workload_broadcast, &workload_buffer,	 &workload_deadline, &workload_pool,
	&workload_accept,    &workload_barrier,	 &workload_pipeline, &workload_memory,
	NULL,
};
