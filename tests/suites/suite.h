/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What all suites share: cases, teams of threads, clocks, complaints, glibc's own functions.
 *
 * A suite is a program of libcheck that uses plain pthread calls and knows nothing of the library: preloaded it
 * tests the library, without it glibc (the control).  Each case runs in a process of its own, so a hang or a crash
 * costs one case.  Threads never assert, they complain(): the first complaint is kept and the case's main thread
 * fails with it.
 *
 * Environment: SUITE_SCALE, percent of the usual amount of work (default 100); SUITE_WITHOUT, cases to leave out
 * (tests/without.h).
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <threads.h>
#include <time.h>

/* Runs one suite: main() makes it, adds its cases, and returns what suite_run says. */
Suite *suite_make(const char *name);
void suite_add(Suite *s, const char *name, const TTest *test, int seconds, int from, int to);
int suite_run(Suite *s);
#define SUITE_CASE(s, test, seconds) suite_add(s, #test, test, seconds, 0, 1)
#define SUITE_CASE_OF(s, test, seconds, n) suite_add(s, #test, test, seconds, 0, n) /* test sees _i = 0..n-1 */

/* True if the library is there; and if it does the locking itself (policy glibc does not). */
bool suite_preloaded(void);
bool suite_served(void);
/* A counter of the library's queue in this process; -1 where there is no queue. */
int64_t suite_counter(const char *name);
int64_t suite_entered(void); /* how often a thread has entered it */
/* True if the cell's topology and policy make waiters of several sockets meet in a queue that reorders them. */
bool suite_shuffles(void);
uint64_t suite_scale(uint64_t amount);
/* One whole line on stdout, at once: what is printed outlives any kind of exit. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The kinds that the library serves itself. */
struct kind {
	const char *name;
	int type;
};
enum { KINDS = 4 };
extern const struct kind kinds[KINDS];
void mutex_make(pthread_mutex_t *m, int type);

/* Complaints: from any thread, at any time; asserted by the main thread. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool complained(void);
void assert_no_complaint(void);
bool want_rc(int rc, int wanted, const char *what, int line);
#define WANT(call, rc) want_rc((call), (rc), #call, __LINE__)
#define MUST(call) WANT(call, 0)
/* errno before a call that must leave it. */
enum { ERRNO_MARK = 4242 };

/* Time. */
uint64_t now_ns(void); /* CLOCK_MONOTONIC */
struct timespec deadline(clockid_t clock, int64_t ns_from_now);
void sleep_us(unsigned us);
void spin_ns(uint64_t ns);		     /* burns, does not sleep */
static inline uint32_t dice(uint32_t *state) /* xorshift; the state must not be 0 */
{
	uint32_t x = *state;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

/* A team: size threads with small stacks, released together, each running body(index, arg). */
struct team;
typedef void team_body(int index, void *arg);
struct team *team_start(int size, team_body *body, void *arg);
pthread_t team_thread(struct team *t, int index);
void team_join(struct team *t); /* and frees it */
void team_run(int size, team_body *body, void *arg);

/* One thread, with a small stack; and what it returns. */
pthread_t thread_start(void *(*run)(void *), void *arg);
void *thread_join(pthread_t thread);

/* Long enough for a thread that was just started, or signalled, to sleep. */
void let_sleep(void);

/* As signal() has it: what the kernel can take up again after the handler goes on. */
void handle_signal(int sig, void (*handler)(int));

/* A servant: one lasting thread that does single errands for the caller. */
struct servant;
struct servant *servant_hire(void);
void servant_do(struct servant *s, void (*errand)(void *), void *arg);	  /* and waits for the end */
void servant_begin(struct servant *s, void (*errand)(void *), void *arg); /* does not wait ... */
void servant_end(struct servant *s);					  /* ... this does */
void servant_dismiss(struct servant *s);

/* Whether that thread, of whatever process, sleeps. */
bool is_asleep(pid_t tid);

/* This process's memory in KiB: what it has touched of its own, and all it has mapped. */
struct memory {
	long touched, mapped;
};
struct memory memory_now(void);

/* Waits for a child; complains unless it ends with exit status 0. */
void child_reap(pid_t child, const char *who);
/* Ends a child: status 0, or 1 and its complaint printed.  A child sets an alarm() first: hanging is failing. */
void child_exit(void) __attribute__((noreturn));

/* glibc's own function of that name, and version if it is not null, whatever is preloaded; the end if there is none. */
void *glibc_symbol(const char *name, const char *version);

/* The mutex functions: as this program is bound, and glibc's own. */
struct mutex_api {
	const char *name;
	int (*init)(pthread_mutex_t *, const pthread_mutexattr_t *);
	int (*destroy)(pthread_mutex_t *);
	int (*lock)(pthread_mutex_t *);
	int (*trylock)(pthread_mutex_t *);
	int (*timedlock)(pthread_mutex_t *, const struct timespec *);
	int (*clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
	int (*unlock)(pthread_mutex_t *);
	int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *);
	int (*cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int (*cond_signal)(pthread_cond_t *);
	int (*cond_broadcast)(pthread_cond_t *);
	int (*mtx_lock)(mtx_t *);
	int (*mtx_trylock)(mtx_t *);
	int (*mtx_unlock)(mtx_t *);
};
const struct mutex_api *api_bound(void);
const struct mutex_api *api_glibc(void);

#endif
