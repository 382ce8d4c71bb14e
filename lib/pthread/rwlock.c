/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reader-writer locks; the contract is in rwlock.h.
 *
 * The state counts readers, or says that there is a writer; some readers may be counted
 * apart (readers.h). Who finds the lock free takes it, whoever waits. Who must wait:
 *	- writers take `lock`, a mutex with an admission queue: one at a time, they wait
 *	  *in front* for the state (ShflLock 4.2.3: wlock);
 *	- readers sleep by socket (rt/park.h), and are all let in when a writer leaves
 *	  (CST 5.2). Those who are overtaken for too long, or have no bay, wait in front.
 * So the front is one thread, a writer or a reader, and everything that it sets in the
 * state it takes back before it leaves.
 *
 * State of the lock's state
 *	change			by
 *	+ READER		who reads: if there is no WRITER and it is not kept out
 *	- READER		its unlock; the last one clears SLEEPER and wakes the front
 *	+ WRITER		who writes: if there are no readers, and neither SPREAD, RECALL
 *				nor (but for the front, and who passes it) CLOSED
 *	- WRITER		its unlock: with it go SLEEPER and PARKED, the front is woken
 *				and the parked readers are called (the first of each socket, if it is kept)
 *	CLOSED			set and cleared by the front: nobody passes it any more. Cleared by
 *				who does, as nobody has the lock, and takes it, or reads after a
 *				long wait for a front that is awake (pass_front()); and in a child
 *				of fork (disown())
 *	SLEEPER			set by the front before it sleeps
 *	+ KEPT			by the unlock of a writer whom the front has waited for asleep: no
 *				reader passes it; but not more often than so many times in a row
 *	- KEPT, all of it	by any other unlock of a writer; while there is no WRITER, by the front, if it
 *				reads, sleeps or has no more time, by a reader that passes it (pass_front()),
 *				and in a child of fork. A writer that takes the lock leaves it to its unlock
 *	PARKED			set by readers who are kept out, before they sleep; cleared by
 *				whoever ends what keeps them out, who then calls them
 *	SPREAD			set by a reader that holds `lock`, or by a writer's unlock if nobody does
 *				(a hint); cleared by the front
 *	RECALL			set and cleared by the front: not all readers are counted yet
 *	+ - WAITER		writers from when they begin to wait until they hold the lock,
 *				in locks that prefer them; it keeps readers out
 *
 * Fairness. The front keeps others out (CLOSED) while it is awake and waits for readers
 * only: they will soon be gone, and for as long as they become fewer it stays awake.
 * Before it sleeps it opens the lock again, as then others would wait for its wake-up,
 * too; but when it has been overtaken for longer than PARKADE_PATIENCE it keeps the lock
 * closed. A reader inside may wait for one that is kept out (glibc lets it in, programs
 * may rely on that, and who holds a read lock itself is not kept out), so that does not
 * last for ever, either: after WINDOW_US the lock is opened again for as long, and next
 * time both last twice as long. Thus a writer gets in after a time that is a small
 * multiple of the longest reading (unless there are always readers inside that hold
 * another read lock, too). Readers that are passed for too long queue for the front
 * themselves, but not for ever at a time.
 *
 * Where sections are long, and many threads write now and then, all but one of them wait to
 * write at last, and that one reads, alone: after its write it is back before the front is
 * awake. So a writer for whose end the front has spun in vain, and slept, keeps the lock for
 * it (KEPT). Those who have written meet as readers then, and read at the same time. Other
 * writers pass the front as before, or the lock would be idle for as long as a wake-up takes;
 * and who finds it idle for longer reads.
 *
 * Ledger
 *  O1	acquire of the exchange that takes the lock pairs with the release of the one
 *	that gives it up: what the critical sections did. All changes of the state are
 *	read-modify-writes, so none breaks the chain.
 *  O2	`lock` is taken and let go by the word's protocol (word.c); the front's own
 *	things are handed on by it. */
#include "pthread/rwlock.h"

#include <errno.h>
#include <string.h>

#include "base/await.h"
#include "pthread/lot.h"
#include "pthread/turn.h"
#include "rt/clock.h"
#include "rt/control.h"
#include "rt/config.h"
#include "rt/park.h"
#include "rt/probe.h"
#include "rt/real.h"
#include "rt/spin.h"
#include "rt/topology.h"
#include "rt/watch.h"

enum {
	WINDOW_US = 50000,
	WINDOW_MAX_US = 60000000,
	/* In rounds of a spin: between the first two looks at a lock that a writer has, and
	 * twice that before the next. Each look costs the writer's next one the line, and
	 * takes it from a thread that would use it many times over before it lets another
	 * one have it (doc/DESIGN.md 10). */
	FRONT_GAP = 32,
	READER_GAP = 4,
	/* Readers that leave are waited for with the lock closed for so many budgets at most. */
	DRAINS = 16,
	/* A front that the lock is kept for, and that does not come within so long, has no CPU, or is in a handler: a few times what a
	 * wake-up takes. */
	KEPT_US = 200,
	/* A reader that nobody calls looks so many times before it queues again. */
	LOOKS = 16,
	/* Readers that another one wakes before it looks whether they are kept out. */
	CALLED = 2,
};

