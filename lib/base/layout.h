/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Our view of glibc's pthread_mutex_t, pthread_cond_t and pthread_rwlock_t, checked
 * against its header.
 *
 * The fields that glibc uses keep glibc's meaning (doc/DESIGN.md section 1).
 * Ours are the bytes that glibc leaves alone for the kinds that we serve: the
 * robust-list node holds the admission queue, and of the 8 bytes at `kind` the
 * last two hold a policy and flags (glibc: the elision count, or the high half of the
 * adaptive spin estimate). All of them zero is an idle mutex, as the static
 * initialisers leave it.
 *
 * `kind` and `flags` are one 8-byte word and always accessed as such. */
#ifndef PK_LAYOUT_H
#define PK_LAYOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arch/arch.h"
#include "base/compiler.h"
#include "base/queue.h"

#ifdef PK_ARCH_ASIDE
#error "pthread_mutex_t has no room for a queue on this architecture: the library stands aside there"
#endif

/* glibc's sizes, which programs have compiled in; the offsets are compared below. */
#ifndef PK_ARCH_MUTEX_SIZE
#define PK_ARCH_MUTEX_SIZE 40
#endif
_Static_assert(sizeof(pthread_mutex_t) == PK_ARCH_MUTEX_SIZE, "pthread_mutex_t has another size");
_Static_assert(sizeof(((pthread_mutex_t *)0)->__data) == 40, "pthread_mutex_t has other fields");
_Static_assert(sizeof(pthread_cond_t) == 48, "pthread_cond_t has another size");
_Static_assert(sizeof(pthread_rwlock_t) == 56, "pthread_rwlock_t has another size");

struct pk_mutex {
	int lock;	/* futex word: 0 free, 1 held, 2 held and maybe slept on */
	unsigned count; /* depth of a recursive mutex */
	int owner;
	unsigned nusers;
	uint64_t kind; /* glibc's __kind, and our flags */
	struct pk_queue queue;
} __attribute__((may_alias));

/* Byte i (from the lowest address) of the 8 bytes at `kind`. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PK_KIND_BYTE(i) ((uint64_t)0xff << (8 * (i)))
#define PK_KIND_VALUE(v) ((uint64_t)(v))
#else
#define PK_KIND_BYTE(i) ((uint64_t)0xff << (56 - 8 * (i)))
#define PK_KIND_VALUE(v) ((uint64_t)(v) << 32)
#endif

/* glibc's kind bits (sysdeps/nptl, FACTS: 0x10 robust, 0x20 inherit, 0x40
 * protect, 0x80 process-shared; 0x100 and 0x200: elision wanted, not wanted). */
#define PK_KIND_TYPE PK_KIND_VALUE(3)
#define PK_KIND_ELISION PK_KIND_VALUE(0x300)
#define PK_KIND_ROBUST PK_KIND_VALUE(0x10)
#define PK_KIND_SHARED PK_KIND_VALUE(0x80)
#define PK_KIND_ANY PK_KIND_VALUE(0xffffffffu)
#define PK_KIND_OWN_WAY (PK_KIND_ANY & ~(PK_KIND_TYPE | PK_KIND_ELISION))

/* New arrivals queue instead of trying the word: the head lost patience. */
#define PK_FLAG_QUEUE (PK_KIND_BYTE(7) & 0x4040404040404040u)
/* A thread that has not queued spins at the word. */
#define PK_FLAG_SPINNER (PK_KIND_BYTE(7) & 0x2020202020202020u)
/* Waiters sleep outside of the queue (pthread/lot.c). */
#define PK_FLAG_LOT (PK_KIND_BYTE(7) & 0x1010101010101010u)
/* Heads have to sleep: to spin behind them is in vain (pthread/turn.c). */
#define PK_FLAG_SLOW (PK_KIND_BYTE(7) & 0x8080808080808080u)
/* Who has had it comes back at once: others queue for it (pthread/turn.c). A mutex's only: others than mutexes have other things
 * here. */
#define PK_FLAG_BACK (PK_KIND_BYTE(7) & 0x0808080808080808u)
/* TRIED: it is being tried whether that pays; APART: all wait at its word, for now, or as it does not; PROVED: it does
 * (pthread/trial.h). */
#define PK_FLAG_TRIED (PK_KIND_BYTE(7) & 0x0404040404040404u)
#define PK_FLAG_APART (PK_KIND_BYTE(7) & 0x0202020202020202u)
#define PK_FLAG_PROVED (PK_KIND_BYTE(7) & 0x0101010101010101u)
/* glibc's adaptive spin estimate, written by its code on ADAPTIVE mutexes. */
#define PK_FLAG_SPINS (PK_KIND_BYTE(4) | PK_KIND_BYTE(5))
/* The mutex's own policy, a number of admit/admit.h, or 0: written by its initialisation. Others than mutexes
 * have other things in this byte. */
#define PK_FLAG_POLICY PK_KIND_BYTE(6)
#define PK_FLAG_POLICY_ONE (PK_FLAG_POLICY & 0x0101010101010101u)

