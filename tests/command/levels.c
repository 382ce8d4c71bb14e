/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the library sees of a machine, for comparison with the command: `levels ROOT DESCRIPTION LEVELS' reads below
 * ROOT, or takes a description as of PARKADE_TOPOLOGY, with levels as of PARKADE_LEVELS. Prints an object: CPUs to use
 * on each socket, levels, and of all kinds how many cohorts there are and the cohort of each CPU. */
#include "rt/topology.c"

#include "rt/config.h"

enum { CPUS = 128 };

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
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
