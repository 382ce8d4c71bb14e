/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite lifetime: the last user destroys a mutex and unmaps its page, while the unlock before may still be on its
 * way out.
 *
 * An unlock, or a waiter that has given up, must not touch the mutex once somebody else may have taken it: the
 * touch would fault on an unmapped page, or spoil what lives there next.  Signals are thrown at the threads so
 * that they are held up at any instruction, also just after the release.  Broken: a look at the queue after the
 * word was freed, an owner cleared too late, an abandoned waiter that leads back to the mutex, memory that such
 * waiters never give back.
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SPAN = 50, SHARERS = 4, RUN_MS = 800 };

/* One object a page, counted by a plain integer under its own mutex. */
struct object {
	pthread_mutex_t m;
	int refs;
	atomic_int users;   /* another count, for the case where the mutex cannot be had */
	atomic_int arrived; /* threads that have come to it */
	int contended;
};

static struct {
	int type;
	int spans, made;
	uint64_t end_ns;
	bool timed, ends; /* ends: after this span, written by the first thread between two gates */
	pthread_barrier_t gate;
	char *span;
	atomic_long freed, contended, timeouts;
	atomic_int over;
} yard;

static struct object *object_at(int i)
{
	return (struct object *)(yard.span + (size_t)i * PAGE);
}

static void span_make(void)
{
	pthread_mutexattr_t attr;

	yard.span = mmap(NULL, (size_t)SPAN * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
			 -1, 0);
	if (yard.span == MAP_FAILED) {
		say("mmap: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, yard.type);
	for (int i = 0; i < SPAN; i++) {
		pthread_mutex_init(&object_at(i)->m, &attr);
		object_at(i)->refs = SHARERS;
		atomic_init(&object_at(i)->users, SHARERS);
	}
	pthread_mutexattr_destroy(&attr);
}

static void object_free(struct object *o)
{
	MUST(pthread_mutex_destroy(&o->m));
	if (munmap(o, PAGE))
		complain("munmap: %s", strerror(errno));
	atomic_fetch_add_explicit(&yard.freed, 1, memory_order_relaxed);
}

/* Holds the mutex until somebody else has come for it (but for one object in eight, and never for ever). */
static void keep(struct object *o, int inside_before, uint32_t luck)
{
	if (luck % 8 == 0)
		return;
	for (int i = 0; i < 1000 && atomic_load(&o->arrived) < inside_before + 2 && inside_before + 1 < SHARERS; i++)
		sched_yield();
	if (luck % 8 > 3)
		spin_ns(luck / 8 % 6000);
}

/* The classic: the count is guarded by the mutex inside the object. */
static void drop_under_mutex(struct object *o, uint32_t luck)
{
	bool waited, last;

	atomic_fetch_add(&o->arrived, 1);
	waited = pthread_mutex_trylock(&o->m);
	if (waited)
		MUST(pthread_mutex_lock(&o->m));
	o->contended += waited;
	keep(o, SHARERS - o->refs, luck);
	last = --o->refs == 0;
	if (last && o->contended)
		atomic_fetch_add_explicit(&yard.contended, 1, memory_order_relaxed);
	MUST(pthread_mutex_unlock(&o->m));
	if (last)
		object_free(o);
}

/* With deadlines: who comes back, in or out, is out; the last one frees at once. */
static void drop_after_deadline(struct object *o, uint32_t luck)
{
	struct timespec t = deadline(CLOCK_MONOTONIC, luck / 64 % 8000);
	int rc;

	atomic_fetch_add(&o->arrived, 1);
	rc = luck % 4 ? pthread_mutex_clocklock(&o->m, CLOCK_MONOTONIC, &t) : pthread_mutex_lock(&o->m);
	if (rc == 0) {
		keep(o, SHARERS - atomic_load(&o->users), luck >> 2);
		MUST(pthread_mutex_unlock(&o->m));
	} else {
		WANT(rc, ETIMEDOUT);
		atomic_fetch_add_explicit(&yard.timeouts, 1, memory_order_relaxed);
	}
	if (atomic_fetch_sub(&o->users, 1) == 1)
		object_free(o);
}

static void yard_body(int index, void *arg)
{
	uint32_t luck = 271828 * (index + 1);
	(void)arg;

	while (!yard.ends) {
		if (index == 0)
			span_make();
		pthread_barrier_wait(&yard.gate);
		if (index == 0)
			yard.ends = ++yard.made == yard.spans || now_ns() > yard.end_ns;
		for (int i = 0; i < SPAN; i++)
			if (yard.timed)
				drop_after_deadline(object_at(i), dice(&luck));
			else
				drop_under_mutex(object_at(i), dice(&luck));
		pthread_barrier_wait(&yard.gate);
	}
	atomic_store(&yard.over, 1);
}

/* Holds the interrupted thread up, wherever it is, for long enough that the others get on. */
static void on_signal(int signal)
{
	int saved = errno;

	(void)signal;
	sched_yield();
	spin_ns(3000);
	errno = saved;
}

static void yard_run(int kind, int spans, bool timed, bool signals)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct team *t;
	long happened;

	yard.type = kinds[kind].type;
	yard.spans = suite_scale(spans);
	yard.timed = timed;
	yard.end_ns = now_ns() + suite_scale(RUN_MS) * 1000000; /* for slow settings: huge spin budgets on few CPUs */
	pthread_barrier_init(&yard.gate, NULL, SHARERS);
	sigaction(SIGUSR1, &action, NULL);
	t = team_start(SHARERS, yard_body, NULL);
	for (uint32_t luck = 5; signals && !atomic_load(&yard.over);) {
		pthread_kill(team_thread(t, dice(&luck) % SHARERS), SIGUSR1);
		sleep_us(luck % 60);
	}
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&yard.freed), (long)yard.made * SPAN);
	happened = atomic_load(timed ? &yard.timeouts : &yard.contended);
	ck_assert_msg(happened > yard.made * SPAN / 20, "only %ld times was there somebody to race with", happened);
	say("lifetime: %s: %ld mutexes freed, %ld of them contended, %ld timeouts", kinds[kind].name,
	    atomic_load(&yard.freed), atomic_load(&yard.contended), atomic_load(&yard.timeouts));
}

