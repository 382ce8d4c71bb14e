/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* A key-value map, an AVL tree behind one mutex, looked up and changed.
 *
 * Paper: Dice and Kogan, EuroSys 2019, section 7.1.1: 1024 keys, of which half are in the map, and four look-ups for an
 * insertion or a removal, with and without work outside.
 *
 * Every key has its node from the start. The tree is walked by recursion: it is never deeper than 1.44 log2 of its
 * nodes, and a lock that is broken cannot make it deeper than DEEPEST. */
#include "bench.h"

enum { DEEPEST = 64 };

struct node {
	struct node *child[2];
	uint32_t key;
	int height;
	uint64_t value;
};

static pthread_mutex_t mutex __attribute__((aligned(BENCH_LINE))) = PTHREAD_MUTEX_INITIALIZER;
static struct node *root __attribute__((aligned(BENCH_LINE))), *nodes;
static uint64_t outside;

static int height(const struct node *n)
{
	return n ? n->height : 0;
}

static void measure(struct node *n)
{
	int left = height(n->child[0]), right = height(n->child[1]);

	n->height = 1 + (left > right ? left : right);
}

/* The child on that side goes up. */
static struct node *rotate(struct node *n, int side)
{
	struct node *up = n->child[side];

	n->child[side] = up->child[!side];
	up->child[!side] = n;
	measure(n);
	measure(up);
	return up;
}

static struct node *balance(struct node *n)
{
	int lean = height(n->child[1]) - height(n->child[0]), side = lean > 0;
	struct node *heavy = n->child[side];

	measure(n);
	if (lean >= -1 && lean <= 1)
		return n;
	if (height(heavy->child[!side]) > height(heavy->child[side]))
		n->child[side] = rotate(heavy, !side);
	return rotate(n, side);
}

static struct node *insert(struct node *n, struct node *new, int depth)
{
	int side;

	if (!n || n->key == new->key || depth == DEEPEST)
		return n ? n : new;
	side = new->key > n->key;
	n->child[side] = insert(n->child[side], new, depth + 1);
	return balance(n);
}

/* The tree without its least node, which goes to *least. */
static struct node *take_least(struct node *n, struct node **least, int depth)
{
	if (!n->child[0] || depth == DEEPEST) {
		*least = n;
		return n->child[1];
	}
	n->child[0] = take_least(n->child[0], least, depth + 1);
	return balance(n);
}

static struct node *take(struct node *n, uint32_t key, bool *found, int depth)
{
	struct node *left, *right, *least;
	int side;

	if (!n || depth == DEEPEST)
		return n;
	if (n->key != key) {
		side = key > n->key;
		n->child[side] = take(n->child[side], key, found, depth + 1);
		return balance(n);
	}
	*found = true;
	left = n->child[0];
	right = n->child[1];
	if (!right)
		return left;
	right = take_least(right, &least, depth + 1);
	least->child[0] = left;
	least->child[1] = right;
	return balance(least);
}

static bool look_up(uint32_t key)
{
	const struct node *n = root;

	for (int depth = 0; n && n->key != key && depth < DEEPEST; depth++)
		n = n->child[key > n->key];
	return n && n->value == key;
}

static bool add(uint32_t key)
{
	struct node *new = &nodes[key];

	if (look_up(key))
		return false;
	*new = (struct node){.key = key, .height = 1, .value = key};
	root = insert(root, new, 0);
	return true;
}

static void run(struct worker *w)
{
	for (; !bench_over(); w->done++) {
		uint64_t random = bench_random(&w->random);
		uint32_t key = bench_below((uint32_t)random, bench.objects);
		bool write = bench_below((uint32_t)(random >> 32), 100) < (uint32_t)bench.writes, found = false;

		bench_wait_begins(w);
		w->wrong += pthread_mutex_lock(&mutex) != 0;
		bench_wait_ends(w);
		if (!write) {
			look_up(key);
		} else if (random >> 16 & 1) {
			w->added += add(key);
		} else {
			root = take(root, key, &found, 0);
			w->added -= found;
		}
		w->wrong += pthread_mutex_unlock(&mutex) != 0;
		bench_work(outside);
	}
}

static uint64_t play(void)
{
	int64_t entries = 0, before = (bench.objects + 1) / 2;
	struct worker sum;

	nodes = bench_memory((size_t)bench.objects, sizeof(*nodes));
	for (uint32_t key = 0; key < (uint32_t)bench.objects; key += 2)
		add(key);
	outside = bench_rounds(bench.outside);
	sum = bench_contend(run);
	for (uint32_t key = 0; key < (uint32_t)bench.objects; key++)
		entries += look_up(key);
	return sum.wrong + (entries != before + sum.added);
}

const struct workload workload_avl = {
	.name = "avl",
	.what = "a key-value map, an AVL tree behind one mutex",
	.options = "nowe",
	.start = {.threads = 4, .writes = 20, .objects = 1024},
	.play = play,
};
