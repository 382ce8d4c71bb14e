/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What the threads of a round do, one act after the other, by their own dice.
 *
 * An act ends with nothing held. Between two a thread pauses if all are asked to (hush), so that whoever still waits
 * then waits for something that is free.
 */
#include "torture.h"

#include <errno.h>
#include <execinfo.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *const act_names[NOTES] = {
	"chain", "recursion", "try",	"make",	 "spend", "spend-soon", "shout",  "cell", "fork", "offspring", "post",	"pause",
	"errors", "scene",    "lock?",	"read?", "unlock", "wait",	"wake",	  "die",  "cancelled", "handler", "close",
};

static pthread_key_t at_exit;

static const struct plan *plan(void)
{
	return &common->plan;
}

/* ---- small things ---- */

static void step(void)
{
	atomic_fetch_add_explicit(in_child ? &common->beats : &me->steps, 1, memory_order_relaxed);
}

/* As long as critical sections are: mostly next to nothing. */
void hold(struct dice *d)
{
	const struct plan *p = plan();

	if (one_in(d, p->asleep))
		nap_us(20 + roll_below(d, 400));
	else if (one_in(d, p->yields))
		sched_yield();
	else
		for (volatile uint32_t i = p->rounds ? roll_below(d, p->rounds) : 0; i; i--)
			;
}

static long patience_us(struct dice *d)
{
	static const long choices[] = {1, 20, 100, 500, 2000, 10000, 100000000};

	return choices[roll_below(d, sizeof(choices) / sizeof(choices[0]))];
}

static bool usable(const struct lock *l)
{
	return !me->second || l->kind->shared;
}

static void block(int how, sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(how, how == SIG_SETMASK ? old : &set, how == SIG_SETMASK ? NULL : old);
}

/* ---- locks ---- */

/* Some of the locks, in order; the others by trying. Released in any order. */
static void chain(bool out_of_order)
{
	struct dice *d = &me->dice;
	int n = plan()->locks, held[4], count = 0, spins = 0, from = roll_below(d, n);
	bool reading[4];

	for (int i = 0; i < n && count < 4; i++) {
		int number = (from + i) % n;
		struct lock *l = lock_at(number);
		bool again = number < from; /* lower than one that is held */
		bool read = l->kind->family == RWLOCK && roll_below(d, 100) < plan()->reads;
		long how = one_in(d, 8) ? -1 : one_in(d, 5) ? patience_us(d) : 0;

		if (!usable(l) || (count && one_in(d, 2)))
			continue;
		if (again && !out_of_order && count)
			break;
		if (count && (again || spins))
			how = -1;
		if (lock_take(l, read, how))
			continue;
		spins += l->kind->family == SPIN;
		reading[count] = read;
		held[count++] = number;
		me->held |= 1u << number;
		if (one_in(d, 2))
			break;
	}
	if (count && !spins)
		hold(d);
	while (count) {
		int which = roll_below(d, count), number = held[which];

		me->held &= ~(1u << number);
		lock_drop(lock_at(number), reading[which]);
		count--;
		held[which] = held[count];
		reading[which] = reading[count];
	}
}

static bool nests(const struct kind *k, bool *read)
{
	*read = k->family == RWLOCK && k->type == PTHREAD_RWLOCK_PREFER_READER_NP;
	return *read || (k->family == MUTEX && k->type == PTHREAD_MUTEX_RECURSIVE) ||
	       (k->family == C11 && (k->type & mtx_recursive));
}

/* The same lock several times. */
static void recurse(void)
{
	struct lock *l = lock_at(roll_below(&me->dice, plan()->locks));
	int depth = 2 + roll_below(&me->dice, 3);
	bool read;

	if (!usable(l) || !nests(l->kind, &read))
		return;
	for (int i = 0; i < depth; i++) {
		lock_take(l, read, 0);
		hold(&me->dice);
	}
	for (int i = 0; i < depth; i++)
		lock_drop(l, read);
}

static void errors(void)
{
	struct lock *l = lock_at(roll_below(&me->dice, plan()->locks));

	if (!usable(l))
		return;
	lock_refusals(l);
	if (lock_take(l, false, 0))
		return;
	lock_refusals(l);
	lock_drop(l, false);
}

