/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-lifetime: a reader-writer lock ends, by destroy and munmap, by being overwritten or by a fork, while
 * the unlock before may still be on its way out, and costs nothing afterwards.
 *
 * Each lock that is freed has a page of its own.  Signals and single steps hold threads up at any instruction, also
 * just after the release.  It would catch: an unlock that touches the lock once it is free for the next one, a waiter
 * that gave up and is still led back to it, read locks noted elsewhere (by thread, by CPU) that outlive the lock and
 * are taken for the next one's at the same address, notes that are never given back, ghosts of the parent's readers
 * and waiters in a child.
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SPAN = 20, SHARERS = 4, RUN_MS = 180, CHILD_SECONDS = 50 };
enum { KINDS_OF_RWLOCK = 3, NONRECURSIVE = 2 }; /* as pthread_rwlockattr_setkind_np numbers them */

static void rwlock_make(pthread_rwlock_t *l, int kind)
{
	pthread_rwlockattr_t attr;

	MUST(pthread_rwlockattr_init(&attr));
	MUST(pthread_rwlockattr_setkind_np(&attr, kind));
	MUST(pthread_rwlock_init(l, &attr));
	MUST(pthread_rwlockattr_destroy(&attr));
}

/* Reads so often that, beside others that do the same, the library may begin to count this lock's readers elsewhere. */
static void read_often(pthread_rwlock_t *l, int times)
{
	while (times-- > 0) {
		MUST(pthread_rwlock_rdlock(l));
		MUST(pthread_rwlock_unlock(l));
	}
}

static void warm_body(int index, void *arg)
{
	uint64_t end = now_ns() + 5000000;
	(void)index;

	while (now_ns() < end)
		read_often(arg, 50);
}

static void warm_up(pthread_rwlock_t *l)
{
	team_run(4, warm_body, l);
}

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

static int try_write(struct servant *s, pthread_rwlock_t *l);

struct attempt {
	pthread_rwlock_t *l;
	int rc;
};

static void attempt_write(void *arg)
{
	struct attempt *a = arg;

	a->rc = pthread_rwlock_trywrlock(a->l);
	if (a->rc == 0)
		MUST(pthread_rwlock_unlock(a->l));
}

