/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite rwlock-exclusion: one writer or many readers, however they came in, wherever the library counts the readers.
 *
 * The guarded data are plain words that a writer makes unequal and equal again; in every other section atomic counts
 * of those inside are kept as well, and in the others left out, since they could hide an order that is missing.  It
 * would catch: a writer that overlooks a reader (counted on another CPU or socket, from before the writer came, of a
 * thread that has exited or that another thread unlocks), a reader let in by a writer's past or by a deadline that
 * had passed, a timed-out call that holds the lock, an unlock that gives up one read lock too many, a write section
 * whose stores come late, a switch between ways of counting that loses a count (the lock is not free at the end).
 */

#include "suite.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 4, KINDS_OF_RWLOCK = 3, NONRECURSIVE = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP };

struct guarded {
	pthread_rwlock_t l;
	volatile unsigned long data[WORDS][8]; /* a cache line each; all the same, but for a writer */
	atomic_int readers, writers;	       /* those inside, of the sections that count */
	int kind;
} __attribute__((aligned(64)));

/* What a case's threads share. */
struct field {
	struct guarded *g;
	int size, percent; /* locks, writes */
	bool moving;	   /* threads change CPUs inside */
	uint64_t end_ns;
	bool polite;		     /* readers step back when the rare writer comes */
	bool abandoning;	     /* somebody is to give up */
	unsigned long least;	     /* so many writes are wanted */
	atomic_bool read, timed_out; /* has happened at all */
	atomic_bool coming;	     /* the rare writer */
	atomic_ulong writes;
};

static void note(atomic_bool *what)
{
	if (!atomic_load_explicit(what, memory_order_relaxed))
		atomic_store_explicit(what, true, memory_order_relaxed);
}

static struct field field_make(int kind, int size, unsigned ms)
{
	struct field f = {.size = size, .percent = 10, .least = 1};
	pthread_rwlockattr_t attr;

	f.g = aligned_alloc(64, size * sizeof *f.g);
	memset(f.g, 0, size * sizeof *f.g);
	MUST(pthread_rwlockattr_init(&attr));
	for (int i = 0; i < size; i++) {
		f.g[i].kind = kind < KINDS_OF_RWLOCK ? kind : i % KINDS_OF_RWLOCK; /* beyond: a mixture */
		MUST(pthread_rwlockattr_setkind_np(&attr, f.g[i].kind));
		MUST(pthread_rwlock_init(&f.g[i].l, &attr));
	}
	MUST(pthread_rwlockattr_destroy(&attr));
	f.end_ns = now_ns() + suite_scale(ms) * 1000000;
	return f;
}

/* All is counted, and the locks are free. */
static void field_end(struct field *f)
{
	unsigned long writes = 0;

	assert_no_complaint();
	for (int i = 0; i < f->size; i++) {
		pthread_rwlock_t *l = &f->g[i].l;

		for (int w = 0; w < WORDS; w++)
			ck_assert_uint_eq(f->g[i].data[w][0], f->g[i].data[0][0]);
		writes += f->g[i].data[0][0];
		ck_assert_int_eq(l->__data.__cur_writer, 0);
		ck_assert_uint_eq(l->__data.__readers >> 3, 0);
		ck_assert_int_eq(pthread_rwlock_trywrlock(l), 0);
		ck_assert_int_eq(pthread_rwlock_tryrdlock(l), EBUSY);
		ck_assert_int_eq(pthread_rwlock_unlock(l), 0);
		ck_assert_uint_eq(l->__data.__readers >> 3, 0);
		ck_assert_int_eq(pthread_rwlock_destroy(l), 0);
	}
	ck_assert_uint_eq(writes, atomic_load(&f->writes));
	ck_assert_uint_ge(writes, f->least);
	ck_assert(f->percent == 100 || atomic_load(&f->read));
	free(f->g);
}

