/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* bo: test-and-set with backoff, as a basic lock of compositions. (The policy `backoff` has
 * no lock beside the word.)
 *
 * Paper: as backoff.c; in Cohort (TOPC'15) the global lock of section 3.3 and 3.4, and the
 *	local one of A-C-BO-BO, 3.4.1.
 * Deviations
 *  D91	Who waits is counted, so that there is no successor-exists flag that is raised and
 *	dropped by several, nor a second look after the release (3.4.1): who wants to give
 *	up takes the lock instead if it is free. So a lock that is let go while somebody is
 *	counted is taken for certain.
 *  D92	Who has backed off for PARKADE_SPIN rounds sleeps.
 *
 * State, in `aux` (aux.h), of 29 bits
 *	waiters << 2 | SLEEPERS | HELD
 *	none		(0, 0, HELD)	who comes first
 *	n		n + 1		who finds it held
 *	not HELD	HELD, n - 1	one of these; HELD alone: one who has just come
 *	HELD, n		n - 1		one of these, which gives up
 *	HELD, n		n, or none	the holder, which then wakes one if SLEEPERS was set
 *	SLEEPERS	1		who is about to sleep; who has slept, and takes the lock or
 *					gives up while there are others: one may sleep still
 * State of a waiter: see list.h, but without places. Its node is in no list.
 * Lost wake-ups: a wake-up goes with SLEEPERS cleared, and whoever has it sets that again if
 *	others wait; as with the lock word (pthread/word.c).
 * Fairness: none, as the papers say of it. */
#include "admit/aux.h"
#include "admit/levels.h"
#include "base/await.h"
#include "rt/clock.h"
#include "rt/doze.h"
#include "rt/spin.h"
#include "rt/thread.h"

enum {
	HELD = 1,
	SLEEPERS = 2,
	WAITER = 4,
	SHORTEST = 4, /* rounds */
	LONGEST = 256,
	LOOK_US = 100000, /* after so long a sleeper looks again */
};

static uint32_t state_of(const struct pk_queue *q, uint64_t aux)
{
	return pk_aux_exact(q, aux) ? (uint32_t)aux & PK_AUX_STATE : 0;
}

static uint64_t with(const struct pk_queue *q, uint32_t state)
{
	return state ? pk_aux_of(q, PK_AUX_BO, state) : 0;
}

/* One waiter less in that state, which may have slept. */
static uint32_t without(uint32_t state, bool slept)
{
	if (pk_unlikely(state < WAITER))
		return 0; /* a handler has forked, and this is the child */
	state -= WAITER;
	return state >= WAITER && slept ? state | SLEEPERS : state;
}

/* Take the lock, as one that is counted. False if it is held; then, if `give_up`, it is
 * counted no more. */
static bool take(struct pk_queue *q, const struct pk_waiter *w, bool give_up)
{
	uint64_t aux = pk_load_relaxed(&q->aux);

	for (;;) {
		uint32_t state = state_of(q, aux);
		bool free = !(state & HELD);

		if (!free && !give_up)
			return false;
		state = without(state, w->slept);
		if (pk_cas_acq_rel(&q->aux, &aux, with(q, free ? state | HELD : state)))
			return free;
	}
}

/* Be counted, or the holder if the lock is free: true. -1: another policy has the place. */
static int come(struct pk_queue *q)
{
	uint64_t aux = pk_load_relaxed(&q->aux);

	for (;;) {
		uint32_t state = state_of(q, aux);

		if (pk_aux_exact(q, aux) && !pk_aux_is(q, aux, PK_AUX_BO))
			return -1;
		if (pk_unlikely(state > PK_AUX_STATE - WAITER))
			return -1;
		if (pk_cas_acq_rel(&q->aux, &aux, with(q, state & HELD ? state + WAITER : state | HELD)))
			return !(state & HELD);
	}
}

static void set_state(struct pk_waiter *w, enum pk_state state)
{
	/* relaxed: for the thread itself and its handlers */
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), state));
}

