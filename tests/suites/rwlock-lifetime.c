/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-lifetime: a reader-writer lock ends, by destroy and munmap, by being overwritten, while the
 * unlock before may still be on its way out, and costs nothing afterwards.
 *
 * Each lock that is freed has a page of its own.  Signals and single steps hold threads up at any instruction, also
 * just after the release.  It would catch: an unlock that touches the lock once it is free for the next one, a waiter
 * that gave up and is still led back to it, read locks noted elsewhere (by thread, by CPU) that outlive the lock and
 * are taken for the next one's at the same address, notes that are never given back.
 */

#include "rwlocks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SPAN = 20, SHARERS = 4, RUN_MS = 180 };

static void *pages(size_t count)
{
	void *p = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED) {
		say("mmap: %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	return p;
}

/* ---- the yard: a span of objects, which all threads use one by one, and the last one of each frees it ---- */

struct object {
	pthread_rwlock_t l;
	atomic_int refs, arrived;
};

enum way { COUNTED, DEADLINES, HANDED }; /* how objects are used up */

static struct {
	int kind;
	enum way way;
	uint64_t end_ns;
	bool ends; /* after this span; written by the first thread between two gates */
	pthread_barrier_t gate;
	char *span;
	int size;		/* threads */
	atomic_int steps[SPAN]; /* of a handed object, but outside of it */
	long made;
	atomic_long freed, contended, timeouts;
	atomic_bool over;
} yard;

static struct object *object_at(int i)
{
	return (struct object *)(yard.span + (size_t)i * PAGE);
}

static void span_make(void)
{
	yard.span = pages(SPAN);
	memset(yard.steps, 0, sizeof yard.steps);
	for (int i = 0; i < SPAN; i++) {
		rwlock_make(&object_at(i)->l, yard.kind);
		atomic_init(&object_at(i)->refs, SHARERS);
	}
	yard.made += SPAN;
}

static void object_free(struct object *o)
{
	MUST(pthread_rwlock_destroy(&o->l));
	if (munmap(o, PAGE))
		complain("munmap: %s", strerror(errno));
	atomic_fetch_add_explicit(&yard.freed, 1, memory_order_relaxed);
}

/* Holds the lock until another has come for it (but for one object in eight, and never for ever). */
static void keep(struct object *o, uint32_t luck)
{
	int inside = SHARERS - atomic_load(&o->refs);
	uint64_t end = now_ns() + 300000;

	if (luck % 8 == 0)
		return;
	while (atomic_load(&o->arrived) < inside + 2 && inside + 1 < SHARERS && now_ns() < end)
		sched_yield();
	if (luck % 8 > 3)
		spin_ns(luck / 8 % 6000);
}

/* The count is in the object and changed under its lock; who sees zero waits for those still inside, and frees. */
static void drop_counted(struct object *o, uint32_t luck)
{
	bool writing = luck % 4 == 0, waits, last;

	atomic_fetch_add(&o->arrived, 1);
	waits = writing ? pthread_rwlock_trywrlock(&o->l) : pthread_rwlock_tryrdlock(&o->l);
	if (waits)
		MUST(writing ? pthread_rwlock_wrlock(&o->l) : pthread_rwlock_rdlock(&o->l));
	keep(o, luck >> 2);
	last = atomic_fetch_sub(&o->refs, 1) == 1;
	MUST(pthread_rwlock_unlock(&o->l));
	if (last) {
		bool others = pthread_rwlock_trywrlock(&o->l);

		if (others)
			MUST(pthread_rwlock_wrlock(&o->l));
		if (others || waits)
			atomic_fetch_add_explicit(&yard.contended, 1, memory_order_relaxed);
		MUST(pthread_rwlock_unlock(&o->l));
		object_free(o);
	}
}

/* With deadlines: who comes back, in or out, is out; the last one frees at once. */
static void drop_after_deadline(struct object *o, uint32_t luck)
{
	struct timespec t = deadline(CLOCK_MONOTONIC, luck / 64 % 8000);
	bool writing = luck % 2;
	int rc;

	atomic_fetch_add(&o->arrived, 1);
	if (luck / 2 % 4)
		rc = writing ? pthread_rwlock_clockwrlock(&o->l, CLOCK_MONOTONIC, &t)
			     : pthread_rwlock_clockrdlock(&o->l, CLOCK_MONOTONIC, &t);
	else
		rc = writing ? pthread_rwlock_wrlock(&o->l) : pthread_rwlock_rdlock(&o->l);
	if (rc == 0) {
		keep(o, luck >> 3);
		MUST(pthread_rwlock_unlock(&o->l));
	} else {
		WANT(rc, ETIMEDOUT);
		atomic_fetch_add_explicit(&yard.timeouts, 1, memory_order_relaxed);
	}
	if (atomic_fetch_sub(&o->refs, 1) == 1)
		object_free(o);
}

/* Takes it as soon as it is free, in one of several ways. */
static void take(pthread_rwlock_t *l, bool writing, uint32_t luck)
{
	int rc = EBUSY;

	if (luck % 4 == 0)
		for (int i = 1; rc == EBUSY; i++) {
			rc = writing ? pthread_rwlock_trywrlock(l) : pthread_rwlock_tryrdlock(l);
			if (i % 4096 == 0)
				sched_yield();
		}
	else if (luck % 4 == 1)
		do {
			struct timespec t = deadline(CLOCK_MONOTONIC, luck / 4 % 4000);

			rc = writing ? pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t)
				     : pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t);
		} while (rc == ETIMEDOUT);
	else
		rc = writing ? pthread_rwlock_wrlock(l) : pthread_rwlock_rdlock(l);
	WANT(rc, 0);
}

