/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cond-tickets: no wake-up of a condition variable is stolen, lost or had twice.
 *
 * Every wait and every call of signal or broadcast takes numbers from one clock, which ticks only while the user's
 * mutex is held:
 *
 *   a wait    E, just before the call; R, just after it (a cancelled one: in its cleanup handler)
 *   a call    T, where the mutex is held meanwhile; else T1 before the unlock and T2 after the next lock
 *
 * A round of random waits and calls ends when all that is left of it are threads that wait without a deadline.
 * From the log follows how many of them may rightly be blocked still; each cond gets so many signals and no more,
 * and then everybody must come out.
 *
 * The rule.  A call acts at one moment of its [T1,T2].  A wait is blocked from E on, until a call picks it or it
 * gives up (times out, is cancelled), before R.  A signal picks one of the blocked, if there is one; a broadcast
 * picks all.  Whoever gives up was picked by nobody.  What can be seen of that in a log:
 *
 * (1) Each wait that returned 0 has a call whose [T1,T2] overlaps its (E,R): a signal that no other wait has, or a
 *     broadcast.  If not, it returned for nothing, or for a signal that another one had too, or it stole: took a
 *     signal that had been sent before it came.
 * (2) Take the last moment at which nobody was blocked (a broadcast makes one).  Every signal that began after it found
 *     somebody and picked one.  So at the end no more are blocked than the waits that began after it and did not give
 *     up, less the signals that began after it.  Which moment that is the log does not say; so as many may be blocked
 *     as this difference is for the best moment after which no broadcast began.  If more are, a signal was lost:
 *     altogether, or to one that gave up.
 *
 * (1) is a matching of two sets of intervals.  A signal that was lost while nobody is left blocked can not be told from
 * one whose thread was slow to come out; so rounds are short, and most signals are sent only if somebody has yet to be
 * picked.
 *
 * A waiter of glibc's that gives up just after it has been picked signals in its turn, which may reach somebody who
 * came later.  So without the library, a call lasts for (1) until those have returned who gave up meanwhile; for (2)
 * it makes no difference.  Process-shared conds may return for nothing; for them (2) is all.
 *
 * No thread has cancellation disabled: a wait that is cancelled then may return once for nothing.
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CREW = 64, CONDS = 3, OPERATIONS = 800, ENTRIES = OPERATIONS + 4 * CREW };

/* ---- the log and its checker ---- */

struct span {
	uint32_t from, to; /* no two begin or end at the same number, but for those that never end */
};

#define NEVER UINT32_MAX

enum result { BLOCKED, WOKEN, TIMED_OUT, CANCELLED };

struct wait {
	struct span at;
	enum result result;
	int cond;
};

struct call {
	struct span at; /* from == to: the mutex was held */
	bool all;
	int cond;
};

struct log { /* both kinds in the order of their beginnings */
	uint32_t now;
	unsigned waits, calls;
	struct wait wait[ENTRIES];
	struct call call[ENTRIES];
};

struct spans { /* by their beginnings; those that are open now are moved to the front */
	unsigned n, next, open;
	struct span s[ENTRIES];
};

static struct spans left, right; /* of the checker, which is one thread's */

static bool overlap(struct span a, struct span b)
{
	return a.from <= b.to && b.from <= a.to;
}

static void put(struct spans *set, struct span s)
{
	set->s[set->n++] = s;
}

/* The open span that ends first; set->open if none is open. */
static unsigned soonest(const struct spans *set)
{
	unsigned best = set->open;

	for (unsigned i = 0; i < set->open; i++)
		if (best == set->open || set->s[i].to < set->s[best].to)
			best = i;
	return best;
}

static struct span take(struct spans *set, unsigned i)
{
	struct span s = set->s[i];

	set->s[i] = set->s[--set->open];
	return s;
}

/*
 * The number of spans in `left' that get no partner when as many pairs as possible are made, one of `left' and one of
 * `right' that overlap; *example is one of them.  Uses up both.
 *
 * Whatever ends first gets, of its possible partners, the one that ends first.  All of these reach beyond the end where
 * we stand, and so do all spans that are left; so this is the one that overlaps least of the others: no loss.
 */
