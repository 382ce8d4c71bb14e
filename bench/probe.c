/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The fairness and locality probe; the contract is in handover.h. */
#include "probe.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

bool handover_init(struct handover *h, int threads)
{
	*h = (struct handover){
		.threads = threads,
		.taken = calloc((size_t)threads, sizeof(*h->taken)),
		.thread = -1,
		.socket = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "parkade_socket"),
	};
	return h->taken;
}

void handover_free(struct handover *h)
{
	free(h->taken);
}

void handover_note(struct handover *h, int thread, unsigned node, uint64_t waited)
{
	bool first = h->thread < 0, other = thread != h->thread, moved = node != h->node;

	h->taken[thread]++;
	if (waited > h->longest)
		h->longest = waited;
	if (!first && other) {
		h->handovers++;
		h->local += !moved;
	}
	if (first || moved) {
		h->runs++;
		h->run = 0;
	}
	if (first || other || moved) {
		h->turns++;
		if (++h->run > h->longest_run)
			h->longest_run = h->run;
	}
	h->thread = thread;
	h->node = node;
}

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

struct handover_figures handover_figures(struct handover *h)
{
	struct handover_figures f = {.handovers = h->handovers, .longest_run = h->longest_run, .longest = h->longest};
	int half = h->threads / 2;
	double busier = 0;

	qsort(h->taken, (size_t)h->threads, sizeof(*h->taken), descending);
	for (int i = 0; i < h->threads; i++) {
		f.acquisitions += h->taken[i];
		busier += i < half ? (double)h->taken[i] : 0;
	}
	if (h->threads % 2)
		busier += (double)h->taken[half] / 2;
	f.least = h->taken[h->threads - 1];
	f.local = h->handovers ? (double)h->local / (double)h->handovers : 0;
	f.fairness = f.acquisitions ? busier / (double)f.acquisitions : 0;
	f.run = h->runs ? (double)h->turns / (double)h->runs : 0;
	return f;
}

unsigned handover_node(const struct handover *h)
{
	unsigned node = 0;

	if (h->socket)
		return h->socket();
	getcpu(NULL, &node);
	return node;
}

uint64_t handover_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
