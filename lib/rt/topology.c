/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine as sysfs describes it; the contract is in topology.h. */
#include "rt/topology.h"

#include <errno.h>
#include <fcntl.h>
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

enum { TEXT = 4096, LEVELS = 4 };

unsigned pk_sockets = 1;
static uint8_t socket_of[PK_CPUS_MAX];
static uint16_t cpus_on[PK_SOCKETS_MAX];

/* A machine of PARKADE_TOPOLOGY: CPUs a socket, and how they are given out. */
static unsigned virtual_cpus;
static bool by_thread;

_Static_assert(PK_SOCKETS_MAX - 1 <= UINT8_MAX, "socket_of is too narrow");

/* The file's text in buf, or false. */
static bool read_file(const char *root, const char *path, char buf[TEXT])
{
	char name[PATH_MAX];
	long fd, n;

	if ((size_t)snprintf(name, sizeof(name), "%s%s", root, path) >= sizeof(name))
		return false;
	fd = pk_arch_syscall(SYS_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return false;
	n = pk_arch_syscall(SYS_read, fd, (long)buf, TEXT - 1, 0, 0, 0);
	pk_arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
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

/* The CPUs that this process may run on, by socket. */
static unsigned read_affinity(void)
{
	static unsigned long mask[PK_CPUS_MAX / (8 * sizeof(long))];
	long bytes = pk_arch_syscall(SYS_sched_getaffinity, 0, sizeof(mask), (long)mask, 0, 0, 0);
	unsigned total = 0;

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

unsigned pk_socket_cpus(unsigned socket)
{
	return virtual_cpus ? virtual_cpus : cpus_on[socket];
}
