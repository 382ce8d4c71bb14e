/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* shfl: ShflLock. One queue; waiters reorder it by socket while they wait.
 *
 * Paper: Kashyap et al., SOSP'19, sections 4.1, 4.2.1, 4.2.2 and figures 4, 6, 7.
 *	The queue itself, parking and giving up are list.h's; this file is the
 *	shuffling.
 *
 * A *shuffler* walks the queue from its own node on, and moves waiters of its
 * own socket forward to the end of the group that begins with itself. The head
 * becomes the shuffler when it starts a group (its batch is 0); a shuffler that
 * stops passes the role to the last of its group. Waiters that are moved are
 * roused: they are next.
 *
 * Deviations (D1-D4 are in list.h)
 *  D5	The walk stops where `next` is null instead of comparing with the lock's
 *	tail (figure 4 line 80): one line less to fetch. The last one, which figure 4 leaves
 *	in its place, is moved as well if it is of our socket: on eight sockets it is
 *	often the only one (sim/FINDINGS.md). The queue is cut before it for that, which fails
 *	if somebody has joined behind it.
 *  D6	"No shuffling required" (line 85) is decided by adjacency to the last of
 *	the group, not by the predecessor's socket: it stays true when the walk
 *	resumes further back (D7) or has skipped a waiter.
 *  D7	The paper's qlast optimisation, there in one sentence: the next shuffler
 *	is told where its predecessor stopped (`hint`) and resumes there.
 *  D8	The walk itself stops at the batch bound, not only its start (line 73):
 *	the bound holds for one long walk, too.
 *  D9	Waiters are roused only while their socket has CPUs to spare (rt/spin.h):
 *	the paper's kernel may rouse a whole group, as its scheduler preempts
 *	spinners; user space would run them instead of the lock's holder.
 *  D10	With one socket nothing is reordered; the head still rouses its successor.
 *  D12	A group ends after 20 ms, too: a hand-over to a thread that sleeps takes up to a
 *	hundred times as long as those of the paper, and so would PARKADE_BATCH of them.
 *  D13	A head that comes from its sleep, moved to the word (D4), and finds it free has
 *	not shuffled. It does so when it leaves, in the critical section, which is no
 *	longer for that than for its wake-up. Another one whose successor is of another
 *	socket does so, too, as far as to the first of its own, or a few, if somebody spins
 *	on its socket: that costs less than the lock's way there.
 *  D14	Where several cache groups share a socket, a head whose successor is of another one
 *	looks among the next of its socket for one of its own that spins, which goes first. (The
 *	shuffler cannot: it meets them one by one, at the end of the queue.)
 *
 * State of the role: `shuffler` of one node in the queue is ROLE, or of none.
 *	0 -> ROLE	by the shuffler, of the last of its group (itself, maybe)
 *	ROLE -> 0	by the new shuffler, when it starts
 *	0 -> DONE	by the shuffler: another one of the group is behind that node, now and for good
 * A waiter that gives up takes the role with it; the next group starts afresh.
 *
 * Invariants (the paper's 4.2.1)
 *  I3	At most one shuffler: the role goes along one chain, and a chain starts
 *	at a head with batch 0, which lies behind the last one's whole group.
 *  I4	`hint` lies behind its node and is linked as long as that node is: only
 *	its node's own thread unlinks there (shuffle here, reap in list.h).
 *  I5	A group is contiguous, so a waiter of another socket is overtaken only by
 *	the rest of the groups that lead before it: PARKADE_BATCH waiters each, and
 *	or 20 ms each, and there is no more than one such group for each waiter before it. One of
 *	the same socket is overtaken by those only that come at most NEAR of its group later.
 *  I6	The links of nodes that are DONE are the head's to write, and it moves only these (D14), so a group
 *	stays contiguous. The shuffler writes, and frees, behind the last one of the group only, wherever its
 *	own node is by then.
 *
 * Ledger
 *  O5	shuffler: release when the role is passed, acquire when it is taken: the
 *	list as the last shuffler left it, its hint and its batch count.
 *	A head that was never shuffler learns of them by O3.
 *  O7	DONE: release by the shuffler, acquire by the head: the shuffler's last change to that node's
 *	link, and its batch count.
 *
 * Cost: see list.h.
 * Progress: a walk ends at the tail, at the batch bound, or when the word is
 *	free (head) or headship has come (others); the head's among its group after NEAR, or
 *	where that ends. */
#include <limits.h>

#include "admit/list.h"
#include "admit/order.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/topology.h"

enum {
	GROUP_MS = 20,
	FEW = 8,   /* waiters that are looked at in the critical section */
	NEAR = 16, /* so much later may be who goes first, as it is of the head's cohort */
};

enum { ROLE = 1, DONE }; /* `shuffler` */

bool pk_order_learns;

/* When the group has begun is a hint in the queue: lost or another's, it makes a group
 * shorter or longer. */
static uint16_t now_ms(void)
{
	return (uint16_t)(pk_clock_us() / 1000);
}

static bool is_over(const struct pk_queue *q)
{
	return (uint16_t)(now_ms() - pk_aux_hint(q, PK_HINT_SINCE)) > GROUP_MS;
}

/* Who comes after prev on the walk, or null; behind the last one somebody may be joining (D5). */
static struct pk_waiter *step(const struct pk_waiter *prev)
{
	struct pk_waiter *cur = pk_list_next(prev);

	return cur && pk_list_next(cur) ? cur : NULL;
}

/* Who comes after prev and is the last one, of s' socket and not in its place behind `last`; or null. Not one that is put
 * there asleep: prev, if it gives up, wakes that (list.h), and does not see it while it is moved. */
static struct pk_waiter *straggler(const struct pk_waiter *s, const struct pk_waiter *last, const struct pk_waiter *prev)
{
	struct pk_waiter *cur = prev == last ? NULL : pk_list_next(prev);

	if (!cur || cur->socket != s->socket || pk_waiter_manner(cur) >= PK_UNTIMED)
		return NULL;
	return !pk_load_relaxed(&cur->next) && !pk_list_gone(cur) ? cur : NULL;
}

/* Have the queue end with prev. False: somebody is behind cur, or just joining; this is looked at first, as a thread that
 * is cancelled asynchronously in the middle loses all who come later. */
static bool cut(struct pk_queue *q, struct pk_waiter *prev, struct pk_waiter *cur)
{
	if (pk_load_relaxed(&q->tail) != pk_waiter_name(cur))
		return false;
	pk_store_relaxed(&prev->next, NULL); /* relaxed: the tail publishes it; nobody else follows it */
	if (pk_tail_cut(q, cur, prev))
		return true;
	pk_store_release(&prev->next, cur); /* O2 */
	return false;
}

/* Put cur, which is in no list, behind `last`. */
static void append(struct pk_waiter *s, struct pk_waiter *last, struct pk_waiter *cur)
{
	pk_store_release(&cur->next, pk_load_relaxed(&last->next)); /* O2 */
	pk_store_release(&last->next, cur);			    /* O2 */
	pk_count(s, PK_STAT_shuffled);
}

/* The group that has ended with `last` ends with cur, which is behind that by now. */
static struct pk_waiter *extend(struct pk_waiter *s, struct pk_waiter *last, struct pk_waiter *cur, uint32_t batch)
{
	cur->batch = batch;
	pk_store_release(&last->shuffler, DONE); /* O7 */
	pk_list_rouse(s, cur);
	return cur;
}

/* The shuffler s walks the queue. `word`: the lock's, if s is the head. `one`: it has the word, needs but one,
 * and looks at a few. */
static void shuffle(struct pk_queue *q, struct pk_waiter *s, const int *word, bool one)
{
	struct pk_waiter *last = s; /* the end of the group */
	struct pk_waiter *prev = s->hint ? s->hint : s;
	struct pk_waiter *cur;
	uint32_t batch = s->batch ? s->batch : 1;
	unsigned looks = one ? FEW : UINT_MAX;

	if (!step(prev) && !straggler(s, last, prev))
		return; /* before a look at the queue, whose line is the lock's */
	if (!s->batch)
		pk_aux_set_hint(q, PK_HINT_SINCE, now_ms());
	s->batch = batch;
	s->hint = NULL;
	pk_store_relaxed(&s->shuffler, 0);
	if (batch >= pk_knob(batch) || is_over(q))
		return;
	while ((cur = step(prev)) && looks--) {
		struct pk_waiter *next = pk_list_next(cur);

		if (pk_list_gone(cur)) {
			pk_store_release(&prev->next, next); /* O2 */
			pk_waiter_free(cur);
			continue;
		}
		if (cur->socket != s->socket) {
			prev = cur;
		} else {
			if (prev == last) { /* D6 */
				prev = cur;
			} else {
				pk_store_release(&prev->next, next); /* O2 */
				append(s, last, cur);
			}
			last = extend(s, last, cur, ++batch);
			if (one || batch >= pk_knob(batch))
				break; /* D8 */
		}
		if (word ? !pk_load_relaxed(word) : pk_state(pk_load_relaxed(&s->status)) >= PK_HEAD)
			break;
	}
	if (batch < pk_knob(batch) && !(one && last != s) && (cur = straggler(s, last, prev)) && cut(q, prev, cur)) {
		append(s, last, cur);
		last = extend(s, last, cur, ++batch);
	}
	last->hint = prev == last ? NULL : prev; /* D7 */
	pk_store_release(&last->shuffler, ROLE); /* O5 */
}

static void poll_role(struct pk_queue *q, struct pk_waiter *w)
{
	if (pk_load_acquire(&w->shuffler) == ROLE) /* O5 */
		shuffle(q, w, NULL, false);
}

/* Whether the head w is to shuffle. */
static bool has_role(struct pk_waiter *w)
{
	return pk_sockets > 1 &&				     /* D10 */
	       (!w->batch || pk_load_acquire(&w->shuffler) == ROLE); /* O5 */
}

static enum pk_entered enter(struct pk_queue *q, struct pk_waiter *w, const struct pk_deadline *deadline)
{
	return pk_list_enter(q, w, deadline, pk_sockets > 1 ? poll_role : NULL);
}

/* Another one of its group is behind it, and the shuffler has done with it (I6). */
static bool is_done(const struct pk_waiter *w)
{
	return pk_load_acquire(&w->shuffler) == DONE; /* O7 */
}

/* Have one of w's cohort be the next one instead of n (D14). Not among sleepers that do not look in time, for straggler()'s reason. Cancelled
 * asynchronously between the two stores, the thread loses cur, which goes when its time is up. (Null: a handler has forked, and
 * the child has used the node again.) */
static void prefer_near(struct pk_waiter *w, struct pk_waiter *n)
{
	struct pk_waiter *prev = n, *cur, *next;

	if (n->cohort == w->cohort || !is_done(n) || pk_waiter_manner(n) >= PK_UNTIMED)
		return;
	while ((cur = pk_list_next(prev)) && is_done(cur) && (next = pk_list_next(cur)) && pk_waiter_manner(next) < PK_UNTIMED &&
	       cur->batch - n->batch <= NEAR) {
		if (cur->cohort == w->cohort && pk_state(pk_load_relaxed(&cur->status)) == PK_WAITING) {
			pk_store_release(&prev->next, next); /* O2 */
			append(w, w, cur);
			return;
		}
		prev = cur;
	}
}

static unsigned tend(struct pk_queue *q, struct pk_waiter *w, const int *word)
{
	struct pk_waiter *n = pk_list_reap(w);

	if (!n)
		return 0;
	pk_list_rouse(w, n);
	if (has_role(w))
		shuffle(q, w, word, false);
	else
		prefer_near(w, n);
	return 0;
}

static void leave(struct pk_queue *q, struct pk_waiter *w, int *held)
{
	struct pk_record *by = w->record;
	const unsigned socket = w->socket;
	struct pk_waiter *n;
	bool tells;

	/* The spinners first: it is the critical section, and nothing else need be touched if there are none. */
	if (held && (w->slept || pk_spinners(w->socket)) && has_role(w) && (n = pk_list_reap(w)) &&
	    (w->slept || n->socket != w->socket)) /* D13 */
		shuffle(q, w, held, !w->slept);
	n = pk_list_unlink(q, w);
	if (!n)
		return;
	/* Not before that: n's line is ours by now (pk_list_inherit()), and may have been others' until then. */
	tells = held && pk_order_learns && pk_sockets > 1 && !pk_list_gone(n) && pk_order_sees(q, n->socket != socket);
	pk_list_promote(q, n, held, by);
	if (tells) /* behind that, for which n waits */
		pk_order_tell(q);
}

static void splice(struct pk_queue *q, struct pk_waiter *first, struct pk_waiter *last, int *held)
{
	pk_list_splice(q, first, last, held, PK_POLICY_shfl);
}

const struct pk_admit_ops pk_shfl = {PK_POLICY_shfl, true, enter, tend, leave, splice, pk_list_settle, NULL, NULL};
