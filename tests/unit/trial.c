/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Whether it pays to queue for a mutex whose users come back at once, or whose order does not pay, is tried (pthread/trial.h); and who waits apart then
 * (pthread/turn.c). */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "admit/order.h"
#include "base/arch/arch.h"
#include "pthread/mutex.h"
#include "pthread/trial.h"
#include "gate.h"
#include "nodes.h"

static const uint64_t START = UINT64_C(1000000000000);

static uint64_t time_is; /* or 0: what the clock says */

uint64_t __real_pk_clock_ns(void);
uint64_t __wrap_pk_clock_ns(void);

uint64_t __wrap_pk_clock_ns(void)
{
	return time_is ? time_is : __real_pk_clock_ns();
}

static uint64_t flags(void)
{
	return gate.flags & (PK_FLAG_TRIED | PK_FLAG_APART);
}

/* Who waits for that gate, at that time, asks for a trial. */
static void ask(struct pk_gate *g, uint64_t now)
{
	pk_self.asked = (uint8_t)-pk_self.tid;
	pk_trial_way(g, g->flags, now, true);
}

/* So does who has the mutex, and is to wait for a condition variable. */
static void ask_as_holder(struct pk_gate *g, uint64_t now)
{
	time_is = now;
	pk_self.asked = (uint8_t)-pk_self.tid;
	pk_trial_ask(g);
	time_is = 0;
}

/* The order in which the ways are tried. */
static const bool apart_in[PK_TRIAL_PHASES] = {false, true, true, false, false, true, true, false, false};
/* The halves of phases that are looked at: 2.5 is the second half of the third one. */
static const double looked_at[] = {0.5, 2, 2.5, 4, 4.5, 6, 6.5, 8.5};

/* When so many percent of that phase are over. */
static uint64_t at_phase(uint64_t start, unsigned phase, unsigned percent)
{
	return start + (uint64_t)phase * PK_TRIAL_PHASE_NS + percent * (uint64_t)PK_TRIAL_PHASE_NS / 100;
}

/* So many have been counted by then, and of late. */
static void tell(struct pk_gate *g, unsigned n, uint64_t now)
{
	pk_self.counted = 0;
	pk_trial_tell(g, now);
	pk_self.counted = (uint8_t)n;
	pk_trial_tell(g, now);
	ck_assert_uint_eq(pk_self.counted, 0);
}

/* And so many of them after waits for a condition variable. */
static void tell_again(struct pk_gate *g, unsigned n, unsigned again, uint64_t now)
{
	pk_trial_tell(g, now);
	pk_self.counted = (uint8_t)n;
	pk_self.again = (uint8_t)again;
	pk_trial_tell(g, now);
	ck_assert_uint_eq(pk_self.counted + pk_self.again, 0);
}

static bool says_back; /* somebody, in a trial */

/* A trial in which so many were counted, of either way; it ends at start + PK_TRIAL_NS. */
static void try_it(struct pk_gate *g, unsigned queued, unsigned apart, uint64_t start)
{
	ask(g, start);
	ck_assert_uint_ne(g->flags & PK_FLAG_TRIED, 0);
	g->flags |= says_back ? PK_FLAG_BACK : 0;
	for (unsigned phase = 0; queued || apart; phase = (phase + 2) % (PK_TRIAL_PHASES + 1)) {
		unsigned *left = apart_in[phase] ? &apart : &queued, n = *left < PK_TRIAL_COUNTS ? *left : PK_TRIAL_COUNTS;

		tell(g, n, at_phase(start, phase, 75));
		*left -= n;
	}
	tell(g, 1, start + PK_TRIAL_NS);
	ck_assert_uint_eq(g->flags & PK_FLAG_TRIED, 0);
}

/* One in so many of a thread's waits asks, of those for mutexes whose users come back, or of which that has been tried; and more of those
 * that are seldom dated. */
START_TEST(is_asked_for)
{
	static const struct {
		uint64_t flags;
		bool open, asks;
		unsigned one_in;
	} table[] = {{0, true, true, PK_TRIAL_ASKS_APART},
		     {0, false, false, 1},
		     {PK_FLAG_APART, false, true, PK_TRIAL_ASKS_APART},
		     {PK_FLAG_APART, true, true, PK_TRIAL_ASKS_APART},
		     {PK_FLAG_BACK, true, true, PK_TRIAL_ASKS},
		     {PK_FLAG_BACK | PK_FLAG_APART, true, true, PK_TRIAL_ASKS}};

	for (unsigned n = 0; n < PK_TRIAL_ASKS; n++) {
		uint64_t now = START + n * UINT64_C(10) * PK_TRIAL_PAUSES * PK_TRIAL_PAUSE_NS;

		gate.flags = table[_i].flags;
		pk_self.asked = (uint8_t)(n - (unsigned)pk_self.tid);
		ck_assert_int_eq(pk_trial_way(&gate, gate.flags, now, table[_i].open),
				 table[_i].flags & PK_FLAG_APART ? PK_TRIAL_APART : PK_TRIAL_SAYS_NOTHING);
		ck_assert_uint_eq(flags(), table[_i].asks && n % table[_i].one_in == 0 ? PK_FLAG_TRIED : table[_i].flags & PK_FLAG_APART);
		ck_assert_uint_eq(pk_self.asked, (uint8_t)(n - (unsigned)pk_self.tid + table[_i].asks));
		tell(&gate, 1, now + 2 * PK_TRIAL_NS); /* it is over */
	}
}
END_TEST

