/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite fork: a process forks while its mutexes are held and queued upon; children use them, three generations deep.
 *
 * A child has one thread, but the memory of a queue that names many: ghosts.  It would catch a child that waits for
 * a ghost or wakes one, one that believes its parent's thread records to be its own, a queue that survives
 * pthread_mutex_init, fork handlers of the library that deadlock with the program's or run in a wrong order, and
 * a parent that loses a waiter by forking.  Each child has an alarm, so that hanging is an error here, too.
 */

#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MUTEXES = 4, GENERATIONS = 3, CHILD_SECONDS = 120 };

/* A case forks no more once it has taken so long (huge spin budgets on few CPUs), but always goes all the way down. */
enum { CASE_MS = 1500 };

static uint64_t case_end_ns;

static void case_begin(void)
{
	case_end_ns = now_ns() + suite_scale(CASE_MS) * 1000000;
}

struct shared {
	pthread_mutex_t m;
	volatile unsigned long count;
	volatile int holder;
};

static void shared_enter(struct shared *s, int me)
{
	if (s->holder)
		complain("thread %d is inside together with thread %d", me, s->holder);
	s->holder = me;
	s->count++;
}

static void shared_leave(struct shared *s, int me)
{
	if (s->holder != me)
		complain("thread %d came in while thread %d was inside", s->holder, me);
	s->holder = 0;
}

/* ---- pthread_atfork handlers that take the program's mutexes, forks from several threads ---- */

static struct {
	struct shared s[MUTEXES]; /* one of each kind */
	int generation;
	atomic_int stop;
	atomic_ulong sections;
	unsigned long sections_inherited, count_inherited;
} program;

static void before_fork(void)
{
	for (int i = 0; i < MUTEXES; i++)
		MUST(pthread_mutex_lock(&program.s[i].m));
}

static void after_fork_in_parent(void)
{
	for (int i = MUTEXES; i-- > 0;)
		MUST(pthread_mutex_unlock(&program.s[i].m));
}

/* Kinds that know their owner do not know the child's thread as such (nor does glibc): these are made anew. */
static void after_fork_in_child(void)
{
	for (int i = MUTEXES; i-- > 0;)
		if (kinds[i].type == PTHREAD_MUTEX_RECURSIVE || kinds[i].type == PTHREAD_MUTEX_ERRORCHECK) {
			WANT(pthread_mutex_unlock(&program.s[i].m), EPERM);
			mutex_make(&program.s[i].m, kinds[i].type);
		} else {
			MUST(pthread_mutex_unlock(&program.s[i].m));
		}
}

static void work(int index, void *arg)
{
	uint32_t luck = 1009 * (index + 1) + getpid();
	unsigned long sections = 0;
	(void)arg;

	while (!atomic_load(&program.stop) && !complained()) {
		struct shared *s = &program.s[dice(&luck) % MUTEXES];
		struct timespec t = deadline(CLOCK_MONOTONIC, luck / 8 % 200000);
		int rc = luck % 3 ? pthread_mutex_lock(&s->m) : pthread_mutex_clocklock(&s->m, CLOCK_MONOTONIC, &t);

		if (rc == ETIMEDOUT && luck % 3 == 0)
			continue;
		if (!WANT(rc, 0))
			return;
		shared_enter(s, index + 1);
		if (dice(&luck) % 64 == 0)
			sched_yield();
		shared_leave(s, index + 1);
		MUST(pthread_mutex_unlock(&s->m));
		sections++;
	}
	atomic_fetch_add(&program.sections, sections);
}

static void generation(void);

static void forker(int index, void *arg)
{
	int forks = *(int *)arg;
	(void)index;

	for (int i = 0; i < forks && !complained() && (i == 0 || now_ns() < case_end_ns); i++) {
		pid_t child = fork();

		if (child == 0) {
			alarm(CHILD_SECONDS);
			program.generation++;
			generation();
			child_exit();
		}
		child_reap(child, "a child");
		sleep_us(200);
	}
}

