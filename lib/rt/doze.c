/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping while others are before one; the contract is in doze.h.
 *
 * State of pk_self.wanted
 *	looks	any -> 0	by who begins to wait
 *		n -> n + 1	by its sleep of PARKADE_LOOK * 2^n that ends with time
 *	due	0		no short sleep has ended yet
 *		t		when the next look is, of who sleeps for a short time and again; `naps` counts them */
#include "rt/doze.h"

#include <errno.h>

#include "base/layout.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/thread.h"

enum {
	MOST = 8, /* 2^8: 64 s */
	/* Where sleeps are short, and so often at most. */
	NAP_US = 100000,
	NAPS = 150,
	/* Of those with a deadline by a clock that may be set: it ends such a sleep no earlier. */
	SET_US = 1000000,
};

static void (*look_at_word)(bool last);

void pk_doze_setup(void (*look)(bool last))
{
	look_at_word = look;
}

bool pk_doze_looks(void)
{
	return look_at_word;
}

void pk_doze_begin(struct pk_waiter *w, const int *word, const uint64_t *flags, bool (*pass)(const int *word))
{
	/* First this: then a handler that waits as well leaves the rest alone (pthread/turn.c). */
	pk_store_relaxed(&pk_self.waits, w);
	pk_handlers_see();
	pk_self.wanted.word = word;
	pk_self.wanted.flags = flags;
	pk_self.wanted.pass = pass;
	pk_self.wanted.due = 0;
	pk_self.wanted.naps = pk_self.wanted.looks = 0;
	pk_self.wanted.got = EBUSY;
}

/* Where hundreds of threads wait for one lock it is normal to wait for tens of milliseconds, and each look is a
 * wake-up. */
static unsigned first_us(void)
{
	return (unsigned)pk_config.look * 1000;
}

/* Up to a quarter less, by thread: those who have come at once would all look while the first one has the lock. */
static unsigned time_of(unsigned looks)
{
	uint64_t most = UINT64_C(1) << 31, us = (uint64_t)first_us() << (looks < MOST ? looks : MOST);

	us = us < most ? us : most;
	return (unsigned)(us - (us / 4 * (uint16_t)((unsigned)pk_self.tid * 40503) >> 16));
}

int pk_doze_alone(const void *word, uint32_t expected, const struct pk_deadline *deadline, unsigned *looks, bool *look)
{
	unsigned us = time_of(*looks);
	int ret;

	*look = false;
	if (deadline && deadline->clock == CLOCK_REALTIME && us > SET_US)
		us = SET_US;
	if (!look_at_word || (deadline && pk_clock_left_us(deadline->clock, deadline->abstime) <= us))
		return pk_futex_sleep(word, expected, deadline);
	ret = pk_futex_wait_for(word, expected, us);
	/* After a handler, too: with one after the other the time would never come. */
	*look = ret == ETIMEDOUT || ret == EINTR;
	*looks += ret == ETIMEDOUT;
	return ret == EAGAIN ? EAGAIN : 0;
}

void pk_doze_over(void)
{
	uint64_t now;

	if (!look_at_word || !pk_self.waits)
		return;
	now = pk_clock_us();
	if (!pk_self.wanted.due)
		pk_self.wanted.due = now + first_us();
	if (now < pk_self.wanted.due)
		return;
	pk_self.wanted.due = now + NAP_US;
	look_at_word(++pk_self.wanted.naps >= NAPS);
}

int pk_doze(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	bool look;
	int late;

	pk_store_relaxed(&pk_self.asleep, true);
	late = pk_doze_alone(word, expected, deadline, &pk_self.wanted.looks, &look);
	/* As for any other work on the queue: no handler gives up what is being given up. */
	pk_store_relaxed(&pk_self.asleep, false);
	if (look && pk_self.waits)
		look_at_word(pk_self.wanted.looks >= PK_DOZE_LAST);
	return late == ETIMEDOUT ? late : 0;
}

bool pk_doze_is_slow(void)
{
	return pk_self.wanted.flags && pk_load_relaxed(pk_self.wanted.flags) & PK_FLAG_SLOW;
}

bool pk_doze_sees_free(void)
{
	return pk_self.waits && !pk_self.wanted.pass && pk_self.wanted.flags && !pk_load_relaxed(pk_self.wanted.word) &&
	       !(pk_load_relaxed(pk_self.wanted.flags) & PK_FLAG_QUEUE);
}

bool pk_doze_take(void)
{
	int seen = 0;

	return pk_cas_acquire((int *)pk_self.wanted.word, &seen, 1); /* pthread/word.c, O6 */
}