/* ---- who may do what ---- */

static bool prefers_writers(const struct pk_rwlock *rw)
{
	return rw->kind == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

/* What keeps out a reader that holds no other lock. */
static bool is_shut(const struct pk_rwlock *rw, uint64_t s)
{
	return (s & (PK_RW_WRITER | PK_RW_CLOSED | PK_RW_KEPT)) || (prefers_writers(rw) && (s & PK_RW_WAITERS));
}

static bool may_read(const struct pk_rwlock *rw, uint64_t s)
{
	return !is_shut(rw, s) || (pk_self.reads && !(s & PK_RW_WRITER) && !prefers_writers(rw));
}

/* Nobody has it, but for readers who may pass; the front is about to. */
static bool is_kept(uint64_t s)
{
	return (s & PK_RW_KEPT) && !(s & PK_RW_WRITER);
}

/* And that is all that keeps readers out: a front that has closed it, too, has waited for long. */
static bool is_only_kept(uint64_t s)
{
	return is_kept(s) && !(s & PK_RW_CLOSED);
}

/* A deadline that is no later than that one, or in so many microseconds. */
struct sooner {
	struct timespec then;
	struct pk_deadline deadline;
};

static const struct pk_deadline *sooner(struct sooner *by, uint64_t us, const struct pk_deadline *deadline)
{
	if (deadline && pk_clock_left_us(deadline->clock, deadline->abstime) <= us)
		return deadline;
	by->then = pk_clock_after(us);
	by->deadline = (struct pk_deadline){&by->then, CLOCK_MONOTONIC};
	return &by->deadline;
}

/* ---- the front ---- */

bool pk_rwlock_front_try(struct pk_rwlock *rw)
{
	int seen = 0;

	return pk_cas_acquire(&rw->lock, &seen, 1); /* O2 */
}

void pk_rwlock_front_leave(struct pk_rwlock *rw)
{
	if (pk_xchg_release(&rw->lock, 0) > 1) /* O2 */
		pk_futex_wake(&rw->lock, 1);
}

static const void *parking_place(struct pk_rwlock *rw)
{
	return &rw->cur_writer;
}

/* Who is in front may be in a signal handler that blocks (rt/doze.h). Whoever has waited for long, or has no more time,
 * takes a lock that nobody has, though it is closed, and opens it: were the front awake it would have taken it. Nor does
 * a front that is awake keep it closed for long to count readers (RECALL), or while they leave (no SLEEPER), nor is it kept for
 * one for long: who has waited for long reads with them. `what`: PK_RW_WRITER or PK_RW_READER. */
static bool may_pass(uint64_t s, uint64_t what, bool waited)
{
	bool awake = (s & PK_RW_RECALL) || ((s & (PK_RW_CLOSED | PK_RW_KEPT)) && !(s & (PK_RW_WRITER | PK_RW_SLEEPER)));

	if (what == PK_RW_READER && waited && awake)
		return (s & PK_RW_READERS) != PK_RW_READERS;
	return !(s & (PK_RW_READERS | PK_RW_WRITER | PK_RW_SPREAD | PK_RW_RECALL));
}

static bool pass_front(struct pk_rwlock *rw, uint64_t what, bool waited)
{
	uint64_t s = pk_load_relaxed(&rw->state), want;

	do {
		if (!may_pass(s, what, waited))
			return false;
		want = (s + what) & ~(what == PK_RW_READER ? PK_RW_CLOSED | PK_RW_KEPT : PK_RW_CLOSED);
		if (!is_shut(rw, want))
			want &= ~PK_RW_PARKED;
	} while (!pk_cas_acquire(&rw->state, &s, want)); /* O1 */
	if (s & ~want & PK_RW_PARKED)
		pk_park_call(parking_place(rw));
	return true;
}

static bool pass_to_write(const int *word)
{
	return pass_front((struct pk_rwlock *)((char *)word - offsetof(struct pk_rwlock, lock)), PK_RW_WRITER, true);
}

/* 0 or EBUSY. */
static int pass_to_read(struct pk_rwlock *rw, bool waited)
{
	if (prefers_writers(rw) || !pass_front(rw, PK_RW_READER, waited))
		return EBUSY;
	pk_self.reads++;
	return 0;
}

/* EALREADY: the lock has been taken, past the front. */
static int front_enter(struct pk_rwlock *rw, bool write, const struct pk_deadline *deadline)
{
	/* No marks: a state that is not 0 keeps readers and writers from their usual way. */
	struct pk_site at = {&rw->lock, (struct pk_gate *)&rw->state, pk_spin_front(), false, write ? pass_to_write : NULL, NULL, NULL};

	if (!(pk_load_relaxed(&rw->state) & PK_FLAG_QUEUE) && pk_rwlock_front_try(rw))
		return 0;
	return pk_turn_wait(&at, deadline);
}

/* The futex word that the front sleeps on: the flags' half of the state. */
static void *sleeping_place(struct pk_rwlock *rw)
{
	return (char *)&rw->state + 4;
}

/* One WAITER less. There may be none: the child of a fork wipes its parent's, and cannot tell its own from them. */
static uint64_t less_waiter(uint64_t s)
{
	return s & PK_RW_WAITERS ? s - PK_RW_WAITER : s;
}

/* Clear `flags`, and a WAITER if `waiter`; call parked readers if that lets them in. (KEPT counts while there is a writer.) */
static void open_up(struct pk_rwlock *rw, uint64_t flags, bool waiter)
{
	uint64_t s = pk_load_relaxed(&rw->state), want;

	do {
		want = s & ~(s & PK_RW_WRITER ? flags & ~PK_RW_KEPT : flags);
		want = waiter ? less_waiter(want) : want;
		if (!is_shut(rw, want))
			want &= ~PK_RW_PARKED;
	} while (!pk_cas_acq_rel(&rw->state, &s, want));
	if (s & ~want & PK_RW_PARKED)
		pk_park_call(parking_place(rw));
}

/* In a child of fork: who closed the lock, or is to have it, is in the parent, and opens it no more. Readers may read, as many as there are
 * by its count; a writer has them before it, as with glibc. */
static void disown(struct pk_rwlock *rw)
{
	if ((pk_load_relaxed(&rw->state) & (PK_RW_CLOSED | PK_RW_KEPT)) && pk_load_relaxed(&rw->closed_by) != pk_incarnation())
		open_up(rw, PK_RW_CLOSED | PK_RW_KEPT, false);
}

/* A thread in front. */
struct front {
	struct pk_rwlock *rw;
	bool write;
	bool waiter;	 /* it is counted as a WAITER */
	uint64_t since;	 /* when its patience began, in us, or 0 */
	uint64_t closed; /* when it closed the lock for longer, or 0 */
	uint64_t window; /* how long that may last */
	uint64_t open;	 /* until when it stays open then */
};

/* What the front waits for. */
static bool is_in_use(const struct front *f, uint64_t s)
{
	return s & (f->write ? PK_RW_READERS | PK_RW_WRITER : PK_RW_WRITER);
}

/* Take the lock, which was not in use. */
static bool take(struct front *f, uint64_t s)
{
	struct pk_rwlock *rw = f->rw;
	uint64_t want = f->write ? s | PK_RW_WRITER : (s + PK_RW_READER) & ~PK_RW_KEPT; /* a writer goes on counting */

	want &= ~(PK_RW_CLOSED | PK_RW_SLEEPER);
	if (f->waiter)
		want = less_waiter(want);
	if (!is_shut(rw, want))
		want &= ~PK_RW_PARKED;
	if (!pk_cas_acq_rel(&rw->state, &s, want)) /* O1 */
		return false;
	if (s & ~want & PK_RW_PARKED)
		pk_park_call(parking_place(rw));
	return true;
}

/* Spin until it is worth while to look again. */
static void rest(unsigned *budget, unsigned *gap)
{
	for (unsigned n = *gap; n && !pk_spent(budget); n--)
		;
	*gap *= 2;
}

/* Spin for the lock. 0: it is ours. */
static int spin(struct front *f)
{
	struct pk_rwlock *rw = f->rw;
	unsigned budget = pk_spin_front(), gap = FRONT_GAP;
	unsigned brief = f->open ? 0 : pk_spin_brief(), drain = brief, given = brief, all = DRAINS * brief;
	uint64_t fewest = PK_RW_READERS;

	if (pk_load_relaxed(&rw->closed_by) != pk_incarnation()) {
		pk_readers_inherit(rw);
		pk_store_release(&rw->closed_by, pk_incarnation()); /* readers.c: O6 */
	}
	for (;;) {
		uint64_t s = pk_load_relaxed(&rw->state);

		if (f->write && (s & PK_RW_SPREAD)) {
			/* Closed at once: who came meanwhile would be counted in the state, one after the other,
			 * and be waited for. */
			pk_readers_recall(rw, drain);
			continue;
		}
		if (!is_in_use(f, s)) {
			if (!f->write && (s & PK_RW_READERS) == PK_RW_READERS)
				return EAGAIN;
			if (take(f, s))
				return 0;
			continue;
		}
		if (s & PK_RW_READERS) {
			/* Only readers: nobody passes while we look on. If they run, they are gone soon; the
			 * state can only be left by one after the other, so they have time for as long as
			 * they become fewer. */
			if (drain && !(s & PK_RW_CLOSED)) {
				pk_cas_relaxed(&rw->state, &s, s | PK_RW_CLOSED);
				continue;
			}
			if ((s & PK_RW_CLOSED) && (s & PK_RW_READERS) < fewest) {
				fewest = s & PK_RW_READERS;
				all -= given - drain;
				drain = given = brief < all ? brief : all;
			}
			if (pk_spent(&drain))
				return EBUSY;
			continue;
		}
		if (!budget)
			return EBUSY;
		rest(&budget, &gap);
	}
}

/* Before the front sleeps: may others pass it? And when to look again: readers that
 * overlap wake nobody. */
static bool decide(struct front *f, uint64_t *until)
{
	uint64_t now = pk_clock_us();

	f->since = f->since ? f->since : now;
	if (f->closed && now - f->closed >= f->window) {
		f->closed = 0;
		f->open = now + f->window;
		f->window = f->window < WINDOW_MAX_US ? 2 * f->window : f->window;
	}
	*until = f->open ? f->open : f->since + pk_knob(patience);
	if (now < *until)
		return true;
	f->closed = f->closed ? f->closed : now;
	*until = f->closed + f->window;
	return false;
}

/* Sleep until the deadline or that time, whichever is first. ETIMEDOUT for the deadline. */
static int sleep_until(struct pk_rwlock *rw, uint32_t flags, uint64_t until, const struct pk_deadline *deadline)
{
	uint64_t now = until ? pk_clock_us() : 0;
	struct sooner by;
	const struct pk_deadline *first = until ? sooner(&by, until > now ? until - now : 0, deadline) : deadline;
	int late = pk_futex_wait(sleeping_place(rw), flags, first);

	return first == deadline ? late : 0;
}

/* Sleep in front, once. `nap`: for PK_NAP_US, without being woken. 0 or ETIMEDOUT. */
static int sleep_in_front(struct front *f, bool nap, const struct pk_deadline *deadline)
{
	struct pk_rwlock *rw = f->rw;
	uint64_t until, s, want, flags;

	if (!decide(f, &until)) {
		flags = PK_RW_CLOSED | PK_RW_SLEEPER;
	} else {
		s = pk_load_relaxed(&rw->state);
		if ((s & PK_RW_CLOSED) || (is_kept(s) && is_in_use(f, s)))
			open_up(rw, PK_RW_CLOSED | PK_RW_KEPT, false);
		flags = nap ? 0 : PK_RW_SLEEPER;
		if (nap && until > pk_clock_us() + PK_NAP_US)
			until = pk_clock_us() + PK_NAP_US;
	}
	s = pk_load_relaxed(&rw->state);
	/* Kept for one that sleeps it would be of no use to anybody. */
	want = is_kept(s) && (flags & PK_RW_CLOSED) ? (s | flags) & ~PK_RW_KEPT : s | flags;
	if (!is_in_use(f, s) || is_kept(want) || (flags && !pk_cas_relaxed(&rw->state, &s, want)))
		return 0;
	s = want;
	/* A writer does not wait for readers, nor do readers for those whom the kind keeps
	 * out: no need to open the lock again. */
	if ((s & PK_RW_CLOSED) && ((s & PK_RW_WRITER) || prefers_writers(rw)))
		until = 0;
	return sleep_until(rw, PK_RW_FLAGS_OF(s), until, deadline);
}

/* Wait in front until the lock can be had, and take it: 0, EAGAIN or ETIMEDOUT. Who was
 * woken and finds that another thread was faster has a nap. */
static int wait_in_front(struct front *f, const struct pk_deadline *deadline)
{
	int ret;

	pk_count_in(pk_self.record, PK_STAT_fronted);
	for (bool nap = false; (ret = spin(f)) == EBUSY; nap = !nap)
		if ((ret = sleep_in_front(f, nap, deadline)))
			break;
	return ret;
}

/* Lock by way of the front, which is queued for until the deadline: 0, EAGAIN, ETIMEDOUT.
 * With `bound`, for so many microseconds at most: then EBUSY. */
static PK_NOINLINE int lock_in_front(struct pk_rwlock *rw, bool write, uint64_t bound,
				     const struct pk_deadline *deadline)
{
	struct front f = {rw, write, false, 0, 0, WINDOW_US, 0};
	const struct pk_deadline *first;
	struct sooner by;
	uint64_t s;
	int ret;

	pk_control_poll();
	pk_turn_step_back();
	s = pk_load_relaxed(&rw->state);
	if (write && prefers_writers(rw))
		while ((s & PK_RW_WAITERS) != PK_RW_WAITERS && !f.waiter)
			f.waiter = pk_cas_relaxed(&rw->state, &s, s + PK_RW_WAITER);
	first = bound ? sooner(&by, bound, deadline) : deadline;
	ret = front_enter(rw, write, first);
	if (ret && first != deadline)
		ret = EBUSY;
	if (ret) {
		if (f.waiter)
			open_up(rw, 0, true);
		return ret == EALREADY ? 0 : ret;
	}
	ret = wait_in_front(&f, deadline);
	if (ret)
		open_up(rw, PK_RW_CLOSED | PK_RW_SLEEPER | PK_RW_KEPT, f.waiter);
	pk_rwlock_front_leave(rw);
	return ret;
}

/* ---- reading ---- */

/* Count the thread in the state: 0, EAGAIN, or EBUSY if it is kept out. `pass`: only by
 * a writer that is there. */
static int read_now(struct pk_rwlock *rw, bool pass)
{
	uint64_t s = pk_load_relaxed(&rw->state);
	bool contended = pk_readers_eager;

	while (pass ? !(s & PK_RW_WRITER) : may_read(rw, s)) {
		if ((s & PK_RW_READERS) == PK_RW_READERS)
			return EAGAIN;
		if (pk_cas_acquire(&rw->state, &s, s + PK_RW_READER)) { /* O1 */
			pk_self.reads++;
			if (pk_unlikely(contended))
				pk_readers_warm(rw);
			return 0;
		}
		contended |= !(s & PK_RW_WRITER);
	}
	return EBUSY;
}

/* Read, if the lock can be had at once. */
static int try_to_read(struct pk_rwlock *rw, bool pass)
{
	uint64_t s = pk_load_acquire(&rw->state); /* readers.h: enter */

	if ((s & PK_RW_SPREAD) && (s & PK_RW_READERS) != PK_RW_READERS && pk_readers_enter(rw)) {
		pk_self.reads++;
		return 0;
	}
	return read_now(rw, pass);
}

/* Say that readers sleep; false if the thread is not kept out any more. *s: the state as it was. */
static bool say_parked(struct pk_rwlock *rw, uint64_t *s)
{
	*s = pk_load_relaxed(&rw->state);
	while (!may_read(rw, *s))
		if ((*s & PK_RW_PARKED) || pk_cas_release(&rw->state, s, *s | PK_RW_PARKED))
			return true;
	return false;
}

/* A reader is to see to the others of its bay: call them, but a few at a time. It may read, and who is in front wait for it;
 * if that has closed the lock they come in vain, and somebody else is to call them. So it is if a reader goes without the
 * lock. If it is late they see for themselves whether who it is kept for comes. (It has left the bay, which is another lock's when
 * the others have done so.) */
static void call_others(struct pk_rwlock *rw, struct pk_bay *bay, bool late)
{
	uint64_t s = pk_load_relaxed(&rw->state);

	do
		while (is_shut(rw, s) && !(late && is_only_kept(s)))
			if ((s & PK_RW_PARKED) || pk_cas_release(&rw->state, &s, s | PK_RW_PARKED))
				return;
	while (pk_park_call_some(bay, CALLED) == CALLED && pk_bay_users(bay, parking_place(rw)) &&
	       (s = pk_load_relaxed(&rw->state), true));
}

static bool has_lost_patience(uint64_t *since, uint64_t patience)
{
	uint64_t now = pk_clock_us();

	*since = *since ? *since : now;
	return now - *since >= patience;
}

/* Who has lost patience is to queue behind one that the lock is kept for: not without having seen whether that comes. */
static int read_unless_it_comes(struct pk_rwlock *rw)
{
	const uint32_t nobody = 0;

	if (!is_only_kept(pk_load_relaxed(&rw->state)))
		return EBUSY;
	pk_futex_wait_for(&nobody, 0, KEPT_US);
	return pass_to_read(rw, true);
}

/* Wait in the bay until the lock can be read. 0, EAGAIN, ETIMEDOUT; EBUSY if the thread
 * has been passed for too long. */
static int wait_in_bay(struct pk_rwlock *rw, struct pk_bay *bay, uint64_t patience, const struct pk_deadline *deadline)
{
	const struct pk_deadline *first;
	struct sooner by;
	uint64_t since = 0, s;
	unsigned looks = 0;
	int ret = EBUSY, late = 0;
	bool look = false;

	while (!late) {
		uint32_t calls = pk_park_ready(bay);

		ret = try_to_read(rw, false);
		if (ret == EBUSY && look) {
			disown(rw); /* a handler may have forked */
			ret = pass_to_read(rw, true);
		}
		if (ret != EBUSY)
			break;
		/* Who has been called, and has been passed once more: not who was merely asleep for long. */
		if (!look && has_lost_patience(&since, patience)) {
			ret = read_unless_it_comes(rw);
			break;
		}
		if (!say_parked(rw, &s))
			continue;
		pk_count_in(pk_self.record, PK_STAT_rparked);
		first = is_only_kept(s) ? sooner(&by, KEPT_US, deadline) : deadline;
		late = pk_park_sleep(bay, calls, first, &looks, &look);
		if (late && first != deadline) {
			late = 0;
			look = true;
		}
	}
	if (pk_park_leave(bay, parking_place(rw)))
		call_others(rw, bay, ret && late);
	return late ? late : ret;
}

/* The same without a bay: nobody calls it, so it looks now and then. */
static int wait_without_bay(struct pk_rwlock *rw, uint64_t patience, const struct pk_deadline *deadline)
{
	const uint32_t nobody = 0;
	int ret;

	for (unsigned n = 0; (ret = try_to_read(rw, false)) == EBUSY && patience && n < LOOKS; n++) {
		struct sooner by;
		const struct pk_deadline *first = sooner(&by, patience / LOOKS, deadline);

		if (pk_futex_wait(&nobody, 0, first) && first == deadline)
			return ETIMEDOUT;
	}
	return ret;
}

static PK_NOINLINE int wait_to_read(struct pk_rwlock *rw, const struct pk_deadline *deadline)
{
	struct pk_record *r = pk_thread_record();
	struct pk_bay *bay;
	int ret;

	pk_control_poll();
	pk_turn_step_back();
	disown(rw);
	for (unsigned budget = pk_spin_brief(), gap = READER_GAP; budget;) {
		rest(&budget, &gap);
		if (may_read(rw, pk_load_relaxed(&rw->state)) && (ret = try_to_read(rw, false)) != EBUSY)
			return ret;
	}
	/* Who is in front may be a writer that waits for a reader that waits for this one,
	 * and opens the lock now and then: so a reader queues for a bounded time only, and
	 * a longer one each time, as it has to get to the front at last. It does not keep step with
	 * the windows, or it might look whenever they are shut. */
	for (uint64_t bound = WINDOW_US, patience = pk_knob(patience);; patience = bound += bound / 2) {
		bay = r ? pk_park_enter(pk_socket_here(r->index), parking_place(rw)) : NULL;
		ret = bay ? wait_in_bay(rw, bay, patience, deadline)
			  : wait_without_bay(rw, bound > WINDOW_US ? patience : 0, deadline); /* first it queues, where it is called */
		if (ret != EBUSY)
			return ret;
		ret = lock_in_front(rw, false, bound < WINDOW_MAX_US ? bound : WINDOW_MAX_US, deadline);
		pk_self.reads += !ret;
		if (ret == EBUSY)
			ret = pass_to_read(rw, true);
		if (ret != EBUSY)
			return ret;
	}
}

static bool is_own(const struct pk_rwlock *rw)
{
	return pk_unlikely(pk_load_relaxed(&rw->cur_writer) == pk_self.tid) && pk_load_relaxed(&rw->cur_writer) == pk_thread_number();
}

static int rdlock(struct pk_rwlock *rw, const struct pk_deadline *deadline)
{
	struct pk_watched watched;
	bool watch;
	int ret;

	if (is_own(rw))
		return EDEADLK;
	ret = try_to_read(rw, false);
	if (pk_likely(ret != EBUSY))
		return ret;
	PK_PROBE1(rdlock_entry, rw);
	watch = pk_watch_begin(&watched);
	ret = wait_to_read(rw, deadline);
	/* POSIX: not if the lock can be had at once, as tryrdlock has it. */
	if (ret == ETIMEDOUT && pass_to_read(rw, false)) {
		ret = try_to_read(rw, !prefers_writers(rw));
		ret = ret == EBUSY ? ETIMEDOUT : ret;
	} else if (ret == ETIMEDOUT) {
		ret = 0;
	}
	if (pk_unlikely(watch))
		pk_watch_end(&watched, PK_WATCH_READ, rw, ret);
	if (!ret)
		PK_PROBE1(rdlock_acquire_read, rw);
	return ret;
}

/* ---- writing ---- */

static bool write_now(struct pk_rwlock *rw)
{
	uint64_t s = pk_load_relaxed(&rw->state);

	while (!(s & (PK_RW_READERS | PK_RW_WRITER | PK_RW_CLOSED | PK_RW_SPREAD | PK_RW_RECALL)))
		if (pk_cas_acquire(&rw->state, &s, s | PK_RW_WRITER)) /* O1 */
			return true;
	return false;
}

static int own(struct pk_rwlock *rw)
{
	pk_store_relaxed(&rw->cur_writer, pk_thread_number());
	if (pk_load_relaxed(&rw->heat))
		pk_store_relaxed(&rw->heat, 0);
	return 0;
}

static int wrlock(struct pk_rwlock *rw, const struct pk_deadline *deadline)
{
	struct pk_watched watched;
	bool watch;
	int ret;

	if (is_own(rw))
		return EDEADLK;
	if (write_now(rw))
		return own(rw);
	PK_PROBE1(wrlock_entry, rw);
	watch = pk_watch_begin(&watched);
	ret = lock_in_front(rw, true, 0, deadline);
	if (ret == ETIMEDOUT && pass_front(rw, PK_RW_WRITER, false))
		ret = 0;
	if (pk_unlikely(watch))
		pk_watch_end(&watched, PK_WATCH_WRITE, rw, ret);
	if (ret)
		return ret;
	PK_PROBE1(wrlock_acquire_write, rw);
	return own(rw);
}

/* ---- giving it up ---- */

/* The lock came by fork, and its writer with it, under another tid; nobody who waited did. But threads of this process may
 * wait by now: in front, asleep, parked, or in the lot. The queue knows by itself whose waiters are nobody's. */
static PK_COLD void disinherit(struct pk_rwlock *rw)
{
	if (pk_load_relaxed(&rw->closed_by) != pk_incarnation())
		pk_rwlock_front_leave(rw); /* whoever is in front is the parent's */
	pk_and_release(&rw->state, PK_RW_WRITER | PK_RW_SLEEPER | PK_RW_PARKED | PK_FLAG_LOT);
	if (pk_load_relaxed(&rw->state) & PK_FLAG_LOT) /* they may all be the parent's: then it goes */
		pk_lot_check_here((struct pk_gate *)&rw->state);
}

/* It was a long section, as a front of this process has spun for its end in vain (where it does not spin nobody knows). A kind that
 * prefers writers need not be told. */
static bool keeps(const struct pk_rwlock *rw, uint64_t s)
{
	return (s & PK_RW_SLEEPER) && (s & PK_RW_KEPT) != PK_RW_KEPT && pk_spin_front() && !prefers_writers(rw) &&
	       pk_load_relaxed(&rw->closed_by) == pk_incarnation();
}

static int wrunlock(struct pk_rwlock *rw)
{
	bool prefers = prefers_writers(rw), call;
	const void *parked = parking_place(rw);
	void *front = sleeping_place(rw);
	uint64_t s, want, kept;

	if (pk_unlikely(pk_self.parent && pk_load_relaxed(&rw->cur_writer) == pk_self.parent))
		disinherit(rw);
	pk_store_relaxed(&rw->cur_writer, 0);
	s = pk_load_relaxed(&rw->state);
	do {
		kept = keeps(rw, s) ? (s & PK_RW_KEPT) + PK_RW_KEPT_ONE : 0;
		/* Closed, kept or not: who has lost patience meanwhile goes to queue, and who finds it kept sees whether the front comes. */
		call = (s & PK_RW_PARKED) && !(prefers && (s & PK_RW_WAITERS));
		want = (s & ~(PK_RW_WRITER | PK_RW_SLEEPER | PK_RW_KEPT | (call ? PK_RW_PARKED : 0))) | kept;
		want = pk_readers_resume(rw, want);
	} while (!pk_cas_release(&rw->state, &s, want)); /* O1 */
	if (s & PK_RW_SLEEPER)
		pk_futex_wake(front, 1);
	if (call)
		pk_park_call(parked);
	if (s & (PK_RW_SLEEPER | PK_RW_PARKED))
		PK_PROBE1(rwlock_unlock, rw);
	if (want & PK_RW_SPREAD)
		pk_count_in(pk_self.record, PK_STAT_spread);
	return 0;
}

/* A reader that was not found apart: they come and go while one looks, and an unlock takes
 * away any of them, another one's too. In the state none is missed, so count them there.
 * False: nothing has become of that for long, as where a fork has left the front taken. The
 * caller still is a reader by then, so the lock is not freed meanwhile. */
static PK_COLD bool count_centrally(struct pk_rwlock *rw, unsigned *tries)
{
	if (*tries == 0)
		return false;
	--*tries;
	if (pk_rwlock_front_try(rw)) {
		pk_readers_recall(rw, false);
		pk_rwlock_front_leave(rw);
	} else {
		pk_real()->sched_yield(); /* its holder is about to do so, or has just set SPREAD */
	}
	return true;
}

static int rdunlock(struct pk_rwlock *rw, uint64_t s)
{
	void *front = sleeping_place(rw);
	unsigned tries = 1000;
	uint64_t want;

	if (pk_self.apart && pk_readers_leave(rw, s))
		goto out;
	do {
		while (pk_unlikely(!(s & PK_RW_READERS))) {
			/* Another thread's read lock, or nobody's. */
			if (!(s & (PK_RW_SPREAD | PK_RW_RECALL)))
				return EPERM;
			if (pk_readers_leave_any(rw))
				goto out;
			if (pk_load_acquire(&rw->state) == s && !count_centrally(rw, &tries))
				return EPERM;
			s = pk_load_acquire(&rw->state);
		}
		want = s - PK_RW_READER;
		if (!(want & PK_RW_READERS))
			want &= ~PK_RW_SLEEPER;
	} while (!pk_cas_release(&rw->state, &s, want)); /* O1 */
	if (s & ~want & PK_RW_SLEEPER) {
		PK_PROBE1(rwlock_unlock, rw);
		pk_futex_wake(front, 1);
	}
out:
	pk_self.reads -= pk_self.reads != 0;
	return 0;
}

/* ---- the functions ---- */

/* The lock is one that we serve, and the thread has a tid. If not it is given one, or
 * glibc's function is to be called. */
static bool is_ours(const struct pk_rwlock *rw)
{
	return pk_likely(!rw->shared) && (pk_likely(pk_self.tid) ? pk_likely(!pk_thread_forwards()) : pk_thread_start());
}

/* The same for who may wait: a handler gives its thread's place up for glibc's locks as it does for ours (lock_in_front()). */
static bool is_ours_to_wait(const struct pk_rwlock *rw)
{
	bool ours = is_ours(rw);

	if (pk_unlikely(!ours))
		pk_turn_step_back();
	return ours;
}

/* As glibc: looked at even if nobody has to wait. (No time at all is none that comes.) */
static bool is_valid(const struct pk_deadline *deadline)
{
	return (deadline->clock == CLOCK_REALTIME || deadline->clock == CLOCK_MONOTONIC) &&
	       (unsigned long)deadline->abstime->tv_nsec < 1000000000;
}

int pk_rwlock_rdlock_slow(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	uint64_t s = pk_load_acquire(&rw->state); /* readers.h: enter */

	if (pk_unlikely(!is_ours_to_wait(rw)))
		return pk_real()->pthread_rwlock_rdlock(rwlock);
	if (pk_likely((s & (PK_RW_SPREAD | PK_RW_READERS)) == PK_RW_SPREAD && pk_readers_push(rw))) {
		pk_self.reads++;
		return 0;
	}
	return rdlock(rw, NULL);
}

int pk_rwlock_clockrdlock(pthread_rwlock_t *rwlock, clockid_t clock, const struct timespec *abstime)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	struct pk_deadline deadline = {abstime, clock};

	if (!is_ours_to_wait(rw))
		return pk_real()->pthread_rwlock_clockrdlock(rwlock, clock, abstime);
	if (!abstime)
		return rdlock(rw, NULL);
	return is_valid(&deadline) ? rdlock(rw, &deadline) : EINVAL;
}