#define PK_ASSERT_SAME(ours, glibcs)                                                                                   \
	_Static_assert(offsetof(struct pk_mutex, ours) == offsetof(pthread_mutex_t, __data.glibcs),                    \
		       "pthread_mutex_t: " #glibcs " is elsewhere")

PK_ASSERT_SAME(lock, __lock);
PK_ASSERT_SAME(count, __count);
PK_ASSERT_SAME(owner, __owner);
PK_ASSERT_SAME(nusers, __nusers);
PK_ASSERT_SAME(kind, __kind);
PK_ASSERT_SAME(queue, __list);
_Static_assert(sizeof(struct pk_mutex) <= sizeof(pthread_mutex_t), "pthread_mutex_t has no room for a queue");
_Static_assert(sizeof(((pthread_mutex_t *)0)->__data.__list) == sizeof(struct pk_queue),
	       "the robust-list node has no room for a queue");

/* Where threads wait for a lock word that is elsewhere in the same object: flags of
 * ours, in a word that holds other things, too, and the queue. In a mutex that is
 * what follows `kind`. */
struct pk_gate {
	uint64_t flags; /* PK_FLAG_* */
	struct pk_queue queue;
} __attribute__((may_alias));

_Static_assert(offsetof(struct pk_mutex, queue) - offsetof(struct pk_mutex, kind) == offsetof(struct pk_gate, queue),
	       "a mutex has a gate");

PK_INLINE struct pk_gate *pk_mutex_gate(struct pk_mutex *m)
{
	return (struct pk_gate *)&m->kind;
}

PK_INLINE unsigned pk_kind_policy(uint64_t kind)
{
	return (unsigned)((kind & PK_FLAG_POLICY) / PK_FLAG_POLICY_ONE);
}

PK_INLINE unsigned pk_mutex_policy(const struct pk_mutex *m)
{
	return pk_kind_policy(__atomic_load_n(&m->kind, __ATOMIC_RELAXED));
}

PK_INLINE struct pk_mutex *pk_mutex_of(pthread_mutex_t *mutex)
{
	return (struct pk_mutex *)mutex;
}

PK_INLINE struct pk_mutex *pk_mutex_of_queue(struct pk_queue *queue)
{
	return (struct pk_mutex *)((char *)queue - offsetof(struct pk_mutex, queue));
}

/* A condition variable is ours altogether, but for the flags that glibc's
 * pthread_cond_init leaves in `__wrefs`. That is `refs`, and from glibc 2.41 on (and wherever its cure of bug 25847
 * has been taken over) `flags`; which of them is a matter of the machine that the library runs on, not of the one that
 * it was built on, so the flags are what either says. All zero is an idle one on CLOCK_REALTIME. The last 8 bytes are
 * never looked at: the initialiser of some releases leaves them as they are (glibc bug 32786). */
struct pk_cond {
	struct pk_queue waiters; /* tail: the name of the last one, or 0; aux: of the first (pthread/cond-list.h) */
	union {
		/* process-private */
		struct {
			uint32_t lock;	 /* of the list */
			uint32_t passed; /* how often the first has been passed over */
		};
		/* process-shared (pthread/cond-shared.c) */
		uint32_t sequence;
	};
	uint32_t at;	/* pk_cond_here() where somebody waits, or has waited */
	uint32_t flags; /* we never write it */
	uint8_t apart;	/* how often all would best have been woken by one call, in a row (pthread/cond-signal.c) */
	uint8_t called;	/* how who waited was called last; 0: not yet */
	uint16_t hall;	/* 1 + the number of its hall (rt/hall.h), or 0 */
	uint32_t refs;	/* flags, and 8 for each waiter */
} __attribute__((may_alias));

#define PK_COND_SHARED 1u    /* process-shared */
#define PK_COND_MONOTONIC 2u /* timedwait's clock */
#define PK_COND_FLAGS 3u     /* both of them */
#define PK_COND_DESTROYER 4u /* somebody waits for the waiters to be out */
#define PK_COND_WAITER 8u

#define PK_COND_APART 2u	/* `apart`, at most */
#define PK_COND_BY_SIGNAL 1u /* `called` */
#define PK_COND_BY_BROADCAST 2u

_Static_assert(offsetof(struct pk_cond, flags) == 28 && offsetof(struct pk_cond, refs) == 36, "where __wrefs has been");
_Static_assert(offsetof(pthread_cond_t, __data.__wrefs) == 28 || offsetof(pthread_cond_t, __data.__wrefs) == 36,
	       "pthread_cond_t: __wrefs is elsewhere");
_Static_assert(sizeof(struct pk_cond) <= 40, "the last 8 bytes of pthread_cond_t are not ours");

PK_INLINE struct pk_cond *pk_cond_of(pthread_cond_t *cond)
{
	return (struct pk_cond *)cond;
}

PK_INLINE uint32_t pk_cond_flags(const struct pk_cond *c)
{
	return (c->flags | __atomic_load_n(&c->refs, __ATOMIC_RELAXED)) & PK_COND_FLAGS;
}

/* Its address, in half of the room, which tells it from copies. */
PK_INLINE uint32_t pk_cond_here(const struct pk_cond *c)
{
	uint64_t here = (uintptr_t)c;

	return (uint32_t)(here ^ here >> 32);
}

/* A reader-writer lock: what debuggers read (`__readers`, `__cur_writer`, `__shared`,
 * `__flags`) is as glibc leaves it, the rest is ours. All zero is an idle one.
 *
 * `state` is glibc's __readers, and our flags beside it, always accessed as one. It
 * begins a gate, for the mutex that orders those who must wait: `lock` is its word. */
struct pk_rwlock {
	uint64_t state;
	struct pk_queue queue;
	int cur_writer; /* the writer's tid, or 0 */
	int shared;	/* process-shared: glibc's altogether */
	int lock;
	uint16_t heat;	    /* contended reads, since a writer last had to look twice */
	uint16_t credit;    /* writers that may leave it with readers counted apart, and find none the next time */
	uint64_t spread_at; /* no earlier than that are readers counted apart, in ns */
	unsigned kind;	    /* PTHREAD_RWLOCK_PREFER_* */
	uint32_t closed_by; /* the incarnation (rt/arena.h) of the front, which may close it */
} __attribute__((may_alias));

/* Parts of the state: __readers at the lower address, the flags at the higher one. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PK_RW_IN_READERS(v) ((uint64_t)(v))
#define PK_RW_IN_FLAGS(v) ((uint64_t)(v) << 32)
#define PK_RW_FLAGS_OF(state) ((uint32_t)((state) >> 32))
#else
#define PK_RW_IN_READERS(v) ((uint64_t)(v) << 32)
#define PK_RW_IN_FLAGS(v) ((uint64_t)(v))
#define PK_RW_FLAGS_OF(state) ((uint32_t)(state))
#endif

/* As glibc: the write phase and a writer in it; readers in units of 8. */
#define PK_RW_WRITER PK_RW_IN_READERS(3)
#define PK_RW_READER PK_RW_IN_READERS(8)
#define PK_RW_READERS PK_RW_IN_READERS(0x7ffffff8)
/* Ours. The gate's PK_FLAG_* are elsewhere. */
#define PK_RW_CLOSED PK_RW_IN_FLAGS(0x100)   /* who waits in front goes next */
#define PK_RW_SLEEPER PK_RW_IN_FLAGS(0x200)  /* who waits in front sleeps */
#define PK_RW_PARKED PK_RW_IN_FLAGS(0x400)   /* readers sleep */
#define PK_RW_SPREAD PK_RW_IN_FLAGS(0x800)   /* readers may be counted apart */
#define PK_RW_RECALL PK_RW_IN_FLAGS(0x1000)  /* they are being counted back in */
#define PK_RW_KEPT_ONE PK_RW_IN_FLAGS(0x2000)
#define PK_RW_KEPT PK_RW_IN_FLAGS(0xe000) /* for so many writers in a row it was kept for the front */
#define PK_RW_WAITER PK_RW_IN_FLAGS(0x10000) /* writers that wait, of a kind that prefers them */
#define PK_RW_WAITERS PK_RW_IN_FLAGS(0xfff0000)

#define PK_ASSERT_SAME_RW(ours, glibcs)                                                                                \
	_Static_assert(offsetof(struct pk_rwlock, ours) == offsetof(pthread_rwlock_t, __data.glibcs),                  \
		       "pthread_rwlock_t: " #glibcs " is elsewhere")

PK_ASSERT_SAME_RW(state, __readers);
PK_ASSERT_SAME_RW(cur_writer, __cur_writer);
PK_ASSERT_SAME_RW(shared, __shared);
PK_ASSERT_SAME_RW(kind, __flags);
_Static_assert(sizeof(struct pk_rwlock) <= sizeof(pthread_rwlock_t), "pthread_rwlock_t has no room for a queue");
_Static_assert(offsetof(struct pk_rwlock, queue) == offsetof(struct pk_gate, queue), "an rwlock begins with a gate");
_Static_assert(!((PK_FLAG_QUEUE | PK_FLAG_SPINNER | PK_FLAG_LOT | PK_FLAG_SLOW) &
		 (PK_RW_IN_READERS(UINT32_MAX) | PK_RW_IN_FLAGS(0xfffff00))),
	       "the gate's flags are its own");

PK_INLINE struct pk_rwlock *pk_rwlock_of(pthread_rwlock_t *rwlock)
{
	return (struct pk_rwlock *)rwlock;
}

/* A spin lock is 4 bytes, all of them glibc's. On x86 its lock takes 1 off and looks
 * whether it was 1, so a held one may also be less than PK_SPIN_HELD. */
#ifdef PK_ARCH_SPIN_DOWN
#define PK_SPIN_FREE 1
#define PK_SPIN_HELD 0
#else
#define PK_SPIN_FREE 0
#define PK_SPIN_HELD 1
#endif

_Static_assert(sizeof(pthread_spinlock_t) == 4, "pthread_spinlock_t is another");

#endif
