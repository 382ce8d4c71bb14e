/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Delays at every atomic access and system call, so that what needs a preemption at one place happens often.
 *
 * Each of them in the library's sources arrives here (harness/access.h, calls.h), and is done as it was asked for; before
 * and after it the thread may burn time, yield or sleep, by dice of its own: CHAOS_SEED and the order in which
 * threads first come by decide.  Plain accesses, and a process without CHAOS_SEED, are left alone.
 *
 * This runs inside the lock functions of the program, before any constructor, in signal handlers and in the children
 * of forks: but for its own constructor it calls nothing, allocates nothing and leaves errno alone.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/arch/arch.h"
#include "harness/access.h"

/* One point in so many is a delay; each access has two points, and each call. */
enum { RARITY = 24 };

static uint32_t seed; /* 0: no delays */
static uint32_t threads;
static __thread uint32_t dice __attribute__((tls_model("initial-exec")));

static __attribute__((constructor)) void begin(void)
{
	const char *text = getenv("CHAOS_SEED");

	if (text)
		__atomic_store_n(&seed, (uint32_t)strtoul(text, NULL, 10) * 2 + 1, __ATOMIC_RELAXED);
}

static uint32_t roll(void)
{
	uint32_t x = dice;

	if (!x) /* neighbouring seeds and threads must not look alike */
		x = (seed * 0x9e3779b9u ^ (__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) + 1) * 0x85ebca6bu) | 1;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return dice = x;
}

static void rest(long ns)
{
	struct timespec t = {0, ns};

	pk_arch_syscall(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

static __attribute__((noinline)) void delay(uint32_t luck)
{
	uint32_t amount = luck >> 16, kind = luck / RARITY % 512;

	if (kind < 200)
		for (uint32_t i = amount % 512; i; i--)
			pk_arch_relax();
	else if (kind < 400)
		pk_arch_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	else if (kind < 500)
		rest(1000 + amount * 2); /* 130 us at most */
	else if (kind < 511)
		rest(1000 + amount * 30); /* 2 ms at most */
	else
		rest(20000000);
}

static inline void point(void)
{
	uint32_t luck;

	if (!__atomic_load_n(&seed, __ATOMIC_RELAXED))
		return;
	luck = roll();
	if (luck % RARITY == 0)
		delay(luck);
}

uint64_t hn_access(const struct hn_access *a)
{
	uint64_t was;

	if (a->kind == HN_READ || a->kind == HN_WRITE)
		return 0;
	point();
	was = hn_perform(a);
	point();
	return was;
}

long chaos_syscall(long nr, long a, long b, long c, long d, long e, long f);
long chaos_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	long result;

	point();
	result = pk_arch_syscall(nr, a, b, c, d, e, f);
	point();
	return result;
}
