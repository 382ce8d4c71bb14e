/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Turns; the contract is in turn.h.
 *
 * Every way to wait ends in pk_word_wait(): a queue only decides who may wait
 * there. So a thread that cannot queue (no memory, too early, too late, the
 * child of a fork) goes there directly and nothing else changes. */
#include "pthread/turn.h"

#include <errno.h>

#include "admit/list.h"
#include "admit/order.h"
#include "base/unwind.h"
#include "pthread/lot.h"
#include "pthread/trial.h"
#include "rt/clock.h"
#include "rt/control.h"
#include "rt/doze.h"
#include "rt/hall.h"
#include "rt/probe.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"

enum {
	OUT = -1, /* the wait goes on in the lot */
	LONG_US = 100000,
	/* After so many of its waits in a row in which it has not come back at once a thread doubts that others do. */
	DOUBT = 64,
	/* So many of a socket are to spin, where each uses its lock many times over. */
	FEW = 4,
	/* Of so many waits apart in a row only the first ones are dated. */
	APART = 2 * PK_ORDER_APART,
	DATED = 2,
};

/* The head has the word, or gave up (null). A flag that makes others queue is its own or
 * stale; with it goes one that a spinner left behind in another process (fork). */
static void leave(struct pk_gate *gate, const struct pk_admit_ops *ops, struct pk_waiter *w, int *held)
{
	uint64_t flags = pk_load_relaxed(&gate->flags);

	if (pk_unlikely(flags & PK_FLAG_QUEUE))
		pk_and_relaxed(&gate->flags, ~(PK_FLAG_QUEUE | PK_FLAG_SPINNER));
	if (flags & PK_FLAG_BACK)
		pk_order_excuse(&gate->queue);
	/* Whoever looks at the node from within the thread sees no place. */
	pk_store_relaxed(&w->status, pk_in_state(pk_load_relaxed(&w->status), PK_ABANDONED));
	PK_PROBE3(handover, &gate->queue, w->socket, held);
	ops->leave(&gate->queue, w, held);
}

static struct pk_gate *gate_of(struct pk_queue *q)
{
	return (struct pk_gate *)((char *)q - offsetof(struct pk_gate, queue));
}

/* The lock's queue of w; null: it has found no bay, and its status is that of an earlier use. */
static struct pk_queue *root_of(struct pk_waiter *w)
{
	const struct pk_admit_ops *ops = pk_policy_ops(w->policy);

	return w->queue && ops && ops->root ? ops->root(w) : w->queue;
}

/* The head that gives up may have been woken for the word in the stead of others who sleep there, as those do who wait apart: it was
 * to set it to 2 again, or to take it. */
static void pass_on(int *word)
{
	int seen = 1;

	if (pk_self.wanted.pass || pk_cas_relaxed(word, &seen, 2))
		return;
	if (!seen)
		pk_futex_wake(word, 1);
}

/* The thread's place is given up for it. */
static void give_up(struct pk_waiter *w)
{
	/* In no queue yet, as of a condition variable, a waiter has no policy. */
	const struct pk_admit_ops *ops = pk_policy_ops(w->policy);
	struct pk_queue *q;

	if (ops && ops->give_up && w->queue && !pk_waiter_is_head(w)) {
		/* Who has given it up already may name what is another lock's by now. */
		q = pk_lot_open && pk_state(pk_load_relaxed(&w->status)) < PK_HEAD ? root_of(w) : NULL;
		ops->give_up(w->queue, w);
		if (q)
			pk_lot_check_here(gate_of(q));
		return;
	}
	/* acquire: a spliced node's queue is told with its headship */
	if (ops && ops->splice && w->queue ? pk_list_abandon(w) : pk_waiter_abandon(w))
		return;
	if (pk_state(pk_load_acquire(&w->status)) != PK_HEAD)
		return;
	q = root_of(w);
	if (!q)
		return;
	pass_on((int *)pk_self.wanted.word);
	leave(gate_of(q), pk_policy_ops(w->policy), w, NULL);
	if (pk_lot_open)
		pk_lot_check_here(gate_of(q));
}

