/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reads the options; the contract is in config.h. */
#include "rt/config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "rt/file.h"
#include "rt/report.h"

/* Values are copied here: no allocation, and nothing changes under us. */
enum {
	PK_CONFIG_ARENA = 2048,
	PK_CONFIG_NAME = 32,
	PK_CONFIG_VALUE = 256,
	PK_CONFIG_SHOWN = 64,
	PK_CONFIG_FILE = 4096
};

enum kind { KIND_ENUM, KIND_INT, KIND_STR };

struct option {
	const char *name; /* in lower case, as in PARKADE_CONF */
	enum kind kind;
	const char *choices;
	int min, max;
	void *value;
};

struct pk_config pk_config = {
#define PK_CONFIG_ENUM(NAME, field, dflt, choices, doc) .field = dflt,
#define PK_CONFIG_INT(NAME, field, min, max, dflt, unit, doc) .field = dflt,
#define PK_CONFIG_STR(NAME, field, dflt, doc) .field = dflt,
#include "rt/config.def"
#undef PK_CONFIG_ENUM
#undef PK_CONFIG_INT
#undef PK_CONFIG_STR
};

static const char policy_choices[] =
#define PK_POLICY(name, spelled, ops, doc) spelled "|"
#include "rt/policy.def"
#undef PK_POLICY
	"auto";
#define PK_POLICY_CHOICES policy_choices

static const struct option options[] = {
#define PK_CONFIG_ENUM(NAME, field, dflt, choices, doc) {#field, KIND_ENUM, choices, 0, 0, &pk_config.field},
#define PK_CONFIG_INT(NAME, field, min, max, dflt, unit, doc) {#field, KIND_INT, NULL, min, max, &pk_config.field},
#define PK_CONFIG_STR(NAME, field, dflt, doc) {#field, KIND_STR, NULL, 0, 0, &pk_config.field},
#include "rt/config.def"
#undef PK_CONFIG_ENUM
#undef PK_CONFIG_INT
#undef PK_CONFIG_STR
};

enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

bool pk_config_is_read;
bool pk_config_batch_given;

static bool given[OPTIONS]; /* by the environment: a file has no say */

static char arena[PK_CONFIG_ARENA];
static size_t arena_used;

/* PARKADE_<NAME>, for messages and for the environment. */
static const char *variable(char *buf, const char *name)
{
	int n = snprintf(buf, PK_CONFIG_NAME, "PARKADE_%s", name);

	for (int i = 0; i < n && i < PK_CONFIG_NAME; i++)
		if (buf[i] >= 'a' && buf[i] <= 'z')
			buf[i] -= 'a' - 'A';
	return buf;
}

/* A value as it is printed: it may be long and hold anything; a line stays one. */
static const char *printable(char buf[PK_CONFIG_SHOWN], const char *value)
{
	size_t n = 0;

	for (; value[n] && n < PK_CONFIG_SHOWN - 4; n++)
		buf[n] = value[n] >= ' ' && value[n] < 127 ? value[n] : '?';
	memcpy(buf + n, value[n] ? "..." : "", value[n] ? 4 : 1);
	return buf;
}

void pk_config_reject(const char *name, const char *value, const char *why)
{
	char var[PK_CONFIG_NAME], shown[PK_CONFIG_SHOWN];

	pk_report("parkade: warning: %s: '%s': %s: ignored\n", variable(var, name), printable(shown, value), why);
}

static const char *keep(const char *value, size_t len)
{
	char *copy = arena + arena_used;

	if (len >= PK_CONFIG_VALUE || arena_used + len + 1 > sizeof(arena))
		return NULL;
	memcpy(copy, value, len);
	copy[len] = '\0';
	arena_used += len + 1;
	return copy;
}

static bool is_choice(const char *choices, const char *value)
{
	for (const char *c = choices;; c++) {
		size_t len = strcspn(c, "|");

		/* Behind a colon, what may follow is for who takes the value. */
		bool open = len && c[len - 1] == ':';

		if ((open ? strcspn(value, ":") : strlen(value)) == len - open && !memcmp(c, value, len - open))
			return true;
		c += len;
		if (!*c)
			return false;
	}
}