/* Both ways are tried by turns, whatever was better before. A moment before it began is its beginning. */
START_TEST(by_turns)
{
	gate.flags = _i ? PK_FLAG_APART : 0;
	ask(&gate, START);
	ck_assert_int_eq(pk_trial_way(&gate, gate.flags, START - 1000, true), PK_TRIAL_QUEUES);
	ck_assert_uint_eq(flags(), PK_FLAG_TRIED);
	for (unsigned n = 0; n < PK_TRIAL_PHASES; n++)
		for (unsigned percent = 0; percent < 100; percent += 99) {
			ck_assert_int_eq(pk_trial_way(&gate, gate.flags, at_phase(START, n, percent), n % 3),
					 apart_in[n] ? PK_TRIAL_APART : PK_TRIAL_QUEUES);
			ck_assert_uint_eq(flags(), PK_FLAG_TRIED | (apart_in[n] ? PK_FLAG_APART : 0)); /* for who does not look at the clock */
		}
	/* Too few were counted. */
	ck_assert_int_eq(pk_trial_way(&gate, gate.flags, START + PK_TRIAL_NS, true), _i ? PK_TRIAL_APART : PK_TRIAL_SAYS_NOTHING);
	ck_assert_uint_eq(flags(), _i ? PK_FLAG_APART : 0);
}
END_TEST

/* Apart is better if less than an eighth is missing; if not, nobody doubts that they come back. With few of either way nothing is said, and they
 * wait as they did before, though somebody said meanwhile that they come back (who queues as that is tried). */
START_TEST(is_decided)
{
	static const struct {
		unsigned queued, apart;
		bool was, is;
	} table[] = {{3200, 3200, false, true}, {3200, 3200, true, true}, {3200, 2801, false, true},  {3200, 2800, false, false}, {3200, 2800, true, false},
		     {100, 100, false, true},	{99, 100, false, false},  {100, 99, true, true},      {99, 3000, false, false},	  {3000, 99, true, true},
		     {3000, 100, true, false},	{400, 180, true, false},  {100, 3000, false, true}};

	const uint64_t before = _i % 2 ? PK_FLAG_PROVED | PK_FLAG_BACK : 0;
	const bool decided = table[_i].queued >= PK_TRIAL_LEAST && table[_i].apart >= PK_TRIAL_LEAST;

	gate.flags = (table[_i].was ? PK_FLAG_APART : 0) | before;
	says_back = true;
	try_it(&gate, table[_i].queued, table[_i].apart, START);
	says_back = false;
	ck_assert_uint_eq(flags(), table[_i].is ? PK_FLAG_APART : 0);
	ck_assert_uint_eq(gate.flags & PK_FLAG_PROVED, decided && !table[_i].is ? PK_FLAG_PROVED : 0);
	ck_assert_uint_eq(gate.flags & PK_FLAG_BACK, (decided ? !table[_i].is : before > 0) ? PK_FLAG_BACK : 0);
	ck_assert_int_eq(pk_trial_way(&gate, gate.flags, START + PK_TRIAL_NS, false), table[_i].is ? PK_TRIAL_APART : PK_TRIAL_SAYS_NOTHING);
}
END_TEST

/* Who takes it again after a wait is none of its users, unless these are not one in eight of those. */
START_TEST(is_decided_by_uses)
{
	enum { TIMES = 10 };
	static const struct {
		unsigned uses[2], again[2]; /* tenths; queued, apart */
		bool is;
	} table[] = {{{40, 40}, {150, 80}, true}, {{40, 30}, {0, 150}, false},    {{1, 1}, {100, 90}, true}, {{0, 0}, {100, 80}, false},
		     {{0, 0}, {0, 100}, false},   {{20, 10}, {120, 121}, true}, {{20, 10}, {120, 119}, false}};
	const bool decided = table[_i].uses[0] + table[_i].again[0] > 0;

	ask(&gate, START);
	for (unsigned phase = 0; phase < PK_TRIAL_PHASES; phase++)
		if (phase == 2 || phase == 4) {
			const unsigned way = apart_in[phase];

			for (int n = 0; n < TIMES; n++)
				tell_again(&gate, table[_i].uses[way] + table[_i].again[way], table[_i].again[way], at_phase(START, phase, 75));
		}
	tell(&gate, 1, START + PK_TRIAL_NS);
	ck_assert_uint_eq(flags(), table[_i].is ? PK_FLAG_APART : 0);
	ck_assert_uint_eq(gate.flags & PK_FLAG_PROVED, decided && !table[_i].is ? PK_FLAG_PROVED : 0);
}
END_TEST

/* What is counted in the first phase of a way is not looked at, as sleepers of the one before are to wake up; but for the very first, of which the second half
 * is. Nor is that of the last one's first half, or there would be more of it than of the other way. */
START_TEST(late_halves_are_looked_at)
{
	unsigned apart = apart_in[_i / 2];
	bool looked = false;

	for (unsigned n = 0; n < sizeof(looked_at) / sizeof(looked_at[0]); n++)
		looked |= 2 * looked_at[n] == _i;
	ask(&gate, START);
	tell(&gate, apart ? 110 : 90, at_phase(START, 0, 75));
	tell(&gate, apart ? 90 : 110, at_phase(START, 2, 25));
	tell(&gate, 20, START + (unsigned)_i * (PK_TRIAL_PHASE_NS / 2) + 1);
	tell(&gate, 1, START + PK_TRIAL_NS);
	ck_assert_uint_eq(flags(), looked ? PK_FLAG_APART : 0); /* or they are too few */
}
END_TEST

/* What has been counted is of the half in which that was, whenever it is told; nothing of a trial that is over; and who finds that the half is
 * another one tells of it before it counts on. */
