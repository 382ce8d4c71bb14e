/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Time, threads and CPUs; the contract is in engine.h.
 *
 * Everybody who waits has an event in one heap. Who is about to wait takes the earliest
 * one out, and goes over to its thread directly; if that is itself, nothing is switched.
 * Ticks and deadlines are seen to on the way, by whoever finds them. */
#include "sim/engine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/kernel.h"
#include "sim/lines.h"
#include "sim/main.h"

enum {
	STACK = 64 << 10,
	THREADS_MAX = 65536,
};
/* Far from where anything else is mapped, and the same in each run. */
#define MEMORY ((char *)0x200000000000)
#define STACKS ((char *)0x300000000000)
static const uint64_t memory_size = 1ull << 36;

const uintptr_t sim_stack_size = STACK;
struct sim_thread *sim_self;
uint64_t sim_now;
struct sim_cpu *sim_cpus;
struct sim_counts sim_counts;

static struct sim_event **heap;
static unsigned events, room;
static uint64_t turns, end_at, seed_of_all;
static unsigned alive, threads, waiting;
static jmp_buf outside;
static enum sim_end end;
static char *memory;

/* ---- the heap: slot 1 is the earliest ---- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->turn < b->turn;
}

static void put(struct sim_event *e, unsigned slot)
{
	heap[slot] = e;
	e->slot = slot;
}

static void sift(struct sim_event *e, unsigned slot)
{
	while (slot > 1 && before(e, heap[slot / 2])) {
		put(heap[slot / 2], slot);
		slot /= 2;
	}
	for (unsigned child; (child = 2 * slot) <= events; slot = child) {
		child += child < events && before(heap[child + 1], heap[child]);
		if (!before(heap[child], e))
			break;
		put(heap[child], slot);
	}
	put(e, slot);
}

static void remove_event(struct sim_event *e)
{
	unsigned slot = e->slot;
	struct sim_event *last;

	if (!slot)
		return;
	e->slot = 0;
	last = heap[events--];
	if (last != e)
		sift(last, slot);
}

static void add_event(struct sim_event *e, uint64_t at)
{
	remove_event(e);
	e->at = at;
	e->turn = turns++;
	if (++events == room) {
		room *= 2;
		heap = realloc(heap, room * sizeof(*heap));
		if (!heap)
			abort();
	}
	sift(e, events);
}

static struct sim_thread *thread_of(struct sim_event *e)
{
	return (struct sim_thread *)((char *)e - offsetof(struct sim_thread, event));
}

static struct sim_cpu *cpu_of(struct sim_event *e)
{
	return (struct sim_cpu *)((char *)e - offsetof(struct sim_cpu, tick));
}

/* ---- CPUs ---- */

static void enqueue(struct sim_cpu *c, struct sim_thread *t)
{
	t->state = SIM_READY;
	t->next = NULL;
	*c->last = t;
	c->last = &t->next;
	c->ready++;
	waiting++;
}

static struct sim_thread *dequeue(struct sim_cpu *c)
{
	struct sim_thread *t = c->first;

	c->first = t->next;
	if (!c->first)
		c->last = &c->first;
	c->ready--;
	waiting--;
	return t;
}

static void tick_at(struct sim_cpu *c, uint64_t us)
{
	uint64_t at = c->began + sim_cycles(us * 1000);

	if (!c->tick.slot || c->tick.at > at)
		add_event(&c->tick, at > sim_now ? at : sim_now);
}

/* Its current thread has had it from then until now. Waking up is not counted: the CPU is on its way out of idling. */
static void charge(struct sim_cpu *c)
{
	uint64_t from = c->since > sim_warm ? c->since : sim_warm;
	uint64_t to = sim_now < sim_end_of_load ? sim_now : sim_end_of_load;

	if (c->current && to > from)
		sim_counts.busy += to - from;
}

static void start(struct sim_cpu *c, struct sim_thread *t, uint64_t delay)
{
	unsigned cpu = (unsigned)(c - sim_cpus);

	sim_counts.migrated += t->cpu != cpu;
	t->cpu = cpu;
	t->rseq[0] = t->rseq[1] = cpu;
	t->state = SIM_RUNNING;
	c->current = t;
	c->began = sim_now;
	c->since = sim_now + (delay == sim_machine.wakeup ? delay : 0);
	c->resched = false;
	remove_event(&c->tick);
	add_event(&t->event, sim_now + delay + t->remaining);
	if (c->ready)
		tick_at(c, sim_machine.quantum);
}

