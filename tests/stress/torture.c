/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * torture: random legal programs of plain pthread calls, from seeds, with a shadow that knows what must hold.
 *
 * A supervisor forks a worker for each seed, and stops and continues it now and then. The worker plays rounds
 * (torture.h); its main thread takes no lock that others hold: it watches. Every few milliseconds it asks all threads
 * to pause, so that whoever waits then waits for something that is free, and looks at the objects: each can be taken,
 * and where there are tokens nobody waits. If nothing at all moves for --patience seconds something is lost. The time
 * that counts is the watcher's own, in small steps, so a stopped process or a busy machine does not fail.
 *
 * What fails is printed with the seed, the objects, and each thread's last steps. Exit status: 0 nothing failed, 1
 * something did, 2 usage. The scheduling of the machine does not come back with a seed; --replay plays one round
 * until it fails again.
 */
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_US = 1000, TICK_LONGEST_US = 20000, QUIET_TICKS = 3, CLOSER = 2 * THREADS_MAX, WATCHER, GREMLIN };

struct common *common;
struct lock *private_locks;
struct box *private_boxes;
struct cell cells[CELLS_MAX];
bool in_child;
bool lax_clock;
_Thread_local struct thread *me;

static struct {
	uint64_t seed;
	double seconds, patience;
	int threads, rounds, round;
	bool replay, quiet;
	const char *without;
} options = {1, 10, 5, 12, 6, -1, false, false, ""};

/* ---- time, diaries, complaints ---- */

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void nap_us(unsigned us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	/* The raw call: no cancellation point. */
	syscall(SYS_nanosleep, &t, NULL);
}

void note(int what, int object, int result)
{
	struct event *e = &me->event[me->events++ % EVENTS];

	*e = (struct event){(uint8_t)what, (int8_t)object, (int16_t)result, (uint32_t)(now_us() - common->round_began)};
}

static void print_diary(const struct thread *t)
{
	static const char *const phases[] = {"absent", "running", "pausing", "in box", "done"};
	char path[64], text[256];
	int fd, n = 0;

	dprintf(2, "  thread %d: process %d, tid %d, %s, %" PRIu64 " steps:", t->slot, t->pid, t->tid,
		phases[atomic_load(&t->phase)], t->steps);
	for (uint32_t i = t->events > EVENTS ? t->events - EVENTS : 0; i < t->events; i++) {
		const struct event *e = &t->event[i % EVENTS];

		dprintf(2, " %s", act_names[e->what]);
		if (e->object >= 0)
			dprintf(2, "(%d)", e->object);
		if (e->result)
			dprintf(2, "=%d", e->result);
		dprintf(2, "@%.1f", e->at_us / 1000.0);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", t->pid, t->tid);
	fd = t->tid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		n = (int)read(fd, text, sizeof(text));
		close(fd);
	}
	dprintf(2, "%s%.*s", n > 0 ? "\n    system call " : "\n", n > 0 ? n : 0, text);
}

static void print_plan(void)
{
	const struct plan *p = &common->plan;

	dprintf(2,
		"  plan: %d threads, %d processes, %d ms, pauses every %d ms, 1 in %u sleeps, 1 in %u yields, loops of "
		"%d\n ",
		p->threads, p->processes, p->length_ms, p->hush_ms, p->asleep, p->yields, p->rounds);
	for (int i = 0; i < ACTS; i++)
		if (p->weight[i])
			dprintf(2, " %s %u", act_names[i], p->weight[i]);
	dprintf(2, "\n  signals %u, forks %u, cancels %u, moves %u, unplugs %u, niceness %u%s%s\n", p->signals, p->forks,
		p->cancels, p->moves, p->unplugs, p->niceness, p->one_cpu ? ", one CPU" : "",
		p->mixed ? ", glibc's functions, too" : "");
}

static void print_all(void)
{
	const struct plan *p = &common->plan;

	print_plan();
	for (int i = 0; private_locks && i < p->locks; i++)
		lock_print(lock_at(i));
	for (int i = 0; private_locks && i < p->boxes; i++)
		box_print(box_at(i));
	for (int i = 0; i < SLOTS; i++)
		if (common->thread[i].events && atomic_load(&common->thread[i].phase) != ABSENT)
			print_diary(&common->thread[i]);
}