static unsigned unpaired(struct span *example)
{
	struct spans *side[2] = {&left, &right};
	unsigned alone = 0;

	left.next = left.open = right.next = right.open = 0;
	for (;;) {
		uint64_t begins = UINT64_MAX, ends = UINT64_MAX;
		unsigned first[2];
		int b = 0, e = 0;

		for (int i = 0; i < 2; i++) {
			first[i] = soonest(side[i]);
			if (side[i]->next < side[i]->n && side[i]->s[side[i]->next].from < begins)
				begins = side[b = i]->s[side[i]->next].from;
			if (side[i]->open && side[i]->s[first[i]].to < ends)
				ends = side[e = i]->s[first[i]].to;
		}
		if (begins == UINT64_MAX && ends == UINT64_MAX)
			return alone;
		if (begins <= ends) {
			side[b]->s[side[b]->open++] = side[b]->s[side[b]->next++];
			continue;
		}
		struct span over = take(side[e], first[e]);
		if (side[!e]->open) {
			take(side[!e], first[!e]);
		} else if (e == 0) {
			alone++;
			*example = over;
		}
	}
}

/* A call that may be handed on by those who give up lasts until the last of them has returned. */
static struct span handed_on(const struct log *l, const struct call *c)
{
	struct span at = c->at;

	for (unsigned i = 0; i < l->waits && l->wait[i].at.from < at.to; i++) {
		const struct wait *w = &l->wait[i];

		if (w->cond == c->cond && w->result >= TIMED_OUT && overlap(w->at, at) && w->at.to > at.to)
			at.to = w->at.to;
	}
	return at;
}

/* Rule (1): how many waits returned 0 without a call of their own. */
static unsigned unexplained(const struct log *l, int cond, bool may_hand_on, struct span *example)
{
	static struct spans broadcasts;

	left.n = right.n = broadcasts.n = 0;
	for (unsigned i = 0; i < l->calls; i++)
		if (l->call[i].cond == cond)
			put(l->call[i].all ? &broadcasts : &right,
			    may_hand_on ? handed_on(l, &l->call[i]) : l->call[i].at);
	for (unsigned i = 0; i < l->waits; i++) {
		const struct wait *w = &l->wait[i];
		bool served = w->cond != cond || w->result != WOKEN;

		for (unsigned n = 0; n < broadcasts.n && !served; n++)
			served = overlap(broadcasts.s[n], w->at);
		if (!served)
			put(&left, w->at);
	}
	return unpaired(example);
}

static unsigned blocked_in(const struct log *l, int cond)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->waits; i++)
		n += l->wait[i].cond == cond && l->wait[i].result == BLOCKED;
	return n;
}

/* Rule (2): how many may be blocked rightly, at most. */
static unsigned may_be_blocked(const struct log *l, int cond)
{
	unsigned w = l->waits, c = l->calls, blocked = blocked_in(l, cond);
	int more = 0, most = 0; /* waits than signals, from a moment on that goes back */

	while (w > 0) {
		if (c > 0 && l->call[c - 1].at.from > l->wait[w - 1].at.from) {
			if (l->call[--c].cond != cond)
				continue;
			if (l->call[c].all)
				break;
			more--;
		} else if (l->wait[--w].cond == cond && l->wait[w].result <= WOKEN && ++more > most) {
			most = more;
		}
	}
	return (unsigned)most < blocked ? (unsigned)most : blocked;
}

/* ---- the checker's own test ---- */

enum { AT_MOST = 5 };

