/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The checker is checked: small programs of which it is known what they may do.
 *
 * Source of the answers: RC11 (Lahav et al., PLDI 2017), worked out by its axioms, but for
 * release sequences, which are C++20's: a later store of the same thread is in none.
 * Of what the model allows nothing may be missing, and nothing may be there that it forbids,
 * but for Z6.U, which says so. */
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

static int x, y, z, plain, r[6];
static uint32_t seen; /* a bit for each outcome */

enum {
	RLX = __ATOMIC_RELAXED,
	ACQ = __ATOMIC_ACQUIRE,
	REL = __ATOMIC_RELEASE,
	RA = __ATOMIC_ACQ_REL,
	SC = __ATOMIC_SEQ_CST
};

#define W(v, n, o) __atomic_store_n(&v, n, o)
#define R(v, o) __atomic_load_n(&v, o)
#define ADD(v, n, o) __atomic_fetch_add(&v, n, o)
#define SWAP(v, n, o) __atomic_exchange_n(&v, n, o)
#define FENCE(o) __atomic_thread_fence(o)

static void setup(void)
{
	mc_name(&x, sizeof(x), "x");
	mc_name(&y, sizeof(y), "y");
	mc_name(&z, sizeof(z), "z");
	mc_name(&plain, sizeof(plain), "plain");
}

static void outcome(unsigned n)
{
	seen |= 1u << n;
}

