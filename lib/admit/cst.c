/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* cst: a queue for each socket, under a queue of sockets. The *turn* goes from socket to
 * socket; the head of the lock's queue is the first waiter of the socket that has it.
 *
 * Paper: Kashyap, Min and Kim, ATC'17, sections 4.1, 4.2 and 5.1, figures 2 to 4. Their
 *	snode, per lock and socket, is the bay of the queue (rt/storey.h), and exists for as
 *	long as somebody of that socket waits. The local queue is list.h's.
 * Deviations (D1-D4 are in list.h; parking lists and the re-queue state in pthread/lot.c)
 *  D71	Both levels are passed on when the head gets the word, not when it lets it go.
 *	So the local queue is an MCS one: K42 saves the node that a holder would have to
 *	keep, and ours keeps none.
 *  D72	No list of snodes and no bit vector: the tail of the sockets' queue names a bay. A
 *	lock has nothing beyond its 16 bytes, and 1023 waiters of a socket share a bay;
 *	others, and two who come first at once, get another one, and the socket then
 *	queues twice.
 *  D73	Nobody waits for a socket that has taken the tail but has not linked itself, in
 *	either queue (D1 at both levels). The turn then lies in the bay that it was to
 *	come from, for the first of that socket and of its own who comes.
 *  D74	A sleeper is passed over for one that is awake by the head while it waits for the
 *	word (tend), not when the turn is passed on, and never the last waiter; and not
 *	in the last hand-over of a batch, so it is the sleeper who is first when the
 *	socket queues again. It sleeps on: nobody is woken in bulk but from the lot.
 *  D75	The bound on local hand-overs, which the paper leaves open, is PARKADE_BATCH, or
 *	20 ms from when another socket was seen to wait: a hand-over to a thread that
 *	sleeps takes up to a hundred times as long as one to a spinner.
 *  D76	Waiters give up (timed locks). The first of a socket leaves its place in the
 *	sockets' queue to those behind it: whoever passes the turn there passes it on.
 *
 * State of a waiter (`status`), beside those of list.h
 *	HEAD -> WAITING		by its thread, the first of its socket
 * It has been HEAD, of the local queue, and is WAITING, SPINNING or PARKED again until its
 * socket has the turn (`shuffler` is 1).
 * If it is ABANDONED then, the node goes, with its use of the bay, to who passes the turn.
 *
 * State of a bay, in `unused`; all zero when it has no user
 *	local.tail	0 <-> name	list.h's
 *	turn		0		the socket has not got the turn
 *			n		it has, and has handed it on n - 1 times within
 *	since		t		when the head first saw another socket wait, in us
 *	leader		w		its first waiter, which waits for the turn, or has
 *					given up; else null
 *	next		null -> bay	by that bay's leader, as it links itself
 *			bay -> null	by the head, which passes the turn on to that bay
 *			null -> LIES	by the head: the turn is for who is about to link itself
 *			LIES -> KEPT	by one that leaves the bay: its use stays with the turn
 *			LIES, KEPT	by who takes the turn: the one who meant to link itself,
 *			-> null		or the next first waiter of this bay
 * State of `aux` (aux.h): the number of the last bay in the sockets' queue.
 *
 * Invariants
 *  I71	A bay is in the sockets' queue once at most, and for as long as its socket has the
 *	turn, waits for it, or has left it there (LIES, KEPT).
 *  I72	A bay that is named by `aux`, or has a successor that is about to link itself, has
 *	a user: the first of its socket, or the use that was left with the turn. So who
 *	has taken the tail from it may touch it until it is linked or has taken the turn.
 *  I73	The turn is given on before the local queue is passed on without it: the next first
 *	waiter finds its bay out of the sockets' queue.
 *  I74	Uses are alike: the one that is left with the turn may be another's than that of
 *	who has left the turn there.
 *
 * Ledger
 *  O1	local.tail, status: see list.h. `turn` and `leader` belong to the head, to who
 *	passes the turn to them (before the status is HEAD), and in between to the first of
 *	the socket.
 *  O2	next: release by who links itself, acquire by who follows it: `leader` comes with
 *	it. Release by who leaves the turn, acquire by who takes it.
 *  O3	aux: see aux.h.
 *
 * Lifetime: a waiter is a user of its bay from enter to leave, or until it has given up.
 *	Who passes the turn on touches the next bay only until its leader is HEAD.
 * Progress: see list.h, on both levels.
 * Fairness: a socket that waits has the turn after at most PARKADE_BATCH hand-overs or 20 ms
 *	in each socket before it (twice that if it is preempted before it is linked). Within
 *	a socket the first sleeper is next after as many.
 * Cost: nothing for an idle lock; for a contended one a bay, 64 bytes of the socket's storey,
 *	for each socket while threads of it wait; its record for a waiting thread. */
#include <stddef.h>

