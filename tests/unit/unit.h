/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The main function of the unit tests: Check programs that the library's own sources are linked into, so that they
 * reach what it hides. */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stdlib.h>

#include "../without.h"

struct unit_test {
	const TTest *test;
	int runs; /* how often, with _i from 0 on */
};

/* Runs each test in a process of its own. The exit status of main. */
static inline int unit_run(const char *name, const struct unit_test *tests, size_t n)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tcase, 60); /* Check's own 4 s are little on a busy machine */
	for (size_t i = 0; i < n; i++)
		if (!left_out(tests[i].test->name))
			tcase_add_loop_test(tcase, tests[i].test, 0, tests[i].runs);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT(name, ...)                                                                                                \
	int main(void)                                                                                                 \
	{                                                                                                              \
		const struct unit_test tests[] = {__VA_ARGS__};                                                        \
		return unit_run(name, tests, sizeof(tests) / sizeof(tests[0]));                                        \
	}

#endif
