/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * The induction step of composed locks (CLoF, SOSP'21, section 4.2; lib/admit/levels.c): if the locks of the cohorts and
 * the one above are locks that starve nobody, so is what the recursion makes of them.
 *
 * The locks are abstract: `low' is a queue for each cohort, `high' one of cohorts that may overtake a waiting one, but
 * not more than BYPASS times. A cohort enters `high' with its context, which is to have one user at a time. Whether a
 * cohort keeps the lock is a free choice up to BOUND hand-overs. Threads may stay away for good.
 *
 * -DSWAPPED  the lock of the cohort is released before the one above
 * -DUNBOUND  a cohort may keep the lock above for ever
 * -DUNFAIR   `high' may overtake without bound
 * -DSTRANDED the lock above is passed on although nobody waits
 * are wrong, and must be found to be.
 */
#ifndef N
#define N 3 /* threads; thread i is of cohort i % C */
#endif
#define C 2
#define BOUND 2
#define BYPASS 1
#define NONE 255

chan low[C] = [N] of {byte}; /* who has come: the first one has it */
byte owner = NONE, first = NONE, overtaken; /* of `high': who has waited longest, and how often it was overtaken */
byte kept[C], users[C], inside;
bool queued[C], passed[C], wants[N], has[N];

inline release_high(c)
{
	atomic {
		assert(owner == c);
		owner = NONE;
		users[c]--
	}
}

inline acquire_high(c)
{
	atomic {
		users[c]++;
		assert(users[c] == 1); /* the context is nobody else's */
		queued[c] = true;
		first = (first == NONE -> c : first)
	}
	atomic {
#ifdef UNFAIR
		owner == NONE;
#else
		owner == NONE && (first == c || overtaken < BYPASS);
#endif
		owner = c;
		queued[c] = false;
		overtaken = (first == c || overtaken == BYPASS -> 0 : overtaken + 1);
		first = (first != c -> first : (queued[1 - c] -> 1 - c : NONE))
	}
}

proctype thread(byte me)
{
	byte c = me % C;

again:	if
	:: skip
	:: goto away
	fi;
	atomic {
		wants[me] = true;
		low[c]!me
	}
	low[c]?[eval(me)]; /* the head of its cohort */
	if
	:: passed[c] -> passed[c] = false
	:: else -> acquire_high(c)
	fi;
	atomic {
		inside++;
		assert(inside == 1 && owner == c);
		wants[me] = false;
		has[me] = true
	}
	atomic {
		inside--;
		has[me] = false
	}
	if
	:: atomic {
#ifdef STRANDED
		kept[c] < BOUND -> kept[c]++;
#elif defined(UNBOUND)
		len(low[c]) > 1 -> skip;
#else
		len(low[c]) > 1 && kept[c] < BOUND -> kept[c]++;
#endif
		passed[c] = true;
		low[c]?eval(me)
	   }
	:: kept[c] = 0;
#ifdef SWAPPED
	   low[c]?eval(me);
	   release_high(c)
#else
	   release_high(c);
	   low[c]?eval(me)
#endif
	fi;
	goto again;
away:	skip
}

init {
	byte i;

	atomic {
		for (i : 0 .. N - 1) {
			run thread(i)
		}
	}
}

ltl served { [] (wants[0] -> <> has[0]) }