/* w is the head of the queue: wait for the word. Returns as pk_word_wait(). */
static int wait_as_head(const struct pk_site *at, const struct pk_admit_ops *ops, struct pk_waiter *w,
			const struct pk_deadline *deadline)
{
	int ret = pk_word_wait(at, ops, w, w->slept, deadline);

	if (pk_likely(pk_waiter_is_head(w)))
		leave(at->gate, ops, w, ret ? NULL : at->word);
	return ret;
}

/* The place has been given up: what a look has got, or wait for the word without a queue. As pk_word_wait(). */
static int got(const struct pk_site *at, bool slept, const struct pk_deadline *deadline)
{
	return pk_self.wanted.got == EBUSY ? pk_word_wait(at, NULL, NULL, slept, deadline) : pk_self.wanted.got;
}

/* w has got the word out of turn, and its place has been given up; if not, it may be the head by now, which it leaves to others
 * with what comes with it (list.h, O3). */
static void stolen(const struct pk_site *at, const struct pk_admit_ops *ops, struct pk_waiter *w, bool gave_up)
{
	pk_count(w, PK_STAT_stolen);
	if (!gave_up && pk_state(pk_load_acquire(&w->status)) == PK_HEAD)
		leave(at->gate, ops, w, at->word);
}

/* Wait for the word by way of the queue, with node w. As pk_word_wait(), or OUT. */
static int wait_queued(const struct pk_site *at, const struct pk_admit_ops *ops, struct pk_waiter *w,
		       const struct pk_deadline *deadline)
{
	struct pk_site later = *at;

	/* If nobody was there it is the head at once, most likely. */
	if (pk_site_busy(at))
		later.seen = NULL;
	pk_count(w, PK_STAT_entered);
	PK_PROBE3(queue_enter, at->word, w->socket, w->policy);
	switch (ops->enter(&at->gate->queue, w, deadline)) {
	case PK_TIMED_OUT:
		return ETIMEDOUT;
	case PK_OUT:
		return OUT;
	case PK_IS_HEAD:
		return wait_as_head(&later, ops, w, deadline);
	case PK_STOLEN:
		stolen(at, ops, w, pk_list_abandon(w));
		return 0;
	default:
		return got(at, w->slept, deadline);
	}
}

/* Where there is one socket the order of the queue keeps the lock nearby to nobody: who finds it free takes it, as
 * those do who have not come to the queue yet. If its head was about to take it, it waits for one more; but it may
 * be without a CPU. With nobody in the queue that saves the way through it; but who comes back at once is to be a head, and to
 * look away (word.c). */
static bool barge(const struct pk_site *at, struct pk_record *r, unsigned socket)
{
	if (pk_sockets > 1 || !at->marks || !pk_spin_limit(socket) ||
	    (!pk_site_busy(at) && (pk_self.back || pk_self.soon)) || !pk_word_barge(at))
		return false;
	pk_count_in(r, PK_STAT_stolen);
	return true;
}

/* Whether those who have the lock come back for it at once. Who surely does says so, and who has been woken for nothing many times, as
 * somebody does (word.c); it is doubted by who never does, unless it has been tried that to queue is better: by the policy of which that is tried. `came` is
 * known. */
static bool is_used_again(const struct pk_site *at, const struct pk_admit_ops *ops)
{
	bool said = pk_site_flags(at) & PK_FLAG_BACK;

	if (pk_self.sure && !said)
		pk_or_relaxed(&at->gate->flags, PK_FLAG_BACK);
	if (pk_self.soon || (said && pk_self.back)) {
		if (pk_self.doubted == at->word)
			pk_self.doubts = 0;
		return true;
	}
	if (!said)
		return false;
	pk_self.doubted = at->word;
	if (++pk_self.doubts % DOUBT || (pk_site_flags(at) & PK_FLAG_PROVED && ops->policy == PK_POLICY_shfl))
		return true;
	pk_and_relaxed(&at->gate->flags, ~PK_FLAG_BACK);
	return false;
}

