/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A model checker for the library's unmodified sources: what a client of it says.
 *
 * A client is a small program of a few threads. Every execution of it is explored: each
 * interleaving of the accesses that matter, and each value that a load may return by C11's
 * memory model (RC11: no values out of thin air). What fails is a data race, an access to
 * freed memory, threads that all sleep, and whatever the client itself calls a failure.
 *
 * The sources, and the client, are compiled with -fsanitize=thread, so that their accesses
 * arrive here (harness/access.h); so everything that threads share lies in static memory or
 * comes from mmap. setup() and final() run alone: before the threads, and after the last one
 * has ended. (What final() writes otherwise than by atomic accesses the next execution finds.) */
#ifndef MC_MODEL_H
#define MC_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MC_THREADS = 8 };

struct mc_client {
	unsigned threads;
	void (*setup)(void);
	void (*body)(unsigned thread);
	void (*final)(void);
	/* Which thread, plus 1, this one is like: its first read-modify-write comes after that
	 * one's. 0: none. */
	uint8_t after[MC_THREADS];
	/* In an execution at random: all that are not asleep stand still, and nobody else can go on. It may be that those who
	 * sleep should not depend on those: then it fails. Or null. */
	void (*apart)(void);
};

struct mc_options {
	unsigned long states; /* give up after so many */
	unsigned spurious;    /* how often each thread's sleep may end for no reason */
	unsigned looks; /* how often each thread's sleep for a time (rt/doze.h) may end with that, at any moment */
	bool timers;	/* sleeps with an end do end, once everybody sleeps */
	bool sc;	/* sequential consistency instead: every load returns the newest value */
	bool append;	/* no store goes before one that has been made already */
	bool asleep;	/* before anything else all but thread 0 run, each until it sleeps */
	bool survey;	/* a few executions at random, which show what is accessed: nothing is explored */
	/* Not 0: so many executions at random, of the seeds from that one on. Nothing is explored, and so there may be
	 * more threads, and more that they do. */
	unsigned long random, seed;
};

struct mc_result {
	const char *failure; /* or null: nothing failed, and everything was explored */
	unsigned long states, steps, ends;
	unsigned depth, shared; /* the longest execution; places that threads share */
};

/* What fails is told on standard output, step by step. It is the same each time. */
void mc_explore(const struct mc_client *client, const struct mc_options *options, struct mc_result *result);

/* In setup(): memory of which each thread has a copy; memory that says nothing about the
 * state; a name for messages. */
void mc_thread_local(void *p, size_t size);
void mc_ignore(const void *p, size_t size);
void mc_name(const volatile void *p, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* In setup(): told of each change of the word there by a thread, as it goes by modification order. It calls mc_arc(). */
typedef void mc_changes(uint64_t from, uint64_t to);
void mc_watch(const volatile void *p, mc_changes *changes);

/* In a thread. The memory is free: whoever uses it from now on, or has not been seen to have
 * done with it, fails. */
void mc_free(const void *p, size_t size);
/* A deadline with these seconds may pass at any time; others pass when nothing else can happen,
 * if the options say so, or never. */
enum { MC_SOON = 7777 };
/* This is one of several ways to go on: a number below n. */
unsigned mc_choose(unsigned n);

/* In apart(): the thread sleeps on that word, and no time ends it. Null: it does not. */
const void *mc_sleeps_on(unsigned thread);

/* Anywhere. */
void mc_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* That point was reached, in some execution: for who wants to know which ones are. */
void mc_reached(const char *what);
/* That change of state was made, in some execution. The strings stay. */
void mc_arc(const char *of, const char *from, const char *to);
/* The number of the thread; -1 in setup() and final(). */
int mc_thread(void);

/* Accesses made at `from` get this order: a mutant. */
void mc_weaken(uintptr_t from, int order);
/* Print each ordered access that was made: where, what, its order. */
void mc_print_sites(void);
void mc_print_reached(void);
void mc_print_arcs(void);
/* Print each basic block that was executed, if the sources were compiled for it. */
void mc_print_blocks(void);

#endif
