/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Says which object this program's mutex functions were bound to.
 *
 * Prints two words: the path of the object that pthread_mutex_lock and
 * pthread_mutex_unlock came from ("split" if from two), and the policy that
 * parkade_policy() names ("none" where there is no such function).  The runner
 * asks it in every cell, so that no suite passes on the wrong functions.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *object_of(void *function)
{
	Dl_info info;

	return dladdr(function, &info) ? info.dli_fname : "unknown";
}

int main(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	const char *lock = object_of((void *)pthread_mutex_lock);
	const char *unlock = object_of((void *)pthread_mutex_unlock);
	const char *(*policy)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "parkade_policy");

	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	printf("%s %s\n", strcmp(lock, unlock) ? "split" : lock, policy ? policy() : "none");
	return 0;
}
