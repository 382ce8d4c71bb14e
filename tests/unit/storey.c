/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Storeys and bays: claim, share, return, close; a full set; fork; many objects; many sockets and threads at once. And
 * those who sleep there. */
#include "rt/storey.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "rt/park.h"
#include "rt/topology.h"
#include "unit.h"

enum { SOCKETS = 8, OBJECTS = 1000000, THREADS = 16, ROUNDS = 20000, SLEEPERS = 12 };

/* Objects as locks lie in memory; nothing of them is touched. */
static struct {
	char bytes[56];
} objects[OBJECTS];

static unsigned bays_of(unsigned socket, const void *object)
{
	unsigned n = 0;

	for (struct pk_bay *bay = NULL; (bay = pk_bay_next(socket, object, bay));)
		n++;
	return n;
}

static unsigned users_of(const void *object)
{
	unsigned n = 0;

	for (unsigned s = 0; s < SOCKETS; s++)
		for (struct pk_bay *bay = NULL; (bay = pk_bay_next(s, object, bay));)
			n += pk_bay_users(bay, object);
	return n;
}

/* The first comer claims a bay, the others share it, the last one returns it; each socket has its own. */
START_TEST(claim_share_return)
{
	struct pk_bay *mine, *same, *elsewhere;

	ck_assert_ptr_null(pk_bay_next(3, &objects[0], NULL));
	mine = pk_bay_enter(3, &objects[0]);
	ck_assert_ptr_nonnull(mine);
	ck_assert_uint_eq((uintptr_t)mine % PK_CACHE_LINE, 0);
	same = pk_bay_enter(3, &objects[0]);
	ck_assert_ptr_eq(same, mine);
	ck_assert_uint_eq(pk_bay_users(mine, &objects[0]), 2);
	ck_assert_uint_eq(pk_bay_users(mine, &objects[1]), 0);
	elsewhere = pk_bay_enter(7, &objects[0]);
	ck_assert_ptr_ne(elsewhere, mine);
	ck_assert_uint_eq(users_of(&objects[0]), 3);
	ck_assert(pk_bay_leave(mine, &objects[0]));
	ck_assert_uint_eq(bays_of(3, &objects[0]), 1);
	ck_assert(pk_bay_leave(mine, &objects[0]));
	ck_assert_uint_eq(bays_of(3, &objects[0]), 0);
	ck_assert(!pk_bay_leave(mine, &objects[0]));
	ck_assert(pk_bay_leave(elsewhere, &objects[0]));
	ck_assert_uint_eq(users_of(&objects[0]), 0);
}
END_TEST

/* Neighbours of 4 bytes are different objects, and so are addresses that differ in a high bit; a tag in the highest
 * byte is no difference. */
START_TEST(keys)
{
	static const uint64_t base = UINT64_C(0x007f123456789a40);
	static const uint64_t other[] = {4, 8, 56, UINT64_C(1) << 47, UINT64_C(1) << 55};
	struct pk_bay *bay = pk_bay_enter(0, (void *)base);

	for (unsigned i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		ck_assert_uint_eq(pk_bay_users(bay, (void *)(base ^ other[i])), 0);
		ck_assert(!pk_bay_leave(bay, (void *)(base ^ other[i])));
	}
	ck_assert_uint_eq(pk_bay_users(bay, (void *)(base | UINT64_C(0x0b) << 56)), 1);
	ck_assert(pk_bay_leave(bay, (void *)base));
}
END_TEST

/* A set has so many ways; then there is none until one comes back. */
START_TEST(full_set)
{
	const void *there[PK_BAY_WAYS];
	struct pk_bay *bay[PK_BAY_WAYS], *set = NULL;
	unsigned n = 0, refused = 0, i;

	/* Objects of one set: those whose bays lie beside the first one's. */
	for (i = 0; i < OBJECTS && !refused; i++) {
		struct pk_bay *b = pk_bay_enter(0, &objects[i]);

		set = set ? set : b;
		if (b && b >= set && b < set + PK_BAY_WAYS) {
			ck_assert_uint_lt(n, PK_BAY_WAYS);
			there[n] = &objects[i];
			bay[n++] = b;
		} else if (b) {
			ck_assert(pk_bay_leave(b, &objects[i]));
		} else {
			refused = i;
		}
	}
	ck_assert_uint_eq(n, PK_BAY_WAYS);
	ck_assert_uint_ne(refused, 0);
	/* Those who are in may still share. */
	ck_assert_ptr_eq(pk_bay_enter(0, there[1]), bay[1]);
	ck_assert(pk_bay_leave(bay[1], there[1]));
	ck_assert_ptr_null(pk_bay_enter(0, &objects[refused]));
	ck_assert(pk_bay_leave(bay[2], there[2]));
	ck_assert_ptr_eq(pk_bay_enter(0, &objects[refused]), bay[2]);
}
END_TEST

