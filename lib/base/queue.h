/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What an admission queue keeps in the lock itself: all zero when nobody queues. */
#ifndef PK_QUEUE_H
#define PK_QUEUE_H

#include <stdint.h>

struct pk_queue {
	uint64_t tail; /* 0, or the name of the last waiter (rt/arena.h) */
	uint64_t aux;  /* the policy's own */
};

#endif
