/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* hbo: hierarchical backoff. As backoff, but who is on another socket than the lock's
 * holder keeps away for longer, so that the lock stays on a socket.
 *
 * Paper: Radovic and Hagersten, HPCA 2003; discussed and measured in Cohort (TOPC'15
 *	sections 1 and 4).
 * Deviations
 *  D61	See backoff.c.
 *  D62	The lock word is glibc's and has no room for the holder's socket; a hint beside
 *	it names the last one who had to wait for the lock.
 *  D63	No throttling of a socket's other waiters, nor its remedy against starvation:
 *	whoever waits sleeps on the word before long, as in glibc.
 *
 * State of a waiter: as in backoff.c.
 * Fairness: none.
 * Cost: as backoff.c. */
#include "admit/aux.h"
#include "admit/backoff.h"

enum { SHORTEST = 4, LONGEST = 128, FAR_SHORTEST = 64, FAR_LONGEST = 4096 };

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	unsigned holder = pk_aux_hint(q, PK_HINT_SOCKET);

	if (holder && holder != w->socket + 1u)
		return pk_back_off(w, word, FAR_SHORTEST, FAR_LONGEST);
	return pk_back_off(w, word, SHORTEST, LONGEST);
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	if (held && pk_aux_hint(q, PK_HINT_SOCKET) != w->socket + 1u)
		pk_aux_set_hint(q, PK_HINT_SOCKET, w->socket + 1u);
	pk_back_off_leave(w);
}

const struct pk_admit_ops pk_hbo = {PK_POLICY_hbo, true, pk_back_off_enter, tend, leave, NULL, NULL, NULL, NULL};
