/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Waits for the lock word by glibc's protocol; the contract is in word.h.
 *
 * State of the word
 *	from	to	by
 *	0	1	any thread: takes it
 *	0	2	a thread that has slept: takes it, somebody may still sleep
 *	1	2	a thread that is about to sleep
 *	1, 2	2	one that has slept, before it knows whether it sleeps again
 *	1, 2	0	the owner; after 2 it wakes one sleeper
 * A head that naps leaves it at 1: nobody is to wake it. If it had been woken in the stead of others who sleep there, they wait
 * until it has set the word, or its place has been given up (turn.c).
 * State of PK_FLAG_SLOW, a hint for those who come next (head_budget() below, turn.c, lot.c)
 *	0 -> 1	by a head that has spun in vain, before it sleeps, or that has got the word by spinning
 *		for long
 *	1 -> 0	by who has got the word by spinning for a while, or stolen it; on two CPUs a thief that has found it free
 *		at its first look seldom says so
 * State of PK_FLAG_BACK, a hint for those who come to a mutex (turn.c), for heads that have been called from the lot, and for who calls (lot.c)
 *	0 -> 1	by who surely comes back at once for the word (turn.c), or has slept apart many times before it got it, or had enough of that; by
 *		who queues as that is tried (turn.c), or has found that to be better (trial.c)
 *	1 -> 0	by who has not come back many times in a row, unless it has been tried, and to queue was better (turn.c)
 * State of PK_FLAG_APART, _PROVED: trial.h
 * A head that was asleep, and is woken for the word, says nothing about how long others hold it; nor does one that has
 * only looked. But on two CPUs one that has seen it held by the same owner for all of its spin does, if twice in a row: of a lock that is
 * kept by who sleeps (to accept, to log) nobody else would say so, as its heads have slept, and each would spin again, in vain.
 *
 * State of the owner, if it is told here (a hint for heads: own())
 *	0 -> tid	by who has taken the word; mutex.c writes it again, and counts the user
 *	tid -> 0	by the owner, before it lets the word go
 *
 * A thread that has slept cannot know whether it was the only sleeper (glibc's
 * own functions sleep here, too), so it takes the word with 2: its unlock wakes
 * the next. With 1 that wake-up would be lost. Who was to sleep, but found that the word had changed (EAGAIN), has taken no wake-up from
 * anybody: it takes the word with 1 still, as one that has just come, and its unlock need not call the kernel for nobody.
 *
 * Ledger
 *  O6	The acquire of the successful exchange pairs with the release in
 *	unlock: what the critical sections did. All ways in pass through it.
 *
 * Lost wake-ups: nobody returns from here without having taken the word after
 * it was woken, or having set it to 2 again. A nap puts that off, and ends with time. */
#include "pthread/word.h"

#include <errno.h>

#include "admit/order.h"
#include "base/await.h"
#include "pthread/lot.h"
#include "rt/clock.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/rounds.h"
#include "rt/spin.h"
#include "rt/thread.h"
#include "rt/topology.h"

#define NEVER UINT64_MAX

