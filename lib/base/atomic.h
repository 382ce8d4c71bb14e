/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Atomic accesses, the memory order in every name and no defaults.
 *
 * They work on plain integers and pointers, because the objects that we share
 * with glibc (pthread_mutex_t) are declared so. A location is always accessed
 * with one size: what is written in 8 bytes is read in 8 bytes. */
#ifndef PK_ATOMIC_H
#define PK_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arch/arch.h"

#define pk_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define pk_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define pk_load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define pk_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define pk_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

#define pk_xchg_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define pk_xchg_release(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)
#define pk_xchg_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)

#define pk_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define pk_sub_relaxed(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define pk_sub_acquire(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_ACQUIRE)
#define pk_add_seq_cst(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define pk_add_release(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)
#define pk_sub_release(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELEASE)
#define pk_or_acquire(p, v) __atomic_fetch_or((p), (v), __ATOMIC_ACQUIRE)
#define pk_or_relaxed(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define pk_and_relaxed(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)
#define pk_and_release(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELEASE)

/* Between a store and a load of the same thread that must not pass each other: who
 * looks at a flag after having raised its own (Dekker). */
#define pk_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* What comes before is done before what comes after, for signal handlers of the same thread. */
#define pk_handlers_see() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Compare-and-swap, strong: true and *p = want if *p was *seen; otherwise
 * false and *seen = what was there, read with the order of the failure. */
#define pk_cas_relaxed(p, seen, want)                                                                                  \
	__atomic_compare_exchange_n((p), (seen), (want), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define pk_cas_acquire(p, seen, want)                                                                                  \
	__atomic_compare_exchange_n((p), (seen), (want), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define pk_cas_release(p, seen, want)                                                                                  \
	__atomic_compare_exchange_n((p), (seen), (want), 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define pk_cas_acq_rel(p, seen, want)                                                                                  \
	__atomic_compare_exchange_n((p), (seen), (want), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
/* Sequentially consistent with each other and with pk_load_seq_cst(): for pairs in
 * which each side announces itself and then looks for the other (Dekker). */
#define pk_cas_seq_cst(p, seen, want)                                                                                  \
	__atomic_compare_exchange_n((p), (seen), (want), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)

#endif