static void print_replay(void)
{
	extern char **environ;

	dprintf(2, "  again:");
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "PARKADE_", 8) && strncmp(*e, "PARKADE_LIB", 11) && !strstr(*e, "DIR="))
			dprintf(2, " %s", *e);
	dprintf(2, " torture --seed %" PRIu64 " --round %u --threads %d --replay%s%s\n", common->plan.seed,
		common->plan.round, options.threads, *options.without ? " --without " : "", options.without);
}

void fail(const char *format, ...)
{
	int none = 0;
	va_list args;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &none);
	none = 0;
	if (!atomic_compare_exchange_strong(&common->failed, &none, 1)) {
		for (uint64_t end = now_us() + 10000000; now_us() < end;)
			nap_us(100000);
		_exit(1);
	}
	dprintf(2, "torture: FAILED: seed %" PRIu64 " round %u, %.3f s after its beginning%s: ", common->plan.seed,
		common->plan.round, (double)(now_us() - common->round_began) / 1e6, in_child ? ", in a child" : "");
	va_start(args, format);
	vdprintf(2, format, args);
	va_end(args);
	dprintf(2, "\n");
	print_replay();
	if (me)
		print_diary(me);
	print_all();
	if (getpid() != atomic_load(&common->worker))
		kill(atomic_load(&common->worker), SIGKILL);
	_exit(1);
}

/* ---- plans ---- */

struct lock *lock_at(int number)
{
	if (number >= LOCKS_MAX)
		return &box_at(number - LOCKS_MAX)->guard;
	return kinds[common->plan.kind[number]].shared ? &common->lock[number] : &private_locks[number];
}

struct box *box_at(int number)
{
	return kinds[common->plan.kind[LOCKS_MAX + number]].shared ? &common->box[number] : &private_boxes[number];
}

static bool with(const char *what)
{
	return !strstr(options.without, what);
}

static int choose_kind(struct dice *d, bool guard, bool shared)
{
	int k;

	do
		k = (int)roll_below(d, one_in(d, 4) ? kinds_number : 13);
	while ((guard && kinds[k].family != MUTEX && kinds[k].family != C11) || (shared && !kinds[k].shared) ||
	       (!with("glibc") && (kinds[k].shared || kinds[k].robust || kinds[k].inherits)));
	return k;
}

static uint32_t perhaps(struct dice *d, uint32_t n, uint32_t in, uint32_t most)
{
	return roll_below(d, in) < n ? 1 + roll_below(d, most) : 0;
}

/* One round in three is nothing but scenes, for the most part. */
static void plan_scenes(struct plan *p, struct dice *d)
{
	p->may_cancel = with("cancel");
	p->may_mix = with("mixed");
	p->may_early = with("early");
	p->scene_signals = with("signals");
	p->scene_forks = with("signals") && with("fork");
	p->scenes = one_in(d, 2) ? 1u << roll_below(d, NO_SCENE) : (1u << NO_SCENE) - 1;
	if (!with("scenes"))
		return;
	p->weight[SCENE] = (uint16_t)perhaps(d, 1, 2, 3);
	if (!one_in(d, 3))
		return;
	for (int i = 0; i < SCENE; i++)
		p->weight[i] = (uint16_t)((p->weight[i] + 7) / 8);
	p->weight[SCENE] = 100;
	p->threads = p->threads < 4 ? p->threads : 4;
}

