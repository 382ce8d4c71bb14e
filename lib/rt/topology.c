/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine as sysfs describes it; the contract is in topology.h. */
#include "rt/topology.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef HAVE_SYS_RSEQ_H
#include <sys/rseq.h>
#endif

#include "base/arch/arch.h"
#include "base/atomic.h"
#include "rt/config.h"
#include "rt/file.h"

enum {
	TEXT = 4096,
	LEVELS = 4,
	GROUP_LEAST = 6, /* CPUs of a cache group that is taken for a socket, on average */
};

unsigned pk_sockets = 1;
bool pk_sockets_are_caches;
static uint8_t socket_of[PK_CPUS_MAX];
static uint16_t cpus_on[PK_SOCKETS_MAX];

/* A machine of PARKADE_TOPOLOGY: CPUs a socket, of which so many share a cache, and so many
 * a core; and how they are given out. */
static unsigned virtual_cpus, virtual_group, virtual_core;
static bool by_thread;

struct pk_levels pk_levels;

/* Of each kind but nodes: the cohort of each CPU, the first CPU of each cohort (of nodes,
 * too), and how many there are. */
static uint16_t cohort_of[PK_COHORTS][PK_CPUS_MAX];
static uint16_t first_of[PK_COHORTS][PK_CPUS_MAX];
static unsigned cohorts[PK_COHORTS] = {1, 1, 1, 1};

_Static_assert(PK_SOCKETS_MAX - 1 <= UINT8_MAX, "socket_of is too narrow");

/* The file's text in buf, or false. */
static bool read_file(const char *root, const char *path, char buf[TEXT])
{
	char name[PATH_MAX];

	return (size_t)snprintf(name, sizeof(name), "%s%s", root, path) < sizeof(name) && pk_file_read(name, buf, TEXT);
}

/* The next range of a list such as "0-3,8"; false at its end. */
static bool next_range(const char **list, unsigned long *first, unsigned long *last)
{
	char *end;

	*first = strtoul(*list, &end, 10);
	if (end == *list)
		return false;
	*last = *end == '-' ? strtoul(end + 1, &end, 10) : *first;
	*list = end + (*end == ',');
	return true;
}

static void read_sockets(const char *root)
{
	char nodes[TEXT], cpus[TEXT], path[64];
	unsigned long node, last, cpu, last_cpu;
	const char *list = nodes;
	unsigned n = 0;

	if (!read_file(root, "/sys/devices/system/node/has_cpu", nodes))
		return;
	/* Nearly every machine: one node, nothing more to read. */
	if (!strpbrk(nodes, "-,"))
		return;
	while (next_range(&list, &node, &last))
		for (; node <= last && n < PK_SOCKETS_MAX; node++) {
			const char *l = cpus;

			snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/cpulist", node);
			if (!read_file(root, path, cpus))
				continue;
			while (next_range(&l, &cpu, &last_cpu))
				for (; cpu <= last_cpu && cpu < PK_CPUS_MAX; cpu++)
					socket_of[cpu] = (uint8_t)n;
			n++;
		}
	if (n > 1)
		pk_sockets = n;
}

/* The CPUs of that list are a cohort of their own, the next one; but for those that are in
 * one already. False: the list says nothing. */
static bool add_cohort(enum pk_cohort kind, const char *list, uint8_t seen[PK_CPUS_MAX])
{
	unsigned long cpu, last;
	bool any = false;

	while (next_range(&list, &cpu, &last))
		for (; cpu <= last && cpu < PK_CPUS_MAX; cpu++)
			if (!seen[cpu]) {
				seen[cpu] = 1;
				cohort_of[kind][cpu] = (uint16_t)cohorts[kind];
				if (!any)
					first_of[kind][cohorts[kind]] = (uint16_t)cpu;
				any = true;
			}
	cohorts[kind] += any;
	return any;
}

