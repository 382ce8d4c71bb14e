/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that allocate and free: malloc THREADS SECONDS. Linked with the allocator that is looked at. */
#include "client.h"

#include <string.h>

enum { BYTES = 64, KEPT = 16 };

uint64_t client_run(int number)
{
	void *kept[KEPT] = {0};
	uint64_t n = 0;

	for (; !client_over(); n++) {
		void **p = &kept[n % KEPT];

		free(*p);
		*p = malloc(BYTES);
		if (!*p)
			abort();
		memset(*p, number, BYTES);
	}
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
	return n;
}

int main(int argc, char **argv)
{
	return client_main(argc, argv);
}
