/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The key-value map of CNA 7.1.1: 1024 keys, half of them there at first, in an AVL tree under
 * one lock; 80 % look-ups, the rest insertions and removals by halves. Written from that
 * description, and from Knuth's of AVL trees (The Art of Computer Programming, 6.2.3). */
#include <stddef.h>

#include "sim/load.h"

enum { KEYS = 1024 };

/* What is computed between two accesses: branches that are mispredicted, above all. */
enum { PER_NODE = 10, PER_DICE = 100 };

static struct sim_lock shared;
static struct sim_options options;

struct node {
	struct node *child[2];
	int key, height;
	uint64_t value;
} PK_ALIGNED(64);

static struct node nodes[KEYS], *root;
static struct {
	long keys;
} PK_ALIGNED(64) added[4096 * 4];

static int height(const struct node *n)
{
	return n ? n->height : 0;
}

static void measure(struct node *n)
{
	int a = height(n->child[0]), b = height(n->child[1]), h = 1 + (a > b ? a : b);

	if (n->height != h)
		n->height = h;
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

	if (lean < -1 || lean > 1) {
		struct node *c = n->child[side];

		if (height(c->child[!side]) > height(c->child[side]))
			n->child[side] = rotate(c, !side);
		return rotate(n, side);
	}
	measure(n);
	return n;
}

/* Writes only what changes. */
static void link_child(struct node *n, int side, struct node *child)
{
	if (n->child[side] != child)
		n->child[side] = child;
}

static struct node *insert(struct node *n, int key, bool *changed)
{
	int side;

	if (!n) {
		n = &nodes[key];
		n->child[0] = n->child[1] = NULL;
		n->key = key;
		n->height = 1;
		n->value = (uint64_t)key;
		*changed = true;
		return n;
	}
	if (n->key == key)
		return n;
	sim_compute(2 * PER_NODE);
	side = key > n->key;
	link_child(n, side, insert(n->child[side], key, changed));
	return *changed ? balance(n) : n;
}

static struct node *take_first(struct node *n, struct node **first)
{
	if (!n->child[0]) {
		*first = n;
		return n->child[1];
	}
	link_child(n, 0, take_first(n->child[0], first));
	return balance(n);
}

static struct node *removal(struct node *n, int key, bool *changed)
{
	struct node *first, *rest;
	int side;

	if (!n)
		return NULL;
	sim_compute(2 * PER_NODE);
	if (n->key != key) {
		side = key > n->key;
		link_child(n, side, removal(n->child[side], key, changed));
		return *changed ? balance(n) : n;
	}
	*changed = true;
	if (!n->child[1])
		return n->child[0];
	rest = take_first(n->child[1], &first);
	first->child[0] = n->child[0];
	first->child[1] = rest;
	return balance(first);
}

static bool has(int key)
{
	struct node *n = root;

	while (n && n->key != key) {
		sim_compute(PER_NODE);
		n = n->child[key > n->key];
	}
	return n && n->value == (uint64_t)key;
}

static void prepare(const struct sim_options *o)
{
	bool changed;

	options = *o;
	for (int key = 0; key < KEYS; key += 2)
		root = insert(root, key * 7 % KEYS, &changed);
}

static void body(unsigned number)
{
	while (!sim_over()) {
		uint64_t dice = sim_random();
		int key = (int)(dice % KEYS);
		unsigned what = (unsigned)(dice >> 32) % 1000;
		bool changed = false;

		sim_compute(PER_DICE);
		sim_lock(&shared);
		if (what >= options.writes)
			has(key);
		else if (what % 2)
			root = insert(root, key, &changed);
		else
			root = removal(root, key, &changed);
		sim_unlock(&shared);
		if (changed)
			added[number].keys += what % 2 ? 1 : -1;
		sim_op();
		sim_work_for(options.outside);
	}
}

/* How many keys, in order and balanced; -1: not so. */
static long count(const struct node *n, int from, int to)
{
	long a, b;

	if (!n)
		return 0;
	a = count(n->child[0], from, n->key);
	b = count(n->child[1], n->key + 1, to);
	if (a < 0 || b < 0 || n->key < from || n->key >= to || height(n->child[0]) - height(n->child[1]) > 1 ||
	    height(n->child[1]) - height(n->child[0]) > 1)
		return -1;
	return a + b + 1;
}

static const char *check(void)
{
	long sum = KEYS / 2;

	for (unsigned i = 0; i < options.threads; i++)
		sum += added[i].keys;
	return count(root, 0, KEYS) == sum ? NULL : "the tree is damaged";
}

const struct sim_load sim_avl = {
	"avl", "an AVL tree of 1024 keys, --writes permille (200) change it", 0, 200, prepare, body, check, true};
