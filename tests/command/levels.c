/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the library sees of a machine, for comparison with the command: `levels ROOT DESCRIPTION LEVELS [FIRST LAST]' reads
 * below ROOT, or takes a description as of PARKADE_TOPOLOGY, with levels as of PARKADE_LEVELS, as if it might use the
 * CPUs from FIRST to LAST. Prints an object: CPUs to use
 * on each socket, levels, and of all kinds how many cohorts there are and the cohort of each CPU. */
#include "base/arch/arch.h"

static unsigned long first, last; /* 0, 0: ask the kernel */

static long affinity(long number, long a, long bytes, long mask)
{
	unsigned long *words = (unsigned long *)mask;

	if (!last)
		return pk_arch_syscall(number, a, bytes, mask, 0, 0, 0);
	for (unsigned long cpu = first; cpu <= last; cpu++)
		words[cpu / (8 * sizeof(long))] |= 1ul << cpu % (8 * sizeof(long));
	return bytes;
}

#define pk_arch_syscall(number, a, b, c, d, e, f) affinity(number, a, b, c)
#include "rt/topology.c"

#include "rt/config.h"

enum { CPUS = 128 };

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6)
		return 2;
	if (argc == 6) {
		first = strtoul(argv[4], NULL, 10);
		last = strtoul(argv[5], NULL, 10);
	}
	pk_topology_read(argv[1], argv[2]);
	pk_levels_read(argv[1], argv[3]);
	printf("{\"sockets\": [");
	for (unsigned s = 0; s < pk_sockets; s++)
		printf("%s%u", s ? ", " : "", pk_socket_cpus(s));
	printf("], \"levels\": [");
	for (unsigned i = 0; i < pk_levels.n; i++)
		printf("%s\"%s\"", i ? ", " : "", pk_cohort_name(pk_levels.kind[i]));
	printf("]");
	for (int kind = 0; kind < PK_COHORTS; kind++) {
		printf(", \"%s\": [%u, [", pk_cohort_name(kind), pk_cohorts(kind));
		for (unsigned cpu = 0; cpu < CPUS; cpu++)
			printf("%s%u", cpu ? ", " : "", cohort_at(kind, cpu));
		printf("]]");
	}
	printf("}\n");
	return 0;
}