START_TEST(is_of_its_half)
{
	const uint64_t start = pk_clock_ns() + UINT64_C(3600000000000); /* now is before it has begun */

	ask(&gate, start);
	tell(&gate, 0, at_phase(start, 0, 75));
	pk_self.counted = 120;
	if (_i == 1) { /* another thread finds out */
		pk_trial_half++;
		pk_trial_count(&gate);
		ck_assert_uint_eq(pk_self.counted, 1);
		ck_assert_uint_eq(pk_self.half, pk_trial_half);
	} else if (_i == 2) {
		pk_self.half = (uint8_t)(pk_self.half - 32); /* of an earlier one */
	}
	pk_trial_tell(&gate, at_phase(start, 2, 25));
	ck_assert_uint_eq(pk_self.counted, 0);
	tell(&gate, 100, at_phase(start, 2, 75));
	tell(&gate, 1, start + PK_TRIAL_NS);
	ck_assert_uint_eq(gate.flags, _i == 2 ? 0 : PK_FLAG_PROVED | PK_FLAG_BACK);
}
END_TEST

/* So many are counted before a thread tells of them; and of those after waits, as well. */
START_TEST(tells_of_many)
{
	ask(&gate, pk_clock_ns());
	tell(&gate, 0, pk_clock_ns());
	for (unsigned n = 1; n <= 3 * PK_TRIAL_COUNTS; n++) {
		pk_self.half = pk_trial_half; /* time goes by */
		pk_trial_count(&gate);
		pk_trial_count_again();
		ck_assert_uint_eq(pk_self.counted, (n - 1) % PK_TRIAL_COUNTS + 1);
		ck_assert_uint_eq(pk_self.again, pk_self.counted);
	}
}
END_TEST

/* Who comes back from waits only brings a trial to its end, too. */
START_TEST(ends_with_waits)
{
	uint64_t began = pk_clock_ns();

	ask(&gate, began);
	while (gate.flags & PK_FLAG_TRIED && pk_clock_ns() - began < UINT64_C(60000000000)) {
		pk_trial_count(&gate);
		pk_trial_count_again();
	}
	ck_assert_uint_eq(gate.flags & PK_FLAG_TRIED, 0);
	ck_assert_uint_ge(pk_clock_ns() - began, PK_TRIAL_NS);
}
END_TEST

/* What has been counted in a trial is none of the next one's. */
START_TEST(is_of_its_trial)
{
	const uint64_t next = START + PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;

	ask(&gate, START);
	tell(&gate, 1, START + PK_TRIAL_NS);
	ask(&gate, next);
	tell(&gate, 0, at_phase(next, 0, 75));
	pk_self.counted = 120;
	tell(&gate, 1, next + PK_TRIAL_NS);
	pk_self.counted = 120; /* the thread was not there when it ended */
	ask(&gate, next + PK_TRIAL_NS + 2 * PK_TRIAL_PAUSE_NS);
	ck_assert_uint_ne(gate.flags & PK_FLAG_TRIED, 0);
	pk_trial_tell(&gate, next + PK_TRIAL_NS + 2 * PK_TRIAL_PAUSE_NS);
	tell(&gate, 100, at_phase(next + PK_TRIAL_NS + 2 * PK_TRIAL_PAUSE_NS, 2, 75));
	tell(&gate, 1, next + 2 * PK_TRIAL_NS + 2 * PK_TRIAL_PAUSE_NS);
	ck_assert_uint_eq(gate.flags, 0); /* too few */
}
END_TEST

/* Who has the mutex asks as seldom as who waits for it. */
START_TEST(is_asked_for_by_who_has_it)
{
	const uint64_t back = _i ? PK_FLAG_BACK : 0;
	const unsigned one_in = _i ? PK_TRIAL_ASKS : PK_TRIAL_ASKS_APART;

	gate.flags = back;
	for (unsigned n = 1; n <= one_in; n++) {
		pk_self.asked = (uint8_t)(n - (unsigned)pk_self.tid);
		pk_trial_ask(&gate);
		ck_assert_uint_eq(gate.flags, n < one_in ? back : back | PK_FLAG_TRIED);
	}
}
END_TEST

/* Asked for by who has it, and if nothing is known for its queue, nor against it (_i even): all wait as ever when they do not all wait apart. Not if users come
 * back (2), the order does not pay (4), or it is one that waits who asks (6). The other way is better (odd), or not. */
START_TEST(is_as_ever)
{
	const uint64_t back = _i / 2 == 1 ? PK_FLAG_BACK : 0;
	const bool ever = _i / 2 == 0;

	gate.flags = back | PK_FLAG_PROVED; /* long ago */
	pk_aux_set_hint(&gate.queue, PK_HINT_ORDER, _i / 2 == 2 ? PK_ORDER_LIMIT : 0);
	if (_i / 2 == 3)
		ask(&gate, START);
	else
		ask_as_holder(&gate, START);
	ck_assert_uint_eq(gate.flags, back | PK_FLAG_PROVED | PK_FLAG_TRIED);
	ck_assert_int_eq(pk_trial_way(&gate, gate.flags, at_phase(START, 0, 75), false), ever ? PK_TRIAL_SAYS_NOTHING : PK_TRIAL_QUEUES);
	ck_assert_int_eq(pk_trial_way(&gate, gate.flags, at_phase(START, 2, 75), false), PK_TRIAL_APART);
	tell(&gate, 120, at_phase(START, 0, 75));
	tell(&gate, _i % 2 ? 120 : 100, at_phase(START, 2, 75));
	tell(&gate, 0, START + PK_TRIAL_NS);
	ck_assert_uint_eq(gate.flags, _i % 2 ? PK_FLAG_APART : ever ? 0 : PK_FLAG_PROVED | PK_FLAG_BACK);
}
END_TEST

/* Who asks for one that goes on, or should be over long ago, does not begin it anew: how all waited in it is not how they waited before. */
START_TEST(does_not_take_over_itself)
{
	ask_as_holder(&gate, START);
	tell(&gate, 0, at_phase(START, 1, 75));
	ck_assert_uint_eq(gate.flags, PK_FLAG_TRIED | PK_FLAG_APART);
	ask_as_holder(&gate, START + PK_TRIAL_NS + PK_TRIAL_PAUSE_NS + 1);
	ck_assert_uint_eq(gate.flags, 0);
}
END_TEST

