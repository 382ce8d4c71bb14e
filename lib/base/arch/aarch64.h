/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* aarch64: the three things that C cannot say. The contract is in arch.h. */

#define PK_ARCH_SYSCALL 1
/* Of pthread_mutex_t, whose fields take 40 bytes as elsewhere. */
#define PK_ARCH_MUTEX_SIZE 48

/* isb stalls for tens of cycles, as x86's pause does; yield is a no-op on the
 * cores that matter. */
PK_INLINE void pk_arch_relax(void)
{
	__asm__ __volatile__("isb" ::: "memory");
}

PK_INLINE char *pk_arch_thread_pointer(void)
{
	char *self;

	__asm__("mrs %0, tpidr_el0" : "=r"(self));
	return self;
}

PK_INLINE long pk_arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ __volatile__("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
