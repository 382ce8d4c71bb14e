/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to fork handlers: __register_atfork, which pthread_atfork calls. */
#ifndef PK_FORK_H
#define PK_FORK_H

#include <stdbool.h>

/* From now on a child of fork starts afresh. Once, in the constructor. */
void pk_fork_setup(void);

/* __register_atfork of glibc: handlers, and the library that they are gone with. The library's own come before them.
 * 0 or ENOMEM. */
int pk_fork_register(void (*prepare)(void), void (*parent)(void), void (*in_child)(void), void *library);

/* In a child whose incarnation is still 0: do now what the handler would. False:
 * another thread is about to. */
bool pk_fork_begin_child(void);

#endif