static bool may_stay_away(const struct pk_site *at, const struct pk_admit_ops *ops)
{
	return ops->policy == PK_POLICY_shfl && !pk_self.chain && !(pk_site_flags(at) & PK_FLAG_QUEUE);
}

/* `headless`: also if nobody is in the queue, so that this one would be its head. */
static bool may_wait_apart(const struct pk_site *at, const struct pk_admit_ops *ops, unsigned socket, bool headless)
{
	return pk_lot_apart(at, socket) && (headless || pk_site_busy(at)) && may_stay_away(at, ops);
}

/* Where one socket has them all, or the order of the queue does not pay (admit/order.h), a queue is of use if who has the lock
 * comes back for it at once: sleepers are not woken for nothing then, and heads look away. Else who comes waits *apart*, at the
 * word, as glibc's waiters do, to be woken by unlocks. On one socket there is a head all the same, which spins, and costs one
 * CPU, as long as it pays (admit/order.h); with several each of its looks would take the line far away. Not by a policy that was
 * chosen for its order; not if the head has lost patience; nor one that has others of a broadcast behind it (cond.c). Who comes
 * back is noted in any case, if its wait is dated: heads from the lot want to know it (word.c). What has been tried, or is, comes before all
 * that. */
static bool waits_apart(const struct pk_site *at, const struct pk_admit_ops *ops, unsigned socket)
{
	const uint64_t flags = pk_site_flags(at);
	enum pk_trial_way way = PK_TRIAL_SAYS_NOTHING;

	if (!pk_self.came || !pk_lot_adapts_to(at, socket))
		return false;
	if (ops->policy == PK_POLICY_shfl)
		way = pk_trial_way(at->gate, flags, pk_self.came, flags & PK_FLAG_BACK || pk_self.soon);
	switch (way) {
	case PK_TRIAL_APART: /* as if nobody came back */
		pk_self.back = pk_self.soon = pk_self.late = pk_self.sure = pk_self.used = false;
		return may_stay_away(at, ops);
	case PK_TRIAL_QUEUES:
		if (!(flags & PK_FLAG_BACK))
			pk_or_relaxed(&at->gate->flags, PK_FLAG_BACK);
		return false;
	default:
		if (is_used_again(at, ops) || !may_wait_apart(at, ops, socket, !pk_lot_pays(at)))
			return false;
		if (pk_sockets > 1) /* as the order does not pay: whether it is better so is to be tried */
			pk_trial_way(at->gate, flags, pk_self.came, true);
		return true;
	}
}

/* Whether it is back at once is known by the time when it has got the lock the last time, and by when it comes. Where it does not pay to
 * queue, and waiters do nothing else that glibc's do not do, these looks at the clock would be what they cost more
 * (sim/FINDINGS.md); for the one of who has just been woken everybody waits. So one pair of waits in so many says what there is
 * to be said, about that, too. */
static bool is_dated(const struct pk_site *at, const struct pk_admit_ops *ops, unsigned socket)
{
	const uint64_t flags = pk_site_flags(at);
	bool apart;

	if (flags & PK_FLAG_APART)
		apart = pk_lot_adapts_to(at, socket) && may_stay_away(at, ops);
	else
		apart = !pk_lot_pays(at) && !(flags & (PK_FLAG_BACK | PK_FLAG_TRIED)) && may_wait_apart(at, ops, socket, true);
	return !apart || !pk_rounds_in(1000) || (pk_self.bypasses++ + (unsigned)pk_self.tid) % APART < DATED;
}

/* A wait with a node. A handler that has come into it may end the thread, act on a cancellation, or jump out; the lock may be gone
 * soon after that, and those behind it are not to wait for the thread. */
struct stay {
	struct pk_waiter *w;
	struct _pthread_cleanup_buffer frame;
};

