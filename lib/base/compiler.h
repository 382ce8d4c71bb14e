/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What we ask of the compiler, by name. */
#ifndef PK_COMPILER_H
#define PK_COMPILER_H

#define PK_INLINE static inline __attribute__((always_inline))
#define PK_NOINLINE __attribute__((noinline))
#define PK_COLD __attribute__((noinline, cold))
#define PK_ALIGNED(n) __attribute__((aligned(n)))
#define pk_likely(x) __builtin_expect(!!(x), 1)
#define pk_unlikely(x) __builtin_expect(!!(x), 0)

/* The unit of sharing between CPUs that structures are laid out for. */
#define PK_CACHE_LINE 64

#endif
