/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Scenes: small situations, played again and again by one thread of the round, the *director*, with a few *extras* that
 * it makes for it, and objects that nobody else knows.
 *
 * In the crowd of a round somebody else comes by sooner or later, and what was lost is found again: who takes a mutex
 * that others wait for wakes the one that was forgotten. In a scene nobody comes until all are through. And it knows what
 * it waits for: a handler is sent to a thread that sleeps in a queue, a cancellation to one that has just been signalled,
 * an object is destroyed just as a deadline passes.
 *
 * Threads also *stumble*: with the trap flag they go through a call in single steps, and are held up at some instruction.
 *
 * Handlers that lock a mutex, as those of scenes do: POSIX does not have them, but glibc does not mind, as long as it is
 * another mutex than those in which their thread may be just then. Nor does it mind a thread that ends in such a handler,
 * as long as the mutex in which it was is another thread's meanwhile.
 */
#include "torture.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
	CROWD = 40,  /* more than a process-shared condition variable can tell apart */
	ASIDES = 2,  /* mutexes for handlers */
	PAGES = 3,   /* of a stage: the lock, the condition variable, the rest */
	STEPS = 256, /* that a stumbling thread goes at most */
	/* For so long at most it is held up for another one: where both have one CPU, each look may take a time slice. */
	HELD_UP_US = 50000,
};

struct scene {
	enum scene_kind kind;
	int extras;
	struct thread *extra[CROWD];
	char *stage;
	struct lock *lock;
	union {
		pthread_cond_t cond;
		cnd_t cnd;
	} *signal;
	struct lock *aside;
	struct box *box;
	bool stumbles;
	/* all of them meet before each iteration, and after it */
	atomic_int here;
	atomic_bool go, cue, next, gone, out;
	bool released, reads;
	int jitter; /* in us */
	uint64_t until;
	_Atomic uint64_t uses; /* of the lock */
};

static const struct plan *plan(void)
{
	return &common->plan;
}

/* ---- stumbling ---- */

#ifdef __x86_64__
enum { SEES_SLEEP = true, TRAP_FLAG = 0x100, GLANCES = 8 };

/* After each instruction: has another one got what is being released? If so, that one goes first. */
static void let_pass(void)
{
	if (me->naps)
		nap_us(20);
	for (int i = 0; i < GLANCES && !me->naps && !atomic_load(me->next); i++)
		sched_yield();
	while (atomic_load(me->next) && !atomic_load(me->held_up) && me->linger) {
		me->linger--;
		nap_us(20);
	}
}

/* What a handler has interrupted is a wait for a private futex: at its system call, which the kernel may be about to take
 * up again. */
static bool was_asleep(const ucontext_t *c)
{
	const greg_t *reg = c->uc_mcontext.gregs;
	const unsigned char *at = (const unsigned char *)reg[REG_RIP];
	int what = (int)reg[REG_RSI] & ~FUTEX_CLOCK_REALTIME;

	return ((at[0] == 0x0f && at[1] == 0x05) || (at[-2] == 0x0f && at[-1] == 0x05)) &&
	       (reg[REG_RAX] == SYS_futex || reg[REG_RAX] == SYS_restart_syscall || reg[REG_RAX] == -EINTR) &&
	       (what == FUTEX_WAIT_PRIVATE || what == FUTEX_WAIT_BITSET_PRIVATE);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	int saved = errno;

	(void)sig;
	(void)info;
	if (me->stumble > 1) {
		me->stumble--;
		return;
	}
	if (me->held_up && me->linger && !atomic_load(me->held_up) && now_us() < me->until) {
		if (me->next) {
			let_pass();
		} else { /* a little at each step */
			me->linger--;
			nap_us(20);
		}
		errno = saved;
		return;
	}
	me->stumble = 0;
	c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	if (!me->held_up)
		nap_us(240);
	errno = saved;
}

void stumble_begin(void)
{
	if (me->stumble)
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
}

void stumble_end(void)
{
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG);
	me->stumble = 0;
	me->held_up = NULL;
	me->next = NULL;
}
#else
enum { SEES_SLEEP = false };

static bool was_asleep(const ucontext_t *c)
{
	(void)c;
	return false;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
}