/* The file that lists the CPUs of the cohort of a CPU, one name after the other. */
static bool read_cohort(const char *root, enum pk_cohort kind, unsigned long cpu, char list[TEXT])
{
	static const char *const names[PK_COHORTS][4] = {
		[PK_COHORT_CORE] = {"topology/core_cpus_list", "topology/thread_siblings_list"},
		[PK_COHORT_CACHE] = {"cache/index4/shared_cpu_list", "cache/index3/shared_cpu_list",
				     "cache/index2/shared_cpu_list"},
		[PK_COHORT_PACKAGE] = {"topology/package_cpus_list", "topology/core_siblings_list"},
	};
	char path[96];

	for (const char *const *name = names[kind]; *name; name++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%lu/%s", cpu, *name);
		if (read_file(root, path, list))
			return true;
	}
	return false;
}

/* All cohorts of a kind; where that cannot be read, there is one. */
static void read_cohorts(const char *root, enum pk_cohort kind, const char *online)
{
	static uint8_t seen[PK_CPUS_MAX];
	unsigned long cpu, last;
	char list[TEXT];

	memset(seen, 0, sizeof(seen));
	cohorts[kind] = 0;
	while (next_range(&online, &cpu, &last))
		for (; cpu <= last && cpu < PK_CPUS_MAX; cpu++)
			if (!seen[cpu] && (!read_cohort(root, kind, cpu, list) || !add_cohort(kind, list, seen))) {
				memset(cohort_of[kind], 0, sizeof(cohort_of[kind]));
				cohorts[kind] = 1;
				return;
			}
	if (!cohorts[kind])
		cohorts[kind] = 1;
}

static unsigned count(const char *list)
{
	unsigned long cpu, last;
	unsigned n = 0;

	while (next_range(&list, &cpu, &last))
		n += last >= cpu && last < PK_CPUS_MAX ? (unsigned)(last - cpu + 1) : 0;
	return n;
}

/* The CPUs that this process may run on, by socket; how many there are. */
static unsigned read_affinity(void)
{
	static unsigned long mask[PK_CPUS_MAX / (8 * sizeof(long))];
	long bytes = pk_arch_syscall(SYS_sched_getaffinity, 0, sizeof(mask), (long)mask, 0, 0, 0);
	unsigned total = 0;

	memset(cpus_on, 0, sizeof(cpus_on));
	for (long cpu = 0; cpu < bytes * 8; cpu++)
		if (mask[cpu / (8 * sizeof(long))] >> (cpu % (8 * sizeof(long))) & 1) {
			cpus_on[socket_of[cpu]]++;
			total++;
		}
	return total;
}

/* The CPUs that one cgroup v2 directory allows, UINT_MAX for no limit. */
static unsigned quota_of(const char *root, const char *group)
{
	char path[PATH_MAX], text[TEXT];
	unsigned long quota, period;

	if ((size_t)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group) >= sizeof(path) ||
	    !read_file(root, path, text) || sscanf(text, "%lu %lu", &quota, &period) != 2 || !period)
		return UINT_MAX;
	return quota < period ? 1 : (unsigned)(quota / period);
}

/* The least quota of our cgroup and those above it. */
static unsigned read_quota(const char *root)
{
	char text[TEXT];
	char *group, *slash;
	unsigned least = UINT_MAX;

	if (!read_file(root, "/proc/self/cgroup", text))
		return least;
	group = strstr(text, "0::/");
	if (!group)
		return least;
	group += 3;
	group[strcspn(group, "\n")] = '\0';
	for (;;) {
		unsigned q = quota_of(root, group);

		least = q < least ? q : least;
		if (!group[1])
			break;
		slash = strrchr(group, '/');
		slash[slash == group] = '\0'; /* "/a/b", "/a", "/" */
	}
	return least;
}

/* Of a machine of one node the cache groups are the sockets, if the CPUs that may be used are several groups with enough of
 * them to keep a lock for a while. */
static void read_groups(const char *root, unsigned usable)
{
	char online[TEXT];
	unsigned n, used = 0;

	if (usable < 2 * GROUP_LEAST || !read_file(root, "/sys/devices/system/cpu/online", online))
		return;
	read_cohorts(root, PK_COHORT_CACHE, online);
	n = cohorts[PK_COHORT_CACHE];
	if (n > PK_SOCKETS_MAX)
		return;
	for (unsigned cpu = 0; cpu < PK_CPUS_MAX; cpu++)
		socket_of[cpu] = (uint8_t)cohort_of[PK_COHORT_CACHE][cpu];
	read_affinity();
	for (unsigned s = 0; s < n; s++)
		used += cpus_on[s] > 0;
	if (used > 1 && usable / used >= GROUP_LEAST) {
		pk_sockets = n;
		pk_sockets_are_caches = true;
		return;
	}
	memset(socket_of, 0, sizeof(socket_of));
	read_affinity();
}

