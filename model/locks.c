/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Mutexes of every policy, under the checker: pthread_mutex_lock as the library has it, down
 * to the futex call, and unlock.
 *
 * Threads take a mutex, count with it what no atomic access guards, and let it go; who is the
 * last one to have had it frees its memory. At the end it is free, nobody is in a queue, no
 * node is in use, nobody counts as a spinner. */
#include <getopt.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "admit/aux.h"
#include "model/locks.h"
#include "pthread/lot.h"
#include "pthread/mutex.h"
#include "pthread/readers.h"
#include "pthread/turn.h"
#include "rt/config.h"
#include "rt/doze.h"
#include "rt/spin.h"
#include "rt/storey.h"
#include "rt/topology.h"

static pthread_mutex_t mutex PK_ALIGNED(64);
static int inside, users;
struct pk_record *mc_record[MC_THREADS];
unsigned mc_threads = 3;
bool mc_hall;
static const struct mc_kind *kind;
static bool looks, calm;
static const char *policy = "mcs", *topology = "2x4@thread", *places = "", *readers = "auto";

/* ---- time, which stands still ---- */

uint64_t pk_clock_ns(void)
{
	return UINT64_C(1000000000);
}

uint64_t pk_clock_us(void)
{
	return pk_clock_ns() / 1000;
}

uint64_t pk_clock_left_us(clockid_t clock, const struct timespec *abstime)
{
	(void)clock;
	return abstime->tv_sec == MC_SOON;
}

struct timespec pk_clock_after(uint64_t us)
{
	return (struct timespec){1 + (time_t)(us / 1000000), 0};
}

bool pk_clock_passed(clockid_t clock, const struct timespec *abstime)
{
	(void)clock;
	(void)abstime;
	return false;
}

/* ---- the threads ---- */

/* The socket of a thread, in the topology that is the default: it goes by its record's number. */
static unsigned socket_of(unsigned t)
{
	return (t < strlen(places) ? (unsigned)(places[t] - '0') : t) % 2;
}

/* A record for the thread, on the socket that `places` says: topologies with @thread go by its
 * number. */
static struct pk_record *record_for(unsigned t)
{
	struct pk_record *r = pk_record_take();

	while (r->index % pk_sockets != (t < strlen(places) ? (unsigned)(places[t] - '0') : t) % pk_sockets)
		r = pk_record_take();
	return r;
}

static void setup(void)
{
	static const char *const fields[] = {"status", "busy", "next", "hint", "batch", "shuffler", "queue"};
	static const size_t offsets[] = {offsetof(struct pk_waiter, status), offsetof(struct pk_waiter, busy),
					 offsetof(struct pk_waiter, next),   offsetof(struct pk_waiter, hint),
					 offsetof(struct pk_waiter, batch),  offsetof(struct pk_waiter, shuffler),
					 offsetof(struct pk_waiter, queue)};

	pk_config.policy = policy;
	pk_config.levels = "";
	pk_topology_read("", topology);
	if (pk_policy_has_levels(policy))
		pk_levels_read("", "");
	pk_spin_setup();
	pk_lot_setup(pk_config.parking);
	pk_incarnation_setup();
	pk_incarnation_next();
	if (looks)
		pk_doze_setup(pk_turn_look);
	pk_thread_setup(pk_turn_gone);
	pk_policy_select(policy);
	mc_thread_local(&pk_self, sizeof(pk_self));
	pk_readers_setup(readers);
	if (kind->bare) {
		kind->setup();
		return;
	}
	/* Storeys are mapped here, not in a thread. */
	for (unsigned s = 0; s < pk_sockets; s++)
		pk_bay_leave(pk_bay_enter(s, &mutex), &mutex);
	for (unsigned s = 0; s < pk_contexts_known() / (PK_BAYS * PK_BAY_CONTEXTS); s++)
		pk_bay_leave(pk_bay_enter(PK_SOCKETS_MAX + s, &mutex), &mutex);
	for (unsigned t = 0; t < mc_threads; t++) {
		mc_record[t] = record_for(t);
		mc_record[t]->incarnation = pk_incarnation();
		mc_ignore(mc_record[t]->stat, sizeof(mc_record[t]->stat));
		mc_name(mc_record[t], sizeof(*mc_record[t]), "record %u", t);
		mc_watch_record(mc_record[t]);
		for (unsigned n = 0; n < PK_RECORD_NODES; n++)
			for (unsigned f = 0; f < sizeof(offsets) / sizeof(offsets[0]); f++)
				mc_name((char *)&mc_record[t]->node[n] + offsets[f], 4, "node %u.%u's %s", t, n,
					fields[f]);
	}
	kind->setup();
}

