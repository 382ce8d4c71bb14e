/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* How a thread waits for a spin lock; the rest is in spinlock.h.
 *
 * Papers: the decoupling of the lock's state from its queue is ShflLock's (4.2); one queue
 * a socket, whose head alone looks at the lock, is lock cohorting (Cohort 3) and CST (4.2),
 * with the bay of the socket for their structure per lock and socket; a remote waiter that
 * looks seldom is HBO's.
 *
 * On one socket waiters look at the word, as glibc's do. Where there are several, a waiter
 * takes a ticket in its socket's bay, and the thread whose ticket is served, the *head*,
 * looks at the word. When it has got it the next ticket is served, so unlock has nothing
 * to do with the queue. The lock stays on a socket because a head that has waited for a
 * little while, or was beaten to the word, takes the lock to be another socket's, and looks
 * at it seldom for some time, while the heads of that socket come and go.
 *
 * Deviations
 *  D1	Nobody who is preempted, or has gone, holds up those behind: a waiter looks at
 *	the word now and then before it is its turn, the oftener the nearer its turn is,
 *	and serves on from its own ticket when it gets it. Who was passed in this way is
 *	a head. So the order of a socket is that of arrival but for those who did not
 *	run. (MCS and K42 queues stand still; spinning is what makes them.)
 *  D2	A wait that exceeds PARKADE_SPIN rounds gives the CPU to others by sched_yield,
 *	and does so again: perhaps the holder is one of them. (glibc and the papers'
 *	spin locks never do.) It does not sleep.
 *  D3	No socket is named in the word, where HBO has it: there is no room beside glibc's
 *	values. How far the lock is can only be told by waiting.
 *  D4	Where more threads wait than the socket has CPUs, the rest does not queue.
 *
 * State of the word (x86; elsewhere 0 is free and 1 held)
 *	from	to	by
 *	1	0	any thread: takes it
 *	n <= 0	n - 1	any thread, in vain (its first attempt, and each of glibc's)
 *	any	1	the holder: lets it go
 *
 * State of the queue: [first ticket that is not served, next one to be given out), and how
 * many hand-overs there have been within the socket one after the other. 0 when nobody is
 * in line, as bays are to be left.
 *	first..next	first..next + 1		who comes, whose ticket is next
 *	first..next	t + 1..next		the thread with ticket t in [first, next), once
 *						it has the lock; 0 if t + 1 is next
 * A ticket outside of [first, next) has been passed, perhaps in a past of the queue; its
 * thread is a head and does nothing to the queue. It cannot tell when its number is in
 * line once more, and then waits for its turn or is taken for the other: no harm.
 *
 * Ledger
 *  O1	The acquire of taking the word pairs with the release in unlock.
 *  O2	The queue is accessed relaxed: it only says who should look at the word. That the
 *	bay's next claimant finds it zero is due to pk_bay_leave() and pk_bay_enter().
 *
 * Lifetime: the bay is left before the lock is unlocked, while the lock exists.
 *
 * Fairness: a head that has been cautious for CAUTION rounds looks at every chance; the
 * head of a socket that has had PARKADE_BATCH hand-overs in a row begins cautiously. New
 * arrivals may barge in for as long as they find the word free, as in glibc.
 *
 * Fork, signals: a child of fork, with its handler's frame in the middle of a wait, has
 * empty bays and leaves none. A handler that locks takes a ticket of its own; D1 sees to
 * its thread's. A thread that is cancelled asynchronously while it waits, or whose handler
 * leaves by longjmp, remains counted in the bay, which is then that address's for good. */
#include "pthread/spinlock.h"

#include "admit/admit.h"
#include "base/await.h"
#include "pthread/turn.h"
#include "rt/config.h"
#include "rt/control.h"
#include "rt/real.h"
#include "rt/storey.h"
#include "rt/thread.h"
#include "rt/topology.h"
#include "rt/watch.h"

enum {
	EAGER = 64,    /* rounds until a head takes the lock to be elsewhere */
	CAUTION = 320, /* rounds in which it then looks only once in so many */
	GAP = 8,
	ROUNDS = 1000, /* of those who wait as glibc does; any number */
};

/* The queue, in one word: hand-overs 24 bits, first 20, next 20. A bay has 1023 users at
 * most, so tickets do not run into each other. */
enum { FIRST_AT = 24, NEXT_AT = 44 };
#define TICKETS 0xfffffu
#define HANDOVERS 0xffffffu

static unsigned first_of(uint64_t queue)
{
	return (unsigned)(queue >> FIRST_AT) & TICKETS;
}

static unsigned next_of(uint64_t queue)
{
	return (unsigned)(queue >> NEXT_AT);
}

static unsigned ahead_of(uint64_t queue, unsigned ticket)
{
	return (ticket - first_of(queue)) & TICKETS;
}

static bool in_line(uint64_t queue, unsigned ticket)
{
	return ahead_of(queue, ticket) < ahead_of(queue, next_of(queue));
}

/* The last word of the bay, which no other kind of user has for its own: should one that a
 * cancelled waiter has left behind be found by what comes to lie at the lock's address. */
static uint64_t *queue_of(struct pk_bay *bay)
{
	return &bay->unused[5];
}

/* Whether spin locks are more than glibc's: not before the constructor has run. */
static bool served(void)
{
	return pk_load_acquire(&pk_admit) && pk_config.spinlock[1] == 'n'; /* "on", or "off" */
}

static bool is_free(pthread_spinlock_t *lock)
{
	return pk_load_relaxed(lock) == PK_SPIN_FREE;
}

/* Look at the word every `gap` rounds; true when it has been taken. */
PK_INLINE bool spin(pthread_spinlock_t *lock, unsigned budget, unsigned gap)
{
	do
		if (budget % gap == 0 && is_free(lock) && pk_spinlock_take(lock)) /* O1 */
			return true;
	while (!pk_spent(&budget));
	return false;
}

/* Look at the word in each round, until somebody else is faster. */
static bool spin_eagerly(pthread_spinlock_t *lock)
{
	unsigned budget = EAGER;

	do
		if (is_free(lock))
			return pk_spinlock_take(lock); /* O1 */
	while (!pk_spent(&budget));
	return false;
}

static void yield(void)
{
	pk_count_in(pk_thread_record(), PK_STAT_yielded);
	pk_real()->sched_yield();
}

static void wait_at_word(pthread_spinlock_t *lock)
{
	while (!spin(lock, pk_knob(spin), 1))
		yield();
}

/* True: it was a hand-over within the socket, for all that can be told. */
static bool wait_as_head(pthread_spinlock_t *lock, bool eager)
{
	if (eager && spin_eagerly(lock))
		return true;
	if (!spin(lock, CAUTION, GAP))
		wait_at_word(lock);
	return false;
}

/* Wait for the turn, and then for the word. Returns as wait_as_head(). */
static bool wait_in_line(pthread_spinlock_t *lock, const uint64_t *queue, unsigned ticket)
{
	for (unsigned waits = 1;; waits++) {
		unsigned budget = pk_knob(spin), ahead;

		do {
			uint64_t seen = pk_load_relaxed(queue); /* O2 */

			ahead = ahead_of(seen, ticket);
			if (!ahead || !in_line(seen, ticket))
				return wait_as_head(lock, (seen & HANDOVERS) < pk_knob(batch));
		} while (!pk_spent(&budget));
		if (waits % ahead == 0 && spin(lock, 0, 1)) /* D1 */
			return false;
		yield();
	}
}

/* The thread has the word: who is behind it is next. */
static void serve_on(uint64_t *queue, unsigned ticket, bool stayed)
{
	uint64_t seen = pk_load_relaxed(queue), rest;

	do {
		if (!in_line(seen, ticket))
			return;
		rest = seen >> NEXT_AT << NEXT_AT | (uint64_t)((ticket + 1) & TICKETS) << FIRST_AT |
		       (stayed ? (seen & HANDOVERS) + 1 : 0);
	} while (!pk_cas_relaxed(queue, &seen, first_of(rest) == next_of(rest) ? 0 : rest)); /* O2 */
}

static void wait_in_bay(pthread_spinlock_t *lock, struct pk_bay *bay, const struct pk_record *r)
{
	uint64_t *queue = queue_of(bay);
	unsigned ticket = next_of(pk_add_relaxed(queue, UINT64_C(1) << NEXT_AT)); /* O2 */
	bool stayed = wait_in_line(lock, queue, ticket);

	if (r->incarnation != pk_incarnation())
		return;
	serve_on(queue, ticket, stayed);
	pk_bay_leave(bay, (const void *)lock);
}

/* Become a user of the socket's bay, if there is one to be had and room in it. */
static struct pk_bay *enter_bay(pthread_spinlock_t *lock, const struct pk_record *r)
{
	unsigned socket = pk_socket_here(r->index);
	struct pk_bay *bay = pk_bay_enter(socket, (const void *)lock);

	if (!bay || pk_bay_users(bay, (const void *)lock) <= pk_socket_cpus(socket))
		return bay;
	pk_bay_leave(bay, (const void *)lock); /* D4 */
	return NULL;
}

/* By way of the socket's bay, if it has one. Not where sockets are but caches: nothing has measured whether that pays. */
static void wait_served(pthread_spinlock_t *lock)
{
	struct pk_record *r;
	struct pk_bay *bay;

	r = pk_sockets > 1 && !pk_sockets_are_caches ? pk_thread_record() : NULL;
	bay = r ? enter_bay(lock, r) : NULL;
	if (!bay) {
		wait_at_word(lock);
		return;
	}
	pk_count_in(r, PK_STAT_spun);
	wait_in_bay(lock, bay, r);
}

PK_NOINLINE int pk_spinlock_wait(pthread_spinlock_t *lock)
{
	struct pk_watched watched;
	bool watch;

	pk_turn_step_back();
	if (!served()) {
		while (!spin(lock, ROUNDS, 1))
			;
		return 0;
	}
	pk_control_poll();
	watch = pk_watch_begin(&watched);
	wait_served(lock);
	if (pk_unlikely(watch))
		pk_watch_end(&watched, PK_WATCH_SPIN, (const void *)lock, 0);
	return 0;
}
