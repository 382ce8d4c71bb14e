/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Counts the spinners of each socket; the contract is in spin.h. */
#include "rt/spin.h"

#include <string.h>

#include "base/atomic.h"
#include "rt/config.h"
#include "rt/topology.h"

/* One line a socket: only threads of that socket write it. */
static struct {
	int spinning;
	int limit;
} PK_ALIGNED(PK_CACHE_LINE) sockets[PK_SOCKETS_MAX];

static unsigned front;

void pk_spin_setup(void)
{
	unsigned all = 0;

	for (unsigned s = 0; s < pk_sockets; s++) {
		int cpus = (int)pk_socket_cpus(s);

		sockets[s].limit = pk_config.spin && cpus > 2 ? cpus - 2 : 0;
		all += (unsigned)cpus;
	}
	front = all > 2 ? (unsigned)pk_config.spin : 0;
}

void pk_spin_fork_child(void)
{
	for (unsigned s = 0; s < pk_sockets; s++)
		pk_store_relaxed(&sockets[s].spinning, 0);
}

unsigned pk_spin_head(void)
{
	return (unsigned)pk_config.spin;
}

unsigned pk_spin_steal(unsigned head)
{
	return head / 3;
}

unsigned pk_spin_front(void)
{
	return front;
}

bool pk_spin_room(unsigned socket)
{
	return pk_load_relaxed(&sockets[socket].spinning) < sockets[socket].limit;
}

unsigned pk_spin_rooms(unsigned socket)
{
	int rooms = sockets[socket].limit - pk_load_relaxed(&sockets[socket].spinning);

	return rooms > 0 ? (unsigned)rooms : 0;
}

unsigned pk_spin_begin(struct pk_waiter *w)
{
	if (!pk_spin_room(w->socket))
		return 0;
	/* Two may pass the test at once: the limit is a guide, not a bound. */
	pk_add_relaxed(&sockets[w->socket].spinning, 1);
	w->spins = true;
	return (unsigned)pk_config.spin;
}

void pk_spin_end(struct pk_waiter *w)
{
	if (!w->spins)
		return;
	w->spins = false;
	pk_sub_relaxed(&sockets[w->socket].spinning, 1);
}
