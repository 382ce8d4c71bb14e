/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The functions of glibc that the library replaces: every row of exports.def, defined.
 *
 * Each exported function is a whole body of its own, not a jump to a shared one:
 * - the inline fast path then costs no more than glibc's, whichever symbol a reference was bound to (the loader
 *   takes the first match of its hash chain, the base symbol or the versioned one);
 * - ld drops the base symbol when a versioned one has its address. noipa keeps the compiler from folding equal
 *   bodies into one.
 *
 * The C names are ours and an assembler label gives the exported one: <pthread.h> may redirect a name to another
 * (pthread_mutex_consistent_np, the 64-bit time variants of 32-bit machines).
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "pthread/c11.h"
#include "pthread/cond.h"
#include "pthread/mutex.h"
#include "pthread/nodes.h"
#include "pthread/rwlock.h"
#include "pthread/spinlock.h"
#include "rt/fork.h"

#define PK_PUBLIC __attribute__((visibility("default")))

#if __has_attribute(noipa)
#define PK_DISTINCT __attribute__((noipa))
#else
#define PK_DISTINCT __attribute__((noinline))
#endif

/* The version script makes the pk_at_ names local; name@node remains. */
#ifdef HAVE_SYMVER_ATTRIBUTE
#define PK_VERSIONED(n, type, name, parameters, arguments, body, node)                                                 \
	PK_VERSIONED_(n, type, name, parameters, arguments, body, node)
#define PK_VERSIONED_(n, type, name, parameters, arguments, body, node)                                                \
	PK_PUBLIC type pk_at_##n##_##name parameters;                                                                  \
	__attribute__((symver(#name "@" #node), noipa)) type pk_at_##n##_##name parameters                             \
	{                                                                                                              \
		return body arguments;                                                                                 \
	}
#else
#define PK_VERSIONED(...)
#endif

#define PK_EXPORT(type, name, parameters, arguments, body, first, second)                                              \
	PK_PUBLIC type pk_base_##name parameters __asm__(#name);                                                       \
	PK_DISTINCT type pk_base_##name parameters                                                                     \
	{                                                                                                              \
		return body arguments;                                                                                 \
	}                                                                                                              \
	PK_ON_##first(PK_VERSIONED, 1, type, name, parameters, arguments, body)                                        \
		PK_ON_##second(PK_VERSIONED, 2, type, name, parameters, arguments, body)
#include "pthread/exports.def"
