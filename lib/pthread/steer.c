/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Options that can be changed while the process runs; the contract is in steer.h.
 *
 * A number is read anew by who needs it next. A policy is that of who starts to wait from then on: waiters of the old
 * one stay with it, and both meet at the lock's word (admit.h). Not to be changed are: what was decided for good when
 * threads began (policy glibc), who sleeps where and is looked for there (parking, readers), and a composition by name,
 * which would have to be laid out now, with warnings. */
#include "pthread/steer.h"

#include <string.h>

#include "admit/admit.h"
#include "rt/config.h"

const char *pk_steer(const char *name, const char *value)
{
	static const char *const numbers[] = {"spin", "patience", "batch", "reduction"};
	const char *wrong;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(name, numbers[i]))
			return pk_config_change(name, value);
	if (strcmp(name, "policy") != 0)
		return "this option cannot be changed while the process runs";
	if (strchr(value, ':') || !strcmp(value, "glibc") || !strcmp(value, "auto"))
		return "this policy has to be there from the start";
	wrong = pk_config_change(name, value);
	if (!wrong)
		pk_policy_select(value);
	return wrong;
}
