/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The papers' locks as they are printed: CNA (EuroSys'19, figures 2 to 5), ShflLock (SOSP'19,
 * figures 4 and 6) and HMCS (as CLoF, SOSP'21, section 2.2, describes it), for the checker.
 *
 * Two of them say that sequential consistency is assumed, or say nothing, and CLoF (sections 2
 * and 3.3) reports that they hang on Armv8. So with sequential consistency they must pass here,
 * which shows that they are written down as they are meant, and must fail without: where the
 * paper is silent every access is relaxed. Even with swaps that order all (`swaps`), as x86's
 * do, they must. Figure 6 loses a hand-over even with sequential consistency (line 24); so it is
 * here twice, as it is printed and with that line mended. */
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness/machine.h"
#include "model/model.h"

enum { THREADS = 3, RLX = __ATOMIC_RELAXED };

#define GET(v) __atomic_load_n(&(v), RLX)
#define SET(v, n) __atomic_store_n(&(v), n, RLX)

static bool strong;

#define SWAP(p, n) (strong ? __atomic_exchange_n(p, n, __ATOMIC_SEQ_CST) : __atomic_exchange_n(p, n, RLX))
#define CAS(p, old, n)                                                                                                 \
	({                                                                                                             \
		__typeof__(*(p)) seen_ = (old);                                                                        \
		strong ? __atomic_compare_exchange_n(p, &seen_, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)              \
		       : __atomic_compare_exchange_n(p, &seen_, n, 0, RLX, RLX);                                       \
	})

/* Threads 0 and 2 share a socket. */
static int socket_of(unsigned t)
{
	return t % 2;
}

/* What the lock guards, by more than chance: it is not ordered by what the clients do. */
static int inside, guarded, sections = THREADS;

static void critical(void)
{
	if (__atomic_fetch_add(&inside, 1, RLX))
		mc_fail("two threads have the lock");
	SET(guarded, GET(guarded) + 1);
	__atomic_fetch_sub(&inside, 1, RLX);
}

static void final(void)
{
	if (guarded != sections)
		mc_fail("a critical section has not seen another one: %d", guarded);
}

/* ---- CNA; the numbers are those of the figures' lines ---- */

static struct cna_node {
	uintptr_t spin;
	int socket;
	struct cna_node *sec_tail, *next;
} cna_node[THREADS], *cna_tail;

static struct cna_node *node_of(uintptr_t spin)
{
	return (struct cna_node *)spin;
}

static void cna_lock(struct cna_node *me, int socket)
{
	struct cna_node *tail;

	SET(me->next, NULL); /* 2 */
	SET(me->socket, -1);
	SET(me->spin, 0);
	tail = SWAP(&cna_tail, me); /* 6 */
	if (!tail) {
		SET(me->spin, 1); /* 8 */
		return;
	}
	SET(me->socket, socket); /* 10 */
	SET(tail->next, me);
	while (!GET(me->spin)) /* 13 */
		;
}

static struct cna_node *cna_find_successor(struct cna_node *me, int here)
{
	struct cna_node *next = GET(me->next), *sec_head = next, *sec_tail = next, *cur;
	int my_socket = GET(me->socket);

	if (my_socket == -1) /* 54 */
		my_socket = here;
	if (GET(next->socket) == my_socket)
		return next;
	for (cur = GET(next->next); cur; cur = GET(cur->next)) {
		if (GET(cur->socket) == my_socket) {
			if (GET(me->spin) > 1) /* 67 */
				SET(GET(node_of(GET(me->spin))->sec_tail)->next, sec_head);
			else
				SET(me->spin, (uintptr_t)sec_head);
			SET(sec_tail->next, NULL);
			SET(node_of(GET(me->spin))->sec_tail, sec_tail);
			return cur;
		}
		sec_tail = cur;
	}
	return NULL;
}

static void cna_unlock(struct cna_node *me, int here)
{
	struct cna_node *succ = NULL;

	if (!GET(me->next)) { /* 18 */
		if (GET(me->spin) == 1) {
			if (CAS(&cna_tail, me, NULL)) /* 23 */
				return;
		} else {
			struct cna_node *sec_head = node_of(GET(me->spin));

			if (CAS(&cna_tail, me, GET(sec_head->sec_tail))) { /* 28 */
				SET(sec_head->spin, 1);
				return;
			}
		}
		while (!GET(me->next)) /* 36 */
			;
	}
	if (mc_choose(2) && (succ = cna_find_successor(me, here))) { /* 41 */
		mc_reached("a local hand-over");
		SET(succ->spin, GET(me->spin));
	} else if (GET(me->spin) > 1) {
		succ = node_of(GET(me->spin));
		SET(GET(succ->sec_tail)->next, GET(me->next));
		SET(succ->spin, 1);
	} else {
		SET(GET(me->next)->spin, 1);
	}
}

static void cna_body(unsigned t)
{
	cna_lock(&cna_node[t], socket_of(t));
	critical();
	cna_unlock(&cna_node[t], socket_of(t));
}

/* ---- ShflLock: the non-blocking version (figure 4), and what figure 6 adds for the blocking
 * one. glock's two bytes are in one variable; it is taken at line 6 with both. Numbers are those
 * of figure 4's lines, or 6: and those of figure 6. ---- */

enum { WAITING, READY, PARKED, SPINNING, MAX_SHUFFLES = 1024, NO_STEALING = 1 << 8, LOCKED = 1 };

static struct shfl_node {
	int status, batch, is_shuffler, skt;
	struct shfl_node *next;
} shfl_node[THREADS], *shfl_tail;
static int glock; /* the first byte; no_stealing in the second */
static bool blocks, mended;

static long futex(int *word, int op, int value)
{
	return pk_arch_syscall(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, value, 0, 0, FUTEX_BITSET_MATCH_ANY);
}

static void wake_up_task(struct shfl_node *qnode)
{
	futex(&qnode->status, FUTEX_WAKE, 1);
}

static void park_waiter(struct shfl_node *qnode)
{
	if (!CAS(&qnode->status, WAITING, PARKED)) /* 6: 51 */
		return;
	mc_reached("a waiter parks");
	while (GET(qnode->status) == PARKED)
		futex(&qnode->status, FUTEX_WAIT_BITSET, PARKED);
}

static void update_node_state(struct shfl_node *qnode)
{
	if (CAS(&qnode->status, WAITING, SPINNING)) /* 6: 43 */
		return;
	if (CAS(&qnode->status, PARKED, SPINNING)) {
		mc_reached("a shuffler wakes a waiter");
		wake_up_task(qnode);
	}
}

static int first_byte(int value)
{
	return value & 0xff;
}

/* CAS, and store, of the first byte alone, which leave the second as it is. */
static bool take_first_byte(void)
{
	int seen = GET(glock);

	while (!first_byte(seen))
		if (CAS(&glock, seen, seen | LOCKED))
			return true;
		else
			seen = GET(glock);
	return false;
}

static void shuffle_waiters(struct shfl_node *qnode, bool vnext_waiter)
{
	struct shfl_node *qlast = qnode, *qprev = qnode, *qcurr, *qnext;
	int batch = GET(qnode->batch);

	if (batch == 0)
		SET(qnode->batch, ++batch); /* 68 */
	SET(qnode->is_shuffler, false);
	if (batch >= MAX_SHUFFLES)
		return;
	if (blocks && mended)
		CAS(&qnode->status, WAITING, SPINNING);
	else if (blocks) /* the one before may have made it READY */
		SWAP(&qnode->status, SPINNING); /* 6: 24 */
	for (;;) {
		qcurr = GET(qprev->next); /* 77 */
		if (!qcurr || qcurr == GET(shfl_tail))
			break;
		if (GET(qcurr->skt) == GET(qnode->skt)) {
			if (GET(qprev->skt) == GET(qnode->skt)) {
				if (blocks)
					update_node_state(qcurr); /* 6: 31 */
				SET(qcurr->batch, ++batch);
				qlast = qprev = qcurr;
			} else {
				qnext = GET(qcurr->next); /* 90 */
				if (!qnext)
					break;
				if (blocks)
					update_node_state(qcurr); /* 6: 37 */
				SET(qcurr->batch, ++batch);
				SET(qprev->next, qnext);
				SET(qcurr->next, GET(qlast->next));
				SET(qlast->next, qcurr);
				qlast = qcurr;
				mc_reached("a shuffle");
			}
		} else {
			qprev = qcurr; /* 100 */
		}
		if (vnext_waiter ? !first_byte(GET(glock)) : GET(qnode->status) == READY)
			break;
	}
	SET(qlast->is_shuffler, true); /* 107 */
}

static void shfl_lock(struct shfl_node *qnode, int socket)
{
	struct shfl_node *qprev, *qnext;

	if (!GET(glock) && CAS(&glock, 0, LOCKED)) /* 6 */
		return;
	SET(qnode->status, WAITING);
	SET(qnode->batch, 0);
	SET(qnode->is_shuffler, false);
	SET(qnode->next, NULL);
	SET(qnode->skt, socket);
	qprev = SWAP(&shfl_tail, qnode); /* 13 */
	if (qprev) {
		SET(qprev->next, qnode); /* 45 */
		while (GET(qnode->status) != READY) {
			if (blocks && mc_choose(2)) /* its quota is up */
				park_waiter(qnode); /* 6: 18 */
			if (GET(qnode->is_shuffler))
				shuffle_waiters(qnode, false);
		}
	} else {
		__atomic_fetch_or(&glock, NO_STEALING, strong ? __ATOMIC_SEQ_CST : RLX); /* 17 */
	}
	do {
		if (GET(qnode->batch) == 0 || GET(qnode->is_shuffler)) /* 23 */
			shuffle_waiters(qnode, true);
		while (first_byte(GET(glock)) == LOCKED)
			;
	} while (!take_first_byte()); /* 29 */
	qnext = GET(qnode->next);     /* 33 */
	if (!qnext) {
		if (CAS(&shfl_tail, qnode, NULL)) { /* 35 */
			CAS(&glock, NO_STEALING | LOCKED, LOCKED);
			return;
		}
		while (!GET(qnode->next)) /* 38 */
			;
		qnext = GET(qnode->next);
	}
	if (!blocks)
		SET(qnext->status, READY); /* 42 */
	else if (SWAP(&qnext->status, READY) == PARKED) /* 6: 9 */
		wake_up_task(qnext);
}

static void shfl_unlock(void)
{
	__atomic_fetch_and(&glock, ~LOCKED, RLX); /* 54: a store of that byte */
}

static void shfl_body(unsigned t)
{
	shfl_lock(&shfl_node[t], socket_of(t));
	critical();
	shfl_unlock();
}

static void setup(void);

/* One thread more, which has the lock to begin with: all others meet in the queue. */
static void blocking_body(unsigned t)
{
	if (t < THREADS) {
		shfl_body(t);
	} else {
		critical();
		shfl_unlock();
	}
}

static void blocking_setup(void)
{
	setup();
	blocks = true;
	glock = LOCKED;
	sections = THREADS + 1;
}

static void mended_setup(void)
{
	blocking_setup();
	mended = true;
}

/* ---- HMCS of two levels: an MCS lock for each socket, whose node waits in the root's. A status
 * is WAIT, the count of hand-overs, or ACQUIRE_PARENT. ---- */

enum { WAIT = -1, ACQUIRE_PARENT = -2, START = 1, THRESHOLD = 2 };

struct hmcs_node {
	int status;
	struct hmcs_node *next;
};
static struct hmcs {
	struct hmcs *parent;
	struct hmcs_node *tail, node;
} root, leaf[2] = {{&root, NULL, {0, NULL}}, {&root, NULL, {0, NULL}}};
static struct hmcs_node hmcs_node[THREADS];

/* At the root any status but WAIT says that the lock is had. */
static void hmcs_acquire_root(struct hmcs_node *me)
{
	struct hmcs_node *prev;

	SET(me->next, NULL);
	SET(me->status, WAIT);
	prev = SWAP(&root.tail, me);
	if (!prev)
		return;
	SET(prev->next, me);
	while (GET(me->status) == WAIT)
		;
}

static void hmcs_release_to(struct hmcs *level, struct hmcs_node *me, int value)
{
	struct hmcs_node *next = GET(me->next);

	if (!next) {
		if (CAS(&level->tail, me, NULL))
			return;
		while (!(next = GET(me->next)))
			;
	}
	SET(next->status, value);
}

static void hmcs_acquire(struct hmcs *level, struct hmcs_node *me)
{
	struct hmcs_node *prev;

	SET(me->next, NULL);
	SET(me->status, WAIT);
	prev = SWAP(&level->tail, me);
	if (prev) {
		SET(prev->next, me);
		while (GET(me->status) == WAIT)
			;
		if (GET(me->status) != ACQUIRE_PARENT)
			return;
	}
	SET(me->status, START);
	hmcs_acquire_root(&level->node);
}

static void hmcs_release(struct hmcs *level, struct hmcs_node *me)
{
	int count = GET(me->status);
	struct hmcs_node *next;

	if (count < THRESHOLD && (next = GET(me->next))) {
		mc_reached("a hand-over within a socket");
		SET(next->status, count + 1);
		return;
	}
	hmcs_release_to(&root, &level->node, START);
	hmcs_release_to(level, me, ACQUIRE_PARENT);
}

static void hmcs_body(unsigned t)
{
	hmcs_acquire(&leaf[socket_of(t)], &hmcs_node[t]);
	critical();
	hmcs_release(&leaf[socket_of(t)], &hmcs_node[t]);
}

/* ---- the program ---- */

static void setup(void)
{
	mc_name(&inside, sizeof(inside), "inside");
	mc_name(&guarded, sizeof(guarded), "what the lock guards");
	mc_name(&cna_tail, sizeof(cna_tail), "tail");
	mc_name(&shfl_tail, sizeof(shfl_tail), "tail");
	mc_name(&glock, sizeof(glock), "glock");
	for (unsigned t = 0; t < THREADS; t++) {
		mc_name(&cna_node[t], sizeof(cna_node[t]), "node %u", t);
		mc_name(&shfl_node[t], sizeof(shfl_node[t]), "node %u", t);
		mc_name(&hmcs_node[t], sizeof(hmcs_node[t]), "node %u", t);
	}
}

enum how { SC, RELAXED, SWAPS, HOWS };

static const struct {
	const char *name;
	struct mc_client client;
	enum how passes; /* that way; HOWS: none */
} locks[] = {{"cna", {THREADS, setup, cna_body, final}, SC},
	     {"shfl", {THREADS, setup, shfl_body, final}, SC},
	     {"shfl-b", {THREADS + 1, blocking_setup, blocking_body, final}, HOWS},
	     {"shfl-b-mended", {THREADS + 1, mended_setup, blocking_body, final}, SC},
	     {"hmcs", {THREADS, setup, hmcs_body, final}, SC}};

static int try(unsigned n, enum how how, bool quiet)
{
	static const char *const names[] = {"sequentially consistent", "relaxed", "relaxed, but swaps"};
	struct mc_options options = {.states = 8000000, .sc = how == SC};
	struct mc_result result;
	bool good, undecided;

	if (quiet && !freopen("/dev/null", "w", stdout))
		return 1;
	strong = how == SWAPS;
	mc_explore(&locks[n].client, &options, &result);
	undecided = result.failure && (!strncmp(result.failure, "gave up", 7) || !strncmp(result.failure, "too many", 8));
	good = !undecided && (how == locks[n].passes) == !result.failure;
	fprintf(stderr, "%-4s %-13s %-24s %8lu states%s%s\n", good ? "ok" : "FAIL", locks[n].name, names[how],
		result.states, result.failure ? ": " : ", passes", result.failure ? result.failure : "");
	if (!quiet)
		mc_print_reached();
	return !good;
}

int main(int argc, char **argv)
{
	unsigned failed = 0;

	if (argc > 1 && (argv[1][0] == '-' || argc > 2)) {
		fputs("usage: papers [cna|shfl|shfl-b|shfl-b-mended|hmcs]\nTries the papers' locks as printed: they pass "
		      "with sequential consistency, but for the\nblocking ShflLock, and fail without.\n",
		      stderr);
		return !strcmp(argv[1], "--help") ? 0 : 2;
	}
	for (unsigned n = 0; n < sizeof(locks) / sizeof(locks[0]); n++)
		for (enum how how = SC; how < HOWS; how++) {
			int status = 1;

			if (argc > 1 && strcmp(argv[1], locks[n].name))
				continue;
			fflush(NULL);
			if (fork() == 0)
				exit(try(n, how, argc == 1));
			wait(&status);
			failed += status != 0;
		}
	fprintf(stderr, "%u failed\n", failed);
	return failed > 0;
}
