/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Contend on one mutex, perhaps after having put the process into a state in which little is left to it.
 *
 * contend [-t THREADS] [-n ROUNDS] [-p] [STATE]...
 *
 * Prints the number of sections that ran (and first the library's policy with -p) and exits 0 when the mutex kept
 * them apart and, with more than one thread, was really contended; 77 when a state is not permitted here.  The
 * section reads, yields and writes, so that a second thread inside costs an update.  Nothing is allocated and no
 * file is opened once the states are entered: what fails then is the library's doing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_THREADS 512
#define STACK_BYTES (64 * 1024)
#define PATIENCE 10000000 /* yields: seconds */
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t ready, start;
static long threads = 8, rounds = 2000;
static long total, contended;
static int leave_by_exit, fork_first;

static void die(const char *what)
{
	dprintf(2, "contend: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static void refuse_here(const char *what)
{
	dprintf(2, "contend: not permitted here: %s: %s\n", what, strerror(errno));
	_exit(77);
}

static void *work(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&start);
	for (long i = 0; i < rounds; i++) {
		if (i % 2 == 1) {
			pthread_mutex_lock(&mutex);
		} else if (pthread_mutex_trylock(&mutex) != 0) {
			__atomic_fetch_add(&contended, 1, __ATOMIC_RELAXED);
			pthread_mutex_lock(&mutex);
		}
		long before = *(volatile long *)&total;
		if (i % 4 == 0)
			sched_yield();
		*(volatile long *)&total = before + 1;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

/* No more memory can be mapped, and this is tried. */
static void state_rlimit(void)
{
	char buffer[64] = "";
	FILE *statm = fopen("/proc/self/statm", "r");
	if (!statm || !fgets(buffer, sizeof buffer, statm))
		die("/proc/self/statm");
	fclose(statm);
	rlim_t now = strtoull(buffer, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
	struct rlimit limit = {now, now};
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		die("setrlimit");
	/* A page may have been freed since it was counted: take it. */
	while (mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		;
}

/* Filters: the listed system calls have one result, all others the other. */
static void filter(const int *calls, size_t count, unsigned int listed, unsigned int others)
{
	struct sock_filter code[2 * 64 + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	size_t n = 1;
	for (size_t i = 0; i < count; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)calls[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
	struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		refuse_here("PR_SET_NO_NEW_PRIVS");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		refuse_here("seccomp");
}

/* What a library may like to ask the machine about itself, and a sandbox likes to forbid. */
static const int curious[] = {
#ifdef SYS_open
	SYS_open,
	SYS_stat,
	SYS_access,
	SYS_readlink,
	SYS_getdents,
#endif
	SYS_openat,
	SYS_newfstatat,
	SYS_statx,
	SYS_faccessat,
	SYS_readlinkat,
	SYS_getdents64,
	SYS_read,
	SYS_pread64,
	SYS_set_mempolicy,
	SYS_get_mempolicy,
	SYS_mbind,
	SYS_move_pages,
	SYS_sched_getaffinity,
	SYS_membarrier,
	SYS_getcpu,
	SYS_prctl,
	SYS_sysinfo,
	SYS_uname,
	SYS_getrandom,
	SYS_prlimit64,
	SYS_madvise,
};

static void state_eperm(void)
{
	filter(curious, LENGTH(curious), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
}

/* What hardened services are killed for. */
static const int deadly[] = {
#ifdef SYS_open
	SYS_open,
#endif
	SYS_openat,
	SYS_set_mempolicy,
	SYS_get_mempolicy,
	SYS_mbind,
	SYS_move_pages,
	SYS_sched_getaffinity,
	SYS_sched_setaffinity,
	SYS_prlimit64,
	SYS_membarrier,
	SYS_getcpu,
};

static void state_kill(void)
{
	filter(deadly, LENGTH(deadly), SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
}

/* What this very program needs on glibc; the rest of the system does not exist. */
static const int needed[] = {
	SYS_futex,  SYS_sched_yield, SYS_write,	 SYS_exit,	     SYS_exit_group,   SYS_munmap,	    SYS_madvise,
	SYS_gettid, SYS_getpid,	     SYS_tgkill, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_lseek,
};

static void state_only(void)
{
	filter(needed, LENGTH(needed), SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | ENOSYS);
}

/* An empty root: no /sys, no /proc, no files. */
static void state_chroot(void)
{
	const char *parent = getenv("TMPDIR");
	char directory[4096];
	snprintf(directory, sizeof directory, "%s/contend-XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(directory))
		die("mkdtemp");
	int refused = chroot(directory) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(directory) != 0);
	int reason = errno;
	/* Once inside, we cannot remove the directory: whoever started us does. */
	if (refused) {
		rmdir(directory);
		errno = reason;
		refuse_here("chroot");
	}
	if (chdir("/") != 0 || access("/sys", F_OK) == 0)
		die("the new root");
}

static void state_clearenv(void)
{
	clearenv();
}

static void state_closed(void)
{
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
}

/* The process ends without any destructor. */
static void state_exit(void)
{
	leave_by_exit = 1;
}

/* A child does the same before us. */
static void state_fork(void)
{
	fork_first = 1;
}

static const struct state {
	const char *name;
	void (*enter)(void);
	int early; /* before the threads are made */
} states[] = {
	{"chroot", state_chroot, 1}, {"clearenv", state_clearenv, 1}, {"closed", state_closed, 1},
	{"_exit", state_exit, 1},    {"fork", state_fork, 1},	      {"rlimit", state_rlimit, 0},
	{"eperm", state_eperm, 0},   {"kill", state_kill, 0},	      {"only", state_only, 0},
};

static void enter_states(char **names, int early)
{
	for (; *names; names++) {
		const struct state *state = NULL;
		for (size_t i = 0; i < LENGTH(states); i++)
			if (strcmp(*names, states[i].name) == 0)
				state = &states[i];
		if (!state) {
			dprintf(2, "contend: no such state: %s\n", *names);
			_exit(2);
		}
		if (state->early == early)
			state->enter();
	}
}

static void print_policy(void)
{
	const char *(*policy)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "parkade_policy");
	dprintf(1, "%s\n", policy ? policy() : "none");
}

static int contend(char **names)
{
	static pthread_t id[MAX_THREADS];
	pthread_attr_t small;
	pthread_attr_init(&small);
	if (pthread_attr_setstacksize(&small, STACK_BYTES) != 0)
		die("stack size");
	pthread_barrier_init(&ready, NULL, (unsigned int)threads + 1);
	pthread_barrier_init(&start, NULL, (unsigned int)threads + 1);
	for (long i = 0; i < threads; i++)
		if ((errno = pthread_create(&id[i], &small, work, NULL)) != 0)
			die("pthread_create");
	pthread_barrier_wait(&ready); /* a thread that still starts up needs more than the states leave */
	enter_states(names, 0);
	if (threads == 1) {
		pthread_barrier_wait(&start);
	} else {
		/* On a busy machine the threads may run one after the other: one of them has to meet a holder. */
		pthread_mutex_lock(&mutex);
		pthread_barrier_wait(&start);
		for (long i = 0; i < PATIENCE && __atomic_load_n(&contended, __ATOMIC_RELAXED) == 0; i++)
			sched_yield();
		pthread_mutex_unlock(&mutex);
	}
	for (long i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	dprintf(1, "%ld\n", total);
	if (total != threads * rounds) {
		dprintf(2, "contend: %ld sections ran, %ld updates left\n", threads * rounds, total);
		return 1;
	}
	if (threads > 1 && contended == 0) {
		dprintf(2, "contend: never contended, nothing was tested\n");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	for (int option; (option = getopt(argc, argv, "t:n:p")) != -1;) {
		if (option == 't')
			threads = atol(optarg);
		else if (option == 'n')
			rounds = atol(optarg);
		else if (option == 'p')
			print_policy();
		else
			return 2;
	}
	if (threads < 1 || threads > MAX_THREADS)
		return 2;
	enter_states(argv + optind, 1);
	if (fork_first) {
		pid_t child = fork();
		int status = -1;
		if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
			return 3;
	}
	int result = contend(argv + optind);
	if (leave_by_exit)
		_exit(result);
	return result;
}
