/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The probe's arithmetic: sequences of acquisitions whose figures are known. */
#include "probe.h"

#include <string.h>

#include "unit.h"

enum { THREADS_MAX = 8 };

/* A sequence: a letter for each acquisition. Thread 0 is a, on node 0, 1 is b, on node 1, c and d are on 0 and 1, and
 * so on; a capital is that thread on node 2. */
static const struct {
	const char *sequence;
	int threads;
	uint64_t acquisitions, handovers, least, longest_run;
	double local, fairness, run;
} known[] = {
	{"", 4, 0, 0, 0, 0, 0, 0, 0},
	{"a", 4, 1, 0, 0, 1, 0, 1, 1},
	{"aaaa", 4, 4, 0, 0, 1, 0, 1, 1},
	{"abab", 2, 4, 3, 2, 1, 0, 0.5, 1},
	{"acac", 4, 4, 3, 0, 4, 1, 1, 4},
	{"acbd", 4, 4, 3, 1, 2, 2 / 3.0, 0.5, 2},
	{"abcd", 4, 4, 3, 1, 1, 0, 0.5, 1},
	{"aaccbbdd", 4, 8, 3, 2, 2, 2 / 3.0, 0.5, 2},
	{"acacacbd", 4, 8, 7, 1, 6, 6 / 7.0, 0.75, 4},
	/* A thread that moves hands nothing over, but ends a run; so does one that comes back elsewhere. */
	{"aA", 2, 2, 0, 0, 1, 0, 1, 1},
	{"aACc", 4, 4, 1, 0, 2, 1, 1, 4 / 3.0},
	{"acAbB", 4, 5, 3, 0, 2, 1 / 3.0, 0.8, 1.25},
	/* The middle one of an odd number of threads counts half. */
	{"abc", 3, 3, 2, 1, 1, 0, 0.5, 1},
	{"aaabbc", 3, 6, 2, 1, 1, 0, 4 / 6.0, 1},
	{"aaa", 1, 3, 0, 3, 1, 0, 0.5, 1},
	/* The busier half need not come first. */
	{"hhhggfe", 8, 7, 3, 0, 1, 0, 1, 1},
	{"abbcccdddd", 4, 10, 3, 1, 1, 0, 0.7, 1},
};

static void note(struct handover *h, char who, uint64_t waited)
{
	bool elsewhere = who < 'a';
	int thread = who - (elsewhere ? 'A' : 'a');

	handover_note(h, thread, elsewhere ? 2 : (unsigned)thread % 2, waited);
}

START_TEST(figures)
{
	struct handover h;
	struct handover_figures f;

	ck_assert(handover_init(&h, known[_i].threads));
	for (const char *who = known[_i].sequence; *who; who++)
		note(&h, *who, 1);
	f = handover_figures(&h);
	ck_assert_uint_eq(f.acquisitions, known[_i].acquisitions);
	ck_assert_uint_eq(f.handovers, known[_i].handovers);
	ck_assert_uint_eq(f.least, known[_i].least);
	ck_assert_uint_eq(f.longest_run, known[_i].longest_run);
	ck_assert_double_eq_tol(f.local, known[_i].local, 1e-9);
	ck_assert_double_eq_tol(f.fairness, known[_i].fairness, 1e-9);
	ck_assert_double_eq_tol(f.run, known[_i].run, 1e-9);
	handover_free(&h);
}
END_TEST

/* Whoever it is, and whether the thread had it before or not. */
START_TEST(longest_wait)
{
	static const uint64_t waits[] = {5, 70, 3, 70000000000, 0, 9};
	struct handover h;

	ck_assert(handover_init(&h, 2));
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		note(&h, "aababb"[i], waits[i]);
	ck_assert_uint_eq(handover_figures(&h).longest, 70000000000);
	handover_free(&h);
}
END_TEST

/* A round robin over n threads of two nodes, and one that goes over a node's threads before it changes. */
START_TEST(many_threads)
{
	struct handover h;
	struct handover_figures f;
	int n = THREADS_MAX << _i;

	for (int grouped = 0; grouped < 2; grouped++) {
		ck_assert(handover_init(&h, n));
		for (int i = 0; i < 100 * n; i++)
			handover_note(&h, i % n, (unsigned)(grouped ? i % n / (n / 2) : i % 2), 0);
		f = handover_figures(&h);
		ck_assert_uint_eq(f.handovers, (uint64_t)(100 * n - 1));
		ck_assert_uint_eq(f.longest_run, grouped ? (uint64_t)n / 2 : 1);
		ck_assert_double_eq_tol(f.fairness, 0.5, 1e-9);
		ck_assert_double_eq_tol(f.local, grouped ? 1 - 199.0 / (100 * n - 1) : 0, 1e-9);
		ck_assert_double_eq_tol(f.run, grouped ? n / 2 : 1, 1e-9);
		handover_free(&h);
	}
}
END_TEST

UNIT("handover", {figures, sizeof(known) / sizeof(known[0])}, {longest_wait, 1}, {many_threads, 4})