/* Until the time is over, and both sides have got in; a machine that stands still is given more. */
static bool going_on(struct field *f)
{
	uint64_t now = now_ns();
	bool happened = atomic_load_explicit(&f->writes, memory_order_relaxed) >= f->least &&
			(f->percent == 100 || atomic_load_explicit(&f->read, memory_order_relaxed)) &&
			(!f->abandoning || atomic_load_explicit(&f->timed_out, memory_order_relaxed));

	return !complained() && (now < f->end_ns || (!happened && now < f->end_ns + 30000000000));
}

/* ---- inside ---- */

static cpu_set_t all_cpus;

/* To another CPU, which may well be another socket's. */
static void move(uint32_t luck)
{
	int here = sched_getcpu();
	cpu_set_t one;

	for (int i = 0; i < CPU_SETSIZE; i++) {
		int cpu = (luck + i) % CPU_SETSIZE;

		if (cpu != here && CPU_ISSET(cpu, &all_cpus)) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof one, &one);
			return;
		}
	}
}

/* Something that makes a section longer, most often nothing. */
static void dwell(const struct field *f, uint32_t luck)
{
	if (f->moving && luck % 4 == 0)
		move(luck >> 8);
	else if (luck % 256 == 1)
		sched_yield(); /* be scheduled out while holding it */
	else if (luck % 16 == 2)
		spin_ns(luck / 16 % 2048);
}

static void read_section(struct field *f, struct guarded *g, uint32_t luck)
{
	bool counts = luck & 1;
	unsigned long seen = g->data[0][0];

	if (counts && (atomic_fetch_add(&g->readers, 1), atomic_load(&g->writers)))
		complain("a reader came in beside a writer");
	dwell(f, luck >> 1);
	for (int i = WORDS; i-- > 0;)
		if (g->data[i][0] != seen)
			complain("a reader saw word %d change by %ld", i, (long)(g->data[i][0] - seen));
	if (counts && (atomic_fetch_sub(&g->readers, 1), atomic_load(&g->writers)))
		complain("a writer came in beside a reader");
	note(&f->read);
}

static void write_section(struct field *f, struct guarded *g, uint32_t luck)
{
	bool counts = luck & 1;
	unsigned long seen = g->data[0][0];

	if (counts && (atomic_fetch_add(&g->writers, 1) || atomic_load(&g->readers)))
		complain("a writer came in beside another thread");
	for (int i = 0; i < WORDS; i++) {
		if (g->data[i][0] != seen)
			complain("a writer saw word %d differ by %ld", i, (long)(g->data[i][0] - seen));
		g->data[i][0] = seen + 1;
		if (i == 1)
			dwell(f, luck >> 1);
	}
	if (counts && (atomic_fetch_sub(&g->writers, 1) != 1 || atomic_load(&g->readers)))
		complain("another thread came in beside a writer");
	if (counts && g->l.__data.__cur_writer != gettid())
		complain("__cur_writer is not the writer");
	atomic_fetch_add_explicit(&f->writes, 1, memory_order_relaxed);
}

/* ---- in and out ---- */

/* In in one of all ways, or not at all; deadlines so close that many pass just when the turn comes. */
static bool enter(struct field *f, pthread_rwlock_t *l, bool writing, uint32_t luck)
{
	struct timespec t;
	int rc;

	switch (luck % 8) {
	case 0:
	case 1:
	case 2:
		return MUST(writing ? pthread_rwlock_wrlock(l) : pthread_rwlock_rdlock(l));
	case 3:
		for (int i = 0; i < 200; i++)
			if ((rc = writing ? pthread_rwlock_trywrlock(l) : pthread_rwlock_tryrdlock(l)) != EBUSY)
				return WANT(rc, 0);
		return MUST(writing ? pthread_rwlock_wrlock(l) : pthread_rwlock_rdlock(l));
	case 4:
		rc = writing ? pthread_rwlock_trywrlock(l) : pthread_rwlock_tryrdlock(l);
		return rc != EBUSY && WANT(rc, 0);
	case 5:
		t = deadline(CLOCK_REALTIME, luck / 8 % 50000);
		rc = writing ? pthread_rwlock_timedwrlock(l, &t) : pthread_rwlock_timedrdlock(l, &t);
		break;
	case 6:
		t = deadline(CLOCK_MONOTONIC, luck / 8 % 50000);
		rc = writing ? pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t)
			     : pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t);
		break;
	default:
		t = deadline(CLOCK_REALTIME, 60000000000);
		return MUST(writing ? pthread_rwlock_timedwrlock(l, &t) : pthread_rwlock_timedrdlock(l, &t));
	}
	if (rc == ETIMEDOUT) {
		note(&f->timed_out);
		return false;
	}
	return WANT(rc, 0);
}

