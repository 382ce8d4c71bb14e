/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The attribute `policy' of mutexes; the contract is in parkade.h, the bits are in attr.h. */
#include "pthread/attr.h"

#include <errno.h>

#include "admit/admit.h"
#include "parkade.h"

#define PUBLIC __attribute__((visibility("default")))

typedef unsigned __attribute__((may_alias)) word_t;

/* On some architectures it is longer, and glibc uses the first word. */
_Static_assert(sizeof(pthread_mutexattr_t) >= sizeof(word_t), "pthread_mutexattr_t has another size");

PUBLIC int parkade_mutexattr_setpolicy_np(pthread_mutexattr_t *attr, const char *policy)
{
	word_t *word = (word_t *)(void *)attr;
	int number = 0;

	if (policy) {
		number = pk_policy_number(policy);
		if (!number)
			return EINVAL;
		if (number == PK_POLICY_UNFIT || *word & (unsigned)PK_ATTR_OWN_WAY)
			return ENOTSUP;
		*word = (*word & ~(unsigned)PK_ATTR_CEILING) | PK_ATTR_OURS | (unsigned)number << PK_ATTR_SHIFT;
	} else if (pk_attr_policy(*word)) {
		*word &= ~(unsigned)PK_ATTR_CEILING;
	}
	return 0;
}

PUBLIC int parkade_mutexattr_getpolicy_np(const pthread_mutexattr_t *attr, char *policy, size_t size)
{
	return pk_policy_spell(pk_attr_policy(*(const word_t *)(const void *)attr), policy, size) ? 0 : ERANGE;
}
