/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite starvation: everybody gets the mutex every two seconds, though a hog relocks it at once.
 *
 * Two crowds: 64 threads with short sections, and a few threads beside a hog whose sections are so long that a
 * waiter woken by its unlock always comes too late for the word: only a bound on barging lets it in.
 *
 * It would catch a patience bound that does not bind, a shuffler that leaves someone behind for ever, hand-overs
 * without a bound.  For each thread the longest time between two acquisitions is measured, from the start to the
 * end of the run.  A bystander thread measures how long the machine itself stood still, and that is granted on
 * top.  glibc promises nothing of the kind: there only exclusion is checked (policy word, which waits as glibc does, is
 * held to the first bound alone).
 *
 * Environment: STARVE_SECONDS, the length of the first run (default 20); the second is a fifth of it.
 */

#include "suite.h"

#include <sched.h>
#include <stdlib.h>

enum { THREADS = 64, HOG = 0 };

static const uint64_t BOUND_NS = 2000000000;

struct life {
	uint64_t sections, last_ns, gap_ns;
} __attribute__((aligned(128)));

static struct {
	pthread_mutex_t m __attribute__((aligned(128)));
	volatile uint64_t count __attribute__((aligned(128)));
	volatile int holder;
	uint64_t start_ns, end_ns;
	uint64_t hog_section_ns;
	atomic_int stop;
	struct life life[THREADS];
} run;

static void note_gap(struct life *life, uint64_t now)
{
	if (now > life->last_ns && now - life->last_ns > life->gap_ns)
		life->gap_ns = now - life->last_ns;
	life->last_ns = now;
}

/* The hog alone on the first CPU, its victims on the next: no wake-up of theirs takes the CPU from the hog. */
static void keep_apart(bool hog)
{
	cpu_set_t all, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
		return;
	for (int n = hog ? 1 : 2; n > 0;)
		n -= CPU_ISSET(++cpu, &all) != 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static void starve_body(int index, void *arg)
{
	struct life *life = &run.life[index];
	uint32_t luck = index + 1;
	(void)arg;

	if (run.hog_section_ns)
		keep_apart(index == HOG);

	life->last_ns = run.start_ns;
	while (!atomic_load_explicit(&run.stop, memory_order_relaxed)) {
		MUST(pthread_mutex_lock(&run.m));
		if (run.holder)
			complain("thread %d is inside together with thread %d", index + 1, run.holder);
		run.holder = index + 1;
		run.count++;
		if (index == HOG && run.hog_section_ns)
			spin_ns(run.hog_section_ns);
		if (run.holder != index + 1)
			complain("thread %d came in while thread %d was inside", run.holder, index + 1);
		run.holder = 0;
		/* The end is what the clock says, not the flag: a thread let in after it has waited until now, too. */
		note_gap(life, now_ns());
		life->sections++;
		MUST(pthread_mutex_unlock(&run.m));
		if (index != HOG)
			for (volatile int i = dice(&luck) % 200; i > 0; i--)
				;
	}
}

/* How long a thread that wants nothing but to sleep for 10 ms was kept waiting. */
static uint64_t bystand(uint64_t until_ns)
{
	uint64_t worst = 0, last = now_ns();

	while (last < until_ns) {
		uint64_t now;

		sleep_us(10000);
		now = now_ns();
		if (now - last > 10000000 && now - last - 10000000 > worst)
			worst = now - last - 10000000;
		last = now;
	}
	return worst;
}

static void starve(int threads, uint64_t hog_section_ns, uint64_t length_ns, bool promised)
{
	uint64_t stood_still, sections = 0, worst = 0, fewest = UINT64_MAX;
	struct team *t;
	int worst_thread = 0;

	mutex_make(&run.m, PTHREAD_MUTEX_NORMAL);
	run.hog_section_ns = hog_section_ns;
	run.start_ns = now_ns();
	run.end_ns = run.start_ns + length_ns;
	t = team_start(threads, starve_body, NULL);
	stood_still = bystand(run.end_ns);
	atomic_store(&run.stop, 1);
	team_join(t);
	assert_no_complaint();
	for (int i = 0; i < threads; i++) {
		struct life *life = &run.life[i];

		if (life->last_ns < run.end_ns)
			note_gap(life, run.end_ns);
		sections += life->sections;
		if (life->gap_ns > worst) {
			worst = life->gap_ns;
			worst_thread = i;
		}
		if (life->sections < fewest)
			fewest = life->sections;
	}
	ck_assert_uint_eq(sections, run.count);
	say("starvation: %d threads, longest gap %.3f s (thread %d); machine stood still %.3f s; the hog %lu, the "
	    "least "
	    "%lu, together %lu acquisitions; queue entered %lld times",
	    threads, worst / 1e9, worst_thread, stood_still / 1e9, (unsigned long)run.life[HOG].sections,
	    (unsigned long)fewest, (unsigned long)sections, (long long)suite_entered());
	if (!promised) {
		say("SKIP: starvation is not bounded here; only exclusion was checked");
		return;
	}
	ck_assert_int_ne(suite_entered(), 0);
	ck_assert_msg(worst <= BOUND_NS + stood_still, "thread %d did not get the mutex for %.3f s", worst_thread,
		      worst / 1e9);
}

static uint64_t length_ns(void)
{
	const char *seconds = getenv("STARVE_SECONDS");

	return (seconds ? strtoul(seconds, NULL, 10) : 20) * 1000000000;
}

START_TEST(crowd)
{
	starve(THREADS, 0, length_ns(), suite_served());
}
END_TEST

START_TEST(long_hog)
{
	starve(6, 5000000, length_ns() / 5, suite_entered() >= 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("starvation");

	SUITE_CASE(s, crowd, 300);
	SUITE_CASE(s, long_hog, 300);
	return suite_run(s);
}