static void unwound(void *arg)
{
	struct stay *s = arg;

	_pthread_cleanup_pop(&s->frame, 0);
	pk_thread_unwound(s->w);
}

/* One attempt by way of the queue, in that manner. As pk_word_wait(), or OUT.
 *
 * manner	finds no room to spin	has spun in vain
 * LEAVES	steals, or OUT		OUT
 * CALLED	spins all the same	OUT
 * STAYS	steals, or sleeps	sleeps in its place
 * SLEEPS	(does not look) steals, or sleeps in its place
 * Before all that, and in the lot's stead: barge(). Where nobody may spin, and without a
 * deadline, who steals lurks.
 */
static int wait_once(const struct pk_site *at, const struct pk_admit_ops *ops, struct pk_record *r, unsigned socket,
		     enum pk_manner manner, const struct pk_deadline *deadline)
{
	struct pk_waiter *w;
	struct stay stay;
	int ret;

	if (barge(at, r, socket))
		return 0;
	/* No queue: the head is at the word at once, and can as well be us. */
	if (pk_site_busy(at) && manner != PK_CALLED && (manner == PK_SLEEPS || !pk_spin_room(socket))) {
		bool taken = deadline || pk_spin_limit(socket) ? pk_word_steal(at) : pk_word_lurk(at);

		r = pk_thread_record(); /* another one if a handler has forked */
		if (taken) {
			pk_count_in(r, PK_STAT_stolen);
			return 0;
		}
		pk_self.came = 0; /* what it waits for from now on says little of the time between two */
		if (manner == PK_LEAVES)
			return OUT;
	}
	if (deadline && !ops->abortable)
		w = NULL;
	else if (!r || pk_waiters_idle(r) < 2) /* this one may stay behind, and a wait for a condition variable needs one */
		w = NULL;
	else
		w = pk_waiter_take(r);
	if (!w) {
		pk_count_in(r, PK_STAT_bypassed);
		return pk_word_wait(at, NULL, NULL, false, deadline);
	}
	w->socket = (uint8_t)socket;
	w->cohort = (uint8_t)pk_lot_cohort(socket, r->index);
	w->policy = ops->policy;
	pk_store_relaxed(&w->manner, manner);
	w->queue = NULL;
	stay.w = w;
	_pthread_cleanup_push(&stay.frame, unwound, &stay);
	pk_doze_begin(w, at->word, &at->gate->flags, at->pass);
	if (pk_lot_open)
		pk_lot_rotate(at->gate, w->cohort, r->turns++);
	ret = wait_queued(at, ops, w, deadline);
	pk_store_relaxed(&pk_self.waits, NULL);
	_pthread_cleanup_pop(&stay.frame, 0);
	return ret;
}

/* The lock's own policy, or 0: mutexes may have one (base/layout.h). */
static unsigned policy_of(const struct pk_site *at)
{
	return at->marks ? pk_kind_policy(pk_site_flags(at)) : 0;
}

/* What it has come back for, and when, is long ago; and a handler may have waited for another lock. */
static void forget(void)
{
	pk_self.back = pk_self.soon = pk_self.late = pk_self.sure = pk_self.used = false;
	pk_self.came = 0;
}

/* Whether the thread is to wait as if it had been called: a lock whose users come back at once, for long, has a few in its queue best, each of
 * whom uses it many times over. (With several sockets they look away as its heads.) Without them the queue runs dry, sleepers are
 * called, more than are of use, whose spinning in vain leaves no room for others; and who finds no room steals the lock again and again
 * (sim/FINDINGS.md). One that had it for less does other work in between, and is as well in the lot. That it has used it all the time is
 * concluded from its users, not seen: it may have slept. Not by policies without a queue, nor with others of a broadcast behind it. */
static bool is_one_of_few(const struct pk_site *at, unsigned socket)
{
	const unsigned limit = pk_spin_limit(socket);

	return pk_self.used && at->marks && pk_site_flags(at) & PK_FLAG_BACK && pk_site_busy(at) && !pk_self.chain &&
	       pk_spinners(socket) < (limit < FEW ? limit : FEW);
}