static void mutex_setup(void)
{
	struct pk_mutex *m = pk_mutex_of(&mutex);

	mc_name(m, sizeof(*m), "mutex");
	mc_name(&m->lock, 4, "the word");
	mc_name(&m->kind, 8, "the flags");
	mc_name(&m->queue.tail, 8, "tail");
	mc_name(&m->queue.aux, 8, "aux");
	mc_name(&inside, sizeof(inside), "what the mutex guards");
	mc_watch_word(&m->lock);
	mc_watch_bays(&m->queue);
	mc_watch_bays(&m->queue.aux);
	users = (int)mc_threads;
}

static void held_setup(void)
{
	mutex_setup();
	pk_mutex_of(&mutex)->lock = 1;
}

void mc_thread_begin(unsigned t)
{
	pk_self.tid = 100 + (int)t;
	pk_self.record = mc_record[t];
	pk_self.calm = calm ? UINT8_MAX : 0;
}

/* With the mutex held. */
static void work(void)
{
	if (inside++)
		mc_fail("two threads have the mutex");
	inside--;
}

static void let_go(void)
{
	bool last = --users == 0;

	if (pk_mutex_unlock(&mutex))
		mc_fail("unlock fails");
	if (last)
		mc_free(&mutex, sizeof(mutex));
}

static void lock_body(unsigned t)
{
	mc_thread_begin(t);
	if (pk_mutex_lock(&mutex))
		mc_fail("lock fails");
	if (pk_mutex_of(&mutex)->owner != pk_self.tid)
		mc_fail("the owner is not named");
	work();
	let_go();
}

/* Thread 0 has the mutex to begin with, and only lets it go. */
static void held_body(unsigned t)
{
	mc_thread_begin(t);
	if (t > 0 && pk_mutex_lock(&mutex))
		mc_fail("lock fails");
	work();
	let_go();
}

static void twice_body(unsigned t)
{
	mc_thread_begin(t);
	for (int n = 0; n < 2; n++) {
		if (pk_mutex_lock(&mutex))
			mc_fail("lock fails");
		work();
		if (n)
			let_go();
		else
			pk_mutex_unlock(&mutex);
	}
}

/* Thread 1 has a deadline, which may pass. */
static void timed_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};

	if (t != 1) {
		lock_body(t);
		return;
	}
	mc_thread_begin(t);
	if (pk_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon)) {
		mc_reached("a deadline passes");
		pk_mutex_lock(&mutex); /* the same thread, maybe with its first node in the queue still */
	}
	work();
	let_go();
}

static void held_timed_body(unsigned t)
{
	if (t == 1)
		timed_body(t);
	else
		held_body(t);
}

static long futex(int *word, int op, int value)
{
	return pk_arch_syscall(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, value, 0, 0, FUTEX_BITSET_MATCH_ANY);
}

/* Thread 0 is one of glibc's: it knows the word, and no queue. */
static void glibc_body(unsigned t)
{
	int *word = &pk_mutex_of(&mutex)->lock, seen = 0;
	bool last;

	if (t > 0) {
		lock_body(t);
		return;
	}
	if (!pk_cas_acquire(word, &seen, 1))
		while (pk_xchg_acquire(word, 2) != 0)
			futex(word, FUTEX_WAIT_BITSET, 2);
	work();
	last = --users == 0;
	if (pk_xchg_release(word, 0) > 1)
		futex(word, FUTEX_WAKE, 1);
	if (last)
		mc_free(&mutex, sizeof(mutex));
}

/* Thread 0, which has the mutex to begin with, puts another policy in force, as an option that is changed while the
 * process runs (pthread/steer.h); it is one that has to be composed. */
