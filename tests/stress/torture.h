/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What the parts of torture share: the plan of a round, the objects with their shadows, the threads' diaries.
 *
 * A *round* is a random program: a plan made from (seed, round) says which objects there are and what its threads like
 * to do, and each thread then acts by dice of its own. Programs are legal ones: who holds locks blocks only at one of a
 * higher number (and tries others), and waits for a condition only with nothing else held. So whatever fails is the
 * library's fault.
 *
 * Every object has a *shadow* that knows who is inside. Private objects lie in private memory, since children of
 * fork have copies of them; process-shared ones, the threads' diaries and the plan lie in `common`, which all processes
 * share.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <threads.h>

enum {
	THREADS_MAX = 64, /* of a plan */
	EXTRA = 2 * THREADS_MAX + 4, /* the first one's slot */
	SLOTS = EXTRA + 48,
	LOCKS_MAX = 16,
	BOXES_MAX = 3,
	CELLS_MAX = 3,
	OBJECTS = LOCKS_MAX + BOXES_MAX,
	EVENTS = 8,
	CELL_SIZE = 4096,
};

/* ---- dice ---- */

struct dice {
	uint64_t state;
};

static inline uint32_t roll(struct dice *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15u; /* splitmix64, Steele and others, OOPSLA 2014 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 16);
}

static inline uint32_t roll_below(struct dice *d, uint32_t n)
{
	return roll(d) % n;
}

static inline bool one_in(struct dice *d, uint32_t n)
{
	return n && roll(d) % n == 0;
}

/* ---- objects ---- */

enum family { MUTEX, RWLOCK, SPIN, C11 };

struct kind {
	const char *name;
	enum family family;
	int type; /* PTHREAD_MUTEX_*, PTHREAD_RWLOCK_*, mtx_*; PTHREAD_PROCESS_* of a spin lock */
	bool shared, robust, inherits;
	bool by_hand; /* by the static initialiser, no init or destroy */
};
extern const struct kind kinds[];
extern const int kinds_number;

/* All in one page or less: a child of fork sees object and shadow as of the same moment. */
struct lock {
	union {
		pthread_mutex_t mutex;
		pthread_rwlock_t rwlock;
		pthread_spinlock_t spin;
		mtx_t mtx;
		uint64_t raw[8];
	};
	const struct kind *kind;
	int number;
	atomic_int owner; /* slot + 1 of who is inside alone */
	atomic_int readers;
	int depth;
	volatile uint64_t left, right; /* plain counters, equal whenever nobody is inside */
	bool orphaned;		       /* its owner died (robust) */
} __attribute__((aligned(128)));

/* A condition variable, its mutex, and tokens that are neither lost nor made. */
struct box {
	struct lock guard;
	union {
		pthread_cond_t cond;
		cnd_t cnd;
		uint64_t raw[8];
	} signal;
	bool monotonic;
	bool closing;
	int waiting;
	uint64_t tokens, made, spent;
	/* Signals that somebody must return for, of the `before' who had come until arrival `upto'. */
	uint64_t arrivals, upto;
	int owed, before;
};

/* Memory that is used again as another object as soon as its last user has unlocked. */
struct cell {
	_Atomic uint64_t tickets; /* generation << 16, and how many may still come; 0: being remade */
	char *page;		  /* of the object and `left` */
};
struct cell_object {
	struct lock lock;
	int left, inside; /* users who have yet to come, and those who have not left */
	bool has_signal, released;
	union {
		pthread_cond_t cond;
		cnd_t cnd;
	} signal;
};

/* ---- the plan ---- */

enum act {
	CHAIN,	    /* locks in order */
	RECURSION,  /* the same one again */
	TRY,	    /* out of order */
	MAKE,	    /* a token */
	SPEND,	    /* one, waiting for it */
	SPEND_SOON, /* with a deadline */
	SHOUT,	    /* broadcast */
	CELL,
	FORK,
	OFFSPRING,
	POST, /* take what signal handlers have posted */
	PAUSE,
	ERRORS, /* what must be refused */
	SCENE,	/* see scenes.c */
	ACTS,
	/* only in diaries */
	LOCK = ACTS,
	READ,
	UNLOCK,
	WAIT,
	WAKE,
	DIE,
	CANCELLED,
	HANDLER,
	CLOSE,
	NOTES
};

/* What scenes there are. */
enum scene_kind { QUEUE, TOKENS, LEAVERS, LAST, READERS, VANISH, NO_SCENE };

struct plan {
	uint64_t seed;
	uint32_t round;
	int threads, processes;
	int locks, boxes, cells;
	uint8_t kind[OBJECTS]; /* of locks, and of the boxes' guards */
	bool monotonic[BOXES_MAX];
	uint16_t weight[ACTS];
	int length_ms;
	int hush_ms;	 /* so often everybody pauses */
	uint32_t asleep; /* one in so many critical sections has a sleep in it, and so on */
	uint32_t yields;
	int rounds;	/* of a loop inside */
	uint32_t reads; /* of 100 */
	/* gremlins: one in so many milliseconds */
	uint32_t signals, forks, cancels, moves, unplugs, niceness;
	bool crowds; /* many wait in boxes */
	bool one_cpu;
	bool mixed; /* glibc's own functions on the same mutexes, too */
	uint32_t scenes; /* bits: which */
	bool scene_signals, scene_forks, may_cancel, may_mix, may_early;
};

/* ---- threads ---- */

enum phase { ABSENT, RUNNING, HUSHED, IN_BOX, DONE };

struct event {
	uint8_t what;
	int8_t object;
	int16_t result;
	uint32_t at_us;
};

/* Whether a thread ends in its next handler. */
enum leaves { STAYS, ASKED, GOING };

struct thread {
	int slot;
	atomic_int phase;
	atomic_bool cancellable;
	atomic_int cancelling; /* who is about to cancel it */
	_Atomic uint64_t steps;
	pid_t pid;
	atomic_int tid;
	pthread_t thread;
	struct dice dice;
	int box;	  /* IN_BOX: which */
	uint64_t arrival; /* as which of its waiters */
	bool second;	  /* of the second process: shared objects only */
	int uses;	  /* an offspring: how many acts it has */
	bool dies;	  /* ... and whether it leaves a robust mutex behind */
	uint32_t held;	  /* locks, by number */
	struct scene *scene; /* an extra's */
	char *stage;	     /* and of its director: where its objects are */
	bool mixed;	     /* uses glibc's functions, too */
	uint32_t stumble;    /* in the next call, at that instruction, */
	atomic_bool *held_up; /* and at so many instructions, but no longer than until then; or null */
	uint32_t linger;
	uint64_t until;
	atomic_bool *next;   /* ... or just when another one has got what it releases; or null */
	bool naps;	     /* it gives that one some time */
	atomic_int leaves;   /* enum leaves, of an extra */
	bool seen_off;	     /* its director has joined it */
	uint64_t taken[OBJECTS];
	uint32_t events;
	struct event event[EVENTS];
};

struct common {
	struct plan plan;
	atomic_int failed; /* 1: somebody is writing why */
	atomic_bool stop, hush;
	_Atomic uint64_t beats; /* of children */
	_Atomic uint64_t acts, rounds, children, signals, cancels, died, reused, hushes;
	atomic_int second; /* PID of the second process, or 0 */
	atomic_int worker;
	atomic_bool stoppable;
	atomic_int ready;
	_Atomic uint64_t posted, fetched;
	sem_t posts;
	uint64_t round_began;
	struct thread thread[SLOTS];
	struct lock lock[LOCKS_MAX];
	struct box box[BOXES_MAX];
};
extern struct common *common;
extern struct lock *private_locks;
extern struct box *private_boxes;
extern struct cell cells[CELLS_MAX];
extern bool in_child;
extern bool lax_clock; /* the clock is being set: no deadline is checked against it */
extern _Thread_local struct thread *me;

struct lock *lock_at(int number); /* of boxes, too */
struct box *box_at(int number);

/* objects.c */
void lock_make(struct lock *l, const struct kind *kind, int number);
void lock_destroy(struct lock *l);
/* 0, EBUSY or ETIMEDOUT; the shadow is told. timeout_us: 0 blocks, negative tries. */
int lock_take(struct lock *l, bool reading, long timeout_us);
void lock_drop(struct lock *l, bool reading);
bool lock_idle(struct lock *l);	    /* take it and drop it, when nobody uses it; false if that fails */
void lock_bits(struct lock *l);	    /* at the very end a mutex has glibc's bits of an idle one */
void lock_refusals(struct lock *l); /* what an ERRORCHECK mutex, or one that is held, has to refuse */
void mutexes_setup(void);
void shadow_enter(struct lock *l);
void shadow_leave(struct lock *l);
void box_make(struct box *b, const struct kind *kind, bool monotonic, int number);
void box_destroy(struct box *b);
int box_wait(struct box *b, long timeout_us);
void box_signal(struct box *b, bool all);
void box_owe(struct box *b, bool all);
void box_depart(struct box *b, uint64_t arrival, bool woken);
void lock_print(const struct lock *l);
void box_print(const struct box *b);

/* acts.c */
extern const char *const act_names[NOTES];
void *thread_main(void *thread);
void *closer_main(void *thread);
void acts_setup(void);
void cell_make(struct cell *c, struct dice *d);
void hold(struct dice *d);

void cancel(struct thread *t);
void thread_start(struct thread *t);
int box_wait_inside(struct box *b, int number, long timeout_us);

/* scenes.c */
void scene_act(void);
bool scene_goes_on_in_child(void);
void scene_in_child(void);
void scene_child_ends(void) __attribute__((noreturn));
void scene_signals(int how);
void scene_signals_keep(sigset_t *old);
void scene_signals_restore(const sigset_t *old);
void scenes_setup(void);
void stumble_begin(void);
void stumble_end(void);

/* torture.c */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void note(int what, int object, int result);
uint64_t now_us(void);
void nap_us(unsigned us);

#endif