/* More than 100,000 objects in a run of the suite: four kinds times what follows. */
START_TEST(last_unlocker_frees)
{
	yard_run(_i, 320, false, false);
}
END_TEST

START_TEST(last_unlocker_frees_under_signals)
{
	yard_run(_i, 120, false, true);
}
END_TEST

START_TEST(last_one_frees_after_deadlines)
{
	yard_run(_i, 100, true, false);
}
END_TEST

START_TEST(last_one_frees_after_deadlines_under_signals)
{
	yard_run(_i, 80, true, true);
}
END_TEST

/*
 * One unlock, instruction by instruction: from the moment that the word is free on, each instruction of the unlocker
 * has to wait for the others to get the mutex, destroy it and unmap it, if they can by then. A waiter that spins may have
 * the word again before an instruction is over, so the first to get it says so, and keeps it until that was seen.
 */
#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };

static struct {
	pthread_mutex_t *m;
	atomic_int released, seen, returned, gone;
	unsigned long steps, steps_after;
} stepped;

static void on_step(int signal)
{
	int saved = errno;

	(void)signal;
	stepped.steps++;
	if (!atomic_load(&stepped.released) && stepped.m->__data.__lock == 0)
		atomic_store(&stepped.released, 1);
	if (atomic_load(&stepped.released)) {
		stepped.steps_after++;
		atomic_store(&stepped.seen, 1);
		for (int i = 0; i < 20 && !atomic_load(&stepped.gone); i++)
			sleep_us(100);
	}
	errno = saved;
}

struct last_users {
	struct object *o;
	bool waits; /* in the queue; else comes when the word is free */
	atomic_int coming;
};