static bool is_number(const struct option *o, const char *value, long *v)
{
	char *end;

	errno = 0;
	*v = strtol(value, &end, 10);
	return end != value && !*end && !errno && *v >= o->min && *v <= o->max;
}

static bool set_int(const struct option *o, const char *value)
{
	char why[64];
	long v;

	if (!is_number(o, value, &v)) {
		snprintf(why, sizeof(why), "not a number from %d to %d", o->min, o->max);
		pk_config_reject(o->name, value, why);
		return false;
	}
	*(int *)o->value = (int)v;
	pk_config_batch_given |= o->value == &pk_config.batch;
	return true;
}

/* False, and it was said, if the value is not usable. */
static bool set(const struct option *o, const char *value, size_t len)
{
	const char *copy = keep(value, len);
	char why[160];

	if (!copy) {
		pk_config_reject(o->name, value, "too long");
		return false;
	}
	if (o->kind == KIND_INT)
		return set_int(o, copy);
	if (o->kind == KIND_ENUM && !is_choice(o->choices, copy)) {
		snprintf(why, sizeof(why), "not one of %s", o->choices);
		pk_config_reject(o->name, copy, why);
		return false;
	}
	*(const char **)o->value = copy;
	return true;
}

static const struct option *named(const char *name, size_t len)
{
	for (const struct option *o = options; o < options + OPTIONS; o++)
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return NULL;
}

/* name:value,name:value */
static void set_several(const char *conf)
{
	while (*conf) {
		size_t len = strcspn(conf, ",");
		const char *colon = memchr(conf, ':', len);
		size_t name = colon ? (size_t)(colon - conf) : len;
		const struct option *o = named(conf, name);

		if (!colon || !o || o->value == &pk_config.conf) {
			const char *copy = keep(conf, len);

			pk_config_reject("conf", copy ? copy : conf,
					 colon ? "no such option" : "not of the form name:value");
		} else {
			given[o - options] |= set(o, colon + 1, len - name - 1);
		}
		conf += len + (conf[len] == ',');
	}
}

/* A line of a file: name=value, blanks around both, or nothing and a comment. */
static void set_line(const char *line, size_t len)
{
	static const char blank[] = " \t\r";
	const char *end = line + len, *name = line + strspn(line, blank), *stop, *value;
	const struct option *o;

	if (name >= end || *name == '#')
		return;
	while (strchr(blank, end[-1]))
		end--;
	stop = memchr(name, '=', (size_t)(end - name));
	value = stop;
	while (stop && stop > name && strchr(blank, stop[-1]))
		stop--;
	o = stop ? named(name, (size_t)(stop - name)) : NULL;
	if (!o || o->value == &pk_config.conf || o->value == &pk_config.tuned) {
		const char *copy = keep(name, (size_t)(end - name));

		pk_config_reject("tuned", copy ? copy : "...", stop ? "no such option" : "not of the form name=value");
		return;
	}
	value += 1 + strspn(value + 1, blank);
	if (!given[o - options] || o->value == &pk_config.policy)
		set(o, value, value < end ? (size_t)(end - value) : 0);
}

/* The file's text, from which of the places there is one; false if there is none. */
static bool read_tuned(char text[PK_CONFIG_FILE])
{
	const char *base = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
	char path[PK_CONFIG_VALUE];
	int n = -1;

	if (*pk_config.tuned)
		return pk_file_read(pk_config.tuned, text, PK_CONFIG_FILE);
	if (base && *base == '/')
		n = snprintf(path, sizeof(path), "%s/parkade.conf", base);
	else if (home && *home == '/')
		n = snprintf(path, sizeof(path), "%s/.config/parkade.conf", home);
	return (n > 0 && n < (int)sizeof(path) && pk_file_read(path, text, PK_CONFIG_FILE)) ||
	       pk_file_read("/etc/parkade.conf", text, PK_CONFIG_FILE);
}

