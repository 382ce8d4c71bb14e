/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Every access of the library's unmodified sources, handed over.
 *
 * The compiler's -fsanitize=thread puts a call before each plain access and instead of
 * each atomic one. tsan.c answers these calls and makes an hn_access() of each; whoever
 * links it says what that is: a delay (tests/chaos), a step of a checker, a cache line
 * that moves.
 *
 * A plain access is only told: the code itself makes it, right after the call returns. An
 * atomic one is made by whoever answers; hn_perform() makes it as it was asked for. Copies of
 * whole structs come as ranges; memcpy() and memset() that the compiler calls do not come. */
#ifndef HN_ACCESS_H
#define HN_ACCESS_H

#include <stddef.h>
#include <stdint.h>

enum hn_kind {
	HN_READ, /* plain: `size` may be any number */
	HN_WRITE,
	HN_LOAD, /* atomic, of 1, 2, 4 or 8 bytes */
	HN_STORE,
	HN_EXCHANGE,
	HN_ADD,
	HN_SUB,
	HN_AND,
	HN_OR,
	HN_XOR,
	HN_CAS,
	HN_FENCE, /* no memory */
	HN_KINDS
};

struct hn_access {
	enum hn_kind kind;
	int order;   /* __ATOMIC_RELAXED ..., of atomic accesses */
	int failure; /* HN_CAS: the order of one that fails */
	size_t size;
	volatile void *p;
	uint64_t value;	  /* the operand: stored, added ... */
	uint64_t seen;	  /* HN_CAS: what is expected */
	const void *from; /* where in the code: the address after the call */
};

/* What was there before: the value of a load and of each read-modify-write. HN_CAS has
 * succeeded if that is `seen`. Meaningless for the others. */
uint64_t hn_access(const struct hn_access *a);

/* Make an atomic access, or a fence, in the memory itself; returns what hn_access() does. */
uint64_t hn_perform(const struct hn_access *a);

#endif