enum {
	/* The head looks after the queue at the start of a spin, and then every
	 * so many rounds: each look costs a line that the others are using. */
	TEND_ROUNDS = 32,
	/* And at the clock: a budget of a million rounds is longer than any patience. */
	CLOCK_ROUNDS = 4096,
	/* A head looks away for so long at most between two looks; with others behind it, for so long; */
	GAP_NS = 500,
	GAP_BUSY_NS = 250,
	/* and once it has seen a mutex held, and nobody's, so many times, for so long, which of the two. */
	NOBODYS = 2,
	GAP_AGAIN_NS = 4000,
	GAP_AGAIN_BUSY_NS = 500,
	/* but for no more than such a part of its budget, of which a few looks are to be left. */
	GAP_SHARE = 8,
	/* and before the first, if it has come back for the word, for so long; so many times as long, if it was alone, and as long
	 * as it is. */
	AWAY_NS = 20000,
	AWAY_ALONE = 8,
	/* It has come back if it got the word so short a time ago, and had waited for it for at least half of that; */
	BACK_NS = 2000,
	/* or, in a queue, so short a time ago. */
	SOON_NS = 1000,
	/* and surely so, if one part in so many of what its spin has taken is added: a processor's speed changes. */
	RECKONED = 8,
	/* If its users come back at once, and it has got the word so long ago, and no longer, it has used the lock since, most likely. */
	USED_NS = 8000,
	USED_MOST_NS = 100000,
	/* Alone, only if it has a habit of it: more than one in so many of its waits; */
	COMES = 5,
	/* and where there are several sockets, which are far apart, within what time, with such a wait; or in less than BACK_NS, with one
	 * for such a part of that; */
	LATE_NS = 3000,
	FAR_SHARE = 3,
	/* and a thief has one, if more than one in so many of its thefts. */
	STEALS = 14,
	/* Who has stolen the word so short a time ago does not steal it again: no more than it takes to hand it over; */
	STOLEN_NS = 200,
	/* or than the wait for it has taken, in tenths; */
	STOLEN_SHARE = 15,
	/* or if it had seen it free before, and another thread has got it: that one came back at once. */
	LOST_NS = 3000,
	/* A theft of fewer rounds takes as long as the lines of the word and the gate take to come, which rounds do not tell: one in so many
	 * is timed, and it has been preempted if it took longer. (On two CPUs the next one says that the lock is not slow, too.) */
	QUICK = 16,
	TIMED = 8,
	FARTHEST_NS = 5000,
	/* Who lurks spins for as long as a head if it has got the word in so small a part of a thief's budget the last time. */
	BRIEF = 3,
	/* If it has spun in vain it naps so many times. When that has been in vain, too, it does not the next 1, 3, 7, 15 times. */
	NAPS = 3,
	NAPS_IN_VAIN = 4,
	/* It knows when it has got the word if it has looked away for so many rounds before. */
	CLOCK_GAP = 4,
	/* One in so many heads spins for the word of a slow lock all the same. */
	PROBE = 16,
	/* A head that has slept, and has seen one owner for all of a spin so many times in a row, says that the lock is slow. */
	KEPT = 2,
	/* Where waiters sleep apart the head of a slow lock spins for so long at most. */
	BRIEF_NS = 6000,
	/* Who has slept there so many times in one wait has been woken for nothing: others come back at once. (Or for signals.) */
	VAIN = 32,
	/* And is impatient, if that has taken so many times the patience of a head; or so many times as often. */
	PATIENCES = 10,
};

struct turn {
	const struct pk_site *at;
	const struct pk_admit_ops *ops;
	struct pk_waiter *w; /* null: not a head */
	int take;	     /* what the word is set to when it is taken */
	uint64_t since;	     /* when the head first looked at the clock, or 0 */
	unsigned budget;     /* for how many rounds it has been spinning */
	uint64_t began;	     /* when the head read the clock in its spin, or had done with looking away before it, or 0, */
	unsigned rounds;     /* and how many rounds later it has got the word, */
	unsigned spun;	     /* and how many it has spun in all then, since it has come */
	bool lost;	     /* it has seen the word free, and has not got it */
	bool slow;	     /* what a head has seen of the lock: it is slow, */
	bool again;	     /* others come back for it at once, */
	bool alone;	     /* and nobody is behind it */
	bool nap;	     /* woken in vain */
	unsigned kept;	     /* by one owner, for as long as it has spun, so many times in a row */
	int owner;	     /* whom a head has seen last, */
	unsigned owners;     /* and how many, one after the other */
};

/* Overtaken for too long? A head that sleeps is woken by an unlock, so whenever it gets here again it has been
 * overtaken once more: no timer is needed. */
