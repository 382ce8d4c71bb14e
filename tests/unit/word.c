/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Who waits for the word of a lock (pthread/word.c): heads, which say whether it is slow, and look away; thieves, who do not
 * come back too soon; and how long their rounds take (rt/rounds.h). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

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

/* A head that was alone, and is back for the word sooner than twice the time that it had waited for it, leaves it to others for 160 us, or 20
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

/* ---- thieves ---- */

/* Whether the word of the second can be stolen once that of the first has been, `us` later; *took: how long all of it takes. */
static bool steal_twice(const struct pk_site *first, const struct pk_site *second, int us, uint64_t *took)
{
	uint64_t began;
	bool stolen;

	*first->word = 0;
	began = pk_clock_ns();
	stolen = pk_word_steal(first);
	*second->word = 0;
	if (us)
		usleep((useconds_t)us);
	stolen &= pk_word_steal(second);
	*took = pk_clock_ns() - began;
	return stolen;
}

/* Who comes back at once for the word that it has stolen is not to steal it again. */
START_TEST(steals_once)
{
	enum { TRIES = 200, AT_ONCE = 200 };
	int word, other;
	struct pk_site at = {&word, &gate, 300, true, NULL, NULL, NULL}, elsewhere = {&other, &gate, 300, true, NULL, NULL, NULL};
	unsigned soon = 0, refused = 0, late = 0, strange = 0;
	uint64_t took;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	steal_twice(&elsewhere, &elsewhere, 0, &took); /* and find out how long a round is */
	for (int i = 0; i < TRIES; i++) {
		bool at_once, stolen;

		strange += !steal_twice(&at, &elsewhere, 0, &took);
		late += !steal_twice(&at, &at, 10, &took);
		pk_self.greed = 60; /* a habit */
		stolen = steal_twice(&elsewhere, &elsewhere, 0, &took);
		at_once = took < AT_ONCE;
		soon += at_once;
		refused += at_once && !stolen;
	}
	if (!soon)
		printf("SKIP: nobody steals twice at once on such a slow machine\n");
	ck_assert_uint_eq(refused, soon);
	ck_assert_uint_eq(strange + late, 0);
}
END_TEST

/* One that has the habit steals the word, or does not. Whether it was to be kept from it, and was not preempted: then it may. `began`: when
 * it was set up. */
static bool steals_as_it_should(const struct pk_site *at, uint64_t began, bool steals)
{
	enum { AT_ONCE = 500 };
	bool stolen;

	pk_self.greed = 60;
	stolen = pk_word_steal(at);
	if (!steals && pk_clock_ns() - began > AT_ONCE)
		return false;
	ck_assert(stolen == steals);
	return !steals;
}

/* A thief that had seen the word free before it got it is not to steal it again for longer than one that got it at once. Nor
 * is one that is back sooner than one and a half times what it had waited. */
START_TEST(steals_again)
{
	enum { TRIES = 200 };
	static const struct {
		bool lost;
		unsigned waited, ago; /* ns; ago: since then the wait has ended */
		bool steals;
	} cases[] = {
		{false, 0, 1000, true},	    {true, 0, 1000, false},	{true, 0, 4000, true},
		{false, 5000, 5000, false}, {false, 5000, 10000, true}, {true, 5000, 5000, false},
	};
	int word;
	struct pk_site at = {&word, &gate, 3000, true, NULL, NULL, NULL};
	unsigned soon = 0;
	uint64_t took;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	steal_twice(&at, &at, 1000, &took); /* and find out how long a round is */
	for (unsigned i = 0; i < TRIES * sizeof(cases) / sizeof(cases[0]); i++) {
		bool steals = cases[i / TRIES].steals;
		uint64_t began = pk_clock_ns();

		word = 0;
		pk_self.stolen.word = &word;
		pk_self.stolen.took = 0;
		pk_self.stolen.lost = cases[i / TRIES].lost;
		pk_self.stolen.rounds = pk_rounds_in(cases[i / TRIES].waited);
		pk_self.stolen.ns = began - cases[i / TRIES].waited - cases[i / TRIES].ago;
		soon += steals_as_it_should(&at, began, steals);
	}
	if (!soon)
		printf("SKIP: nobody steals twice at once on such a slow machine\n");
}
END_TEST

/* Rounds do not tell how long the line of a word takes to come. So it is timed now and then, and who is back sooner than one and a half
 * times that is not to steal it, either: after a quick theft, and of that word. */
