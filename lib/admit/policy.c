/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The table of policies. */
#include <string.h>

#include "admit/admit.h"
#include "base/atomic.h"

extern const struct pk_admit_ops pk_shfl, pk_mcs, pk_cna, pk_cst, pk_mcscr, pk_clh, pk_hem, pk_hemctr, pk_tkt, pk_ptl,
	pk_backoff, pk_hbo;

static const struct {
	const char *name;
	const struct pk_admit_ops *ops;
} policies[] = {
#define PK_POLICY(name, ops, doc) {#name, ops},
#include "admit/policy.def"
#undef PK_POLICY
};

const struct pk_admit_ops *pk_admit;

enum pk_policy pk_policy_select(const char *name)
{
	enum pk_policy p = 0;

	/* The name has passed config.def's list of choices, which a test
	 * compares with this table. */
	while (p < PK_POLICIES - 1 && strcmp(policies[p].name, name))
		p++;
	pk_store_release(&pk_admit, policies[p].ops);
	return p;
}

const struct pk_admit_ops *pk_policy_ops(unsigned policy)
{
	return policies[policy].ops;
}
