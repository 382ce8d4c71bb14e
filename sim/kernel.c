/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Futexes, time, memory and files; the contract is in kernel.h.
 *
 * A futex call takes the lock of its bucket, a line that moves between CPUs as any other
 * (Linux: a spin lock for each hash bucket). Sleepers of an address are woken first come,
 * first served. What the kernel's scheduler does is in engine.c. */
#include "sim/kernel.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/lines.h"
#include "sim/main.h"

enum {
	BUCKETS = 1024,
	START_S = 1000, /* the clock is not 0 at the start: the library takes 0 for "never" */
	FILE_FD = 1000,
	PID = 4242,
};
/* Where no memory is. */
#define BUCKET_LINES ((uintptr_t)0xf000000000000000)
#define CPU_LINES ((uintptr_t)0xf100000000000000)

unsigned sim_unknown_calls;

static struct sim_thread *buckets[BUCKETS];
static char file[4096];

struct timespec sim_clock(void)
{
	uint64_t ns = sim_ns(sim_time());

	return (struct timespec){(time_t)(START_S + ns / 1000000000), (long)(ns % 1000000000)};
}

/* When that is, in cycles; null: never. */
static uint64_t time_of(const struct timespec *abstime)
{
	int64_t ns = abstime ? ((int64_t)abstime->tv_sec - START_S) * 1000000000 + abstime->tv_nsec : 0;

	if (!abstime)
		return UINT64_MAX;
	return ns > 0 ? sim_cycles((uint64_t)ns) : 0;
}

static uint64_t time_after(const struct timespec *time)
{
	if (!time)
		return UINT64_MAX;
	return sim_time() + sim_cycles((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec);
}

/* ---- futexes ---- */

static unsigned bucket_of(const void *p)
{
	return (unsigned)(((uintptr_t)p >> 2) * 0x9e3779b97f4a7c15 >> 54) % BUCKETS;
}

static void lock_bucket(const void *p)
{
	sim_line_lock(BUCKET_LINES + (uintptr_t)bucket_of(p) * SIM_LINE, sim_machine.futex);
}

static int value_at(const void *p)
{
	struct hn_access load = {.kind = HN_LOAD, .size = 4, .p = (volatile void *)p};

	sim_line_access(&load);
	return __atomic_load_n((const int *)p, __ATOMIC_RELAXED);
}

static void sleep_on(struct sim_thread *t, const void *p)
{
	struct sim_thread **end = &buckets[bucket_of(p)];

	while (*end)
		end = &(*end)->futex_next;
	t->futex = p;
	t->futex_next = NULL;
	*end = t;
}

void sim_futex_forget(struct sim_thread *t)
{
	struct sim_thread **link;

	if (!t->futex)
		return;
	for (link = &buckets[bucket_of(t->futex)]; *link != t; link = &(*link)->futex_next)
		;
	*link = t->futex_next;
	t->futex = NULL;
}

/* The first who sleeps there, and heeds one of these bits. */
static struct sim_thread *sleeper(const void *p, uint32_t bits)
{
	struct sim_thread *t = buckets[bucket_of(p)];

	while (t && (t->futex != p || !(t->futex_bits & bits)))
		t = t->futex_next;
	return t;
}

static long futex_wait(const void *p, int expected, uint64_t until, uint32_t bits)
{
	struct sim_thread *t = sim_self;

	lock_bucket(p);
	if (value_at(p) != expected)
		return -EAGAIN;
	/* From the look to the sleep nothing may come between: the bucket is locked. */
	sim_counts.parks++;
	t->futex_bits = bits;
	sleep_on(t, p);
	sim_block(until);
	return t->late ? -ETIMEDOUT : 0;
}

/* Whoever sleeps there when the bucket is locked, and then one after the other, as the kernel does it: who is woken while others
 * are not yet, and sleeps there again, is not one of them. */
static long futex_wake(const void *p, int n, uint32_t bits)
{
	struct sim_thread *t, *first = NULL, **last = &first;
	long woken = 0;

	if (!sleeper(p, bits))
		return 0; /* one look at the bucket */
	lock_bucket(p);
	for (; woken < n && (t = sleeper(p, bits)); last = &t->futex_next, woken++) {
		sim_futex_forget(t);
		sim_claim(t);
		t->futex_next = NULL;
		*last = t;
	}
	while ((t = first)) {
		first = t->futex_next;
		sim_counts.wakes++;
		sim_line_lock(CPU_LINES + (uintptr_t)t->cpu * SIM_LINE, sim_machine.wake);
		sim_ready(t);
	}
	return woken;
}

static long futex_move(const void *p, int most, const void *to, int expected)
{
	struct sim_thread *t;
	long moved = 0;

	lock_bucket(p);
	lock_bucket(to);
	if (value_at(p) != expected)
		return -EAGAIN;
	while (moved < most && (t = sleeper(p, ~0u))) {
		sim_futex_forget(t);
		sleep_on(t, to);
		moved++;
	}
	return moved;
}

static long futex(const void *p, int op, int value, const void *time_or_n, const void *to, uint32_t last)
{
	sim_counts.futexes++;
	if (sim_traces())
		sim_trace("futex    %p op %d, %d", p, op & FUTEX_CMD_MASK, value);
	sim_wait_until(sim_time() + sim_machine.syscall, false);
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
		return futex_wait(p, value, time_after(time_or_n), ~0u);
	case FUTEX_WAIT_BITSET:
		return futex_wait(p, value, time_of(time_or_n), last);
	case FUTEX_WAKE:
		return futex_wake(p, value, ~0u);
	case FUTEX_WAKE_BITSET:
		return futex_wake(p, value, last);
	case FUTEX_CMP_REQUEUE:
		return futex_move(p, (int)(long)time_or_n, to, (int)last);
	default:
		sim_unknown_calls++;
		return -ENOSYS;
	}
}