/* Reading again what this thread reads already: always possible, but where writers are preferred. */
static int read_again(struct guarded *g, uint32_t luck)
{
	int depth = 0;

	for (int i = 0; i < (int)(luck % 4); i++)
		if (g->kind == NONRECURSIVE || luck >> (4 + i) & 1)
			depth += pthread_rwlock_tryrdlock(&g->l) == 0;
		else
			depth += MUST(pthread_rwlock_rdlock(&g->l));
	return depth;
}

static void once(struct field *f, struct guarded *g, bool writing, uint32_t *luck)
{
	int depth;

	if (!enter(f, &g->l, writing, dice(luck)))
		return;
	if (writing) {
		write_section(f, g, dice(luck));
	} else {
		depth = dice(luck) % 4 == 0 ? read_again(g, *luck >> 2) : 0;
		read_section(f, g, dice(luck));
		for (; depth > 0; depth--) {
			MUST(pthread_rwlock_unlock(&g->l));
			read_section(f, g, dice(luck));
		}
	}
	MUST(pthread_rwlock_unlock(&g->l));
}

static void mixed_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 0x9e3779b9u * (index + 1);

	do
		for (int i = 0; i < 16; i++) {
			struct guarded *g = &f->g[dice(&luck) % f->size];

			once(f, g, (int)(dice(&luck) % 100) < f->percent, &luck);
		}
	while (going_on(f));
}

/* ---- the cases ---- */

/* All crowds with all shares of writes. */
START_TEST(mixtures)
{
	static const int percents[] = {1, 10, 50, 90, 100};

	for (int threads = 2; threads <= 64; threads *= 2)
		for (int p = 0; p < 5; p++) {
			struct field f = field_make(_i, 1, 20);

			f.percent = percents[p];
			team_run(threads, mixed_body, &f);
			field_end(&f);
		}
}
END_TEST

/* Each thread on several locks in turn: what it remembers of one must not be taken for another's. */
START_TEST(several_locks)
{
	struct field f = field_make(KINDS_OF_RWLOCK, 9, 280);

	f.percent = _i ? 40 : 3;
	team_run(8, mixed_body, &f);
	field_end(&f);
}
END_TEST

/* Inside, threads move to another CPU: out by another socket's door than in. */
START_TEST(moved_inside)
{
	struct field f = field_make(_i, 2, 280);

	f.moving = true;
	f.percent = 5;
	team_run(8, mixed_body, &f);
	field_end(&f);
}
END_TEST

static bool small_deadline(struct field *f, struct guarded *g, bool writing, uint32_t *luck)
{
	struct timespec t = deadline(CLOCK_MONOTONIC, dice(luck) % 50000);
	int rc = writing ? pthread_rwlock_clockwrlock(&g->l, CLOCK_MONOTONIC, &t)
			 : pthread_rwlock_clockrdlock(&g->l, CLOCK_MONOTONIC, &t);

	if (rc == ETIMEDOUT) {
		note(&f->timed_out);
		return false;
	}
	return WANT(rc, 0);
}

/* Nothing but tiny deadlines: most give up, many just when their turn comes. */
static void abandon_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 0x85ebca6bu * (index + 1);

	do {
		bool writing = dice(&luck) % 100 < 30;

		if (!small_deadline(f, f->g, writing, &luck))
			continue;
		if (writing)
			write_section(f, f->g, luck);
		else
			read_section(f, f->g, luck);
		if (luck % 4 == 0)
			spin_ns(luck / 4 % 20000);
		MUST(pthread_rwlock_unlock(&f->g->l));
	} while (going_on(f));
}

