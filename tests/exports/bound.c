/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Says which object each name of exports.def was bound to, and fails unless
 * that is always the one given as its argument.
 *
 * It refers to the names as programs do: the loader fills in the table below
 * before main. How it refers to them is chosen when it is built:
 *	-DPAIRS		at every node of the table (old programs, new ones)
 *	otherwise	by the bare name (the node is that of the library that
 *			it is linked with: today's default, none, a future one)
 *	-DNODES		also at every node of libpthread.so.0, by functions that
 *			nobody defines and nobody calls: the loader checks the
 *			nodes, and that they exist, before it runs anything
 *	-DDLVSYM	and dlvsym has to find the library's functions
 * dlsym is asked by every build. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "pthread/nodes.h"

#if !__GLIBC_PREREQ(2, 34) /* libpthread has not moved into libc yet */
#undef PK_ON_2_34
#define PK_ON_2_34(T, ...)
#endif

#define STRING(x) STRING_(x)
#define STRING_(x) #x

/* Declared: one symbol of our own per reference, renamed by the assembler. */
#define SYMVER(symbol, name, node)                                             \
	void symbol(void);                                                     \
	__asm__(".symver " #symbol ", " #name "@" STRING(node));
#ifdef PAIRS
#define PAIR(n, name, node) SYMVER(at_##n##_##name, name, node)
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	PK_ON_##first(PAIR, 1, name) PK_ON_##second(PAIR, 2, name)
#else
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	void bare_##name(void) __asm__(#name);
#endif
#include "pthread/exports.def"
#undef PAIR

/* Listed. */
static const struct reference {
	void (*address)(void);
	const char *name, *node;
} references[] = {
#ifdef PAIRS
#define PAIR(n, name, node) {at_##n##_##name, #name, STRING(node)},
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	PK_ON_##first(PAIR, 1, name) PK_ON_##second(PAIR, 2, name)
#else
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	{bare_##name, #name, ""},
#endif
#include "pthread/exports.def"
};

#ifdef NODES
#define NODE(node) NODE_(__COUNTER__, node)
#define NODE_(n, node) NODE__(n, node)
#define NODE__(n, node)                                                        \
	SYMVER(node_##n, pk_node, node)                                        \
	static __attribute__((used)) void never_##n(void) { node_##n(); }
PK_NODES(NODE)
#endif

static struct stat ours;
static int wrong;

static void check(const void *address, const char *how, const char *name,
		  const char *node)
{
	Dl_info object;
	struct stat is;

	if (address && dladdr(address, &object) &&
	    stat(object.dli_fname, &is) == 0 && is.st_dev == ours.st_dev &&
	    is.st_ino == ours.st_ino)
		return;
	printf("%s %s%s%s: %s\n", how, name, *node ? "@" : "", node,
	       address ? object.dli_fname : "not found");
	wrong++;
}

int main(int argc, char **argv)
{
	const size_t n = sizeof references / sizeof *references;

	if (argc != 2 || stat(argv[1], &ours) != 0) {
		fprintf(stderr, "usage: bind LIBRARY\n");
		return 2;
	}
	for (const struct reference *r = references; r < references + n; r++) {
		check((void *)r->address, "reference", r->name, r->node);
		check(dlsym(RTLD_DEFAULT, r->name), "dlsym", r->name, "");
#ifdef DLVSYM
		if (*r->node)
			check(dlvsym(RTLD_DEFAULT, r->name, r->node), "dlvsym",
			      r->name, r->node);
#endif
	}
	printf("%zu references, %d wrong\n", n, wrong);
	return wrong != 0;
}