/* As many in each half, but somebody was there until the sixth (_i 0), or the tenth, only, or to the end (2) but for the very last. */
START_TEST(is_cut_short)
{
	static const int halves[] = {6, 10, 2 * PK_TRIAL_PHASES};

	ask(&gate, START);
	for (int half = 0; half < halves[_i]; half++)
		tell(&gate, 100, START + (unsigned)half * (PK_TRIAL_PHASE_NS / 2) + 1000);
	tell(&gate, 1, START + PK_TRIAL_NS + PK_TRIAL_PHASE_NS - (_i == 2));
	ck_assert_uint_eq(gate.flags, _i == 2 ? PK_FLAG_APART : 0);
}
END_TEST

/* One that has said nothing is no reason to wait longer for the next. */
START_TEST(says_nothing_again)
{
	uint64_t now = START;

	for (int n = 0; n < 6; n++) {
		ask(&gate, now);
		ck_assert_uint_eq(gate.flags, PK_FLAG_TRIED);
		tell(&gate, 0, now + PK_TRIAL_NS);
		now += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	}
}
END_TEST

/* Another one's has taken its place in a phase in which all wait apart: it is not that they do from now on. */
START_TEST(leaves_nothing)
{
	const uint64_t late = START + PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	static struct pk_gate other;

	ask(&other, START);
	tell(&other, 0, at_phase(START, 1, 75));
	ask(&gate, late);
	pk_trial_way(&other, other.flags, late, true);
	ck_assert_uint_eq(other.flags, 0);
	other.flags = PK_FLAG_APART; /* found by one that went to its end */
	pk_trial_tell(&other, late);
	ck_assert_uint_eq(other.flags, PK_FLAG_APART);
}
END_TEST

/* What is said meanwhile by who waits stays, if that was as ever. */
START_TEST(is_said_meanwhile)
{
	ask_as_holder(&gate, START);
	tell(&gate, 120, at_phase(START, 0, 75));
	tell(&gate, 100, at_phase(START, 2, 75));
	gate.flags |= PK_FLAG_BACK;
	tell(&gate, 0, START + PK_TRIAL_NS);
	ck_assert_uint_eq(gate.flags, PK_FLAG_BACK);
}
END_TEST

/* Who was held up as it told of what it had counted changes nothing when the trial is over. */
START_TEST(is_over)
{
	gate.flags = _i ? PK_FLAG_APART : 0;
	gate.flags |= PK_FLAG_LOT;
	ask(&gate, START);
	ck_assert_uint_eq(gate.flags, PK_FLAG_TRIED | PK_FLAG_LOT);
	gate.flags = PK_FLAG_LOT | (_i ? PK_FLAG_APART : 0); /* another thread has ended it since this one looked */
	pk_trial_tell(&gate, at_phase(START, _i ? 0 : 2, 25));
	ck_assert_uint_eq(gate.flags, PK_FLAG_LOT | (_i ? PK_FLAG_APART : 0));
}
END_TEST

/* All threads' counts count, those of who does not come back as well; and no other trial's, of another mutex (_i == 1) or of this one. */
START_TEST(is_summed_up)
{
	enum { THREADS = 40 };
	static struct pk_gate other;
	const int tid = pk_self.tid;
	uint64_t start = START;

	if (_i) {
		struct pk_gate *first = _i == 1 ? &other : &gate;

		ask(first, start);
		for (int n = 0; n < THREADS; n++) {
			pk_self.tid = tid + n;
			tell(first, 125, at_phase(start, 0, 75)); /* it would be queued that is better */
		}
		pk_self.tid = tid;
		pk_trial_way(first, first->flags, start + PK_TRIAL_NS, true);
		ck_assert_uint_eq(first->flags & (PK_FLAG_TRIED | PK_FLAG_PROVED), 0);
		start += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	}
	ask(&gate, start);
	for (int n = 0; n < THREADS; n++) {
		pk_self.tid = tid + n;
		tell(&gate, 10, at_phase(start, (unsigned)n % 2 * 2, 75)); /* as many of either way */
	}
	pk_self.tid = tid;
	tell(&gate, 120, start + PK_TRIAL_NS); /* and these are of neither */
	ck_assert_uint_eq(flags(), PK_FLAG_APART);
	ck_assert_uint_eq(gate.flags & PK_FLAG_PROVED, 0);
}
END_TEST

/* From its end to the next one there is a pause, longer and longer for the same mutex as long as the same is found. Other mutexes do not wait for
 * that. */
START_TEST(is_tried_again)
{
	uint64_t now = START;
	static struct pk_gate other, third;

	for (unsigned n = 0; n < 8; n++) {
		unsigned pauses = n < 4 ? 1u << n : PK_TRIAL_PAUSES;

		try_it(&gate, 1000, 100, now);
		now += PK_TRIAL_NS;
		ask(&other, now + PK_TRIAL_PAUSE_NS - 1);
		now += (uint64_t)pauses * PK_TRIAL_PAUSE_NS;
		ask(&gate, now - 1);
		ck_assert_uint_eq(flags() | other.flags, 0);
	}
	try_it(&gate, 100, 1000, now); /* it has found something else */
	now += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	try_it(&gate, 100, 1000, now);
	now += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	try_it(&other, 100, 1000, now); /* of another one */
	now += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	try_it(&other, 100, 1000, now);
	now += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	try_it(&third, 0, 0, now);
	now += PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	try_it(&gate, 600, 100, now); /* nothing is left of those before */
	ck_assert_uint_eq(flags(), 0);
}
END_TEST