static void last_user(int index, void *arg)
{
	struct last_users *u = arg;
	bool last;

	(void)index;
	while (!u->waits && !atomic_load(&stepped.released))
		sleep_us(20);
	atomic_fetch_add(&u->coming, 1);
	MUST(pthread_mutex_lock(&u->o->m));
	atomic_store(&stepped.released, 1);
	while (!atomic_load(&stepped.seen) && !atomic_load(&stepped.returned))
		sleep_us(20);
	last = --u->o->refs == 0;
	MUST(pthread_mutex_unlock(&u->o->m));
	if (last) {
		object_free(u->o);
		atomic_store(&stepped.gone, 1);
	}
}

/* Returns how many instructions followed the release, as far as was seen. */
static unsigned long step_through_unlock(int type, int users, bool wait)
{
	struct last_users u = {.waits = wait};
	struct team *t;

	u.o = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(u.o, MAP_FAILED);
	mutex_make(&u.o->m, type);
	u.o->refs = users;
	memset(&stepped, 0, sizeof stepped);
	stepped.m = &u.o->m;
	MUST(pthread_mutex_lock(stepped.m)); /* once for the dynamic linker */
	MUST(pthread_mutex_unlock(stepped.m));
	MUST(pthread_mutex_lock(stepped.m));
	t = team_start(users, last_user, &u);
	if (wait) {
		while (atomic_load(&u.coming) < users)
			sleep_us(100);
		sleep_us(5000); /* asleep, or far into their waiting */
	}
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
	pthread_mutex_unlock(&u.o->m);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long)TRAP_FLAG);
	atomic_store(&stepped.returned, 1);
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&stepped.gone), 1);
	ck_assert_uint_gt(stepped.steps, stepped.steps_after);
	return stepped.steps_after;
}

START_TEST(held_up_at_each_instruction)
{
	struct sigaction action = {.sa_handler = on_step};
	unsigned long free_word = 0, waiters = 0;

	sigaction(SIGTRAP, &action, NULL);
	for (int round = 0; round < 3; round++) {
		free_word += step_through_unlock(kinds[_i].type, 1, false);
		waiters += step_through_unlock(kinds[_i].type, 1, true);
		waiters += step_through_unlock(kinds[_i].type, 3, true);
	}
	/* One that got the mutex may be held up before it says so until the unlocker is through; not each time. */
	ck_assert_uint_gt(free_word, 0);
	ck_assert_uint_gt(waiters, 0);
}
END_TEST
#else
START_TEST(held_up_at_each_instruction)
{
	if (_i == 0)
		say("SKIP: this machine has no trap flag; no single steps");
}
END_TEST
#endif

/*
 * Mutexes in stack frames: the frame goes as soon as the helper has unlocked, and the next frame, whose memory
 * must not change by itself, lies at the same place.
 */
struct frame_job {
	pthread_mutex_t *m;
	atomic_int state; /* 1 the helper holds the mutex, 2 the frame's owner is coming for it */
};

static _Atomic(struct frame_job *) frame_job;
static atomic_int frames_over;
static unsigned long frames_contended;

static void frame_helper(int index, void *arg)
{
	uint32_t luck = index + 1;

	(void)arg;
	while (!atomic_load(&frames_over)) {
		struct frame_job *job = atomic_exchange(&frame_job, NULL);
		pthread_mutex_t *m;

		if (!job)
			continue;
		m = job->m;
		MUST(pthread_mutex_lock(m));
		atomic_store(&job->state, 1);
		while (atomic_load(&job->state) != 2)
			sched_yield();
		spin_ns(dice(&luck) % 4000);
		MUST(pthread_mutex_unlock(m)); /* here the frame may end */
	}
}

static __attribute__((noinline)) void frame_with_mutex(uint32_t luck)
{
	char above[64 + luck % 8 * 16];
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct frame_job job = {.m = &m};

	__asm__ volatile("" ::"r"(above) : "memory");
	atomic_store(&frame_job, &job);
	while (atomic_load(&job.state) != 1)
		sched_yield();
	atomic_store(&job.state, 2);
	frames_contended += m.__data.__lock != 0;
	MUST(pthread_mutex_lock(&m));
	MUST(pthread_mutex_unlock(&m));
}