/* So many users, and then another bay. */
START_TEST(many_users)
{
	struct pk_bay *first = pk_bay_enter(0, &objects[0]);

	for (unsigned i = 1; i < PK_BAY_USERS_MAX; i++)
		ck_assert_ptr_eq(pk_bay_enter(0, &objects[0]), first);
	ck_assert_ptr_ne(pk_bay_enter(0, &objects[0]), first);
	ck_assert_uint_eq(bays_of(0, &objects[0]), 2);
	ck_assert_uint_eq(users_of(&objects[0]), PK_BAY_USERS_MAX + 1);
	ck_assert(!pk_bay_close(first, &objects[0], PK_BAY_USERS_MAX - 1));
	ck_assert(pk_bay_close(first, &objects[0], PK_BAY_USERS_MAX));
	ck_assert(!pk_bay_leave(first, &objects[0]));
	ck_assert_uint_eq(users_of(&objects[0]), 1);
}
END_TEST

/* The child of a fork has fresh storeys, and what it inherited cannot be left. */
START_TEST(fork_child)
{
	struct pk_bay *bay = pk_bay_enter(2, &objects[5]);
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		pk_storeys_fork_child();
		_exit(users_of(&objects[5]) || pk_bay_leave(bay, &objects[5]) || !pk_bay_enter(2, &objects[5]));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(users_of(&objects[5]), 1);
}
END_TEST

/* Bytes of anonymous memory; or of all there is, roughly, where the kernel does not tell. (Of what statm says each thread
 * keeps up to 64 pages to itself, or each CPU does, and files' pages come by the dozen.) */
static long resident(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	long total = 0, pages = 0, kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Anonymous: %ld kB", &kib);
	if (f)
		fclose(f);
	if (kib)
		return kib * 1024;
	f = fopen("/proc/self/statm", "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%ld %ld", &total, &pages), 2);
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

/* A million objects, one after the other, on 8 sockets: none is refused, and the tables are all the memory there is. */
START_TEST(million)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)objects + page - 1) / page * page;
	long before;

	/* Where huge pages are for all, what lies beside the objects would bring some of theirs in. */
	ck_assert(!madvise((void *)first, (uintptr_t)(objects + OBJECTS) / page * page - first, MADV_NOHUGEPAGE) ||
		  errno == EINVAL);
	before = resident();
	for (unsigned i = 0; i < OBJECTS; i++) {
		struct pk_bay *bay = pk_bay_enter(i % SOCKETS, &objects[i]);

		ck_assert_ptr_nonnull(bay);
		if (!pk_bay_leave(bay, &objects[i]))
			ck_abort_msg("object %u: lost", i);
	}
	ck_assert_int_le(resident() - before,
			 SOCKETS * PK_BAY_SETS * PK_BAY_WAYS * (long)sizeof(struct pk_bay) + 1024 * 1024);
}
END_TEST

/* Allotted storeys: one after the other, until there is no more. A bay has two contexts; each has a name, is taken when
 * it is neither busy nor has a record, and is its bay's alone. */
START_TEST(contexts)
{
	unsigned first = pk_storeys_allot(3), next = pk_storeys_allot(1);
	struct pk_record *r = pk_record_take();
	struct pk_bay *bay, *other;
	struct pk_waiter *w[3];

	ck_assert_uint_eq(first, PK_SOCKETS_MAX);
	ck_assert_uint_eq(next, first + 3);
	ck_assert_ptr_null(pk_context_nth(0)); /* not mapped */
	pk_incarnation_next();
	bay = pk_bay_enter(first + 1, &objects[0]);
	other = pk_bay_enter(first + 1, &objects[1]);
	ck_assert_ptr_eq(pk_bay_object(bay), &objects[0]);
	for (int i = 0; i < 2; i++)
		w[i] = pk_context_take(first + 1, bay, r);
	w[2] = pk_context_take(first + 1, other, r);
	for (int i = 0; i < 3; i++) {
		ck_assert_ptr_nonnull(w[i]);
		ck_assert_ptr_ne(w[i], w[(i + 1) % 3]);
		ck_assert_uint_eq((uintptr_t)w[i] % PK_CACHE_LINE, 0);
		ck_assert_ptr_eq(pk_waiter_named(pk_waiter_name(w[i])), w[i]);
	}
	ck_assert_ptr_null(pk_context_take(first + 1, bay, r));
	pk_waiter_free(w[1]);
	ck_assert_ptr_null(pk_context_take(first + 1, bay, r)); /* its thread has not come back */
	w[1]->record = NULL;
	ck_assert_ptr_eq(pk_context_take(first + 1, bay, r), w[1]);
	w[0]->record = NULL;
	ck_assert_ptr_null(pk_context_take(first + 1, bay, r)); /* nobody has passed it */
	ck_assert_uint_eq(pk_storeys_allot(PK_STOREYS_MORE), 0);
	ck_assert_uint_ne(pk_storeys_allot(PK_STOREYS_MORE - 4), 0);
	ck_assert_uint_eq(pk_storeys_allot(1), 0);
	/* the last of all names */
	bay = pk_bay_enter(PK_SOCKETS_MAX + PK_STOREYS_MORE - 1, &objects[0]);
	w[0] = pk_context_take(PK_SOCKETS_MAX + PK_STOREYS_MORE - 1, bay, r);
	ck_assert_ptr_eq(pk_waiter_named(pk_waiter_name(w[0])), w[0]);
}
END_TEST

