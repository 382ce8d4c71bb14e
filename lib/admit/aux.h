/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The second word of a queue, `aux`: exact state of the policies that do not queue at
 * the tail, or else hints.
 *
 *	tag << 32 | kind << 29 | 29 bits of the policy	while somebody waits so
 *	0   << 32 | hint << 16 | hint << 4 | hint	otherwise
 * The tag is of the process's incarnation and of the queue's address. State with another
 * one is a ghost's, or of the lock that this one is a copy of, and counts as none; of
 * another kind it is a policy's that was in force before: whoever comes then waits on the
 * word until that queue has run dry. Hints may be lost at any time, and are when exact
 * state comes.
 *
 * Ledger
 *  O1	aux: every change of exact state is acq_rel, so what a waiter did is seen by
 *	all who come after it. */
#ifndef PK_AUX_H
#define PK_AUX_H

#include "admit/admit.h"

enum pk_aux_kind {
	PK_AUX_TKT,
	PK_AUX_PTL,
	PK_AUX_CST,
	PK_AUX_BO,
	PK_AUX_KIND_SHIFT = 29,
	PK_AUX_STATE = (1 << PK_AUX_KIND_SHIFT) - 1, /* the policy's bits */
};

/* Which hint: the bit that it begins at. */
enum pk_aux_hint {
	PK_HINT_WINDOW = 0,  /* admit/list.h */
	PK_HINT_ORDER = 4,   /* admit/order.h */
	PK_HINT_SOCKET = 16, /* admit/hbo.c */
	PK_HINT_SINCE = 16,  /* admit/shfl.c */
};

PK_INLINE uint32_t pk_aux_tag(const struct pk_queue *q)
{
	uint32_t hash = (uint32_t)((uint64_t)(uintptr_t)q * UINT64_C(0x9e3779b97f4a7c15) >> 32);
	uint32_t tag = pk_incarnation() ^ hash;

	return tag ? tag : 1;
}

/* Whether the word holds exact state of that queue in this process. */
PK_INLINE bool pk_aux_exact(const struct pk_queue *q, uint64_t aux)
{
	return aux >> 32 && aux >> 32 == pk_aux_tag(q);
}

/* The word with that exact state in it. */
PK_INLINE uint64_t pk_aux_of(const struct pk_queue *q, enum pk_aux_kind kind, uint32_t state)
{
	return (uint64_t)pk_aux_tag(q) << 32 | (uint32_t)kind << PK_AUX_KIND_SHIFT | state;
}

/* Whether it is of that kind. */
PK_INLINE bool pk_aux_is(const struct pk_queue *q, uint64_t aux, enum pk_aux_kind kind)
{
	return pk_aux_exact(q, aux) && (uint32_t)aux >> PK_AUX_KIND_SHIFT == (uint32_t)kind;
}

/* Where it begins and the next one does not. */
PK_INLINE uint64_t pk_hint_bits(enum pk_aux_hint which)
{
	return which == PK_HINT_WINDOW ? 0xf : which == PK_HINT_ORDER ? 0xfff0 : 0xffff0000;
}

PK_INLINE uint16_t pk_aux_hint(const struct pk_queue *q, enum pk_aux_hint which)
{
	uint64_t aux = pk_load_relaxed(&q->aux);

	return aux >> 32 ? 0 : (uint16_t)((aux & pk_hint_bits(which)) >> which);
}

PK_INLINE void pk_aux_set_hint(struct pk_queue *q, enum pk_aux_hint which, unsigned value)
{
	uint64_t aux = pk_load_relaxed(&q->aux);
	uint64_t others = aux >> 32 ? 0 : aux & ~pk_hint_bits(which);
	uint64_t set = others | ((uint64_t)value << which & pk_hint_bits(which));

	/* Not if it is so already: the line is the lock's. */
	if (aux != set && !pk_aux_exact(q, aux))
		pk_cas_relaxed(&q->aux, &aux, set);
}

/* Whether a tail names somebody of this process. */
PK_INLINE bool pk_tail_names(uint64_t tail)
{
	return tail && tail >> 32 == pk_incarnation();
}

/* Whether somebody waits in the queue, under whatever policy. Ghosts do not count. */
PK_INLINE bool pk_queue_busy(const struct pk_queue *q)
{
	return pk_tail_names(pk_load_relaxed(&q->tail)) || pk_aux_exact(q, pk_load_relaxed(&q->aux));
}

/* The same of what was read of it. */
PK_INLINE bool pk_queue_was_busy(const struct pk_queue *q, const struct pk_queue *seen)
{
	return pk_tail_names(seen->tail) || pk_aux_exact(q, seen->aux);
}

/* The half of `aux` with the state: a futex word. */
PK_INLINE const uint32_t *pk_aux_half(const struct pk_queue *q)
{
	return (const uint32_t *)&q->aux + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

#endif
