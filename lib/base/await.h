/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waiting is an operation: every spin loop of the library goes through here.
 *
 * A bounded spin reads
 *
 *	for (unsigned n = budget; !pk_spent(&n);)
 *		if (condition) ...
 *
 * so that a checker or a simulator that runs the lock sources finds all busy
 * waiting behind one name. */
#ifndef PK_AWAIT_H
#define PK_AWAIT_H

#include <stdbool.h>

#include "base/arch/arch.h"

/* One round of a bounded spin: true when the budget is spent, else a pause. */
PK_INLINE bool pk_spent(unsigned *budget)
{
	if (*budget == 0)
		return true;
	--*budget;
	pk_arch_relax();
	return false;
}

#endif
