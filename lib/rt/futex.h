/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to the futex system call. Private futexes, but for two calls: glibc's are
 * private for the kinds of objects that it and we both serve, and each side must
 * reach the other's sleepers. */
#ifndef PK_FUTEX_H
#define PK_FUTEX_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* When to give up: an absolute time on CLOCK_REALTIME or CLOCK_MONOTONIC.
 * A null pointer to one means never. */
struct pk_deadline {
	const struct timespec *abstime;
	clockid_t clock;
};

/* Sleep while *word == expected. May return early for no reason: the caller
 * looks at the word again. Returns 0, or ETIMEDOUT once the deadline has
 * passed. errno is left alone; not a cancellation point. Without a deadline
 * a sleep that a signal handler has interrupted may go on after it, if the
 * word is as expected then. */
int pk_futex_wait(const void *word, uint32_t expected, const struct pk_deadline *deadline);

/* The same, but EAGAIN if *word was not as expected: the thread has taken no wake-up then (it may have slept, until a signal handler, and
 * not again). */
int pk_futex_sleep(const void *word, uint32_t expected, const struct pk_deadline *deadline);

/* That for so many microseconds at most: ETIMEDOUT then. EINTR after a signal handler. */
int pk_futex_wait_for(const void *word, uint32_t expected, unsigned us);

/* As pk_futex_wait(), for some of the sleepers: `bits` says what kinds of wake-up to heed, and what
 * kinds of sleepers to wake. */
int pk_futex_wait_bits(const void *word, uint32_t expected, uint32_t bits, const struct pk_deadline *deadline);
int pk_futex_wake_bits(const void *word, uint32_t bits);

/* Wake at most n threads that sleep on the word. The word's memory need not
 * exist any more. Returns how many were woken. */
int pk_futex_wake(const void *word, int n);

/* Have the thread that sleeps on `from`, if there is one, sleep on `to` instead,
 * provided that *from == expected. False if it is not, or the kernel refuses. */
bool pk_futex_move(const void *from, uint32_t expected, const void *to);

/* The same between processes. wait: EINTR after a signal handler, which has taken no wake-up. */
int pk_futex_wait_shared(const void *word, uint32_t expected, const struct pk_deadline *deadline);
int pk_futex_wake_shared(const void *word, int n);

#endif
