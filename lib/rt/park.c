/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping by socket; the contract is in park.h.
 *
 * Ledger
 *  O1	The fence in pk_park_ready() and the one in pk_park_call(): who has entered a
 *	bay and then finds the object taken is found in the bay by who lets the object
 *	go and then looks.
 *  O2	release of `calls` pairs with the acquire in pk_park_ready(): who has counted
 *	the call sees the object as the caller left it, so it does not sleep on an old
 *	look at the object and a new count.
 *  O3	release of `lead` pairs with the acquire of who takes it: it sees the users
 *	whom the caller saw.
 *
 * Lost wake-ups: whoever was called, or would have been asleep to be called, is up and
 * looks again. `lead` tells one of those who are up to see to the rest; it stays set
 * until somebody has taken that on. */
#include "rt/park.h"

#include <errno.h>
#include <limits.h>

#include "base/atomic.h"
#include "rt/doze.h"
#include "rt/topology.h"

uint32_t pk_park_ready(struct pk_bay *bay)
{
	uint32_t calls = pk_load_acquire(&bay->calls); /* O2 */

	pk_fence(); /* O1 */
	return calls;
}

int pk_park_sleep(struct pk_bay *bay, uint32_t calls, const struct pk_deadline *deadline, unsigned *looks, bool *look)
{
	return pk_doze_alone(&bay->calls, calls, deadline, looks, look) == ETIMEDOUT ? ETIMEDOUT : 0;
}

bool pk_park_leave(struct pk_bay *bay, const void *object)
{
	bool lead = pk_load_relaxed(&bay->lead) && pk_xchg_acquire(&bay->lead, 0); /* O3 */

	return pk_bay_leave(bay, object) > 1 && lead;
}

int pk_park_call_some(struct pk_bay *bay, int n)
{
	pk_add_release(&bay->calls, 1); /* O2 */
	return pk_futex_wake(&bay->calls, n);
}

int pk_park_call(const void *object)
{
	int woken = 0;

	pk_fence(); /* O1 */
	for (unsigned s = 0; s < pk_sockets; s++)
		for (struct pk_bay *bay = NULL; (bay = pk_bay_next(s, object, bay));) {
			pk_store_release(&bay->lead, 1); /* O3 */
			pk_add_release(&bay->calls, 1);	 /* O2 */
			woken += pk_futex_wake(&bay->calls, 1);
		}
	return woken;
}