static void make_plan(struct plan *p, uint64_t seed, uint32_t round)
{
	static const int loops[] = {0, 20, 20, 100, 500, 3000};
	struct dice d = {seed * 0x2545f4914f6cdd1du + round};
	int spins = 0;

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->round = round;
	p->threads = 2 + (int)roll_below(&d, options.threads - 1);
	p->processes = with("processes") && with("glibc") && one_in(&d, 5) ? 2 : 1;
	p->locks = one_in(&d, 2) ? 1 + (int)roll_below(&d, 2) : 2 + (int)roll_below(&d, 8);
	for (int i = 0; i < p->locks; i++)
		p->kind[i] = (uint8_t)choose_kind(&d, false, p->processes > 1 && i % 2 == 0);
	for (int i = 0; i < p->locks - spins; i++) /* spin locks last: nobody blocks while he holds one */
		if (kinds[p->kind[i]].family == SPIN) {
			uint8_t k = p->kind[i];

			spins++;
			p->kind[i] = p->kind[p->locks - spins];
			p->kind[p->locks - spins] = k;
			i--;
		}
	p->boxes = with("boxes") ? (int)roll_below(&d, BOXES_MAX + 1) : 0;
	for (int i = 0; i < p->boxes; i++) {
		p->kind[LOCKS_MAX + i] = (uint8_t)choose_kind(&d, true, p->processes > 1 && i % 2 == 0);
		p->monotonic[i] = one_in(&d, 2);
	}
	p->cells = with("cells") ? (int)perhaps(&d, 1, 2, CELLS_MAX) : 0;
	p->weight[CHAIN] = 10 + roll_below(&d, 50);
	p->weight[RECURSION] = perhaps(&d, 1, 2, 8);
	p->weight[TRY] = perhaps(&d, 1, 2, 8);
	if (p->boxes) {
		p->weight[MAKE] = perhaps(&d, 3, 4, 20);
		p->weight[SPEND] = p->weight[MAKE] ? perhaps(&d, 3, 4, 20) : 0;
		p->weight[SPEND_SOON] = perhaps(&d, 1, 2, 10);
		p->weight[SHOUT] = perhaps(&d, 1, 4, 3);
	}
	p->weight[CELL] = p->cells ? 5 + roll_below(&d, 30) : 0;
	p->weight[FORK] = with("fork") ? perhaps(&d, 1, 5, 1) : 0;
	p->weight[OFFSPRING] = with("offspring") ? perhaps(&d, 1, 3, 2) : 0;
	p->weight[POST] = 1;
	p->weight[PAUSE] = perhaps(&d, 1, 2, 10);
	p->weight[ERRORS] = perhaps(&d, 1, 3, 4);
	p->length_ms = one_in(&d, 8) ? 600 : 60 + (int)roll_below(&d, 240);
	p->hush_ms = one_in(&d, 4) ? 1000 : 2 + (int)roll_below(&d, 30);
	p->asleep = one_in(&d, 2) ? 0 : 4u << roll_below(&d, 8);
	p->yields = one_in(&d, 2) ? 0 : 4u << roll_below(&d, 6);
	p->rounds = loops[roll_below(&d, sizeof(loops) / sizeof(loops[0]))];
	p->reads = (uint32_t[]){10, 50, 90, 99}[roll_below(&d, 4)];
	p->signals = with("signals") ? perhaps(&d, 1, 3, 4) : 0;
	p->forks = with("fork") && with("signals") ? perhaps(&d, 1, 5, 30) : 0;
	p->cancels = with("cancel") ? perhaps(&d, 1, 3, 12) : 0;
	if (p->boxes && (p->cancels || one_in(&d, 4))) {
		p->weight[MAKE] += 10;
		p->weight[SPEND] += 10;
	}
	p->moves = with("moves") ? perhaps(&d, 1, 3, 20) : 0;
	p->niceness = with("moves") ? perhaps(&d, 1, 4, 20) : 0;
	p->crowds = one_in(&d, 2);
	p->mixed = with("mixed") && one_in(&d, 5);
	p->one_cpu = with("moves") && one_in(&d, 8);
	p->unplugs = with("moves") ? perhaps(&d, 1, 4, 30) : 0;
	plan_scenes(p, &d);
}

/* ---- gremlins: what happens to threads from outside ---- */

static cpu_set_t allowed;

static void some_cpus(struct dice *d, cpu_set_t *set)
{
	CPU_ZERO(set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && one_in(d, 2))
			CPU_SET(cpu, set);
	if (!CPU_COUNT(set))
		*set = allowed;
}

/* As where CPUs are taken from a container, or given back: all its threads go at once. */
static void unplug(struct dice *d)
{
	cpu_set_t set;

	some_cpus(d, &set);
	sched_setaffinity(atomic_load(&common->worker), sizeof(set), &set); /* who is made from now on inherits it */
	for (int i = 0; i < SLOTS; i++) {
		int tid = atomic_load(&common->thread[i].tid);

		if (tid)
			sched_setaffinity(tid, sizeof(set), &set);
	}
}

static void cancel_one(int from)
{
	int n = common->plan.threads;

	for (int i = 0; i < n; i++) {
		struct thread *t = &common->thread[(from + i) % n];

		if (!t->second && atomic_load(&t->cancellable)) {
			cancel(t);
			return;
		}
	}
}

static atomic_bool gremlins;