static void await_step(atomic_int *steps, int step)
{
	for (int i = 1; atomic_load(steps) < step; i++)
		if (i % 256 == 0)
			sched_yield();
}

/* Two threads: one holds it, the other gets it next and frees it at once, without a word. */
static void hand_over(int index, int i, uint32_t luck)
{
	bool holder_writes = i % 4 == 1;
	atomic_int *steps = &yard.steps[i];
	struct object *o = object_at(i);

	if (i % 16 < 3)
		read_often(&o->l, 300);
	atomic_fetch_add(steps, 1);
	if (index == 0) {
		await_step(steps, 2); /* both are here */
		MUST(holder_writes ? pthread_rwlock_wrlock(&o->l) : pthread_rwlock_rdlock(&o->l));
		atomic_fetch_add(steps, 1);
		await_step(steps, 4);
		spin_ns(luck % 8 ? luck / 8 % 3000 : luck / 8 % 100000);
		MUST(pthread_rwlock_unlock(&o->l)); /* here it may be gone */
	} else {
		await_step(steps, 3); /* it is held */
		atomic_fetch_add(steps, 1);
		take(&o->l, !holder_writes || luck / 64 % 2, luck);
		MUST(pthread_rwlock_unlock(&o->l));
		object_free(o);
	}
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
			yard.ends = complained() || now_ns() > yard.end_ns;
		for (int i = 0; i < SPAN; i++)
			if (yard.way == HANDED) {
				hand_over(index, i, dice(&luck));
			} else {
				if (i % 16 == 0)
					read_often(&object_at(i)->l, 300);
				if (yard.way == COUNTED)
					drop_counted(object_at(i), dice(&luck));
				else
					drop_after_deadline(object_at(i), dice(&luck));
			}
		pthread_barrier_wait(&yard.gate);
	}
	atomic_store(&yard.over, true);
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

static void yard_run(int kind, enum way way, bool signals)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct team *t;

	yard.kind = kind;
	yard.way = way;
	yard.end_ns = now_ns() + suite_scale(RUN_MS) * 1000000;
	yard.size = way == HANDED ? 2 : SHARERS;
	pthread_barrier_init(&yard.gate, NULL, yard.size);
	sigaction(SIGUSR1, &action, NULL);
	t = team_start(yard.size, yard_body, NULL);
	for (uint32_t luck = 5; signals && !atomic_load(&yard.over);) {
		pthread_kill(team_thread(t, dice(&luck) % yard.size), SIGUSR1);
		sleep_us(luck % 60);
	}
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&yard.freed), yard.made);
	/* Little happens in little time. */
	if (way == COUNTED && suite_scale(100) >= 100)
		ck_assert_int_gt(atomic_load(&yard.contended), yard.made / 50);
	if (way == DEADLINES && suite_scale(100) >= 100)
		ck_assert_int_gt(atomic_load(&yard.timeouts), yard.made / 50);
	say("rwlock-lifetime: kind %d, way %d: %ld locks freed, %ld of them contended, %ld timeouts", kind, way,
	    atomic_load(&yard.freed), atomic_load(&yard.contended), atomic_load(&yard.timeouts));
}