/* ---- boxes ---- */

static void forget_wait(void *box)
{
	struct box *b = box;

	atomic_store(&me->phase, RUNNING);
	shadow_enter(&b->guard); /* cancelled: POSIX has the mutex ours */
	box_depart(b, me->arrival, false);
	note(CANCELLED, b->guard.number, 0);
	atomic_fetch_add(&common->cancels, 1);
	lock_drop(&b->guard, false);
}

/* In a box: one wait, which may be the thread's end. */
int box_wait_inside(struct box *b, int number, long timeout_us)
{
	bool cancellable = !timeout_us && (me->scene ? plan()->may_cancel : plan()->cancels && !me->uses);
	int rc, state;

	me->box = number;
	if (!timeout_us)
		atomic_store(&me->phase, IN_BOX);
	pthread_cleanup_push(forget_wait, b);
	if (cancellable) {
		atomic_store(&me->cancellable, true);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	}
	rc = box_wait(b, timeout_us);
	if (cancellable) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		atomic_store(&me->cancellable, false);
	}
	pthread_cleanup_pop(0);
	atomic_store(&me->phase, RUNNING);
	return rc;
}

static void spend(struct box *b, int number, bool soon)
{
	int rc = 0;

	lock_take(&b->guard, false, 0);
	while (!b->tokens && !b->closing && rc != ETIMEDOUT)
		rc = box_wait_inside(b, number, soon ? 1 + roll_below(&me->dice, 2) * patience_us(&me->dice) % 20000 : 0);
	/* Whose time is over leaves at once: a signal may not have gone to it. */
	if (b->tokens && rc != ETIMEDOUT) {
		b->tokens--;
		b->spent++;
	}
	hold(&me->dice);
	lock_drop(&b->guard, false);
}

void cancel(struct thread *t)
{
	atomic_fetch_add(&t->cancelling, 1);
	if (atomic_exchange(&t->cancellable, false))
		pthread_cancel(t->thread);
	atomic_fetch_sub(&t->cancelling, 1);
}

/* Somebody who waits there, and is about to be signalled. */
static void cancel_in(int box)
{
	int n = plan()->threads, from = (int)roll_below(&me->dice, n);

	for (int i = 0; i < n && !me->second; i++) {
		struct thread *t = &common->thread[(from + i) % n];

		if (!t->second && t != me && atomic_load(&t->phase) == IN_BOX && t->box == box &&
		    atomic_load(&t->cancellable)) {
			cancel(t);
			return;
		}
	}
}

static void make(struct box *b, int number)
{
	int cancels = plan()->cancels && one_in(&me->dice, 5) ? 1 + (int)roll_below(&me->dice, 2) : 0;
	int n = one_in(&me->dice, 8) ? 1 + roll_below(&me->dice, 3) : 1;
	bool outside = one_in(&me->dice, 2), all = n > 1 && one_in(&me->dice, 2);

	lock_take(&b->guard, false, 0);
	b->tokens += n;
	b->made += n;
	if (cancels == 1)
		cancel_in(number);
	for (int i = 0; i < (all ? 1 : n); i++) {
		box_owe(b, all);
		if (!outside)
			box_signal(b, all);
	}
	if (cancels == 2 && !outside)
		cancel_in(number);
	hold(&me->dice);
	lock_drop(&b->guard, false);
	for (int i = 0; outside && i < (all ? 1 : n); i++)
		box_signal(b, all);
}

static void visit_box(enum act act)
{
	int number = plan()->boxes ? (int)roll_below(&me->dice, plan()->boxes) : 0;
	struct box *b = box_at(number);

	if (!plan()->boxes || !usable(&b->guard))
		return;
	/* Neither shall pile up; a look without the mutex will do. */
	if (act == MAKE && *(volatile uint64_t *)&b->tokens > (plan()->crowds ? 0 : 2))
		act = SPEND;
	else if (act == SPEND && *(volatile int *)&b->waiting * 4 >= plan()->threads * (plan()->crowds ? 3 : 2))
		act = MAKE;
	if (act == MAKE) {
		make(b, number);
	} else if (act == SHOUT) {
		box_signal(b, true);
	} else {
		spend(b, number, act == SPEND_SOON || me->uses);
	}
}