static const struct story {
	const char *name;
	struct wait wait[AT_MOST]; /* until the first that begins at 0 */
	struct call call[AT_MOST];
	unsigned unexplained, lost;
	unsigned when_handed_on; /* unexplained, where those who give up may hand on */
} stories[] = {
	{"right: one signal, one wait", {{{1, 3}, WOKEN, 0}}, {{{2, 2}, false, 0}}, 0, 0, 0},
	{"right: a signal to nobody is not kept", {{{2, NEVER}, BLOCKED, 0}}, {{{1, 1}, false, 0}}, 0, 0, 0},
	{"right: a signal while one gives up", {{{1, 3}, TIMED_OUT, 0}}, {{{2, 2}, false, 0}}, 0, 0, 0},
	{"right: a broadcast to many",
	 {{{1, 6}, WOKEN, 0}, {{2, 4}, WOKEN, 0}, {{5, NEVER}, BLOCKED, 0}},
	 {{{3, 3}, true, 0}},
	 0,
	 0,
	 0},
	{"right: in an order of its own",
	 {{{1, 9}, WOKEN, 0}, {{2, 6}, WOKEN, 0}, {{4, 7}, CANCELLED, 0}},
	 {{{3, 3}, false, 0}, {{5, 5}, false, 0}},
	 0,
	 0,
	 0},
	{"right: a signal after the unlock, to one who came meanwhile",
	 {{{3, 4}, WOKEN, 0}},
	 {{{2, 5}, false, 0}},
	 0,
	 0,
	 0},
	{"right: the signal on its way has picked the first",
	 {{{1, NEVER}, BLOCKED, 0}, {{3, NEVER}, BLOCKED, 0}},
	 {{{2, 2}, false, 0}, {{4, 4}, false, 0}},
	 0,
	 2, /* both are picked, and none may stay */
	 0},
	{"lost: nobody woke", {{{1, NEVER}, BLOCKED, 0}}, {{{2, 2}, false, 0}}, 0, 1, 0},
	{"lost: after the unlock", {{{1, NEVER}, BLOCKED, 0}}, {{{2, 3}, false, 0}}, 0, 1, 0},
	{"lost: one of two",
	 {{{1, NEVER}, BLOCKED, 0}, {{2, 5}, WOKEN, 0}},
	 {{{3, 3}, false, 0}, {{4, 4}, false, 0}},
	 0,
	 1,
	 0},
	{"lost: to one that timed out",
	 {{{1, NEVER}, BLOCKED, 0}, {{2, 4}, TIMED_OUT, 0}},
	 {{{3, 3}, false, 0}},
	 0,
	 1,
	 0},
	{"lost: to one that was cancelled",
	 {{{1, 4}, CANCELLED, 0}, {{2, NEVER}, BLOCKED, 0}},
	 {{{3, 3}, false, 0}},
	 0,
	 1,
	 0},
	{"lost: a broadcast forgot one", {{{1, NEVER}, BLOCKED, 0}, {{2, 4}, WOKEN, 0}}, {{{3, 3}, true, 0}}, 0, 1, 0},
	{"lost: on one that a broadcast had picked already",
	 {{{1, 5}, WOKEN, 0}, {{3, NEVER}, BLOCKED, 0}},
	 {{{2, 2}, true, 0}, {{4, 4}, false, 0}},
	 0,
	 1,
	 0},
	{"stolen: by one that came later",
	 {{{1, NEVER}, BLOCKED, 0}, {{3, 4}, WOKEN, 0}},
	 {{{2, 2}, false, 0}},
	 1,
	 0, /* the count is right */
	 1},
	{"stolen: from another cond", {{{1, 3}, WOKEN, 1}}, {{{2, 2}, false, 0}}, 1, 0, 1},
	{"stolen: out before the call", {{{1, 2}, WOKEN, 0}}, {{{3, 3}, false, 0}}, 1, 0, 1},
	{"twice: one signal, two waits", {{{1, 4}, WOKEN, 0}, {{2, 5}, WOKEN, 0}}, {{{3, 3}, false, 0}}, 1, 0, 1},
	{"twice: two signals, three waits",
	 {{{1, 6}, WOKEN, 0}, {{2, 7}, WOKEN, 0}, {{4, 8}, WOKEN, 0}},
	 {{{3, 3}, false, 0}, {{5, 5}, false, 0}},
	 1,
	 0,
	 1},
	{"for nothing", {{{1, 2}, WOKEN, 0}}, {{{0, 0}, false, 0}}, 1, 0, 1},
	{"handed on by one that gave up to one that came later",
	 {{{1, 5}, TIMED_OUT, 0}, {{3, 6}, WOKEN, 0}},
	 {{{2, 2}, false, 0}},
	 1,
	 0,
	 0},
	{"handed on twice over",
	 {{{1, 5}, TIMED_OUT, 0}, {{3, 7}, CANCELLED, 0}, {{6, 8}, WOKEN, 0}},
	 {{{2, 2}, false, 0}},
	 1,
	 0,
	 0},
};

START_TEST(checker_on_stories)
{
	const struct story *story = &stories[_i];
	struct log *l = calloc(1, sizeof *l);
	unsigned bad[2] = {0}, lost = 0;
	struct span example;

	while (l->waits < AT_MOST && story->wait[l->waits].at.from) {
		l->wait[l->waits] = story->wait[l->waits];
		l->waits++;
	}
	while (l->calls < AT_MOST && story->call[l->calls].at.from) {
		l->call[l->calls] = story->call[l->calls];
		l->calls++;
	}
	for (int cond = 0; cond < CONDS; cond++) {
		for (int hand_on = 0; hand_on < 2; hand_on++)
			bad[hand_on] += unexplained(l, cond, hand_on, &example);
		lost += blocked_in(l, cond) - may_be_blocked(l, cond);
	}
	ck_assert_msg(bad[0] == story->unexplained && bad[1] == story->when_handed_on && lost == story->lost,
		      "%s: %u, %u unexplained and %u lost", story->name, bad[0], bad[1], lost);
	free(l);
}
END_TEST

