/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Faults at the library's doors: system calls that fail, return early or late, and a CPU number that lies.
 *
 * FAULTS=name:N,name:N... says which; each happens at one in N calls, by dice of the thread's own, unless it says
 * otherwise:
 *	mmap		only the N-th mapping is refused
 *	nomem		the N-th mapping and all later ones
 *	unmapped	any mapping
 *	eintr		a futex wait ends with EINTR at once
 *	again		... with EAGAIN, although the word is as expected
 *	spurious	... with 0, although nobody has woken it
 *	late		a futex wait returns up to 3 ms late
 *	slow		a wake-up is made up to 1 ms late
 *	unmoved		moving a sleeper fails with EAGAIN
 *	refused		moving a sleeper fails with ENOSYS
 *	cpu		the number of the CPU is any up to twice what the library knows, or none (-1, -2)
 *	advice		madvise is refused (the page that is wiped at fork)
 *	affinity	the affinity mask cannot be read
 *	clock		CLOCK_REALTIME jumps, as jumps.h has it (with jumping.c)
 *
 * This runs inside the lock functions of the program: but for its constructor it calls nothing.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/arch/arch.h"
#include "jumps.h"
#include "rt/topology.h"

enum fault {
	MMAP,
	NOMEM,
	UNMAPPED,
	EINTRS,
	AGAIN,
	SPURIOUS,
	LATE,
	SLOW,
	UNMOVED,
	REFUSED,
	CPU,
	ADVICE,
	AFFINITY,
	CLOCK,
	FAULTS
};

static const char *const names[FAULTS] = {"mmap", "nomem",   "unmapped", "eintr", "again",  "spurious", "late",
					  "slow", "unmoved", "refused",	 "cpu",	  "advice", "affinity", "clock"};
static uint32_t rarity[FAULTS]; /* 0: never */
static uint32_t threads, mappings;

static __thread struct {
	uint64_t dice;
	struct rseq lie;
} own __attribute__((tls_model("initial-exec")));

/* Before the library's own constructor. */
static __attribute__((constructor(101))) void begin(void)
{
	const char *text = getenv("FAULTS");

	for (int i = 0; text && i < FAULTS; i++) {
		const char *at = strstr(text, names[i]);

		if (at && at[strlen(names[i])] == ':')
			rarity[i] = (uint32_t)strtoul(at + strlen(names[i]) + 1, NULL, 10);
	}
}

static uint32_t roll(void)
{
	uint64_t z;

	if (!own.dice)
		own.dice = (uint64_t)(__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED)) << 32;
	z = own.dice += 0x9e3779b97f4a7c15u; /* splitmix64 */
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)(z >> 16);
}

static int strikes(enum fault f)
{
	return __builtin_expect(rarity[f] != 0, 0) && roll() % rarity[f] == 0;
}

static void rest(long ns)
{
	struct timespec t = {0, ns};

	true_syscall(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

static int64_t now(clockid_t clock)
{
	struct timespec t;

	true_syscall(SYS_clock_gettime, clock, (long)&t, 0, 0, 0, 0);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A wait until the clock that jumps has come so far: in slices, since the kernel's clock does not. */
static long wait_by_jumping_clock(long word, long op, long expected, const struct timespec *until, long bits)
{
	int64_t end = (int64_t)until->tv_sec * 1000000000 + until->tv_nsec, left;
	struct timespec t;
	long ret = -ETIMEDOUT;

	while ((left = end - now(CLOCK_REALTIME) - jump_ns(now(CLOCK_MONOTONIC))) > 0 && ret == -ETIMEDOUT) {
		left = now(CLOCK_MONOTONIC) + (left < 5000000 ? left : 5000000);
		t.tv_sec = left / 1000000000;
		t.tv_nsec = left % 1000000000;
		ret = true_syscall(SYS_futex, word, op & ~FUTEX_CLOCK_REALTIME, expected, (long)&t, 0, bits);
	}
	return ret;
}

static long futex(long word, long op, long val, long timeout, long word2, long val3)
{
	const long command = op & FUTEX_CMD_MASK;
	const int waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
	long ret;

	if (command == FUTEX_CMP_REQUEUE) {
		if (strikes(REFUSED))
			return -ENOSYS;
		if (strikes(UNMOVED))
			return -EAGAIN;
	} else if (waits) {
		if (strikes(EINTRS))
			return -EINTR;
		if (strikes(AGAIN))
			return -EAGAIN;
		if (strikes(SPURIOUS))
			return 0;
	} else if (strikes(SLOW)) {
		rest(roll() % 1000000);
	}
	if (command == FUTEX_WAIT_BITSET && rarity[CLOCK] && timeout && op & FUTEX_CLOCK_REALTIME)
		ret = wait_by_jumping_clock(word, op, val, (const struct timespec *)timeout, val3);
	else
		ret = true_syscall(SYS_futex, word, op, val, timeout, word2, val3);
	if (waits && strikes(LATE))
		rest(roll() % 3000000);
	return ret;
}

static int maps(void)
{
	uint32_t n = __atomic_add_fetch(&mappings, 1, __ATOMIC_RELAXED);

	return n != rarity[MMAP] && !(rarity[NOMEM] && n >= rarity[NOMEM]) && !strikes(UNMAPPED);
}

long fault_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	switch (nr) {
	case SYS_futex:
		return futex(a, b, c, d, e, f);
	case SYS_mmap:
		if (!maps())
			return -ENOMEM;
		break;
	case SYS_madvise:
		if (strikes(ADVICE))
			return -EINVAL;
		break;
	case SYS_sched_getaffinity:
		if (strikes(AFFINITY))
			return -EPERM;
		break;
	default:
		break;
	}
	return true_syscall(nr, a, b, c, d, e, f);
}

char *fault_thread_pointer(void)
{
	if (!strikes(CPU))
		return true_thread_pointer();
	own.lie.cpu_id = roll() % 4 ? roll() % (2 * PK_CPUS_MAX) : (uint32_t)-1 - roll() % 2;
	return (char *)&own.lie - __rseq_offset;
}