START_TEST(steals_from_far_away)
{
	enum { TRIES = 200 };
	static const struct {
		unsigned rounds, took, ago; /* ago, ns: since the theft has begun, and three times as long as its rounds */
		bool steals;
	} cases[] = {{0, 1500, 3000, false}, {0, 1500, 4000, true}, {0, 200, 3000, true}, {16, 4000, 6000, true}, {10, 0, 3000, true}};
	int word, other;
	struct pk_site at = {&word, &gate, 3000, true, NULL, NULL, NULL};
	unsigned soon = 0, timed = 0, sum = 0;
	uint64_t took;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	do
		steal_twice(&at, &at, 1000, &took); /* and find out how long a round is */
	while (!pk_rounds_in(1000));
	for (unsigned i = 0; i < TRIES * sizeof(cases) / sizeof(cases[0]); i++) {
		bool steals = cases[i / TRIES].steals;
		uint64_t began = pk_clock_ns();

		word = 0;
		pk_self.stolen.word = &word;
		pk_self.stolen.lost = false;
		pk_self.stolen.rounds = cases[i / TRIES].rounds;
		pk_self.stolen.took = (uint16_t)cases[i / TRIES].took;
		pk_self.stolen.ns = began - cases[i / TRIES].ago - cases[i / TRIES].rounds * UINT64_C(3000) / pk_rounds_in(1000);
		soon += steals_as_it_should(&at, began, steals);
	}
	if (!soon)
		printf("SKIP: nobody steals twice at once on such a slow machine\n");

	/* One in eight is timed, and takes no longer than the call, unless it is preempted. */
	pk_self.stolen.times = 0;
	for (int i = 1; i <= 80; i++) {
		word = 0;
		pk_self.stolen.word = &word;
		pk_self.stolen.took = UINT16_MAX; /* nobody would write that */
		pk_self.stolen.ns = 0;
		pk_self.greed = 0;
		took = pk_clock_ns();
		ck_assert(pk_word_steal(&at));
		took = pk_clock_ns() - took;
		if (i % 8)
			ck_assert_uint_eq(pk_self.stolen.took, UINT16_MAX);
		else if (took < 5000) /* it was not preempted */
			ck_assert_uint_le(pk_self.stolen.took, took);
		if (pk_self.stolen.took != UINT16_MAX)
			sum += pk_self.stolen.took;
		timed += pk_self.stolen.took != UINT16_MAX;
	}
	ck_assert(sum || !timed); /* where clocks are coarse some take no time */
	/* What another word has taken does not count for this one. */
	word = 0;
	pk_self.stolen.word = &other;
	ck_assert(pk_word_steal(&at));
	ck_assert_uint_eq(pk_self.stolen.took, 0);
}
END_TEST

/* It has to have become a habit: nobody is stopped at the third time, somebody who does nothing else at the fourth, and not
 * any more when he has done something else for long. */
START_TEST(steals_by_habit)
{
	int word, times = 0;
	struct pk_site at = {&word, &gate, 3000, true, NULL, NULL, NULL};
	uint64_t took;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	steal_twice(&at, &at, 1000, &took); /* and find out how long a round is */
	pk_self.greed = 0;
	for (; times < 10; times++) {
		word = 0;
		/* It has waited for 100 us, and has 150 to be back: time enough under an emulator, too. */
		pk_self.stolen.word = &word;
		pk_self.stolen.rounds = pk_rounds_in(100000);
		pk_self.stolen.ns = pk_clock_ns() - 101000;
		if (!pk_word_steal(&at))
			break;
	}
	ck_assert_int_ge(times, 3);
	ck_assert_int_lt(times, 10); /* it may have been preempted now and then */
	for (int i = 0; i < 100; i++) {
		word = 0;
		pk_self.stolen.word = NULL;
		ck_assert(pk_word_steal(&at));
	}
	ck_assert_uint_eq(pk_self.greed, 0);
}
END_TEST

/* The word is in a page of its own, which is read-only until a thief that has seen the word free takes it. */
static int *snatched;