static void lose_patience(struct turn *t)
{
	uint64_t now = pk_clock_us();

	t->since = t->since ? t->since : now;
	if (now - t->since < pk_knob(patience) || (pk_load_relaxed(&t->at->gate->flags) & PK_FLAG_QUEUE))
		return;
	pk_or_relaxed(&t->at->gate->flags, PK_FLAG_QUEUE);
	pk_count(t->w, PK_STAT_impatient);
}

/* Nobody is behind the head w, as far as the tail says. */
static bool is_alone(const struct turn *t)
{
	return t->w && pk_load_relaxed(&t->at->gate->queue.tail) == pk_waiter_name(t->w);
}

/* All that a head wants to know of the lock before it spins, at once: each look takes the line from the holder. `seen`: the gate
 * a moment ago, when nobody was in its queue; or null. */
static void regard(struct turn *t, const struct pk_gate *seen)
{
	uint64_t flags = !t->at->marks ? 0 : seen ? seen->flags : pk_load_relaxed(&t->at->gate->flags);

	t->slow = flags & PK_FLAG_SLOW;
	t->again = flags & PK_FLAG_BACK;
	t->alone = is_alone(t);
}

/* Two threads that come back at once to a short critical section would hand it to and fro, each time with its lines,
 * where one of them could run it a hundred times; so would those of a queue. Who comes back for the word that it has just
 * had leaves it to others for a while. (If these do not want it so often, nobody comes back so soon.) */
static void look_away(const struct turn *t, unsigned times)
{
	do
		for (unsigned n = pk_rounds_in(AWAY_NS); !pk_spent(&n);)
			;
	while (--times && is_alone(t));
}

/* Count it; whether it has become a habit. It takes four times to begin with. */
static bool is_habit(uint8_t *count, bool once_more, unsigned one_in)
{
	if (!once_more)
		*count -= *count > 0;
	else if (*count < 5 * one_in)
		*count += one_in - 1;
	return once_more && *count >= 3 * one_in;
}

/* How long so many rounds have taken, in ns, or 0. */
static unsigned spun_ns(unsigned rounds)
{
	unsigned per_us = pk_rounds_in(1000);

	return per_us ? (unsigned)(rounds * UINT64_C(1000) / per_us) : 0;
}

/* How long it was at `now` since a spin had ended that began then, after so many rounds, in ns; NEVER if it cannot be told. */
static uint64_t since(uint64_t now, uint64_t began, unsigned rounds)
{
	unsigned spun = spun_ns(rounds);

	if (!pk_rounds_in(1000) || now == began)
		return NEVER;
	if (pk_unlikely(now - began < spun)) {
		pk_rounds_took(rounds, now - began);
		return 0;
	}
	return now - began - spun;
}

/* In a queue time goes by, so what a thread comes back for is seen before. */
void pk_word_come(const struct pk_site *at)
{
	uint64_t gone = NEVER;
	unsigned waited;

	pk_self.came = pk_rounds_in(1000) ? pk_clock_ns() : 0; /* else nobody could look away */
	if (pk_self.came && pk_self.won.word == at->word)
		gone = since(pk_self.came, pk_self.won.ns, pk_self.won.rounds);
	waited = pk_self.won.rounds ? spun_ns(pk_self.won.rounds) : pk_self.won.waited;
	pk_self.soon = gone < SOON_NS;
	pk_self.sure = pk_self.soon && gone + spun_ns(pk_self.won.rounds) / RECKONED < SOON_NS;
	pk_self.used = gone >= USED_NS && gone < USED_MOST_NS &&
		       (pk_self.stolen.word != at->word || pk_self.stolen.ns < pk_self.won.ns);
	pk_self.back = gone < BACK_NS && waited >= gone / 2;
	pk_self.late = gone < LATE_NS && waited >= gone / (gone < BACK_NS ? FAR_SHARE : 2) && pk_sockets > 1;
}