static void *gremlin_main(void *arg)
{
	const struct plan *p = &common->plan;
	struct dice d = {p->seed + p->round + 77};
	cpu_set_t set;

	while (atomic_load(&gremlins)) {
		struct thread *t = &common->thread[roll_below(&d, p->threads)];
		int tid = atomic_load(&t->tid);

		nap_us(1000);
		if (!tid)
			continue;
		if (one_in(&d, p->signals))
			syscall(SYS_tgkill, t->pid, tid, SIGUSR1);
		/* Not while progress is looked at: what children do would be taken for some. */
		if (one_in(&d, p->forks * 4) && !atomic_load(&common->hush) && !atomic_load(&common->stop))
			syscall(SYS_tgkill, t->pid, tid, SIGUSR2);
		if (one_in(&d, p->cancels))
			cancel_one(roll_below(&d, p->threads));
		if (one_in(&d, p->moves)) {
			some_cpus(&d, &set);
			sched_setaffinity(tid, sizeof(set), &set);
		}
		if (one_in(&d, p->unplugs))
			unplug(&d);
		if (one_in(&d, p->niceness))
			setpriority(PRIO_PROCESS, (id_t)tid, (int)roll_below(&d, 12));
	}
	return arg;
}

/* ---- a round ---- */

static pthread_t new_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t set, old;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	rc = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		fail("no thread can be made: %s", strerror(rc));
	return thread;
}

static void start_threads(bool second)
{
	const struct plan *p = &common->plan;

	for (int i = 0; i < p->threads; i++) {
		struct thread *t = &common->thread[i];

		if ((p->processes > 1 && i % 2) != second)
			continue;
		t->pid = getpid();
		t->second = second;
		atomic_store(&t->phase, RUNNING);
		t->thread = new_thread(thread_main, t);
	}
}

static void join_threads(bool second)
{
	const struct plan *p = &common->plan;

	for (int i = 0; i < p->threads; i++)
		if ((p->processes > 1 && i % 2) == second)
			pthread_join(common->thread[i].thread, NULL);
}

static void second_process(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_threads(true);
	join_threads(true);
	_exit(0);
}

/* How long nothing at all has moved, in microseconds that the watcher was there for. */
static struct {
	uint64_t last, sum, still;
	int quiet; /* ticks */
} watch;

static uint64_t traces(void)
{
	uint64_t sum = common->beats;

	for (int i = 0; i < SLOTS; i++)
		sum += common->thread[i].steps * 8 + (uint64_t)atomic_load(&common->thread[i].phase) * (i + 1);
	return sum;
}

static void tick(void)
{
	uint64_t now, spent, sum;

	nap_us(TICK_US);
	now = now_us();
	spent = now - watch.last;
	watch.last = now;
	sum = traces();
	if (sum != watch.sum) {
		watch.still = 0;
		watch.quiet = 0;
		watch.sum = sum;
	} else {
		watch.still += spent < TICK_LONGEST_US ? spent : TICK_LONGEST_US;
		watch.quiet++;
	}
	if (atomic_load(&common->failed))
		nap_us(20000000); /* somebody reports, and ends us */
}

static bool over(void)
{
	return (double)watch.still > options.patience * 1e6;
}

/* A thread that neither pauses nor is done, nor waits for a token that is not there: its slot, or -1. */
static int busy_one(void)
{
	const struct plan *p = &common->plan;

	for (int i = 0; i < p->threads; i++) {
		const struct thread *t = &common->thread[i];
		int phase = atomic_load(&t->phase);

		if (phase == RUNNING || (phase == IN_BOX && (box_at(t->box)->tokens || box_at(t->box)->closing)))
			return i;
	}
	return -1;
}

/* An object that cannot be taken although nobody uses it, or -1. */
static int busy_object(void)
{
	const struct plan *p = &common->plan;

	for (int i = 0; i < p->locks; i++)
		if (!lock_idle(lock_at(i)))
			return i;
	for (int i = 0; i < p->boxes; i++)
		if (!lock_idle(&box_at(i)->guard))
			return LOCKS_MAX + i;
	return -1;
}

static void check_stuck(const char *when)
{
	int i;

	if (!over())
		return;
	i = busy_one();
	if (i >= 0 && atomic_load(&common->thread[i].phase) == IN_BOX)
		fail("progress: %s thread %d waits in box %d, which has %" PRIu64 " tokens%s", when, i,
		     common->thread[i].box, box_at(common->thread[i].box)->tokens,
		     box_at(common->thread[i].box)->closing ? " and closes" : "");
	if (i >= 0)
		fail("progress: %s nothing moves, and thread %d is not done", when, i);
	fail("progress: %s nothing moves", when);
}

