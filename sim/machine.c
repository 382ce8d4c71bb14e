/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reads a machine's description; the contract is in machine.h. */
#include "sim/machine.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct sim_machine sim_machine;

static const char *const names[SIM_LEVELS] = {"core", "cache", "node", "package", "system"};

/* Keys with one number. */
static const struct {
	const char *key;
	size_t at;
} numbers[] = {
#define NUMBER(key, field)                                                                                             \
	{                                                                                                              \
#key, offsetof(struct sim_machine, field)                                                              \
	}
	NUMBER(mhz, mhz),
	NUMBER(share, share),
	NUMBER(atomic, atomic),
	NUMBER(relax, relax),
	NUMBER(syscall, syscall),
	NUMBER(futex, futex),
	NUMBER(wake, wake),
	NUMBER(wakeup, wakeup),
	NUMBER(switch, change),
	NUMBER(quantum, quantum),
	NUMBER(granularity, granularity),
#undef NUMBER
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

static unsigned *number(unsigned i)
{
	return (unsigned *)((char *)&sim_machine + numbers[i].at);
}

static bool set(const char *key, const char *value)
{
	struct sim_machine *m = &sim_machine;
	char rest;

	if (!strcmp(key, "title"))
		return snprintf(m->title, sizeof(m->title), "%s", value) < (int)sizeof(m->title);
	if (!strcmp(key, "shape"))
		return sscanf(value, "%ux%ux%ux%ux%u%c", &m->packages, &m->nodes, &m->groups, &m->cores, &m->threads,
			      &rest) == 5;
	if (!strcmp(key, "memory"))
		return sscanf(value, "%u %u%c", &m->local, &m->remote, &rest) == 2;
	if (!strcmp(key, "vary"))
		return sscanf(value, "%u%c", &m->vary, &rest) == 1 && m->vary <= 100;
	for (unsigned l = 0; l < SIM_LEVELS; l++)
		if (!strcmp(key, names[l]))
			return sscanf(value, "%u %u %u%c", &m->at[l].clean, &m->at[l].dirty, &m->at[l].write, &rest) ==
			       3;
	for (unsigned i = 0; i < NUMBERS; i++)
		if (!strcmp(key, numbers[i].key))
			return sscanf(value, "%u%c", number(i), &rest) == 1;
	return false;
}

/* What is derived; null, or what is wrong. */
static const char *complete(void)
{
	struct sim_machine *m = &sim_machine;

	for (unsigned i = 0; i < NUMBERS; i++)
		if (!*number(i))
			return numbers[i].key;
	for (unsigned l = 0; l < SIM_LEVELS; l++)
		if (!m->at[l].clean || !m->at[l].dirty || !m->at[l].write)
			return names[l];
	if (!m->local || !m->remote)
		return "memory";
	m->groups += m->spare;
	m->width[SIM_CORE] = m->threads;
	m->width[SIM_CACHE] = m->width[SIM_CORE] * m->cores;
	m->width[SIM_NODE] = m->width[SIM_CACHE] * m->groups;
	m->width[SIM_PACKAGE] = m->width[SIM_NODE] * m->nodes;
	m->width[SIM_SYSTEM] = m->cpus = m->width[SIM_PACKAGE] * m->packages;
	if (!m->cpus || m->cpus > SIM_CPUS_MAX || m->cpus / m->threads > SIM_CORES_MAX)
		return "shape";
	m->all_cores = m->cpus / m->threads;
	m->all_nodes = m->packages * m->nodes;
	return NULL;
}

bool sim_machine_read(const char *path, unsigned spare)
{
	FILE *file = fopen(path, "re");
	char line[256], key[32], value[160];
	const char *missing;
	unsigned n = 0;

	sim_machine.spare = spare;
	if (!file) {
		fprintf(stderr, "parkade-sim: %s: %s\n", path, strerror(errno));
		return false;
	}
	while (fgets(line, sizeof(line), file)) {
		n++;
		line[strcspn(line, "#\n")] = '\0';
		while (*line && strchr(" \t", line[strlen(line) - 1]))
			line[strlen(line) - 1] = '\0';
		if (!*line)
			continue;
		if (sscanf(line, "%31[a-z] = %159[^\n]", key, value) != 2 || !set(key, value)) {
			fprintf(stderr, "parkade-sim: %s:%u: not understood: %s\n", path, n, line);
			fclose(file);
			return false;
		}
	}
	fclose(file);
	missing = complete();
	if (missing)
		fprintf(stderr, "parkade-sim: %s: %s: missing, or out of range\n", path, missing);
	return !missing;
}

enum sim_level sim_level_of(unsigned cpu, unsigned other)
{
	enum sim_level l = SIM_CORE;

	while (l < SIM_SYSTEM && cpu / sim_machine.width[l] != other / sim_machine.width[l])
		l++;
	return l;
}

const char *sim_level_name(enum sim_level level)
{
	return names[level];
}

unsigned sim_place(unsigned n, bool spread)
{
	const struct sim_machine *m = &sim_machine;
	const unsigned groups = m->groups - m->spare, cores = m->all_nodes * groups * m->cores;
	unsigned thread = n / cores % m->threads, core = n % cores;
	unsigned package, node, group;

	if (spread) {
		package = core % m->packages;
		core /= m->packages;
		node = core % m->nodes;
		core /= m->nodes;
		group = core % groups;
		core /= groups;
	} else {
		package = core / (m->nodes * groups * m->cores);
		node = core / (groups * m->cores) % m->nodes;
		group = core / m->cores % groups;
		core %= m->cores;
	}
	return package * m->width[SIM_PACKAGE] + node * m->width[SIM_NODE] + group * m->width[SIM_CACHE] +
	       core * m->width[SIM_CORE] + thread;
}