/* A test: its threads' bodies, and what is its outcome, of 0 to 31. */
#define TEST(name, n, outcome_of, ...)                                                                                 \
	static void name##_body(unsigned t)                                                                            \
	{                                                                                                              \
		switch (t) {                                                                                           \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}                                                                                                              \
	static void name##_final(void)                                                                                 \
	{                                                                                                              \
		outcome((unsigned)(outcome_of));                                                                       \
	}                                                                                                              \
	static const struct mc_client name = {n, setup, name##_body, name##_final};
#define T(n, ...)                                                                                                      \
	case n: {                                                                                                      \
		__VA_ARGS__                                                                                            \
	} break;
#define TWO (r[0] * 2 + r[1])

#define SB(name, w, l, ...)                                                                                            \
	TEST(name, 2, TWO,                                                                                             \
	     T(0, W(x, 1, w); __VA_ARGS__; r[0] = R(y, l);) T(1, W(y, 1, w); __VA_ARGS__; r[1] = R(x, l);))
SB(sb_rlx, RLX, RLX, )
SB(sb_ra, REL, ACQ, )
SB(sb_sc, SC, SC, )
SB(sb_fence, RLX, RLX, FENCE(SC))
SB(sb_fence_ra, RLX, RLX, FENCE(RA))

#define MP(name, before, w, l, after)                                                                                  \
	TEST(name, 2, TWO, T(0, W(x, 1, RLX); before; W(y, 1, w);) T(1, r[0] = R(y, l); after; r[1] = R(x, RLX);))
MP(mp_rlx, , RLX, RLX, )
MP(mp_rel, , REL, RLX, )
MP(mp_acq, , RLX, ACQ, )
MP(mp_ra, , REL, ACQ, )
MP(mp_sc, , SC, SC, )
MP(mp_fences, FENCE(REL), RLX, RLX, FENCE(ACQ))
MP(mp_fence_acq, FENCE(REL), RLX, ACQ, )
MP(mp_rel_fence, , REL, RLX, FENCE(ACQ))
MP(mp_one_fence, FENCE(REL), RLX, RLX, )

TEST(lb, 2, TWO, T(0, r[0] = R(x, RLX); W(y, 1, RLX);) T(1, r[1] = R(y, RLX); W(x, 1, RLX);))
TEST(corr, 2, TWO, T(0, W(x, 1, RLX);) T(1, r[0] = R(x, RLX); r[1] = R(x, RLX);))
TEST(coww, 2, R(x, RLX) * 4 + r[0], T(0, W(x, 1, RLX); W(x, 2, RLX);) T(1, r[0] = R(x, RLX);))
TEST(cowr, 2, R(x, RLX) * 4 + r[0], T(0, W(x, 1, RLX); r[0] = R(x, RLX);) T(1, W(x, 2, RLX);))
TEST(corw, 2, R(x, RLX) * 4 + r[0], T(0, r[0] = R(x, RLX); W(x, 1, RLX);) T(1, W(x, 2, RLX);))
/* Two readers agree about the order of two writes. */
TEST(cowrr, 4, (r[0] == 1 && r[1] == 2 && r[2] == 2 && r[3] == 1),
     T(0, W(x, 1, RLX);) T(1, W(x, 2, RLX);) T(2, r[0] = R(x, RLX); r[1] = R(x, RLX);)
	     T(3, r[2] = R(x, RLX); r[3] = R(x, RLX);))

#define IRIW(name, w, l, f)                                                                                            \
	TEST(name, 4, (r[0] && !r[1] && r[2] && !r[3]),                                                                \
	     T(0, W(x, 1, w);) T(1, W(y, 1, w);) T(2, r[0] = R(x, l); f; r[1] = R(y, l);)                              \
		     T(3, r[2] = R(y, l); f; r[3] = R(x, l);))
IRIW(iriw_ra, REL, ACQ, )
IRIW(iriw_sc, SC, SC, )
IRIW(iriw_fence, RLX, RLX, FENCE(SC))

#define TWOW(name, o)                                                                                                  \
	TEST(name, 2, R(x, RLX) * 4 + R(y, RLX), T(0, W(x, 1, RLX); W(y, 2, o);) T(1, W(y, 1, RLX); W(x, 2, o);))
TWOW(twow_rlx, RLX)
TWOW(twow_rel, REL)
TEST(twow_sc, 2, R(x, RLX) * 4 + R(y, RLX), T(0, W(x, 1, SC); W(y, 2, SC);) T(1, W(y, 1, SC); W(x, 2, SC);))

#define S(name, w, l)                                                                                                  \
	TEST(name, 2, R(x, RLX) * 2 + r[0], T(0, W(x, 2, RLX); W(y, 1, w);) T(1, r[0] = R(y, l); W(x, 1, RLX);))
S(s_rlx, RLX, RLX)
S(s_ra, REL, ACQ)
#define RTEST(name, w, l)                                                                                              \
	TEST(name, 2, R(y, RLX) * 2 + r[0], T(0, W(x, 1, w); W(y, 1, w);) T(1, W(y, 2, w); r[0] = R(x, l);))
RTEST(r_ra, REL, ACQ)
RTEST(r_sc, SC, SC)

#define WRC(name, w, l)                                                                                                \
	TEST(name, 3, (r[0] && r[1] && !r[2]),                                                                         \
	     T(0, W(x, 1, w);) T(1, r[0] = R(x, l); W(y, 1, w);) T(2, r[1] = R(y, l); r[2] = R(x, RLX);))
WRC(wrc_rlx, RLX, RLX)
WRC(wrc_ra, REL, ACQ)
#define RWC(name, f)                                                                                                   \
	TEST(name, 3, (r[0] && !r[1] && !r[2]),                                                                        \
	     T(0, W(x, 1, RLX);) T(1, r[0] = R(x, RLX); f; r[1] = R(y, RLX);)                                          \
		     T(2, W(y, 1, RLX); f; r[2] = R(x, RLX);))
RWC(rwc_ra, FENCE(RA))
RWC(rwc_sc, FENCE(SC))

/* A release sequence: what comes between the release and the acquire. */
#define SEQUENCE(name, between, o)                                                                                     \
	TEST(name, 3, (r[1] == 2 && !r[2]),                                                                            \
	     T(0, W(x, 1, RLX); W(y, 1, o);) T(1, between;) T(2, r[1] = R(y, ACQ); r[2] = R(x, RLX);))
SEQUENCE(rs_rmw, ADD(y, 1, RLX), REL)
SEQUENCE(rs_store, W(y, 2, RLX), REL)
SEQUENCE(rs_rlx, ADD(y, 1, RLX), RLX)
TEST(rs_same, 2, (r[1] == 2 && !r[2]),
     T(0, W(x, 1, RLX); W(y, 1, REL); W(y, 2, RLX);) T(1, r[1] = R(y, ACQ); r[2] = R(x, RLX);))

TEST(rmw, 2, R(x, RLX) * 4 + r[0] * 2 + r[1], T(0, r[0] = ADD(x, 1, RLX);) T(1, r[1] = ADD(x, 1, RLX);))
TEST(xchg, 2, R(x, RLX) * 4 + (r[0] == 0) * 2 + (r[1] == 0),
     T(0, r[0] = SWAP(x, 1, RLX);) T(1, r[1] = SWAP(x, 2, RLX);))
TEST(cas, 2, r[0] * 2 + r[1],
     T(0, int e = 0; r[0] = __atomic_compare_exchange_n(&x, &e, 1, 0, RLX, RLX);)
	     T(1, int e = 0; r[1] = __atomic_compare_exchange_n(&x, &e, 1, 0, RLX, RLX);))
/* A failing compare-and-swap is a load, and may be stale: of 0, 1, 2 it fails with any but what it expects. */
TEST(cas_stale, 2, r[0] * 8 + r[1] * 4 + r[2],
     T(0, W(x, 1, RLX); W(y, 1, RLX);)
	     T(1, int e = 5; r[0] = R(y, RLX); r[1] = __atomic_compare_exchange_n(&x, &e, 2, 0, RLX, RLX); r[2] = e;))
/* A store may come between a load and what it read, but not between the halves of a swap. */
TEST(rmw_gap, 2, R(x, RLX) * 4 + r[0], T(0, r[0] = SWAP(x, 1, RLX);) T(1, W(x, 2, RLX);))

/* RC11 allows 1, 3, 0 here, in which the order S is not one in which it could be executed: not found. */
TEST(z6u, 3, (r[0] == 1 && r[1] == 3 && r[2] == 0),
     T(0, W(x, 1, SC); W(y, 1, REL);) T(1, r[0] = ADD(y, 1, SC); r[1] = R(y, RLX);) T(2, W(y, 3, SC); r[2] = R(x, SC);))

/* Plain data, handed over. */
#define HAND(name, w, l) TEST(name, 2, 0, T(0, plain = 1; W(x, 1, w);) T(1, if (R(x, l)) r[0] = plain;))
HAND(hand_ra, REL, ACQ)
HAND(hand_rlx, RLX, ACQ)
HAND(hand_noacq, REL, RLX)
/* ... and back: a read is over before the next write. */
#define BACK(name, w) TEST(name, 2, 0, T(0, r[0] = plain; W(x, 1, w);) T(1, if (R(x, ACQ)) plain = 1;))
BACK(back_rel, REL)
BACK(back_rlx, RLX)
TEST(race_atomic, 2, 0, T(0, plain = 1;) T(1, r[0] = R(plain, RLX);))
TEST(race_write, 2, 0, T(0, plain = 1;) T(1, plain = 2;))

static long futex(int *word, int op, int value)
{
	return pk_arch_syscall(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, value, 0, 0, FUTEX_BITSET_MATCH_ANY);
}

/* A flag and a sleeper. The word says that somebody sleeps, and without a swap that may come too late. */
TEST(sleep_good, 2, 0,
     T(0, if (SWAP(x, 1, REL) == 2) futex(&x, FUTEX_WAKE, 1);)
	     T(1, int e = 0; if (__atomic_compare_exchange_n(&x, &e, 2, 0, RLX, ACQ)) while (R(x, ACQ) == 2)
		       futex(&x, FUTEX_WAIT_BITSET, 2);))
TEST(sleep_bad, 2, 0,
     T(
	     0,
	     if (R(x, RLX) == 2) {
		     W(x, 1, REL);
		     futex(&x, FUTEX_WAKE, 1);
	     } else W(x, 1, REL);)
	     T(1, int e = 0; if (__atomic_compare_exchange_n(&x, &e, 2, 0, RLX, ACQ)) while (R(x, ACQ) == 2)
		       futex(&x, FUTEX_WAIT_BITSET, 2);))
/* Whoever says that there are sleepers, and who looks for some, need their barriers: the kernel has one. */
TEST(sleep_flag, 2, 0,
     T(0, W(x, 1, RLX); FENCE(SC); if (R(y, RLX)) futex(&x, FUTEX_WAKE, 1);)
	     T(1, W(y, 1, RLX); while (!R(x, RLX)) futex(&x, FUTEX_WAIT_BITSET, 0);))
TEST(sleep_noflag, 2, 0,
     T(0, W(x, 1, RLX); if (R(y, RLX)) futex(&x, FUTEX_WAKE, 1);)
	     T(1, W(y, 1, RLX); while (!R(x, RLX)) futex(&x, FUTEX_WAIT_BITSET, 0);))

/* Nobody sleeps, and yet nobody gets on. */
TEST(round, 2, 0, T(0, while (!R(x, RLX));) T(1, if (R(y, RLX)) W(x, 1, RLX);))
TEST(round_good, 2, 0, T(0, while (!R(x, RLX));) T(1, W(x, 1, RLX);))

#define FREE(name, o) TEST(name, 2, 0, T(0, W(x, 1, RLX); W(y, 1, o);) T(1, if (R(y, ACQ)) mc_free(&x, sizeof(x));))
FREE(free_rel, REL)
FREE(free_rlx, RLX)
TEST(free_late, 2, 0, T(0, W(x, 1, RLX); W(y, 1, REL); r[0] = R(x, RLX);) T(1, if (R(y, ACQ)) mc_free(&x, sizeof(x));))

static const struct {
	const char *name;
	const struct mc_client *client;
	uint32_t allowed; /* a bit for each outcome; 0: it has to fail */
} tests[] = {
#define IS(name, allowed)                                                                                              \
	{                                                                                                              \
#name, &name, allowed                                                                                  \
	}
#define ALL(n) ((1u << (n)) - 1)
	IS(sb_rlx, ALL(4)),
	IS(sb_ra, ALL(4)),
	IS(sb_sc, ALL(4) & ~1u),
	IS(sb_fence, ALL(4) & ~1u),
	IS(sb_fence_ra, ALL(4)),
	IS(mp_rlx, ALL(4)),
	IS(mp_rel, ALL(4)),
	IS(mp_acq, ALL(4)),
	IS(mp_ra, ALL(4) & ~4u),
	IS(mp_sc, ALL(4) & ~4u),
	IS(mp_fences, ALL(4) & ~4u),
	IS(mp_fence_acq, ALL(4) & ~4u),
	IS(mp_rel_fence, ALL(4) & ~4u),
	IS(mp_one_fence, ALL(4)),
	IS(lb, ALL(3)),
	IS(corr, ALL(4) & ~4u),
	IS(coww, 7u << 8),
	IS(cowr, 1u << 5 | 1u << 9 | 1u << 10), /* x is 1 at the end: r 1; 2: r 1 or 2 */
	IS(corw, 1u << 4 | 1u << 6 | 1u << 8),
	IS(cowrr, 1),
	IS(iriw_ra, 3),
	IS(iriw_sc, 1),
	IS(iriw_fence, 1),
	IS(twow_rlx, 1u << 5 | 1u << 6 | 1u << 9 | 1u << 10),
	IS(twow_rel, 1u << 5 | 1u << 6 | 1u << 9 | 1u << 10),
	IS(twow_sc, 1u << 6 | 1u << 9 | 1u << 10),
	IS(s_rlx, 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5),
	IS(s_ra, 1u << 2 | 1u << 3 | 1u << 4),
	IS(r_ra, 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5),
	IS(r_sc, 1u << 2 | 1u << 3 | 1u << 5),
	IS(wrc_rlx, 3),
	IS(wrc_ra, 1),
	IS(rwc_ra, 3),
	IS(rwc_sc, 1),
	IS(rs_rmw, 1),
	IS(rs_store, 3),
	IS(rs_rlx, 3),
	IS(rs_same, 3),
	IS(rmw, 1u << 9 | 1u << 10),
	IS(xchg, 1u << 5 | 1u << 10),
	IS(cas, 1u << 1 | 1u << 2),
	IS(cas_stale, 1u << 0 | 1u << 1 | 1u << 8 | 1u << 9),
	IS(rmw_gap, 1u << 8 | 1u << 6),
	IS(z6u, 1),
	IS(hand_ra, 1),
	IS(hand_rlx, 0),
	IS(hand_noacq, 0),
	IS(back_rel, 1),
	IS(back_rlx, 0),
	IS(race_atomic, 0),
	IS(race_write, 0),
	IS(sleep_good, 1),
	IS(sleep_bad, 0),
	IS(sleep_flag, 1),
	IS(sleep_noflag, 0),
	IS(round, 0),
	IS(round_good, 1),
	IS(free_rel, 1),
	IS(free_rlx, 0),
	IS(free_late, 0),
};

/* In a process of its own. `sc`: sequential consistency; then there must be less, or the same. */
static int try(unsigned n, bool sc, bool quiet)
{
	struct mc_options options = {.states = 1000000, .sc = sc, .spurious = 1};
	struct mc_result result;
	uint32_t allowed = tests[n].allowed;
	bool good;

	if (!allowed && freopen(quiet ? "/dev/null" : "/dev/stdout", "w", stdout) == NULL)
		return 1;
	mc_explore(tests[n].client, &options, &result);
	if (!allowed)
		good = sc || (result.failure && strncmp(result.failure, "gave up", 7));
	else
		good = !result.failure && (sc ? !(seen & ~allowed) : seen == allowed);
	fprintf(stderr, "%-4s %-14s %6lu states, outcomes %x of %x%s%s\n", good ? "ok" : "FAIL", tests[n].name,
		result.states, seen, allowed, result.failure ? ": " : "", result.failure ? result.failure : "");
	return !good;
}

int main(int argc, char **argv)
{
	unsigned failed = 0;

	if (argc > 1 && (argv[1][0] == '-' || argc > 2)) {
		fputs("usage: litmus [TEST]\nTries the checker on programs of which it is known what they may do.\n",
		      stderr);
		return !strcmp(argv[1], "--help") ? 0 : 2;
	}
	for (unsigned n = 0; n < sizeof(tests) / sizeof(tests[0]); n++)
		for (int sc = 0; sc < 2; sc++) {
			int status = 1;

			if (argc > 1 && strcmp(argv[1], tests[n].name))
				continue;
			fflush(NULL);
			if (fork() == 0)
				exit(try(n, sc, argc == 1));
			wait(&status);
			failed += status != 0;
		}
	fprintf(stderr, "%u failed\n", failed);
	return failed > 0;
}
