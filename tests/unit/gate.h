/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A lock's word and gate, on a machine that a test chooses, as the library's constructor would find it. */
#ifndef GATE_H
#define GATE_H

#include "pthread/lot.h"
#include "pthread/trial.h"
#include "pthread/turn.h"
#include "rt/config.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "unit.h"

enum { SPIN = 300, TRIES = 10000 };

static struct pk_gate gate;
static int word;

/* With that policy for all locks. */
static inline void make_with(const char *policy, const char *topology, const char *parking)
{
	pk_config.spin = SPIN;
	pk_config.parking = parking;
	pk_config.patience = 10000000; /* however long a head is held up */
	pk_topology_read("", topology);
	pk_spin_setup();
	pk_incarnation_setup();
	pk_incarnation_next();
	pk_thread_setup(pk_turn_gone);
	pk_policy_select(policy);
	pk_lot_setup(parking);
	while (!pk_rounds_in(1000)) /* to find out how long a round is, even on a busy machine */
		;
}

/* No mutex is tried while a test runs, as another one is. Trials begin by chance. */
static inline void no_trials(void)
{
	static struct pk_gate other;

	pk_self.asked = (uint8_t)-pk_self.tid;
	pk_trial_way(&other, 0, pk_clock_ns() + UINT64_C(3600000000000), true);
	ck_assert_uint_eq(other.flags, PK_FLAG_TRIED);
}

static inline struct pk_site site(bool marks)
{
	return (struct pk_site){&word, &gate, SPIN, marks, NULL, NULL, NULL};
}

#endif
