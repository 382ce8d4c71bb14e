/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The names of exports.def once more, doing nothing: libraries to link the
 * bind test with and, since each exports its names in one of the ways that
 * fall short, to show that the test notices.
 *
 *	-DNODE=x	every name at node x alone: GLIBC_9.99 for the future,
 *			the architecture's first for an interposer of old
 *	-DPAIRS		at glibc's nodes alone: the libpthread.so.0 of old; with
 *			pk_node at each node (bound.c) and pthread_create
 *	otherwise	without versions */
#include "pthread/nodes.h"

#define STRING(x) STRING_(x)
#define STRING_(x) #x
#define SYMVER(symbol, target)                                                 \
	void symbol(void) {}                                                   \
	__asm__(".symver " #symbol ", " target);

#if defined NODE
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	SYMVER(stub_##name, #name "@@" STRING(NODE))
#elif defined PAIRS
#define PAIR(n, name, node) SYMVER(stub_##n##_##name, #name "@" STRING(node))
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	PK_ON_##first(PAIR, 1, name) PK_ON_##second(PAIR, 2, name)
#define EACH(node) EACH_(__COUNTER__, node)
#define EACH_(n, node) EACH__(n, node)
#define EACH__(n, node) SYMVER(stub_node_##n, "pk_node@" STRING(node))
PK_NODES(EACH)
SYMVER(stub_create, "pthread_create@@" STRING(PK_FIRST))
#else
#define PK_EXPORT(type, name, parameters, arguments, body, first, second)      \
	void stub_##name(void) __asm__(#name);                                 \
	void stub_##name(void) {}
#endif
#include "pthread/exports.def"