/* SOCKETS[xCACHES]xCORES[xTHREADS][@thread]; false if it is none. */
static bool read_description(const char *text)
{
	unsigned long factor[LEVELS], cpus = 1;
	unsigned n = 0;
	char *end;

	for (;; text = end + 1) {
		factor[n] = strtoul(text, &end, 10);
		if (end == text || *text == '-' || *text == '+' || !factor[n] || factor[n] > PK_CPUS_MAX)
			return false;
		if (n > 0)
			cpus *= factor[n];
		if (cpus > PK_CPUS_MAX)
			return false;
		if (++n == LEVELS || *end != 'x')
			break;
	}
	if (*end && strcmp(end, "@thread"))
		return false;
	if (factor[0] > PK_SOCKETS_MAX || factor[0] * cpus > PK_CPUS_MAX)
		return false;
	by_thread = *end;
	virtual_cpus = (unsigned)cpus;
	virtual_core = n > 2 ? (unsigned)factor[n - 1] : 1;
	virtual_group = (unsigned)(n > 3 ? cpus / factor[1] : cpus);
	pk_sockets = (unsigned)factor[0];
	for (unsigned cpu = 0; cpu < PK_CPUS_MAX; cpu++)
		socket_of[cpu] = (uint8_t)(cpu / virtual_cpus % pk_sockets);
	return true;
}

void pk_topology_read(const char *root, const char *description)
{
	unsigned total, quota;

	if (*description) {
		if (read_description(description))
			return;
		pk_config_reject("topology", description,
				 "not of the form 2x18 or 2x18x2 or 2x4x3x2, "
				 "with or without @thread");
		pk_config.topology = "";
	}
	read_sockets(root);
	total = read_affinity();
	if (!total) {
		/* Refused. One CPU: nobody will spin for long. */
		cpus_on[0] = total = 1;
	}
	quota = read_quota(root);
	if (pk_sockets == 1)
		read_groups(root, quota < total ? quota : total);
	if (quota < total)
		for (unsigned s = 0; s < pk_sockets; s++)
			cpus_on[s] = (uint16_t)(cpus_on[s] * quota / total);
}

static int cpu_here(void)
{
	int saved, cpu;

#ifdef HAVE_SYS_RSEQ_H
	if (__rseq_size) {
		const struct rseq *area = (const struct rseq *)(pk_arch_thread_pointer() + __rseq_offset);

		cpu = (int)pk_load_relaxed(&area->cpu_id);
		if (cpu >= 0)
			return cpu;
	}
#endif
	saved = errno;
	cpu = sched_getcpu();
	errno = saved;
	return cpu;
}

/* Threads go round robin: to the sockets, and there to the groups, the cores, the CPUs. */
static unsigned cpu_for(uint32_t serial)
{
	unsigned groups = virtual_cpus / virtual_group, cores = virtual_group / virtual_core;
	unsigned socket = serial % pk_sockets, n = serial / pk_sockets;

	return socket * virtual_cpus + n % groups * virtual_group + n / groups % cores * virtual_core +
	       n / groups / cores % virtual_core;
}

unsigned pk_socket_here(uint32_t serial)
{
	int cpu;

	if (pk_sockets == 1)
		return 0;
	if (by_thread)
		return serial % pk_sockets;
	cpu = cpu_here();
	return cpu >= 0 && cpu < PK_CPUS_MAX ? socket_of[cpu] : 0;
}

static void make_cohorts(enum pk_cohort kind, unsigned cpus)
{
	cohorts[kind] = pk_sockets * virtual_cpus / cpus;
	for (unsigned cpu = 0; cpu < PK_CPUS_MAX; cpu++)
		cohort_of[kind][cpu] = (uint16_t)(cpu / cpus % cohorts[kind]);
	for (unsigned n = 0; n < cohorts[kind]; n++)
		first_of[kind][n] = (uint16_t)(n * cpus);
}