/* One mutex is tried at a time, until its trial has had no end for long. Another one's flag goes. */
START_TEST(one_at_a_time)
{
	const uint64_t late = START + PK_TRIAL_NS + PK_TRIAL_PAUSE_NS;
	static struct pk_gate other;

	ask(&other, START);
	ck_assert_uint_eq(other.flags, PK_FLAG_TRIED);
	tell(&other, 120, at_phase(START, 2, 75));
	tell(&other, 120, at_phase(START, 6, 75));
	gate.flags = PK_FLAG_APART;
	ask(&gate, late - 1);
	ck_assert_uint_eq(gate.flags, PK_FLAG_APART);
	ask(&gate, late);
	ck_assert_uint_eq(gate.flags, PK_FLAG_TRIED);
	pk_trial_way(&other, other.flags, late, true);
	ck_assert_uint_eq(other.flags & PK_FLAG_TRIED, 0);
	/* What is counted of it stays if the thread waits for another one meanwhile. */
	pk_self.counted = 5;
	pk_trial_way(&other, 0, late, true);
	ck_assert_uint_eq(pk_self.counted, 5);
	/* Nothing of the first one is in it. */
	tell(&gate, 120, at_phase(late, 0, 75));
	tell(&gate, 100, at_phase(late, 2, 75));
	tell(&gate, 1, late + PK_TRIAL_NS);
	ck_assert_uint_eq(gate.flags, PK_FLAG_PROVED | PK_FLAG_BACK);
}
END_TEST

/* Who takes a mutex that is tried counts, whether it had to wait or not, but for who has it already, and by trylock; the fast way does not know of it.
 * (After a wait for a condition variable: tests/unit/moved.) */
START_TEST(is_counted)
{
	static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
	const bool recursive = types[_i] == PTHREAD_MUTEX_RECURSIVE;
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;
	struct pk_mutex *m = pk_mutex_of(&mutex);
	struct timespec until = {1, 0};
	uint64_t ahead;

	make_with("shfl", "1x8", "auto");
	ck_assert(pk_thread_start());
	/* What a trial has found keeps nobody from the short way. */
	ck_assert(pk_mutex_is_plain(PK_FLAG_PROVED | PK_FLAG_BACK, pk_self.tid) && pk_mutex_is_plain(PK_FLAG_APART, pk_self.tid));
	ck_assert(!pk_mutex_is_plain(PK_FLAG_TRIED, pk_self.tid));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, types[_i]);
	ck_assert_int_eq(pk_mutex_init(&mutex, &attr), 0);
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_uint_eq(pk_self.counted, 0);
	ahead = pk_clock_ns() + UINT64_C(3600000000000); /* it has no end */
	ask(pk_mutex_gate(m), ahead);
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	ck_assert_uint_eq(pk_self.counted, 1);
	ck_assert_int_eq(m->owner, pk_self.tid);
	ck_assert_uint_eq(m->nusers, 1);
	ck_assert_uint_eq(m->count, recursive);
	if (recursive) {
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	}
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_int_eq(pk_mutex_trylock(&mutex), 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_uint_eq(pk_self.counted, 1);
	ck_assert_int_eq(pk_mutex_timedlock(&mutex, &until), 0);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_uint_eq(pk_self.counted, 2);
	m->kind |= PK_FLAG_QUEUE; /* it goes by way of the queue, and tells before */
	ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
	ck_assert_int_eq(m->owner, pk_self.tid);
	ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	ck_assert_uint_eq(pk_self.counted, 1);
	ck_assert_uint_ne(m->kind & PK_FLAG_TRIED, 0);
	ck_assert_int_eq(m->lock, 0);
	ck_assert_uint_eq(m->nusers, 0);
	/* If it is not the one that is tried the flag goes. */
	memset(m, 0, sizeof(*m));
	ask(&gate, ahead + PK_TRIAL_NS + PK_TRIAL_PAUSE_NS);
	m->kind |= PK_FLAG_TRIED;
	pk_self.half = pk_trial_half;
	pk_self.counted = PK_TRIAL_COUNTS - 1;
	for (unsigned n = 0; n < 2; n++) {
		ck_assert_uint_ne(m->kind & PK_FLAG_TRIED, 0);
		ck_assert_int_eq(pk_mutex_lock(&mutex), 0);
		ck_assert_int_eq(pk_mutex_unlock(&mutex), 0);
	}
	ck_assert_uint_eq(m->kind & PK_FLAG_TRIED, 0);
	ck_assert_uint_eq(pk_self.counted, 1);
}
END_TEST

/* All wait apart where that is better: without a head, and as if nobody came back. By another policy it is not asked. */
START_TEST(waits_apart)
{
	static const struct {
		const char *policy, *topology, *parking;
		uint64_t flags;
		bool apart;
	} table[] = {{"shfl", "1x8", "auto", PK_FLAG_APART, true},
		     {"shfl", "1x8", "auto", PK_FLAG_APART | PK_FLAG_BACK, true},
		     {"shfl", "1x8", "auto", PK_FLAG_BACK, false},
		     {"shfl", "1x8", "auto", 0, false},
		     {"shfl", "1x8", "auto", PK_FLAG_APART | PK_FLAG_QUEUE, false},
		     {"shfl", "1x8", "queue", PK_FLAG_APART, false},
		     {"shfl", "2x8", "auto", PK_FLAG_APART, true},
		     {"shfl", "2x8", "auto", PK_FLAG_APART | PK_FLAG_BACK, true},
		     {"shfl", "2x8", "auto", PK_FLAG_BACK, false},
		     {"shfl", "2x8", "auto", PK_FLAG_APART | PK_FLAG_QUEUE, false},
		     {"mcs", "1x8", "auto", PK_FLAG_APART, false}};
	struct pk_site at = site(true);
	struct pk_record *r;

	make_with(table[_i].policy, table[_i].topology, table[_i].parking);
	r = pk_thread_record();
	ck_assert_ptr_nonnull(r);
	for (int n = 0; n < 10; n++) {
		uint64_t bypassed = r->stat[PK_STAT_bypassed];

		gate.flags = table[_i].flags;
		word = 0;
		pk_self.won.word = &word; /* it comes back at once */
		pk_self.won.ns = pk_clock_ns();
		pk_self.won.rounds = pk_self.won.waited = 0;
		pk_self.asked = (uint8_t)(1 - pk_self.tid); /* and asks for nothing */
		ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
		ck_assert_int_eq(word, 1);
		ck_assert_uint_eq(r->stat[PK_STAT_bypassed] - bypassed, table[_i].apart);
		if (table[_i].apart) {
			ck_assert_uint_eq(gate.flags, table[_i].flags);
			ck_assert(!pk_self.back && !pk_self.soon && !pk_self.late);
		}
	}
}
END_TEST