/* ---- cells ---- */

static struct cell_object *object_of(struct cell *c)
{
	return (struct cell_object *)c->page;
}

/* Kinds that a last user may destroy as soon as it has unlocked. */
static const struct kind *mortal(struct dice *d)
{
	const struct kind *k;

	do
		k = &kinds[roll_below(d, kinds_number)];
	while (k->robust || k->by_hand || k->inherits || k->shared);
	return k;
}

static bool is_c11(const struct cell_object *o)
{
	return o->lock.kind->family == C11;
}

void cell_make(struct cell *c, struct dice *d)
{
	struct cell_object *o = object_of(c);
	int users = 1 + roll_below(d, 4);
	uint64_t generation = (c->tickets >> 16) + 1;

	o->left = o->inside = users;
	o->released = false;
	lock_make(&o->lock, mortal(d), OBJECTS - 1);
	o->has_signal = (o->lock.kind->family == MUTEX || is_c11(o)) && one_in(d, 2);
	if (o->has_signal && is_c11(o))
		cnd_init(&o->signal.cnd);
	else if (o->has_signal)
		pthread_cond_init(&o->signal.cond, NULL);
	atomic_store(&c->tickets, generation << 16 | (unsigned)users);
}

/* Until all have come, or for a little while: the deadline may pass just as the object is destroyed. */
static void wait_for_others(struct cell_object *o)
{
	struct timespec until;
	int rc;

	if (o->released)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 1000 + roll_below(&me->dice, one_in(&me->dice, 4) ? 2000000 : 100000);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	shadow_leave(&o->lock);
	note(WAIT, o->lock.number, -1);
	if (is_c11(o))
		rc = cnd_timedwait(&o->signal.cnd, &o->lock.mtx, &until);
	else
		rc = pthread_cond_timedwait(&o->signal.cond, &o->lock.mutex, &until);
	note(WAIT, o->lock.number, rc);
	shadow_enter(&o->lock);
}

/* POSIX: nobody is blocked there any more after a broadcast. */
static void release_others(struct cell_object *o)
{
	o->released = true;
	if (is_c11(o)) {
		cnd_broadcast(&o->signal.cnd);
		cnd_destroy(&o->signal.cnd);
	} else {
		pthread_cond_broadcast(&o->signal.cond);
		if (pthread_cond_destroy(&o->signal.cond))
			fail("the condition variable of a cell could not be destroyed");
	}
	memset(&o->signal, (int)roll(&me->dice), sizeof(o->signal));
}

static void visit_cell(void)
{
	struct cell *c = plan()->cells ? &cells[roll_below(&me->dice, plan()->cells)] : NULL;
	struct cell_object *o;
	uint64_t tickets;
	bool last;

	if (!c || me->second)
		return;
	tickets = atomic_load(&c->tickets);
	do
		if (!(tickets & 0xffff))
			return;
	while (!atomic_compare_exchange_weak(&c->tickets, &tickets, tickets - 1));
	o = object_of(c);
	lock_take(&o->lock, false, 0);
	if (--o->left == 0 && o->has_signal)
		release_others(o);
	else if (o->has_signal)
		wait_for_others(o);
	last = --o->inside == 0;
	hold(&me->dice);
	lock_drop(&o->lock, false);
	if (!last)
		return;
	atomic_fetch_add(&common->reused, 1);
	lock_destroy(&o->lock);
	memset(c->page, (int)roll(&me->dice), sizeof(*o));
	if (one_in(&me->dice, 2)) { /* gone for a while: whoever looks at it crashes */
		mprotect(c->page, CELL_SIZE, PROT_NONE);
		hold(&me->dice);
		mprotect(c->page, CELL_SIZE, PROT_READ | PROT_WRITE);
	}
	cell_make(c, &me->dice);
}

/* ---- children ---- */

enum { FRESH = 4 };
static struct lock *fresh[FRESH];

static void *child_thread(void *self)
{
	me = self;
	me->tid = (int)syscall(SYS_gettid);
	for (int i = 0; i < 40; i++) {
		struct lock *l = fresh[roll_below(&me->dice, FRESH)];

		if (!lock_take(l, false, one_in(&me->dice, 4) ? 300 : 0)) {
			hold(&me->dice);
			lock_drop(l, false);
		}
		step();
	}
	return NULL;
}

