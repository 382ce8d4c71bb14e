/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Prints the library's table of settings for the test of them: kind, name, and what is allowed, a row a setting. */
#include <stdio.h>

int main(void)
{
	static const char PK_POLICY_CHOICES[] =
#define PK_POLICY(name, spelled, ops, doc) spelled "|"
#include "rt/policy.def"
		"auto";

#define PK_CONFIG_ENUM(NAME, field, dflt, choices, doc) printf("ENUM\t%s\t%s\t%s\n", #NAME, dflt, choices);
#define PK_CONFIG_INT(NAME, field, min, max, dflt, unit, doc)                                                          \
	printf("INT\t%s\t%d\t%ld\t%ld\n", #NAME, dflt, (long)(min), (long)(max));
#define PK_CONFIG_STR(NAME, field, dflt, doc) printf("STR\t%s\t%s\n", #NAME, dflt);
#include "rt/config.def"
	return 0;
}