static void changed_setup(void)
{
	held_setup();
	pk_levels_read("", "");
	/* Its storeys, which are not allotted yet: nothing is mapped in a thread. */
	for (unsigned s = 0; s < pk_sockets; s++)
		pk_bay_leave(pk_bay_enter(PK_SOCKETS_MAX + s, &mutex), &mutex);
}

/* The mutex has that policy of its own, which it cannot have yet. */
static void own_setup(void)
{
	changed_setup();
	pk_mutex_of(&mutex)->kind |= (PK_POLICY_c_tkt_tkt + 1) * PK_FLAG_POLICY_ONE;
}

static void changed_body(unsigned t)
{
	if (t == 0) {
		mc_thread_begin(0);
		pk_policy_select("c-tkt-tkt");
	}
	held_body(t);
}

/* Threads come again and again, in one way or another, and not all for as long as it takes. */
static void crowd_body(unsigned t)
{
	const struct timespec soon = {MC_SOON, 0};
	int ret;

	mc_thread_begin(t);
	for (int n = 0; n < MC_ROUNDS; n++) {
		switch (mc_choose(4)) {
		case 0:
			ret = pk_mutex_trylock(&mutex);
			break;
		case 1:
			ret = pk_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon);
			break;
		default:
			ret = pk_mutex_lock(&mutex);
			break;
		}
		if (!ret) {
			work();
			if (pk_mutex_unlock(&mutex))
				mc_fail("unlock fails");
		}
	}
	lock_body(t);
}

void mc_is_idle(const void *object, struct pk_queue *queue)
{
	if (pk_queue_busy(queue))
		mc_fail("somebody is in the queue at the end: %lx, %lx", (long)queue->tail, (long)queue->aux);
	for (unsigned s = 0; s < pk_sockets; s++)
		if (pk_bay_next(s, object, NULL) || pk_bay_next(s, queue, NULL) || pk_bay_next(s, &queue->aux, NULL))
			mc_fail("a bay is in use at the end");
}

static void final(void)
{
	static const char *const names[] = {
#define PK_STAT(name, doc) #name,
#include "rt/stat.def"
#undef PK_STAT
	};

	for (int s = 0; s < PK_STATS; s++)
		if (pk_stat_sum(s))
			mc_reached(names[s]);
	for (unsigned t = 0; t < mc_threads; t++)
		if (mc_record[t] && pk_waiters_idle(mc_record[t]) != PK_RECORD_NODES)
			mc_fail("thread %u has a node in use at the end", t);
	for (unsigned n = 0; n < pk_contexts_known(); n++)
		if (pk_context_nth(n) && (pk_context_nth(n)->busy || pk_context_nth(n)->record))
			mc_fail("a context is in use at the end");
	for (unsigned s = 0; s < pk_sockets; s++)
		if (pk_spinners(s))
			mc_fail("somebody counts as a spinner at the end");
	kind->final();
}

static void mutex_final(void)
{
	struct pk_mutex *m = pk_mutex_of(&mutex);

	if (m->lock)
		mc_fail("the word is %d at the end", m->lock);
	mc_is_idle(m, &m->queue);
	if (m->kind & (PK_FLAG_QUEUE | PK_FLAG_SPINNER))
		mc_fail("a flag is left: %lx", (long)m->kind);
}

/* Who stands still has nothing, as the lock is free: nobody in its queue may need that thread to be woken. (Who sleeps on the
 * lock's word, or waits for a signal that is on its way, may: so it is with glibc.) */
static void apart(void)
{
	for (unsigned t = 0; t < mc_threads && !*kind->word; t++)
		for (unsigned n = 0; n < PK_RECORD_NODES; n++) {
			const uint32_t *status = &mc_record[t]->node[n].status;
			enum pk_state state = pk_state(*status);

			if (mc_sleeps_on(t) == status && (state < PK_BLOCKED || state == PK_HEAD))
				mc_fail("thread %u sleeps in the queue of a free lock, and only one that stands still would wake it", t);
		}
}

/* ---- the program ---- */

