/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Meets the thread of early-waiter.c, which is preloaded. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	int (*meet)(void);
	int result;

	*(void **)&meet = dlsym(RTLD_DEFAULT, "early_meet");
	result = meet ? meet() : 1;
	printf("meet: %d\n", result);
	fflush(stdout);
	_exit(result); /* the thread may still be there */
}
