/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What the library's sources meet instead of a machine and the C library: the seams of
 * harness/access.h, harness/machine.h, seam/base/await.h and rt/real.h. */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#ifdef HAVE_SYS_RSEQ_H
#include <sys/rseq.h>
#endif

#include "rt/real.h"
#include "sim/glibc.h"
#include "sim/kernel.h"
#include "sim/lines.h"
#include "sim/main.h"

void hn_relax(void);
void hn_fetch(const void *p);
unsigned hn_rounds(unsigned budget);
char *hn_thread_pointer(void);

/* Where in memory and in the code: addresses are the same in each run (addr2line). */
static void trace(const struct hn_access *a, uint64_t was)
{
	static const char *const kinds[HN_KINDS] = {"read", "write", "load", "store", "exchange", "add",
						    "sub",  "and",   "or",   "xor",   "cas",	  "fence"};

	sim_trace("%-8s %p was %llx, %llx, from %p", kinds[a->kind], (void *)a->p, (unsigned long long)was,
		  (unsigned long long)a->value, a->from);
}

static bool within(const volatile char *p, const void *object, size_t bytes)
{
	return p >= (const char *)object && p < (const char *)object + bytes;
}

/* A thread's own: in its first cache, always. (All simulated threads have the errno of the one that simulates.) */
static bool is_own(const volatile char *p)
{
	return sim_is_stack(p) || within(p, &pk_self, sizeof(pk_self)) || within(p, &errno, sizeof(errno));
}

uint64_t hn_access(const struct hn_access *a)
{
	bool atomic = a->kind >= HN_LOAD;
	uint64_t was;

	if (sim_self) {
		if (a->kind != HN_FENCE && is_own(a->p))
			sim_self->debt += atomic && a->kind > HN_STORE ? sim_machine.atomic : 1;
		else
			sim_line_access(a);
	}
	if (!atomic)
		return 0;
	was = hn_perform(a);
	if (sim_self && sim_traces())
		trace(a, was);
	return was;
}

unsigned hn_rounds(unsigned budget)
{
	return sim_self ? sim_line_spin(budget) : 1;
}

void hn_relax(void)
{
	hn_rounds(1);
}

void hn_fetch(const void *p)
{
	if (sim_self)
		sim_line_fetch((uintptr_t)p);
}

char *hn_thread_pointer(void)
{
#ifdef HAVE_SYS_RSEQ_H
	static uint32_t nowhere[16];

	return (char *)(sim_self ? sim_self->rseq : nowhere) - __rseq_offset;
#else
	return NULL;
#endif
}

/* Where glibc has not registered its struct rseq. */
int sched_getcpu(void)
{
	return sim_self ? (int)sim_self->cpu : 0;
}

/* ---- glibc's functions, as the library sees them ---- */

static int now(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = sim_clock();
	if (sim_self)
		sim_self->debt += 50; /* the vDSO's */
	return 0;
}

static int yield(void)
{
	sim_yield();
	return 0;
}

static int set_value(pthread_key_t key, const void *value)
{
	(void)key;
	(void)value;
	return 0;
}

static void nothing(void)
{
}

static int no_type(int type, int *old)
{
	*old = type;
	return 0;
}

static int no_mutex(pthread_mutex_t *m)
{
	(void)m;
	return ENOTSUP;
}

static const struct pk_real table = {
	.pthread_mutex_lock = glibc_mutex_lock,
	.pthread_mutex_trylock = glibc_mutex_trylock,
	.pthread_mutex_unlock = glibc_mutex_unlock,
	.pthread_mutex_consistent = no_mutex,
	.pthread_rwlock_rdlock = glibc_rwlock_rdlock,
	.pthread_rwlock_wrlock = glibc_rwlock_wrlock,
	.pthread_rwlock_unlock = glibc_rwlock_unlock,
	.pthread_cond_wait = glibc_cond_wait,
	.pthread_cond_signal = glibc_cond_signal,
	.pthread_cond_broadcast = glibc_cond_broadcast,
	.pthread_testcancel = nothing,
	.pthread_setcanceltype = no_type,
	.pthread_setspecific = set_value,
	.sched_yield = yield,
	.clock_gettime = now,
};

const struct pk_real *pk_real(void)
{
	return &table;
}

bool pk_real_ready(void)
{
	return true;
}

void *pk_real_module(const char *name, const char *symbol)
{
	(void)name, (void)symbol;
	return NULL;
}

const char *pk_real_file(void)
{
	return NULL;
}