/* No memory for a table: there is no bay, and later, when there is, there is one. */
START_TEST(no_memory)
{
	struct rlimit limit, none;

	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	none = limit;
	none.rlim_cur = 4096;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
	ck_assert_ptr_null(pk_bay_enter(1, &objects[0]));
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_ptr_nonnull(pk_bay_enter(1, &objects[0]));
}
END_TEST

/* Many threads claim, share and return: a bay is never two objects' at once, nobody is lost, all come back. */
static unsigned inside[64][SOCKETS];

static void *come_and_go(void *arg)
{
	uint32_t luck = 7919 * (uint32_t)(1 + (uintptr_t)arg);

	for (int i = 0; i < ROUNDS; i++) {
		unsigned which, socket;
		struct pk_bay *bay;

		luck = luck * 1664525 + 1013904223;
		which = luck >> 26;
		socket = luck >> 20 & 1 ? (luck >> 23) % SOCKETS : 0;
		bay = pk_bay_enter(socket, &objects[which]);
		if (!bay)
			continue;
		pk_add_relaxed(&inside[which][socket], 1);
		if (!pk_bay_users(bay, &objects[which]) || !pk_bay_next(socket, &objects[which], NULL))
			return "the bay is another's";
		if (i % 64 == 0)
			sched_yield();
		pk_sub_relaxed(&inside[which][socket], 1);
		if (!pk_bay_leave(bay, &objects[which]))
			return "a user was lost";
	}
	return NULL;
}

START_TEST(stress)
{
	pthread_t thread[THREADS];
	void *complaint;

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, come_and_go, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(thread[i], &complaint), 0);
		ck_assert_msg(!complaint, "%s", (const char *)complaint);
	}
	for (int i = 0; i < 64; i++)
		ck_assert_uint_eq(users_of(&objects[i]), 0);
}
END_TEST

/* Sleepers on several sockets: a call wakes one on each, and that one the others of its own. */
static int shut = 1, up[SOCKETS];

static void *sleep_in_bay(void *arg)
{
	unsigned socket = (unsigned)(uintptr_t)arg % SOCKETS;
	struct pk_bay *bay = pk_park_enter(socket, &objects[9]);
	unsigned looks = 0;
	bool look;
	uint32_t calls;

	for (calls = pk_park_ready(bay); pk_load_acquire(&shut); calls = pk_park_ready(bay))
		pk_park_sleep(bay, calls, NULL, &looks, &look);
	pk_add_relaxed(&up[socket], 1);
	if (pk_park_leave(bay, &objects[9]))
		while (pk_park_call_some(bay, 2) == 2)
			;
	return NULL;
}

START_TEST(distributed_wake_up)
{
	pthread_t thread[SLEEPERS];
	unsigned bays = 0;

	pk_topology_read("", "8x1");
	for (uintptr_t i = 0; i < SLEEPERS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, sleep_in_bay, (void *)(i % 3)), 0);
	while (users_of(&objects[9]) < SLEEPERS)
		usleep(1000);
	usleep(50000); /* asleep by now */
	pk_store_release(&shut, 0);
	for (unsigned s = 0; s < 3; s++)
		bays += bays_of(s, &objects[9]); /* two for one, if two came first */
	ck_assert_uint_le(bays, 6);
	ck_assert_int_le(pk_park_call(&objects[9]), (int)bays);
	for (int i = 0; i < SLEEPERS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	for (int s = 0; s < 3; s++)
		ck_assert_int_eq(up[s], SLEEPERS / 3);
	ck_assert_uint_eq(users_of(&objects[9]), 0);
	ck_assert_int_eq(pk_park_call(&objects[9]), 0);
}
END_TEST

UNIT("storey", {claim_share_return, 1}, {keys, 1}, {full_set, 1}, {many_users, 1}, {fork_child, 1}, {million, 1},
     {contexts, 1}, {no_memory, 1}, {stress, 3}, {distributed_wake_up, 3})
