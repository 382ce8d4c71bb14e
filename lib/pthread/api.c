/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The public functions of parkade.h. */
#include "parkade.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "rt/arena.h"
#include "rt/config.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "rt/watch.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char *parkade_version(void)
{
	return PACKAGE_VERSION;
}

PUBLIC const char *parkade_policy(void)
{
	return pk_load_relaxed(&pk_config.policy);
}

PUBLIC int parkade_stat(const char *name, uint64_t *value)
{
	for (int i = 0; i < PK_STATS; i++)
		if (!strcmp(pk_stat_names[i], name)) {
			*value = pk_stat_sum(i);
			return 0;
		}
	return ENOENT;
}

PUBLIC void parkade_lock_name(const void *lock, const char *name)
{
	pk_watch_name(lock, name);
}

PUBLIC int parkade_lock_stats(const void *lock, struct parkade_lock_stats *stats, size_t size)
{
	struct parkade_lock_stats sum = {.got = 0};
	int ret = size ? pk_watch_read(lock, &sum) : EINVAL;

	if (ret)
		return ret;
	memset(stats, 0, size);
	memcpy(stats, &sum, size < sizeof(sum) ? size : sizeof(sum));
	return 0;
}

PUBLIC unsigned parkade_sockets(void)
{
	return pk_sockets;
}

PUBLIC unsigned parkade_socket(void)
{
	/* What it counts to when it waits: its record is its place. */
	struct pk_record *r = pk_thread_record();

	return pk_socket_here(r ? r->index : 0);
}