/* Works on the mutexes and forks, unless it is the last generation; then nobody holds them. */
static void generation(void)
{
	int forks = program.generation == 0 ? (int)suite_scale(6) : 1;
	struct team *workers;

	atomic_store(&program.stop, 0);
	atomic_store(&program.sections, 0);
	for (int i = 0; i < MUTEXES; i++)
		program.s[i].count = 0;
	workers = team_start(4, work, NULL);
	sleep_us(2000);
	if (program.generation < GENERATIONS)
		team_run(now_ns() < case_end_ns ? 2 : 1, forker, &forks);
	else
		sleep_us(10000);
	atomic_store(&program.stop, 1);
	team_join(workers);
	for (int i = 0; i < MUTEXES; i++) {
		atomic_fetch_sub(&program.sections, program.s[i].count);
		if (program.s[i].m.__data.__lock || program.s[i].m.__data.__nusers)
			complain("generation %d: a mutex is left locked", program.generation);
	}
	if (atomic_load(&program.sections))
		complain("generation %d: updates were lost", program.generation);
}

START_TEST(atfork_generations)
{
	case_begin();
	for (int i = 0; i < MUTEXES; i++)
		mutex_make(&program.s[i].m, kinds[i].type);
	ck_assert_int_eq(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
	generation();
	assert_no_complaint();
}
END_TEST

/* The same, with handlers that were registered after the mutexes had been queued upon for the first time. */
START_TEST(atfork_registered_late)
{
	struct team *early;

	case_begin();
	for (int i = 0; i < MUTEXES; i++)
		mutex_make(&program.s[i].m, kinds[i].type);
	early = team_start(6, work, NULL);
	sleep_us(20000);
	atomic_store(&program.stop, 1);
	team_join(early);
	ck_assert_int_eq(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
	generation();
	assert_no_complaint();
}
END_TEST

/* A handler that was registered before any library was initialised locks in the child, and keeps what it has. */

static struct {
	pthread_mutex_t recursive, checked;
	pthread_rwlock_t written;
	bool wanted;
} kept = {PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, PTHREAD_RWLOCK_INITIALIZER, false};

static void keep_in_child(void)
{
	if (kept.wanted && (pthread_rwlock_wrlock(&kept.written) || pthread_mutex_lock(&kept.recursive) ||
			    pthread_mutex_lock(&kept.checked)))
		_exit(2);
}

static void register_first(void)
{
	pthread_atfork(NULL, NULL, keep_in_child);
}
__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(void) = register_first;

static int use_what_is_kept(void)
{
	if (pthread_mutex_lock(&kept.recursive) || pthread_mutex_unlock(&kept.recursive) ||
	    pthread_mutex_unlock(&kept.recursive))
		return 3;
	if (pthread_mutex_lock(&kept.checked) != EDEADLK || pthread_mutex_unlock(&kept.checked))
		return 4;
	return pthread_rwlock_wrlock(&kept.written) != EDEADLK || pthread_rwlock_unlock(&kept.written) ? 5 : 0;
}

START_TEST(atfork_registered_first)
{
	pthread_mutex_t any = PTHREAD_MUTEX_INITIALIZER;
	int status;
	pid_t pid;

	pthread_mutex_lock(&any); /* the thread has an ID */
	pthread_mutex_unlock(&any);
	kept.wanted = true;
	pid = fork();
	if (!pid) {
		alarm(CHILD_SECONDS / 4);
		_exit(use_what_is_kept());
	}
	kept.wanted = false;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- the forking thread holds the mutex, all the others are queued on it; no handlers ---- */

enum { QUEUE = 8, CHILD_THREADS = 4 };

/* How the others stand when fork comes, and what the child does first. */
enum { MOMENTS = 4, FIRST = 3 };
static const unsigned moments_us[MOMENTS] = {0, 50, 1000, 25000};

struct line {
	struct shared s;
	int type;
	int generation, first;
	unsigned moment_us;
	atomic_int arrived;
};

static void stand_in_line(int index, void *arg)
{
	struct line *l = arg;
	struct timespec t = deadline(CLOCK_REALTIME, index % 4 == 1 ? 1000000 : (int64_t)60000000000);
	int rc;

	atomic_fetch_add(&l->arrived, 1);
	rc = index % 2 ? pthread_mutex_timedlock(&l->s.m, &t) : pthread_mutex_lock(&l->s.m);
	if (rc == ETIMEDOUT && index % 4 == 1)
		return;
	WANT(rc, 0);
	shared_enter(&l->s, index + 1);
	shared_leave(&l->s, index + 1);
	MUST(pthread_mutex_unlock(&l->s.m));
}

static void contend(int index, void *arg)
{
	struct line *l = arg;

	for (int i = 0; i < 200; i++) {
		MUST(pthread_mutex_lock(&l->s.m));
		shared_enter(&l->s, index + 1);
		if (i % 32 == index)
			sched_yield();
		shared_leave(&l->s, index + 1);
		MUST(pthread_mutex_unlock(&l->s.m));
	}
}

static void line_fork(struct line *l);

/* In the child the mutex is held by this, its only thread; behind it stand ghosts. */
static void line_child(struct line *l)
{
	struct team *t = NULL;

	alarm(CHILD_SECONDS);
	l->generation++;
	l->s.count = 0;
	switch (l->first) {
	case 0: /* unlock, then contend */
		MUST(pthread_mutex_unlock(&l->s.m));
		t = team_start(CHILD_THREADS, contend, l);
		break;
	case 1: /* new waiters behind the ghosts, then unlock */
		t = team_start(CHILD_THREADS, contend, l);
		sleep_us(l->moment_us);
		MUST(pthread_mutex_unlock(&l->s.m));
		break;
	default: /* begin anew: the queue is forgotten */
		mutex_make(&l->s.m, l->type);
		t = team_start(CHILD_THREADS, contend, l);
		break;
	}
	team_join(t);
	if (l->s.count != CHILD_THREADS * 200)
		complain("a child's threads lost updates");
	if (l->generation < GENERATIONS)
		line_fork(l);
	child_exit();
}

static void line_fork(struct line *l)
{
	struct team *queue;
	pid_t child;

	l->s.count = 0;
	atomic_store(&l->arrived, 0);
	MUST(pthread_mutex_lock(&l->s.m));
	queue = team_start(QUEUE, stand_in_line, l);
	while (atomic_load(&l->arrived) < QUEUE)
		sched_yield();
	sleep_us(l->moment_us);
	child = fork();
	if (child == 0)
		line_child(l);
	MUST(pthread_mutex_unlock(&l->s.m));
	team_join(queue);
	child_reap(child, "a child with ghosts");
	if (l->s.count < QUEUE / 4 * 3)
		complain("only %lu of the parent's waiters got through", l->s.count);
}

START_TEST(holder_forks)
{
	int type = _i ? PTHREAD_MUTEX_ADAPTIVE_NP : PTHREAD_MUTEX_NORMAL; /* those that the child may unlock */

	case_begin();
	for (int moment = 0; moment < MOMENTS; moment++)
		for (int first = 0; first < FIRST; first++) {
			struct line l = {.type = type, .first = first, .moment_us = moments_us[moment]};

			if (now_ns() > case_end_ns && moment > 0)
				return;
			mutex_make(&l.s.m, type);
			line_fork(&l);
			assert_no_complaint();
		}
}
END_TEST

/* ---- somebody else holds it at the fork: the child starts anew, as runtimes do, by init or by a static value ---- */

struct stolen {
	struct line l;
	atomic_int stop;
};

static void hold_and_queue(int index, void *arg)
{
	struct stolen *s = arg;

	while (!atomic_load(&s->stop)) {
		MUST(pthread_mutex_lock(&s->l.s.m));
		shared_enter(&s->l.s, index + 1);
		if (index % 2)
			sleep_us(50);
		shared_leave(&s->l.s, index + 1);
		MUST(pthread_mutex_unlock(&s->l.s.m));
	}
}

START_TEST(child_starts_anew)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	struct stolen s = {.l.type = kinds[_i].type};
	struct team *t;

	case_begin();
	mutex_make(&s.l.s.m, s.l.type);
	t = team_start(6, hold_and_queue, &s);
	for (int i = 0; i < (int)suite_scale(30) && now_ns() < case_end_ns; i++) {
		pid_t child;

		sleep_us(i % 5 * 300);
		child = fork();
		if (child == 0) {
			alarm(CHILD_SECONDS);
			if (i % 2)
				mutex_make(&s.l.s.m, s.l.type);
			else
				s.l.s.m = fresh;
			s.l.s.count = 0;
			s.l.s.holder = 0;
			team_run(CHILD_THREADS, contend, &s.l);
			if (s.l.s.count != CHILD_THREADS * 200)
				complain("a child's threads lost updates");
			child_exit();
		}
		child_reap(child, "a child that starts anew");
	}
	atomic_store(&s.stop, 1);
	team_join(t);
	assert_no_complaint();
}
END_TEST

/* ---- a child that runs no handlers ---- */

static void *hold_for_a_while(void *arg)
{
	struct shared *s = arg;

	MUST(pthread_mutex_lock(&s->m));
	s->holder = 1;
	sleep_us(20000);
	MUST(pthread_mutex_unlock(&s->m));
	return NULL;
}

/* What its thread has locked before it first had to wait, it can unlock afterwards. */
static void wait_and_unlock(struct shared *outer, struct shared *inner)
{
	pthread_t holder;

	MUST(pthread_mutex_lock(&outer->m));
	MUST(pthread_create(&holder, NULL, hold_for_a_while, inner));
	while (!inner->holder)
		sleep_us(100);
	MUST(pthread_mutex_lock(&inner->m));
	MUST(pthread_mutex_unlock(&inner->m));
	MUST(pthread_mutex_unlock(&outer->m));
	MUST(pthread_mutex_lock(&outer->m));
	MUST(pthread_mutex_unlock(&outer->m));
	MUST(pthread_join(holder, NULL));
}

/* Whose a mutex is said to be that the thread has taken in that way. */
static int owner_of(int type, int way)
{
	struct timespec soon;
	pthread_mutex_t m;
	int owner;

	mutex_make(&m, type);
	MUST(clock_gettime(CLOCK_REALTIME, &soon));
	soon.tv_sec++;
	MUST(way == 0 ? pthread_mutex_lock(&m) : way == 1 ? pthread_mutex_trylock(&m) : pthread_mutex_timedlock(&m, &soon));
	owner = m.__data.__owner;
	MUST(pthread_mutex_unlock(&m));
	MUST(pthread_mutex_destroy(&m));
	return owner;
}

enum { WAYS = 7 }; /* that tell a thread's tid, as glibc has it */

static int writer_of_one(void)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	int writer;

	MUST(pthread_rwlock_wrlock(&rw));
	writer = rw.__data.__cur_writer;
	MUST(pthread_rwlock_unlock(&rw));
	return writer;
}

/* By all of them, beginning with that one. */
static void check_owners(int tid, int first, const char *when)
{
	static const int types[] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};

	for (int n = first; n < first + WAYS; n++) {
		int way = n % WAYS, owner = way == WAYS - 1 ? writer_of_one() : owner_of(types[way / 3], way % 3);

		if (owner != tid)
			complain("%s: what thread %d has taken in way %d is said to be %d's", when, tid, way, owner);
	}
}