void stumble_begin(void)
{
}

void stumble_end(void)
{
	me->stumble = 0;
}
#endif

/* At which instruction, or 0: not at all. */
static uint32_t stumbling(const struct scene *s)
{
	struct dice *d = &me->dice;

	if (!s->stumbles || s->kind == VANISH || !one_in(d, 3))
		return 0;
	return 1 + roll_below(d, STEPS >> roll_below(d, 5));
}

/* ---- on the stage ---- */

static void beat(void)
{
	atomic_fetch_add_explicit(&common->beats, 1, memory_order_relaxed);
}

/* A little while of any length: this is what decides who comes first. */
static void dither(unsigned most_us)
{
	struct dice *d = &me->dice;

	switch (roll_below(d, 4)) {
	case 0:
		break;
	case 1:
		for (volatile uint32_t i = roll_below(d, 3000); i; i--)
			;
		break;
	case 2:
		sched_yield();
		break;
	default:
		nap_us(1 + roll_below(d, most_us));
	}
}

static void spin_until(uint64_t us)
{
	while (now_us() < us)
		;
}

/* The child of a handler that forked and returned ends here. */
static void meet(struct scene *s, int *met)
{
	int all = (s->extras + 1) * ++*met, tries = 0;

	if (in_child)
		scene_child_ends();
	beat();
	atomic_fetch_add(&s->here, 1);
	while (atomic_load(&s->here) < all) {
		if (++tries < 2000 && tries % 64)
			continue;
		if (tries < 2000)
			sched_yield();
		else
			nap_us(20);
		if (in_child)
			scene_child_ends();
	}
}

static void send_to(const struct thread *t, int sig)
{
	syscall(SYS_tgkill, t->pid, atomic_load(&t->tid), sig);
}

static void send(const struct scene *s, int sig)
{
	send_to(s->extra[roll_below(&me->dice, (uint32_t)s->extras)], sig);
}

/* ---- a queue: all get through, though nobody comes after them ---- */

static void use(struct scene *s)
{
	struct dice *d = &me->dice;
	long how = one_in(d, 6) ? 1 + (long)roll_below(d, 2000) : 0;

	me->stumble = stumbling(s);
	if (lock_take(s->lock, false, how))
		return;
	atomic_fetch_add(&s->uses, 1);
	dither(600);
	me->stumble = stumbling(s);
	lock_drop(s->lock, false);
}

static void queue_extra(struct scene *s)
{
	dither(800);
	use(s);
	if (one_in(&me->dice, 4))
		use(s);
}

static void queue_director(struct scene *s)
{
	struct dice *d = &me->dice;
	int signals = plan()->scene_signals ? (int)roll_below(d, 4) : 0, asides = signals ? (int)roll_below(d, 3) : 0;
	bool first;

	lock_take(s->lock, false, 0);
	atomic_store(&s->cue, true);
	for (int i = 0; i < asides; i++)
		lock_take(&s->aside[i], false, 0);
	nap_us(200 + roll_below(d, 800));
	for (int i = 0; i < signals; i++) {
		send(s, plan()->scene_forks && one_in(d, 4) ? SIGUSR2 : SIGURG);
		dither(300);
	}
	first = one_in(d, 2);
	if (first)
		lock_drop(s->lock, false);
	for (int i = 0; i < asides; i++) {
		dither(600);
		lock_drop(&s->aside[i], false);
	}
	if (!first) {
		dither(600);
		lock_drop(s->lock, false);
	}
	if (one_in(d, 3))
		use(s);
}

/* ---- some vanish: they end in a handler, in the middle of their wait, and the others do not care ---- */

static void vanish_extra(struct scene *s)
{
	atomic_fetch_add(&s->here, 1);
	while (!atomic_load(&s->cue))
		sched_yield();
	dither(300);
	use(s);
	if (one_in(&me->dice, 2))
		use(s);
	atomic_store(&me->leaves, GOING);
}

/* It is on its way out, by a handler or because its deadline has passed. */
static void see_off(struct thread *t)
{
	int stays = STAYS;

	atomic_compare_exchange_strong(&t->leaves, &stays, ASKED);
	while (atomic_load(&t->leaves) == ASKED) {
		send_to(t, SIGURG);
		dither(200);
	}
}

