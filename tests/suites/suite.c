/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* What all suites share; the contract is in suite.h. */

#include "suite.h"
#include "../without.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const struct kind kinds[KINDS] = {
	{"normal", PTHREAD_MUTEX_NORMAL},
	{"recursive", PTHREAD_MUTEX_RECURSIVE},
	{"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
	{"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
};

void mutex_make(pthread_mutex_t *m, int type)
{
	pthread_mutexattr_t attr;

	MUST(pthread_mutexattr_init(&attr));
	MUST(pthread_mutexattr_settype(&attr, type));
	MUST(pthread_mutex_init(m, &attr));
	MUST(pthread_mutexattr_destroy(&attr));
}

/* ---- the suite ---- */

static const char *bound_policy(void)
{
	const char *(*policy)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "parkade_policy");

	return policy ? policy() : NULL;
}

bool suite_preloaded(void)
{
	return bound_policy() != NULL;
}

bool suite_served(void)
{
	const char *policy = bound_policy();

	return policy && strcmp(policy, "glibc") != 0;
}

int64_t suite_counter(const char *name)
{
	int (*stat)(const char *, uint64_t *) = (int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "parkade_stat");
	const char *policy = bound_policy();
	uint64_t value;

	if (!stat || !suite_served() || strcmp(policy, "word") == 0 || stat(name, &value))
		return -1;
	return (int64_t)value;
}

int64_t suite_entered(void)
{
	return suite_counter("entered");
}

bool suite_shuffles(void)
{
	const char *topology = getenv("PARKADE_TOPOLOGY"), *policy = bound_policy();
	const char *parking = getenv("PARKADE_PARKING");

	/* Who sleeps outside of the queue is not there to be moved. */
	return topology && strstr(topology, "@thread") && policy && strcmp(policy, "shfl") == 0 && parking &&
	       strcmp(parking, "queue") == 0;
}

/* A suite that silently tested glibc would pass: where a preload is asked for, it must be bound, with that policy. */
static bool preload_is_bound(void)
{
	const char *preload = getenv("LD_PRELOAD"), *wanted = getenv("PARKADE_POLICY"), *policy;
	Dl_info where = {0};

	if (!preload || !strstr(preload, "libparkade"))
		return true;
	/* Behind the program, which may have the address of the function in itself. */
	if (!dladdr(dlsym(RTLD_NEXT, "pthread_mutex_lock"), &where) || !strstr(where.dli_fname, "libparkade")) {
		say("libparkade is preloaded, but pthread_mutex_lock is bound to %s",
		    where.dli_fname ? where.dli_fname : "nothing");
		return false;
	}
	policy = bound_policy();
	if (!policy || (wanted && strcmp(wanted, policy) != 0)) {
		say("policy %s wanted, but %s is active", wanted ? wanted : "(default)", policy ? policy : "none");
		return false;
	}
	return true;
}

Suite *suite_make(const char *name)
{
	if (!preload_is_bound())
		exit(EXIT_FAILURE);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* tiny deadlines are meant */
	return suite_create(name);
}

void suite_add(Suite *s, const char *name, const TTest *test, int seconds, int from, int to)
{
	TCase *c;

	if (left_out(name))
		return;
	c = tcase_create(name);
	tcase_set_timeout(c, seconds);
	tcase_add_checked_fixture(c, NULL, assert_no_complaint); /* of every case, whether it asks or not */
	tcase_add_loop_test(c, test, from, to);
	suite_add_tcase(s, c);
}