/* The longest queue of those CPUs, or null. */
static struct sim_cpu *longest(unsigned first, unsigned n)
{
	struct sim_cpu *found = NULL;

	for (unsigned i = first; i < first + n; i++)
		if (sim_cpus[i].ready && (!found || sim_cpus[i].ready > found->ready))
			found = &sim_cpus[i];
	return found;
}

/* The CPU has nothing to do. */
static void dispatch(struct sim_cpu *c)
{
	struct sim_cpu *from = c->ready ? c : NULL;
	unsigned width = sim_machine.width[SIM_NODE];

	charge(c);
	c->current = NULL;
	remove_event(&c->tick);
	if (!from && waiting) {
		from = longest((unsigned)(c - sim_cpus) / width * width, width);
		from = from ? from : longest(0, sim_machine.cpus);
	}
	if (!from)
		return;
	sim_counts.switches++;
	start(c, dequeue(from), sim_machine.change);
}

/* To the end of the queue. */
static void preempt(struct sim_cpu *c, uint64_t remaining)
{
	struct sim_thread *t = c->current;

	sim_counts.preempted++;
	remove_event(&t->event);
	t->remaining = remaining;
	enqueue(c, t);
	dispatch(c);
}

static void tick(struct sim_cpu *c)
{
	struct sim_thread *t = c->current;

	if (!t || !c->ready)
		return;
	if (!t->soft) {
		c->resched = true;
	} else {
		bool spins = sim_unwatch(t);

		preempt(c, spins || t->event.at < sim_now ? 0 : t->event.at - sim_now);
	}
}

static struct sim_cpu *idle(unsigned first, unsigned n, unsigned from)
{
	for (unsigned i = 0; i < n; i++) {
		struct sim_cpu *c = &sim_cpus[first + (from - first + i) % n];

		if (!c->current)
			return c;
	}
	return NULL;
}

void sim_claim(struct sim_thread *t)
{
	remove_event(&t->event);
}

void sim_ready(struct sim_thread *t)
{
	unsigned width = sim_machine.width[SIM_NODE];
	struct sim_cpu *c = idle(t->cpu / width * width, width, t->cpu);

	remove_event(&t->event);
	t->remaining = 0;
	if (!c)
		c = idle(0, sim_machine.cpus, t->cpu);
	if (c) {
		start(c, t, sim_machine.wakeup);
		return;
	}
	c = &sim_cpus[t->cpu];
	enqueue(c, t);
	tick_at(c, sim_machine.granularity);
}

/* ---- going over from one to another ---- */

static void enter(void)
{
	struct sim_thread *t = sim_self;

	t->body(t->number);
	t->state = SIM_DONE;
	alive--;
	dispatch(&sim_cpus[t->cpu]);
	sim_wait_until(UINT64_MAX, false);
}

static void leave(enum sim_end how)
{
	end = how;
	_longjmp(outside, 1);
}

/* The thread whose turn is next. */
static struct sim_thread *next_thread(void)
{
	for (;;) {
		struct sim_event *e;
		struct sim_thread *t;

		if (!events)
			leave(alive ? SIM_DEADLOCK : SIM_FINISHED);
		e = heap[1];
		remove_event(e);
		sim_now = e->at;
		if (sim_now > end_at)
			leave(SIM_TOO_LONG);
		if (e->is_cpu) {
			tick(cpu_of(e));
			continue;
		}
		t = thread_of(e);
		if (t->state == SIM_BLOCKED) {
			t->late = true;
			sim_futex_forget(t);
			sim_ready(t);
		} else if (sim_cpus[t->cpu].resched && sim_cpus[t->cpu].ready && !t->asks) {
			sim_unwatch(t);
			preempt(&sim_cpus[t->cpu], 0);
		} else {
			return t;
		}
	}
}

static void go_to(struct sim_thread *t)
{
	sim_self = t;
	pk_self = t->self;
	if (t->started)
		_longjmp(t->place, 1);
	t->started = true;
	setcontext(&t->start);
}

/* Until the thread's event, which is in the heap, if it has one. */
static void wait(void)
{
	struct sim_thread *me = sim_self, *t = next_thread();

	if (t == me)
		return;
	me->self = pk_self;
	if (!_setjmp(me->place))
		go_to(t);
}

