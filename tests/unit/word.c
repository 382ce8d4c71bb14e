/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Who waits for the word of a lock (pthread/word.c): heads, which say whether it is slow, and look away; and with what the word is taken by
 * who has slept at it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/await.h"
#include "pthread/lot.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "nodes.h"

static struct pk_gate gate;

/* ---- heads ---- */

/* A head that spins in vain says so, and who gets the word by spinning takes it back. _i: with a budget during which the
 * head looks at the clock, too. */
START_TEST(heads_tell)
{
	int word = 1;
	struct timespec soon = pk_clock_after(20000);
	struct pk_deadline deadline = {&soon, CLOCK_MONOTONIC};
	struct pk_site at = {&word, &gate, _i ? 5000 : 300, true, NULL, NULL, NULL};
	struct pk_waiter *w;

	pk_config.spin = (int)at.spin;
	pk_config.patience = 10000000; /* however long it is held up */
	pk_incarnation_next();
	pk_topology_read("", "2x4");
	pk_spin_setup();
	pk_lot_setup("auto");
	w = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, true, &deadline), ETIMEDOUT);
	ck_assert(!(gate.flags & PK_FLAG_SLOW)); /* it had slept: it cannot tell */
	word = 1;
	soon = pk_clock_after(20000);
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, &deadline), ETIMEDOUT);
	ck_assert(gate.flags & PK_FLAG_SLOW);
	word = 0;
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, true, NULL), 0);
	ck_assert(gate.flags & PK_FLAG_SLOW);
	word = 0;
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, NULL), 0);
	ck_assert(!(gate.flags & PK_FLAG_SLOW));
	gate.flags |= PK_FLAG_SLOW;
	word = 0;
	ck_assert(pk_word_steal(&at));
	ck_assert(!(gate.flags & PK_FLAG_SLOW));
	at.marks = false; /* a reader-writer lock's gate is 0 when it is idle */
	soon = pk_clock_after(20000);
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, &deadline), ETIMEDOUT);
	ck_assert(!(gate.flags & PK_FLAG_SLOW));
}
END_TEST

/* Where nobody may spin in the queue the head of a slow lock sleeps at once, but for each 16th, which may find out that
 * the lock is slow no more. */
START_TEST(heads_probe)
{
	int word;
	struct pk_site at = {&word, &gate, 300, true, NULL, NULL, NULL};
	struct pk_record *record = pk_record_take();
	struct pk_waiter *w;
	unsigned probes = 0;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	pk_lot_setup("auto");
	ck_assert(!pk_lot_adapts);
	for (int i = 0; i < 64; i++) {
		word = 0;
		gate.flags = PK_FLAG_SLOW;
		w = node_of(record, &pk_mcs);
		ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
		ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, false, NULL), 0);
		ck_assert_int_eq(word, 1);
		probes += !(gate.flags & PK_FLAG_SLOW);
		pk_mcs.leave(&gate.queue, w, &word);
	}
	ck_assert_uint_eq(probes, 64 / 16);
}
END_TEST

/* The other thread of the next tests: lets the word go so long after it has been asked to. */
static struct {
	int *word; /* or null: nothing to do */
	uint64_t ns;
	bool end;
} holder;

static void *hold(void *unused)
{
	int *word;

	(void)unused;
	while (!pk_load_acquire(&holder.end)) {
		if (!(word = pk_load_acquire(&holder.word)))
			continue;
		for (uint64_t began = pk_clock_ns(); pk_clock_ns() - began < holder.ns;)
			;
		pk_store_relaxed(&holder.word, NULL);
		if (pk_xchg_release(word, 0) > 1)
			pk_futex_wake(word, 1);
	}
	return NULL;
}

/* How long a head waits for that word, with that node behind it, or alone; *had: when it has got it. */
static uint64_t wait_for(struct pk_record *record, const struct pk_site *at, struct pk_waiter *other,
			 const struct pk_deadline *deadline, uint64_t *had)
{
	struct pk_waiter *w = pk_waiter_take(record);
	uint64_t began;

	w->policy = pk_mcs.policy;
	w->manner = PK_STAYS;
	pk_word_come(at);
	began = pk_clock_ns();
	pk_mcs.enter(&at->gate->queue, w, NULL);
	if (other)
		at->gate->queue.tail = pk_waiter_name(other);
	pk_word_wait(at, &pk_mcs, w, false, deadline);
	*had = pk_clock_ns();
	at->gate->queue.tail = pk_waiter_name(w);
	pk_mcs.leave(&at->gate->queue, w, at->word);
	return *had - began;
}

