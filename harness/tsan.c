/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the compiler calls under -fsanitize=thread; the contract is in access.h.
 *
 * It is linked instead of the sanitizer's runtime. gcc and clang call the same names but
 * for the compare-and-swap. Nothing here allocates, calls a library or touches errno: it
 * runs inside lock functions, before any constructor and in signal handlers. */
#include "harness/access.h"

#define FROM __builtin_return_address(0)

#define ENTRY(type, name, ...)                                                                                         \
	type __tsan_##name(__VA_ARGS__);                                                                               \
	type __tsan_##name(__VA_ARGS__)

/* ---- plain accesses ---- */

#define PLAIN(name, which, bytes)                                                                                      \
	ENTRY(void, name, void *p)                                                                                     \
	{                                                                                                              \
		hn_access(&(struct hn_access){.kind = which, .size = bytes, .p = p, .from = FROM});                    \
	}
#define PLAIN_SIZES(name, which)                                                                                       \
	PLAIN(name##1, which, 1)                                                                                       \
	PLAIN(name##2, which, 2) PLAIN(name##4, which, 4) PLAIN(name##8, which, 8) PLAIN(name##16, which, 16)
#define RANGE(name, which)                                                                                             \
	ENTRY(void, name, void *p, size_t size)                                                                        \
	{                                                                                                              \
		hn_access(&(struct hn_access){.kind = which, .size = size, .p = p, .from = FROM});                     \
	}

PLAIN_SIZES(read, HN_READ)
PLAIN_SIZES(write, HN_WRITE)
PLAIN_SIZES(unaligned_read, HN_READ)
PLAIN_SIZES(unaligned_write, HN_WRITE)
PLAIN_SIZES(volatile_read, HN_READ)
PLAIN_SIZES(volatile_write, HN_WRITE)
RANGE(read_range, HN_READ)
RANGE(write_range, HN_WRITE)

/* ---- atomic accesses ---- */

#define MODIFY(bits, name, which)                                                                                      \
	ENTRY(uint##bits##_t, atomic##bits##_##name, volatile void *p, uint##bits##_t v, int order)                    \
	{                                                                                                              \
		return (uint##bits##_t)hn_access(&(struct hn_access){                                                  \
			.kind = which, .order = order, .size = bits / 8, .p = p, .value = v, .from = FROM});           \
	}

#define COMPARE(bits, expected)                                                                                        \
	(uint##bits##_t) hn_access(&(struct hn_access){.kind = HN_CAS,                                                 \
						       .order = order,                                                 \
						       .failure = failure,                                             \
						       .size = bits / 8,                                               \
						       .p = p,                                                         \
						       .value = v,                                                     \
						       .seen = expected,                                               \
						       .from = FROM})

#define SWAP(bits, name)                                                                                               \
	ENTRY(int, atomic##bits##_##name, volatile void *p, uint##bits##_t *seen, uint##bits##_t v, int order,         \
	      int failure)                                                                                             \
	{                                                                                                              \
		uint##bits##_t was = COMPARE(bits, *seen), expected = *seen;                                           \
                                                                                                                       \
		*seen = was;                                                                                           \
		return was == expected;                                                                                \
	}

#define ATOMICS(bits)                                                                                                  \
	ENTRY(uint##bits##_t, atomic##bits##_load, const volatile void *p, int order)                                  \
	{                                                                                                              \
		return (uint##bits##_t)hn_access(&(struct hn_access){                                                  \
			.kind = HN_LOAD, .order = order, .size = bits / 8, .p = (volatile void *)p, .from = FROM});    \
	}                                                                                                              \
	ENTRY(void, atomic##bits##_store, volatile void *p, uint##bits##_t v, int order)                               \
	{                                                                                                              \
		hn_access(&(struct hn_access){                                                                         \
			.kind = HN_STORE, .order = order, .size = bits / 8, .p = p, .value = v, .from = FROM});        \
	}                                                                                                              \
	MODIFY(bits, exchange, HN_EXCHANGE)                                                                            \
	MODIFY(bits, fetch_add, HN_ADD)                                                                                \
	MODIFY(bits, fetch_sub, HN_SUB)                                                                                \
	MODIFY(bits, fetch_and, HN_AND)                                                                                \
	MODIFY(bits, fetch_or, HN_OR)                                                                                  \
	MODIFY(bits, fetch_xor, HN_XOR)                                                                                \
	SWAP(bits, compare_exchange_strong)                                                                            \
	SWAP(bits, compare_exchange_weak)                                                                              \
	ENTRY(uint##bits##_t, atomic##bits##_compare_exchange_val, volatile void *p, uint##bits##_t seen,              \
	      uint##bits##_t v, int order, int failure)                                                                \
	{                                                                                                              \
		return COMPARE(bits, seen);                                                                            \
	}

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

ENTRY(void, atomic_thread_fence, int order)
{
	hn_access(&(struct hn_access){.kind = HN_FENCE, .order = order, .from = FROM});
}

/* For handlers of the same thread, and there are none. */
ENTRY(void, atomic_signal_fence, int order)
{
	(void)order;
}

/* ---- bookkeeping that nobody asks for ---- */

ENTRY(void, init, void)
{
}

ENTRY(void, func_entry, void *caller __attribute__((unused)))
{
}

ENTRY(void, func_exit, void)
{
}

/* ---- the access itself ---- */

/* The compiler wants an order that it knows, as a constant. */
#define IN_ORDER(relaxed, acquire, release, acq_rel, seq_cst)                                                          \
	switch (a->order) {                                                                                            \
	case __ATOMIC_RELAXED:                                                                                         \
		return relaxed;                                                                                        \
	case __ATOMIC_CONSUME:                                                                                         \
	case __ATOMIC_ACQUIRE:                                                                                         \
		return acquire;                                                                                        \
	case __ATOMIC_RELEASE:                                                                                         \
		return release;                                                                                        \
	case __ATOMIC_ACQ_REL:                                                                                         \
		return acq_rel;                                                                                        \
	default:                                                                                                       \
		return seq_cst;                                                                                        \
	}

#define MODIFIED(function)                                                                                             \
	IN_ORDER(function(p, v, __ATOMIC_RELAXED), function(p, v, __ATOMIC_ACQUIRE), function(p, v, __ATOMIC_RELEASE), \
		 function(p, v, __ATOMIC_ACQ_REL), function(p, v, __ATOMIC_SEQ_CST))

/* Not __atomic_fetch_and() and the like: gcc 12 loses their operand in a function as large as this. */
#define CHANGED(op)                                                                                                    \
	seen = __atomic_load_n(p, __ATOMIC_RELAXED);                                                                   \
	while (!__atomic_compare_exchange_n(p, &seen, seen op v, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))               \
		;                                                                                                      \
	return seen;

/* A failure reads relaxed, or with the strongest order that the success allows. */
#define CAS(success, failing) (__atomic_compare_exchange_n(p, &seen, v, 0, success, failing), seen)

#define PERFORM(bits)                                                                                                  \
	static uint64_t perform##bits(const struct hn_access *a)                                                       \
	{                                                                                                              \
		volatile uint##bits##_t *p = a->p;                                                                     \
		uint##bits##_t v = (uint##bits##_t)a->value, seen = (uint##bits##_t)a->seen;                           \
                                                                                                                       \
		switch (a->kind) {                                                                                     \
		case HN_LOAD:                                                                                          \
			IN_ORDER(__atomic_load_n(p, __ATOMIC_RELAXED), __atomic_load_n(p, __ATOMIC_ACQUIRE),           \
				 __atomic_load_n(p, __ATOMIC_SEQ_CST), __atomic_load_n(p, __ATOMIC_SEQ_CST),           \
				 __atomic_load_n(p, __ATOMIC_SEQ_CST))                                                 \
		case HN_STORE:                                                                                         \
			IN_ORDER((__atomic_store_n(p, v, __ATOMIC_RELAXED), v),                                        \
				 (__atomic_store_n(p, v, __ATOMIC_SEQ_CST), v),                                        \
				 (__atomic_store_n(p, v, __ATOMIC_RELEASE), v),                                        \
				 (__atomic_store_n(p, v, __ATOMIC_SEQ_CST), v),                                        \
				 (__atomic_store_n(p, v, __ATOMIC_SEQ_CST), v))                                        \
		case HN_EXCHANGE:                                                                                      \
			MODIFIED(__atomic_exchange_n)                                                                  \
		case HN_ADD:                                                                                           \
			MODIFIED(__atomic_fetch_add)                                                                   \
		case HN_SUB:                                                                                           \
			MODIFIED(__atomic_fetch_sub)                                                                   \
		case HN_AND:                                                                                           \
			CHANGED(&)                                                                                     \
		case HN_OR:                                                                                            \
			CHANGED(|)                                                                                     \
		case HN_XOR:                                                                                           \
			CHANGED(^)                                                                                     \
		default:                                                                                               \
			break;                                                                                         \
		}                                                                                                      \
		if (a->failure == __ATOMIC_RELAXED) {                                                                  \
			IN_ORDER(CAS(__ATOMIC_RELAXED, __ATOMIC_RELAXED), CAS(__ATOMIC_ACQUIRE, __ATOMIC_RELAXED),     \
				 CAS(__ATOMIC_RELEASE, __ATOMIC_RELAXED), CAS(__ATOMIC_ACQ_REL, __ATOMIC_RELAXED),     \
				 CAS(__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))                                              \
		}                                                                                                      \
		IN_ORDER(CAS(__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST), CAS(__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE),             \
			 CAS(__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST), CAS(__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE),             \
			 CAS(__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))                                                      \
	}

PERFORM(8)
PERFORM(16)
PERFORM(32)
PERFORM(64)

uint64_t hn_perform(const struct hn_access *a)
{
	if (a->kind == HN_FENCE) {
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return 0;
	}
	switch (a->size) {
	case 1:
		return perform8(a);
	case 2:
		return perform16(a);
	case 4:
		return perform32(a);
	default:
		return perform64(a);
	}
}
