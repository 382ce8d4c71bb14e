/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Call sites: who waits for a lock, when it is waited for first.
 *
 * The stack is walked by gcc's unwinder, which needs no memory and, from glibc 2.35 on, no lock; before, only the one
 * of the list of loaded files, which nobody holds while foreign code runs. dladdr would take the loader's own lock,
 * which a thread holds in dlopen while constructors run and wait: so what is ours is told by addresses that are noted
 * at first. */
#include <link.h>
#include <unwind.h>

#include "stats/stats.h"

pk_watch_open_t pk_stats_open;

struct range {
	uintptr_t from, to;
};

static struct range ours[2]; /* the core library, and this module */

struct walk {
	uint64_t *site;
	unsigned n;
};

static bool holds(const struct dl_phdr_info *info, uintptr_t pc, struct range *range)
{
	bool found = false;

	*range = (struct range){UINTPTR_MAX, 0};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;

		if (part->p_type != PT_LOAD)
			continue;
		range->from = from < range->from ? from : range->from;
		range->to = to > range->to ? to : range->to;
		found |= pc >= from && pc < to;
	}
	return found;
}

static int note(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uintptr_t known[2] = {(uintptr_t)pk_stats_host->print, (uintptr_t)pk_stats_open};
	struct range range;

	(void)size, (void)arg;
	for (int i = 0; i < 2; i++)
		if (holds(info, known[i], &range))
			ours[i] = range;
	return 0;
}

static bool is_ours(uintptr_t pc)
{
	return (pc >= ours[0].from && pc < ours[0].to) || (pc >= ours[1].from && pc < ours[1].to);
}

static _Unwind_Reason_Code step(struct _Unwind_Context *frame, void *arg)
{
	struct walk *walk = arg;
	uintptr_t pc = _Unwind_GetIP(frame);

	if (pc && !is_ours(pc))
		walk->site[walk->n++] = pc;
	return pc && walk->n < PK_STATS_SITES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void pk_sites_find(uint64_t site[PK_STATS_SITES])
{
	struct walk walk = {site, 0};

	_Unwind_Backtrace(step, &walk);
}

void pk_sites_setup(void)
{
	uint64_t unused[PK_STATS_SITES];

	dl_iterate_phdr(note, NULL);
	pk_sites_find(unused); /* what it does once, it has done now */
}

struct place {
	uintptr_t pc, offset;
	const char *file;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct place *place = arg;
	struct range range;

	(void)size;
	if (!holds(info, place->pc, &range))
		return 0;
	place->file = info->dlpi_name;
	place->offset = place->pc - info->dlpi_addr;
	return 1;
}

bool pk_sites_place(uint64_t pc, const char **file, uint64_t *offset)
{
	struct place place = {(uintptr_t)pc, 0, NULL};

	if (!dl_iterate_phdr(look, &place))
		return false;
	*file = place.file;
	*offset = place.offset;
	return true;
}
