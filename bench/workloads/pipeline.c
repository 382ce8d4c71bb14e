/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A pipeline that makes a mutex and a condition variable for every chunk of its work, and what that costs in memory.
 *
 * Paper: dedup in the ShflLock paper (Kashyap et al., SOSP 2019, section 6.2 and figure 10): it makes 266,000 locks, so
 * the size of a lock shows. Threads in three stages, the last in the order of the chunks: they find their chunk in a
 * table and lock its mutex, hand it on through queues of bounded length, and who comes last waits on the chunk's cond
 * for the stage before. It ends when all chunks are through, not after a time. All of them are destroyed at the end. */
#include "bench.h"

enum { STAGES = 3, ROOM = 256, BYTES = 256 };

struct chunk {
	pthread_mutex_t mutex;
	pthread_cond_t ready;
	int stage; /* that it has passed */
	uint32_t sum;
};

static struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t not_full, not_empty;
	int first, used, writers;
	struct chunk *slot[ROOM];
} queue[STAGES - 1];

static struct chunk *chunks;
static int workers;
static atomic_int next_chunk;
static atomic_ullong passed;

static void put(struct queue *q, struct chunk *c)
{
	pthread_mutex_lock(&q->mutex);
	while (q->used == ROOM)
		pthread_cond_wait(&q->not_full, &q->mutex);
	q->slot[(q->first + q->used++) % ROOM] = c;
	pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->mutex);
}

/* NULL: there are no more. */
static struct chunk *get(struct queue *q)
{
	struct chunk *c = NULL;

	pthread_mutex_lock(&q->mutex);
	while (!q->used && q->writers)
		pthread_cond_wait(&q->not_empty, &q->mutex);
	if (q->used) {
		c = q->slot[q->first];
		q->first = (q->first + 1) % ROOM;
		q->used--;
		pthread_cond_signal(&q->not_full);
	}
	pthread_mutex_unlock(&q->mutex);
	return c;
}

static void leave(struct queue *q)
{
	pthread_mutex_lock(&q->mutex);
	q->writers--;
	pthread_cond_broadcast(&q->not_empty);
	pthread_mutex_unlock(&q->mutex);
}

static void pass(struct chunk *c, int stage)
{
	pthread_mutex_lock(&c->mutex);
	while (c->stage < stage - 1)
		pthread_cond_wait(&c->ready, &c->mutex);
	for (int i = 0; i < BYTES; i++)
		c->sum = c->sum * 31 + (uint32_t)i;
	c->stage = stage;
	pthread_cond_signal(&c->ready);
	pthread_mutex_unlock(&c->mutex);
}

static void *first_stage(void *arg)
{
	int i;

	while ((i = atomic_fetch_add(&next_chunk, 1)) < bench.objects) {
		put(&queue[0], &chunks[i]); /* early: the next stage has to wait for this one at times */
		pass(&chunks[i], 1);
	}
	leave(&queue[0]);
	return arg;
}

static void *second_stage(void *arg)
{
	for (struct chunk *c; (c = get(&queue[0]));) {
		pass(c, 2);
		put(&queue[1], c);
	}
	leave(&queue[1]);
	return arg;
}

static void *third_stage(void *arg)
{
	for (struct chunk *c; (c = get(&queue[1]));) {
		pass(c, 3);
		atomic_fetch_add(&passed, 1);
	}
	return arg;
}

static uint64_t play(void)
{
	void *(*const stage[STAGES])(void *) = {first_stage, second_stage, third_stage};
	pthread_t *id[STAGES];
	double before, after;
	uint64_t wrong = 0;

	workers = (bench.threads + STAGES - 1) / STAGES;
	chunks = bench_memory((size_t)bench.objects, sizeof(*chunks));
	before = bench_resident();
	bench_begin();
	for (int i = 0; i < bench.objects; i++) {
		pthread_mutex_init(&chunks[i].mutex, NULL);
		pthread_cond_init(&chunks[i].ready, NULL);
	}
	for (int i = 0; i < STAGES - 1; i++) {
		queue[i].writers = workers;
		pthread_mutex_init(&queue[i].mutex, NULL);
		pthread_cond_init(&queue[i].not_full, NULL);
		pthread_cond_init(&queue[i].not_empty, NULL);
	}
	for (int i = 0; i < STAGES; i++)
		id[i] = bench_start(workers, stage[i]);
	for (int i = 0; i < STAGES; i++)
		bench_join(id[i], workers);
	after = bench_resident();
	for (int i = 0; i < bench.objects; i++) {
		wrong += chunks[i].stage != STAGES;
		wrong += pthread_cond_destroy(&chunks[i].ready) != 0;
		wrong += pthread_mutex_destroy(&chunks[i].mutex) != 0;
	}
	bench_rate((double)passed);
	/* Of these the objects themselves are not, that were there before; threads are. */
	bench_put("bytes_per_lock", (after - before) / (2.0 * bench.objects));
	bench_put("resident_most", bench_resident_most());
	return wrong + (passed != (uint64_t)bench.objects);
}

const struct workload workload_pipeline = {
	.name = "pipeline",
	.what = "a pipeline that makes a mutex and a cond for each of -e chunks (dedup)",
	.options = "ne",
	.start = {.threads = 6, .objects = 133000},
	.play = play,
};
