/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The contract is in held-up.h. */
#include "held-up.h"

#include <signal.h>
#include <unistd.h>

struct hall hall;
atomic_int through, inside;

static int until_all_had_it[2]; /* a pipe */
static atomic_bool in_handler;

static void block(int sig)
{
	char byte;

	(void)sig;
	atomic_store(&in_handler, true);
	if (read(until_all_had_it[0], &byte, 1) != 1)
		complain("the pipe cannot be read");
}

void held_up_begin(void)
{
	ck_assert_int_eq(pipe(until_all_had_it), 0);
	handle_signal(SIGUSR1, block);
}

void hold_up(pthread_t victim)
{
	MUST(pthread_kill(victim, SIGUSR1));
	SOON(atomic_load(&in_handler));
}

void let_go_on(void)
{
	ck_assert_int_eq((int)write(until_all_had_it[1], "", 1), 1);
}

void work(void)
{
	if (atomic_fetch_add(&inside, 1))
		complain("two threads have the lock");
	sleep_us(100);
	atomic_fetch_sub(&inside, 1);
}

void *lock_m(void *timed)
{
	struct timespec t = deadline(CLOCK_REALTIME, INT64_C(1000000000) * 10 * SECONDS);

	MUST(timed ? pthread_mutex_timedlock(&hall.m, &t) : pthread_mutex_lock(&hall.m));
	work();
	MUST(pthread_mutex_unlock(&hall.m));
	atomic_fetch_add(&through, 1);
	return NULL;
}