START_TEST(last_one_frees)
{
	yard_run(_i / 2, COUNTED, _i % 2);
}
END_TEST

START_TEST(last_one_frees_after_deadlines)
{
	yard_run(_i / 2, DEADLINES, _i % 2);
}
END_TEST

START_TEST(next_one_frees)
{
	yard_run(_i / 2, HANDED, _i % 2);
}
END_TEST

/*
 * One unlock, instruction by instruction: after each the unlocker waits a little, in case the next one has the lock
 * already, and if so until that has destroyed and unmapped it.
 */
#ifdef __x86_64__
enum { TRAP_FLAG = 0x100, PATIENT_STEPS = 3000 };

static struct {
	struct object *o;
	bool holder_writes, taker_writes;
	uint32_t taker_luck;
	atomic_int coming, taken, gone;
	unsigned long steps, steps_after;
} stepped;

static void on_step(int signal)
{
	int saved = errno;

	(void)signal;
	stepped.steps++;
	if (!atomic_load(&stepped.taken) && stepped.steps < PATIENT_STEPS)
		for (int i = 0; i < 3 && !atomic_load(&stepped.taken); i++)
			sleep_us(20);
	for (int i = 0; i < 1000 && atomic_load(&stepped.taken) && !atomic_load(&stepped.gone); i++)
		sleep_us(50);
	stepped.steps_after += atomic_load(&stepped.gone);
	errno = saved;
}

static void next_user(int index, void *arg)
{
	(void)index;
	(void)arg;
	atomic_store(&stepped.coming, 1);
	take(&stepped.o->l, stepped.taker_writes, stepped.taker_luck);
	atomic_store(&stepped.taken, 1);
	MUST(pthread_rwlock_unlock(&stepped.o->l));
	object_free(stepped.o);
	atomic_store(&stepped.gone, 1);
}

static void step_through_unlock(int kind, bool holder_writes, bool taker_writes, uint32_t luck, bool warm)
{
	struct team *t;

	memset(&stepped, 0, sizeof stepped);
	stepped.o = pages(1);
	stepped.holder_writes = holder_writes;
	stepped.taker_writes = taker_writes;
	stepped.taker_luck = luck;
	rwlock_make(&stepped.o->l, kind);
	read_often(&stepped.o->l, 1); /* for the dynamic linker */
	if (warm)
		warm_up(&stepped.o->l);
	MUST(holder_writes ? pthread_rwlock_wrlock(&stepped.o->l) : pthread_rwlock_rdlock(&stepped.o->l));
	if (warm && !holder_writes)
		warm_up(&stepped.o->l);
	t = team_start(1, next_user, NULL);
	while (!atomic_load(&stepped.coming))
		sleep_us(50);
	sleep_us(2000); /* asleep, or far into its waiting */
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
	pthread_rwlock_unlock(&stepped.o->l);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long)TRAP_FLAG);
	team_join(t);
	assert_no_complaint();
	ck_assert_int_eq(atomic_load(&stepped.gone), 1);
	ck_assert_uint_gt(stepped.steps, 0);
}

