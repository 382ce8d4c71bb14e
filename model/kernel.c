/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The kernel as the library sees it: futexes, and a little memory; the contract is in world.h.
 *
 * Source: futex(2), and kernel/futex: both sides pass a full barrier, a sleeper between its
 * being queued and the look at the word, a waker before it looks for sleepers. Which of
 * several sleepers is woken is open. A sleep may end for no reason as often as the options
 * say; so may one for a time (rt/doze.h) end with that. A nap (pthread/word.c) is so short
 * that it ends at any moment. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/compiler.h"
#include "harness/machine.h"
#include "model/world.h"

enum { NR, WORD, OP, VALUE, TIMEOUT, OTHER, BITS, POOL = 1 << 21, NAP_NS = 1000000 };

static uint8_t pool[POOL] __attribute__((aligned(4096)));
static size_t pooled;

static struct mc_state *me(unsigned thread)
{
	return &mc_world.thread[thread];
}

static int op_of(const struct mc_state *s)
{
	return (int)s->call[OP] & FUTEX_CMD_MASK;
}

static bool waits(const struct mc_state *s)
{
	return op_of(s) == FUTEX_WAIT || op_of(s) == FUTEX_WAIT_BITSET;
}

static uint32_t bits_of(const struct mc_state *s)
{
	return op_of(s) == FUTEX_WAIT_BITSET || op_of(s) == FUTEX_WAKE_BITSET ? (uint32_t)s->call[BITS] : UINT32_MAX;
}

/* The nth that sleeps there, or -1. */
static int sleeper(const void *word, uint32_t bits, unsigned n)
{
	for (unsigned t = 0; t < mc_client->threads; t++)
		if (me(t)->what == MC_ASLEEP && me(t)->futex == word && me(t)->bits & bits && !n--)
			return (int)t;
	return -1;
}

static unsigned sleepers(const struct mc_state *s)
{
	unsigned n = 0;

	while (sleeper((const void *)s->call[WORD], bits_of(s), n) >= 0)
		n++;
	return n;
}

static bool may_look(const struct mc_state *s)
{
	return s->dozes && s->looks > 0;
}

bool mc_kernel_for_good(unsigned t)
{
	const struct mc_state *s = me(t);

	return s->what == MC_ASLEEP && !s->soon && !may_look(s) && !(s->timed && mc_options->timers);
}

const void *mc_sleeps_on(unsigned t)
{
	const struct mc_state *s = me(t);

	return s->what == MC_ASLEEP && !s->soon && !s->dozes && !s->timed ? s->futex : NULL;
}

static bool may_be_late(const struct mc_state *s)
{
	if (s->soon)
		return true;
	for (unsigned t = 0; t < mc_client->threads; t++)
		if (me(t)->what != MC_ASLEEP && me(t)->what != MC_DONE)
			return false;
	return s->timed && mc_options->timers;
}

unsigned mc_kernel_ways(unsigned t)
{
	const struct mc_state *s = me(t);
	unsigned n;

	if (s->what == MC_ASLEEP)
		return (s->spurious > 0) + (may_be_late(s) || may_look(s));
	if (waits(s))
		return mc_memory_futex_ways(t, (const void *)s->call[WORD]);
	n = sleepers(s);
	if (op_of(s) == FUTEX_CMP_REQUEUE)
		return mc_memory_futex_ways(t, (const void *)s->call[WORD]) * (n ? n : 1);
	return n && s->call[VALUE] < (long)n ? n : 1;
}

static bool wait(unsigned t, unsigned way)
{
	struct mc_state *s = me(t);
	const struct timespec *until = (const struct timespec *)s->call[TIMEOUT];
	uint32_t value = mc_memory_futex_load(t, (const void *)s->call[WORD], way);
	bool for_time, naps;

	if (value != (uint32_t)s->call[VALUE]) {
		s->result = (uint64_t)-EAGAIN;
		return true;
	}
	s->what = MC_ASLEEP;
	s->futex = (const void *)s->call[WORD];
	s->bits = bits_of(s);
	/* A time, not a deadline. */
	for_time = until && op_of(s) == FUTEX_WAIT;
	naps = for_time && !until->tv_sec && until->tv_nsec < NAP_NS;
	s->dozes = for_time && !naps;
	s->timed = until && !for_time;
	s->soon = naps || (s->timed && until->tv_sec == MC_SOON);
	return false;
}