START_TEST(abandoned_waiters)
{
	struct field f = field_make(_i, 1, 160);

	f.abandoning = true;
	team_run(16, abandon_body, &f);
	ck_assert(atomic_load(&f.timed_out));
	field_end(&f);
}
END_TEST

/*
 * Phases: what many readers have made of a lock, a writer must undo, and readers must see it undone.
 */
enum { PHASED = 6 };

struct phases {
	struct field f;
	pthread_barrier_t gate;
	bool ends; /* written by the first thread between two gates */
};

static void read_for(struct field *f, uint32_t *luck, uint64_t ns)
{
	for (uint64_t end = now_ns() + ns; now_ns() < end;)
		for (int i = 0; i < 32; i++) {
			MUST(pthread_rwlock_rdlock(&f->g->l));
			read_section(f, f->g, dice(luck));
			MUST(pthread_rwlock_unlock(&f->g->l));
		}
}

static void phases_body(int index, void *arg)
{
	struct phases *p = arg;
	struct field *f = &p->f;
	uint32_t luck = 271828 * (index + 1);

	for (int phase = 0; !p->ends; phase++) {
		if (phase % 3 != 1)
			pthread_barrier_wait(&p->gate);
		if (index == 0 && phase % 3 == 2)
			p->ends = !going_on(f);
		switch (phase % 3) {
		case 0:
			read_for(f, &luck, 3000000 + luck % 4000000);
			break;
		case 1: /* one write by each, while some still read */
			once(f, f->g, true, &luck);
			MUST(pthread_rwlock_wrlock(&f->g->l));
			write_section(f, f->g, dice(&luck));
			MUST(pthread_rwlock_unlock(&f->g->l));
			break;
		default:
			for (uint64_t end = now_ns() + 2000000; now_ns() < end;)
				once(f, f->g, dice(&luck) % 8 == 0, &luck);
			break;
		}
		if (phase % 3 != 0)
			pthread_barrier_wait(&p->gate);
	}
}

START_TEST(phases)
{
	struct phases p = {.f = field_make(_i, 1, 320)};

	pthread_barrier_init(&p.gate, NULL, PHASED);
	team_run(PHASED, phases_body, &p);
	field_end(&p.f);
}
END_TEST

/*
 * One writer comes every few milliseconds, in any way, among readers that do nothing else.  glibc would let them keep
 * it out for ever, but for the third kind: there they step back.
 */
static struct field field_of_rare_writes(int kind, unsigned ms)
{
	struct field f = field_make(kind, 1, ms);

	f.polite = !suite_served() && kind != NONRECURSIVE;
	f.least = 20;
	return f;
}

static void write_rarely(struct field *f, uint32_t *luck)
{
	sleep_us(500 + dice(luck) % 2000);
	atomic_store(&f->coming, true);
	once(f, f->g, true, luck);
	atomic_store(&f->coming, false);
}

static void step_back(struct field *f)
{
	while (f->polite && atomic_load(&f->coming))
		sleep_us(20);
}

static void rare_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 31337 * (index + 1);

	do {
		if (index == 0) {
			write_rarely(f, &luck);
		} else {
			read_for(f, &luck, 200000);
			step_back(f);
		}
	} while (going_on(f));
}

START_TEST(rare_writer)
{
	struct field f = field_of_rare_writes(_i, 700);

	team_run(PHASED, rare_body, &f);
	field_end(&f);
}
END_TEST

/*
 * A thread on each CPU: all read, as fast as they can, and the first writes after every few dozen reads of its own.
 * Nothing but the lock orders anything here: a reader that is noted too late for the writer is seen at once.
 */