#include "admit/list.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/storey.h"

struct snode {
	struct pk_queue local;
	struct pk_waiter *leader;
	struct snode *next;
	uint32_t turn;
	uint32_t since;
};

_Static_assert(sizeof(struct snode) <= sizeof(((struct pk_bay *)0)->unused), "a bay has room for an snode");
_Static_assert((uint32_t)PK_BAYS_MAX <= PK_AUX_STATE, "`aux` has room for the number of a bay");

#define LIES ((struct snode *)1)
#define KEPT ((struct snode *)2)

enum {
	TURN_US = 20000, /* how long a socket keeps the turn while another waits */
	LOOKS = 16,	 /* how many waiters the head looks at for one that is awake */
};

static struct snode *snode_of(struct pk_bay *bay)
{
	return (struct snode *)bay->unused;
}

static struct pk_bay *bay_of(struct snode *sn)
{
	return (struct pk_bay *)((char *)sn - offsetof(struct pk_bay, unused));
}

/* Where w waits. */
static struct snode *place_of(const struct pk_waiter *w)
{
	return snode_of(pk_bay_numbered(w->batch));
}

/* Be a user of the bay no more, unless a turn lies there, which needs one. */
static void leave_bay(const struct pk_queue *q, struct snode *sn)
{
	struct snode *seen = pk_load_relaxed(&sn->next);

	if (seen != LIES || !pk_cas_acq_rel(&sn->next, &seen, KEPT)) /* O2 */
		pk_bay_leave(bay_of(sn), q);
}

/* Take the turn, if it lies there; else link sn behind, if it is not null. */
static bool take(const struct pk_queue *q, struct snode *from, struct snode *sn)
{
	struct snode *seen = NULL;

	/* None but LIES and KEPT is ever found there: no other links itself behind `from`. */
	while (!pk_cas_acq_rel(&from->next, &seen, seen ? NULL : sn)) /* O2 */
		;
	if (seen == KEPT)
		pk_bay_leave(bay_of(from), q);
	return seen;
}

/* Put w's bay at the end of the sockets' queue; false if another policy has the place.
 * `prev`: whom it joins behind, or null. */
static bool join(struct pk_queue *q, const struct pk_waiter *w, struct snode **prev)
{
	uint64_t aux = pk_load_relaxed(&q->aux);

	do {
		if (pk_aux_exact(q, aux) && !pk_aux_is(q, aux, PK_AUX_CST))
			return false;
	} while (!pk_cas_acq_rel(&q->aux, &aux, pk_aux_of(q, PK_AUX_CST, w->batch))); /* O3 */
	*prev = pk_aux_exact(q, aux) ? snode_of(pk_bay_numbered(aux & PK_AUX_STATE)) : NULL;
	return true;
}

/* Make q's queue of sockets empty, if w's bay is its last one. */
static bool cut(struct pk_queue *q, const struct pk_waiter *w)
{
	uint64_t aux = pk_aux_of(q, PK_AUX_CST, w->batch);

	return pk_load_relaxed(&q->aux) == aux && pk_cas_acq_rel(&q->aux, &aux, 0); /* O3 */
}

/* w is the first of its socket: be the head, if the socket has the turn, or once it has. */
static enum pk_entered lead(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	struct snode *sn = place_of(w), *prev;

	if (sn->turn)
		return PK_IS_HEAD;
	if (!take(q, sn, NULL)) {
		if (!join(q, w, &prev)) {
			pk_waiter_set_state(w, PK_ABANDONED);
			pk_list_pass(&sn->local, w, NULL);
			leave_bay(q, sn);
			return PK_ORPHANED;
		}
		if (prev) {
			pk_store_relaxed(&w->manner, PK_STAYS);
			w->shuffler = 1;
			sn->leader = w;
			pk_waiter_set_state(w, PK_WAITING);
			if (!take(q, prev, sn))
				return pk_list_wait(q, w, deadline, NULL);
			sn->leader = NULL;
		}
	}
	sn->turn = 1;
	pk_waiter_set_state(w, PK_HEAD);
	return PK_IS_HEAD;
}

static enum pk_entered wait(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	struct snode *sn = place_of(w);
	enum pk_entered how = pk_list_wait(q, w, deadline, NULL);

	if (how == PK_IS_HEAD)
		return lead(q, w, deadline);
	/* An orphan's bay is another process's, or give_up() has left it. */
	if (how != PK_ORPHANED)
		leave_bay(q, sn);
	return how;
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	struct pk_bay *bay = pk_bay_enter(w->socket, q);
	struct pk_waiter *prev, *seen = NULL;

	if (!bay) {
		pk_waiter_free(w);
		return PK_ORPHANED;
	}
	w->hint = w->aside = NULL;
	w->batch = pk_bay_number(w->socket, bay);
	w->shuffler = 0;
	w->slept = false;
	pk_store_relaxed(&w->next, NULL);
	pk_waiter_begin(w, PK_WAITING);
	w->queue = q;
	prev = pk_waiter_named(pk_xchg_acq_rel(&snode_of(bay)->local.tail, pk_waiter_name(w))); /* O1 */
	if (prev) {
		if (pk_cas_acq_rel(&prev->next, &seen, w)) /* O1 */
			return wait(q, w, deadline);
		pk_waiter_free(prev); /* LEFT: D1 */
	}
	pk_waiter_set_state(w, PK_HEAD);
	return lead(q, w, deadline);
}

