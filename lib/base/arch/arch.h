/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine: the only place that knows which one it is.
 *
 * pk_arch_relax()           one round of a spin loop: tens of cycles at most
 * pk_arch_fetch(p)          have the line at p come, without waiting for it; p may be
 *                           anything
 * pk_arch_thread_pointer()  the base of what glibc's __rseq_offset counts from
 * pk_arch_syscall(nr, ...)  a system call; the result, or -errno. It leaves
 *                           errno alone and calls nothing that a program may
 *                           interpose
 * PK_ARCH_NODE_2_3_2        the version of what got another one in glibc 2.3.2;
 *                           NULL where glibc is younger and there is but one
 * PK_ARCH_MUTEX_SIZE        of pthread_mutex_t, unless it is 40
 * PK_ARCH_ASIDE             defined where the library stands aside
 *                           (pthread/aside.c); there is none of the above but
 *                           the system call
 * PK_ARCH_HEADER            what to include instead: a machine that is not there
 *                           (harness/machine.h)
 *
 * A machine is here when glibc's objects have been looked at on it, field by field
 * (CONTRIBUTING.md, "Adding an architecture"). configure asks this file. */
#ifndef PK_ARCH_H
#define PK_ARCH_H

#include "base/compiler.h"

#if defined(PK_ARCH_HEADER)
#include PK_ARCH_HEADER
#elif defined(__x86_64__) && defined(__LP64__)
#include "base/arch/x86_64.h"
#elif defined(__aarch64__) && defined(__LP64__)
#include "base/arch/aarch64.h"
#elif (defined(__s390x__) || (defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)) || defined(__riscv)) &&            \
	defined(__LP64__)
#include "base/arch/generic.h"
#elif defined(__i386__) || defined(__arm__)
#define PK_ARCH_ASIDE 1
#else
#error "nobody has looked at this architecture's pthread objects yet: see CONTRIBUTING.md, Adding an architecture"
#endif

#ifndef PK_ARCH_NODE_2_3_2
#define PK_ARCH_NODE_2_3_2 NULL
#endif

#ifndef PK_ARCH_FETCH
PK_INLINE void pk_arch_fetch(const void *p)
{
	__builtin_prefetch(p);
}
#endif

#ifndef PK_ARCH_SYSCALL
#include <errno.h>
#include <unistd.h>

PK_INLINE long pk_arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);

	if (ret == -1)
		ret = -errno;
	errno = saved;
	return ret;
}
#endif

#endif
