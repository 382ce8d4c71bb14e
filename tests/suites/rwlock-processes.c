/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-processes: a reader-writer lock that two processes share.
 *
 * They meet once at a time that is agreed on, and then come and go at random, with deadlines that pass.  It would
 * catch: a process that does not wait for the other's writer or reader, two that are inside together, a wake-up that
 * stays within a process, a count of readers that is kept where the other does not look.
 */

#include "errand.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

struct shop {
	pthread_rwlock_t l;
	volatile unsigned long a, b;
	atomic_int open;
};

static void shop_work(struct shop *shop, uint32_t luck)
{
	for (uint64_t end = now_ns() + suite_scale(150) * 1000000; now_ns() < end && !complained();) {
		struct timespec t = deadline(CLOCK_REALTIME, dice(&luck) % 50000);
		int rc;

		switch (luck % 4) {
		case 0:
			MUST(pthread_rwlock_wrlock(&shop->l));
			shop->a++;
			if (luck / 4 % 16 == 0)
				sleep_us(100);
			shop->b++;
			break;
		case 1:
			rc = pthread_rwlock_timedrdlock(&shop->l, &t);
			if (rc == ETIMEDOUT)
				continue;
			WANT(rc, 0);
			break;
		default:
			MUST(pthread_rwlock_rdlock(&shop->l));
			break;
		}
		if (shop->a != shop->b)
			complain("two processes were inside");
		MUST(pthread_rwlock_unlock(&shop->l));
	}
}

START_TEST(process_shared)
{
	struct shop *shop = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	ck_assert_ptr_ne(shop, MAP_FAILED);
	rwlock_make(&bound, &shop->l, preferences[_i].type, PTHREAD_PROCESS_SHARED);
	ck_assert_int_eq(pthread_rwlock_wrlock(&shop->l), 0);
	if ((child = fork()) == 0) {
		alarm(60);
		WANT(pthread_rwlock_tryrdlock(&shop->l), EBUSY);
		WANT(pthread_rwlock_trywrlock(&shop->l), EBUSY);
		atomic_store(&shop->open, 1);
		MUST(pthread_rwlock_rdlock(&shop->l));
		MUST(pthread_rwlock_rdlock(&shop->l));
		atomic_store(&shop->open, 2);
		sleep_us(20000);
		MUST(pthread_rwlock_unlock(&shop->l));
		MUST(pthread_rwlock_unlock(&shop->l));
		shop_work(shop, 77);
		child_exit();
	}
	while (!atomic_load(&shop->open))
		sleep_us(100);
	sleep_us(10000);
	ck_assert_int_eq(atomic_load(&shop->open), 1);
	ck_assert_int_eq(pthread_rwlock_unlock(&shop->l), 0);
	while (atomic_load(&shop->open) != 2)
		sleep_us(100);
	ck_assert_int_eq(pthread_rwlock_wrlock(&shop->l), 0);
	ck_assert_int_eq(pthread_rwlock_unlock(&shop->l), 0);
	shop_work(shop, 88);
	child_reap(child, "the other process");
	assert_no_complaint();
	assert_free(&bound, &shop->l);
	ck_assert_int_eq(pthread_rwlock_destroy(&shop->l), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-processes");

	SUITE_CASE_OF(s, process_shared, 60, PREFERENCES);
	return suite_run(s);
}