/* The same pairs, by trying: may left span i have a partner, where some are asked to look for another? */
static bool pair_up(unsigned i, int *partner, bool *asked)
{
	for (unsigned n = 0; n < right.n; n++) {
		if (asked[n] || !overlap(left.s[i], right.s[n]))
			continue;
		asked[n] = true;
		if (partner[n] < 0 || pair_up(partner[n], partner, asked)) {
			partner[n] = i;
			return true;
		}
	}
	return false;
}

/* n spans in [0,4n): each number is used once, the ones of the other set are left out. */
static void random_spans(struct spans *set, unsigned n, uint32_t *luck, bool *used)
{
	set->n = 0;
	for (uint32_t from = 0; from < 4 * n && set->n < n; from++) {
		uint32_t to = from + dice(luck) % (2 * n);

		if (used[from] || used[to] || *luck >> 16 & 1)
			continue;
		used[from] = used[to] = true;
		put(set, (struct span){from, to});
	}
}

START_TEST(checker_pairs_as_many_as_possible)
{
	uint32_t luck = 99;

	for (int round = 0; round < 20000; round++) {
		enum { N = 9 };
		bool used[8 * N] = {false}, first = dice(&luck) & 1;
		int partner[N], lonely = 0;
		struct span example;

		random_spans(first ? &left : &right, 1 + dice(&luck) % N, &luck, used);
		random_spans(first ? &right : &left, 1 + dice(&luck) % N, &luck, used);
		memset(partner, -1, sizeof partner);
		for (unsigned i = 0; i < left.n; i++)
			lonely += !pair_up(i, partner, (bool[N]){false});
		ck_assert_uint_eq(unpaired(&example), lonely);
	}
}
END_TEST

/*
 * A right condvar on paper: what it does by chance must be found right; and where all calls are made with the mutex
 * held, the number that may be blocked is not just a bound.
 */
struct model {
	struct log *log;
	int blocked[ENTRIES], blocked_n, picked[ENTRIES], picked_n; /* waits */
	int under_way[ENTRIES], under_way_n;			    /* calls that have not acted */
};

static int draw(int *from, int *n, uint32_t luck)
{
	int i = luck % *n, drawn = from[i];

	from[i] = from[--*n];
	return drawn;
}

static void model_act(struct model *m, int c, uint32_t *luck)
{
	int n = m->log->call[c].all ? m->blocked_n : m->blocked_n > 0;

	while (n-- > 0)
		m->picked[m->picked_n++] = draw(m->blocked, &m->blocked_n, dice(luck));
}

static void model_step(struct model *m, uint32_t luck, bool held_only)
{
	struct log *l = m->log;
	int n;

	l->now++;
	switch (luck >> 8 & 7) {
	case 0:
	case 1:
	case 2:
		l->wait[l->waits] = (struct wait){{l->now, NEVER}, BLOCKED, 0};
		m->blocked[m->blocked_n++] = l->waits++;
		break;
	case 3:
	case 4:
		l->call[l->calls] = (struct call){{l->now, l->now}, luck >> 12 & 7 ? false : true, 0};
		n = l->calls++;
		if (held_only || luck >> 16 & 1)
			model_act(m, n, &luck);
		else
			m->under_way[m->under_way_n++] = n;
		break;
	case 5:
		if (m->picked_n) {
			n = draw(m->picked, &m->picked_n, luck);
			l->wait[n] = (struct wait){{l->wait[n].at.from, l->now}, WOKEN, 0};
		}
		break;
	case 6:
		if (m->blocked_n) {
			n = draw(m->blocked, &m->blocked_n, luck);
			l->wait[n] = (struct wait){{l->wait[n].at.from, l->now}, TIMED_OUT, 0};
		}
		break;
	default:
		if (m->under_way_n) { /* acts at its end */
			n = draw(m->under_way, &m->under_way_n, luck);
			model_act(m, n, &luck);
			l->call[n].at.to = l->now;
		}
	}
}

START_TEST(checker_accepts_what_is_right)
{
	struct log *l = calloc(1, sizeof *l);
	uint32_t luck = 7;

	for (int round = 0; round < 5000; round++) {
		static struct model m;
		struct span example;
		bool held_only = round % 2;

		m = (struct model){.log = l};
		l->now = l->waits = l->calls = 0;
		for (int steps = dice(&luck) % 80; steps > 0; steps--)
			model_step(&m, dice(&luck), held_only);
		while (m.under_way_n) {
			int c = draw(m.under_way, &m.under_way_n, dice(&luck));

			model_act(&m, c, &luck);
			l->call[c].at.to = ++l->now;
		}
		ck_assert_uint_eq(unexplained(l, 0, false, &example), 0);
		if (held_only)
			ck_assert_int_eq(may_be_blocked(l, 0), m.blocked_n);
		else
			ck_assert_int_ge(may_be_blocked(l, 0), m.blocked_n);
	}
	free(l);
}
END_TEST

