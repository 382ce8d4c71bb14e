/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A library that wraps dlsym, as overlays and tracers do: it finds the real one by dlvsym, and passes every call on.
 *
 * The real one sees a call from here.  So RTLD_NEXT is the next after this library, whoever has asked.
 */
#include <dlfcn.h>
#include <stdlib.h>

void *dlsym(void *handle, const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34",  "GLIBC_2.27", "GLIBC_2.17", "GLIBC_2.4",
					       "GLIBC_2.2.5", "GLIBC_2.2",  "GLIBC_2.0"};
	static void *(*next)(void *, const char *);
	static volatile int calls;
	void *found;

	for (unsigned i = 0; !next && i < sizeof(versions) / sizeof(versions[0]); i++)
		*(void **)&next = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (!next)
		abort();
	found = next(handle, name);
	calls++; /* a call at the end would be a jump, and be the caller's own */
	return found;
}