/* Wait in the queue while that means to spin, and in the lot while it means to sleep.
 *
 * manner	becomes		because
 * LEAVES	CALLED		at first: is_one_of_few()
 * any		(by OUT:)
 *		SLEEPS		the lock has become slow: the heads sleep, so spinning is in vain
 *		(sleeps in the lot, and then:)
 *		CALLED		there is a turn for it
 *		LEAVES		the same, where nobody may spin
 *		STAYS		it has waited for long, or is a delegate, or there is no bay */
static PK_NOINLINE int wait_in_lot(struct pk_site *at, const struct pk_admit_ops *ops, struct pk_record *r, unsigned socket)
{
	const unsigned policy = policy_of(at);
	enum pk_manner manner = pk_lot_manner(at, socket);
	unsigned cohort = pk_lot_cohort(socket, r->index);
	struct timespec until = {0, 0};
	int ret = OUT;

	if (manner == PK_LEAVES && is_one_of_few(at, socket))
		manner = PK_CALLED;
	while (r && ops && (ret = wait_once(at, ops, r, socket, manner, NULL)) == OUT) {
		at->seen = NULL;
		manner = pk_lot_manner(at, socket);
		if (manner == PK_LEAVES) {
			if (barge(at, r, socket)) {
				ret = 0;
				break;
			}
			if (!until.tv_sec)
				until = pk_clock_after(LONG_US);
			manner = pk_lot_park(at->gate, cohort, &until);
		}
		forget();
		r = pk_thread_record();		 /* another one if a handler has forked */
		ops = pk_policy_for(policy);	 /* it may have changed */
		if (r) {
			socket = pk_socket_here(r->index); /* it need not have woken where it fell asleep */
			cohort = pk_lot_cohort(socket, r->index);
		}
	}
	if (ret == OUT)
		ret = pk_word_wait(at, NULL, NULL, false, NULL);
	pk_lot_check(at->gate, cohort);
	return ret;
}

/* A signal handler has to wait in the middle of its thread's wait. It does not
 * queue, as it may want the very lock, and lets those pass who are behind the
 * sleeper: one of them may hold what it wants. (POSIX forbids such handlers;
 * glibc does not mind them.) */
static PK_COLD int wait_in_handler(const struct pk_site *at, const struct pk_deadline *deadline)
{
	pk_turn_step_back();
	return pk_word_wait(at, NULL, NULL, false, deadline);
}

void pk_turn_step_back(void)
{
	struct pk_waiter *w = pk_self.waits;
	unsigned manner;

	/* Only a sleeper's: awake, it may be in the middle of shuffling. */
	if (pk_likely(!w || !pk_load_relaxed(&pk_self.asleep)))
		return;
	manner = pk_waiter_manner(w);
	give_up(w);
	/* Others sleep on its status, which has changed. */
	if (manner >= PK_TOGETHER)
		pk_hall_stir(manner - PK_TOGETHER);
}