static void gets_it_first(int sig)
{
	const struct itimerval soon = {{0, 0}, {0, 2000}};

	(void)sig;
	mprotect(snatched, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
	pk_store_relaxed(snatched, 1);
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void lets_it_go(int sig)
{
	(void)sig;
	pk_store_release(snatched, 0);
}

/* A thief knows whether it has seen the word free, and another thread has got it. */
START_TEST(loses_the_word)
{
	const struct sigaction fault = {.sa_handler = gets_it_first}, timer = {.sa_handler = lets_it_go, .sa_flags = SA_RESTART};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pk_site at = {NULL, &gate, 30000000, true, NULL, NULL, NULL};
	bool lost = false;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	snatched = at.word = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(at.word, MAP_FAILED);
	for (int i = 0; i < 100; i++) {
		ck_assert(pk_word_steal(&at));
		ck_assert(!pk_self.stolen.lost);
		*snatched = 0;
		pk_self.stolen.word = NULL;
	}
	ck_assert_int_eq(sigaction(SIGSEGV, &fault, NULL), 0);
	ck_assert_int_eq(sigaction(SIGALRM, &timer, NULL), 0);
	for (int i = 0; !lost && i < 100; i++) { /* the timer may end before it tries again */
		*snatched = 0;
		ck_assert_int_eq(mprotect(at.word, page, PROT_READ), 0);
		pk_self.stolen.word = NULL;
		ck_assert(pk_word_steal(&at));
		lost = pk_self.stolen.lost;
	}
	ck_assert(lost);
}
END_TEST

static void goes_on(int sig)
{
	uint64_t began = pk_clock_ns();

	(void)sig;
	while (pk_clock_ns() - began < 20000)
		;
	mprotect(snatched, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
}

/* One that has been preempted does not tell how far away the word is. */
START_TEST(steals_late)
{
	const struct sigaction fault = {.sa_handler = goes_on};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pk_site at = {NULL, &gate, 3000, true, NULL, NULL, NULL};
	uint64_t took;

	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	snatched = at.word = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(at.word, MAP_FAILED);
	do
		steal_twice(&at, &at, 1000, &took); /* and find out how long a round is */
	while (!pk_rounds_in(1000));
	ck_assert_int_eq(sigaction(SIGSEGV, &fault, NULL), 0);
	for (int i = 0; i < 16; i++) {
		*snatched = 0;
		ck_assert_int_eq(mprotect(at.word, page, PROT_READ), 0);
		pk_self.stolen.word = at.word;
		pk_self.stolen.took = 100;
		pk_self.stolen.times = 7;
		pk_self.stolen.ns = 0;
		pk_self.greed = 0;
		ck_assert(pk_word_steal(&at));
		ck_assert_uint_eq(pk_self.stolen.took, 100);
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

/* ---- who lurks ---- */

enum { NAP_US = 50, NAPS = 3 };

static void make_two_cpus(struct pk_site *at)
{
	int word = 0, *its = at->word;
	uint64_t took;

	pk_incarnation_setup();
	pk_incarnation_next();
	pk_topology_read("", "1x2");
	pk_spin_setup();
	at->word = &word;
	do
		steal_twice(at, at, 1000, &took);
	while (!pk_rounds_in(1000)); /* to find out how long a round is, even on a busy machine */
	at->word = its;
	pk_self.greed = 0;
}

/* Who has napped in vain does not the next time, then not the next three times, ... 15 at most, until it has got the word. */
START_TEST(naps_seldom)
{
	static const unsigned skipped[] = {1, 3, 7, 15, 15};
	int word = 1;
	struct pk_site at = {&word, &gate, 300, true, NULL, NULL, NULL};

	make_two_cpus(&at);
	for (unsigned n = 0; n < sizeof(skipped) / sizeof(skipped[0]); n++) {
		uint64_t began = pk_clock_us();

		ck_assert(!pk_word_lurk(&at));
		ck_assert_uint_ge(pk_clock_us() - began, NAPS * NAP_US);
		ck_assert_uint_eq(pk_self.no_naps, skipped[n]);
		for (unsigned i = skipped[n]; i; i--) {
			ck_assert(!pk_word_lurk(&at));
			ck_assert_uint_eq(pk_self.no_naps, i - 1);
		}
	}
	/* Nor if it has not spun, as one does, or has no patience: those are to have the word. */
	gate.flags = _i ? PK_FLAG_QUEUE : PK_FLAG_SPINNER;
	word = 0;
	ck_assert(!pk_word_lurk(&at));
	gate.flags = 0;
	/* Nor in front of a reader-writer lock, nor if others wait for it, nor if it does not spin at all. */
	word = 1;
	pk_self.no_naps = 2;
	at.marks = false;
	ck_assert(!pk_word_lurk(&at));
	at.marks = true;
	pk_self.chain = pk_waiter_take(pk_record_take());
	ck_assert(!pk_word_lurk(&at));
	pk_self.chain = NULL;
	at.spin = 0;
	ck_assert(!pk_word_lurk(&at));
	ck_assert_uint_eq(pk_self.no_naps, 2);
	at.spin = 300;
	ck_assert(!pk_word_lurk(&at));
	ck_assert_uint_eq(pk_self.no_naps, 1);
	word = 0;
	ck_assert(pk_word_lurk(&at));
	ck_assert_int_eq(word, 1);
}
END_TEST

static bool over;

static struct {
	int word;
	unsigned asked, done; /* how often it is to be let go, and has been */
	uint64_t flags;	      /* that are set before */
} owned;

static void *lets_go(void *unused)
{
	for (unsigned n = 1;; n++) {
		while (pk_load_acquire(&owned.asked) != n)
			if (pk_load_relaxed(&over) || sched_yield())
				return unused;
		usleep(NAP_US);
		pk_or_relaxed(&gate.flags, owned.flags);
		if (owned.flags) /* who has looked for the flag before looks at the word before, too */
			usleep(NAP_US);
		pk_store_release(&owned.word, 0);
		pk_store_release(&owned.done, n);
	}
}

/* Who naps takes the word that has been let go meanwhile, but not if a head has lost patience. */
START_TEST(naps_and_takes)
{
	struct pk_site at = {&owned.word, &gate, 300, true, NULL, NULL, NULL};
	uint64_t began = pk_clock_us();
	unsigned got = 0, napped = 0;
	pthread_t t;

	make_two_cpus(&at);
	owned.flags = _i ? PK_FLAG_QUEUE : 0;
	ck_assert_int_eq(pthread_create(&t, NULL, lets_go, NULL), 0);
	while ((_i ? napped < 20 : !got) && pk_clock_us() - began < 40 * UINT64_C(1000000)) {
		uint64_t since = pk_clock_us();

		gate.flags = 0;
		owned.word = 1;
		pk_self.stolen.word = NULL;
		pk_self.no_naps = 0;
		pk_self.napped = 1;
		pk_store_release(&owned.asked, owned.asked + 1);
		if (!pk_word_lurk(&at)) {
			napped += pk_clock_us() - since >= NAP_US;
		} else if (!pk_self.stolen.word) { /* not while it has spun */
			ck_assert_int_eq(pk_load_relaxed(&owned.word), 1);
			ck_assert_uint_eq(pk_self.napped, 0);
			got++;
		}
		while (pk_load_acquire(&owned.done) != owned.asked)
			sched_yield();
	}
	pk_store_relaxed(&over, true);
	pthread_join(t, NULL);
	if (_i)
		ck_assert_uint_eq(got, 0);
	else
		ck_assert_uint_gt(got, 0);
	ck_assert_uint_ge(napped, _i ? 20 : 0);
}
END_TEST

/* Who has spun for what it steals says that the lock is not slow. */
START_TEST(thieves_tell)
{
	struct pk_site at = {&owned.word, &gate, 0, true, NULL, NULL, NULL};
	uint64_t began = pk_clock_us();
	bool told = false;
	pthread_t t;

	make_two_cpus(&at);
	at.spin = 1000 * pk_rounds_in(1000);
	ck_assert_int_eq(pthread_create(&t, NULL, lets_go, NULL), 0);
	while (!told && pk_clock_us() - began < 40 * UINT64_C(1000000)) {
		gate.flags = PK_FLAG_SLOW;
		owned.word = 1;
		pk_self.stolen.word = NULL;
		pk_self.stolen.times = 1;
		pk_store_release(&owned.asked, owned.asked + 1);
		if (pk_word_steal(&at) && pk_self.stolen.rounds) {
			ck_assert(!(gate.flags & PK_FLAG_SLOW));
			told = true;
		}
		while (pk_load_acquire(&owned.done) != owned.asked)
			sched_yield();
	}
	pk_store_relaxed(&over, true);
	pthread_join(t, NULL);
	ck_assert(told);
}
END_TEST

/* Who has stolen the word at once spins for as long as a head the next time; not who has waited for it, nor who has spun in
 * vain since. */
START_TEST(lurks_for_long)
{
	enum { TIMES = 100 }; /* the CPU may change its pace meanwhile */
	int word = 1;
	struct pk_site at = {&word, &gate, 0, true, NULL, NULL, NULL};
	uint64_t least[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

	make_two_cpus(&at);
	at.spin = pk_rounds_in(300000);
	for (unsigned n = 0; n < 4 * TIMES; n++) {
		uint64_t began;

		pk_self.no_naps = 1;
		if (n % 4 < 3) {
			pk_self.stolen.word = n % 4 ? &word : NULL;
			pk_self.stolen.rounds = n % 4 == 2 ? at.spin / 12 : at.spin / 6;
			pk_self.stolen.ns = 0; /* long ago */
		} /* else it has just spun in vain */
		began = pk_clock_ns();
		ck_assert(!pk_word_lurk(&at));
		began = pk_clock_ns() - began;
		least[n % 4] = began < least[n % 4] ? began : least[n % 4];
	}
	for (int i = 0; i < 4; i++)
		if (i != 2)
			ck_assert_uint_lt(2 * least[i], least[2]);
}
END_TEST

UNIT("word", {heads_tell, 2}, {heads_tell_of_owners, 6}, {heads_probe, 1}, {heads_take_long, 1}, {looks_away, 11},
     {looks_away_in_a_queue, 6}, {looks_away_as_others_do, 9},
     {steals_once, 1}, {steals_again, 1}, {steals_from_far_away, 1}, {steals_by_habit, 1}, {loses_the_word, 1}, {steals_late, 1}, {naps_seldom, 2},
     {naps_and_takes, 2}, {thieves_tell, 1}, {lurks_for_long, 1}, {owes_a_wakeup, 15})