/* ---- files ---- */

static void list(unsigned first, unsigned n)
{
	snprintf(file, sizeof(file), n > 1 ? "%u-%u\n" : "%u\n", first, first + n - 1);
}

/* The CPUs of the cohort of that CPU. */
static void list_around(unsigned cpu, enum sim_level level)
{
	unsigned width = sim_machine.width[level];

	list(cpu / width * width, width);
}

/* Its text in `file'; false: there is none. As Linux describes a machine, sysfs(5). */
static bool find_file(const char *path)
{
	char name[64];
	unsigned n;

	if (!strcmp(path, "/sys/devices/system/node/has_cpu")) {
		list(0, sim_machine.all_nodes);
	} else if (!strcmp(path, "/sys/devices/system/cpu/online")) {
		list(0, sim_machine.cpus);
	} else if (sscanf(path, "/sys/devices/system/node/node%u/%63s", &n, name) == 2 && !strcmp(name, "cpulist")) {
		list_around(n * sim_machine.width[SIM_NODE], SIM_NODE);
	} else if (sscanf(path, "/sys/devices/system/cpu/cpu%u/%63s", &n, name) == 2) {
		if (!strcmp(name, "topology/core_cpus_list"))
			list_around(n, SIM_CORE);
		else if (!strcmp(name, "topology/package_cpus_list"))
			list_around(n, SIM_PACKAGE);
		else if (!strcmp(name, "cache/index3/shared_cpu_list"))
			list_around(n, SIM_CACHE);
		else
			return false;
	} else {
		return false;
	}
	return true;
}

static long affinity(unsigned char *mask, size_t bytes)
{
	size_t used = (sim_machine.cpus + 63) / 64 * 8;

	if (used > bytes)
		return -EINVAL;
	memset(mask, 0, used);
	for (unsigned cpu = 0; cpu < sim_machine.cpus; cpu++)
		mask[cpu / 8] |= (unsigned char)(1 << cpu % 8);
	return (long)used;
}

/* ---- the seam of harness/machine.h ---- */

long hn_syscall(long nr, long a, long b, long c, long d, long e, long f);
long hn_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	size_t n;

	switch (nr) {
	case SYS_futex:
		return sim_self ? futex((const void *)a, (int)b, (int)c, (const void *)d, (const void *)e, (uint32_t)f)
				: -ENOSYS;
	case SYS_openat:
		return find_file((const char *)b) ? FILE_FD : -ENOENT;
	case SYS_read:
		n = strlen(file) < (size_t)c ? strlen(file) : (size_t)c;
		memcpy((char *)b, file, n);
		return (long)n;
	case SYS_sched_getaffinity:
		return affinity((unsigned char *)c, (size_t)b);
	case SYS_mmap:
		return (long)sim_memory((uint64_t)b);
	case SYS_munmap:
	case SYS_close:
	case SYS_madvise:
		return 0;
	case SYS_getpid:
		return PID;
	case SYS_gettid:
		return sim_self ? PID + 1 + (long)sim_self->number : PID;
	case SYS_write:
		return write((int)a, (const char *)b, (size_t)c);
	default:
		sim_unknown_calls++;
		return -ENOSYS;
	}
}
