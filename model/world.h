/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The state of an execution, and the parts of the checker that change it.
 *
 *	places.c	which memory threads share
 *	memory.c	what a load may return, and what is ordered before what
 *	kernel.c	system calls: sleepers on futexes
 *	explore.c	all executions, or
 *	dice.c		some at random
 *
 * A *shared atomic* place has a history: the stores that some thread may still read, in
 * modification order. A *view* says for each such place which one is the oldest that may be
 * read, and for each thread how far (its clock) it is known to have come: what happened
 * before. */
#ifndef MC_WORLD_H
#define MC_WORLD_H

#include "harness/access.h"
#include "model/model.h"

enum {
	MC_SHARED = 256,   /* shared atomic places, */
	MC_HISTORY = 16,   /* stores of each, */
	MC_MESSAGES = 256, /* views that stores carry, */
	MC_CHECKED = 512,  /* and places that are looked at for races, at most */
	MC_FREED = 4,
	MC_LOCAL = 224,
};

struct mc_view {
	uint8_t at[MC_SHARED];
	uint16_t clock[MC_THREADS];
};

struct mc_store {
	uint64_t value;
	uint16_t message; /* 1 + the index of the view that comes with it, or 0 */
	bool rmw;	  /* has read the one before: nothing comes between */
};

struct mc_history {
	unsigned n;
	struct mc_store store[MC_HISTORY];
};

/* When each thread last made such an access to a place, by its clock. */
struct mc_epochs {
	uint16_t read[MC_THREADS], write[MC_THREADS], load[MC_THREADS], store[MC_THREADS];
};

enum mc_what {
	MC_ACCESS, /* is about to make an access to a shared atomic place, or a fence, */
	MC_CALL,   /* or a system call that concerns a futex */
	MC_CHOICE, /* or to be told a number below call[0] */
	MC_ASLEEP, /* on a futex */
	MC_AWAKE,  /* goes on as soon as others have */
	MC_DONE,   /* has ended */
};

struct mc_state {
	enum mc_what what;
	struct hn_access access;
	long call[7];
	uint64_t result; /* for the thread, when it goes on */
	const void *futex;
	uint32_t bits;
	bool soon, timed; /* its sleep has an end: at any time; at some time; */
	bool dozes;	  /* as long as there are `looks' */
	bool arrived;	  /* it has made its first read-modify-write */
	uint8_t spurious, looks;
	void *sp;
	uint64_t stack_hash;
	/* What it knows; what it would know after an acquire fence; what it knew at its last
	 * release fence. The last two are kept up only if there are fences at all. */
	struct mc_view now, acquired, released;
	uint8_t local[MC_LOCAL];
};

struct mc_freed {
	uintptr_t from, to;
};

extern struct mc_world {
	struct mc_view sc; /* of the sequentially consistent accesses and fences */
	struct mc_freed freed[MC_FREED];
	unsigned freed_n, messages; /* messages: those from here on are not in use */
	uint8_t message_used[MC_MESSAGES];
	/* Copied as far as they are in use. */
	struct mc_state thread[MC_THREADS];
	struct mc_history history[MC_SHARED];
	struct mc_epochs epochs[MC_CHECKED];
	struct mc_view message[MC_MESSAGES];
} mc_world;

extern const struct mc_client *mc_client;
extern const struct mc_options *mc_options;
extern int mc_current; /* the thread that runs, or -1 */

/* ---- places.c: a place is what has an address and a size ---- */

struct mc_place {
	uintptr_t addr;
	uint8_t size;
	uint8_t by;	      /* a bit for each thread that has ever come here, in any execution */
	bool written, atomic; /* ever */
	bool plain;	      /* there were others than atomic ones */
	int shared;	      /* its history's index, or -1 */
	int checked;	      /* its epochs' */
	mc_changes *changes;  /* or null */
};

/* The place of an access of the running thread; null: nobody else can see it. */
struct mc_place *mc_place_of(const volatile void *p, size_t size, bool atomic, bool writes);
/* The one that has this address, or null. */
struct mc_place *mc_place_at(const volatile void *p);
/* Something was seen that the present exploration did not reckon with: it has to start again. */
extern bool mc_surprised;
/* There are fences in this program. */
extern bool mc_fences;
/* The running thread has written all of that memory, that which nobody has used so far included. */
void mc_places_fill(uintptr_t from, uintptr_t to);
/* Before each exploration: what is known now rules. */
void mc_places_begin(void);
extern unsigned mc_shared, mc_checked;
struct mc_place *mc_shared_place(unsigned n);
/* Each place within; the argument goes to the function. */
void mc_places_in(uintptr_t from, uintptr_t to, void (*visit)(struct mc_place *place));

/* All memory that threads have ever written, word by word. */
extern unsigned mc_words;
void mc_words_save(uint64_t *to);
void mc_words_restore(const uint64_t *from, unsigned n);
uint64_t mc_words_hash(void);
/* It is about to be written. */
void mc_word_note(uintptr_t addr, size_t size);

const char *mc_name_of(const volatile void *p, char text[64]);

/* ---- memory.c ---- */

void mc_memory_begin(void);
/* How many ways there are for the thread's access to go, and make it in the nth. */
unsigned mc_memory_ways(unsigned thread);
uint64_t mc_memory_go(unsigned thread, unsigned way);
/* The same for the load that the kernel makes of a futex word; it counts as a fence. */
unsigned mc_memory_futex_ways(unsigned thread, const void *word);
uint32_t mc_memory_futex_load(unsigned thread, const void *word, unsigned way);
void mc_memory_fence(unsigned thread);
/* The running thread makes an access that is not atomic, or that concerns only itself. */
void mc_memory_check(struct mc_place *place, bool atomic, bool reads, bool writes);
/* Plain stores have been made by now. */
void mc_memory_settle(void);
/* Forget what nobody can see any more. */
void mc_memory_trim(void);
uint64_t mc_memory_hash(void);

/* ---- kernel.c ---- */

unsigned mc_kernel_ways(unsigned thread);
/* Make the call, or end the sleep. True: the thread goes on. */
bool mc_kernel_go(unsigned thread, unsigned way);

/* The thread sleeps, and nothing that the options allow ends that. */
bool mc_kernel_for_good(unsigned thread);

/* ---- explore.c ---- */

/* Follow the execution: one line, of that thread. */
extern bool mc_telling;
void mc_tell(unsigned thread, const void *from, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The running thread has filled that memory with the zeroes that lie there. */
void mc_filled(const void *p, size_t size);
/* It is about to use that memory. */
void mc_check_freed(unsigned thread, const volatile void *p, const void *from);
/* The thread stops before what it says in its state, and goes on with the result. */
uint64_t mc_stop(void);
uint64_t mc_mix(uint64_t hash, uint64_t value);
/* The pages of the stacks. */
bool mc_on_stack(uintptr_t addr);
/* How many ways there are for the thread to go on. */
unsigned mc_ways(unsigned thread);

/* ---- dice.c ---- */

/* Before each execution at random: the same seed and length, which is what others have had, give the same execution. */
void mc_dice_begin(uint64_t seed, unsigned length);
/* Who goes next, and which way. False: nobody can. */
bool mc_dice_cast(unsigned *thread, unsigned *way);

#endif
