/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Finds glibc's own functions; the contract is in real.h. */
#include "rt/real.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "rt/report.h"

static struct pk_real table;
static int resolved;

static void *find(const char *name)
{
	/* Before glibc 2.36 dlsym may find a function's oldest version, and those of
	 * pthread_cond_* before 2.3.2 take another object. The node exists only where
	 * glibc is as old as that; without it there is but one version. */
	void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	if (!found)
		found = dlsym(RTLD_NEXT, name);

	if (!found) {
		pk_report("parkade: error: the C library has no %s\n", name);
		abort();
	}
	return found;
}

static void resolve(void)
{
	struct pk_real found;

#define PK_REAL(type, name, args) found.name = (type(*) args)find(#name);
#include "rt/real.def"
#undef PK_REAL
	/* Two threads may get here at once; they write the same. Each entry is
	 * stored atomically so that neither sees half a pointer. */
#define PK_REAL(type, name, args) pk_store_relaxed(&table.name, found.name);
#include "rt/real.def"
#undef PK_REAL
	pk_store_release(&resolved, 1);
}

bool pk_real_ready(void)
{
	return pk_likely(pk_load_acquire(&resolved));
}

const struct pk_real *pk_real(void)
{
	if (!pk_real_ready())
		resolve();
	return &table;
}

const char *pk_real_file(void)
{
	Dl_info info;

	return dladdr(&table, &info) ? info.dli_fname : NULL;
}
