/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How long a round of spinning takes: 4 to 60 ns, depending on the machine. It is measured once, by
 * the first who spins in earnest, on a CPU that may be slow or disturbed at that moment; so the rate is
 * raised when rounds turn out to be quicker. */
#ifndef PK_ROUNDS_H
#define PK_ROUNDS_H

#include <stdint.h>

/* About how many rounds of pk_spent() take so long; 0: that is not known yet, or PARKADE_SPIN is
 * below 256, which is what it takes to find out. */
unsigned pk_rounds_in(unsigned ns);

/* So many rounds have taken so long, or less. */
void pk_rounds_took(unsigned rounds, uint64_t ns);

#endif