static void recall_body(int index, void *arg)
{
	struct field *f = arg;
	volatile unsigned long(*data)[8] = f->g->data;
	uint32_t luck = 7919 * (index + 1);
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0, n = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all_cpus) && n++ == index)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof one, &one);
	do {
		for (int i = 20 + dice(&luck) % 400; i > 0; i--) {
			unsigned long first, last;

			MUST(pthread_rwlock_rdlock(&f->g->l));
			last = data[WORDS - 1][0];
			first = data[0][0];
			MUST(pthread_rwlock_unlock(&f->g->l));
			if (first != last)
				complain("a reader saw a difference of %ld", (long)(first - last));
		}
		note(&f->read);
		if (index == 0) {
			MUST(pthread_rwlock_wrlock(&f->g->l));
			for (int w = 0; w < WORDS; w++)
				data[w][0]++;
			MUST(pthread_rwlock_unlock(&f->g->l));
			atomic_fetch_add(&f->writes, 1);
		}
	} while (going_on(f));
}

START_TEST(recalls)
{
	struct field f = field_make(_i, 1, 200);

	team_run(3, recall_body, &f);
	field_end(&f);
}
END_TEST

/*
 * Threads come and go: some exit with the lock read-locked, and the thread that joins them unlocks it.
 */
struct short_life {
	struct field *f;
	uint32_t luck;
	bool leaves; /* the lock as it is, read-locked */
	unsigned long seen;
};

static void *live_shortly(void *arg)
{
	struct short_life *life = arg;
	struct guarded *g = life->f->g;

	for (int i = dice(&life->luck) % 20; i > 0; i--)
		once(life->f, g, false, &life->luck);
	if (life->leaves) {
		MUST(pthread_rwlock_rdlock(&g->l));
		life->seen = g->data[0][0];
	}
	return NULL;
}

/* Only the first leaves the lock, and is joined at once: where writers are preferred the others may wait for it. */
static void churn(struct field *f, uint32_t *luck)
{
	struct short_life life[3];
	pthread_t thread[3];
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (int i = 0; i < 3; i++) {
		life[i] = (struct short_life){.f = f, .luck = dice(luck), .leaves = i == 0};
		rc = pthread_create(&thread[i], &attr, live_shortly, &life[i]);
		if (rc) {
			say("pthread_create: %s", strerror(rc));
			_exit(EXIT_FAILURE);
		}
	}
	pthread_attr_destroy(&attr);
	pthread_join(thread[0], NULL);
	dwell(f, dice(luck));
	for (int w = 0; w < WORDS; w++)
		if (f->g->data[w][0] != life[0].seen)
			complain("a writer came in beside a reader that has exited");
	MUST(pthread_rwlock_unlock(&f->g->l));
	pthread_join(thread[1], NULL);
	pthread_join(thread[2], NULL);
}

static void churn_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 65537 * (index + 1);

	do {
		if (index == 0)
			write_rarely(f, &luck);
		else if (index < 3)
			once(f, f->g, false, &luck);
		else
			churn(f, &luck);
		if (index > 0)
			step_back(f);
	} while (going_on(f));
}

START_TEST(short_lives)
{
	struct field f = field_of_rare_writes(_i, 800);

	team_run(6, churn_body, &f);
	field_end(&f);
}
END_TEST

/* Pairs: one takes read locks, the other lets them go, while it may hold the same lock itself. */
enum { HANDING = 8, HANDING_WRITERS = 2 };

struct handing {
	struct field f;
	struct hand {
		_Atomic(struct guarded *) g; /* null: empty */
		unsigned long seen;
		atomic_bool over;
	} hand[HANDING];
};