int suite_run(Suite *s)
{
	SRunner *runner = srunner_create(s);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

uint64_t suite_scale(uint64_t amount)
{
	const char *scale = getenv("SUITE_SCALE");
	uint64_t scaled = amount * (scale ? strtoul(scale, NULL, 10) : 100) / 100;

	return scaled ? scaled : 1;
}

void say(const char *format, ...)
{
	char line[512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (n > (int)sizeof line - 2)
		n = sizeof line - 2;
	line[n++] = '\n';
	if (write(STDOUT_FILENO, line, n) != n)
		_exit(EXIT_FAILURE);
}

/* ---- complaints ---- */

static char complaint[400];
static atomic_int complaints; /* 0 none, 1 being written, 2 readable */

void complain(const char *format, ...)
{
	int none = 0;
	va_list args;

	if (!atomic_compare_exchange_strong(&complaints, &none, 1))
		return;
	va_start(args, format);
	vsnprintf(complaint, sizeof complaint, format, args);
	va_end(args);
	atomic_store(&complaints, 2);
}

bool complained(void)
{
	return atomic_load_explicit(&complaints, memory_order_relaxed) != 0;
}

void assert_no_complaint(void)
{
	if (!complained())
		return;
	while (atomic_load(&complaints) != 2)
		sleep_us(100);
	ck_abort_msg("%s", complaint);
}

bool want_rc(int rc, int wanted, const char *what, int line)
{
	if (rc == wanted)
		return true;
	complain("line %d: %s returned %d (%s), wanted %d", line, what, rc, strerror(rc), wanted);
	return false;
}

/* ---- time ---- */

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct timespec deadline(clockid_t clock, int64_t ns_from_now)
{
	struct timespec t;
	int64_t ns;

	clock_gettime(clock, &t);
	ns = t.tv_nsec + ns_from_now;
	t.tv_sec += ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	if (t.tv_nsec < 0) {
		t.tv_nsec += 1000000000;
		t.tv_sec--;
	}
	return t;
}

void sleep_us(unsigned us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

void spin_ns(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		;
}

/* ---- threads ---- */

enum { STACK = 256 * 1024 };

struct member {
	pthread_t thread;
	struct team *team;
	int index;
};

struct team {
	int size;
	team_body *body;
	void *arg;
	pthread_barrier_t gate;
	struct member member[];
};

pthread_t thread_start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	rc = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	if (rc) { /* nothing can be tested: end the case, also where it is a child's */
		say("pthread_create: %s", strerror(rc));
		_exit(EXIT_FAILURE);
	}
	return thread;
}

static void *member_run(void *arg)
{
	struct member *m = arg;

	pthread_barrier_wait(&m->team->gate);
	m->team->body(m->index, m->team->arg);
	return NULL;
}

struct team *team_start(int size, team_body *body, void *arg)
{
	struct team *t = calloc(1, sizeof *t + size * sizeof t->member[0]);

	t->size = size;
	t->body = body;
	t->arg = arg;
	pthread_barrier_init(&t->gate, NULL, size);
	for (int i = 0; i < size; i++) {
		t->member[i].team = t;
		t->member[i].index = i;
		t->member[i].thread = thread_start(member_run, &t->member[i]);
	}
	return t;
}

pthread_t team_thread(struct team *t, int index)
{
	return t->member[index].thread;
}

void team_join(struct team *t)
{
	for (int i = 0; i < t->size; i++)
		pthread_join(t->member[i].thread, NULL);
	pthread_barrier_destroy(&t->gate);
	free(t);
}

void team_run(int size, team_body *body, void *arg)
{
	team_join(team_start(size, body, arg));
}

void *thread_join(pthread_t thread)
{
	void *value = NULL;

	MUST(pthread_join(thread, &value));
	return value;
}

void let_sleep(void)
{
	sleep_us(60000);
}

void handle_signal(int sig, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

	ck_assert_int_eq(sigaction(sig, &action, NULL), 0);
}

struct servant {
	pthread_t thread;
	sem_t begin, end;
	void (*errand)(void *);
	void *arg;
};

static void sem_down(sem_t *s)
{
	while (sem_wait(s))
		;
}

static void *servant_run(void *arg)
{
	struct servant *s = arg;

	for (;;) {
		sem_down(&s->begin);
		if (!s->errand)
			return NULL;
		s->errand(s->arg);
		sem_post(&s->end);
	}
}

struct servant *servant_hire(void)
{
	struct servant *s = calloc(1, sizeof *s);

	sem_init(&s->begin, 0, 0);
	sem_init(&s->end, 0, 0);
	s->thread = thread_start(servant_run, s);
	return s;
}

void servant_begin(struct servant *s, void (*errand)(void *), void *arg)
{
	s->errand = errand;
	s->arg = arg;
	sem_post(&s->begin);
}

void servant_end(struct servant *s)
{
	sem_down(&s->end);
}

void servant_do(struct servant *s, void (*errand)(void *), void *arg)
{
	servant_begin(s, errand, arg);
	servant_end(s);
}

void servant_dismiss(struct servant *s)
{
	servant_begin(s, NULL, NULL);
	pthread_join(s->thread, NULL);
	sem_destroy(&s->begin);
	sem_destroy(&s->end);
	free(s);
}

bool is_asleep(pid_t tid)
{
	char path[40], text[400], *end;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof text - 1);
		close(fd);
	}
	text[n < 0 ? 0 : n] = 0;
	end = strrchr(text, ')');
	return end && end[1] && end[2] == 'S';
}