static __attribute__((noinline)) void frame_of_data(uint32_t luck)
{
	volatile unsigned char data[512];

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)luck;
	if (luck % 4 == 0)
		sched_yield();
	for (size_t i = 0; i < sizeof data; i++)
		if (data[i] != (unsigned char)luck) {
			complain("a byte of a later frame became %#x", data[i]);
			return;
		}
}

START_TEST(mutex_in_a_frame)
{
	struct team *t = team_start(1, frame_helper, NULL);
	uint32_t luck = 8;

	for (uint64_t end = now_ns() + suite_scale(400) * 1000000;
	     !complained() && (now_ns() < end || (frames_contended < 10 && now_ns() < end + 30000000000));) {
		frame_with_mutex(dice(&luck));
		frame_of_data(dice(&luck));
	}
	atomic_store(&frames_over, 1);
	team_join(t);
	assert_no_complaint();
	ck_assert_uint_gt(frames_contended, 9);
	ck_assert_int_ne(suite_entered(), 0);
}
END_TEST

/*
 * A mutex that is used in earnest and then simply made anew, without destroy, as zeroed or re-initialised memory
 * is: it starts idle, and the waiters that had given up on its earlier life cost no memory.
 */
struct recycled {
	pthread_mutex_t m;
	pthread_barrier_t gate;
	volatile int holder;
	int rounds;
	uint64_t end_ns;
	bool ends; /* written by the first thread between two gates */
	int made;
	struct memory then, now;
};

static void recycle_body(int index, void *arg)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	struct recycled *r = arg;
	uint32_t luck = 99 * (index + 1);

	for (int round = 0; !r->ends; round++) {
		if (index == 0) {
			if (round % 2)
				r->m = fresh;
			else
				MUST(pthread_mutex_init(&r->m, NULL));
			MUST(pthread_mutex_lock(&r->m));
			if (round == r->rounds / 4)
				r->then = memory_now();
		}
		pthread_barrier_wait(&r->gate);
		if (index == 0) {
			r->ends = ++r->made == r->rounds || (now_ns() > r->end_ns && r->made > r->rounds / 4);
			spin_ns(20000 + dice(&luck) % 30000);
			MUST(pthread_mutex_unlock(&r->m));
		} else {
			struct timespec t = deadline(CLOCK_MONOTONIC, dice(&luck) % 50000);
			int rc = pthread_mutex_clocklock(&r->m, CLOCK_MONOTONIC, &t);

			if (rc == 0) {
				if (r->holder)
					complain("two inside a recycled mutex");
				r->holder = 1;
				r->holder = 0;
				MUST(pthread_mutex_unlock(&r->m));
			} else {
				WANT(rc, ETIMEDOUT);
			}
		}
		pthread_barrier_wait(&r->gate);
	}
	if (index == 0)
		r->now = memory_now();
}

START_TEST(recycled_without_destroy)
{
	struct recycled r = {.rounds = suite_scale(4000), .end_ns = now_ns() + suite_scale(RUN_MS) * 1000000};

	pthread_barrier_init(&r.gate, NULL, 6);
	team_run(6, recycle_body, &r);
	assert_no_complaint();
	ck_assert_msg(r.now.touched - r.then.touched <= 128, "%ld KiB more after %d rounds",
		      r.now.touched - r.then.touched, r.made - r.rounds / 4);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("lifetime");

	SUITE_CASE_OF(s, last_unlocker_frees, 120, KINDS);
	SUITE_CASE_OF(s, last_unlocker_frees_under_signals, 120, KINDS);
	SUITE_CASE_OF(s, last_one_frees_after_deadlines, 120, KINDS);
	SUITE_CASE_OF(s, last_one_frees_after_deadlines_under_signals, 120, KINDS);
	SUITE_CASE_OF(s, held_up_at_each_instruction, 120, KINDS);
	SUITE_CASE(s, mutex_in_a_frame, 120);
	SUITE_CASE(s, recycled_without_destroy, 120);
	return suite_run(s);
}