/* And asks, if it says so, or the order of several sockets does not pay. */
START_TEST(asks)
{
	static const struct {
		const char *policy, *topology;
		uint64_t flags;
		bool pays, asks;
	} table[] = {{"shfl", "1x8", PK_FLAG_BACK, true, true}, {"shfl", "2x8", PK_FLAG_BACK, true, true}, {"mcs", "1x8", PK_FLAG_BACK, true, false},
		     {"shfl", "1x8", 0, true, false},		{"shfl", "2x8", 0, true, false},	   {"shfl", "2x8", 0, false, true},
		     {"shfl", "1x8", 0, false, false},		{"mcs", "2x8", 0, false, false}};
	struct pk_site at = site(true);

	make_with(table[_i].policy, table[_i].topology, "auto");
	ck_assert_ptr_nonnull(pk_thread_record());
	gate.flags = table[_i].flags;
	pk_aux_set_hint(&gate.queue, PK_HINT_ORDER, table[_i].pays ? 0 : PK_ORDER_LIMIT);
	pk_self.asked = (uint8_t)-pk_self.tid;
	pk_self.bypasses = (uint8_t)-pk_self.tid; /* it is dated */
	ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
	ck_assert_int_eq(!!(gate.flags & PK_FLAG_TRIED), table[_i].asks);
}
END_TEST

/* While queueing is tried all queue, whether they come back or not, and have told so or not, and where else they would wait apart, as the order does not
 * pay; and all waits are dated. */
START_TEST(queues)
{
	static const char *const topologies[] = {"1x8", "2x8"};
	struct pk_site at = site(true);
	struct pk_record *r;

	make_with("shfl", topologies[_i % 2], "auto");
	r = pk_thread_record();
	ck_assert_ptr_nonnull(r);
	ask(&gate, pk_clock_ns() + UINT64_C(3600000000000)); /* it does not get beyond the first phase */
	pk_aux_set_hint(&gate.queue, PK_HINT_ORDER, _i / 2 ? PK_ORDER_LIMIT : 0);
	for (int n = 0; n < 2 * PK_ORDER_APART; n++) {
		uint64_t before = r->stat[PK_STAT_entered] + r->stat[PK_STAT_stolen];

		gate.flags = PK_FLAG_TRIED | (n % 3 ? PK_FLAG_BACK : 0);
		word = 0;
		pk_self.came = 0;
		pk_self.won.word = NULL;
		ck_assert_int_eq(pk_turn_wait(&at, NULL), 0);
		ck_assert_uint_ne(pk_self.came, 0);
		ck_assert_uint_eq(gate.flags & (PK_FLAG_TRIED | PK_FLAG_BACK), PK_FLAG_TRIED | PK_FLAG_BACK);
		ck_assert_uint_eq(r->stat[PK_STAT_entered] + r->stat[PK_STAT_stolen], before + 1);
		ck_assert_uint_eq(r->stat[PK_STAT_bypassed], 0);
	}
}
END_TEST

static uint64_t went_apart, queued;

static void *wait_apart(void *at)
{
	struct pk_record *r;

	ck_assert(pk_thread_start());
	pk_self.bypasses = (uint8_t)-pk_self.tid; /* it is dated */
	pk_self.asked = (uint8_t)(1 - pk_self.tid);
	ck_assert_int_eq(pk_turn_wait(at, NULL), 0);
	r = pk_thread_record();
	went_apart = r->stat[PK_STAT_bypassed];
	queued = r->stat[PK_STAT_entered];
	return NULL;
}

/* Who is woken in vain 32 times queues if others do. Else, if that has taken ten times its patience, or happens ten times as often, and
 * so do others from then on. During a trial only then, too. */