static void join(struct thread *t)
{
	pthread_join(t->thread, NULL);
	t->seen_off = true;
}

/* The mutex is kept until they have gone: one that has got it, or has been woken for it, would take that along, with
 * glibc, too. */
static void vanish_director(struct scene *s)
{
	struct dice *d = &me->dice;
	int leave = SEES_SLEEP && plan()->scene_signals ? 1 + (int)roll_below(d, (uint32_t)s->extras) : 0;
	int asides = leave ? (int)roll_below(d, ASIDES + 1) : 0, from = (int)roll_below(d, (uint32_t)s->extras);

	lock_take(s->lock, false, 0);
	atomic_fetch_add(&s->uses, 1);
	for (int i = 0; i < asides; i++)
		lock_take(&s->aside[i], false, 0);
	while (atomic_load(&s->here) < s->extras) /* each has its TID, and lets signals in */
		sched_yield();
	atomic_store(&s->cue, true);
	nap_us(200 + roll_below(d, 800));
	if (leave && leave < s->extras && one_in(d, 3)) /* this one goes on after its handler */
		send_to(s->extra[(from + leave) % s->extras], SIGURG);
	for (int i = 0; i < leave; i++)
		see_off(s->extra[(from + i) % s->extras]);
	for (int i = 0; i < asides; i++) {
		dither(600);
		lock_drop(&s->aside[i], false);
	}
	for (int i = 0; i < leave; i++)
		join(s->extra[(from + i) % s->extras]);
	beat();
	dither(200);
	lock_drop(s->lock, false);
	if (one_in(d, 3))
		use(s);
}

/* ---- tokens: what was signalled returns, whoever is cancelled ---- */

static void token_extra(struct scene *s)
{
	struct box *b = s->box;

	dither(100);
	lock_take(&b->guard, false, 0);
	while (!b->tokens && !b->closing)
		box_wait_inside(b, BOXES_MAX, 0);
	if (b->tokens) {
		b->tokens--;
		b->spent++;
	}
	lock_drop(&b->guard, false);
}

/* Until all of them wait, or there are no tokens. */
static void look_into(struct box *b, int waiting)
{
	for (bool good = false; !good; nap_us(100)) {
		lock_take(&b->guard, false, 0);
		good = waiting ? b->waiting == waiting : !b->tokens;
		lock_drop(&b->guard, false);
	}
}

static void token_director(struct scene *s)
{
	struct dice *d = &me->dice;
	struct box *b = s->box;
	int most = s->extras - 1, cancels = plan()->may_cancel && s->extras < CROWD ? (int)roll_below(d, 3) : 0;
	int tokens, when = (int)roll_below(d, 3), from = one_in(d, 2) ? 0 : (int)roll_below(d, (uint32_t)s->extras);
	bool outside = one_in(d, 2), all;

	cancels = cancels < most ? cancels : most;
	most -= cancels;
	tokens = most < CROWD - 8 ? (int)roll_below(d, (uint32_t)most + 1) : most;
	all = tokens > 1 && one_in(d, 4);
	look_into(b, s->extras);
	lock_take(&b->guard, false, 0);
	b->tokens += (uint64_t)tokens;
	b->made += (uint64_t)tokens;
	for (int i = 0; i < cancels && when == 0; i++)
		cancel(s->extra[(from + i) % s->extras]);
	if (outside)
		lock_drop(&b->guard, false);
	for (int i = 0; i < (all ? tokens > 0 : tokens); i++)
		box_signal(b, all);
	for (int i = 0; i < cancels && when == 1; i++)
		cancel(s->extra[(from + i) % s->extras]);
	if (!outside)
		lock_drop(&b->guard, false);
	dither(200);
	for (int i = 0; i < cancels && when == 2; i++)
		cancel(s->extra[(from + i) % s->extras]);
	look_into(b, 0);
	lock_take(&b->guard, false, 0);
	b->closing = true;
	if (one_in(d, 2))
		box_signal(b, true);
	lock_drop(&b->guard, false);
	box_signal(b, true);
}

/* ---- leavers: a condition variable is destroyed as their deadlines pass ---- */

