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
	int cpu[2];

	fresh_root();
	if (cpus_here(cpu) == 2) {
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
	ck_assert_uint_eq(pk_sockets, n);
#else
	puts("SKIP: built without libnuma");
#endif
}
END_TEST

UNIT("topology", {nodes, 1}, {refused, 9}, {quota, 1}, {no_quota, 1},
     {description, sizeof(descriptions) / sizeof(descriptions[0])}, {like_libnuma, 1})
