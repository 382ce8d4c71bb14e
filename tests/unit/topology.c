/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine as sysfs, cgroupfs and PARKADE_TOPOLOGY describe it. Each case runs in a process of its own (CK_FORK),
 * because the topology is read once. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_NUMA
#include <numa.h>
#endif

#include "rt/config.h"
#include "rt/topology.h"
#include "unit.h"

static char root[] = "/tmp/parkade-topology-XXXXXX";

/* A file below the root, with its directories. */
static void file(const char *path, const char *text)
{
	char name[PATH_MAX];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		ck_assert(!mkdir(name, 0700) || errno == EEXIST);
	}
	f = fopen(name, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void fresh_root(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void)
{
	char command[PATH_MAX + 16];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

static unsigned socket_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	return pk_socket_here(0);
}

static int cpus_here(int cpu[2])
{
	cpu_set_t set;
	int n = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			cpu[n++] = i;
	return n;
}

/* Nodes with gaps in their numbers become sockets without, and each CPU is on its own. */
START_TEST(nodes)
{
	char list[32];
	cpu_set_t two;
	int cpu[2];

	fresh_root();
	if (cpus_here(cpu) == 2) {
		CPU_ZERO(&two);
		CPU_SET(cpu[0], &two);
		CPU_SET(cpu[1], &two);
		ck_assert_int_eq(sched_setaffinity(0, sizeof(two), &two), 0); /* others would be of socket 0 */
		file("/sys/devices/system/node/has_cpu", "1,3-4\n");
		snprintf(list, sizeof(list), "4000-4002,%d\n", cpu[1]);
		file("/sys/devices/system/node/node1/cpulist", list);
		snprintf(list, sizeof(list), "%d\n", cpu[0]);
		file("/sys/devices/system/node/node3/cpulist", list);
		file("/sys/devices/system/node/node4/cpulist", "4004\n");
		pk_topology_read(root, "");
		ck_assert_uint_eq(pk_sockets, 3);
		ck_assert_uint_eq(pk_socket_cpus(0), 1);
		ck_assert_uint_eq(pk_socket_cpus(1), 1);
		ck_assert_uint_eq(pk_socket_cpus(2), 0);
		ck_assert_uint_eq(socket_on(cpu[0]), 1);
		ck_assert_uint_eq(socket_on(cpu[1]), 0);
	}
	remove_root();
}
END_TEST

/* Nothing to read, or nonsense: one socket, with the CPUs of the affinity mask. */
START_TEST(refused)
{
	static const char *const nonsense[9] = {NULL, "", "\n", "x", "0", "7-", "-", "9-3\n", ",,,,"};
	int cpu[2];
	int n = cpus_here(cpu);

	fresh_root();
	if (nonsense[_i])
		file("/sys/devices/system/node/has_cpu", nonsense[_i]);
	pk_topology_read(root, "");
	ck_assert_uint_eq(pk_sockets, 1);
	ck_assert_uint_ge(pk_socket_cpus(0), (unsigned)n);
	ck_assert_uint_eq(pk_socket_here(5), 0);
	remove_root();
}
END_TEST

/* The least quota on the way up counts; less than a CPU is one. */
START_TEST(quota)
{
	fresh_root();
	file("/proc/self/cgroup", "1:cpu:/x\n0::/slice/service\n");
	file("/sys/fs/cgroup/cpu.max", "900000 100000\n");
	file("/sys/fs/cgroup/slice/cpu.max", "50000 100000\n");
	file("/sys/fs/cgroup/slice/service/cpu.max", "max 100000\n");
	pk_topology_read(root, "");
	ck_assert_uint_eq(pk_socket_cpus(0), 1);
	remove_root();
}
END_TEST

START_TEST(no_quota)
{
	int cpu[2];
	int n = cpus_here(cpu);

	fresh_root();
	file("/proc/self/cgroup", "0::/\n");
	file("/sys/fs/cgroup/cpu.max", "max 100000\n");
	pk_topology_read(root, "");
	ck_assert_uint_ge(pk_socket_cpus(0), (unsigned)n);
	remove_root();
}
END_TEST

static const struct {
	const char *text;
	unsigned sockets, cpus; /* 0: not a description */
} descriptions[] = {
	{"1", 1, 1},	     {"4", 4, 1},	  {"2x2", 2, 2},
	{"2x18x2", 2, 36},   {"8x2x12x2", 8, 48}, {"4x4@thread", 4, 4},
	{"256x32", 256, 32}, {"x", 0, 0},	  {"2x", 0, 0},
	{"x2", 0, 0},	     {"0", 0, 0},	  {"2x0", 0, 0},
	{"-2", 0, 0},	     {"2x-2", 0, 0},	  {"+2", 0, 0},
	{"2x2x2x2x2", 0, 0}, {"257", 0, 0},	  {"2x99999999999", 0, 0},
	{"2x2@", 0, 0},	     {"2x2@cpu", 0, 0},	  {"2x2 ", 0, 0},
	{"banana", 0, 0},    {"100x100", 0, 0},
};

START_TEST(description)
{
	fresh_root();
	pk_config.topology = descriptions[_i].text;
	pk_topology_read(root, descriptions[_i].text);
	if (descriptions[_i].sockets) {
		ck_assert_uint_eq(pk_sockets, descriptions[_i].sockets);
		ck_assert_uint_eq(pk_socket_cpus(0), descriptions[_i].cpus);
		if (strchr(descriptions[_i].text, '@'))
			for (unsigned serial = 0; serial < 10; serial++)
				ck_assert_uint_eq(pk_socket_here(serial), serial % pk_sockets);
	} else {
		ck_assert_uint_eq(pk_sockets, 1);
		ck_assert_str_eq(pk_config.topology, "");
	}
	remove_root();
}
END_TEST

/* ---- levels ---- */

/* The levels of a description: their kinds, and how many cohorts each has. */
static const struct {
	const char *text, *wanted, *levels;
} machines[] = {
	{"1", "", ""},
	{"4", "", ""},
	{"1x8", "", ""},
	{"2x2", "", "node 2"},
	{"2x18x2", "", "core 36, node 2"},
	{"2x2x2x2", "", "core 8, cache 4, node 2"},
	{"1x2x2x2", "", "core 4, cache 2"},
	{"2x1x2x2", "", "core 4, node 2"},
	{"2x4x3x1", "", "cache 8, node 2"},
	{"2x2x1x2", "", "core 4, node 2"},
	{"2x2x2x2", "node", "node 2"},
	{"2x2x2x2", "node,core", "core 8, node 2"},
	{"2x2x2x2", "cache", "cache 4"},
	{"2x2x2x2", "package", ""},
};

static const char *levels(void)
{
	static char text[128];
	size_t n = 0;

	text[0] = 0;
	for (unsigned i = 0; i < pk_levels.n; i++)
		n += (size_t)sprintf(text + n, "%s%s %u", i ? ", " : "", pk_cohort_name(pk_levels.kind[i]),
				     pk_cohorts(pk_levels.kind[i]));
	return text;
}

START_TEST(described_levels)
{
	pk_topology_read("", machines[_i].text);
	pk_levels_read("", machines[_i].wanted);
	ck_assert_str_eq(levels(), machines[_i].levels);
}
END_TEST

START_TEST(names)
{
	static const char *const good[] = {"", "core", "node,cache", "core,cache,node,package"};
	static const char *const bad[] = {"banana", "core,",	 ",",	",node", "core,,node",
					  "NODE",   "core node", "cor", "cores"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(pk_levels_check(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!pk_levels_check(bad[i]), "%s", bad[i]);
}
END_TEST

/* @thread: threads are spread over all cohorts of each level as evenly as may be, and a cohort lies in one of each
 * level around it. */
START_TEST(spread)
{
	unsigned seen[PK_COHORTS][8] = {{0}};

	pk_topology_read("", "2x2x2x2@thread");
	pk_levels_read("", "");
	for (uint32_t serial = 0; serial < 32; serial++) {
		ck_assert_uint_eq(pk_cohort_here(PK_COHORT_NODE, serial), serial % 2);
		for (unsigned i = 0; i < pk_levels.n; i++) {
			enum pk_cohort kind = pk_levels.kind[i];
			unsigned cohort = pk_cohort_here(kind, serial);

			seen[kind][cohort]++;
			for (unsigned k = i + 1; k < pk_levels.n; k++)
				ck_assert_uint_eq(pk_cohort_around(kind, cohort, pk_levels.kind[k]),
						  pk_cohort_here(pk_levels.kind[k], serial));
		}
		if (serial == 7)
			for (int c = 0; c < 8; c++)
				ck_assert_uint_eq(seen[PK_COHORT_CORE][c], 1);
	}
	for (int c = 0; c < 8; c++)
		ck_assert_uint_eq(seen[PK_COHORT_CORE][c], 4);
	for (int c = 0; c < 4; c++)
		ck_assert_uint_eq(seen[PK_COHORT_CACHE][c], 8);
}
END_TEST

static void cpu_file(unsigned cpu, const char *name, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/%s", cpu, name);
	file(path, text);
}

/* A machine of 16 CPUs: hyperthreads are n and n + 8; caches of two cores, nodes of two caches, a package. Of what is
 * missing, or says what the level within it says, there is no level. */
enum { NO_CORES = 1, OLD_NAMES = 2, NO_CACHES = 4, CACHE_IS_CORE = 8, ODD_CACHES = 16, TWO_PACKAGES = 32 };
static const struct {
	int how;
	const char *levels;
} sysfs[] = {
	{0, "core 8, cache 4, node 2"},
	{OLD_NAMES, "core 8, cache 4, node 2"},
	{NO_CORES, "cache 4, node 2"},
	{NO_CACHES, "core 8, node 2"},
	{CACHE_IS_CORE, "core 8, node 2"},
	{ODD_CACHES, "core 8, node 2"}, /* they lie across nodes */
	{TWO_PACKAGES, "core 8, cache 4, node 2"},
};

START_TEST(sysfs_levels)
{
	int how = sysfs[_i].how;
	char list[64];

	fresh_root();
	file("/sys/devices/system/node/has_cpu", "0-1\n");
	file("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
	file("/sys/devices/system/node/node1/cpulist", "4-7,12-15\n");
	file("/sys/devices/system/cpu/online", "0-15\n");
	for (unsigned cpu = 0; cpu < 16; cpu++) {
		unsigned core = cpu % 8, first = core & ~1u;

		snprintf(list, sizeof(list), "%u,%u\n", core, core + 8);
		if (how & NO_CORES)
			snprintf(list, sizeof(list), "%u\n", cpu);
		cpu_file(cpu, how & OLD_NAMES ? "topology/thread_siblings_list" : "topology/core_cpus_list", list);
		if (!(how & CACHE_IS_CORE))
			snprintf(list, sizeof(list), "%u-%u,%u-%u\n", first, first + 1, first + 8, first + 9);
		if (how & ODD_CACHES)
			snprintf(list, sizeof(list), "%u,%u,%u,%u\n", core % 4, core % 4 + 4, core % 4 + 8,
				 core % 4 + 12);
		if (!(how & NO_CACHES))
			cpu_file(cpu, "cache/index3/shared_cpu_list", list);
		cpu_file(cpu, "cache/index0/shared_cpu_list", "0\n");
		cpu_file(cpu, how & OLD_NAMES ? "topology/core_siblings_list" : "topology/package_cpus_list",
			 !(how & TWO_PACKAGES) ? "0-15\n"
			 : core < 4	       ? "0-3,8-11\n"
					       : "4-7,12-15\n");
	}
	pk_topology_read(root, "");
	pk_levels_read(root, "");
	ck_assert_str_eq(levels(), sysfs[_i].levels);
	remove_root();
}
END_TEST

/* Nothing to read, or nonsense: no level but the nodes. */
START_TEST(no_sysfs)
{
	static const char *const online[] = {NULL, "", "x\n", "9-3\n", "0-1\n"};

	fresh_root();
	if (online[_i])
		file("/sys/devices/system/cpu/online", online[_i]);
	cpu_file(0, "topology/core_cpus_list", "nonsense\n");
	pk_topology_read(root, "");
	pk_levels_read(root, "");
	ck_assert_str_eq(levels(), "");
	ck_assert_uint_eq(pk_cohort_here(PK_COHORT_CORE, 3), 0);
	remove_root();
}
END_TEST

/* This machine, as libnuma sees it. */
START_TEST(like_libnuma)
{
#ifdef HAVE_NUMA
	struct bitmask *cpus;
	unsigned n = 0;

	if (numa_available() < 0) {
		puts("SKIP: libnuma does not work here");
		return;
	}
	cpus = numa_allocate_cpumask();
	for (int node = 0; node <= numa_max_node(); node++)
		n += !numa_node_to_cpus(node, cpus) && numa_bitmask_weight(cpus);
	pk_topology_read("", "");
	ck_assert_uint_eq(pk_sockets_are_caches ? 1 : pk_sockets, n);
#else
	puts("SKIP: built without libnuma");
#endif
}
END_TEST

UNIT("topology", {nodes, 1}, {refused, 9}, {quota, 1}, {no_quota, 1},
     {description, sizeof(descriptions) / sizeof(descriptions[0])}, {like_libnuma, 1},
     {described_levels, sizeof(machines) / sizeof(machines[0])}, {names, 1}, {spread, 1},
     {sysfs_levels, sizeof(sysfs) / sizeof(sysfs[0])}, {no_sysfs, 5})