/* A signal was sent while somebody waited, and nobody has returned for it. */
static int owing_box(void)
{
	for (int i = 0; i < common->plan.boxes; i++)
		if (box_at(i)->owed && box_at(i)->before)
			return i;
	return -1;
}

/* Wait until all are at rest, and look at the objects. */
static void come_to_rest(const char *when)
{
	int object;

	watch.still = 0;
	watch.quiet = 0;
	do {
		tick();
		check_stuck(when);
	} while (watch.quiet < QUIET_TICKS || busy_one() >= 0);
	/* Who was woken for a token that is gone may be inside for a moment. */
	while ((object = busy_object()) >= 0) {
		tick();
		if (over())
			fail("progress: %s object %d (%s) cannot be taken, and nobody uses it", when, object,
			     lock_at(object)->kind->name);
	}
	while (owing_box() >= 0) {
		tick();
		if (over())
			fail("signals: %s nobody has returned for a signal of box %d", when, owing_box());
	}
}

/* Who was cancelled is followed by another. */
static void start_again(void)
{
	const struct plan *p = &common->plan;

	for (int i = 0; i < p->threads; i++) {
		struct thread *t = &common->thread[i];

		if (t->second || atomic_load(&t->phase) != DONE || atomic_load(&t->cancelling))
			continue;
		pthread_join(t->thread, NULL);
		atomic_store(&t->phase, RUNNING);
		t->thread = new_thread(thread_main, t);
	}
}

static void play(void)
{
	const struct plan *p = &common->plan;
	uint64_t pause = now_us() + (uint64_t)p->hush_ms * 1000, end = now_us() + (uint64_t)p->length_ms * 1000;

	watch.still = 0;
	while (now_us() < end) {
		tick();
		check_stuck("in the middle");
		start_again();
		if (now_us() < pause)
			continue;
		atomic_store(&common->hush, true);
		come_to_rest("in a pause");
		atomic_store(&common->hush, false);
		atomic_fetch_add(&common->hushes, 1);
		pause = now_us() + (uint64_t)p->hush_ms * 1000;
	}
	atomic_store(&common->stop, true);
	come_to_rest("at the end");
}

static void close_boxes(void)
{
	struct thread *t = &common->thread[CLOSER];
	bool all;

	atomic_store(&t->phase, RUNNING);
	t->thread = new_thread(closer_main, t);
	watch.still = 0;
	do {
		tick();
		check_stuck("at the closing");
		all = atomic_load(&t->phase) == DONE;
		for (int i = 0; i < common->plan.threads; i++)
			all = all && atomic_load(&common->thread[i].phase) == DONE;
	} while (!all);
	pthread_join(t->thread, NULL);
}

static void check_sums(void)
{
	const struct plan *p = &common->plan;
	uint64_t taken[OBJECTS] = {0};

	for (int i = 0; i < SLOTS; i++)
		for (int n = 0; n < OBJECTS - 1; n++)
			taken[n] += common->thread[i].taken[n];
	for (int n = 0; n < OBJECTS - 1; n++) {
		bool used = n < LOCKS_MAX ? n < p->locks : n - LOCKS_MAX < p->boxes;

		if (used && (lock_at(n)->left != taken[n] || lock_at(n)->right != taken[n]))
			fail("conservation: object %d (%s) was taken %" PRIu64 " times, and counts %" PRIu64
			     ", %" PRIu64,
			     n, lock_at(n)->kind->name, taken[n], lock_at(n)->left, lock_at(n)->right);
		if (used)
			lock_bits(lock_at(n));
	}
	for (int i = 0; i < p->boxes; i++)
		if (box_at(i)->made != box_at(i)->spent + box_at(i)->tokens || box_at(i)->waiting)
			fail("conservation: box %d made %" PRIu64 ", spent %" PRIu64 ", has %" PRIu64 ", %d waiting", i,
			     box_at(i)->made, box_at(i)->spent, box_at(i)->tokens, box_at(i)->waiting);
	if (!p->signals)
		return;
	while (!sem_trywait(&common->posts))
		common->fetched++;
	if (common->posted != common->fetched)
		fail("conservation: %" PRIu64 " posts, %" PRIu64 " fetched", common->posted, common->fetched);
}

