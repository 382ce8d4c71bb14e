/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Work that is handed to whoever waits for it, by signals:
 *
 *	pool	one thread gives out tasks, a round at a time, to the others, which do them (--outside),
 *		and waits for the last one of the round
 *	buffer	every other thread puts something in a bounded buffer, the others take it out; --outside is what
 *		they do with it
 *	sent	the same buffer, but the signal comes when the lock has been let go */
#include "pthread/cond.h"
#include "sim/load.h"

enum { TASKS = 64, SLOTS = 16 };

static struct sim_lock shared;
static struct {
	pthread_cond_t cond;
} PK_ALIGNED(64) more, none;
static struct {
	uint64_t waiting, unfinished; /* tasks that nobody has begun; or ended */
	uint64_t made, taken;
	uint64_t makers; /* that have not left */
	bool closed;
} PK_ALIGNED(64) state;
static struct sim_options options;
static bool after; /* is a signal, when the lock has been let go */

static void prepare(const struct sim_options *o)
{
	options = *o;
	state.makers = (o->threads + 1) / 2;
}

static void prepare_sent(const struct sim_options *o)
{
	prepare(o);
	after = true;
}

static void wait_for(pthread_cond_t *cond)
{
	sim_gives(&shared.probe, false);
	pk_cond_wait(cond, &shared.mutex);
	sim_has(&shared.probe, sim_asks(), false);
}

/* ---- pool ---- */

static void give_out(void)
{
	while (!sim_over()) {
		sim_lock(&shared);
		state.unfinished = TASKS;
		sim_unlock(&shared);
		for (unsigned i = 0; i < TASKS; i++) {
			sim_lock(&shared);
			state.waiting++;
			state.made++;
			pk_cond_signal(&more.cond);
			sim_unlock(&shared);
		}
		sim_lock(&shared);
		while (state.unfinished)
			wait_for(&none.cond);
		sim_unlock(&shared);
	}
	sim_lock(&shared);
	state.closed = true;
	pk_cond_broadcast(&more.cond);
	sim_unlock(&shared);
}

static void pool_body(unsigned number)
{
	if (!number) {
		give_out();
		return;
	}
	sim_lock(&shared);
	for (;;) {
		while (!state.waiting && !state.closed)
			wait_for(&more.cond);
		if (!state.waiting)
			break;
		state.waiting--;
		sim_unlock(&shared);
		sim_work_for(options.outside);
		sim_op();
		sim_lock(&shared);
		state.taken++;
		if (!--state.unfinished)
			pk_cond_signal(&none.cond);
	}
	sim_unlock(&shared);
}

/* ---- buffer ---- */

static void tell(pthread_cond_t *cond)
{
	if (!after)
		pk_cond_signal(cond);
	sim_unlock(&shared);
	if (after)
		pk_cond_signal(cond);
}

static void make(void)
{
	while (!sim_over()) {
		sim_lock(&shared);
		while (state.made - state.taken == SLOTS)
			wait_for(&none.cond);
		state.made++;
		tell(&more.cond);
		sim_op();
		sim_work_for(options.outside);
	}
	sim_lock(&shared);
	if (!--state.makers)
		pk_cond_broadcast(&more.cond);
	sim_unlock(&shared);
}

static void use(void)
{
	for (;;) {
		sim_lock(&shared);
		while (state.made == state.taken && state.makers)
			wait_for(&more.cond);
		if (state.made == state.taken) {
			sim_unlock(&shared);
			return;
		}
		state.taken++;
		tell(&none.cond);
		sim_op();
		sim_work_for(options.outside);
	}
}

static void buffer_body(unsigned number)
{
	if (number % 2)
		use();
	else
		make();
}

static const char *check(void)
{
	return state.made == state.taken ? NULL : "work is lost, or done twice";
}

const struct sim_load sim_pool = {"pool", "tasks for a pool of threads", 1000, 0, prepare, pool_body, check, false};
const struct sim_load sim_buffer = {
	"buffer", "producers and consumers of a bounded buffer", 1000, 0, prepare, buffer_body, check, false};
const struct sim_load sim_sent = {
	"sent", "the same, signals when the lock has been let go", 1000, 0, prepare_sent, buffer_body, check, false};