/* ---- the scene ---- */

enum { SCENE_MS = 60, ROUND_MS = 60, PATIENCE_S = 20, CALM_NS = 30000 };

/*
 * Rounds differ in what they let us see.  A signal that nobody needs, or a broadcast, may hide that one was lost or had
 * twice before; so not all rounds have those.  In calm ones whoever was woken has time to come out before the next
 * call, which it could otherwise be said to have been woken by.
 */
struct flavour {
	bool wasteful, broadcasts, calm;
};

static const struct flavour flavours[] = {
	{false, false, false},
	{false, false, true},
	{true, true, false},
	{false, true, false},
};

enum { FLAVOURS = sizeof flavours / sizeof flavours[0] };

struct plan {
	const char *name;
	int conds;
	int timed; /* of 8 waits */
	bool cancels, shared;
};

struct actor {
	struct scene *scene;
	pthread_t thread;
	uint32_t luck;
	bool cancelled;
	atomic_bool gone; /* cancelled and on its way out */
};

struct scene {
	struct plan plan;
	struct flavour flavour;
	int size;
	pthread_mutex_t m;
	pthread_cond_t cond[CONDS];
	clockid_t clock[CONDS];
	struct actor actor[CREW];
	/* Guarded by m. */
	volatile int inside; /* somebody holds m */
	int alive;	     /* who has not left the scene */
	int blocked;	     /* those of them who wait without a deadline */
	int unpicked[CONDS]; /* roughly: who waits and was not signalled yet */
	int to_do;	     /* operations of this round */
	bool over;	     /* nobody begins anything any more */
	uint64_t calm_ns;    /* no call before */
	struct log log;
};

static struct {
	unsigned long rounds, result[CANCELLED + 1], signals, broadcasts, spurious;
} sum;

static void in(struct scene *s)
{
	if (s->inside)
		complain("two threads hold the mutex");
	s->inside = 1;
}

static void out(struct scene *s)
{
	s->inside = 0;
}

static void lock_in(struct scene *s)
{
	MUST(pthread_mutex_lock(&s->m));
	in(s);
}

static void out_unlock(struct scene *s)
{
	out(s);
	MUST(pthread_mutex_unlock(&s->m));
}

struct visit {
	struct actor *actor;
	struct wait *wait;
	bool timed;
};

static void wait_ended(struct visit *v, enum result result)
{
	struct scene *s = v->actor->scene;

	in(s);
	v->wait->at.to = ++s->log.now;
	v->wait->result = result;
	if (!v->timed)
		s->blocked--;
	if (result != WOKEN && s->unpicked[v->wait->cond] > 0)
		s->unpicked[v->wait->cond]--;
}

static void wait_cancelled(void *arg)
{
	struct visit *v = arg;

	wait_ended(v, CANCELLED);
	v->actor->scene->alive--;
	out_unlock(v->actor->scene);
	atomic_store(&v->actor->gone, true);
}

/* By one of all ways to have a deadline, which is near or has passed already. */
static int timed_wait(struct scene *s, int c, uint32_t luck)
{
	bool given = luck & 1;
	clockid_t clock = given ? (luck & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME) : s->clock[c];
	struct timespec t = deadline(clock, luck >> 2 & 7 ? (int)(luck >> 5) % 200000 : -1000);
	int rc;

	rc = given ? pthread_cond_clockwait(&s->cond[c], &s->m, clock, &t)
		   : pthread_cond_timedwait(&s->cond[c], &s->m, &t);
	if (rc == ETIMEDOUT && clock == CLOCK_MONOTONIC && now_ns() < t.tv_sec * UINT64_C(1000000000) + t.tv_nsec)
		complain("a wait timed out early");
	return rc;
}

