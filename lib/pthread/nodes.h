/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* glibc's version nodes, architecture by architecture: the only place that knows them.
 *
 * PK_NODES(N)   N(node) for every node that the architecture's libpthread.so.0 ever defined, oldest first, and
 *               GLIBC_2.34, where its symbols moved into libc. Each is a node of our library, so that the loader
 *               accepts us under the name libpthread.so.0.
 * PK_FIRST      the node of glibc's first release on the architecture.
 * PK_ON_x(T, ...)  T(..., node): the node that a symbol got which was new in glibc x. What is older than the
 *               architecture got PK_FIRST, and a second version older than that none (2_3_2; OLD_2_3_2 is for
 *               what was new then). PK_ON_NONE, and every PK_ON_x on an architecture that is not listed
 *               here, makes nothing: such a library has its base symbols alone (exports.def says what that costs).
 *
 * Only macros, and each node is written as glibc writes it: the version script includes this file too, and a node
 * must come out of the preprocessor as it went in.
 */
#ifndef PK_PTHREAD_NODES_H
#define PK_PTHREAD_NODES_H

#if defined __x86_64__ && !defined __ILP32__
# define PK_NODES(N) \
	N(GLIBC_2.2.5) N(GLIBC_2.2.6) N(GLIBC_2.3.2) N(GLIBC_2.3.3) N(GLIBC_2.3.4) N(GLIBC_2.4) N(GLIBC_2.11) \
	N(GLIBC_2.12) N(GLIBC_2.18) N(GLIBC_2.28) N(GLIBC_2.30) N(GLIBC_2.31) N(GLIBC_2.34)
# define PK_FIRST GLIBC_2.2.5
# define PK_ON_2_3_2(T, ...) T(__VA_ARGS__, GLIBC_2.3.2)
# define PK_OLD_2_3_2 GLIBC_2.3.2
# define PK_2_4 GLIBC_2.4
# define PK_2_12 GLIBC_2.12

#elif defined __s390x__
# define PK_NODES(N) \
	N(GLIBC_2.2) N(GLIBC_2.2.3) N(GLIBC_2.2.6) N(GLIBC_2.3.2) N(GLIBC_2.3.3) N(GLIBC_2.3.4) N(GLIBC_2.4) \
	N(GLIBC_2.11) N(GLIBC_2.12) N(GLIBC_2.18) N(GLIBC_2.19) N(GLIBC_2.28) N(GLIBC_2.30) N(GLIBC_2.31) \
	N(GLIBC_2.34)
# define PK_FIRST GLIBC_2.2
# define PK_ON_2_3_2(T, ...) T(__VA_ARGS__, GLIBC_2.3.2)
# define PK_OLD_2_3_2 GLIBC_2.3.2
# define PK_2_4 GLIBC_2.4
# define PK_2_12 GLIBC_2.12

#elif (defined __aarch64__ && !defined __ILP32__) || (defined __powerpc64__ && defined __LITTLE_ENDIAN__)
# define PK_NODES(N) \
	N(GLIBC_2.17) N(GLIBC_2.18) N(GLIBC_2.28) N(GLIBC_2.30) N(GLIBC_2.31) N(GLIBC_2.34)
# define PK_FIRST GLIBC_2.17

#elif defined __riscv && __riscv_xlen == 64
# define PK_NODES(N) \
	N(GLIBC_2.27) N(GLIBC_2.28) N(GLIBC_2.30) N(GLIBC_2.31) N(GLIBC_2.34)
# define PK_FIRST GLIBC_2.27

/* Where the library stands aside there are the nodes alone. */
#elif defined __i386__
# define PK_NODES(N) \
	N(GLIBC_2.0) N(GLIBC_2.1) N(GLIBC_2.1.1) N(GLIBC_2.1.2) N(GLIBC_2.2) N(GLIBC_2.2.3) N(GLIBC_2.2.6) \
	N(GLIBC_2.3.2) N(GLIBC_2.3.3) N(GLIBC_2.3.4) N(GLIBC_2.4) N(GLIBC_2.11) N(GLIBC_2.12) N(GLIBC_2.18) \
	N(GLIBC_2.28) N(GLIBC_2.30) N(GLIBC_2.31) N(GLIBC_2.34)

#elif defined __arm__
# define PK_NODES(N) \
	N(GLIBC_2.4) N(GLIBC_2.11) N(GLIBC_2.12) N(GLIBC_2.18) N(GLIBC_2.28) N(GLIBC_2.30) N(GLIBC_2.31) \
	N(GLIBC_2.34)

#else
# define PK_NODES(N)
#endif

#ifdef PK_FIRST
# ifndef PK_OLD_2_3_2
#  define PK_OLD_2_3_2 PK_FIRST
# endif
# ifndef PK_2_4
#  define PK_2_4 PK_FIRST
# endif
# ifndef PK_2_12
#  define PK_2_12 PK_FIRST
# endif
# define PK_ON_FIRST(T, ...) T(__VA_ARGS__, PK_FIRST)
# define PK_ON_OLD_2_3_2(T, ...) T(__VA_ARGS__, PK_OLD_2_3_2)
# define PK_ON_2_4(T, ...) T(__VA_ARGS__, PK_2_4)
# define PK_ON_2_12(T, ...) T(__VA_ARGS__, PK_2_12)
# define PK_ON_2_28(T, ...) T(__VA_ARGS__, GLIBC_2.28)
# define PK_ON_2_30(T, ...) T(__VA_ARGS__, GLIBC_2.30)
# define PK_ON_2_34(T, ...) T(__VA_ARGS__, GLIBC_2.34)
#else
# define PK_ON_FIRST(T, ...)
# define PK_ON_OLD_2_3_2(T, ...)
# define PK_ON_2_4(T, ...)
# define PK_ON_2_12(T, ...)
# define PK_ON_2_28(T, ...)
# define PK_ON_2_30(T, ...)
# define PK_ON_2_34(T, ...)
#endif
#define PK_ON_NONE(T, ...)
/* A second version of what later architectures had but once. */
#ifndef PK_ON_2_3_2
# define PK_ON_2_3_2(T, ...)
#endif

#endif
