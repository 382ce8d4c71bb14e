/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Finds glibc's own functions; the contract is in real.h. */
#include "rt/real.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arch/arch.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "rt/report.h"

static struct pk_real table;
static int resolved;

static bool is_ours(const void *function)
{
	Dl_info its, own;

	return dladdr(function, &its) && dladdr(&table, &own) && its.dli_fbase == own.dli_fbase;
}

/* Under the name of libpthread.so.0 we find ourselves. */
static void *not_ours(void *function)
{
	return function && is_ours(function) ? NULL : function;
}

/* As if nobody stood between. If somebody in front of us wraps dlsym, "next" is what comes after that library, which is us. */
static PK_COLD void *find_by_file(const char *name)
{
	static const char *const homes[] = {"libpthread.so.0", "libc.so.6"}; /* until 2.33, and since */
	void *found = NULL, *handle;

	for (unsigned i = 0; !found && i < sizeof(homes) / sizeof(homes[0]); i++)
		if ((handle = dlopen(homes[i], RTLD_LAZY | RTLD_NOLOAD)))
			found = not_ours(dlsym(handle, name));
	return found;
}

/* An allocator may lock, and so get us here, before any constructor has run: what is
 * looked up is there, for the loader allocates memory to say that it is not. */
static void *find(const char *name, const char *version)
{
	void *found = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);

	if (pk_unlikely(found && is_ours(found)))
		found = find_by_file(name);
	if (!found) {
		pk_report("parkade: error: the C library has no %s\n", name);
		abort();
	}
	return found;
}

/* A library behind us may have a clock_gettime of its own, which locks (libfaketime): in the midst of a wait that would be another one,
 * maybe for the same lock. And the kernel, which waits until a deadline, does not know its time. */
static void *clock_of_libc(void *next)
{
	Dl_info its, libc;
	void *found;

	if (!dladdr(next, &its) || !dladdr((void *)gnu_get_libc_version, &libc) || its.dli_fbase == libc.dli_fbase)
		return next;
	found = find_by_file("clock_gettime");
	return found ? found : next;
}

static void resolve(void)
{
	struct pk_real found;

#define PK_REAL(type, name, args) found.name = (type(*) args)find(#name, NULL);
/* Before glibc 2.36 dlsym may find a function's oldest version. */
#define PK_REAL_2_3_2(type, name, args) found.name = (type(*) args)find(#name, PK_ARCH_NODE_2_3_2);
#include "rt/real.def"
#undef PK_REAL
#undef PK_REAL_2_3_2
	found.clock_gettime = (int (*)(clockid_t, struct timespec *))clock_of_libc((void *)found.clock_gettime);
	/* Two threads may get here at once; they write the same. Each entry is
	 * stored atomically so that neither sees half a pointer. */
#define PK_REAL(type, name, args) pk_store_relaxed(&table.name, found.name);
#define PK_REAL_2_3_2 PK_REAL
#include "rt/real.def"
#undef PK_REAL
#undef PK_REAL_2_3_2
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

void *pk_real_module(const char *name, const char *symbol)
{
	static const char *const places[] = {"/parkade", ""};
	const char *file = pk_real_file(), *slash = file ? strrchr(file, '/') : NULL;
	void *module = NULL;
	char path[4096];

	for (unsigned i = 0; slash && !module && i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(path, sizeof(path), "%.*s%s/%s", (int)(slash - file), file, places[i], name) <
		    (int)sizeof(path))
			module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	dlerror(); /* the program's next call of it is not about us */
	return module ? dlsym(module, symbol) : NULL;
}

const char *pk_real_file(void)
{
	Dl_info info;

	return dladdr(&table, &info) ? info.dli_fname : NULL;
}