static const struct mc_kind kinds[] = {{"lock", mutex_setup, lock_body, mutex_final, MC_ALL},
				       {"held", held_setup, held_body, mutex_final, MC_OTHERS},
				       {"twice", mutex_setup, twice_body, mutex_final, MC_ALL},
				       {"timed", mutex_setup, timed_body, mutex_final, MC_NONE},
				       {"held-timed", held_setup, held_timed_body, mutex_final, MC_NONE},
				       {"changed", changed_setup, changed_body, mutex_final, MC_OTHERS},
				       {"changed-own", own_setup, changed_body, mutex_final, MC_OTHERS},
				       {"glibc", mutex_setup, glibc_body, mutex_final, MC_NONE},
				       {"crowd", mutex_setup, crowd_body, mutex_final, MC_NONE},
				       {NULL, NULL, NULL, NULL, MC_NONE}};

static const struct mc_kind *const tables[] = {kinds, mc_rwlock_kinds, mc_queue_kinds, mc_cond_kinds, mc_record_kinds,
					       mc_trial_kinds};

/* The kind of that name, or null. */
static const struct mc_kind *kind_named(const char *name)
{
	for (unsigned n = 0; n < sizeof(tables) / sizeof(tables[0]); n++)
		for (const struct mc_kind *k = tables[n]; k->name; k++)
			if (!strcmp(k->name, name))
				return k;
	return NULL;
}

/* Threads that do the same on the same socket are alike: no policy goes by their numbers, but
 * for cna, which draws lots with them, and a queue has no place where it would look at all.
 * The impatient and the timed do not come by one way. */
static void find_alike(struct mc_client *client)
{
	unsigned first = (unsigned)kind->alike;

	if (kind->alike == MC_NONE || !strcmp(policy, "cna") || !pk_config.patience || pk_lot_open)
		return;
	for (unsigned t = first; t < mc_threads; t++)
		for (unsigned u = first; u < t; u++)
			if (socket_of(u) == socket_of(t))
				client->after[t] = (uint8_t)(u + 1);
}

static const struct option options[] = {
	{"policy", 1, NULL, 'p'},   {"client", 1, NULL, 'c'},	  {"threads", 1, NULL, 'n'},
	{"topology", 1, NULL, 't'}, {"spin", 1, NULL, 's'},	  {"batch", 1, NULL, 'b'},
	{"patience", 1, NULL, 'i'}, {"parking", 1, NULL, 'k'},	  {"spurious", 1, NULL, 'u'},
	{"states", 1, NULL, 'm'},   {"sc", 0, NULL, 'S'},	  {"append", 0, NULL, 'A'},
	{"places", 1, NULL, 'P'},   {"readers", 1, NULL, 'R'},	  {"weaken", 1, NULL, 'w'},
	{"sites", 0, NULL, 'l'},    {"all-orders", 0, NULL, 'O'}, {"asleep", 0, NULL, 'a'},
	{"survey", 0, NULL, 'y'},   {"timers", 0, NULL, 'T'},	  {"looks", 1, NULL, 'L'},
	{"calm", 0, NULL, 'C'},	    {"reached", 0, NULL, 'r'},	  {"random", 1, NULL, 'x'},
	{"seed", 1, NULL, 'd'},	    {"hall", 0, NULL, 'H'},	  {"help", 0, NULL, 'h'},
	{NULL, 0, NULL, 0}};

static const char usage[] =
	"usage: locks [OPTION]...\n"
	"Explores all executions of a few threads that use one mutex; says which one fails.\n"
	"  --policy NAME     as PARKADE_POLICY (mcs)\n"
	"  --client NAME     what the threads do (lock): see below\n"
	"  --readers MODE    as PARKADE_READERS (auto)\n"
	"  --threads N       (3)\n"
	"  --topology TEXT   as PARKADE_TOPOLOGY (2x4@thread); --parking, --spin (0), --batch (1), --patience (2000)\n"
	"  --places DIGITS   the socket of each thread, as in 011\n"
	"  --spurious N      how often a thread's sleep may end for no reason (0)\n"
	"  --looks N         how often a thread's sleep in a queue may end so that it looks (0)\n"
	"  --calm            who waits for a condition variable sleeps without a timer\n"
	"  --hall            and they sleep together\n"
	"  --timers          a sleep with an end does end, once everybody sleeps\n"
	"  --states N        give up after so many (20000000)\n"
	"  --all-orders      threads that are alike may arrive in any order\n"
	"  --sc              sequential consistency; --append: stores take effect in order\n"
	"  --weaken A:ORDER  the access at this address gets that order, a number; may be repeated\n"
	"  --asleep          before anything else all but thread 0 run, one after the other, each until it sleeps\n"
	"  --random N        so many executions at random only; --seed S: from that one on (0)\n"
	"  --survey          a few executions at random only: which accesses are made\n"
	"  --sites           print the ordered accesses that were made, --reached: the counters that counted\n";

