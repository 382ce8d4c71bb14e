/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The table of policies. */
#include <string.h>

#include "admit/levels.h"
#include "base/atomic.h"
#include "rt/config.h"

/* Those without operations are declared for nothing. */
#define PK_POLICY(name, spelled, ops, doc) extern const struct pk_admit_ops pk_##name;
#include "rt/policy.def"
#undef PK_POLICY

static const struct {
	const char *name; /* as users write it, with a colon where they may go on */
	const struct pk_admit_ops *ops;
} policies[] = {
#define PK_POLICY(name, spelled, ops, doc) {spelled, ops},
#include "rt/policy.def"
#undef PK_POLICY
};

const struct pk_admit_ops *pk_admit;

/* Of both what is before a colon counts. */
static bool is_named(const char *row, const char *name)
{
	size_t n = strcspn(row, ":");

	return strcspn(name, ":") == n && !memcmp(row, name, n);
}

static enum pk_policy row_of(const char *name)
{
	enum pk_policy p = 0;

	/* The name has passed the settings' list of choices, which is this table. */
	while (p < PK_POLICIES - 1 && !is_named(policies[p].name, name))
		p++;
	return p;
}

static bool is_composed(enum pk_policy row)
{
	return policies[row].ops && policies[row].ops->root;
}

bool pk_policy_has_levels(const char *name)
{
	return is_composed(row_of(name));
}

enum pk_policy pk_policy_select(const char *name)
{
	enum pk_policy p = row_of(name);
	const struct pk_admit_ops *ops = policies[p].ops;

	if (is_composed(p)) {
		ops = pk_compose(p, name);
		if (!ops) {
			p = 0;
			ops = policies[0].ops;
			pk_config.policy = policies[0].name;
		}
	}
	pk_store_release(&pk_admit, ops);
	return p;
}

int pk_policy_number(const char *name)
{
	enum pk_policy p = 0;

	while (p < PK_POLICIES && !is_named(policies[p].name, name))
		p++;
	if (p == PK_POLICIES)
		return 0;
	return strchr(name, ':') || p == PK_POLICY_glibc || (is_composed(p) && !pk_composed_ops(p)) ? PK_POLICY_UNFIT
												    : (int)p + 1;
}

bool pk_policy_spell(unsigned number, char *name, size_t size)
{
	const char *row = number && number <= PK_POLICIES ? policies[number - 1].name : "";
	size_t n = strcspn(row, ":");

	if (n >= size)
		return false;
	memcpy(name, row, n);
	name[n] = '\0';
	return true;
}

PK_COLD const struct pk_admit_ops *pk_policy_own(unsigned number)
{
	const struct pk_admit_ops *in_force = pk_load_acquire(&pk_admit), *ops;
	enum pk_policy p = (enum pk_policy)(number - 1);

	if (number > PK_POLICIES)
		return in_force;
	if (!is_composed(p))
		return policies[p].ops;
	ops = pk_composed_ops(p);
	return ops ? ops : in_force;
}

const struct pk_admit_ops *pk_policy_ops(unsigned policy)
{
	return policy < PK_POLICIES ? policies[policy].ops : pk_composed_ops(policy);
}