static void reap_second(void)
{
	int status;

	while (waitpid(atomic_load(&common->second), &status, 0) < 0 && errno == EINTR)
		;
	atomic_store(&common->second, 0);
	if (status)
		fail("the second process ended with status %#x", (unsigned)status);
}

static void clear_round(uint64_t seed, uint32_t round)
{
	memset(common->thread, 0, sizeof(common->thread));
	make_plan(&common->plan, seed, round);
	atomic_store(&common->stop, false);
	atomic_store(&common->hush, false);
	common->round_began = now_us();
	for (int i = 0; i < SLOTS; i++) {
		common->thread[i].slot = i;
		common->thread[i].dice.state = seed * 1000003 + round * 1009 + (uint64_t)i;
	}
	me = &common->thread[WATCHER];
}

static void round_of(uint64_t seed, uint32_t round)
{
	const struct plan *p = &common->plan;
	struct dice d = {seed ^ round};
	pthread_t gremlin;
	pid_t second;
	cpu_set_t set;

	clear_round(seed, round);
	for (int i = 0; i < p->locks; i++)
		lock_make(lock_at(i), &kinds[p->kind[i]], i);
	for (int i = 0; i < p->boxes; i++)
		box_make(box_at(i), &kinds[p->kind[LOCKS_MAX + i]], p->monotonic[i], LOCKS_MAX + i);
	for (int i = 0; i < p->cells; i++)
		cell_make(&cells[i], &d);
	if (p->one_cpu) {
		CPU_ZERO(&set);
		for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&set); cpu++)
			if (CPU_ISSET(cpu, &allowed))
				CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	if (p->processes > 1) {
		second = fork();
		if (second == 0)
			second_process();
		atomic_store(&common->second, second);
	}
	watch.last = now_us();
	start_threads(false);
	atomic_store(&gremlins, true);
	gremlin = new_thread(gremlin_main, NULL);
	play();
	close_boxes();
	atomic_store(&gremlins, false);
	pthread_join(gremlin, NULL);
	join_threads(false);
	if (p->processes > 1)
		reap_second();
	watch.still = 0;
	check_sums();
	for (int i = 0; i < p->locks; i++)
		lock_destroy(lock_at(i));
	for (int i = 0; i < p->boxes; i++)
		box_destroy(box_at(i));
	sched_setaffinity(0, sizeof(allowed), &allowed);
	atomic_fetch_add(&common->rounds, 1);
}

static void worker(uint64_t seed, double until)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	private_locks = aligned_alloc(4096, LOCKS_MAX * sizeof(*private_locks));
	private_boxes = aligned_alloc(4096, (BOXES_MAX * sizeof(*private_boxes) + 4095) / 4096 * 4096);
	memset(private_locks, 0xa5, LOCKS_MAX * sizeof(*private_locks)); /* an init must not mind */
	memset(private_boxes, 0xa5, BOXES_MAX * sizeof(*private_boxes));
	for (int i = 0; i < CELLS_MAX; i++)
		cells[i].page = mmap(NULL, CELL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	acts_setup();
	mutexes_setup();
	for (int r = 0; (double)now_us() < until && (options.replay || r < options.rounds); r++)
		round_of(seed, (uint32_t)(options.round >= 0 ? options.round : r));
	_exit(0);
}

/* ---- the supervisor ---- */

static void stop_for_a_while(struct dice *d)
{
	pid_t second = atomic_load(&common->second), pid = second > 0 && one_in(d, 2) ? second : common->worker;

	kill(pid, SIGSTOP);
	nap_us(one_in(d, 4) ? roll_below(d, 80000) : roll_below(d, 4000));
	kill(pid, SIGCONT);
}