static void help(FILE *out)
{
	fputs(usage, out);
	fputs("Clients:", out);
	for (unsigned n = 0; n < sizeof(tables) / sizeof(tables[0]); n++)
		for (const struct mc_kind *k = tables[n]; k->name; k++)
			fprintf(out, " %s", k->name);
	fputs(".\n", out);
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!*text || *end || n > UINT32_MAX) {
		fprintf(stderr, "locks: '%s' is not a number\n", text);
		exit(2);
	}
	return (unsigned)n;
}

int main(int argc, char **argv)
{
	struct mc_options how = {.states = 20000000};
	struct mc_client client = {0, setup, NULL, final};
	struct mc_result result;
	bool sites = false, reached = false, all_orders = false;
	int o;

	kind = kinds;
	pk_config.spin = 0;
	pk_config.batch = 1;
	pk_config.parking = "auto";
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'p':
			policy = optarg;
			break;
		case 'c':
			kind = kind_named(optarg);
			break;
		case 'n':
			mc_threads = number(optarg);
			break;
		case 't':
			topology = optarg;
			break;
		case 's':
			pk_config.spin = (int)number(optarg);
			break;
		case 'b':
			pk_config.batch = (int)number(optarg);
			break;
		case 'i':
			pk_config.patience = (int)number(optarg);
			break;
		case 'k':
			pk_config.parking = optarg;
			break;
		case 'u':
			how.spurious = number(optarg);
			break;
		case 'L':
			how.looks = number(optarg);
			looks = how.looks;
			break;
		case 'C':
			calm = true;
			break;
		case 'H':
			mc_hall = true;
			break;
		case 'm':
			how.states = number(optarg);
			break;
		case 'T':
			how.timers = true;
			break;
		case 'S':
			how.sc = true;
			break;
		case 'A':
			how.append = true;
			break;
		case 'a':
			how.asleep = true;
			break;
		case 'y':
			how.survey = true;
			break;
		case 'x':
			how.random = number(optarg);
			break;
		case 'd':
			how.seed = number(optarg);
			break;
		case 'O':
			all_orders = true;
			break;
		case 'R':
			readers = optarg;
			break;
		case 'P':
			places = optarg;
			break;
		case 'w':
			mc_weaken(strtoul(optarg, NULL, 16), atoi(strchr(optarg, ':') ? strchr(optarg, ':') + 1 : "0"));
			break;
		case 'l':
			sites = true;
			break;
		case 'r':
			reached = true;
			break;
		case 'h':
			help(stdout);
			return 0;
		default:
			help(stderr);
			return 2;
		}
	}
	if (!kind || !mc_threads || mc_threads > MC_THREADS || optind < argc) {
		help(stderr);
		return 2;
	}
	if (strspn(places, "0123") != strlen(places)) {
		fputs("locks: --places takes a digit for each thread\n", stderr);
		return 2;
	}
	pk_config_batch_given = true;
	client.body = kind->body;
	client.threads = mc_threads;
	client.apart = kind->word && looks ? apart : NULL;
	if (!all_orders && !how.random)
		find_alike(&client);
	__libc_single_threaded = 0;
	mc_explore(&client, &how, &result);
	if (sites)
		mc_print_sites();
	if (reached) {
		mc_print_reached();
		mc_print_arcs();
		mc_print_blocks();
	}
	printf("%s %lu %s %lu steps %lu ends depth %u shared %u%s%s\n", result.failure ? "FAIL" : "ok",
	       result.states, how.random ? "executions" : "states", result.steps, result.ends, result.depth, result.shared,
	       result.failure ? ": " : "",
	       result.failure ? result.failure : "");
	return result.failure ? 1 : 0;
}
