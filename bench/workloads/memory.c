/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What locks cost beyond their own bytes: threads contend for one after another of many, and the process is looked at.
 */
#include "bench.h"

enum { ROUNDS = 20 }; /* with each lock */

static const char *const kinds[] = {"mutex", "rwlock", "cond", NULL};
enum { MUTEX, RWLOCK, COND };

static struct object {
	union {
		pthread_mutex_t mutex;
		pthread_rwlock_t rwlock;
		pthread_cond_t cond;
	};
	uint64_t guarded;
} * object;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void use(struct object *o)
{
	switch (bench.kind) {
	case MUTEX:
		pthread_mutex_lock(&o->mutex);
		o->guarded++;
		pthread_mutex_unlock(&o->mutex);
		break;
	case RWLOCK:
		pthread_rwlock_wrlock(&o->rwlock);
		o->guarded++;
		pthread_rwlock_unlock(&o->rwlock);
		break;
	case COND: /* whoever comes first of two waits for the second */
		pthread_mutex_lock(&mutex);
		if (++o->guarded % 2)
			while (o->guarded % 2)
				pthread_cond_wait(&o->cond, &mutex);
		else
			pthread_cond_broadcast(&o->cond);
		pthread_mutex_unlock(&mutex);
		break;
	}
}

static void *run(void *arg)
{
	int rounds = bench.kind == COND ? 1 : ROUNDS;

	for (int i = 0; i < bench.objects; i++)
		for (int n = 0; n < rounds; n++)
			use(&object[i]);
	return arg;
}

static uint64_t play(void)
{
	uint64_t wrong = 0, each = bench.kind == COND ? 2 : 2 * ROUNDS;
	double before;

	object = bench_memory((size_t)bench.objects, sizeof(*object));
	for (int i = 0; i < bench.objects; i++)
		switch (bench.kind) {
		case MUTEX:
			pthread_mutex_init(&object[i].mutex, NULL);
			break;
		case RWLOCK:
			pthread_rwlock_init(&object[i].rwlock, NULL);
			break;
		case COND:
			pthread_cond_init(&object[i].cond, NULL);
			break;
		}
	before = bench_resident();
	bench_begin();
	bench_join(bench_start(2, run), 2);
	bench_rate((double)each * bench.objects);
	bench_put("bytes_per_lock", (bench_resident() - before) / bench.objects);
	for (int i = 0; i < bench.objects; i++)
		wrong += object[i].guarded != each;
	return wrong;
}

const struct workload workload_memory = {
	.name = "memory",
	.what = "two threads contend for one after another of -e locks: the memory that they cost",
	.options = "ek",
	.start = {.objects = 20000},
	.kinds = kinds,
	.play = play,
};