START_TEST(held_up_at_each_instruction)
{
	struct sigaction action = {.sa_handler = on_step};
	unsigned long after = 0;

	sigaction(SIGTRAP, &action, NULL);
	for (int round = 0; round < 2; round++)
		for (int way = 0; way < 3; way++)
			for (int sides = 1; sides < 4; sides++) { /* a reader does not wait for a reader */
				step_through_unlock(_i, sides & 1, sides & 2, way, round);
				after += stepped.steps_after;
			}
	ck_assert_uint_gt(after, 0);
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

/* ---- made anew, without destroy ---- */

enum { RECYCLERS = 6 };

struct recycled {
	pthread_rwlock_t l;
	int kind;
	pthread_barrier_t gate;
	volatile unsigned long a, b;
	uint64_t end_ns;
	bool ends; /* written by the first thread between two gates */
	int rounds;
	struct memory then, now;
};

static void recycled_use(struct recycled *r, bool writing, struct timespec *t)
{
	int rc = writing ? t ? pthread_rwlock_clockwrlock(&r->l, CLOCK_MONOTONIC, t) : pthread_rwlock_wrlock(&r->l)
		 : t ? pthread_rwlock_clockrdlock(&r->l, CLOCK_MONOTONIC, t)
			 : pthread_rwlock_rdlock(&r->l);

	if (t && rc == ETIMEDOUT)
		return;
	if (!WANT(rc, 0))
		return;
	if (writing)
		r->a++;
	if (r->a != r->b + writing)
		complain("a writer beside another thread, in a lock made anew");
	if (writing)
		r->b++;
	MUST(pthread_rwlock_unlock(&r->l));
}

static void recycle_body(int index, void *arg)
{
	static const pthread_rwlock_t fresh[] = {PTHREAD_RWLOCK_INITIALIZER,
						 PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};
	struct recycled *r = arg;
	uint32_t luck = 99 * (index + 1);

	for (int round = 0; !r->ends; round++) {
		if (index == 0) {
			if (round % 3 == 0)
				rwlock_make(&r->l, r->kind);
			else if (round % 3 == 1)
				r->l = fresh[r->kind == NONRECURSIVE];
			else
				memset(&r->l, 0, sizeof r->l);
			if (round == 60)
				r->then = memory_now();
			r->rounds++;
		}
		pthread_barrier_wait(&r->gate);
		if (index == 0)
			r->ends = complained() || (now_ns() > r->end_ns && round > 70);
		if (round % 2)
			read_often(&r->l, 100);
		for (int i = 0; i < 20; i++) {
			struct timespec t = deadline(CLOCK_MONOTONIC, dice(&luck) % 30000);

			recycled_use(r, dice(&luck) % 8 == 0, luck / 8 % 2 ? &t : NULL);
		}
		if (round % 4 < 2)
			read_often(&r->l, 100); /* so that it ends counted elsewhere, at times */
		pthread_barrier_wait(&r->gate);
	}
	if (index == 0)
		r->now = memory_now();
}

START_TEST(recycled_without_destroy)
{
	struct recycled r = {.kind = _i, .end_ns = now_ns() + suite_scale(200) * 1000000};

	pthread_barrier_init(&r.gate, NULL, RECYCLERS);
	team_run(RECYCLERS, recycle_body, &r);
	assert_no_complaint();
	ck_assert_msg(r.now.touched - r.then.touched <= 256, "%ld KiB more after %d rounds",
		      r.now.touched - r.then.touched, r.rounds - 60);
}
END_TEST

/* ---- freed while still read-locked by the thread that frees it: the next lock at that address knows nothing of it
 * ---- */

enum ending { DESTROYED, ZEROED, INITIALISED, ENDINGS };

static void write_once(void *arg)
{
	MUST(pthread_rwlock_wrlock(arg));
	MUST(pthread_rwlock_unlock(arg));
}

static void read_and_leave(void *arg)
{
	MUST(pthread_rwlock_rdlock(arg));
}

static void made_anew(pthread_rwlock_t *l, int kind, enum ending ending)
{
	if (ending == DESTROYED)
		MUST(pthread_rwlock_destroy(l));
	if (ending == ZEROED)
		memset(l, 0, sizeof *l);
	else
		rwlock_make(l, kind);
}

static void use_new(pthread_rwlock_t *l, struct servant *s, bool warm)
{
	if (warm)
		warm_up(l);
	ck_assert_int_eq(try_write(s, l), 0);
	if (warm)
		warm_up(l);
	servant_do(s, write_once, l);
	for (int writing = 0; writing < 2; writing++) {
		if (warm)
			warm_up(l);
		ck_assert_int_eq(writing ? pthread_rwlock_wrlock(l) : pthread_rwlock_rdlock(l), 0);
		ck_assert_int_eq(try_write(s, l), EBUSY);
		ck_assert_int_eq(pthread_rwlock_unlock(l), 0);
		ck_assert_int_eq(try_write(s, l), 0);
		servant_do(s, write_once, l);
	}
	ck_assert_uint_eq(l->__data.__readers >> 3, 0);
	assert_no_complaint();
}

/* The old lock read-locked after contended reads or not, the new one used with or without such. */
START_TEST(freed_while_read_locked)
{
	bool warm_before = _i & 1, warm_after = _i & 2;
	struct servant *s = servant_hire();
	pthread_rwlock_t l;

	for (int kind = 0; kind < KINDS_OF_RWLOCK; kind++)
		for (enum ending ending = 0; ending < ENDINGS; ending++)
			for (int who = 0; who < 3; who++) { /* we, another, we several times */
				rwlock_make(&l, kind);
				if (warm_before)
					warm_up(&l);
				for (int n = who == 2 ? 3 : 1; n > 0; n--)
					if (who == 1)
						servant_do(s, read_and_leave, &l);
					else
						ck_assert_int_eq(pthread_rwlock_rdlock(&l), 0);
				made_anew(&l, kind, ending);
				use_new(&l, s, warm_after);
				ck_assert_int_eq(pthread_rwlock_destroy(&l), 0);
			}
	servant_dismiss(s);
	assert_no_complaint();
}
END_TEST

/* ---- many locks cost their own bytes only ---- */

enum { LOCKS = 1000000, CONTENDED_LOCKS = 300000, SLACK_KIB = 1024 };

struct many {
	pthread_rwlock_t *l;
	int count;
	atomic_int at[2];
};

/* Both threads, on a CPU each, go along the row at about the same place, reading each lock several times. */
static void contend_along(int index, void *arg)
{
	struct many *m = arg;
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof all, &all);
	CPU_ZERO(&one);
	for (int cpu = 0, n = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && n++ == index)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof one, &one);
	for (int i = 0; i < m->count; i++) {
		atomic_store(&m->at[index], i);
		for (int n = 0; n < 200 && i > atomic_load(&m->at[!index]); n++)
			;
		read_often(&m->l[i], 10);
	}
	atomic_store(&m->at[index], m->count);
}

