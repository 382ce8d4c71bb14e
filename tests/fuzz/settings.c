/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Fuzzes what comes from outside: the values of settings, and what is written into the control page. For libFuzzer; the
 * library's own sources are compiled in.
 *
 * The first byte of the input says which: a variable of the environment and its value, or the page's contents, which is
 * served then. Whatever they are, nothing crashes, and each line that is printed is one line of text that prints. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pthread/steer.h"
#include "rt/config.h"
#include "rt/control.h"
#include "rt/real.h"
#include "rt/topology.h"

static const char *const names[] = {
#define PK_CONFIG_ENUM(NAME, field, dflt, choices, doc) "PARKADE_" #NAME,
#define PK_CONFIG_INT(NAME, field, min, max, dflt, unit, doc) "PARKADE_" #NAME,
#define PK_CONFIG_STR(NAME, field, dflt, doc) "PARKADE_" #NAME,
#include "rt/config.def"
#undef PK_CONFIG_ENUM
#undef PK_CONFIG_INT
#undef PK_CONFIG_STR
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void try_setting(const char *name, const uint8_t *data, size_t size)
{
	char value[8192];

	size = size < sizeof(value) - 1 ? size : sizeof(value) - 1;
	memcpy(value, data, size);
	value[size] = '\0';
	setenv(name, value, 1);
	pk_config_read(size % 2 ? value : NULL);
	pk_topology_read("", pk_config.topology);
	pk_levels_check(pk_config.levels);
	unsetenv(name);
}

static void try_page(const uint8_t *data, size_t size)
{
	if (!pk_control)
		pk_control_setup(pk_steer);
	if (!pk_control)
		abort();
	memcpy(pk_control->text, data, size < PK_CONTROL_TEXT ? size : PK_CONTROL_TEXT);
	pk_control->request = pk_control_seen + 1;
	pk_control_poll();
	if (pk_control->answer != pk_control->request)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] < NAMES)
		try_setting(names[data[0]], data + 1, size - 1);
	else
		try_page(data + 1, size - 1);
	return 0;
}