static void wait_once(struct actor *a, int c, bool timed)
{
	struct scene *s = a->scene;
	struct visit v = {a, &s->log.wait[s->log.waits++], timed};
	uint32_t luck = dice(&a->luck);
	int rc;

	s->to_do--;
	s->unpicked[c]++;
	if (!timed)
		s->blocked++;
	*v.wait = (struct wait){{++s->log.now, NEVER}, BLOCKED, c};
	out(s);
	pthread_cleanup_push(wait_cancelled, &v);
	rc = timed ? timed_wait(s, c, luck) : pthread_cond_wait(&s->cond[c], &s->m);
	pthread_cleanup_pop(0);
	wait_ended(&v, timed && rc == ETIMEDOUT ? TIMED_OUT : WOKEN);
	if (!(timed && rc == ETIMEDOUT))
		WANT(rc, 0);
}

static struct call *call_begin(struct scene *s, int c, bool all)
{
	struct call *call = &s->log.call[s->log.calls++];

	s->to_do--;
	s->log.now++;
	*call = (struct call){{s->log.now, s->log.now}, all, c};
	if (all)
		s->unpicked[c] = 0;
	else if (s->unpicked[c] > 0)
		s->unpicked[c]--;
	return call;
}

static void call_do(struct scene *s, const struct call *call)
{
	MUST(call->all ? pthread_cond_broadcast(&s->cond[call->cond]) : pthread_cond_signal(&s->cond[call->cond]));
}

/* One call after the unlock, or one or a few before it, when the mutex may be held on for a while. */
static void call_some(struct actor *a, int c)
{
	struct scene *s = a->scene;
	uint32_t luck = dice(&a->luck);
	bool all = s->flavour.broadcasts && luck % 16 == 0;
	struct call *call;

	if (s->flavour.calm)
		s->calm_ns = now_ns() + CALM_NS;
	if (luck >> 4 & 1) {
		call = call_begin(s, c, all);
		out_unlock(s);
		call_do(s, call);
		lock_in(s);
		call->at.to = ++s->log.now;
		return;
	}
	for (int n = luck >> 5 & 7 || s->flavour.calm ? 1 : 4; n > 0; n--) {
		call_do(s, call_begin(s, c, all));
		if (!s->unpicked[c])
			break;
	}
	if ((luck >> 8 & 7) == 0)
		spin_ns(luck >> 11 & 8191);
}

/* Something with the mutex held; false if there is nothing that this thread could do.  A thread must not wait for ever
 * if all others do. */
static bool step(struct actor *a, uint32_t luck)
{
	struct scene *s = a->scene;
	int c = (luck >> 3) % s->plan.conds;
	bool timed = (int)(luck >> 8 & 7) < s->plan.timed;
	bool can_wait = timed || s->blocked + 1 < s->alive;
	bool can_call = (s->unpicked[c] > 0 || (s->flavour.wasteful && (luck >> 11 & 7) == 0)) &&
			(!s->flavour.calm || now_ns() > s->calm_ns);
	bool tide = s->to_do & 128;

	if (can_wait && (luck & 7) < (tide ? 5 : 3))
		wait_once(a, c, timed);
	else if (can_call)
		call_some(a, c);
	else if (can_wait)
		wait_once(a, c, timed);
	else
		return false;
	return true;
}

/* No cancellation point in here but the waits. */
static void act(struct actor *a)
{
	struct scene *s = a->scene;

	lock_in(s);
	while (!s->over) {
		uint32_t luck = dice(&a->luck);
		bool idle = !step(a, luck);

		if (s->to_do <= 0 || complained())
			s->over = true;
		out_unlock(s);
		if (idle || luck >> 28 == 0)
			sched_yield();
		else if ((luck >> 26 & 3) == 0)
			spin_ns(luck >> 12 & 2047);
		lock_in(s);
	}
	s->alive--;
	out_unlock(s);
}

static void *actor_run(void *arg)
{
	act(arg);
	return NULL;
}

static void actor_start(struct actor *a, uint32_t luck)
{
	pthread_attr_t attr;

	a->luck = luck | 1;
	a->cancelled = false;
	atomic_store(&a->gone, false);
	ck_assert_int_eq(pthread_attr_init(&attr), 0);
	ck_assert_int_eq(pthread_attr_setstacksize(&attr, 256 * 1024), 0);
	ck_assert_int_eq(pthread_create(&a->thread, &attr, actor_run, a), 0);
	pthread_attr_destroy(&attr);
}

/* Cancels somebody, wherever it is; who has gone is replaced. */
static void disturb(struct scene *s, uint32_t luck)
{
	struct actor *a = &s->actor[luck % s->size];

	if (!a->cancelled) {
		a->cancelled = true;
		ck_assert_int_eq(pthread_cancel(a->thread), 0);
	}
	for (int i = 0; i < s->size; i++) {
		a = &s->actor[i];
		if (!atomic_load(&a->gone))
			continue;
		ck_assert_int_eq(pthread_join(a->thread, NULL), 0);
		lock_in(s);
		s->alive++; /* also if it is over: it will see that */
		out_unlock(s);
		actor_start(a, dice(&luck));
	}
}

