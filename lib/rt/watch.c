/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Telling the statistics module of waits; the contract is in watch.h. */
#include "rt/watch.h"

#include <errno.h>

#include "rt/clock.h"
#include "rt/config.h"
#include "rt/real.h"
#include "rt/report.h"
#include "rt/thread.h"

const struct pk_watch *pk_watch;

/* The process that the module has its memory in: not a child that no handler has seen to. */
static uint32_t whose;

void pk_watch_setup(void *memory, size_t size)
{
	static struct pk_watch_host host;
	pk_watch_open_t *begin = (pk_watch_open_t *)pk_real_module("parkade-stats.so", "pk_stats_open");

	if (!begin) {
		pk_config_reject("stats", pk_config.stats, "the statistics module is not installed");
		return;
	}
	host = (struct pk_watch_host){pk_config.stats, &pk_config.policy, pk_stat_names, &pk_levels,
				      pk_cohort_name,  pk_report,	  memory,   size};
	whose = pk_incarnation();
	pk_store_release(&pk_watch, begin(&host));
	if (!pk_watch)
		pk_config_reject("stats", pk_config.stats, "there is no memory for statistics");
}

void pk_watch_fork_child(void)
{
	if (pk_watch && !pk_watch->fork_child())
		pk_watch = NULL;
	whose = pk_incarnation(); /* then: threads of other handlers do not count in the parent's */
}

void pk_watch_report(void)
{
	/* A child in which no handler has run has its parent's statistics. */
	if (pk_watch && whose == pk_incarnation())
		pk_watch->report();
}

void pk_watch_name(const void *object, const char *name)
{
	const struct pk_watch *watch = pk_load_acquire(&pk_watch);

	if (!watch || pk_self.watching || whose != pk_incarnation())
		return;
	pk_self.watching = true;
	watch->name(object, name);
	pk_self.watching = false;
}

int pk_watch_read(const void *object, struct parkade_lock_stats *sum)
{
	const struct pk_watch *watch = pk_load_acquire(&pk_watch);

	if (!watch || whose != pk_incarnation())
		return ENOTSUP;
	return watch->read(object, sum) ? 0 : ENOENT;
}

PK_COLD bool pk_watch_start(struct pk_watched *w)
{
	if (pk_self.watching || whose != pk_incarnation())
		return false;
	w->record = pk_thread_record();
	if (!w->record)
		return false;
	for (int i = 0; i < PK_STATS; i++)
		w->stat[i] = pk_load_relaxed(&w->record->stat[i]);
	w->since = pk_clock_ns();
	return true;
}

PK_COLD void pk_watch_end(const struct pk_watched *w, enum pk_watch_kind kind, const void *object, int ret)
{
	struct pk_waited waited = {.object = object, .kind = kind, .got = !ret, .since = w->since};
	const struct pk_watch *watch = pk_load_acquire(&pk_watch);
	int saved = errno;

	/* A signal handler that forked has made it another process's wait. */
	if (!watch || pk_self.record != w->record || whose != pk_incarnation())
		return;
	waited.until = pk_clock_ns();
	for (unsigned i = 0; i < pk_levels.n; i++)
		waited.place[i] = (uint16_t)pk_cohort_here(pk_levels.kind[i], w->record->index);
	for (int i = 0; i < PK_STATS; i++)
		waited.gained[i] = pk_load_relaxed(&w->record->stat[i]) - w->stat[i];
	pk_self.watching = true;
	watch->waited(&waited);
	pk_self.watching = false;
	errno = saved;
}
