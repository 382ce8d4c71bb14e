/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What a run of the tests leaves out by name: SUITE_WITHOUT in the environment names cases, with a blank between
 * them, that the place cannot do (an emulator). They are said on standard output. */
#ifndef WITHOUT_H
#define WITHOUT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool left_out(const char *name)
{
	const char *list = getenv("SUITE_WITHOUT");
	size_t length = strlen(name);

	for (; list && *list; list += strspn(list, " ")) {
		size_t word = strcspn(list, " ");

		if (word == length && strncmp(list, name, word) == 0) {
			printf("left out: %s\n", name);
			fflush(stdout);
			return true;
		}
		list += word;
	}
	return false;
}

#endif