START_TEST(child_without_handlers)
{
	struct shared outer = {.holder = 0}, inner = {.holder = 0};
	pid_t (*fork_only)(void), child;

	*(void **)&fork_only = dlsym(RTLD_DEFAULT, "_Fork");
	if (!fork_only) {
		say("SKIP: no _Fork");
		return;
	}
	mutex_make(&outer.m, kinds[_i].type);
	mutex_make(&inner.m, PTHREAD_MUTEX_NORMAL);
	MUST(pthread_mutex_lock(&outer.m));
	MUST(pthread_mutex_unlock(&outer.m));
	child = fork_only();
	if (child == 0) {
		alarm(CHILD_SECONDS);
		check_owners(getpid(), _i, "after _Fork");
		wait_and_unlock(&outer, &inner);
		child_exit();
	}
	child_reap(child, "a child without handlers");
	assert_no_complaint();
}
END_TEST

/* The number of the thread, in glibc's own structure; or null. */
static int *own_number(void)
{
	enum { WORDS = 512 };
	int *words = (int *)(uintptr_t)pthread_self(); /* NOLINT: that is what it is, in glibc */

	for (int i = 0; i < WORDS; i++)
		if (words[i] == getpid())
			return &words[i];
	return NULL;
}

struct cloned {
	int *number;
	int first;
};

