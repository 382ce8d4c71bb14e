/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Who takes the word of a lock without a place in its queue (pthread/word.c): thieves, who do not come back too soon, and tell what they have
 * seen; and who lurks on two CPUs, and naps. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "pthread/word.h"
#include "rt/clock.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "nodes.h"

static struct pk_gate gate;

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

UNIT("thieves", {steals_once, 1}, {steals_again, 1}, {steals_from_far_away, 1}, {steals_by_habit, 1}, {loses_the_word, 1}, {steals_late, 1},
     {naps_seldom, 2}, {naps_and_takes, 2}, {thieves_tell, 1}, {lurks_for_long, 1})
