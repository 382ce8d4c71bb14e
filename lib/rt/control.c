/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The control page; the contract is in control.h.
 *
 * Ledger
 *  C1	request: acquire by who serves pairs with the release of who asks: the text. Who asks may be hostile, so
 *	nothing follows from it: the text is copied byte by byte before it is looked at.
 *  C2	answer: release; acquire by who asks: reply, policy, counters.
 *  C3	serving: acquire and release by who serves, so that the next one finds what this one has changed. */
#include "rt/control.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/arch.h"
#include "base/atomic.h"
#include "rt/config.h"
#include "rt/hush.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum {
	HIGH = 960,   /* below the 1024 that a process usually may have */
	STANDARD = 3, /* those below are the program's, closed or not */
};

struct pk_control_page *pk_control;
uint32_t pk_control_seen;

static pk_control_apply *apply;
static uint32_t whose; /* a child that no handler has seen to has another incarnation */
static uint32_t serving;

static bool failed(long ret)
{
	return ret < 0 && ret > -4096;
}

static long fcntl_on(long fd, int what, long arg)
{
	return pk_arch_syscall(SYS_fcntl, fd, what, arg, 0, 0, 0);
}

/* Zeroed memory of that size, in a file without a name that can be found among the descriptors, or null. */
static void *visible_memory(const char *name, size_t size, int more_seals)
{
	long fd = pk_arch_syscall(SYS_memfd_create, (long)name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0), high, at;
	struct pk_hush h;

	if (failed(fd))
		return NULL;
	high = fcntl_on(fd, F_DUPFD_CLOEXEC, HIGH);
	if (failed(high) && fd < STANDARD) /* so many are not allowed */
		high = fcntl_on(fd, F_DUPFD_CLOEXEC, STANDARD);
	if (!failed(high)) {
		pk_arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
		fd = high;
	}
	pk_arch_syscall(SYS_fchmod, fd, S_IRUSR | S_IWUSR, 0, 0, 0, 0);
	pk_hush_begin(&h);
	at = pk_arch_syscall(SYS_ftruncate, fd, (long)size, 0, 0, 0, 0);
	pk_hush_end(&h, failed(at) ? (int)-at : 0);
	if (!failed(at))
		at = pk_arch_syscall(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* Sealed after it is mapped: FUTURE_WRITE is about mappings to come. */
	if (!failed(at) && !failed(fcntl_on(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | more_seals)))
		return (void *)at;
	if (!failed(at))
		pk_arch_syscall(SYS_munmap, at, (long)size, 0, 0, 0, 0);
	pk_arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return NULL;
}

void *pk_control_memory(size_t size)
{
	return visible_memory("parkade-stats", size, F_SEAL_FUTURE_WRITE);
}

static void show(struct pk_control_page *page)
{
	const unsigned knobs[] = {pk_knob(spin), pk_knob(patience), pk_knob(batch), pk_knob(reduction)};

	memset(page->policy, 0, sizeof(page->policy));
	strncpy(page->policy, pk_load_relaxed(&pk_config.policy), sizeof(page->policy) - 1);
	for (unsigned i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
		pk_store_relaxed(&page->knob[i], knobs[i]);
	for (int i = 0; i < PK_STATS; i++)
		pk_store_relaxed(&page->counter[i], pk_stat_sum(i));
}

void pk_control_setup(pk_control_apply *how)
{
	struct pk_control_page *page = visible_memory("parkade-control", PK_CONTROL_SIZE, 0);

	if (!page) {
		pk_config_reject("control", "1", "the system does not allow it");
		return;
	}
	apply = how;
	whose = pk_incarnation();
	page->format = PK_CONTROL_FORMAT;
	page->pid = (uint32_t)pk_arch_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	page->counters_known = PK_STATS;
	show(page);
	pk_store_release(&page->magic, PK_CONTROL_MAGIC); /* C2 */
	pk_store_release(&pk_control, page);
}

void pk_control_fork_child(void)
{
	pk_store_relaxed(&pk_control, NULL);
}

/* name=value, one a line; what is wrong with the first that is not good, or null. Changes the text. */
static const char *apply_all(char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		char *end = text + len, *value;
		const char *wrong;

		if (*end)
			*end++ = '\0';
		value = strchr(text, '=');
		if (!value)
			return "not of the form name=value";
		*value++ = '\0';
		wrong = apply(text, value);
		if (wrong)
			return wrong;
		text = end;
	}
	return NULL;
}

PK_COLD void pk_control_serve(void)
{
	struct pk_control_page *page = pk_load_relaxed(&pk_control);
	char text[PK_CONTROL_TEXT];
	const char *wrong;
	uint32_t request;

	/* Who is in it already may be this very thread, below a signal handler. */
	if (!page || whose != pk_incarnation() || pk_xchg_acquire(&serving, 1)) /* C3 */
		return;
	request = pk_load_acquire(&page->request); /* C1 */
	if (request == pk_load_relaxed(&pk_control_seen)) { /* another thread has been faster: the reply is being read */
		pk_store_release(&serving, 0);
		return;
	}
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = pk_load_relaxed(&page->text[i]);
	text[sizeof(text) - 1] = '\0';
	wrong = apply_all(text);
	memset(page->reply, 0, sizeof(page->reply));
	if (wrong)
		strncpy(page->reply, wrong, sizeof(page->reply) - 1);
	show(page);
	pk_store_relaxed(&pk_control_seen, request);
	pk_store_release(&page->answer, request); /* C2 */
	pk_store_release(&serving, 0);		  /* C3 */
}
