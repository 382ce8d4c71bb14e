/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A policy in the attributes of a mutex (parkade.h).
 *
 * glibc's pthread_mutexattr_t is a word of 4 bytes (aarch64 has 4 more, unused). tests/control/one-mutex tries each
 * of its bits on the glibc that is there: those of the priority ceiling, 12 to 23, are the only ones that
 * pthread_mutex_init does not look at (without PTHREAD_PRIO_PROTECT), that pthread_mutexattr_gettype and its likes do
 * not show, and that the setters of the other attributes leave alone. So glibc's own pthread_mutex_init, where a
 * plug-in calls that, makes of such attributes what it makes of them without a policy.
 *
 * State of bits 12 to 23
 *	0			as pthread_mutexattr_init leaves them
 *	1 .. 99			a priority ceiling
 *	0x800 | number		a policy's number (admit/admit.h), 1 or more: no ceiling is that high */
#ifndef PK_ATTR_H
#define PK_ATTR_H

#include "base/compiler.h"

enum {
	PK_ATTR_SHIFT = 12,
	PK_ATTR_CEILING = 0xfff << PK_ATTR_SHIFT,
	PK_ATTR_OURS = 0x800 << PK_ATTR_SHIFT,
	PK_ATTR_POLICY = 0xff << PK_ATTR_SHIFT,
	/* What sends a mutex to glibc's functions: a protocol, robust, process-shared. */
	PK_ATTR_OWN_WAY = (int)0xf0000000,
};

/* The policy's number in the attributes, or 0. */
PK_INLINE unsigned pk_attr_policy(unsigned attr)
{
	return pk_unlikely((attr & (PK_ATTR_CEILING & ~PK_ATTR_POLICY)) == PK_ATTR_OURS)
		       ? (attr & PK_ATTR_POLICY) >> PK_ATTR_SHIFT
		       : 0;
}

#endif