static bool is_c11(const struct scene *s)
{
	return s->lock->kind->family == C11;
}

static void signal_make(struct scene *s)
{
	pthread_condattr_t attr;

	if (is_c11(s)) {
		cnd_init(&s->signal->cnd);
		return;
	}
	pthread_condattr_init(&attr);
	if (s->lock->kind->shared)
		pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->signal->cond, &attr);
	pthread_condattr_destroy(&attr);
}

static void leaver_extra(struct scene *s)
{
	uint64_t at = s->until + roll_below(&me->dice, (uint32_t)s->jitter);
	struct timespec until = {(time_t)(at / 1000000), (long)(at % 1000000 * 1000)};
	int rc;

	if (is_c11(s)) { /* by the other clock */
		struct timespec now, real;

		clock_gettime(CLOCK_MONOTONIC, &now);
		clock_gettime(CLOCK_REALTIME, &real);
		until.tv_sec += real.tv_sec - now.tv_sec;
		until.tv_nsec += real.tv_nsec - now.tv_nsec;
		if (until.tv_nsec < 0)
			until.tv_sec--, until.tv_nsec += 1000000000;
		if (until.tv_nsec >= 1000000000)
			until.tv_sec++, until.tv_nsec -= 1000000000;
	}
	lock_take(s->lock, false, 0);
	if (!s->released) {
		shadow_leave(s->lock);
		note(WAIT, s->lock->number, -1);
		if (is_c11(s))
			rc = cnd_timedwait(&s->signal->cnd, &s->lock->mtx, &until);
		else
			rc = pthread_cond_clockwait(&s->signal->cond, &s->lock->mutex, CLOCK_MONOTONIC, &until);
		note(WAIT, s->lock->number, rc);
		shadow_enter(s->lock);
	}
	lock_drop(s->lock, false);
}

static void leaver_director(struct scene *s, int *met)
{
	struct dice *d = &me->dice;
	unsigned char fill = (unsigned char)roll(d), *byte = (unsigned char *)s->signal;
	bool away = one_in(d, 2);

	spin_until(s->until + roll_below(d, (uint32_t)s->jitter));
	lock_take(s->lock, false, 0);
	s->released = true;
	me->stumble = stumbling(s);
	stumble_begin();
	if (is_c11(s)) {
		cnd_broadcast(&s->signal->cnd);
		cnd_destroy(&s->signal->cnd);
	} else {
		pthread_cond_broadcast(&s->signal->cond);
		pthread_cond_destroy(&s->signal->cond);
	}
	stumble_end();
	memset(byte, fill, CELL_SIZE);
	if (away)
		mprotect(byte, CELL_SIZE, PROT_NONE);
	lock_drop(s->lock, false);
	meet(s, met);
	if (away)
		mprotect(byte, CELL_SIZE, PROT_READ | PROT_WRITE);
	for (int i = 0; i < CELL_SIZE; i++)
		if (byte[i] != fill)
			fail("lifetime: byte %d of a destroyed %scondition variable was written, its mutex %s", i,
			     s->lock->kind->shared ? "process-shared " : "", s->lock->kind->name);
	signal_make(s);
}

/* ---- the last one destroys, while the one before is on its way out ---- */

static void last_extra(struct scene *s)
{
	bool read = s->reads && one_in(&me->dice, 2);

	lock_take(s->lock, read, 0);
	atomic_store(&s->cue, true);
	dither(50);
	me->held_up = &s->gone;
	me->until = now_us() + HELD_UP_US;
	if (one_in(&me->dice, 2)) { /* at whatever instruction, for a while */
		me->linger = 16;
		me->stumble = 1 + roll_below(&me->dice, STEPS / 2);
	} else { /* at the one after which the other has got it, until it is gone */
		me->next = &s->next;
		me->naps = one_in(&me->dice, 2);
		me->linger = 50;
		me->stumble = 1;
	}
	lock_drop(s->lock, read);
	atomic_store(&s->out, true);
}

