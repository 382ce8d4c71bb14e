/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Opens the library that is its argument: what its constructor does, it does with the loader's lock held. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	if (argc != 2 || !dlopen(argv[1], RTLD_NOW)) {
		fprintf(stderr, "opener: %s\n", argc == 2 ? dlerror() : "one argument, please");
		return 1;
	}
	return 0;
}
