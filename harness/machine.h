/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A machine that is not there: what base/arch/arch.h asks of one, answered by whoever runs
 * the library's sources under a checker or in a simulator (-DPK_ARCH_HEADER=...). With
 * access.h these are all the seams: the sources are compiled as they are. */

#define PK_ARCH_SYSCALL 1
#define PK_ARCH_FETCH 1
/* Of the machine that is there, as its own header has it: what is in glibc's objects. */
#ifdef __x86_64__
#define PK_ARCH_NODE_2_3_2 "GLIBC_2.3.2"
#define PK_ARCH_SPIN_DOWN 1
#endif
#ifdef __aarch64__
#define PK_ARCH_MUTEX_SIZE 48
#endif

/* One round of a spin loop of the calling thread. */
void hn_relax(void);
/* It will read the line there. */
void hn_fetch(const void *p);
/* Where its struct rseq would be counted from. */
char *hn_thread_pointer(void);
/* A system call of it: futex above all. The result, or -errno. */
long hn_syscall(long nr, long a, long b, long c, long d, long e, long f);

PK_INLINE void pk_arch_relax(void)
{
	hn_relax();
}

PK_INLINE void pk_arch_fetch(const void *p)
{
	hn_fetch(p);
}

PK_INLINE char *pk_arch_thread_pointer(void)
{
	return hn_thread_pointer();
}

PK_INLINE long pk_arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	return hn_syscall(nr, a, b, c, d, e, f);
}
