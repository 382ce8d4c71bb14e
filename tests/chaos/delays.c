/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Delays at every atomic access, so that what needs a preemption at one place of a few instructions happens often.
 *
 * The library's sources are compiled with -fsanitize=thread and linked with this file instead of the sanitizer's
 * runtime: each atomic access arrives here as a call with its memory order.  It is done as it was asked for, and
 * before and after it the thread may burn time, yield or sleep, by dice of its own: CHAOS_SEED and the order in which
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

/* One point in so many is a delay; each access has two points. */
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

/* ---- the entry points that the compiler calls ---- */

/* The compiler wants an order that it knows: one of C's, by number. */
#define IN_ORDER(order, relaxed, acquire, release, acq_rel, seq_cst)                                                   \
	switch (order) {                                                                                               \
	case __ATOMIC_RELAXED:                                                                                         \
		relaxed;                                                                                               \
		break;                                                                                                 \
	case __ATOMIC_CONSUME:                                                                                         \
	case __ATOMIC_ACQUIRE:                                                                                         \
		acquire;                                                                                               \
		break;                                                                                                 \
	case __ATOMIC_RELEASE:                                                                                         \
		release;                                                                                               \
		break;                                                                                                 \
	case __ATOMIC_ACQ_REL:                                                                                         \
		acq_rel;                                                                                               \
		break;                                                                                                 \
	default:                                                                                                       \
		seq_cst;                                                                                               \
	}

#define LOAD(bits)                                                                                                     \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order);                        \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order)                         \
	{                                                                                                              \
		uint##bits##_t v;                                                                                      \
                                                                                                                       \
		point();                                                                                               \
		IN_ORDER(order, v = __atomic_load_n(p, __ATOMIC_RELAXED), v = __atomic_load_n(p, __ATOMIC_ACQUIRE),    \
			 v = __atomic_load_n(p, __ATOMIC_SEQ_CST), v = __atomic_load_n(p, __ATOMIC_SEQ_CST),           \
			 v = __atomic_load_n(p, __ATOMIC_SEQ_CST))                                                     \
		point();                                                                                               \
		return v;                                                                                              \
	}

#define STORE(bits)                                                                                                    \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order);                     \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order)                      \
	{                                                                                                              \
		point();                                                                                               \
		IN_ORDER(order, __atomic_store_n(p, v, __ATOMIC_RELAXED), __atomic_store_n(p, v, __ATOMIC_SEQ_CST),    \
			 __atomic_store_n(p, v, __ATOMIC_RELEASE), __atomic_store_n(p, v, __ATOMIC_SEQ_CST),           \
			 __atomic_store_n(p, v, __ATOMIC_SEQ_CST))                                                     \
		point();                                                                                               \
	}

#define MODIFY(bits, name, function)                                                                                   \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order);          \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order)           \
	{                                                                                                              \
		uint##bits##_t was;                                                                                    \
                                                                                                                       \
		point();                                                                                               \
		IN_ORDER(order, was = function(p, v, __ATOMIC_RELAXED), was = function(p, v, __ATOMIC_ACQUIRE),        \
			 was = function(p, v, __ATOMIC_RELEASE), was = function(p, v, __ATOMIC_ACQ_REL),               \
			 was = function(p, v, __ATOMIC_SEQ_CST))                                                       \
		point();                                                                                               \
		return was;                                                                                            \
	}

/* A failure reads with the strongest order that the success allows. */
#define CAS(p, seen, v, success, failure) done = __atomic_compare_exchange_n(p, seen, v, 0, success, failure)
#define SWAP(bits, name)                                                                                               \
	int __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t *seen, uint##bits##_t v,           \
					 int order, int failure);                                                      \
	int __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t *seen, uint##bits##_t v,           \
					 int order, int failure)                                                       \
	{                                                                                                              \
		int done;                                                                                              \
                                                                                                                       \
		point();                                                                                               \
		if (failure == __ATOMIC_RELAXED) {                                                                     \
			IN_ORDER(order, CAS(p, seen, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED),                           \
				 CAS(p, seen, v, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED),                                  \
				 CAS(p, seen, v, __ATOMIC_RELEASE, __ATOMIC_RELAXED),                                  \
				 CAS(p, seen, v, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED),                                  \
				 CAS(p, seen, v, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))                                  \
		} else if (failure != __ATOMIC_SEQ_CST && order == __ATOMIC_ACQ_REL) {                                 \
			CAS(p, seen, v, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                                           \
		} else {                                                                                               \
			CAS(p, seen, v, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                           \
		}                                                                                                      \
		point();                                                                                               \
		return done;                                                                                           \
	}

/* clang's form returns what was there. */
#define SWAP_VALUE(bits)                                                                                               \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *p, uint##bits##_t seen,     \
								  uint##bits##_t v, int order, int failure);           \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *p, uint##bits##_t seen,     \
								  uint##bits##_t v, int order, int failure)            \
	{                                                                                                              \
		__tsan_atomic##bits##_compare_exchange_strong(p, &seen, v, order, failure);                            \
		return seen;                                                                                           \
	}

#define ATOMICS(bits)                                                                                                  \
	LOAD(bits)                                                                                                     \
	STORE(bits)                                                                                                    \
	MODIFY(bits, exchange, __atomic_exchange_n)                                                                    \
	MODIFY(bits, fetch_add, __atomic_fetch_add)                                                                    \
	MODIFY(bits, fetch_sub, __atomic_fetch_sub)                                                                    \
	MODIFY(bits, fetch_and, __atomic_fetch_and)                                                                    \
	MODIFY(bits, fetch_or, __atomic_fetch_or)                                                                      \
	SWAP(bits, compare_exchange_strong)                                                                            \
	SWAP(bits, compare_exchange_weak)                                                                              \
	SWAP_VALUE(bits)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order; /* the library has but the strongest */
	point();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	point();
}

/* Plain accesses, and the bookkeeping around functions. */
#define QUIET(name, ...)                                                                                               \
	void __tsan_##name(__VA_ARGS__);                                                                               \
	void __tsan_##name(__VA_ARGS__)                                                                                \
	{                                                                                                              \
	}

QUIET(init, void)
QUIET(func_entry, void *caller __attribute__((unused)))
QUIET(func_exit, void)
#define QUIET_ACCESS(name) QUIET(name, void *p __attribute__((unused)))
#define QUIET_SIZES(kind)                                                                                              \
	QUIET_ACCESS(kind##1) QUIET_ACCESS(kind##2) QUIET_ACCESS(kind##4) QUIET_ACCESS(kind##8) QUIET_ACCESS(kind##16)
QUIET_SIZES(read)
QUIET_SIZES(write)
QUIET_SIZES(unaligned_read)
QUIET_SIZES(unaligned_write)
QUIET_SIZES(volatile_read)
QUIET_SIZES(volatile_write)
#define QUIET_RANGE(name) QUIET(name, void *p __attribute__((unused)), size_t size __attribute__((unused)))
QUIET_RANGE(read_range)
QUIET_RANGE(write_range)