enum { FEW = 5 }; /* may be preempted */

/* How long a round is, if the first measurement was disturbed. */
static void learn_rounds(void)
{
	enum { MANY = 5000 };

	ck_assert_uint_ne(pk_rounds_in(1000), 0);
	for (int i = 0; i < 20; i++) {
		uint64_t began = pk_clock_ns();

		for (unsigned n = MANY; !pk_spent(&n);)
			;
		pk_rounds_took(MANY, pk_clock_ns() - began);
	}
}

/* How long so many rounds take now as the library takes to be so long. */
static uint64_t spin_time(unsigned ns)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t began = pk_clock_ns();

		for (unsigned n = pk_rounds_in(ns); !pk_spent(&n);)
			;
		began = pk_clock_ns() - began;
		least = began < least ? began : least;
	}
	return least;
}

/* How one comes back. */
struct again {
	const struct pk_site *for_it;	 /* or for another word */
	uint64_t held;			 /* the first time it has to wait for about so long, in ns, */
	uint64_t gone;			 /* and is back so much later */
	uint8_t habit;			 /* it has had, of coming back; as it is: UINT8_MAX */
	bool slow;			 /* the lock is by then */
	const struct pk_deadline *until; /* it has then */
	const char *topology;		 /* or null: one socket */
};

/* Wait for the word while it is held, and then for one that is free. How long the latter has taken; *soon: it was no later than
 * it had to be, both times. (Nothing of Check in between: it takes microseconds.) */
static uint64_t wait_twice(struct pk_record *record, const struct pk_site *at, struct pk_waiter *other, const struct again *how,
			   bool *soon)
{
	enum { AT_ONCE = 300, LATE = 850 };
	uint64_t had;

	gate.flags = 0; /* not slow, if the head had to sleep */
	pk_self.won.word = NULL;
	if (how->habit != UINT8_MAX)
		pk_self.habit = 0; /* the first time it is not to look away */
	*at->word = how->held > 0;
	holder.ns = how->held;
	if (how->held)
		pk_store_release(&holder.word, at->word);
	*soon = wait_for(record, at, other, NULL, &had) < how->held + LATE;
	*how->for_it->word = 0;
	if (how->slow)
		gate.flags |= PK_FLAG_SLOW;
	if (how->habit != UINT8_MAX)
		pk_self.habit = how->habit;
	for (uint64_t began = pk_clock_ns(); how->gone && pk_clock_ns() - began < how->gone;)
		;
	*soon &= pk_clock_ns() - had < how->gone + AT_ONCE;
	return wait_for(record, how->for_it, other, how->until, &had);
}

/* So many times; how many of them have looked away, of those who were back soon. */
static unsigned look_away(const struct pk_site *at, struct pk_waiter *other, const struct again *how, unsigned *soon)
{
	enum { TRIES = 200 };
	const uint64_t away_ns = spin_time(20000), least = other ? away_ns * 3 / 4 : away_ns * 3 / 2;
	struct pk_record *record = pk_record_take();
	unsigned away = 0, twice = 0;
	pthread_t thread;
	uint64_t had;

	*soon = 0;
	holder.end = false;
	ck_assert_int_eq(pthread_create(&thread, NULL, hold, NULL), 0);
	for (int i = 0; i < TRIES; i++) {
		bool quick, was_away;

		was_away = wait_twice(record, at, other, how, &quick) > least;
		*soon += quick;
		away += quick && was_away;
		if (other || !(quick && was_away))
			continue;
		/* It has not waited then, so it does not do it twice. */
		*how->for_it->word = 0;
		twice += wait_for(record, how->for_it, other, NULL, &had) > least;
	}
	ck_assert_uint_le(twice, away / 10 + FEW);
	ck_assert_int_ne(*how->for_it->word, 0); /* it has got it */
	pk_store_release(&holder.end, true);
	pthread_join(thread, NULL);
	if (*soon >= TRIES / 4)
		return away;
	printf("SKIP: too few can come back at once on such a slow machine: %u, held %u, gone %u\n", *soon, (unsigned)how->held, (unsigned)how->gone);
	return *soon = 0;
}