static unsigned cohort_at(enum pk_cohort kind, unsigned cpu)
{
	return kind == PK_COHORT_NODE ? socket_of[cpu] : cohort_of[kind][cpu];
}

/* Each cohort of the kind lies in one of the other. */
static bool lies_in(enum pk_cohort kind, enum pk_cohort around, const char *online)
{
	unsigned long cpu, last;

	while (next_range(&online, &cpu, &last))
		for (; cpu <= last && cpu < PK_CPUS_MAX; cpu++)
			if (cohort_at(around, (unsigned)cpu) !=
			    pk_cohort_around(kind, cohort_at(kind, (unsigned)cpu), around))
				return false;
	return true;
}

static bool is_in(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *n = names; *n; n += strcspn(n, ","), n += *n == ',')
		if (strcspn(n, ",") == len && !memcmp(n, name, len))
			return true;
	return !*names;
}

/* One more level, around those that there are; where both say the same, or are at odds, the
 * node stays. */
static void add_level(enum pk_cohort kind, const char *online)
{
	while (pk_levels.n) {
		enum pk_cohort within = pk_levels.kind[pk_levels.n - 1];

		if (cohorts[within] > cohorts[kind] && lies_in(within, kind, online))
			break;
		if (kind != PK_COHORT_NODE)
			return;
		pk_levels.n--;
	}
	pk_levels.kind[pk_levels.n++] = (uint8_t)kind;
}

bool pk_levels_check(const char *wanted)
{
	for (const char *n = wanted; *wanted; n++) {
		size_t len = strcspn(n, ",");
		int kind = 0;

		while (kind < PK_COHORTS &&
		       (strlen(pk_cohort_name(kind)) != len || memcmp(n, pk_cohort_name(kind), len) != 0))
			kind++;
		if (kind == PK_COHORTS)
			return false;
		n += len;
		if (!*n)
			break;
	}
	return true;
}

void pk_levels_read(const char *root, const char *wanted)
{
	char online[TEXT];
	unsigned cpus;

	pk_levels.n = 0;
	if (virtual_cpus)
		snprintf(online, sizeof(online), "0-%u", pk_sockets * virtual_cpus - 1);
	else if (!read_file(root, "/sys/devices/system/cpu/online", online))
		return;
	cpus = count(online);
	cohorts[PK_COHORT_NODE] = pk_sockets;
	for (unsigned cpu = PK_CPUS_MAX; cpu-- > 0;)
		first_of[PK_COHORT_NODE][socket_of[cpu]] = (uint16_t)cpu;
	if (virtual_cpus) {
		make_cohorts(PK_COHORT_CORE, virtual_core);
		make_cohorts(PK_COHORT_CACHE, virtual_group);
	}
	for (int kind = 0; kind < PK_COHORTS; kind++) {
		if (!is_in(wanted, pk_cohort_name(kind)) || (kind == PK_COHORT_NODE && pk_sockets_are_caches))
			continue;
		if (!virtual_cpus && kind != PK_COHORT_NODE)
			read_cohorts(root, kind, online);
		if (cohorts[kind] > 1 && cohorts[kind] < cpus)
			add_level(kind, online);
	}
}

unsigned pk_cohorts(enum pk_cohort kind)
{
	return kind == PK_COHORT_NODE ? pk_sockets : cohorts[kind];
}

unsigned pk_cohort_here(enum pk_cohort kind, uint32_t serial)
{
	int cpu;

	if (kind == PK_COHORT_NODE)
		return pk_socket_here(serial);
	cpu = by_thread ? (int)cpu_for(serial) : cpu_here();
	return cpu >= 0 && cpu < PK_CPUS_MAX ? cohort_of[kind][cpu] : 0;
}

unsigned pk_cohort_around(enum pk_cohort kind, unsigned cohort, enum pk_cohort around)
{
	return cohort_at(around, first_of[kind][cohort]);
}

const char *pk_cohort_name(enum pk_cohort kind)
{
	static const char *const names[PK_COHORTS] = {"core", "cache", "node", "package"};

	return names[kind];
}

unsigned pk_socket_cpus(unsigned socket)
{
	return virtual_cpus ? virtual_cpus : cpus_on[socket];
}
