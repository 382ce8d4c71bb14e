/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What suites of reader-writer locks that many threads use at once share. */
#ifndef RWLOCKS_H
#define RWLOCKS_H

#include "suite.h"

enum { KINDS_OF_RWLOCK = 3, NONRECURSIVE = 2 }; /* as pthread_rwlockattr_setkind_np numbers them */

void rwlock_make(pthread_rwlock_t *l, int kind);

/* Reads so often that, beside others that do the same, the library may begin to count this lock's readers elsewhere. */
void read_often(pthread_rwlock_t *l, int times);

/* Four threads do that. */
void warm_up(pthread_rwlock_t *l);

/* Another thread's trywrlock: 0, and it is unlocked again, or what kept it out. */
int try_write(struct servant *s, pthread_rwlock_t *l);

#endif