/* A head that was alone, and is back for the word sooner than twice the time that it had waited for it
 * (or three times: tests/unit/few), leaves it to others for 160 us, or 20
 * if there are any in the queue by then: if it has had the habit, and is back for that word, within 2 us, or 3 with several sockets, and may wait. */
START_TEST(looks_away)
{
	enum { ALWAYS = 25 };
	int word, other;
	struct pk_site at = {&word, &gate, 3000, true, NULL, NULL, NULL}, elsewhere = {&other, &gate, 3000, true, NULL, NULL, NULL};
	struct timespec later = pk_clock_after(10000000);
	struct pk_deadline deadline = {&later, CLOCK_MONOTONIC};
	const struct again will[] = {{&at, 1500, 0, UINT8_MAX, false, NULL, NULL}, {&at, 3000, 1200, ALWAYS, false, NULL, NULL},
				     {&at, 3000, 2400, ALWAYS, false, NULL, "2x2"}},
			   will_not[] = {{&at, 1500, 0, 0, false, NULL, NULL},
					 {&at, 0, 1200, ALWAYS, false, NULL, NULL},
					 {&at, 3000, 2500, ALWAYS, false, NULL, NULL},
					 {&elsewhere, 1500, 0, ALWAYS, false, NULL, NULL},
					 {&at, 1500, 0, ALWAYS, true, NULL, NULL},
					 {&at, 1500, 0, ALWAYS, false, &deadline, NULL},
					 {&at, 3000, 3500, ALWAYS, false, NULL, "2x2"},
					 {&at, 0, 2400, ALWAYS, false, NULL, "2x2"}};
	unsigned soon, away;

	const int looks = sizeof(will) / sizeof(*will);
	const struct again *how = _i < looks ? &will[_i] : &will_not[_i - looks];

	pk_incarnation_next();
	pk_topology_read("", how->topology ? how->topology : "1x2");
	pk_spin_setup();
	pk_lot_setup("auto");
	learn_rounds();
	away = look_away(&at, NULL, how, &soon);
	if (_i < looks)
		ck_assert_uint_ge(away, soon / 2);
	else
		ck_assert_uint_le(away, soon / 10 + FEW);
}
END_TEST

/* With others behind it, who comes back at once leaves the word to them for 20 us, if it is back within a microsecond or if it had waited for
 * as long as above. */
START_TEST(looks_away_in_a_queue)
{
	int word, other;
	struct pk_site at = {&word, &gate, 3000, true, NULL, NULL, NULL}, elsewhere = {&other, &gate, 3000, true, NULL, NULL, NULL};
	struct again how[] = {{&at, 1500, 0, 0, false, NULL, NULL},
				    {&at, 1200, 1050, 0, false, NULL, NULL},
				    {&at, 50, 1800, 0, false, NULL, NULL},
				    {&at, 3000, 6000, 0, false, NULL, NULL},
				    {&elsewhere, 1500, 0, 0, false, NULL, NULL},
				    {&at, 3000, 2400, 0, false, NULL, "2x8"}};
	unsigned soon, away;

	pk_incarnation_next();
	pk_topology_read("", how[_i].topology ? how[_i].topology : "1x8");
	pk_spin_setup();
	pk_lot_setup("auto");
	learn_rounds();
	away = look_away(&at, new_node(&pk_mcs), &how[_i], &soon);
	if (_i >= 2) {
		ck_assert_uint_le(away, soon / 10 + FEW);
		return;
	}
	/* Its times are reckoned from rounds, whose rate need not be what it was. */
	for (how[_i].held = 600; away < soon / 2 && how[_i].held < 3500; how[_i].held += how[_i].held / 2)
		away = look_away(&at, new_node(&pk_mcs), &how[_i], &soon);
	ck_assert_uint_ge(away, soon / 2);
	if (away) /* and knows why it waits for long in queues */
		ck_assert_uint_ne(pk_self.aways, 0);
}
END_TEST

/* A head that has been called from the lot cannot know how soon it is back; it looks away if the lock says that others are, with others
 * behind it, where there are several sockets. Not one that has slept, nor with a deadline, nor at a slow lock. One that has looked away
 * knows when it got the word, for when it is back, though it got it at its first look. */