static int doze(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	uint64_t aux = pk_load_relaxed(&q->aux), want = aux | SLEEPERS;
	bool looks = false;
	int late = 0;

	if (!(state_of(q, aux) & HELD) || (aux != want && !pk_cas_relaxed(&q->aux, &aux, want)))
		return 0;
	pk_spin_missed(w);
	pk_count(w, PK_STAT_parked);
	w->slept = true;
	pk_store_relaxed(&pk_self.asleep, true);
	/* A handler may have given up for us since, or does so now, and the state that we know
	 * may come again. So the sleep has an end, and does not go on after a handler. */
	if (pk_state(pk_load_relaxed(&w->status)) < PK_HEAD) {
		struct timespec end = pk_clock_after(LOOK_US);
		struct pk_deadline look = {&end, CLOCK_MONOTONIC};

		looks = !deadline ||
			(pk_doze_looks() && pk_clock_left_us(deadline->clock, deadline->abstime) > LOOK_US);
		late = pk_futex_wait(pk_aux_half(q), (uint32_t)want, looks ? &look : deadline);
	}
	pk_store_relaxed(&pk_self.asleep, false);
	if (looks)
		pk_doze_over();
	/* It may have been woken instead of one that waits. */
	if (pk_unlikely(pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD))
		pk_futex_wake(pk_aux_half(q), 1);
	return looks ? 0 : late;
}

static bool flee(struct pk_queue *q, struct pk_waiter *w)
{
	if (!pk_waiter_abandon(w))
		return !pk_waiter_is_head(w);
	if (take(q, w, true))
		return false;
	pk_waiter_free(w);
	return true;
}

static enum pk_entered wait(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	unsigned budget = pk_spin_begin(w), interval = SHORTEST;

	for (;;) {
		if (pk_unlikely(pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD)) {
			pk_spin_end(w);
			return PK_ORPHANED;
		}
		if (take(q, w, false))
			break;
		for (unsigned n = interval; n && !pk_spent(&budget); n--)
			;
		interval = interval < LONGEST / 2 ? 2 * interval : LONGEST;
		if (!budget && doze(q, w, deadline) && pk_state(pk_load_relaxed(&w->status)) < PK_HEAD) {
			if (!flee(q, w)) {
				set_state(w, PK_HEAD); /* late, and yet the holder */
				return PK_IS_HEAD;
			}
			pk_count(w, PK_STAT_timedout);
			return PK_TIMED_OUT;
		}
	}
	pk_spin_end(w);
	set_state(w, PK_HEAD);
	return PK_IS_HEAD;
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	int come_in;

	w->slept = false;
	pk_waiter_begin(w, PK_WAITING);
	w->queue = q;
	come_in = come(q);
	if (!come_in)
		return wait(q, w, deadline);
	set_state(w, come_in > 0 ? PK_HEAD : PK_ABANDONED);
	if (come_in > 0)
		return PK_IS_HEAD;
	pk_waiter_free(w);
	return PK_ORPHANED;
}

/* Let it go; false if nobody is counted and somebody has to be. */
static bool let_go(struct pk_queue *q, struct pk_waiter *w, bool must)
{
	uint64_t aux = pk_load_relaxed(&q->aux);
	uint32_t state;

	do {
		state = state_of(q, aux);
		if (pk_unlikely(!pk_aux_is(q, aux, PK_AUX_BO)))
			return !must; /* a handler has forked, and this is the child */
		if (must && state < WAITER)
			return false;
	} while (!pk_cas_acq_rel(&q->aux, &aux, with(q, state < WAITER ? 0 : state & ~(uint32_t)(HELD | SLEEPERS))));
	pk_waiter_free(w);
	if (state >= WAITER && state & SLEEPERS && pk_futex_wake(pk_aux_half(q), 1))
		pk_count_in(pk_self.record, PK_STAT_woken);
	return true;
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)held;
	let_go(q, w, false);
}

static bool pass(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	(void)held;
	return let_go(q, w, true);
}

const struct pk_basic pk_basic_bo = {enter, leave, pass, flee, NULL};
