/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite hostile: programs that POSIX forbids and glibc forgives.
 *
 * A sleeper in glibc's mutex is in nobody's way: a signal handler may lock what it likes meanwhile, and the thread
 * may vanish. A queue has places, and these cases catch one that is kept by somebody who does not move.
 */

#include "suite.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *wanted_by_handler;
static atomic_int in_handler;

static void locking_handler(int sig)
{
	(void)sig;
	atomic_store(&in_handler, 1);
	MUST(pthread_mutex_lock(wanted_by_handler));
	MUST(pthread_mutex_unlock(wanted_by_handler));
}

static void leaving_handler(int sig)
{
	(void)sig;
	pthread_exit(NULL);
}

static void waiting_and_leaving_handler(int sig)
{
	locking_handler(sig);
	pthread_exit(NULL);
}

static void *lock_m(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	MUST(pthread_mutex_lock(&m));
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

static void *lock_other_then_m(void *arg)
{
	MUST(pthread_mutex_lock(&other));
	lock_m(NULL);
	MUST(pthread_mutex_unlock(&other));
	return arg;
}

/* Lets the other mutex go while it still holds m. */
static void *lock_other_and_m(void *arg)
{
	MUST(pthread_mutex_lock(&other));
	MUST(pthread_mutex_lock(&m));
	MUST(pthread_mutex_unlock(&other));
	let_sleep();
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

static pthread_t start_asleep(void *(*run)(void *))
{
	pthread_t thread = thread_start(run, NULL);

	let_sleep();
	return thread;
}

/* m is held here; a waiter before the victim, if wanted, so that the victim is not the head of the queue. */
static pthread_t before;
static bool has_before;

static atomic_bool keep_it;

static void *keep_m(void *arg)
{
	MUST(pthread_mutex_lock(&m));
	while (atomic_load(&keep_it))
		sleep_us(1000);
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

static void hold(bool with_one_before)
{
	ck_assert_int_eq(pthread_mutex_lock(&m), 0);
	has_before = with_one_before;
	if (has_before)
		before = start_asleep(keep_m);
}

static void release(void)
{
	ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
	if (has_before)
		pthread_join(before, NULL);
}

static void interrupt(pthread_t victim)
{
	ck_assert_int_eq(pthread_kill(victim, SIGUSR1), 0);
	while (!atomic_load(&in_handler))
		sleep_us(1000);
	let_sleep();
}

/* The handler interrupts a thread that waits for m, with another one behind it. */
static void interrupt_before(void *(*run_behind)(void *), bool with_one_before)
{
	pthread_t victim, behind;

	hold(with_one_before);
	victim = start_asleep(lock_m);
	behind = start_asleep(run_behind);
	interrupt(victim);
	release();
	pthread_join(victim, NULL);
	pthread_join(behind, NULL);
	assert_no_complaint();
}

/* The handler locks the very mutex that its thread waits for. */
START_TEST(handler_same_mutex)
{
	handle_signal(SIGUSR1, locking_handler);
	wanted_by_handler = &m;
	interrupt_before(lock_m, _i);
}
END_TEST

/* The handler locks what is held by a thread that waits behind the one that it interrupts. The latter is the head
 * (0), sleeps behind the head (1), has become the head in its sleep (2), or sleeps behind the head, and there is one
 * more between the two (3): where threads are spread over two nodes it is the first of its own. The same with a handler
 * that ends its thread then (4 and more). */
START_TEST(handler_other_mutex)
{
	int place = _i & 3;
	pthread_t victim, between, behind, last;

	handle_signal(SIGUSR1, _i & 4 ? waiting_and_leaving_handler : locking_handler);
	wanted_by_handler = &other;
	hold(place);
	victim = start_asleep(lock_m);
	if (place == 3)
		between = start_asleep(lock_m);
	behind = start_asleep(lock_other_and_m);
	last = start_asleep(lock_m);
	if (place == 2) {
		atomic_store(&keep_it, true);
		ck_assert_int_eq(pthread_mutex_unlock(&m), 0);
		let_sleep();
	}
	interrupt(victim);
	if (place == 2) {
		atomic_store(&keep_it, false);
		pthread_join(before, NULL);
	} else {
		release();
	}
	pthread_join(victim, NULL);
	if (place == 3)
		pthread_join(between, NULL);
	pthread_join(behind, NULL);
	pthread_join(last, NULL);
	hold(true); /* the queue still works */
	behind = start_asleep(lock_m);
	release();
	pthread_join(behind, NULL);
	assert_no_complaint();
}
END_TEST

/* What a handler may wait for beside a mutex. */
enum { SPIN, SHARED_READ, SHARED_WRITE, COND, SHARED_COND, OTHERS };
static int which;
static pthread_spinlock_t spin;
static pthread_rwlock_t shared;
static pthread_mutex_t cond_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t conds[2]; /* private, process-shared */
static bool ready;

static void waiting_handler(int sig)
{
	(void)sig;
	atomic_store(&in_handler, 1);
	switch (which) {
	case SPIN:
		MUST(pthread_spin_lock(&spin));
		MUST(pthread_spin_unlock(&spin));
		break;
	case SHARED_READ:
	case SHARED_WRITE:
		MUST(which == SHARED_READ ? pthread_rwlock_rdlock(&shared) : pthread_rwlock_wrlock(&shared));
		MUST(pthread_rwlock_unlock(&shared));
		break;
	default:
		MUST(pthread_mutex_lock(&cond_mutex));
		while (!ready)
			MUST(pthread_cond_wait(&conds[which == SHARED_COND], &cond_mutex));
		MUST(pthread_mutex_unlock(&cond_mutex));
	}
}

static void *have_it_and_lock_m(void *arg)
{
	if (which == SPIN)
		MUST(pthread_spin_lock(&spin));
	else if (which < COND)
		MUST(pthread_rwlock_wrlock(&shared));
	MUST(pthread_mutex_lock(&m));
	if (which == SPIN) {
		MUST(pthread_spin_unlock(&spin));
	} else if (which < COND) {
		MUST(pthread_rwlock_unlock(&shared));
	} else {
		MUST(pthread_mutex_lock(&cond_mutex));
		ready = true;
		MUST(pthread_cond_signal(&conds[which == SHARED_COND]));
		MUST(pthread_mutex_unlock(&cond_mutex));
	}
	let_sleep();
	MUST(pthread_mutex_unlock(&m));
	return arg;
}

/* As handler_other_mutex, by a handler that waits for something else, of the head (_i even), or behind it. */
START_TEST(handler_waits)
{
	pthread_rwlockattr_t rwlockattr;
	pthread_condattr_t condattr;

	which = _i / 2;
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	pthread_rwlockattr_init(&rwlockattr);
	pthread_rwlockattr_setpshared(&rwlockattr, PTHREAD_PROCESS_SHARED);
	pthread_rwlock_init(&shared, &rwlockattr);
	pthread_cond_init(&conds[0], NULL);
	pthread_condattr_init(&condattr);
	pthread_condattr_setpshared(&condattr, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&conds[1], &condattr);
	handle_signal(SIGUSR1, waiting_handler);
	interrupt_before(have_it_and_lock_m, _i & 1);
}
END_TEST

static atomic_bool in_child;

static void forking_handler(int sig)
{
	pid_t child = fork();

	(void)sig;
	if (child == 0) {
		alarm(10);
		atomic_store(&in_child, true);
		MUST(pthread_mutex_unlock(&m)); /* its holder does not exist here */
	} else {
		child_reap(child, "the handler's child");
	}
	atomic_store(&in_handler, 1);
}

static void *lock_m_twice(void *arg)
{
	lock_m(NULL);
	if (atomic_load(&in_child)) {
		lock_m(NULL);
		child_exit();
	}
	return arg;
}

/* The handler forks: in the child the thread that it interrupts is alone, and its wait goes on. It is the head, or
 * behind it. */
START_TEST(handler_forks)
{
	pthread_t victim, behind;

	handle_signal(SIGUSR1, forking_handler);
	hold(_i);
	victim = start_asleep(lock_m_twice);
	behind = start_asleep(lock_m);
	interrupt(victim);
	release();
	pthread_join(victim, NULL);
	pthread_join(behind, NULL);
	assert_no_complaint();
}
END_TEST

/* The waiter is cancelled (asynchronously) or leaves by pthread_exit from a handler: the others do not care, and the
 * mutex is not held by the dead. */
START_TEST(waiter_gone)
{
	bool cancelled = _i & 1;
	pthread_t victim, behind;

	handle_signal(SIGUSR1, leaving_handler);
	hold(_i & 2);
	victim = start_asleep(lock_m);
	behind = start_asleep(lock_m);
	ck_assert_int_eq(cancelled ? pthread_cancel(victim) : pthread_kill(victim, SIGUSR1), 0);
	pthread_join(victim, NULL);
	release();
	pthread_join(behind, NULL);
	lock_m(NULL);
	assert_no_complaint();
}
END_TEST

/* ---- a waiter leaves, and the mutex's memory goes before its thread does ---- */

static enum leave { JUMPS, EXITS, IS_CANCELLED, LEAVES } leaves;
static sigjmp_buf outside;
static pthread_mutex_t *doomed;
static atomic_int gone, freed;

static void handler_that_leaves(int sig)
{
	(void)sig;
	if (leaves == JUMPS)
		siglongjmp(outside, 1);
	if (leaves == EXITS)
		pthread_exit(NULL);
	pthread_testcancel();
}

static void say_gone(void *unused)
{
	(void)unused;
	atomic_store(&gone, 1);
	while (!atomic_load(&freed))
		sleep_us(1000);
}

/* In the end it waits for something else, where a handler would give up the place that its thread has. */
static void *leaves_doomed(void *arg)
{
	pthread_cond_t nothing = PTHREAD_COND_INITIALIZER;
	const struct timespec past = {0, 0};

	pthread_cleanup_push(say_gone, NULL);
	if (!sigsetjmp(outside, 1)) {
		pthread_mutex_lock(doomed);
		complain("got it");
	}
	pthread_cleanup_pop(1);
	MUST(pthread_mutex_lock(&other));
	WANT(pthread_cond_timedwait(&nothing, &other, &past), ETIMEDOUT);
	MUST(pthread_mutex_unlock(&other));
	return arg;
}

static void *lock_doomed(void *arg)
{
	MUST(pthread_mutex_lock(doomed));
	MUST(pthread_mutex_unlock(doomed));
	return arg;
}

/* It is the head (_i even), or behind the head. */
START_TEST(waiter_leaves_what_goes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const bool behind = _i % 2;
	pthread_t head, victim;

	leaves = (enum leave)(_i / 2);
	doomed = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(doomed, MAP_FAILED);
	mutex_make(doomed, PTHREAD_MUTEX_NORMAL);
	handle_signal(SIGUSR1, handler_that_leaves);
	MUST(pthread_mutex_lock(doomed));
	if (behind)
		head = start_asleep(lock_doomed);
	victim = start_asleep(leaves_doomed);
	if (leaves == IS_CANCELLED)
		MUST(pthread_cancel(victim));
	MUST(pthread_kill(victim, SIGUSR1));
	while (!atomic_load(&gone))
		sleep_us(1000);
	MUST(pthread_mutex_unlock(doomed));
	if (behind)
		thread_join(head);
	MUST(pthread_mutex_destroy(doomed));
	MUST(munmap(doomed, page));
	atomic_store(&freed, 1);
	thread_join(victim);
	assert_no_complaint();
}
END_TEST

#ifdef __x86_64__
enum { LEAVERS = 12, DOORS = 3, JUMPS_MS = 1500 };

static pthread_mutex_t door[DOORS];
static int within[DOORS];
static __thread sigjmp_buf back;
static __thread volatile bool waits;
static atomic_int jumped;
static atomic_bool done;

/* Out of a sleep only, at the system call, as nobody can have the mutex there. */
static void jump_from_sleep(int sig, siginfo_t *info, void *context)
{
	const greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *at = (const unsigned char *)reg[REG_RIP];

	(void)sig;
	(void)info;
	if (!waits || !((at[0] == 0x0f && at[1] == 0x05 && reg[REG_RAX] == SYS_futex) ||
			(at[-2] == 0x0f && at[-1] == 0x05 && reg[REG_RAX] == -EINTR)))
		return;
	waits = false;
	atomic_fetch_add(&jumped, 1);
	siglongjmp(back, 1);
}

/* False: it has jumped out. */
static bool gets_in(pthread_mutex_t *mutex)
{
	if (sigsetjmp(back, 1))
		return false;
	waits = true;
	MUST(pthread_mutex_lock(mutex));
	waits = false;
	return true;
}

static void come_and_leave(int index, void *arg)
{
	uint32_t d = (uint32_t)index + 1;

	(void)arg;
	while (!atomic_load(&done)) {
		int n = (int)(dice(&d) % DOORS);

		if (!gets_in(&door[n]))
			continue;
		if (within[n]++)
			complain("two within");
		spin_ns(dice(&d) % 2000);
		if (dice(&d) % 64 == 0)
			sleep_us(200);
		within[n]--;
		MUST(pthread_mutex_unlock(&door[n]));
		if (dice(&d) % 16 == 0)
			sleep_us(dice(&d) % 300);
	}
}

/* Many jump out of their sleeps at random, and come back: whoever waits gets in, and all of them end. */
START_TEST(many_leave)
{
	struct sigaction action = {.sa_sigaction = jump_from_sleep, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct team *team;
	uint32_t d = 1;

	sigaction(SIGUSR1, &action, NULL);
	for (int n = 0; n < DOORS; n++)
		mutex_make(&door[n], PTHREAD_MUTEX_NORMAL);
	team = team_start(LEAVERS, come_and_leave, NULL);
	for (const uint64_t end = now_ns() + JUMPS_MS * UINT64_C(1000000); now_ns() < end || atomic_load(&jumped) < LEAVERS; sleep_us(100))
		MUST(pthread_kill(team_thread(team, (int)(dice(&d) % LEAVERS)), SIGUSR1));
	atomic_store(&done, true);
	team_join(team);
	assert_no_complaint();
}
END_TEST
#endif

/* A mutex is copied while it is held and queued upon. The copy is held, too, and works; so does the original. */
START_TEST(copied)
{
	pthread_t first, second;

	hold(false);
	first = start_asleep(lock_m);
	second = start_asleep(lock_m);
	memcpy(&other, &m, sizeof(m));
	release();
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	first = start_asleep(lock_other_then_m);
	second = start_asleep(lock_other_then_m);
	ck_assert_int_eq(pthread_mutex_unlock(&other), 0);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	assert_no_complaint();
}
END_TEST

int main(void)
{
	Suite *s = suite_make("hostile");

	SUITE_CASE_OF(s, handler_same_mutex, 20, 2);
	SUITE_CASE_OF(s, handler_other_mutex, 20, 8);
	SUITE_CASE_OF(s, handler_waits, 20, 2 * OTHERS);
	SUITE_CASE_OF(s, handler_forks, 20, 2);
	SUITE_CASE_OF(s, waiter_gone, 20, 4);
	SUITE_CASE_OF(s, waiter_leaves_what_goes, 20, 2 * LEAVES);
#ifdef __x86_64__
	SUITE_CASE(s, many_leave, 20);
#endif
	SUITE_CASE(s, copied, 20);
	return suite_run(s);
}