START_TEST(has_had_enough)
{
	static const struct {
		const char *topology;
		uint64_t flags;
		unsigned times; /* after so many, if with 32 it has waited for long; 0: it does not */
		uint64_t then; /* set after that */
	} table[] = {{"1x8", PK_FLAG_APART, 320, PK_FLAG_BACK},
		     {"2x8", PK_FLAG_APART, 320, PK_FLAG_BACK},
		     {"2x8", 0, 320, PK_FLAG_BACK},
		     {"2x8", 0, 32, PK_FLAG_BACK},
		     {"1x8", PK_FLAG_APART, 32, PK_FLAG_BACK},
		     {"2x8", PK_FLAG_APART, 32, PK_FLAG_BACK},
		     {"1x8", PK_FLAG_APART | PK_FLAG_BACK, 0, PK_FLAG_APART | PK_FLAG_BACK},
		     {"1x8", 0, 0, 0},
		     {"1x8", PK_FLAG_BACK, 32, PK_FLAG_BACK},
		     {"2x8", PK_FLAG_BACK, 32, PK_FLAG_BACK},
		     {"1x8", PK_FLAG_BACK | PK_FLAG_TRIED, 320, PK_FLAG_BACK}};
	/* (Those with BACK have waited for long as well, which does not matter.) */
	const unsigned times = table[_i].times;
	struct pk_site at = site(true);
	pthread_t thread;

	make_with("shfl", table[_i].topology, "auto");
	no_trials();
	if (times == 32)
		pk_config.patience = 1000;
	gate.flags = PK_FLAG_APART; /* to begin with */
	word = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_apart, &at), 0);
	while (pk_load_acquire(&word) != 2)
		sched_yield();
	pk_store_relaxed(&gate.flags, table[_i].flags);
	if (times == 32)
		nanosleep(&(struct timespec){0, 20000000}, NULL);
	for (unsigned woken = 0; woken < (times ? times : 300); woken += (unsigned)pk_futex_wake(&word, 1)) {
		ck_assert(!pk_queue_busy(&gate.queue) || (times && woken + 1 >= times)); /* then it may be on its way */
		sched_yield();
	}
	if (times) {
		while (!pk_queue_busy(&gate.queue))
			sched_yield();
	} else {
		while (!pk_futex_wake(&word, 1)) /* it is still there */
			sched_yield();
		ck_assert(!pk_queue_busy(&gate.queue));
	}
	ck_assert_uint_eq(pk_load_relaxed(&gate.flags) & (PK_FLAG_APART | PK_FLAG_BACK), table[_i].then);
	pk_store_release(&word, 0);
	pk_futex_wake(&word, 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(went_apart, 1);
	ck_assert_uint_eq(queued, times > 0);
}
END_TEST

/* ---- who goes over to the queue ---- */

enum { VAIN = 32, PATIENCES = 10, LONG_US = 1000000000, OTHERS = 2 };

static struct {
	bool nodeless;
	const struct pk_deadline *deadline;
	struct pk_record *record;
	int got;
} guest;

static pthread_t one, other;
static int inside;	/* 1: somebody has the lock, and is the only one */
static unsigned claims; /* how often the other one has set the word to 2 */
static struct timespec until;
static const struct pk_deadline deadline = {&until, CLOCK_MONOTONIC};

/* As its owner does. */
static void let_go(void)
{
	pk_store_relaxed(&inside, 0);
	if (pk_xchg_release(&word, 0) == 2)
		pk_futex_wake(&word, 1);
}

static void have_it(void)
{
	ck_assert_int_eq(pk_xchg_acquire(&inside, 1), 0);
	ck_assert_int_ne(pk_load_relaxed(&word), 0);
	sched_yield();
	let_go();
}

/* As glibc's waiters do; but it can be left alone while the one is woken, which heeds every wake-up. */
static void *sleep_beside(void *unused)
{
	for (pk_store_relaxed(&claims, 1); pk_xchg_acq_rel(&word, 2); pk_store_relaxed(&claims, claims + 1))
		pk_futex_wait_bits(&word, 2, OTHERS, NULL);
	have_it();
	return unused;
}

static void *go_over(void *at)
{
	struct pk_waiter *taken[PK_RECORD_NODES];
	unsigned n = 0;

	ck_assert(pk_thread_start());
	pk_self.bypasses = (uint8_t)-pk_self.tid; /* it is dated */
	pk_self.asked = (uint8_t)(1 - pk_self.tid);
	guest.record = pk_thread_record();
	while (guest.nodeless && pk_waiters_idle(guest.record) >= 2)
		taken[n++] = pk_waiter_take(guest.record);
	guest.got = pk_turn_wait(at, guest.deadline);
	if (guest.got) {
		ck_assert_int_eq(guest.got, ETIMEDOUT);
		ck_assert(pk_clock_passed(CLOCK_MONOTONIC, &until));
	} else {
		have_it();
	}
	while (n)
		pk_waiter_free(taken[--n]);
	return NULL;
}

static uint64_t guest_stat(unsigned stat)
{
	return pk_load_relaxed(&guest.record->stat[stat]);
}

/* Until so many sleep there, with the word at 2: so many the kernel would move from there to there. */
static void await_sleepers(long n)
{
	while (pk_arch_syscall(SYS_futex, (long)&word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, MAX, (long)&word, 2) != n)
		sched_yield();
}

/* Both sleep: the one is woken, and has been overtaken by somebody else. */
static void wake_in_vain(void)
{
	pk_store_release(&word, 1);
	ck_assert_int_eq(pk_futex_wake_bits(&word, ~(uint32_t)OTHERS), 1);
}

/* The lock is ours. The other one sleeps, and the one that waits apart is woken in vain so many times, and goes over. Its
 * deadline is so near once it is about to do so, and not before. */
static void have_one_go_over(struct pk_site *at, uint64_t flags, unsigned times, unsigned us)
{
	no_trials();
	gate.flags = PK_FLAG_APART; /* to begin with */
	word = inside = 1;
	until = pk_clock_after(LONG_US);
	ck_assert_int_eq(pthread_create(&other, NULL, sleep_beside, NULL), 0);
	await_sleepers(1);
	ck_assert_int_eq(pthread_create(&one, NULL, go_over, at), 0);
	await_sleepers(2);
	pk_store_relaxed(&gate.flags, flags);
	if (flags & PK_FLAG_APART && times == VAIN) {
		pk_config.patience = 1000;
		for (uint64_t since = pk_clock_ns(); pk_clock_ns() - since <= PATIENCES * UINT64_C(1000000);)
			sched_yield();
	}
	for (unsigned woken = 0; woken < times; woken++) {
		await_sleepers(2);
		ck_assert_uint_eq(guest_stat(PK_STAT_bypassed) + guest_stat(PK_STAT_entered), 1);
		if (woken + 1 == times)
			until = pk_clock_after(us);
		wake_in_vain();
	}
	while (guest_stat(PK_STAT_bypassed) + guest_stat(PK_STAT_entered) < 2)
		sched_yield();
}