static void last_director(struct scene *s)
{
	const struct kind *kind = s->lock->kind;
	bool away = !one_in(&me->dice, 4);
	uint32_t how = roll_below(&me->dice, 4);

	while (!atomic_load(&s->cue))
		sched_yield();
	if (one_in(&me->dice, 2))
		dither(100);
	if (how == 0) /* who sleeps is woken when the other is through, but for one whose time is over just then */
		lock_take(s->lock, false, 0);
	else
		while (lock_take(s->lock, false, how == 1 ? 1 + (long)roll_below(&me->dice, 30) : -1))
			sched_yield();
	atomic_store(&s->next, true);
	lock_drop(s->lock, false);
	lock_destroy(s->lock);
	memset(s->lock, (int)roll(&me->dice), sizeof(*s->lock));
	if (away)
		mprotect(s->lock, CELL_SIZE, PROT_NONE);
	atomic_store(&s->gone, true);
	if (away) {
		if (one_in(&me->dice, 4))
			dither(300);
		else
			while (!atomic_load(&s->out))
				sched_yield();
		mprotect(s->lock, CELL_SIZE, PROT_READ | PROT_WRITE);
	}
	lock_make(s->lock, kind, OBJECTS - 1);
}

/* ---- readers that nest, and writers between them ---- */

static void reader_extra(struct scene *s)
{
	struct dice *d = &me->dice;

	for (int i = 0; i < 4; i++) {
		int depth = s->reads ? 1 + (int)roll_below(d, 3) : 1;

		for (int n = 0; n < depth; n++) {
			me->stumble = stumbling(s);
			lock_take(s->lock, true, 0);
		}
		for (int n = 0; n < depth; n++) {
			dither(300);
			lock_drop(s->lock, true);
		}
	}
}

static void reader_director(struct scene *s)
{
	for (int i = 0; i < 3; i++) {
		dither(200);
		lock_take(s->lock, false, 0);
		dither(100);
		me->stumble = stumbling(s);
		lock_drop(s->lock, false);
	}
}

/* ---- all of them ---- */

static void play(struct scene *s, int *met, bool director)
{
	switch (s->kind) {
	case QUEUE:
		if (director) {
			queue_director(s);
		} else {
			while (!atomic_load(&s->cue))
				sched_yield();
			queue_extra(s);
		}
		break;
	case LEAVERS:
		if (director)
			leaver_director(s, met);
		else
			leaver_extra(s), meet(s, met);
		break;
	case LAST:
		if (director)
			last_director(s);
		else
			last_extra(s);
		break;
	default:
		if (director)
			reader_director(s);
		else
			reader_extra(s);
	}
}

/* Some may not be there any more, or not yet. */
static void go_on(struct scene *s, int turn)
{
	atomic_store(&s->go, turn && !common->stop && !common->hush);
	atomic_store(&s->cue, false);
	atomic_store(&s->next, false);
	atomic_store(&s->gone, false);
	atomic_store(&s->out, false);
	s->released = false;
	s->jitter = 1 << roll_below(&me->dice, 7);
	s->until = now_us() + 60 + roll_below(&me->dice, 200);
}

static void *extra_main(void *thread)
{
	struct thread *t = thread;
	struct scene *s = t->scene;
	int met = 0;

	thread_start(t);
	scene_signals(SIG_UNBLOCK);
	if (s->kind == TOKENS) {
		token_extra(s);
	} else if (s->kind == VANISH) {
		vanish_extra(s);
	} else {
		for (meet(s, &met); atomic_load(&s->go); meet(s, &met)) {
			play(s, &met, false);
			meet(s, &met);
		}
	}
	scene_signals(SIG_BLOCK);
	return NULL;
}

static void enlist(struct scene *s, int most)
{
	for (int i = EXTRA; i < SLOTS && s->extras < most; i++) {
		struct thread *t = &common->thread[i];
		int absent = ABSENT;

		if (!atomic_compare_exchange_strong(&t->phase, &absent, RUNNING))
			continue;
		t->slot = i;
		t->dice.state = roll(&me->dice);
		t->second = me->second;
		t->uses = 0;
		t->dies = false;
		t->mixed = plan()->may_mix && one_in(&me->dice, 3);
		t->scene = s;
		t->stage = s->stage;
		t->stumble = 0;
		t->held_up = NULL;
		t->next = NULL;
		atomic_store(&t->leaves, STAYS);
		t->seen_off = false;
		atomic_store(&t->cancellable, false);
		s->extra[s->extras++] = t;
	}
}