/* Two threads wait for each other as long as the other has the lock, less what they work outside. So who waits for half of the time that goes
 * by until it is back works outside for less than a third of what it holds the lock, whatever the way of its lines between the CPUs adds to
 * that; and who waits for a third of it for less than half, which is enough where that way is far. Alone it has to be a habit: some lock a few
 * times in a row, and have other work to do then. The head of a queue waits for a whole section. */
static bool is_back(const struct pk_site *at, bool alone)
{
	bool back = pk_self.back, soon = pk_self.soon, late = pk_self.late;

	pk_self.back = pk_self.soon = pk_self.late = false;
	return alone ? is_habit(&pk_self.habit, (back || late) && pk_self.came, COMES) : at->marks && (back || soon);
}

/* A head that has been called from the lot cannot know how soon it is back, and one that is there to be one of a few (turn.c) had the
 * lock for long. Where others come back at once, and look away, it does as they do: it would take the lock from who has just got it. */
static bool is_told(const struct turn *t)
{
	return pk_sockets > 1 && t->again && !t->alone && t->w->manner == PK_CALLED;
}

/* How far apart the looks of a head are from then on that has seen the lock taken again and again: no nearer than they were, and so
 * that a few are left of its budget. */
static unsigned seldom(const struct turn *t, unsigned widest, unsigned budget)
{
	unsigned gap = pk_rounds_in(t->alone ? GAP_AGAIN_NS : GAP_AGAIN_BUSY_NS);

	gap = gap < budget / GAP_SHARE ? gap : budget / GAP_SHARE;
	return gap > widest ? gap : widest;
}

/* Who has taken the word says at once whose the lock is, before it leaves the queue, and calls others: heads take a mutex that is held,
 * and nobody's, for one that has just been taken, or is about to be let go. */
static void own(const struct pk_site *at)
{
	if (at->owner)
		pk_store_relaxed(at->owner, pk_self.tid);
}

/* The head sees another thread have it. Where there is one socket, and others wait apart, it tells whether a head is of use
 * (admit/order.h); now, as nobody waits for it: the critical section is another one's. */
static void see_owner(struct turn *t, int owner)
{
	struct pk_queue *q = &t->at->gate->queue;

	t->owner = owner;
	t->owners++;
	if (pk_sockets > 1 || t->again || !pk_order_learns || t->ops->policy != PK_POLICY_shfl)
		return;
	if (t->owners == PK_ORDER_PASSES)
		pk_order_passes(q);
	else if (t->owners == 1 && pk_order_sees(q, false))
		pk_order_tell(q);
}

/* Spin for so many rounds; true when the word has been taken.
 *
 * A head looks away for longer and longer: each look takes the line from the holder, who,
 * if it comes back at once, can use it many times in the meantime. That it does so is seen by its owner: for a few
 * instructions at either end of a critical section it is nobody's, so who looks now and then, and finds it so, sees short sections
 * one after the other. To look seldom costs little then: nobody has it only for as long as it takes to come back. */