static int live_cloned(void *arg)
{
	const struct cloned *c = arg;

	alarm(CHILD_SECONDS);
	check_owners(*c->number, c->first, "after clone");
	*c->number = getpid();
	check_owners(getpid(), c->first, "after the thread has another number");
	child_exit();
	return 1;
}

/* Let a child of clone live so, which knows where its thread's number is. */
static void clone_child(int (*live)(void *), int first)
{
	enum { STACK = 256 << 10 };
	static char stack[STACK] __attribute__((aligned(64)));
	struct cloned c = {own_number(), first};

	if (!c.number) {
		say("SKIP: no number of the thread was found");
		return;
	}
	child_reap(clone(live, stack + STACK, SIGCHLD, &c), "a child of clone");
}

/* Programs that make their sandboxes so (Firefox, Chromium) put the child's number where glibc has it, and look whether mutexes
 * are its own then. */
START_TEST(child_of_clone)
{
	check_owners(getpid(), _i, "before");
	clone_child(live_cloned, _i);
	assert_no_complaint();
}
END_TEST

static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;

static int live_as_no_writer(void *arg)
{
	const struct cloned *c = arg;
	struct timespec soon;

	alarm(CHILD_SECONDS);
	*c->number = getpid();
	MUST(clock_gettime(CLOCK_REALTIME, &soon));
	WANT(c->first ? pthread_rwlock_timedwrlock(&written, &soon) : pthread_rwlock_timedrdlock(&written, &soon), ETIMEDOUT);
	child_exit();
	return 1;
}