START_TEST(looks_away_as_others_do)
{
	static const struct {
		uint64_t flags;
		const char *topology;
		uint8_t manner;
		bool alone, slept, timed, marks, away;
	} table[] = {
		{PK_FLAG_BACK, "2x8", PK_CALLED, false, false, false, true, true},
		{0, "2x8", PK_CALLED, false, false, false, true, false},
		{PK_FLAG_BACK, "1x8", PK_CALLED, false, false, false, true, false},
		{PK_FLAG_BACK, "2x8", PK_LEAVES, false, false, false, true, false},
		{PK_FLAG_BACK, "2x8", PK_CALLED, true, false, false, true, false},
		{PK_FLAG_BACK, "2x8", PK_CALLED, false, true, false, true, false},
		{PK_FLAG_BACK, "2x8", PK_CALLED, false, false, true, true, false},
		{PK_FLAG_BACK, "2x8", PK_CALLED, false, false, false, false, false},
		{PK_FLAG_BACK | PK_FLAG_SLOW, "2x8", PK_CALLED, false, false, false, true, false},
	};
	int word = 0;
	struct pk_site at = {&word, &gate, 3000, table[_i].marks, NULL, NULL, NULL};
	struct timespec later = pk_clock_after(10000000);
	struct pk_deadline deadline = {&later, CLOCK_MONOTONIC};
	struct pk_waiter *w;
	uint64_t tail, began;

	pk_incarnation_next();
	pk_topology_read("", table[_i].topology);
	pk_spin_setup();
	pk_lot_setup("auto");
	w = new_node(&pk_mcs);
	w->manner = table[_i].manner;
	gate.flags = table[_i].flags;
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	tail = gate.queue.tail;
	if (!table[_i].alone)
		gate.queue.tail = pk_waiter_name(new_node(&pk_mcs));
	began = pk_clock_ns();
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, table[_i].slept, table[_i].timed ? &deadline : NULL), 0);
	pk_word_come(&at); /* before anything else: it is to be back at once */
	gate.queue.tail = tail;
	pk_mcs.leave(&gate.queue, w, &word);
	ck_assert_int_eq(pk_self.aways > 0, table[_i].away);
	ck_assert_ptr_eq(pk_self.won.word, table[_i].away ? &word : NULL);
	if (!table[_i].away) {
		ck_assert(!pk_self.soon);
		return;
	}
	ck_assert_uint_gt(pk_self.won.ns, began + spin_time(1000));
	ck_assert_uint_le(pk_self.won.ns, pk_self.came);
	ck_assert_uint_eq(pk_self.won.rounds, 0);
	ck_assert(pk_self.soon || pk_self.came == pk_self.won.ns || pk_self.came - pk_self.won.ns >= 1000); /* or it was held up */
}
END_TEST

/* ---- heads that wait for long ---- */

static int *to_free;
static unsigned spent; /* rounds, before it is free */

static unsigned free_it(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	(void)q;
	(void)w;
	(void)word;
	*to_free = 0;
	return spent;
}

/* A head that gets the word only after it has spun for longer than a sleep costs says that the lock is slow, as one
 * that spins in vain. */
START_TEST(heads_take_long)
{
	int word = 1;
	struct pk_site at = {&word, &gate, 300, true, NULL, NULL, NULL};
	struct pk_admit_ops ops = pk_mcs;
	struct pk_waiter *w;

	pk_config.patience = 10000000;
	pk_incarnation_next();
	pk_topology_read("", "2x4");
	pk_spin_setup();
	pk_lot_setup("auto");
	ops.tend = free_it;
	to_free = &word;
	ck_assert_uint_ne(pk_rounds_in(8000), 0);
	w = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	for (int n = 0; n < 4; n++) {
		bool is_long = n % 2;

		spent = is_long ? pk_rounds_in(10000) : 0;
		at.spin = 2 * pk_rounds_in(30000);
		gate.flags = n < 2 ? 0 : PK_FLAG_SLOW;
		word = 1;
		ck_assert_int_eq(pk_word_wait(&at, &ops, w, false, NULL), 0);
		ck_assert_int_eq(!(gate.flags & PK_FLAG_SLOW), !is_long);
	}
}
END_TEST

/* ---- who sleeps ---- */

/* What the sleeps at the word end with, one after the other, if it is told; the word is let go by the end of the last one. */
static const int *ends;

static int *let_go; /* this owner does so then */

static int ended(const void *word)
{
	int end = *ends++;

	if (let_go)
		*let_go = 0;
	*(int *)word = *ends < 0 ? 0 : 1;
	return end;
}

