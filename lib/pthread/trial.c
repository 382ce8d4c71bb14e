/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Trials; the contract is in trial.h. */
#include "pthread/trial.h"

#include "base/atomic.h"

static struct {
	const struct pk_gate *lock; /* which is tried, or null */
	uint64_t began;
	uint32_t counts[2]; /* how often it was taken, where those who came back queued, and where they waited apart */
	uint64_t next;	    /* before then there is no other trial, */
	const struct pk_gate *last; /* after the one of that mutex */
	uint32_t pauses;
} trial PK_ALIGNED(PK_CACHE_LINE);

/* How long it has been tried, at `now`, which may have been before it was. */
static uint64_t elapsed(uint64_t now)
{
	int64_t ns = (int64_t)(now - pk_load_relaxed(&trial.began));

	return ns > 0 ? (uint64_t)ns : 0;
}

/* Those who come begin at the same time, as near as makes no difference, if they are several. */
static void begin(struct pk_gate *gate, uint64_t now)
{
	const struct pk_gate *seen = pk_load_relaxed(&trial.lock);

	if (seen ? elapsed(now) < 2 * PK_TRIAL_NS : now < pk_load_relaxed(&trial.next))
		return;
	pk_store_relaxed(&trial.began, now);
	pk_store_relaxed(&trial.counts[0], 0);
	pk_store_relaxed(&trial.counts[1], 0);
	if (pk_cas_release(&trial.lock, &seen, gate)) /* T1 */
		pk_or_relaxed(&gate->flags, PK_FLAG_TRIED);
}

static void end(struct pk_gate *gate, uint64_t now)
{
	const struct pk_gate *seen = gate;
	uint32_t queued = pk_load_relaxed(&trial.counts[0]), apart = pk_load_relaxed(&trial.counts[1]), pauses = 1;
	const bool was = pk_load_relaxed(&gate->flags) & PK_FLAG_APART, is = apart > queued - queued / PK_TRIAL_SHARE;

	if (pk_load_relaxed(&trial.last) == gate && was == is) {
		pauses = 2 * pk_load_relaxed(&trial.pauses);
		pauses = pauses < PK_TRIAL_PAUSES ? pauses : PK_TRIAL_PAUSES;
	}
	if (!pk_cas_relaxed(&trial.lock, &seen, NULL))
		return;
	pk_store_relaxed(&trial.next, now + (uint64_t)pauses * PK_TRIAL_PAUSE_NS);
	pk_store_relaxed(&trial.last, gate);
	pk_store_relaxed(&trial.pauses, pauses);
	pk_and_relaxed(&gate->flags, ~PK_FLAG_TRIED);
	if (was == is || queued + apart < PK_TRIAL_LEAST)
		return;
	if (is)
		pk_or_relaxed(&gate->flags, PK_FLAG_APART);
	else
		pk_and_relaxed(&gate->flags, ~PK_FLAG_APART);
}

void pk_trial_tell(struct pk_gate *gate, uint64_t now)
{
	unsigned n = pk_self.counted;
	uint64_t since;

	pk_self.counted = 0;
	if (pk_load_acquire(&trial.lock) != gate) { /* T1 */
		pk_and_relaxed(&gate->flags, ~PK_FLAG_TRIED);
		return;
	}
	since = elapsed(now);
	if (since >= PK_TRIAL_NS)
		end(gate, now);
	else if (n && since % PK_TRIAL_PHASE_NS >= PK_TRIAL_PHASE_NS / 2)
		pk_add_relaxed(&trial.counts[since / PK_TRIAL_PHASE_NS % 2], n);
}

bool pk_trial_apart(struct pk_gate *gate, uint64_t flags, uint64_t now, bool back)
{
	if (flags & PK_FLAG_TRIED) {
		pk_trial_tell(gate, now);
		if (pk_load_acquire(&trial.lock) == gate) /* T1 */
			return elapsed(now) / PK_TRIAL_PHASE_NS % 2;
	} else if ((back || flags & PK_FLAG_APART) && (pk_self.asked++ + (unsigned)pk_self.tid) % PK_TRIAL_ASKS == 0) {
		begin(gate, now);
	}
	return flags & PK_FLAG_APART;
}