static bool plain(const struct kind *k)
{
	return (k->family == MUTEX || k->family == C11) && !k->shared && !k->robust && !k->inherits;
}

/* What the child of a fork may take: what its thread held, and what nobody did. Others may have queued there. */
static struct lock *inherit(uint32_t held)
{
	struct lock *found = NULL;

	for (int n = 0; n < plan()->locks; n++) {
		struct lock *l = lock_at(n);
		bool mine = held & 1u << n;

		/* glibc's child has another TID, and may not unlock what knows its owner. */
		if (!plain(l->kind) || l->kind->family != MUTEX ||
		    (mine && l->kind->type != PTHREAD_MUTEX_NORMAL && l->kind->type != PTHREAD_MUTEX_ADAPTIVE_NP))
			continue;
		atomic_store(&l->owner, mine ? me->slot + 1 : 0);
		l->depth = mine;
		l->right = l->left - mine;
		if (mine)
			lock_drop(l, false);
		if (lock_take(l, false, -1))
			continue;
		lock_drop(l, false);
		if (!found || mine)
			found = l;
	}
	return found;
}

/* Threads of a fork handler, which wait while other handlers are run: of libraries, too, if these do not put theirs before it. */
static _Thread_local bool fork_with_threads;
static struct lock early;
static struct thread early_self[3];
static pthread_t early_thread[2];

static pthread_mutex_t early_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t early_cond = PTHREAD_COND_INITIALIZER;
static bool early_over;

static void *early_main(void *self)
{
	me = self;
	me->tid = (int)syscall(SYS_gettid);
	if (me == &early_self[1]) {
		lock_take(&early, false, 0);
		lock_drop(&early, false);
		return NULL;
	}
	pthread_mutex_lock(&early_mutex);
	while (!early_over)
		pthread_cond_wait(&early_cond, &early_mutex);
	pthread_mutex_unlock(&early_mutex);
	return NULL;
}

static void early_begin(void)
{
	if (!me || !fork_with_threads)
		return;
	for (int i = 0; i < 3; i++) {
		memset(&early_self[i], 0, sizeof(early_self[i]));
		early_self[i].slot = SLOTS + 3 + i;
		early_self[i].dice.state = me->dice.state + i;
	}
	in_child = true;
	alarm(60);
	me = &early_self[0];
	me->tid = (int)syscall(SYS_gettid);
	lock_make(&early, &kinds[0], 0);
	lock_take(&early, false, 0);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&early_thread[i], NULL, early_main, &early_self[1 + i]))
			_exit(0); /* nothing to be tested */
	nap_us(500 + roll_below(&me->dice, 2000));
}

/* The program's constructor is the first of all. */
static void early_setup(void)
{
	pthread_atfork(NULL, NULL, early_begin);
}
__attribute__((section(".preinit_array"), used)) static void (*const early_setup_first)(void) = early_setup;

static void early_end(void)
{
	if (me != &early_self[0])
		return;
	lock_drop(&early, false);
	pthread_mutex_lock(&early_mutex);
	early_over = true;
	pthread_cond_signal(&early_cond);
	pthread_mutex_unlock(&early_mutex);
	for (int i = 0; i < 2; i++)
		pthread_join(early_thread[i], NULL);
}

/* The child of a fork: what it inherits works, and so do threads. */
static void child_life(uint32_t held)
{
	static struct lock spare[FRESH];
	static struct thread self[3];
	struct lock *found;
	pthread_t thread[2];

	in_child = true;
	alarm(60);
	early_end();
	for (int i = 0; i < 3; i++) {
		memset(&self[i], 0, sizeof(self[i]));
		self[i].slot = SLOTS + i;
		self[i].dice.state = me->dice.state + i;
	}
	me = &self[0];
	me->tid = (int)syscall(SYS_gettid);
	for (int i = 0; i < FRESH; i++) {
		lock_make(&spare[i], mortal(&me->dice), i);
		fresh[i] = &spare[i];
	}
	found = inherit(held);
	if (found)
		fresh[0] = found;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, child_thread, &self[1 + i]))
			_exit(0); /* nothing to be tested */
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	_exit(0);
}

