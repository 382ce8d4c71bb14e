/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The benchmark's histogram: every time goes into a bucket that is at most a sixteenth too long, and quantiles are
 * right. */
#include "histogram.h"

#include "unit.h"

static struct histogram h;

START_TEST(buckets)
{
	for (uint64_t ns = 1; ns < UINT64_MAX / 3; ns += ns / 8 + 1) {
		struct histogram *one = calloc(2, sizeof(*one));
		uint64_t found;

		histogram_add(&one[0], ns);
		histogram_add(&one[0], ns * 2); /* so that the longest does not hide the bucket's end */
		found = histogram_quantile(&one[0], 0.5);
		ck_assert_uint_ge(found, ns);
		ck_assert_uint_le(found, ns + ns / 16);
		ck_assert_uint_eq(histogram_quantile(&one[0], 1), ns * 2);
		histogram_merge(&one[1], &one[0]);
		ck_assert_uint_eq(histogram_quantile(&one[1], 0.5), found);
		ck_assert_uint_eq(one[1].longest, ns * 2);
		free(one);
	}
}
END_TEST

START_TEST(quantiles)
{
	memset(&h, 0, sizeof(h));
	ck_assert_uint_eq(histogram_quantile(&h, 0.99), 0);
	for (unsigned i = 0; i < 990; i++)
		histogram_add(&h, 5);
	for (unsigned i = 0; i < 9; i++)
		histogram_add(&h, 1000);
	histogram_add(&h, 1000000);
	ck_assert_uint_eq(histogram_total(&h), 1000);
	ck_assert_uint_eq(histogram_quantile(&h, 0.5), 5);
	ck_assert_uint_eq(histogram_quantile(&h, 0.99), 5);
	ck_assert_uint_eq(histogram_quantile(&h, 0.999), 1023);
	ck_assert_uint_eq(histogram_quantile(&h, 1), 1000000);
	histogram_add(&h, UINT64_MAX);
	histogram_add(&h, 0);
	ck_assert_uint_eq(histogram_total(&h), 1002);
	ck_assert_uint_eq(h.longest, UINT64_MAX);
}
END_TEST

UNIT("histogram", {buckets, 1}, {quantiles, 1})