/* It has set the word to 2, and the other one has not done so for it. (As the head it would do so later, before it
 * sleeps: so that is seen if somebody is in the queue before it.) */
static void owes_nothing(void)
{
	ck_assert_int_eq(pk_load_acquire(&word), 2);
	ck_assert_uint_eq(pk_load_relaxed(&claims), 1);
}

static void first_leaves(void)
{
	pk_shfl.leave(&gate.queue, node[0], NULL);
	pk_lot_check(&gate, 0);
}

static void let_one_be_first(void)
{
	node[0] = new_node(&pk_shfl);
	ck_assert_int_eq(pk_shfl.enter(&gate.queue, node[0], NULL), PK_IS_HEAD);
}

static void nothing_is_left(void)
{
	ck_assert_int_eq(word, 0);
	ck_assert(!pk_queue_busy(&gate.queue));
	ck_assert_uint_eq(pk_waiters_idle(guest.record), PK_RECORD_NODES);
}

/* Who goes over has been woken as others were to be, maybe: it owes them nothing, whether somebody is in the queue (_i % 2) or not. */
START_TEST(goes_over_beside_a_sleeper)
{
	static const struct {
		const char *topology;
		uint64_t flags;
		unsigned times;
	} table[] = {{"1x8", PK_FLAG_BACK, VAIN},
		     {"2x8", PK_FLAG_BACK, VAIN},
		     {"1x8", PK_FLAG_APART, VAIN},
		     {"2x8", PK_FLAG_APART, VAIN},
		     {"1x8", PK_FLAG_APART, PATIENCES * VAIN},
		     {"2x8", PK_FLAG_APART, PATIENCES * VAIN}};
	struct pk_site at = site(true);

	make_with("shfl", table[_i / 2].topology, "auto");
	if (_i % 2)
		let_one_be_first();
	have_one_go_over(&at, table[_i / 2].flags, table[_i / 2].times, LONG_US);
	owes_nothing();
	ck_assert_uint_eq(pk_load_relaxed(&gate.flags) & (PK_FLAG_APART | PK_FLAG_BACK), PK_FLAG_BACK);
	let_go();
	pthread_join(other, NULL);
	if (_i % 2)
		first_leaves();
	pthread_join(one, NULL);
	ck_assert_int_eq(guest.got, 0);
	ck_assert_uint_eq(guest_stat(PK_STAT_bypassed), 1);
	nothing_is_left();
}
END_TEST

/* It gets the lock if that is let go before its deadline. If not (_i / 4) it has no place any more then; the other one still sleeps. */
START_TEST(goes_over_with_a_deadline)
{
	const bool late = _i / 4, second = _i % 2;
	struct pk_site at = site(true);

	make_with("shfl", _i & 2 ? "2x8" : "1x8", "auto");
	if (second)
		let_one_be_first();
	guest.deadline = &deadline;
	have_one_go_over(&at, PK_FLAG_BACK, VAIN, late ? 20000 : LONG_US);
	owes_nothing();
	if (late)
		pthread_join(one, NULL);
	else
		let_go();
	if (second)
		first_leaves();
	if (late) {
		ck_assert(!pk_queue_busy(&gate.queue));
		ck_assert_uint_eq(pk_waiters_idle(guest.record), PK_RECORD_NODES);
		owes_nothing();
		let_go();
	} else {
		pthread_join(one, NULL);
	}
	pthread_join(other, NULL);
	ck_assert_int_eq(guest.got, late ? ETIMEDOUT : 0);
	ck_assert_uint_eq(guest_stat(PK_STAT_bypassed), 1);
	ck_assert_uint_eq(guest_stat(PK_STAT_entered), 1);
	nothing_is_left();
}
END_TEST

/* It cannot queue: it waits for the word all the same, however often it is woken, or until its deadline, if it has one. */
START_TEST(goes_over_without_a_node)
{
	const bool late = _i / 2;
	struct pk_site at = site(true);

	make_with("shfl", _i % 2 ? "2x8" : "1x8", "auto");
	guest.nodeless = true;
	guest.deadline = late ? &deadline : NULL;
	have_one_go_over(&at, PK_FLAG_BACK, VAIN, late ? 20000 : LONG_US);
	ck_assert(!pk_queue_busy(&gate.queue));
	for (unsigned woken = 0; !late && woken < VAIN; woken++) {
		await_sleepers(2);
		wake_in_vain();
	}
	if (late)
		pthread_join(one, NULL);
	let_go();
	if (!late)
		pthread_join(one, NULL);
	pthread_join(other, NULL);
	ck_assert_int_eq(guest.got, late ? ETIMEDOUT : 0);
	ck_assert_uint_eq(guest_stat(PK_STAT_bypassed), 2);
	ck_assert_uint_eq(guest_stat(PK_STAT_entered), 0);
	nothing_is_left();
}
END_TEST

UNIT("trial", {is_asked_for, 6}, {by_turns, 2}, {is_decided, 13}, {late_halves_are_looked_at, 2 * PK_TRIAL_PHASES}, {is_of_its_half, 3}, {tells_of_many, 1}, {ends_with_waits, 1}, {is_decided_by_uses, 7}, {is_of_its_trial, 1}, {is_asked_for_by_who_has_it, 2}, {is_as_ever, 8}, {is_said_meanwhile, 1}, {does_not_take_over_itself, 1}, {is_cut_short, 3}, {says_nothing_again, 1}, {leaves_nothing, 1}, {is_over, 2}, {is_summed_up, 3}, {is_tried_again, 1}, {one_at_a_time, 1}, {is_counted, 4},
     {waits_apart, 11}, {asks, 8}, {queues, 4}, {has_had_enough, 11},
     {goes_over_beside_a_sleeper, 12}, {goes_over_with_a_deadline, 8}, {goes_over_without_a_node, 4})