static pthread_mutex_t of_a_handler;

static void lock_once(int sig)
{
	(void)sig;
	MUST(pthread_mutex_lock(&of_a_handler));
	MUST(pthread_mutex_unlock(&of_a_handler));
}

/* Its handler is the first that asks for the thread's number, while the thread is counted as a waiter. */
static int live_interrupted(void *arg)
{
	enum { BEFORE_US = 100000, WAIT_MS = 400, DESTROY_MS = 1500 };
	const struct cloned *c = arg;
	const struct itimerval timer = {.it_value.tv_usec = BEFORE_US};
	struct timespec end = deadline(CLOCK_REALTIME, WAIT_MS * INT64_C(1000000));
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t attr;
	pthread_cond_t cond;
	uint64_t began;
	int rc;

	mutex_make(&of_a_handler, PTHREAD_MUTEX_RECURSIVE);
	MUST(pthread_condattr_init(&attr));
	MUST(pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	MUST(pthread_cond_init(&cond, &attr));
	*c->number = getpid();
	MUST(pthread_mutex_lock(&m));
	handle_signal(SIGALRM, lock_once);
	MUST(setitimer(ITIMER_REAL, &timer, NULL));
	do
		rc = pthread_cond_timedwait(&cond, &m, &end);
	while (!rc);
	WANT(rc, ETIMEDOUT);
	handle_signal(SIGALRM, SIG_DFL);
	alarm(CHILD_SECONDS);
	MUST(pthread_mutex_unlock(&m));
	began = now_ns();
	MUST(pthread_cond_destroy(&cond));
	if (now_ns() - began > DESTROY_MS * UINT64_C(1000000))
		complain("a waiter has gone, and is waited for by destroy");
	child_exit();
	return 1;
}

static pid_t (*fork_only)(void);
static volatile pid_t forked;

static void fork_once(int sig)
{
	(void)sig;
	forked = fork_only();
}

/* The child comes back to its parent's wait, in which it has not been counted; the object is both's. */
START_TEST(child_in_a_shared_wait)
{
	enum { BEFORE_US = 100000, WAIT_MS = 400, DESTROY_MS = 1500 };
	const struct itimerval timer = {.it_value.tv_usec = BEFORE_US};
	const char *shared = getenv("PARKADE_COND_SHARED");
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
	} *both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t mutexattr;
	pthread_condattr_t condattr;
	struct timespec end;
	uint64_t began;
	int rc;

	*(void **)&fork_only = dlsym(RTLD_DEFAULT, "_Fork");
	if (!fork_only || !suite_served() || (shared && strcmp(shared, "parkade"))) {
		say("SKIP: no _Fork, or glibc's condition variables, which count the child out");
		return;
	}
	ck_assert_ptr_ne(both, MAP_FAILED);
	MUST(pthread_mutexattr_init(&mutexattr));
	MUST(pthread_mutexattr_setpshared(&mutexattr, PTHREAD_PROCESS_SHARED));
	MUST(pthread_mutex_init(&both->m, &mutexattr));
	MUST(pthread_condattr_init(&condattr));
	MUST(pthread_condattr_setpshared(&condattr, PTHREAD_PROCESS_SHARED));
	MUST(pthread_cond_init(&both->c, &condattr));
	handle_signal(SIGALRM, fork_once);
	MUST(pthread_mutex_lock(&both->m));
	end = deadline(CLOCK_REALTIME, WAIT_MS * INT64_C(1000000));
	forked = -1;
	MUST(setitimer(ITIMER_REAL, &timer, NULL));
	do
		rc = pthread_cond_timedwait(&both->c, &both->m, &end);
	while (!rc);
	WANT(rc, ETIMEDOUT);
	MUST(pthread_mutex_unlock(&both->m));
	if (forked == 0)
		child_exit();
	child_reap(forked, "a child in a wait");
	began = now_ns();
	MUST(pthread_cond_destroy(&both->c));
	if (now_ns() - began > DESTROY_MS * UINT64_C(1000000))
		complain("the child has counted itself out, and is waited for by destroy");
	assert_no_complaint();
}
END_TEST

/* What such a child does while its parent's number is still taken for its own. */
START_TEST(child_with_another_number)
{
	static int (*const lives[])(void *) = {live_as_no_writer, live_as_no_writer, live_interrupted};
	MUST(pthread_rwlock_wrlock(&written));
	clone_child(lives[_i], _i);
	MUST(pthread_rwlock_unlock(&written));
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("fork");

	SUITE_CASE(s, atfork_generations, 240);
	SUITE_CASE(s, atfork_registered_first, 60);
	SUITE_CASE(s, atfork_registered_late, 240);
	SUITE_CASE_OF(s, holder_forks, 240, 2);
	SUITE_CASE_OF(s, child_starts_anew, 240, KINDS);
	SUITE_CASE_OF(s, child_without_handlers, 60, KINDS);
	SUITE_CASE_OF(s, child_of_clone, 60, WAYS);
	SUITE_CASE_OF(s, child_with_another_number, 60, 3);
	SUITE_CASE(s, child_in_a_shared_wait, 60);
	return suite_run(s);
}