static void dismiss(struct scene *s)
{
	for (int i = 0; i < s->extras; i++)
		atomic_store(&s->extra[i]->phase, ABSENT);
}

static bool suits(const struct kind *k, enum scene_kind kind)
{
	bool mutex = k->family == MUTEX || k->family == C11;

	if (k->robust || k->inherits)
		return false;
	switch (kind) {
	case QUEUE:
	case VANISH:
		return mutex && !k->shared;
	case TOKENS:
	case LEAVERS:
		return mutex;
	case LAST:
		return !k->by_hand && !k->shared;
	default:
		return k->family == RWLOCK && k->type != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
	}
}

/* Nobody uses it. */
static void look_at(struct lock *l)
{
	if (!lock_idle(l))
		fail("progress: the mutex of a scene cannot be taken, and nobody uses it");
	lock_bits(l);
}

static void act_out(struct scene *s)
{
	int met = 0;

	if (s->kind == TOKENS) {
		token_director(s);
		return;
	}
	if (s->kind == VANISH) {
		vanish_director(s);
		return;
	}
	for (int turns = 4 + (int)roll_below(&me->dice, s->kind == LAST ? 200 : 24); go_on(s, turns), meet(s, &met), atomic_load(&s->go); turns--) {
		play(s, &met, true);
		meet(s, &met);
		if (s->kind == QUEUE)
			look_at(s->lock);
	}
}

static void hire(struct scene *s)
{
	pthread_attr_t attr;
	pthread_t thread[CROWD];

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	for (int i = 0; i < s->extras; i++)
		if (pthread_create(&thread[i], &attr, extra_main, s->extra[i]))
			fail("no extra can be made");
	pthread_attr_destroy(&attr);
	act_out(s);
	for (int i = 0; i < s->extras; i++)
		if (!s->extra[i]->seen_off)
			pthread_join(thread[i], NULL);
}

/* Who has vanished is followed by another: the mutex stays, and with it whatever they have left in its queue. */
static void vanish(struct scene *s)
{
	int turns = 4 + (int)roll_below(&me->dice, 12);

	do {
		uint64_t before = s->lock->left;

		atomic_store(&s->here, 0);
		atomic_store(&s->cue, false);
		atomic_store(&s->uses, 0);
		for (int i = 0; i < s->extras; i++) {
			atomic_store(&s->extra[i]->leaves, STAYS);
			s->extra[i]->seen_off = false;
		}
		hire(s);
		if (s->lock->left - before != atomic_load(&s->uses))
			fail("conservation: the mutex of a scene was taken %" PRIu64 " times, and counts %" PRIu64,
			     atomic_load(&s->uses), s->lock->left - before);
		look_at(s->lock);
	} while (--turns && !common->stop && !common->hush);
}

void scene_act(void)
{
	struct dice *d = &me->dice;
	struct scene s = {.kind = NO_SCENE};
	const struct kind *k;
	int most;

	do
		s.kind = (enum scene_kind)roll_below(d, NO_SCENE);
	while (!(plan()->scenes & 1u << s.kind));
	do
		k = &kinds[roll_below(d, (uint32_t)kinds_number)];
	while (!suits(k, s.kind) || (s.kind == LAST && k->family != RWLOCK && one_in(d, 2)));
	most = s.kind == LAST ? 1 : 2 + (int)roll_below(d, 4);
	if (s.kind == TOKENS && k->shared && one_in(d, 3))
		most = CROWD;
	s.stage = mmap(NULL, PAGES * CELL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.stage == MAP_FAILED)
		return;
	s.lock = (struct lock *)s.stage;
	s.signal = (void *)(s.stage + CELL_SIZE);
	s.aside = (struct lock *)(s.stage + 2 * CELL_SIZE);
	s.box = (struct box *)s.stage;
	s.reads = k->family == RWLOCK;
	s.stumbles = one_in(d, 2);
	enlist(&s, most);
	if (s.extras >= (s.kind == LAST ? 1 : 2)) {
		sigset_t old;

		if (s.kind == TOKENS)
			box_make(s.box, k, one_in(d, 2), OBJECTS - 1);
		else
			lock_make(s.lock, k, OBJECTS - 1);
		if (s.kind == LEAVERS)
			signal_make(&s);
		for (int i = 0; i < ASIDES; i++)
			lock_make(&s.aside[i], &kinds[0], OBJECTS - 1);
		me->stage = s.stage;
		scene_signals_keep(&old);
		if (s.kind == VANISH)
			vanish(&s);
		else
			hire(&s);
		scene_signals_restore(&old);
		me->stage = NULL;
		if (s.kind == TOKENS)
			box_destroy(s.box);
		else
			lock_destroy(s.lock);
	}
	dismiss(&s);
	munmap(s.stage, PAGES * CELL_SIZE);
}

