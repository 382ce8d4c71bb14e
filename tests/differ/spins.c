/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Spin locks, whose holders are remembered here, as the word does not tell; the contract is in calls.h. */
#include "calls.h"

struct spin spins[SPINS];

static bool may_try_spin(const struct actor *a, int n)
{
	(void)a;
	(void)n;
	return true;
}

static int try_spin_call(struct actor *a, int n)
{
	int rc = spins[n].holder == NOBODY && a->die % 2 ? pthread_spin_lock(&spins[n].s)
							 : pthread_spin_trylock(&spins[n].s);

	if (!rc)
		spins[n].holder = self_of(a);
	return rc;
}

static bool may_unlock_spin(const struct actor *a, int n)
{
	return spins[n].holder == self_of(a);
}

static int unlock_spin_call(struct actor *a, int n)
{
	(void)a;
	spins[n].holder = NOBODY;
	return pthread_spin_unlock(&spins[n].s);
}

const struct op spin_lock_op = {"lock s", SPINS, may_try_spin, try_spin_call};
const struct op spin_unlock_op = {"unlock s", SPINS, may_unlock_spin, unlock_spin_call};