static void scene_prepare(struct scene *s, int type, unsigned round)
{
	int sharing = s->plan.shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE;
	pthread_mutexattr_t attr;
	pthread_condattr_t cond_attr;

	ck_assert_int_eq(pthread_mutexattr_init(&attr), 0);
	ck_assert_int_eq(pthread_mutexattr_settype(&attr, type), 0);
	ck_assert_int_eq(pthread_mutexattr_setpshared(&attr, sharing), 0);
	ck_assert_int_eq(pthread_mutex_init(&s->m, &attr), 0);
	pthread_mutexattr_destroy(&attr);
	for (int c = 0; c < s->plan.conds; c++) {
		s->clock[c] = (c + round) % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
		ck_assert_int_eq(pthread_condattr_init(&cond_attr), 0);
		ck_assert_int_eq(pthread_condattr_setclock(&cond_attr, s->clock[c]), 0);
		ck_assert_int_eq(pthread_condattr_setpshared(&cond_attr, sharing), 0);
		ck_assert_int_eq(pthread_cond_init(&s->cond[c], &cond_attr), 0);
		pthread_condattr_destroy(&cond_attr);
		s->unpicked[c] = 0;
	}
	s->alive = s->size;
	s->blocked = 0;
	s->flavour = flavours[round % FLAVOURS];
	s->to_do = s->flavour.calm ? OPERATIONS / 4 : OPERATIONS;
	s->over = false;
	s->log.now = s->log.waits = s->log.calls = 0;
}

/* Until the round is over and whoever is still there waits without a deadline; with the mutex held then. */
static void settle(struct scene *s, uint32_t *luck)
{
	uint64_t end = now_ns() + ROUND_MS * 1000000, hopeless = end + PATIENCE_S * UINT64_C(1000000000);

	for (;;) {
		bool over;

		lock_in(s);
		if (now_ns() > end || complained())
			s->over = true;
		if (s->over && s->alive == s->blocked)
			return;
		over = s->over;
		out_unlock(s);
		assert_no_complaint();
		ck_assert_msg(now_ns() < hopeless, "%s, %d threads: a thread does not come to an end", s->plan.name,
			      s->size);
		if (s->plan.cancels && !over)
			disturb(s, dice(luck));
		sleep_us(20 + dice(luck) % 100);
	}
}

/* As many signals as are needed, if none was lost, or a broadcast; false if somebody stays. */
static bool release(struct scene *s)
{
	uint64_t hopeless = now_ns() + PATIENCE_S * UINT64_C(1000000000);
	bool all = s->flavour.wasteful;

	for (int c = 0; c < s->plan.conds; c++)
		for (unsigned n = all ? 1 : may_be_blocked(&s->log, c); n > 0; n--)
			call_do(s, call_begin(s, c, all));
	for (;;) {
		bool done = s->alive == 0;

		out_unlock(s);
		assert_no_complaint();
		if (done || now_ns() > hopeless)
			return done;
		sleep_us(50);
		lock_in(s);
	}
}

static void judge(struct scene *s)
{
	bool may_hand_on = !suite_served();
	const struct log *l = &s->log;

	for (int c = 0; c < s->plan.conds; c++) {
		struct span one = {0, 0};
		unsigned bad = unexplained(l, c, false, &one);

		if (bad && may_hand_on)
			bad = unexplained(l, c, true, &one);
		sum.spurious += bad;
		ck_assert_msg(
			!bad || s->plan.shared,
			"%s, %d threads: %u waits returned without a signal of their own, as the one from %u to %u "
			"(%u if signals can be handed on)",
			s->plan.name, s->size, bad, one.from, one.to, unexplained(l, c, true, &one));
	}
	for (unsigned i = 0; i < l->waits; i++)
		sum.result[l->wait[i].result]++;
	for (unsigned i = 0; i < l->calls; i++)
		l->call[i].all ? sum.broadcasts++ : sum.signals++;
	sum.rounds++;
}

