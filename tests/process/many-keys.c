/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A library whose constructor makes as many thread-specific keys as MANY_KEYS in the environment says. */
#include <pthread.h>
#include <stdlib.h>

__attribute__((constructor)) static void make(void)
{
	const char *wanted = getenv("MANY_KEYS");
	pthread_key_t key;

	for (int n = wanted ? atoi(wanted) : 0; n > 0; n--)
		if (pthread_key_create(&key, NULL))
			abort();
}