static bool is_parked(const struct pk_waiter *n)
{
	return pk_state(pk_load_relaxed(&n->status)) == PK_PARKED;
}

/* The successor n of w sleeps: have the first one that is awake come next, if there is
 * one. Not the last waiter: somebody may be joining behind it. */
static struct pk_waiter *prefer_awake(struct pk_waiter *w, struct pk_waiter *n)
{
	struct pk_waiter *prev = n, *x, *after;

	for (unsigned i = 0; i < LOOKS && (x = pk_list_next(prev)) && (after = pk_list_next(x)); i++, prev = x)
		if (!is_parked(x) && !pk_list_gone(x)) {
			pk_store_release(&prev->next, after); /* O1 */
			pk_store_release(&x->next, n);	      /* O1 */
			pk_store_release(&w->next, x);	      /* O1 */
			pk_count(w, PK_STAT_shuffled);
			return x;
		}
	return n;
}

/* The socket may keep the turn for another hand-over. */
static bool may_keep(struct snode *sn)
{
	uint32_t now;

	if (sn->turn > pk_knob(batch))
		return false;
	if (!pk_load_relaxed(&sn->next))
		return true;
	now = (uint32_t)pk_clock_us() | 1;
	sn->since = sn->since ? sn->since : now;
	return now - sn->since <= TURN_US;
}

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	struct snode *sn = place_of(w), *next = pk_load_acquire(&sn->next); /* O2 */
	struct pk_waiter *n = pk_list_reap(w);

	(void)q;
	(void)word;
	if (n && may_keep(sn))
		n = is_parked(n) ? prefer_awake(w, n) : n;
	else if (next)
		n = next->leader;
	if (n)
		pk_list_rouse(w, n);
	return 0;
}

/* Make the next waiter of w's socket the head. False: there is none, or it is others' turn. */
static bool pass_within(struct snode *sn, struct pk_waiter *w, int *held)
{
	if (!sn->turn || !may_keep(sn))
		return false;
	sn->turn++;
	return pk_list_hand(w, held);
}

/* Give the turn on to the next socket. Returns its leader if that has given up: it is to
 * leave, too. */
static struct pk_waiter *pass_on(struct pk_queue *q, struct snode *sn, struct pk_waiter *w, int *held,
				 struct pk_record *by)
{
	struct snode *next = pk_load_acquire(&sn->next); /* O2 */
	struct pk_waiter *n;
	uint32_t was;

	sn->turn = sn->since = 0;
	if (!next && (cut(q, w) || pk_cas_acq_rel(&sn->next, &next, LIES))) /* O2 */
		return NULL;
	pk_store_relaxed(&sn->next, NULL); /* relaxed: we have left the sockets' queue */
	n = next->leader;
	if (pk_unlikely(!n)) /* a handler has forked, and this is the child */
		return NULL;
	next->leader = NULL;
	next->turn = 1;
	if (!pk_list_crown(n, &was)) /* O1 */
		return n;
	pk_list_wake(n, was, held, by);
	return NULL;
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_record *by = w->record;

	if (pk_unlikely(!pk_bay_users(bay_of(place_of(w)), q)))
		return; /* the same */
	while (w) {
		struct snode *sn = place_of(w);
		struct pk_waiter *n, *gone = NULL;

		if (!pass_within(sn, w, held)) {
			/* Without the turn it gives up, and so it does not have it to give. */
			if (sn->turn)
				gone = pass_on(q, sn, w, held, by);
			n = pk_list_unlink(&sn->local, w);
			if (n)
				pk_list_promote(&sn->local, n, NULL, by);
		}
		leave_bay(q, sn);
		w = gone;
	}
}

static void give_up(struct pk_queue *q, struct pk_waiter *w)
{
	struct snode *sn = place_of(w);
	bool leads = w->shuffler;

	if (pk_waiter_abandon(w)) {
		if (!leads)
			leave_bay(q, sn);
	} else if (pk_waiter_is_head(w)) {
		pk_waiter_set_state(w, PK_ABANDONED);
		leave(q, w, NULL);
	}
}

const struct pk_admit_ops pk_cst = {PK_POLICY_cst, true, enter, tend, leave, NULL, NULL, give_up, NULL};
