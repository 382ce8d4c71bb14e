/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to the futex system call; the contract is in futex.h. */
#include "rt/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "base/arch/arch.h"
#include "rt/clock.h"
#include "rt/probe.h"
#include "rt/thread.h"

/* What the kernel says to a wait. */
PK_INLINE long call(const void *word, uint32_t expected, int op, const struct timespec *until, uint32_t bits)
{
	PK_PROBE2(park, word, expected);
	return pk_arch_syscall(SYS_futex, (long)word, op, expected, (long)until, 0, bits);
}

PK_INLINE int wait(const void *word, uint32_t expected, int op, uint32_t bits, const struct pk_deadline *deadline)
{
	const struct timespec *abstime = NULL;

	if (deadline) {
		abstime = deadline->abstime;
		/* The kernel refuses negative seconds; they are long past. */
		if (abstime->tv_sec < 0)
			return ETIMEDOUT;
		if (deadline->clock == CLOCK_REALTIME)
			op |= FUTEX_CLOCK_REALTIME;
	}
	switch (call(word, expected, op, abstime, bits)) {
	case -ETIMEDOUT:
		return ETIMEDOUT;
	case -EINTR: /* a signal handler ran */
		return EINTR;
	case -EAGAIN: /* *word was not as expected */
		return EAGAIN;
	case 0: /* woken, or a late wake-up meant for somebody before us */
		return 0;
	default:
		/* EFAULT, EINVAL, ENOSYS, or EPERM by a seccomp filter: nothing
		 * that waiting can mend. The caller's loop becomes a spin with
		 * a system call in it, which is slow but stays correct. */
		return deadline && pk_clock_passed(deadline->clock, abstime) ? ETIMEDOUT : 0;
	}
}

int pk_futex_wait(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	return pk_futex_wait_bits(word, expected, FUTEX_BITSET_MATCH_ANY, deadline);
}

int pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	int ret = wait(word, expected, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, FUTEX_BITSET_MATCH_ANY, deadline);

	return ret == EINTR ? 0 : ret;
}

int pk_futex_wait_for(const void *word, uint32_t expected, unsigned us)
{
	const struct timespec time = {us / 1000000, us % 1000000 * 1000L};
	long ret = call(word, expected, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, &time, 0);

	return ret == -ETIMEDOUT || ret == -EINTR || ret == -EAGAIN ? (int)-ret : 0;
}

int pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline)
{
	int ret = wait(word, expected, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, bits, deadline);

	return ret == EINTR || ret == EAGAIN ? 0 : ret;
}

int pk_futex_wait_shared(const void *word, uint32_t expected, const struct pk_deadline *deadline)
{
	int ret = wait(word, expected, FUTEX_WAIT_BITSET, FUTEX_BITSET_MATCH_ANY, deadline);

	return ret == EAGAIN ? 0 : ret;
}

PK_INLINE int wake(const void *word, int n, int op, uint32_t bits)
{
	long ret = pk_arch_syscall(SYS_futex, (long)word, op, n, 0, 0, bits);

	PK_PROBE2(wake, word, ret);
	if (ret > 0)
		pk_count_in(pk_self.record, PK_STAT_wakes);
	/* EFAULT: the memory is gone, and with it everybody who slept there
	 * (glibc tolerates it for the same reason). */
	return ret < 0 ? 0 : (int)ret;
}

int pk_futex_wake(const void *word, int n)
{
	return wake(word, n, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 0);
}

int pk_futex_wake_bits(const void *word, uint32_t bits)
{
	return wake(word, INT_MAX, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, bits);
}

int pk_futex_wake_shared(const void *word, int n)
{
	return wake(word, n, FUTEX_WAKE, 0);
}

bool pk_futex_move(const void *from, uint32_t expected, const void *to)
{
	/* Wakes 0, moves 1 at most. EAGAIN: *from is not as expected. ENOSYS,
	 * EPERM: refused by a filter. */
	return pk_arch_syscall(SYS_futex, (long)from, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 1, (long)to,
			       (long)expected) >= 0;
}