static bool spin(struct turn *t, unsigned budget)
{
	unsigned widest = budget && t->w ? pk_rounds_in(t->alone ? GAP_NS : GAP_BUSY_NS) : 0, gap = 1;
	unsigned tend = budget / TEND_ROUNDS * TEND_ROUNDS; /* due when the budget has come down to that */
	unsigned looked = budget;			    /* its value when the clock was last looked at */
	unsigned left = budget;				    /* and at t->began */
	unsigned nobodys = 0;
	int whose = 0; /* it was seen held by that one only; or not so: -1 */
	const unsigned whole = budget;

	do {
		int seen = pk_load_relaxed(t->at->word);

		if (!seen) {
			if (pk_cas_acquire(t->at->word, &seen, t->take)) { /* O6 */
				own(t->at);
				t->rounds = left - budget;
				t->spun += whole - budget;
				return true;
			}
			t->lost = true;
			whose = -1;
		} else if (widest && t->at->owner) {
			int owner = pk_load_relaxed(t->at->owner);

			if (!owner && ++nobodys == NOBODYS)
				gap = widest = seldom(t, widest, whole);
			else if (owner && owner != t->owner)
				see_owner(t, owner);
			whose = owner && (!whose || whose == owner) ? owner : -1;
		}
		if (t->w && budget <= tend) {
			unsigned spent = t->ops->tend ? t->ops->tend(&t->at->gate->queue, t->w, t->at->word) : 0;

			if (pk_unlikely(looked - budget >= CLOCK_ROUNDS)) {
				looked = budget;
				lose_patience(t);
			}
			budget -= spent < budget ? spent : budget;
			tend = budget - (budget < TEND_ROUNDS ? budget : TEND_ROUNDS);
		}
		if (widest) {
			if (!t->began && gap >= CLOCK_GAP) {
				t->began = pk_clock_ns();
				left = budget;
			}
			for (unsigned n = gap; n && budget > 1; n--)
				pk_spent(&budget);
			gap = gap < widest / 2 ? 2 * gap : widest;
		}
	} while (!pk_spent(&budget));
	t->spun += whole;
	t->began = 0;
	t->kept = whose > 0 ? t->kept + 1 : whole ? 0 : t->kept;
	return false;
}

/* Without a place, and once it has slept, it does as glibc's waiters do: it sets the word to 2 whether it is free or not, which takes the
 * line once. To look first takes it twice, while everybody waits for who has been woken. */
static bool claim(struct turn *t)
{
	if (pk_xchg_acquire(t->at->word, 2)) /* O6 */
		return false;
	own(t->at);
	return true;
}

/* Whether who waits for the word by spinning is served in time. */
static void mark(const struct pk_site *at, bool slow)
{
	uint64_t seen = pk_load_relaxed(&at->gate->flags);

	if (!at->marks || !(seen & PK_FLAG_SLOW) == !slow)
		return;
	if (slow)
		pk_or_relaxed(&at->gate->flags, PK_FLAG_SLOW);
	else
		pk_and_relaxed(&at->gate->flags, ~PK_FLAG_SLOW);
}

/* Whether the head that has got the word by spinning would as well have slept; no, if it cannot be told. */
static bool took_long(const struct turn *t)
{
	unsigned limit = pk_rounds_in(PK_SPIN_LONG_NS);

	return limit && t->spun > limit;
}

/* How long a head spins: for as long as those behind it do, unless they do not. On a slow lock less, where others wait apart,
 * and where nobody else may spin as CPUs are few, it does not. */
static unsigned head_budget(const struct turn *t)
{
	const struct pk_site *at = t->at;
	unsigned brief;

	if (!pk_spin_limit(t->w->socket))
		return t->slow && pk_uses(pk_load_relaxed(&t->w->status)) % PROBE ? 0 : at->spin;
	if (pk_lot_adapts && at->marks && !t->slow && t->take == 1)
		return pk_spin_patient(t->w->socket);
	brief = t->slow && pk_lot_apart(at, t->w->socket) ? pk_rounds_in(BRIEF_NS) : 0;
	return brief && brief < at->spin ? brief : at->spin;
}

/* Where sections are long, and who leaves one comes back before a sleeper is up, each unlock wakes the head in vain. So one that
 * has been overtaken naps, once after each sleep: meanwhile nobody wakes it (doc/DESIGN.md section 10). Not if it is out
 * of patience or has a deadline, nor where the word stands for something else, nor where others sleep apart, and may be waiting for
 * what it owes. (Where they do so no more some may be left, who wait until the nap is over.) */
static bool may_nap(const struct turn *t, const struct pk_deadline *deadline)
{
	uint64_t flags = pk_load_relaxed(&t->at->gate->flags);

	return t->w && t->nap && !deadline && !t->at->pass && !(flags & (PK_FLAG_QUEUE | PK_FLAG_APART)) &&
	       (flags & PK_FLAG_BACK || !pk_lot_apart(t->at, t->w->socket));
}