/* One seed; true if nothing failed. */
static bool supervise(uint64_t seed, double until)
{
	struct dice d = {seed + 12345};
	bool stops = with("stops") && one_in(&d, 3);
	uint64_t began = now_us(), rounds = common->rounds;
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		atomic_store(&common->worker, getpid());
		worker(seed, until);
	}
	if (pid < 0) {
		perror("torture: fork");
		exit(2);
	}
	atomic_store(&common->worker, pid);
	while (waitpid(pid, &status, WNOHANG) != pid) {
		nap_us(4000);
		if (stops && one_in(&d, 8))
			stop_for_a_while(&d);
		if (common->rounds != rounds) {
			rounds = common->rounds;
			began = now_us();
		}
		if ((double)(now_us() - began) > options.patience * 12e6 && !atomic_load(&common->failed)) {
			dprintf(2, "torture: FAILED: seed %" PRIu64 " round %u: its watcher does not come back\n", seed,
				common->plan.round);
			print_replay();
			print_all();
			kill(pid, SIGKILL);
		}
	}
	if (common->second > 0) {
		kill(common->second, SIGKILL);
		common->second = 0;
	}
	if (WIFSIGNALED(status) && !atomic_load(&common->failed)) {
		dprintf(2, "torture: FAILED: seed %" PRIu64 " round %u: killed by signal %d\n", seed,
			common->plan.round, WTERMSIG(status));
		print_replay();
		print_all();
	}
	return status == 0 && !atomic_load(&common->failed);
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: torture [options]\n"
		"Random legal programs of pthread calls, checked by a shadow; preload what is to be tested.\n"
		"  --seed N        the first seed (1)\n"
		"  --seconds S     begin no further round after so many (10)\n"
		"  --threads T     threads of a round, at most (12; up to %d)\n"
		"  --rounds N      rounds of a seed (6)\n"
		"  --round N       of each seed this round only\n"
		"  --replay        play that round, or those of this seed, again and again\n"
		"  --patience S    nothing may stand still for longer (5)\n"
		"  --without LIST  leave out: fork, signals, cancel, stops, moves, processes, offspring, boxes, "
		"cells, scenes,\n"
		"                  glibc (objects that are glibc's in any case)\n"
		"                  early (fork handlers that start threads, which wait)\n"
		"  --quiet         no line of figures at the end\n"
		"Exit status: 0 nothing failed, 1 something did, 2 usage.\n",
		THREADS_MAX);
}

static double number(const char *text, double least, double most)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= least && value <= most)) {
		fprintf(stderr, "torture: %s: a number from %g to %g is wanted\n", text, least, most);
		exit(2);
	}
	return value;
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"seed", 1, NULL, 's'},	    {"seconds", 1, NULL, 'S'}, {"threads", 1, NULL, 't'},
		{"rounds", 1, NULL, 'r'},   {"round", 1, NULL, 'R'},   {"replay", 0, NULL, 'p'},
		{"patience", 1, NULL, 'P'}, {"without", 1, NULL, 'w'}, {"quiet", 0, NULL, 'q'},
		{"help", 0, NULL, 'h'},	    {NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", names, NULL)) != -1)
		switch (c) {
		case 's':
			options.seed = (uint64_t)number(optarg, 0, 1e15);
			break;
		case 'S':
			options.seconds = number(optarg, 0, 1e6);
			break;
		case 't':
			options.threads = (int)number(optarg, 2, THREADS_MAX);
			break;
		case 'r':
			options.rounds = (int)number(optarg, 1, 1e9);
			break;
		case 'R':
			options.round = (int)number(optarg, 0, 1e9);
			break;
		case 'P':
			options.patience = number(optarg, 0.1, 1e6);
			break;
		case 'w':
			options.without = optarg;
			break;
		case 'p':
			options.replay = true;
			break;
		case 'q':
			options.quiet = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	if (optind < argc) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	uint64_t began = now_us(), seed;
	bool good = true;
	double until;

	read_options(argc, argv);
	lax_clock = getenv("TORTURE_LAX_CLOCK") != NULL;
	until = (double)began + options.seconds * 1e6;
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED || sem_init(&common->posts, 1, 0)) {
		perror("torture");
		return 2;
	}
	sched_getaffinity(0, sizeof(allowed), &allowed);
	seed = options.seed;
	for (bool first = true; good && (first || (double)now_us() < until); first = false, seed += !options.replay)
		good = supervise(seed, until);
	if (!options.quiet)
		printf("torture: seeds %" PRIu64 " to %" PRIu64 ": %s: %" PRIu64 " rounds, %" PRIu64 " acts, %" PRIu64
		       " pauses, %" PRIu64 " objects reused, %" PRIu64 " children, %" PRIu64 " signals, %" PRIu64
		       " cancelled, %" PRIu64 " owners dead, %.1f s\n",
		       options.seed, seed - !options.replay, good ? "ok" : "FAILED", common->rounds, common->acts,
		       common->hushes, common->reused, common->children, common->signals, common->cancels, common->died,
		       (double)(now_us() - began) / 1e6);
	return good ? 0 : 1;
}