struct memory memory_now(void)
{
	struct memory m = {-1, -1};
	char text[4096], *line;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	if ((line = strstr(text, "RssAnon:")))
		m.touched = strtol(line + 8, NULL, 10);
	if ((line = strstr(text, "VmSize:")))
		m.mapped = strtol(line + 7, NULL, 10);
	if (m.touched < 0 || m.mapped < 0)
		complain("/proc/self/status does not say how much memory this process has");
	return m;
}

void child_reap(pid_t child, const char *who)
{
	int status;

	if (child < 0) {
		complain("%s: fork: %s", who, strerror(errno));
		return;
	}
	while (waitpid(child, &status, 0) != child)
		if (errno != EINTR) {
			complain("%s: waitpid: %s", who, strerror(errno));
			return;
		}
	if (WIFSIGNALED(status))
		complain("%s ended by signal %d (%s)", who, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		complain("%s ended with status %d", who, WEXITSTATUS(status));
}

void child_exit(void)
{
	if (!complained())
		_exit(EXIT_SUCCESS);
	while (atomic_load(&complaints) != 2)
		sleep_us(100);
	say("in a child: %s", complaint);
	_exit(EXIT_FAILURE);
}

/* ---- functions ---- */

const struct mutex_api *api_bound(void)
{
	static const struct mutex_api bound = {
		.name = "bound",
		.init = pthread_mutex_init,
		.destroy = pthread_mutex_destroy,
		.lock = pthread_mutex_lock,
		.trylock = pthread_mutex_trylock,
		.timedlock = pthread_mutex_timedlock,
		.clocklock = pthread_mutex_clocklock,
		.unlock = pthread_mutex_unlock,
		.cond_wait = pthread_cond_wait,
		.cond_timedwait = pthread_cond_timedwait,
		.cond_signal = pthread_cond_signal,
		.cond_broadcast = pthread_cond_broadcast,
		.mtx_lock = mtx_lock,
		.mtx_trylock = mtx_trylock,
		.mtx_unlock = mtx_unlock,
	};
	return &bound;
}

/* x86_64 has condition variables of two ABIs, and a plain dlsym may return the old one. */
#ifdef __x86_64__
#define COND_VERSION "GLIBC_2.3.2"
#else
#define COND_VERSION NULL
#endif

/* A handle's search never passes through preloaded objects, so it finds glibc's own definition. */
void *glibc_symbol(const char *name, const char *version)
{
	static const char *const homes[] = {"libpthread.so.0", "libc.so.6"}; /* the first until 2.33 */

	for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
		void *handle = dlopen(homes[i], RTLD_LAZY | RTLD_NOLOAD);
		void *symbol = !handle ? NULL : version ? dlvsym(handle, name, version) : dlsym(handle, name);
		Dl_info where;

		if (symbol && dladdr(symbol, &where) && !strstr(where.dli_fname, "libparkade"))
			return symbol;
	}
	say("glibc's own %s is not to be found", name);
	exit(EXIT_FAILURE);
}

const struct mutex_api *api_glibc(void)
{
	static struct mutex_api glibc;

	if (glibc.name)
		return &glibc;
#define GET(field, name, version) glibc.field = (__typeof__(glibc.field))glibc_symbol(name, version)
	GET(init, "pthread_mutex_init", NULL);
	GET(destroy, "pthread_mutex_destroy", NULL);
	GET(lock, "pthread_mutex_lock", NULL);
	GET(trylock, "pthread_mutex_trylock", NULL);
	GET(timedlock, "pthread_mutex_timedlock", NULL);
	GET(clocklock, "pthread_mutex_clocklock", NULL);
	GET(unlock, "pthread_mutex_unlock", NULL);
	GET(cond_wait, "pthread_cond_wait", COND_VERSION);
	GET(cond_timedwait, "pthread_cond_timedwait", COND_VERSION);
	GET(cond_signal, "pthread_cond_signal", COND_VERSION);
	GET(cond_broadcast, "pthread_cond_broadcast", COND_VERSION);
	GET(mtx_lock, "mtx_lock", NULL);
	GET(mtx_trylock, "mtx_trylock", NULL);
	GET(mtx_unlock, "mtx_unlock", NULL);
#undef GET
	glibc.name = "glibc";
	return &glibc;
}