/* ---- handlers ---- */

/* Waits for mutexes while its thread may be waiting for another one. That may then be its thread's end. */
static void aside_handler(int sig, siginfo_t *info, void *context)
{
	int saved = errno, state, times;
	uint32_t stumbles;
	bool leaves;

	(void)sig;
	(void)info;
	if (!me || in_child || !me->scene || (me->scene->kind != QUEUE && me->scene->kind != VANISH))
		return;
	leaves = atomic_load(&me->leaves) == ASKED;
	if (leaves && !was_asleep(context)) /* it is asked again */
		return;
	if (leaves)
		atomic_store(&me->leaves, GOING);
	stumbles = me->stumble;
	me->stumble = 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	note(HANDLER, -1, 3);
	atomic_fetch_add(&common->signals, 1);
	times = leaves && one_in(&me->dice, 4) ? 0 : 1 + (int)roll_below(&me->dice, ASIDES);
	for (int i = 0; i < times; i++) {
		if (lock_take(&me->scene->aside[i], false, one_in(&me->dice, 6) ? 200 : 0))
			continue;
		dither(100);
		lock_drop(&me->scene->aside[i], false);
	}
	if (leaves) {
		note(DIE, -1, 0);
		pthread_exit(NULL);
	}
	me->stumble = stumbles;
	pthread_setcancelstate(state, &state);
	errno = saved;
}

/* In the child of a handler that forked: whoever else had the lock is not here; the thread returns from the handler, and
 * goes on waiting. glibc lets any thread unlock such a mutex. */
bool scene_goes_on_in_child(void)
{
	const struct kind *k = me && me->scene && me->scene->kind == QUEUE ? me->scene->lock->kind : NULL;

	return k && k->family == MUTEX &&
	       (k->type == PTHREAD_MUTEX_NORMAL || k->type == PTHREAD_MUTEX_ADAPTIVE_NP) && one_in(&me->dice, 2);
}

void scene_in_child(void)
{
	static struct thread self;
	struct lock *l = me->scene->lock;

	bool mine = atomic_load(&l->owner) == me->slot + 1 || l->mutex.__data.__owner == me->tid;

	self = *me;
	self.tid = 0; /* it may have got the lock by its parent's */
	me = &self;
	if (mine)
		return;
	atomic_store(&l->owner, 0);
	l->depth = 0;
	l->right = l->left;
	if (l->mutex.__data.__lock)
		pthread_mutex_unlock(&l->mutex);
}

/* And then uses what it has waited for. */
void scene_child_ends(void)
{
	for (int i = 0; i < 3; i++) {
		lock_take(me->scene->lock, false, 0);
		beat();
		lock_drop(me->scene->lock, false);
	}
	_exit(0);
}

static void signal_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGUSR2);
	sigaddset(set, SIGURG);
}

void scene_signals(int how)
{
	sigset_t set;

	signal_set(&set);
	pthread_sigmask(how, &set, NULL);
}

/* An extra begins with them blocked. */
void scene_signals_keep(sigset_t *old)
{
	sigset_t set;

	signal_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, old);
}

void scene_signals_restore(const sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

void scenes_setup(void)
{
	struct sigaction action = {.sa_sigaction = aside_handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGURG, &action, NULL);
	action.sa_sigaction = on_step;
	sigfillset(&action.sa_mask); /* a step in a handler would kill while this signal is blocked */
	sigaction(SIGTRAP, &action, NULL);
}