static int try_write(struct servant *s, pthread_rwlock_t *l)
{
	struct attempt a = {l, -1};

	servant_do(s, attempt_write, &a);
	return a.rc;
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

/* ---- fork ---- */

enum { HELD = 6, USERS = 4, GENERATIONS = 2 };

struct shared {
	pthread_rwlock_t l;
	volatile unsigned long a, b;
};

static void shared_use(struct shared *s, uint32_t *luck)
{
	struct timespec t = deadline(CLOCK_MONOTONIC, dice(luck) % 100000);
	bool writing = dice(luck) % 4 == 0;
	int rc;

	if (*luck / 4 % 4)
		rc = writing ? pthread_rwlock_wrlock(&s->l) : pthread_rwlock_rdlock(&s->l);
	else
		rc = writing ? pthread_rwlock_clockwrlock(&s->l, CLOCK_MONOTONIC, &t)
			     : pthread_rwlock_clockrdlock(&s->l, CLOCK_MONOTONIC, &t);
	if (*luck / 4 % 4 == 0 && rc == ETIMEDOUT)
		return;
	if (!WANT(rc, 0))
		return;
	if (writing)
		s->a++;
	if (*luck % 64 == 3)
		sched_yield();
	if (s->a != s->b + writing)
		complain("a writer beside another thread");
	if (writing)
		s->b++;
	MUST(pthread_rwlock_unlock(&s->l));
}

/* glibc takes the child's unlock of an inherited write lock for a reader's: there the child makes the lock anew. */
static void inherited_write_unlock(pthread_rwlock_t *l, int kind)
{
	if (suite_served())
		MUST(pthread_rwlock_unlock(l));
	else
		rwlock_make(l, kind);
}

struct held {
	struct shared s[HELD];
	int generation;
};

enum { IDLE = 0, WRITTEN = 1 }; /* and from 2 on read, so many times less one */

static int held_kind(int i)
{
	return i == HELD - 1 ? NONRECURSIVE : i % 2;
}

static void held_use_body(int index, void *arg)
{
	struct held *h = arg;
	uint32_t luck = 4099 * (index + 1);

	for (int i = 0; i < HELD; i++) {
		read_often(&h->s[i].l, 200);
		for (int n = 0; n < 100; n++)
			shared_use(&h->s[i], &luck);
	}
}

static void held_release(struct held *h, bool child)
{
	struct servant *s = servant_hire();

	if (child)
		inherited_write_unlock(&h->s[WRITTEN].l, held_kind(WRITTEN));
	else
		MUST(pthread_rwlock_unlock(&h->s[WRITTEN].l));
	for (int i = 2; i < HELD; i++)
		for (int n = i - 1; n > 0; n--) {
			WANT(try_write(s, &h->s[i].l), EBUSY);
			MUST(pthread_rwlock_unlock(&h->s[i].l));
		}
	for (int i = 0; i < HELD; i++)
		WANT(try_write(s, &h->s[i].l), 0);
	servant_dismiss(s);
	team_run(USERS, held_use_body, h);
}

static void held_fork(struct held *h)
{
	pid_t child;

	for (int i = 0; i < HELD; i++)
		warm_up(&h->s[i].l);
	MUST(pthread_rwlock_wrlock(&h->s[WRITTEN].l));
	for (int i = 2; i < HELD; i++)
		for (int n = i - 1; n > 0; n--) {
			MUST(pthread_rwlock_rdlock(&h->s[i].l));
			if (n == 2)
				warm_up(&h->s[i].l);
		}
	if ((child = fork()) == 0) {
		alarm(CHILD_SECONDS);
		h->generation++;
		held_release(h, true);
		if (h->generation < GENERATIONS)
			held_fork(h);
		child_exit();
	}
	held_release(h, false);
	child_reap(child, "a child with inherited locks");
}

/* A child meets a lock that it has inherited as written before the forking thread lets it go. */
static struct {
	pthread_rwlock_t l;
	bool reads;
} early;

static void *meet_early(void *unused)
{
	MUST(early.reads ? pthread_rwlock_rdlock(&early.l) : pthread_rwlock_wrlock(&early.l));
	MUST(pthread_rwlock_unlock(&early.l));
	return unused;
}

static void unlock_late(void)
{
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		MUST(pthread_create(&thread[i], NULL, meet_early, NULL));
	sleep_us(20000);
	MUST(pthread_rwlock_unlock(&early.l));
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(thread[i], NULL));
	/* Nobody is counted as waiting that does not. */
	MUST(pthread_rwlock_tryrdlock(&early.l));
	MUST(pthread_rwlock_unlock(&early.l));
	MUST(pthread_rwlock_trywrlock(&early.l));
	MUST(pthread_rwlock_unlock(&early.l));
}

START_TEST(fork_and_wait_for_the_writer)
{
	static const int kinds[] = {0, NONRECURSIVE};

	if (!suite_served())
		return; /* glibc's do not let it go */
	/* 4 and up: while another thread of the parent waits for it, long enough to have closed it. */
	for (int i = 0; i < 8; i++) {
		pthread_t waiter;
		pid_t child;

		early.reads = i & 1;
		rwlock_make(&early.l, kinds[i / 2 % 2]);
		MUST(pthread_rwlock_wrlock(&early.l));
		if (i >= 4) {
			MUST(pthread_create(&waiter, NULL, meet_early, NULL));
			sleep_us(20000);
		}
		if ((child = fork()) == 0) {
			alarm(CHILD_SECONDS);
			unlock_late();
			child_exit();
		}
		MUST(pthread_rwlock_unlock(&early.l));
		if (i >= 4)
			MUST(pthread_join(waiter, NULL));
		child_reap(child, "a child that waits for itself");
	}
	assert_no_complaint();
}
END_TEST

START_TEST(fork_with_locks_held)
{
	for (int round = 0; round < 3; round++) {
		struct held h = {.generation = 0};

		for (int i = 0; i < HELD; i++)
			rwlock_make(&h.s[i].l, held_kind(i));
		held_fork(&h);
		assert_no_complaint();
	}
}
END_TEST

/* Handlers write-lock what the others contend for, as a program's allocator does. */
static struct {
	struct shared s[KINDS_OF_RWLOCK];
	int generation;
	atomic_bool stop;
} program;

