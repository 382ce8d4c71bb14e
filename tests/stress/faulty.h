/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The machine that is there, with faults at its doors: instead of base/arch/arch.h's choice (-DPK_ARCH_HEADER=...).
 *
 * Every system call of the library, and every look at the CPU's number, passes through faulty.c. */

#define pk_arch_syscall true_syscall
#define pk_arch_thread_pointer true_thread_pointer
#if defined(__x86_64__)
#include "base/arch/x86_64.h"
#elif defined(__aarch64__)
#include "base/arch/aarch64.h"
#else
#error "only where arch.h has a system call of its own"
#endif
#undef pk_arch_syscall
#undef pk_arch_thread_pointer

long fault_syscall(long nr, long a, long b, long c, long d, long e, long f);
char *fault_thread_pointer(void);

PK_INLINE long pk_arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	return fault_syscall(nr, a, b, c, d, e, f);
}

PK_INLINE char *pk_arch_thread_pointer(void)
{
	return fault_thread_pointer();
}