/* The head has got the word: for when it comes back. To read the clock now makes the critical section long (lbench 0.85), so the time
 * is reckoned from when it was waiting, and how long that was when it is back; but for one that was alone. If that one has looked
 * away it has not waited for the other. */
static void note(const struct turn *t, bool alone, bool away)
{
	alone &= pk_self.came != 0;
	pk_self.won.word = alone || (t->take == 1 && t->at->marks && t->began) ? t->at->word : NULL;
	pk_self.won.ns = alone ? pk_clock_ns() : t->began;
	pk_self.won.rounds = alone ? 0 : t->rounds;
	pk_self.won.waited = alone && !away ? (unsigned)(pk_self.won.ns - pk_self.came) : 0;
}

/* Who has got the word in another way, at that time, or 0: to come back for it counts, but it has not waited by spinning. */
static void note_other(const struct pk_site *at, uint64_t ns)
{
	pk_self.won.word = ns ? at->word : NULL;
	pk_self.won.ns = ns;
	pk_self.won.rounds = pk_self.won.waited = 0;
}

/* One that has waited apart, and has slept so often in vain, had better queue: if others do so, or if it is impatient, as to wait
 * apart is not good for this one. Else there is nothing to be won. It has set the word to 2 since it was woken, so it owes nobody a
 * wake-up. `since`: when it came, or 0 if that is not known. */
static bool has_had_enough(const struct pk_site *at, uint64_t since, unsigned sleeps)
{
	bool impatient;
	uint64_t flags;

	if (sleeps < VAIN)
		return false;
	impatient = sleeps >= VAIN * PATIENCES || (since && pk_clock_ns() - since > pk_knob(patience) * UINT64_C(1000) * PATIENCES);
	flags = pk_load_relaxed(&at->gate->flags);
	if (!impatient)
		return flags & PK_FLAG_BACK && !(flags & (PK_FLAG_APART | PK_FLAG_TRIED));
	pk_and_relaxed(&at->gate->flags, ~PK_FLAG_APART);
	pk_or_relaxed(&at->gate->flags, PK_FLAG_BACK);
	return true;
}

/* Who has waited apart has got it, after so many sleeps. `dated`: it knows when the last one ended (turn.c). `counts`: it has
 * stayed away as it does not pay to queue. */
static void note_apart(const struct pk_site *at, unsigned slept, bool dated, bool counts)
{
	if (slept >= VAIN && !(pk_load_relaxed(&at->gate->flags) & PK_FLAG_BACK))
		pk_or_relaxed(&at->gate->flags, PK_FLAG_BACK);
	if (!dated)
		return;
	if (counts)
		pk_order_bypassed(&at->gate->queue);
	note_other(at, pk_self.came);
}