static long growth(struct memory then)
{
	return memory_now().touched - then.touched;
}

START_TEST(many_locks)
{
	struct many m = {.count = (int)suite_scale(CONTENDED_LOCKS)};
	int locks = (int)suite_scale(LOCKS);
	struct memory then;

	m.count = m.count < locks ? m.count : locks;
	m.l = calloc(locks, sizeof *m.l);
	for (int i = 0; i < locks; i++)
		*(volatile char *)&m.l[i] = 0; /* the memory is there before it is measured */
	read_often(&m.l[0], 1);
	team_run(2, contend_along, &(struct many){.l = m.l, .count = 1});
	then = memory_now();
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < locks; i++) {
			read_often(&m.l[i], 1);
			write_once(&m.l[i]);
		}
		assert_no_complaint();
		ck_assert_msg(growth(then) <= SLACK_KIB, "%ld KiB more after pass %d", growth(then), pass);
		if (pass == 0)
			team_run(2, contend_along, &m);
		ck_assert_msg(growth(then) <= SLACK_KIB, "%ld KiB more after contention", growth(then));
	}
	for (int i = 0; i < locks; i += 997)
		ck_assert_uint_eq(m.l[i].__data.__readers >> 3, 0);
	free(m.l);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-lifetime");

	SUITE_CASE_OF(s, last_one_frees, 60, 2 * KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, last_one_frees_after_deadlines, 60, 2 * KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, next_one_frees, 60, 2 * KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, held_up_at_each_instruction, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, recycled_without_destroy, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, freed_while_read_locked, 60, 4);
	SUITE_CASE(s, many_locks, 60);
	return suite_run(s);
}