int __real_pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline);
int __wrap_pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline);
int __wrap_pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	if (!ends)
		return __real_pk_futex_sleep(word, expected, deadline);
	ck_assert_int_eq(*(const int *)word, (int)expected);
	return ended(word);
}

int __real_pk_doze_alone(const void *word, uint32_t expected, const struct pk_deadline *deadline, unsigned *looks, bool *look);
int __wrap_pk_doze_alone(const void *word, uint32_t expected, const struct pk_deadline *deadline, unsigned *looks, bool *look);
int __wrap_pk_doze_alone(const void *word, uint32_t expected, const struct pk_deadline *deadline, unsigned *looks, bool *look)
{
	if (!ends)
		return __real_pk_doze_alone(word, expected, deadline, looks, look);
	*look = false;
	return ended(word);
}

/* Who has slept, or might have, takes the word with 2, as others may sleep still; who was to, but the word had changed, with 1. */
START_TEST(owes_a_wakeup)
{
	static const struct {
		int ends[4], takes;
	} table[] = {{{EAGAIN, -1}, 1}, {{0, -1}, 2}, {{EAGAIN, EAGAIN, -1}, 1}, {{EAGAIN, 0, -1}, 2}, {{0, EAGAIN, -1}, 2}};
	enum { ALONE, APART, HEAD, MANNERS };
	const int manner = _i % MANNERS;
	const struct pk_admit_ops *ops = pk_policy_ops(PK_POLICY_shfl);
	int word = 1;
	struct pk_site at = {&word, &gate, 0, true, NULL, NULL, NULL};
	struct pk_waiter *w = NULL;

	pk_incarnation_next();
	if (manner == HEAD) {
		gate.flags = PK_FLAG_QUEUE; /* it does not nap */
		w = new_node(ops);
		ck_assert_int_eq(ops->enter(&gate.queue, w, NULL), PK_IS_HEAD);
	}
	ends = table[_i / MANNERS].ends;
	ck_assert_int_eq(pk_word_wait(&at, manner == ALONE ? NULL : ops, w, false, NULL), 0);
	ck_assert_int_eq(*ends, -1);
	ck_assert_int_eq(word, table[_i / MANNERS].takes);
}
END_TEST

/* On two CPUs a head that had slept says that the lock is slow, if it has seen an owner all the time, twice in a row; and a thief that has not
 * spun seldom says the contrary. _i: the lock is nobody's; it does not spin; there are more CPUs; it is nobody's the second time; there is no
 * second time. */
START_TEST(heads_tell_of_owners)
{
	static const int twice[] = {0, 0, -1};
	int word = 1, owner = _i == 1 ? 0 : 77;
	bool spins = _i != 2;
	struct pk_site at = {&word, &gate, spins ? 300 : 0, true, NULL, &owner, NULL};
	struct pk_waiter *w;

	pk_config.patience = 10000000;
	pk_incarnation_next();
	pk_topology_read("", _i == 3 ? "2x4" : "1x2");
	pk_spin_setup();
	while (!pk_rounds_in(1000)) /* on a busy machine */
		;
	w = new_node(&pk_mcs);
	ck_assert_int_eq(pk_mcs.enter(&gate.queue, w, NULL), PK_IS_HEAD);
	gate.flags = PK_FLAG_QUEUE; /* it does not nap */
	ends = _i == 5 ? twice + 1 : twice;
	let_go = _i == 4 ? &owner : NULL;
	ck_assert_int_eq(pk_word_wait(&at, &pk_mcs, w, true, NULL), 0);
	ck_assert_int_eq(*ends, -1);
	ck_assert_int_eq(!(gate.flags & PK_FLAG_SLOW), _i != 0 || !pk_rounds_in(500)); /* in an emulator it does not look at owners */
	for (int quick = 1; quick <= 8; quick++) {
		gate.flags = PK_FLAG_SLOW;
		word = 0;
		pk_self.stolen.word = NULL;
		pk_self.stolen.times = (uint8_t)quick;
		ck_assert(pk_word_steal(&at));
		ck_assert_int_eq(!(gate.flags & PK_FLAG_SLOW), _i == 3 || !spins || quick == 8);
	}
}
END_TEST

UNIT("word", {heads_tell, 2}, {heads_tell_of_owners, 6}, {heads_probe, 1}, {heads_take_long, 1}, {looks_away, 11},
     {looks_away_in_a_queue, 6}, {looks_away_as_others_do, 9}, {owes_a_wakeup, 15})