int pk_word_wait(const struct pk_site *at, const struct pk_admit_ops *ops, struct pk_waiter *w, bool slept,
		 const struct pk_deadline *deadline)
{
	const struct pk_site now = {at->word, at->gate, at->spin, at->marks, at->pass, at->owner, NULL};
	struct turn t = {.at = &now, .ops = ops, .w = w, .take = slept ? 2 : 1};
	bool alone, away, look = false, apart = ops && !w, dated = apart && pk_self.came;
	const bool counts = dated && !pk_lot_pays(at);
	const uint64_t came = dated ? pk_self.came : 0;
	unsigned looks = 0, sleeps = 0;
	int late = 0;

	if (w)
		regard(&t, at->seen);
	alone = t.alone && !slept;
	/* Not on a slow lock, where it is to sleep, nor with a deadline, which may be nearer. */
	away = w && !slept && (is_back(at, alone) || is_told(&t)) && !deadline && !t.slow;
	if (away) {
		if (!alone)
			pk_spin_away();
		look_away(&t, alone ? AWAY_ALONE : 1);
		t.began = alone ? 0 : pk_clock_ns(); /* it may get the word at its first look */
		regard(&t, NULL);
	}
	/* Without a place in a queue nothing bounds how many spin: as in glibc, none. */
	while (!(t.w || t.take == 1 ? spin(&t, t.budget = t.w ? head_budget(&t) : 0) : claim(&t))) {
		int seen = pk_load_relaxed(at->word);
		bool nap;

		if (apart && has_had_enough(at, came, sleeps))
			return EAGAIN;
		if (w && seen)
			lose_patience(&t); /* first: it does not nap while others queue behind it */
		nap = seen == 1 && may_nap(&t, deadline);
		if (!seen || (seen == 1 && !nap && !pk_cas_relaxed(at->word, &seen, 2)))
			continue; /* it has just been let go: try again */
		if (w) {
			if (t.budget && (t.take == 1 || (t.kept >= KEPT && pk_spin_cramped())))
				mark(at, true);
			pk_spin_missed(w); /* backoff has let it spin at the word, as one of many */
			pk_count(w, PK_STAT_slept);
		}
		/* Without a node it may be a handler, whose thread is asleep on one. */
		if (w)
			pk_store_relaxed(&pk_self.asleep, true);
		if (nap)
			late = pk_futex_wait_for(at->word, 1, PK_NAP_US) == EAGAIN ? EAGAIN : 0;
		else if (at->pass || apart)
			late = pk_doze_alone(at->word, 2, deadline, &looks, &look);
		else
			late = pk_futex_sleep(at->word, 2, deadline);
		if (w)
			pk_store_relaxed(&pk_self.asleep, false);
		if (late == ETIMEDOUT)
			return late;
		if (look && !apart && at->pass(at->word))
			return EALREADY;
		if (dated)
			pk_self.came = pk_clock_ns();
		if (late != EAGAIN)
			t.take = 2;
		t.nap = !nap;
		sleeps++;
		if (w && !pk_waiter_is_head(w))
			t.w = w = NULL; /* a signal handler gave the place up */
		else if (w)
			regard(&t, NULL);
	}
	if (apart)
		note_apart(at, sleeps, dated, counts);
	if (!w)
		return 0;
	if (t.take == 1 && t.budget)
		mark(at, took_long(&t));
	note(&t, alone, away);
	return 0;
}

static bool take(const struct pk_site *at)
{
	int seen = 0;

	if (pk_load_relaxed(at->word) || !pk_cas_acquire(at->word, &seen, 1)) /* O6 */
		return false;
	own(at);
	return true;
}

bool pk_word_barge(const struct pk_site *at)
{
	if (pk_site_flags(at) & PK_FLAG_QUEUE || !take(at))
		return false;
	note_other(at, pk_self.came); /* the clock is not read in the critical section */
	return true;
}

/* Within what time who has stolen the word last is not to steal it again: the longest of the three. Counted from the end of the theft as
 * its rounds have it; what it took beyond them is added. */
static unsigned sated_ns(void)
{
	unsigned least = pk_self.stolen.lost ? LOST_NS : STOLEN_NS, spun = spun_ns(pk_self.stolen.rounds), took = spun;
	uint64_t waited;

	if (pk_self.stolen.rounds < QUICK && pk_self.stolen.took > spun)
		took = pk_self.stolen.took;
	waited = (uint64_t)took * STOLEN_SHARE / 10;
	return (waited > least ? (unsigned)waited : least) + took - spun;
}

/* One in so many: it has just got the word, and is not to be kept from its section. */
static void time_theft(const struct pk_site *at, uint64_t began, unsigned rounds)
{
	uint64_t took;

	if (pk_self.stolen.word != at->word)
		pk_self.stolen.took = 0;
	if (rounds >= QUICK || !pk_rounds_in(1000) || ++pk_self.stolen.times % TIMED)
		return;
	took = pk_clock_ns() - began;
	if (took < FARTHEST_NS)
		pk_self.stolen.took = (uint16_t)took;
}