/* No cancellation point: a handler may run in the middle of a wait. */
static int reap(pid_t child)
{
	int status = 0;

	while (syscall(SYS_wait4, child, &status, 0, NULL) < 0 && errno == EINTR)
		;
	return status;
}

static void beget(uint32_t held)
{
	bool goes_on = !held && scene_goes_on_in_child();
	int status;
	pid_t child;

	fork_with_threads = plan()->may_early && !goes_on && one_in(&me->dice, 3);
	child = fork();
	fork_with_threads = false;
	if (child == 0 && goes_on) {
		in_child = true;
		alarm(60);
		scene_in_child();
		return;
	}
	if (child == 0)
		child_life(held);
	if (child < 0)
		return;
	atomic_fetch_add(&common->children, 1);
	status = reap(child);
	if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		fail("a child of fork ended with %s %d", WIFSIGNALED(status) ? "signal" : "status",
		     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void fork_act(void)
{
	struct lock *l = lock_at(roll_below(&me->dice, plan()->locks));
	sigset_t old;
	bool holds = one_in(&me->dice, 2) && plain(l->kind) && usable(l) && !lock_take(l, false, 0);

	block(SIG_BLOCK, &old);
	beget(holds ? 1u << l->number : 0);
	block(SIG_SETMASK, &old);
	if (holds)
		lock_drop(l, false);
}

static void forking_handler(int sig)
{
	int saved = errno, state;

	(void)sig;
	if (!me || in_child)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	note(HANDLER, -1, 2);
	atomic_fetch_add(&common->signals, 1);
	beget(0);
	pthread_setcancelstate(state, &state);
	errno = saved;
}

static void posting_handler(int sig)
{
	int saved = errno;

	(void)sig;
	if (!me || in_child)
		return;
	atomic_fetch_add(&common->posted, 1);
	atomic_fetch_add(&common->signals, 1);
	sem_post(&common->posts);
	if (roll(&me->dice) % 4 == 0) /* held up at whatever instruction this is */
		nap_us(100);
	errno = saved;
}

static void crash_handler(int sig, siginfo_t *info, void *context)
{
	void *frames[24];

	(void)context;
	if (!atomic_load(&common->failed))
		backtrace_symbols_fd(frames, backtrace(frames, 24), 2);
	for (int i = 0; i < CELLS_MAX; i++)
		if ((char *)info->si_addr >= cells[i].page && (char *)info->si_addr < cells[i].page + CELL_SIZE)
			fail("lifetime: thread %d touched a destroyed object, at its byte %d", me ? me->slot : -1,
			     (int)((char *)info->si_addr - cells[i].page));
	if (me && me->stage && (char *)info->si_addr >= me->stage && (char *)info->si_addr < me->stage + 2 * CELL_SIZE)
		fail("lifetime: thread %d touched a destroyed object of a scene, at byte %d", me->slot,
		     (int)((char *)info->si_addr - me->stage));
	fail("thread %d: signal %d at address %p", me ? me->slot : -1, sig, info->si_addr);
}

/* ---- offspring ---- */

static void live(void);

void thread_start(struct thread *t)
{
	me = t;
	t->thread = pthread_self(); /* before who made it has stored it */
	t->pid = getpid();
	pthread_setspecific(at_exit, t);
	atomic_store(&t->tid, (int)syscall(SYS_gettid));
	atomic_store(&t->phase, RUNNING);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

/* The last thing that a thread does, with its own locks perhaps given back already. */
static void finish(void *thread)
{
	struct thread *t = thread;
	struct lock *l = lock_at(0);
	sigset_t old;

	block(SIG_BLOCK, &old);
	if (usable(l) && !t->dies && !one_in(&t->dice, 3) && !lock_take(l, false, one_in(&t->dice, 2) ? 50 : 0))
		lock_drop(l, false);
	atomic_store(&t->tid, 0);
	atomic_store(&t->phase, DONE);
}

static void die_holding(void)
{
	for (int n = 0; n < plan()->locks; n++) {
		struct lock *l = lock_at(n);

		if (!l->kind->robust || !usable(l) || lock_take(l, false, 0))
			continue;
		note(DIE, n, 0);
		l->orphaned = true;
		return;
	}
}

static void *offspring_main(void *thread)
{
	struct thread *t = thread;

	thread_start(t);
	block(SIG_UNBLOCK, NULL);
	live();
	block(SIG_BLOCK, NULL);
	if (t->dies)
		die_holding();
	if (one_in(&t->dice, 2))
		pthread_exit(NULL);
	return NULL;
}

static struct thread *slot_for(struct thread *parent)
{
	struct thread *t = &common->thread[THREADS_MAX + parent->slot];

	return parent->slot < THREADS_MAX ? t : NULL;
}

static void offspring(void)
{
	struct thread *t = slot_for(me);
	pthread_attr_t attr;
	sigset_t old;

	if (!t)
		return;
	t->slot = (int)(t - common->thread);
	t->dice.state = roll(&me->dice);
	t->second = me->second;
	t->uses = 1 + roll_below(&me->dice, 12);
	t->dies = one_in(&me->dice, 3);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	block(SIG_BLOCK, &old);
	if (!pthread_create(&t->thread, &attr, offspring_main, t))
		pthread_join(t->thread, NULL);
	block(SIG_SETMASK, &old);
	pthread_attr_destroy(&attr);
	atomic_store(&t->phase, ABSENT);
}

/* ---- lives ---- */

static void fetch_posts(void)
{
	while (!sem_trywait(&common->posts))
		atomic_fetch_add(&common->fetched, 1);
}

static enum act choose(void)
{
	uint32_t sum = 0, luck;
	int act;

	for (int i = 0; i < ACTS; i++)
		sum += plan()->weight[i];
	luck = roll_below(&me->dice, sum);
	for (act = 0; luck >= plan()->weight[act]; act++)
		luck -= plan()->weight[act];
	return act;
}

static void perform(enum act act)
{
	switch (act) {
	case CHAIN:
	case TRY:
		chain(act == TRY);
		break;
	case RECURSION:
		recurse();
		break;
	case MAKE:
	case SPEND:
	case SPEND_SOON:
	case SHOUT:
		visit_box(act);
		break;
	case CELL:
		visit_cell();
		break;
	case FORK:
		fork_act();
		break;
	case OFFSPRING:
		if (!me->uses)
			offspring();
		break;
	case POST:
		fetch_posts();
		break;
	case ERRORS:
		errors();
		break;
	case SCENE:
		scene_act();
		break;
	default:
		if (one_in(&me->dice, 2))
			sched_yield();
		else
			nap_us(roll_below(&me->dice, 300));
	}
}

static void pause_if_asked(void)
{
	if (!atomic_load_explicit(&common->hush, memory_order_relaxed) || me->uses)
		return;
	atomic_store(&me->phase, HUSHED);
	while (atomic_load(&common->hush))
		nap_us(200);
	atomic_store(&me->phase, RUNNING);
}

static void live(void)
{
	for (int left = me->uses; !common->stop && (!me->uses || left--);) {
		enum act act = choose();

		note((int)act, -1, 0);
		perform(act);
		step();
		atomic_fetch_add_explicit(&common->acts, 1, memory_order_relaxed);
		pause_if_asked();
	}
}

void *thread_main(void *thread)
{
	thread_start(thread);
	atomic_fetch_add(&common->ready, 1);
	block(SIG_UNBLOCK, NULL);
	live();
	block(SIG_BLOCK, NULL);
	return NULL;
}

/* Lets those go who wait for tokens that nobody will make. */
void *closer_main(void *thread)
{
	thread_start(thread);
	for (int i = 0; i < plan()->boxes; i++) {
		struct box *b = box_at(i);

		note(CLOSE, b->guard.number, 0);
		lock_take(&b->guard, false, 0);
		b->closing = true;
		lock_drop(&b->guard, false);
		box_signal(b, true);
		step();
	}
	return NULL;
}

void acts_setup(void)
{
	void *frame[1];
	struct sigaction action = {.sa_handler = posting_handler, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaddset(&action.sa_mask, SIGURG);
	action.sa_handler = forking_handler;
	sigaction(SIGUSR2, &action, NULL);
	action.sa_sigaction = crash_handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	scenes_setup();
	pthread_key_create(&at_exit, finish);
	backtrace(frame, 1); /* what it needs is loaded now */
}
