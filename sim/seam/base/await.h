/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Stands before lib/base/await.h in the simulator: a spin loop's round may be many, as
 * long as nothing happens that the loop could see. The contract is that file's. */
#ifndef PK_AWAIT_H
#define PK_AWAIT_H

#include <stdbool.h>

#include "base/arch/arch.h"

/* How many rounds pass until there is something to see; at most `budget'. */
unsigned hn_rounds(unsigned budget);

PK_INLINE bool pk_spent(unsigned *budget)
{
	if (*budget == 0)
		return true;
	*budget -= hn_rounds(*budget);
	return false;
}

#endif
