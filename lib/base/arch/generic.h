/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The other architectures that arch.h lists, in terms of the compiler and libc. */

#ifdef __s390x__
#define PK_ARCH_NODE_2_3_2 "GLIBC_2.3.2"
#endif

PK_INLINE void pk_arch_relax(void)
{
	__asm__ __volatile__("" ::: "memory");
}

PK_INLINE char *pk_arch_thread_pointer(void)
{
#ifdef __powerpc64__ /* whose compilers have no builtin for it */
	register char *self __asm__("r13");

	__asm__("" : "=r"(self));
	return self;
#else
	return (char *)__builtin_thread_pointer();
#endif
}