/* PARKADE_POLICY=auto */
static void set_tuned(const char *otherwise)
{
	char text[PK_CONFIG_FILE];

	pk_config.policy = otherwise;
	if (!read_tuned(text)) {
		if (*pk_config.tuned)
			pk_config_reject("tuned", pk_config.tuned, "cannot be read");
		else
			pk_config_reject("policy", "auto", "there is no parkade.conf");
		return;
	}
	if (strlen(text) == sizeof(text) - 1) {
		char *end = strrchr(text, '\n');

		*(end ? end : text) = '\0';
		pk_report("parkade: warning: parkade.conf: longer than %zu bytes: what is behind them is ignored\n",
			  sizeof(text) - 2);
	}
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		set_line(line, len);
		line += len + (line[len] == '\n');
	}
	if (!strcmp(pk_config.policy, "auto")) {
		pk_config.policy = otherwise;
		pk_config_reject("tuned", "policy=auto", "one of the policies is wanted");
	}
}

/* Loaded by the name libparkade-POLICY.so, a link, the library has that policy by default. */
static void policy_of_file(const char *file)
{
	static const char prefix[] = "libparkade-";
	const char *name = file ? strrchr(file, '/') : NULL, *end;
	char policy[PK_CONFIG_NAME], shown[PK_CONFIG_SHOWN];

	name = name ? name + 1 : file;
	if (!name || strncmp(name, prefix, strlen(prefix)))
		return;
	name += strlen(prefix);
	end = strstr(name, ".so");
	if (!end || end - name >= (int)sizeof(policy))
		return;
	memcpy(policy, name, (size_t)(end - name));
	policy[end - name] = '\0';
	for (const struct option *o = options; o < options + OPTIONS; o++)
		if (o->value == &pk_config.policy && is_choice(o->choices, policy)) {
			set(o, policy, strlen(policy));
			return;
		}
	pk_report("parkade: warning: the library's name: '%s': not one of the policies: ignored\n",
		  printable(shown, policy));
}

void pk_config_read(const char *file)
{
	char buf[PK_CONFIG_NAME];
	const char *otherwise = pk_config.policy;
	int saved = errno;

	policy_of_file(file);
	if (strcmp(pk_config.policy, "auto"))
		otherwise = pk_config.policy;
	/* PARKADE_CONF first, so that a variable of its own wins. */
	for (int pass = 0; pass < 2; pass++)
		for (const struct option *o = options; o < options + OPTIONS; o++) {
			bool several = o->value == &pk_config.conf;
			const char *value;

			if (several != (pass == 0))
				continue;
			value = secure_getenv(variable(buf, o->name));
			if (!value)
				continue;
			given[o - options] |= set(o, value, strlen(value));
			if (several)
				set_several(pk_config.conf);
		}
	if (!strcmp(pk_config.policy, "auto"))
		set_tuned(otherwise);
	pk_store_release(&pk_config_is_read, true); /* acquire: pthread/cond.c */
	errno = saved;
}

/* The choice itself: text that stays. */
static const char *choice_in(const struct option *o, const char *value)
{
	const char *copy = arena;

	/* One that was kept before, or room for a new one. */
	while (copy < arena + arena_used && strcmp(copy, value) != 0)
		copy += strlen(copy) + 1;
	if (!is_choice(o->choices, value))
		return NULL;
	return copy < arena + arena_used ? copy : keep(value, strlen(value));
}

const char *pk_config_change(const char *name, const char *value)
{
	const struct option *o = named(name, strlen(name));
	int saved = errno;
	const char *text;
	bool good;
	long v;

	if (!o || o->kind == KIND_STR)
		return "no such option";
	if (o->kind == KIND_ENUM) {
		text = choice_in(o, value);
		if (text)
			pk_store_relaxed((const char **)o->value, text);
		return text ? NULL : "not one of the choices";
	}
	good = is_number(o, value, &v);
	errno = saved;
	if (!good)
		return "not a number in the option's range";
	pk_store_relaxed((int *)o->value, (int)v);
	if (o->value == &pk_config.batch)
		pk_store_relaxed(&pk_config_batch_given, true);
	return NULL;
}

void pk_config_print(void)
{
	char var[PK_CONFIG_NAME], shown[PK_CONFIG_SHOWN];

	for (const struct option *o = options; o < options + OPTIONS; o++)
		if (o->kind == KIND_INT)
			pk_report("parkade: config: %s=%d\n", variable(var, o->name), *(int *)o->value);
		else
			pk_report("parkade: config: %s=%s\n", variable(var, o->name),
				  printable(shown, *(const char **)o->value));
}