int pk_rwlock_timedrdlock(pthread_rwlock_t *rwlock, const struct timespec *abstime)
{
	if (!is_ours_to_wait(pk_rwlock_of(rwlock)))
		return pk_real()->pthread_rwlock_timedrdlock(rwlock, abstime);
	return pk_rwlock_clockrdlock(rwlock, CLOCK_REALTIME, abstime);
}

int pk_rwlock_tryrdlock(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);

	if (!is_ours(rw))
		return pk_real()->pthread_rwlock_tryrdlock(rwlock);
	return try_to_read(rw, !prefers_writers(rw));
}

int pk_rwlock_wrlock_slow(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);

	return is_ours_to_wait(rw) ? wrlock(rw, NULL) : pk_real()->pthread_rwlock_wrlock(rwlock);
}

int pk_rwlock_clockwrlock(pthread_rwlock_t *rwlock, clockid_t clock, const struct timespec *abstime)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	struct pk_deadline deadline = {abstime, clock};

	if (!is_ours_to_wait(rw))
		return pk_real()->pthread_rwlock_clockwrlock(rwlock, clock, abstime);
	if (!abstime)
		return wrlock(rw, NULL);
	return is_valid(&deadline) ? wrlock(rw, &deadline) : EINVAL;
}

int pk_rwlock_timedwrlock(pthread_rwlock_t *rwlock, const struct timespec *abstime)
{
	if (!is_ours_to_wait(pk_rwlock_of(rwlock)))
		return pk_real()->pthread_rwlock_timedwrlock(rwlock, abstime);
	return pk_rwlock_clockwrlock(rwlock, CLOCK_REALTIME, abstime);
}