static void before_fork(void)
{
	for (int i = 0; i < KINDS_OF_RWLOCK; i++)
		MUST(pthread_rwlock_wrlock(&program.s[i].l));
}

static void after_fork_in_parent(void)
{
	for (int i = KINDS_OF_RWLOCK; i-- > 0;)
		MUST(pthread_rwlock_unlock(&program.s[i].l));
}

static void after_fork_in_child(void)
{
	for (int i = KINDS_OF_RWLOCK; i-- > 0;)
		inherited_write_unlock(&program.s[i].l, i);
}

/* A pause between two uses: glibc's readers would keep the handler out for ever. */
static void work(int index, void *arg)
{
	uint32_t luck = 1009 * (index + 1) + getpid();
	(void)arg;

	while (!atomic_load(&program.stop) && !complained()) {
		struct shared *s = &program.s[dice(&luck) % KINDS_OF_RWLOCK];

		shared_use(s, &luck);
		if (luck % 32 == 0)
			read_often(&s->l, 100);
		if (!suite_served())
			sleep_us(luck / 32 % 64);
	}
}

static void generation(void);

static void forker(int index, void *arg)
{
	int forks = *(int *)arg;
	(void)index;

	for (int i = 0; i < forks && !complained(); i++) {
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

static void generation(void)
{
	int forks = program.generation == 0 ? (int)suite_scale(6) : 1;
	struct team *workers;

	atomic_store(&program.stop, false);
	workers = team_start(USERS, work, NULL);
	sleep_us(2000);
	if (program.generation < GENERATIONS)
		team_run(2, forker, &forks);
	else
		sleep_us(10000);
	atomic_store(&program.stop, true);
	team_join(workers);
	for (int i = 0; i < KINDS_OF_RWLOCK; i++) {
		pthread_rwlock_t *l = &program.s[i].l;

		if (l->__data.__cur_writer || l->__data.__readers >> 3)
			complain("generation %d: a lock is left locked", program.generation);
		MUST(pthread_rwlock_trywrlock(l));
		MUST(pthread_rwlock_unlock(l));
	}
}

START_TEST(fork_in_handlers)
{
	for (int i = 0; i < KINDS_OF_RWLOCK; i++)
		rwlock_make(&program.s[i].l, i);
	ck_assert_int_eq(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
	generation();
	assert_no_complaint();
}
END_TEST

/* Others read, write and wait while this thread forks without the lock: the child makes it anew, as runtimes do. */
static void anew_body(int index, void *arg)
{
	uint32_t luck = 31 * (index + 1);

	read_often(&((struct shared *)arg)->l, 500);
	for (int n = 0; n < 200; n++)
		shared_use(arg, &luck);
	read_often(&((struct shared *)arg)->l, 500);
	MUST(pthread_rwlock_wrlock(&((struct shared *)arg)->l));
	MUST(pthread_rwlock_unlock(&((struct shared *)arg)->l));
}

START_TEST(child_starts_anew)
{
	struct team *t;

	rwlock_make(&program.s[0].l, _i);
	rwlock_make(&program.s[1].l, _i);
	rwlock_make(&program.s[2].l, _i);
	t = team_start(6, work, NULL);
	for (int i = 0; i < (int)suite_scale(16) && !complained(); i++) {
		pid_t child;

		sleep_us(i % 5 * 300);
		if ((child = fork()) == 0) {
			alarm(CHILD_SECONDS);
			for (int n = 0; n < KINDS_OF_RWLOCK; n++) {
				if (i % 2)
					rwlock_make(&program.s[n].l, _i);
				else
					memset(&program.s[n].l, 0, sizeof program.s[n].l);
				program.s[n].a = program.s[n].b = 0;
				team_run(USERS, anew_body, &program.s[n]);
				WANT(pthread_rwlock_trywrlock(&program.s[n].l), 0);
			}
			child_exit();
		}
		child_reap(child, "a child that starts anew");
	}
	atomic_store(&program.stop, true);
	team_join(t);
	assert_no_complaint();
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
	SUITE_CASE(s, fork_with_locks_held, 60);
	SUITE_CASE(s, fork_and_wait_for_the_writer, 60);
	SUITE_CASE(s, fork_in_handlers, 60);
	SUITE_CASE_OF(s, child_starts_anew, 60, KINDS_OF_RWLOCK);
	return suite_run(s);
}
