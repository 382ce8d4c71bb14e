/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to pthread_atfork. */
#ifndef PK_FORK_H
#define PK_FORK_H

#include <stdbool.h>

/* From now on a child of fork starts afresh. Once, in the constructor. */
void pk_fork_setup(void);

/* In a child whose incarnation is still 0: do now what the handler would. False:
 * another thread is about to. */
bool pk_fork_begin_child(void);

#endif