int pk_rwlock_trywrlock(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	bool got;

	if (!is_ours(rw))
		return pk_real()->pthread_rwlock_trywrlock(rwlock);
	got = write_now(rw);
	if (!got && (pk_load_relaxed(&rw->state) & PK_RW_SPREAD) && pk_rwlock_front_try(rw)) {
		pk_readers_recall(rw, false);
		got = write_now(rw);
		pk_rwlock_front_leave(rw);
	}
	return got ? own(rw) : EBUSY;
}

int pk_rwlock_unlock_slow(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);
	uint64_t s;

	if (!is_ours(rw))
		return pk_real()->pthread_rwlock_unlock(rwlock);
	s = pk_load_acquire(&rw->state); /* readers.h: leave */
	if (pk_likely(pk_self.apart && pk_readers_pop(rw, s))) {
		pk_self.reads -= pk_self.reads != 0;
		return 0;
	}
	return s & PK_RW_WRITER ? wrunlock(rw) : rdunlock(rw, s);
}

int pk_rwlock_init(pthread_rwlock_t *rwlock, const pthread_rwlockattr_t *attr)
{
	if (attr)
		return pk_real()->pthread_rwlock_init(rwlock, attr);
	memset(rwlock, 0, sizeof(*rwlock));
	return 0;
}

int pk_rwlock_destroy(pthread_rwlock_t *rwlock)
{
	struct pk_rwlock *rw = pk_rwlock_of(rwlock);

	PK_PROBE1(rwlock_destroy, rw);
	if (!is_ours(rw))
		return pk_real()->pthread_rwlock_destroy(rwlock);
	if (pk_load_relaxed(&rw->state) & PK_RW_SPREAD)
		pk_readers_forget(rw);
	return 0;
}
