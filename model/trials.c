/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Trials (pthread/trial.h) that begin, and end, at once, under the checker: clients for locks.c.
 *
 * Each thread says what time it is. What has been lost is a hint; but there is one trial at a time, none is ended before its
 * time or begun before the pause is over, and whatever has happened, the next one goes from its beginning to its end. */
#include "model/locks.h"
#include "pthread/trial.h"

/* How many were counted in the trial that is to be ended: it is better apart. */
enum { QUEUED = 128, APART = 256 };

/* So long ago it would be the second one's turn: who does not know when the trial began is found out. */
static const uint64_t START = UINT64_C(1000001000000), OVER = UINT64_C(1000001000000) + PK_TRIAL_NS;

static struct pk_gate gates[2] PK_ALIGNED(64);

/* One that has to wait for it asks for a trial. */
static enum pk_trial_way ask(struct pk_gate *gate, uint64_t now)
{
	pk_self.asked = (uint8_t)-pk_self.tid;
	return pk_trial_way(gate, pk_load_relaxed(&gate->flags), now, true);
}

static bool is_tried(const struct pk_gate *gate)
{
	return pk_load_relaxed(&gate->flags) & PK_FLAG_TRIED;
}

static bool is_apart(const struct pk_gate *gate)
{
	return pk_load_relaxed(&gate->flags) & PK_FLAG_APART;
}

static void tell(struct pk_gate *gate, unsigned n, uint64_t now)
{
	pk_trial_tell(gate, now); /* what it has counted is of that time */
	pk_self.counted = (uint8_t)n;
	pk_trial_tell(gate, now);
}

/* In the second half of that phase. */
static uint64_t at_phase(uint64_t start, unsigned phase)
{
	return start + (4 * phase + 3) * (uint64_t)PK_TRIAL_PHASE_NS / 4;
}

static void count(struct pk_gate *gate, uint64_t start)
{
	for (unsigned n = 0; n < QUEUED; n += PK_TRIAL_COUNTS)
		tell(gate, PK_TRIAL_COUNTS, at_phase(start, 0));
	for (unsigned n = 0; n < APART; n += PK_TRIAL_COUNTS)
		tell(gate, PK_TRIAL_COUNTS, at_phase(start, 2));
}

static void setup(void)
{
	mc_name(&gates[0].flags, sizeof(gates[0].flags), "the flags");
	mc_name(&gates[1].flags, sizeof(gates[1].flags), "the other one's flags");
	pk_self.tid = 99;
}

/* At the end a trial is over at last, and then there may be another one, which finds out what is better. */
static void works(struct pk_gate *gate)
{
	const uint64_t pause = PK_TRIAL_PAUSES * (uint64_t)PK_TRIAL_PAUSE_NS, start = OVER + 2 * pause;

	pk_self.tid = 99;
	for (unsigned n = 0; n < 2; n++)
		if (is_tried(&gates[n]))
			tell(&gates[n], 1, OVER + pause);
	if (is_tried(&gates[0]) || is_tried(&gates[1]))
		mc_fail("a trial does not end");
	if (ask(gate, start) != PK_TRIAL_SAYS_NOTHING || !is_tried(gate))
		mc_fail("there is no other trial");
	if (ask(gate, start + 1) != PK_TRIAL_QUEUES || ask(gate, at_phase(start, 1)) != PK_TRIAL_APART)
		mc_fail("not by turns");
	count(gate, start);
	tell(gate, 1, start + PK_TRIAL_NS);
	if (is_tried(gate) || !is_apart(gate))
		mc_fail("it is not found out what is better");
}

/* ---- all begin one, and tell of what they have counted ---- */

static void begins_body(unsigned t)
{
	mc_thread_begin(t);
	if (ask(&gates[0], START + t) == PK_TRIAL_APART)
		mc_fail("the second way first");
	if (is_tried(&gates[0]))
		tell(&gates[0], PK_TRIAL_COUNTS, at_phase(START, 0));
	if (is_apart(&gates[0]))
		mc_fail("the second way first");
}

/* Of one that has lost the flag nobody tells; but it is not over. */
static void begins_final(void)
{
	pk_self.tid = 99;
	if (is_tried(&gates[0]))
		mc_reached("a trial goes on");
	else if (ask(&gates[0], START + PK_TRIAL_PAUSE_NS + PK_TRIAL_PHASE_NS) || is_tried(&gates[0]))
		mc_fail("a trial was ended before its time");
	works(&gates[0]);
}

/* ---- all end one, and would begin another one at once ---- */

static void ends_setup(void)
{
	setup();
	ask(&gates[0], START);
	count(&gates[0], START);
}

static void ends_body(unsigned t)
{
	mc_thread_begin(t);
	if (is_tried(&gates[0]))
		tell(&gates[0], 1, OVER + t);
	ask(&gates[1], OVER + PK_TRIAL_PHASE_NS);
	if (is_tried(&gates[1]))
		mc_fail("there is no pause");
}

static void ends_final(void)
{
	if (is_tried(&gates[0]) || !is_apart(&gates[0]))
		mc_fail("it has not been found out what is better");
	works(&gates[1]);
}

/* ---- a trial has no end, as its mutex is gone, and each would have its own one take its place ---- */

static struct pk_gate gone PK_ALIGNED(64);

static void replaced_setup(void)
{
	setup();
	ask(&gone, START);
}

static void replaced_body(unsigned t)
{
	mc_thread_begin(t);
	ask(&gates[t % 2], OVER + PK_TRIAL_PAUSE_NS + t);
}

static void replaced_final(void)
{
	if (is_tried(&gates[0]) && is_tried(&gates[1]))
		mc_fail("two are tried at a time");
	works(&gates[1]);
}

const struct mc_kind mc_trial_kinds[] = {{"trial-begins", setup, begins_body, begins_final, MC_NONE},
					 {"trial-ends", ends_setup, ends_body, ends_final, MC_NONE},
					 {"trial-replaced", replaced_setup, replaced_body, replaced_final, MC_NONE},
					 {NULL, NULL, NULL, NULL, MC_NONE}};