/* Two thieves would hand a section to and fro as well (look_away()). Who is back for what it has just stolen has got less than its way
 * to this CPU, or the wait for it, costs, or has stolen it from one that wanted it again at once, and does so itself. If that is a
 * habit it is to queue, which means to sleep, as thieves are where nobody may spin. `brief`: the budget of one that has got it
 * soon the last time. `vain`: it has spun, and has not got it. A slow lock on one socket it is not to spin for, but to leave to the head:
 * it would do so in vain, mostly. (With several sockets the head may be far away.) */
static bool steal(const struct pk_site *at, unsigned brief, bool *vain)
{
	struct turn t = {.at = at, .take = 1};
	unsigned budget = pk_spin_steal(at->spin);
	uint64_t now, flags = pk_load_relaxed(&at->gate->flags);
	bool back, taken;

	*vain = false;
	if (flags & (PK_FLAG_QUEUE | PK_FLAG_SPINNER))
		return false;
	if (flags & PK_FLAG_SLOW && pk_sockets == 1 && pk_spin_anywhere())
		return take(at);
	now = pk_clock_ns();
	back = pk_self.stolen.word == at->word &&
	       since(now, pk_self.stolen.ns, pk_self.stolen.rounds) < sated_ns();
	if (is_habit(&pk_self.greed, back, STEALS))
		return false;
	if (pk_or_relaxed(&at->gate->flags, PK_FLAG_SPINNER) & PK_FLAG_SPINNER)
		return false;
	taken = spin(&t, pk_self.stolen.word == at->word && pk_self.stolen.rounds <= budget / BRIEF ? brief : budget);
	pk_and_relaxed(&at->gate->flags, ~PK_FLAG_SPINNER);
	*vain = !taken && budget;
	if (taken) {
		if (t.rounds || !budget || !pk_spin_cramped() || pk_self.stolen.times % TIMED == 0)
			mark(at, false);
		time_theft(at, now, t.rounds);
		pk_self.stolen.ns = now;
		pk_self.stolen.rounds = t.rounds;
		pk_self.stolen.lost = t.lost;
	}
	pk_self.stolen.word = taken ? at->word : NULL;
	return taken;
}

bool pk_word_steal(const struct pk_site *at)
{
	bool vain;

	return steal(at, pk_spin_steal(at->spin), &vain);
}

/* Nobody wakes a napper, so nobody has to know of it. It looks once each time: who finds the word free then, and not in a
 * spin before, has found that it is free for long now and then. */
static bool nap_for(const struct pk_site *at)
{
	const uint32_t nobody = 0;
	unsigned none = pk_self.no_naps; /* a handler may lurk, too */

	if (none) {
		pk_self.no_naps = (uint8_t)(none - 1);
		return false;
	}
	for (unsigned i = 0; i < NAPS; i++) {
		pk_futex_wait_for(&nobody, 0, PK_NAP_US);
		if (pk_load_relaxed(&at->gate->flags) & PK_FLAG_QUEUE)
			break;
		if (take(at)) {
			pk_self.napped = 0;
			return true;
		}
	}
	pk_self.napped += pk_self.napped < NAPS_IN_VAIN;
	pk_self.no_naps = (uint8_t)((1u << pk_self.napped) - 1);
	return false;
}

/* The word of a reader-writer lock says who is in front, not who has the lock: that it is free is of no use. And who has others
 * of a broadcast behind it (pthread/cond.c) is not to keep them waiting. */
bool pk_word_lurk(const struct pk_site *at)
{
	bool vain;

	if (!at->marks || pk_self.chain)
		return pk_word_steal(at);
	return steal(at, at->spin, &vain) || (vain && pk_rounds_in(1000) && nap_for(at));
}
