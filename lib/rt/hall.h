/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Sleeping together: a word that many sleep on, so that one system call wakes them all. To wake each at a word of its own costs
 * half as much again (doc/DESIGN.md section 4). Each heeds a bit, so that a few can be woken, too, and hardly anybody else.
 *
 *	do calls = pk_hall_ready(hall);
 *	while (it is to sleep && !pk_hall_sleep(hall, calls, serial, deadline));
 *
 * Who wakes says to each that it is to go on, and then calls. */
#ifndef PK_HALL_H
#define PK_HALL_H

#include "rt/futex.h"

enum { PK_HALLS = 64 };

/* A hall for an object, which has it until it leaves it, or nobody is called there, as objects go without a word; PK_HALLS: none is to be had, yet.
 * Who still sleeps in one that is another object's by then is woken for nothing now and then. leave: no hall, or another's, does not matter. */
unsigned pk_hall_take(const void *object);
void pk_hall_leave(unsigned hall, const void *object);

/* What has been said before the calls that are counted is seen after this. */
uint32_t pk_hall_ready(unsigned hall);

/* Sleep, unless called since then; may return early. `serial`: the thread's. 0 or ETIMEDOUT. */
int pk_hall_sleep(unsigned hall, uint32_t calls, uint32_t serial, const struct pk_deadline *deadline);

/* Who heeds that, of those who sleep there. */
static inline uint32_t pk_hall_bit(uint32_t serial)
{
	return UINT32_C(1) << serial % 32;
}

/* Wake those, or-ed, and perhaps others. */
void pk_hall_call(unsigned hall, uint32_t bits);

/* A signal handler has seen to it that its thread is not to sleep on there: the kernel would have it do so. */
void pk_hall_stir(unsigned hall);

/* The same in the child of a fork, which may be a handler's. */
void pk_hall_fork_child(void);

#endif