static void play_round(struct scene *s, uint32_t *luck)
{
	pid_t child[CREW];

	for (int i = 0; i < s->size; i++) {
		struct actor *a = &s->actor[i];

		a->scene = s;
		if (!s->plan.shared) {
			actor_start(a, dice(luck));
			continue;
		}
		a->luck = dice(luck) | 1;
		child[i] = fork();
		if (child[i] == 0) {
			alarm(2 * PATIENCE_S);
			act(a);
			child_exit();
		}
	}
	settle(s, luck);
	if (!release(s)) {
		lock_in(s);
		for (int c = 0; c < s->plan.conds; c++)
			ck_assert_msg(
				blocked_in(&s->log, c) == 0,
				"%s, %d threads: %u are blocked on cond %d, %u of them rightly: a signal was lost",
				s->plan.name, s->size, blocked_in(&s->log, c), c, may_be_blocked(&s->log, c));
	}
	for (int i = 0; i < s->size; i++)
		if (s->plan.shared)
			child_reap(child[i], "an actor");
		else
			ck_assert_int_eq(pthread_join(s->actor[i].thread, NULL), 0);
	assert_no_complaint();
	judge(s);
	for (int c = 0; c < s->plan.conds; c++)
		ck_assert_int_eq(pthread_cond_destroy(&s->cond[c]), 0);
	ck_assert_int_eq(pthread_mutex_destroy(&s->m), 0);
}

static void play(int size, const struct plan *plan)
{
	struct scene *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t end = now_ns() + suite_scale(SCENE_MS) * 1000000, last = end + PATIENCE_S * UINT64_C(1000000000);
	uint32_t luck = 2463534242u + size;
	bool happened = false;

	ck_assert_ptr_ne(s, MAP_FAILED);
	s->plan = *plan;
	s->size = size;
	for (unsigned round = 0; round < FLAVOURS || now_ns() < (happened ? end : last); round++) {
		scene_prepare(s, kinds[(round + round / FLAVOURS + __builtin_ctz(size)) % KINDS].type, round);
		play_round(s, &luck);
		happened = sum.result[WOKEN] && sum.broadcasts && (!plan->timed || sum.result[TIMED_OUT]) &&
			   (!plan->cancels || sum.result[CANCELLED]);
	}
	say("cond-tickets: %s, %d threads: %lu rounds; %lu woken, %lu timed out, %lu cancelled; %lu signals, %lu "
	    "broadcasts; %lu woken for nothing",
	    plan->name, size, sum.rounds, sum.result[WOKEN], sum.result[TIMED_OUT], sum.result[CANCELLED], sum.signals,
	    sum.broadcasts, sum.spurious);
	ck_assert_msg(happened, "not everything happened that this case is about");
	munmap(s, sizeof *s);
}

static const int sizes[] = {2, 4, 8, 16, 32, 64};

enum { SIZES = sizeof sizes / sizeof sizes[0], SHARED_SIZES = 4 };

START_TEST(plain)
{
	play(sizes[_i], &(struct plan){.name = "plain", .conds = 1});
}
END_TEST

START_TEST(with_timeouts)
{
	play(sizes[_i], &(struct plan){.name = "with timeouts", .conds = 1, .timed = 4});
}
END_TEST

START_TEST(with_cancellations)
{
	play(sizes[_i], &(struct plan){.name = "with cancellations", .conds = 1, .cancels = true});
}
END_TEST

START_TEST(mixed)
{
	play(sizes[_i], &(struct plan){.name = "mixed", .conds = 1, .timed = 2, .cancels = true});
}
END_TEST

START_TEST(mixed_several_conds)
{
	play(sizes[_i], &(struct plan){.name = "mixed, several conds", .conds = CONDS, .timed = 2, .cancels = true});
}
END_TEST

/* What is lost between processes; each of them is a single thread. */
START_TEST(between_processes)
{
	play(sizes[_i / 2], &(struct plan){.name = "between processes",
					   .conds = 1 + _i % 2 * (CONDS - 1),
					   .timed = _i % 2 * 2,
					   .shared = true});
}
END_TEST

int main(void)
{
	Suite *s = suite_make("cond-tickets");

	SUITE_CASE_OF(s, checker_on_stories, 30, sizeof stories / sizeof stories[0]);
	SUITE_CASE(s, checker_pairs_as_many_as_possible, 30);
	SUITE_CASE(s, checker_accepts_what_is_right, 30);
	SUITE_CASE_OF(s, plain, 120, SIZES);
	SUITE_CASE_OF(s, with_timeouts, 120, SIZES);
	SUITE_CASE_OF(s, with_cancellations, 120, SIZES);
	SUITE_CASE_OF(s, mixed, 120, SIZES);
	SUITE_CASE_OF(s, mixed_several_conds, 120, SIZES);
	SUITE_CASE_OF(s, between_processes, 120, 2 * SHARED_SIZES);
	return suite_run(s);
}
