/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The names of composed policies, and what they are on this machine; the contract is in
 * levels.h.
 *
 * The last lock named is the root's, those before it are of the levels below the system, the
 * outermost of which come first into play: of a machine with more levels than are named the
 * innermost ones are left out, and of more names than levels the innermost ones. Cohort locks
 * have two: of the nodes, also where there is but one, and the root.
 *
 * A composition is made when its policy is first put in force, and stays: its waiters are told
 * from those of another one by the policy's number, and its bays lie in storeys of its own. So
 * two never share a bay, whichever is in force when. */
#include <stdio.h>
#include <string.h>

#include "admit/levels.h"
#include "base/atomic.h"
#include "rt/config.h"
#include "rt/report.h"
#include "rt/storey.h"

enum {
	COMPOSITIONS = 32,
	NAME = 48,
	LOCKS = 4, /* that may be named */
	CLOF_BOUND = 128,
	COHORT_BOUND = 100,
};

static struct made {
	char name[NAME];
	struct pk_admit_ops ops;
	struct pk_composed composed;
} made[COMPOSITIONS];
static unsigned made_so_far;

static const struct pk_composed *by_policy[UINT8_MAX + 1];

static const struct {
	const char *name;
	const struct pk_basic *lock;
} basic[] = {
	{"tkt", &pk_basic_tkt},
	{"mcs", &pk_basic_mcs},
	{"clh", &pk_basic_clh},
	{"hem", &pk_basic_hem},
};

/* What CLOF is without further ado: fair, and good on both machines of the paper (5.2). */
#define PLAIN "clh-clh-clh-tkt"

const struct pk_composed *pk_composed_of(unsigned policy)
{
	return by_policy[policy];
}

const struct pk_admit_ops *pk_composed_ops(unsigned policy)
{
	for (unsigned i = 0; i < pk_load_acquire(&made_so_far); i++)
		if (made[i].ops.policy == policy)
			return &made[i].ops;
	return NULL;
}

/* The locks that the name says, one for each level, into the composition; how many. 0: it says
 * something else. */
static unsigned read_name(const char *name, struct pk_composed *c)
{
	unsigned n = 0;

	for (;; name++) {
		size_t len = strcspn(name, "-"), i = 0;

		while (i < sizeof(basic) / sizeof(basic[0]) &&
		       (strlen(basic[i].name) != len || memcmp(basic[i].name, name, len) != 0))
			i++;
		if (n == LOCKS || i == sizeof(basic) / sizeof(basic[0]))
			return 0;
		c->lock[n++] = basic[i].lock;
		name += len;
		if (!*name)
			return n;
	}
}

/* n locks are named: fit them to the levels of the machine. */
static void fit(struct pk_composed *c, unsigned n, const char *name)
{
	unsigned levels = pk_levels.n, named = n - 1;
	unsigned skip = named > levels ? named - levels : 0;

	if (skip) {
		pk_report("parkade: warning: PARKADE_POLICY: '%s': the machine has %u level%s: %u of the locks, from "
			  "the first on, %s left out\n",
			  name, levels + 1, levels ? "s" : "", skip, skip == 1 ? "is" : "are");
		memmove(c->lock, c->lock + skip, (n - skip) * sizeof(c->lock[0]));
	}
	c->root = (uint8_t)(named - skip);
	memcpy(c->kind, pk_levels.kind + (levels - c->root), c->root);
}

/* Cohort locks: one for the nodes, one for them all. */
static void two(struct pk_composed *c, const struct pk_basic *global, const struct pk_basic *local)
{
	c->lock[0] = local;
	c->lock[1] = global;
	c->kind[0] = PK_COHORT_NODE;
	c->root = 1;
	c->bound = COHORT_BOUND;
}

static bool lay_out(enum pk_policy row, const char *name, struct pk_composed *c)
{
	const char *colon = strchr(name, ':');
	bool plain = !colon || !colon[1];
	unsigned n;

	c->bound = CLOF_BOUND;
	switch (row) {
	case PK_POLICY_c_bo_mcs:
		two(c, &pk_basic_bo, &pk_basic_mcs);
		return true;
	case PK_POLICY_c_tkt_tkt:
		two(c, &pk_basic_tkt, &pk_basic_tkt);
		return true;
	case PK_POLICY_c_ptl_tkt:
		two(c, &pk_basic_ptl, &pk_basic_tkt);
		return true;
	case PK_POLICY_a_c_bo_bo:
		two(c, &pk_basic_bo, &pk_basic_bo);
		return true;
	case PK_POLICY_a_c_bo_clh:
		two(c, &pk_basic_bo, &pk_basic_clh);
		return true;
	case PK_POLICY_hmcs:
		c->root = (uint8_t)pk_levels.n;
		memcpy(c->kind, pk_levels.kind, pk_levels.n);
		for (unsigned i = 0; i <= pk_levels.n; i++)
			c->lock[i] = &pk_basic_mcs;
		return true;
	default:
		n = read_name(plain ? PLAIN : colon + 1, c);
		if (n < 2) {
			pk_config_reject("policy", name,
					 "not clof: and two to four of tkt, mcs, clh, hem with - between");
			return false;
		}
		if (plain && n - 1 > pk_levels.n) { /* of the plain name the rest is meant */
			memmove(c->lock, c->lock + (n - 1 - pk_levels.n), (pk_levels.n + 1) * sizeof(c->lock[0]));
			n = pk_levels.n + 1;
		}
		fit(c, n, name);
		return true;
	}
}

/* A composition by the name of its row has the row's number, others have numbers behind the table. */
static unsigned number_for(enum pk_policy row, const char *name)
{
	return strchr(name, ':') ? PK_POLICIES + made_so_far : (unsigned)row;
}

const struct pk_admit_ops *pk_compose(enum pk_policy row, const char *name)
{
	struct made *m = made;
	unsigned policy;

	while (m < made + made_so_far && strcmp(m->name, name))
		m++;
	if (m < made + made_so_far)
		return &m->ops;
	if (m == made + COMPOSITIONS || strlen(name) >= sizeof(m->name)) {
		pk_config_reject("policy", name, m == made + COMPOSITIONS ? "too many compositions" : "too long");
		return NULL;
	}
	memset(m, 0, sizeof(*m));
	if (!lay_out(row, name, &m->composed))
		return NULL;
	for (unsigned i = 0; i < m->composed.root; i++) {
		m->composed.storey[i] = pk_storeys_allot(pk_cohorts(m->composed.kind[i]));
		if (!m->composed.storey[i]) {
			pk_config_reject("policy", name, "the machine has too many cohorts");
			return NULL;
		}
	}
	policy = number_for(row, name);
	memcpy(m->name, name, strlen(name));
	memcpy(&m->ops, pk_policy_ops(row), sizeof(m->ops));
	m->ops.policy = (uint8_t)policy;
	by_policy[policy] = &m->composed;
	pk_store_release(&made_so_far, made_so_far + 1);
	return &m->ops;
}
