/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to pthread_atfork. */
#ifndef PK_FORK_H
#define PK_FORK_H

/* Once, in the constructor. */
void pk_fork_setup(void);

#endif
