/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The library that stands aside: parkade.h's functions, and none of glibc's.
 *
 * On 32-bit machines a pthread_mutex_t has 4 bytes that glibc does not use, which
 * is no room for a queue. But what a system or a program names, in ld.so.preload
 * or by -lparkade, has to be there for its 32-bit programs, too. So there this file is
 * built instead of everything but the options and the door to standard error: it
 * interposes nothing, every lock is glibc's at glibc's cost, and it answers as under
 * PARKADE_POLICY=glibc: the same counters, all 0, and one socket. */
#include "parkade.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/arch/arch.h"
#include "rt/config.h"
#include "rt/report.h"

#ifndef PK_ARCH_ASIDE
#error "this architecture has a library of its own"
#endif

#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char *parkade_version(void)
{
	return PACKAGE_VERSION;
}

PUBLIC const char *parkade_policy(void)
{
	return "glibc";
}

PUBLIC int parkade_stat(const char *name, uint64_t *value)
{
	static const char *const names[] = {
#define PK_STAT(name, doc) #name,
#include "rt/stat.def"
#undef PK_STAT
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name)) {
			*value = 0;
			return 0;
		}
	return ENOENT;
}

PUBLIC void parkade_lock_name(const void *lock, const char *name)
{
	(void)lock, (void)name;
}

PUBLIC int parkade_lock_stats(const void *lock, struct parkade_lock_stats *stats, size_t size)
{
	(void)lock, (void)stats;
	return size ? ENOTSUP : EINVAL;
}

PUBLIC int parkade_mutexattr_setpolicy_np(pthread_mutexattr_t *attr, const char *policy)
{
	(void)attr;
	return policy ? ENOTSUP : 0;
}

PUBLIC int parkade_mutexattr_getpolicy_np(const pthread_mutexattr_t *attr, char *policy, size_t size)
{
	(void)attr;
	if (!size)
		return ERANGE;
	*policy = '\0';
	return 0;
}

PUBLIC unsigned parkade_sockets(void)
{
	return 1;
}

PUBLIC unsigned parkade_socket(void)
{
	return 0;
}

static __attribute__((constructor)) void setup(void)
{
	pk_config_read(NULL);
	pk_config.policy = parkade_policy(); /* whatever was asked for */
	if (pk_config.verbose > 1)
		pk_config_print();
}

static __attribute__((destructor)) void summary(void)
{
	if (pk_config.verbose)
		pk_report("parkade: %d %s: policy %s:"
#define PK_STAT(name, doc) " " #name "=0"
#include "rt/stat.def"
#undef PK_STAT
			  "\n",
			  (int)getpid(), program_invocation_short_name, pk_config.policy);
}