void sim_wait_until(uint64_t at, bool soft)
{
	struct sim_thread *t = sim_self;

	t->debt = 0;
	if (t->state == SIM_RUNNING) {
		if (at <= end_at && (!events || at < heap[1]->at)) {
			sim_now = at;
			return;
		}
		t->soft = soft;
		add_event(&t->event, at);
	}
	wait();
	t->soft = false;
}

void sim_block(uint64_t deadline)
{
	struct sim_thread *t = sim_self;

	t->state = SIM_BLOCKED;
	t->late = false;
	dispatch(&sim_cpus[t->cpu]);
	if (deadline != UINT64_MAX)
		add_event(&t->event, deadline > sim_now ? deadline : sim_now);
	wait();
}

void sim_suspend(void)
{
	sim_self->debt = 0;
	wait();
}

void sim_resume(struct sim_thread *t, uint64_t at)
{
	add_event(&t->event, at);
}

void sim_yield(void)
{
	struct sim_cpu *c = &sim_cpus[sim_self->cpu];

	sim_wait_until(sim_time() + sim_machine.syscall, false);
	if (!c->ready)
		return;
	enqueue(c, sim_self);
	sim_self->remaining = 0;
	dispatch(c);
	wait();
}

void sim_hasten(struct sim_thread *t, uint64_t at)
{
	if (t->event.slot && t->event.at > at)
		add_event(&t->event, at);
}

void sim_work(uint64_t cycles)
{
	sim_wait_until(sim_time() + cycles, true);
}

uint64_t sim_time(void)
{
	return sim_now + (sim_self ? sim_self->debt : 0);
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t roll(uint64_t *dice)
{
	uint64_t z = *dice += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t sim_random(void)
{
	return roll(&sim_self->dice);
}

uint64_t sim_chance(void)
{
	return roll(&sim_self->chance);
}

/* ---- before and after ---- */

static char *reserve(char *at, uint64_t size)
{
	char *got = mmap(at, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got != at) {
		perror("parkade-sim: memory");
		exit(1);
	}
	return got;
}

void *sim_memory(uint64_t size)
{
	char *p = memory;

	memory += (size + 4095) & ~(uint64_t)4095;
	if (memory > MEMORY + memory_size)
		abort();
	return p;
}

void sim_engine_setup(uint64_t seed)
{
	memory = reserve(MEMORY, memory_size);
	reserve(STACKS, (uint64_t)STACK * THREADS_MAX);
	room = 1024;
	heap = malloc(room * sizeof(*heap));
	sim_cpus = calloc(sim_machine.cpus, sizeof(*sim_cpus));
	if (!heap || !sim_cpus)
		abort();
	for (unsigned i = 0; i < sim_machine.cpus; i++) {
		sim_cpus[i].last = &sim_cpus[i].first;
		sim_cpus[i].tick.is_cpu = true;
	}
	seed_of_all = seed;
}

struct sim_thread *sim_spawn(void (*body)(unsigned number), unsigned number, unsigned cpu)
{
	struct sim_thread *t = calloc(1, sizeof(*t));
	uint64_t dice = seed_of_all * 0x10001 + number;

	if (!t || threads == THREADS_MAX)
		abort();
	t->number = number;
	t->body = body;
	t->cpu = cpu;
	t->dice = roll(&dice);
	t->stack = STACKS + (uint64_t)STACK * threads++;
	getcontext(&t->start);
	t->start.uc_stack.ss_sp = t->stack;
	t->start.uc_stack.ss_size = STACK;
	t->start.uc_link = NULL;
	makecontext(&t->start, enter, 0);
	for (unsigned i = 0; i < SIM_WATCHES; i++)
		t->watch[i].thread = t;
	alive++;
	/* A little later than those before it: nothing is done by all at once. */
	t->remaining = roll(&dice) % 1000;
	t->chance = roll(&dice);
	if (sim_cpus[cpu].current) {
		enqueue(&sim_cpus[cpu], t);
		tick_at(&sim_cpus[cpu], sim_machine.quantum);
	} else {
		start(&sim_cpus[cpu], t, 0);
	}
	return t;
}

enum sim_end sim_run(uint64_t limit)
{
	struct pk_thread host = pk_self;

	end_at = limit;
	if (!_setjmp(outside))
		go_to(next_thread());
	sim_self = NULL;
	pk_self = host;
	return end;
}
