/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads that fetch an algorithm from OpenSSL, again and again: openssl THREADS SECONDS. Its stores have read locks.
 */
#include "client.h"

#include <openssl/evp.h>

uint64_t client_run(int number)
{
	uint64_t n = 0;

	(void)number;
	for (; !client_over(); n++) {
		EVP_MD *md = EVP_MD_fetch(NULL, "SHA2-256", NULL);

		if (!md)
			abort();
		EVP_MD_free(md);
	}
	return n;
}

int main(int argc, char **argv)
{
	return client_main(argc, argv);
}
