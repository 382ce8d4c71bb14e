/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* x86-64: the three things that C cannot say. The contract is in arch.h. */

#define PK_ARCH_SYSCALL 1
#define PK_ARCH_NODE_2_3_2 "GLIBC_2.3.2"
/* glibc's spin locks, here in assembler, count down from 1. */
#define PK_ARCH_SPIN_DOWN 1

PK_INLINE void pk_arch_relax(void)
{
	__asm__ __volatile__("pause" ::: "memory");
}

PK_INLINE char *pk_arch_thread_pointer(void)
{
	char *self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
}

PK_INLINE long pk_arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ __volatile__("syscall"
			     : "=a"(ret)
			     : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return ret;
}