static void wake(unsigned t)
{
	me(t)->what = MC_AWAKE;
	me(t)->result = 0;
}

static bool wake_some(unsigned t, unsigned way)
{
	struct mc_state *s = me(t);
	const void *word = (const void *)s->call[WORD];
	int sleeping;

	mc_memory_fence(t);
	if (s->call[VALUE] == 1) {
		sleeping = sleeper(word, bits_of(s), way);
		s->result = sleeping >= 0;
		if (sleeping >= 0)
			wake((unsigned)sleeping);
		return true;
	}
	s->result = 0;
	while ((sleeping = sleeper(word, bits_of(s), 0)) >= 0 && (long)s->result < s->call[VALUE]) {
		wake((unsigned)sleeping);
		s->result++;
	}
	return true;
}

static bool move(unsigned t, unsigned way)
{
	struct mc_state *s = me(t);
	const void *word = (const void *)s->call[WORD];
	unsigned n = sleepers(s);
	int sleeping = n ? sleeper(word, UINT32_MAX, way % n) : -1;

	if (mc_memory_futex_load(t, word, n ? way / n : way) != (uint32_t)s->call[BITS]) {
		s->result = (uint64_t)-EAGAIN;
		return true;
	}
	s->result = sleeping >= 0;
	if (sleeping >= 0)
		me((unsigned)sleeping)->futex = (const void *)s->call[OTHER];
	return true;
}

bool mc_kernel_go(unsigned t, unsigned way)
{
	struct mc_state *s = me(t);
	char text[64];
	bool goes_on = true;

	if (s->what == MC_ASLEEP) {
		bool late = (may_be_late(s) || may_look(s)) && !way;

		if (!late)
			s->spurious--;
		else if (s->dozes)
			s->looks--;
		s->result = late ? (uint64_t)-ETIMEDOUT : (uint64_t)-EINTR;
		mc_tell(t, NULL, late ? "its deadline passes" : "its sleep ends for no reason");
		return true;
	}
	if (mc_telling)
		mc_name_of((const void *)s->call[WORD], text);
	if (waits(s)) {
		goes_on = wait(t, way);
		mc_tell(t, NULL, goes_on ? "sleep on %s: %x is not there any more" : "sleeps on %s while it is %x",
			text, (unsigned)s->call[VALUE]);
	} else if (op_of(s) == FUTEX_CMP_REQUEUE) {
		char to[64];

		goes_on = move(t, way);
		mc_tell(t, NULL, "move a sleeper from %s to %s: %ld", text,
			mc_name_of((const void *)s->call[OTHER], to), (long)s->result);
	} else {
		goes_on = wake_some(t, way);
		mc_tell(t, NULL, "wake sleepers on %s: %ld", text, (long)s->result);
	}
	return goes_on;
}

/* Memory. What is mapped in setup() is there for the whole run. What a thread maps it has filled
 * with zeroes, as far as others are concerned: who uses it has to know of that. (A real kernel
 * sees to that by itself; but C11 knows nothing of it.) No two mappings of an execution have an
 * address in common. */
static long map(size_t size)
{
	uintptr_t p = (uintptr_t)pool + pooled;

	size = (size + 4095) & ~(size_t)4095;
	if (size > POOL - pooled)
		return -ENOMEM;
	if (mc_current >= 0) {
		mc_word_note((uintptr_t)&pooled, sizeof(pooled)); /* it is part of the state */
		mc_filled((void *)p, size);
	}
	pooled += size;
	return (long)p;
}

long hn_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	switch (nr) {
	case SYS_mmap:
		return map((size_t)b);
	case SYS_munmap:
		if (mc_current >= 0)
			mc_free((const void *)a, (size_t)b);
		return 0;
	case SYS_gettid:
		return 100 + mc_current;
	case SYS_futex:
		break;
	default:
		return 0;
	}
	if (mc_current < 0)
		return 0;
	{
		struct mc_state *s = me((unsigned)mc_current);
		long call[] = {nr, a, b, c, d, e, f};

		for (unsigned n = 0; n < 7; n++)
			s->call[n] = call[n];
		s->what = MC_CALL;
		if (waits(s))
			mc_check_freed((unsigned)mc_current, (const void *)a, NULL);
	}
	return (long)mc_stop();
}

void hn_relax(void)
{
}

void hn_fetch(const void *p)
{
	(void)p; /* nothing that anybody could see */
}

char *hn_thread_pointer(void)
{
	static char area[4096];

	return area;
}