static void hand_body(int index, void *arg)
{
	struct handing *all = arg;
	struct hand *h = &all->hand[index / 2];
	uint32_t luck = 4099 * (index + 1);
	struct guarded *g;

	do {
		if (index < HANDING_WRITERS) {
			once(&all->f, &all->f.g[dice(&luck) % all->f.size], true, &luck);
			sleep_us(luck % 200);
		} else if (index % 2 == 0) {
			g = &all->f.g[dice(&luck) % all->f.size];
			if (!enter(&all->f, &g->l, false, dice(&luck)))
				continue;
			h->seen = g->data[0][0];
			atomic_store(&h->g, g);
			while (atomic_load(&h->g))
				sched_yield();
		} else {
			bool own;

			while (!(g = atomic_load(&h->g)) && !atomic_load(&h->over))
				sched_yield();
			if (!g)
				return;
			own = dice(&luck) % 2 && pthread_rwlock_tryrdlock(&g->l) == 0;
			for (int n = own; n >= 0; n--) {
				for (int w = 0; w < WORDS; w++)
					if (g->data[w][0] != h->seen)
						complain("a writer came in beside a reader that another unlocks");
				dwell(&all->f, dice(&luck));
				note(&all->f.read);
				MUST(pthread_rwlock_unlock(&g->l));
			}
			atomic_store(&h->g, NULL);
		}
	} while ((index >= HANDING_WRITERS && index % 2) || going_on(&all->f));
	atomic_store(&h->over, true);
}

START_TEST(unlocked_by_another)
{
	struct handing all = {.f = field_make(_i, 3, 240)};

	team_run(HANDING, hand_body, &all);
	field_end(&all.f);
}
END_TEST

/*
 * Several at a time: upwards, for reading or writing, some read locks twice while those above are held; let go in any
 * order.
 */
enum { NESTED = 12 };

static void nested_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 77 * (index + 1);

	do {
		int held[NESTED] = {0}, left = 0; /* -1: for writing */

		for (int i = 0; i < f->size; i++) {
			bool writing = dice(&luck) % 100 < 10;

			if (dice(&luck) % 3 == 0 || !enter(f, &f->g[i].l, writing, dice(&luck)))
				continue;
			held[i] = writing ? -1 : 1;
			left++;
		}
		for (int i = 0; i < f->size; i++)
			if (held[i] > 0 && dice(&luck) % 3 == 0) {
				int more = read_again(&f->g[i], luck >> 3);

				held[i] += more;
				left += more;
			}
		while (left) {
			int i = dice(&luck) % f->size;

			if (held[i] < 0)
				write_section(f, &f->g[i], dice(&luck));
			else if (held[i] > 0)
				read_section(f, &f->g[i], dice(&luck));
			else
				continue;
			MUST(pthread_rwlock_unlock(&f->g[i].l));
			held[i] = held[i] < 0 ? 0 : held[i] - 1;
			left--;
		}
	} while (going_on(f));
}

START_TEST(nested)
{
	struct field f = field_make(_i, NESTED, 200);

	team_run(6, nested_body, &f);
	field_end(&f);
}
END_TEST

/* Readers hold several, taken in any order; writers one. Waiting writers must not close a circle. */
static void any_order_body(int index, void *arg)
{
	struct field *f = arg;
	uint32_t luck = 1013 * (index + 1);

	do {
		int held[NESTED], count = 0;

		if (index < 3) {
			once(f, &f->g[dice(&luck) % f->size], true, &luck);
			continue;
		}
		while (count < 3) {
			held[count] = dice(&luck) % f->size;
			MUST(pthread_rwlock_rdlock(&f->g[held[count++]].l));
		}
		for (int i = 0; i < count; i++)
			read_section(f, &f->g[held[i]], dice(&luck));
		for (int i = 0; i < count; i++)
			MUST(pthread_rwlock_unlock(&f->g[held[i]].l));
	} while (going_on(f));
}

START_TEST(read_in_any_order)
{
	struct field f = field_make(_i, 4, 200);

	team_run(8, any_order_body, &f);
	field_end(&f);
}
END_TEST

int main(void)
{
	Suite *s = suite_make("rwlock-exclusion");

	sched_getaffinity(0, sizeof all_cpus, &all_cpus);
	SUITE_CASE_OF(s, mixtures, 120, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, several_locks, 60, 2);
	SUITE_CASE_OF(s, moved_inside, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, abandoned_waiters, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, phases, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, rare_writer, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, recalls, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, short_lives, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, unlocked_by_another, 60, KINDS_OF_RWLOCK);
	SUITE_CASE_OF(s, nested, 60, KINDS_OF_RWLOCK + 1);
	SUITE_CASE_OF(s, read_in_any_order, 60, 2);
	return suite_run(s);
}