PK_NOINLINE int pk_turn_wait(const struct pk_site *site, const struct pk_deadline *deadline)
{
	struct pk_site now = *site, *at = &now;
	struct pk_gate seen;
	const struct pk_admit_ops *ops;
	struct pk_record *r;
	unsigned socket;
	bool dated;
	int ret;

	if (!now.seen) {
		seen = pk_gate_look(now.gate);
		now.seen = &seen;
	}
	pk_control_poll(); /* the policy may be another one from here on */
	ops = pk_policy_for(policy_of(at));
	r = ops || pk_self.waits ? pk_thread_record() : NULL; /* which sees that this is a child */
	if (pk_unlikely(pk_self.waits != NULL))
		return wait_in_handler(at, deadline);
	if (!r || !ops)
		return pk_word_wait(at, NULL, NULL, false, deadline);
	socket = pk_socket_here(r->index);
	dated = is_dated(at, ops, socket);
	if (dated)
		pk_word_come(at);
	else
		forget();
	if (!dated || waits_apart(at, ops, socket)) {
		pk_count_in(r, PK_STAT_bypassed);
		ret = pk_word_wait(at, ops, NULL, false, deadline);
		if (ret != EAGAIN)
			return ret; /* it was in no queue, so nobody sleeps elsewhere because of it */
		now.seen = NULL;
		forget();
		r = pk_thread_record(); /* another one if a handler has forked */
		ops = pk_policy_for(policy_of(at));
		if (!r || !ops)
			return pk_word_wait(at, NULL, NULL, false, deadline);
		socket = pk_socket_here(r->index); /* it need not have woken where it fell asleep */
	}
	if (pk_lot_open && !deadline)
		return wait_in_lot(at, ops, r, socket);
	ret = wait_once(at, ops, r, socket, pk_lot_manner(at, socket) == PK_SLEEPS ? PK_SLEEPS : PK_STAYS, deadline);
	if (pk_lot_open)
		pk_lot_check_here(at->gate);
	return ret;
}

/* It has been moved to the word. Where others wait apart it has no more patience than they have. */
static int settle_at_word(const struct pk_site *at)
{
	const struct pk_admit_ops *ops = pk_policy_for(policy_of(at));
	const unsigned socket = pk_socket_here(pk_self.record ? pk_self.record->index : 0);

	if (pk_self.wanted.got != EBUSY)
		return pk_self.wanted.got;
	return pk_word_wait(at, ops && ops->policy == PK_POLICY_shfl && pk_lot_adapts_to(at, socket) ? ops : NULL, NULL, true, NULL);
}

int pk_turn_settle(const struct pk_site *at, struct pk_waiter *w, pk_steal *steal)
{
	const struct pk_admit_ops *ops = w ? pk_policy_ops(w->policy) : NULL;
	struct stay stay = {.w = pk_self.waits}; /* w is null if it has been moved to the word */
	int ret = 0;

	_pthread_cleanup_push(&stay.frame, unwound, &stay);
	forget(); /* of a wait that has ended in another way */
	switch (w ? ops->settle(&at->gate->queue, w, at->word, steal) : PK_ORPHANED) {
	case PK_IS_HEAD:
		wait_as_head(at, ops, w, NULL);
		break;
	case PK_STOLEN:
		stolen(at, ops, w, pk_waiter_abandon(w));
		break;
	default:
		ret = w ? got(at, true, NULL) : settle_at_word(at);
	}
	_pthread_cleanup_pop(&stay.frame, 0);
	if (pk_lot_open)
		pk_lot_check_here(at->gate);
	return ret;
}

/* Take the word, or for a site with `pass` what it stands for, if it is free: 0 or EALREADY; EBUSY if it is not. Who
 * waits for the word, or has set it to 2, is not asleep there for this: it is as if a new thread had come. */
static int overtake(void)
{
	if (pk_doze_take())
		return 0;
	return pk_self.wanted.pass && pk_self.wanted.pass(pk_self.wanted.word) ? EALREADY : EBUSY;
}

void pk_turn_look(bool last)
{
	struct pk_waiter *w = pk_self.waits;
	struct pk_queue *q;

	/* It need not wait any more; or a node that it leaves behind may be its last. */
	if (pk_state(pk_load_relaxed(&w->status)) >= PK_HEAD || !pk_waiters_idle(w->record))
		return;
	pk_self.wanted.got = overtake();
	if (pk_self.wanted.got == EBUSY && !last)
		return;
	/* Who has lost patience was not there to take the word. (Null: a handler has forked, and this is the child.) */
	q = pk_self.wanted.got == 0 ? root_of(w) : NULL;
	if (q)
		pk_and_relaxed(&gate_of(q)->flags, ~PK_FLAG_QUEUE);
	give_up(w);
}

void pk_turn_gone(struct pk_waiter *w)
{
	pk_spin_end(w);
	give_up(w);
}
