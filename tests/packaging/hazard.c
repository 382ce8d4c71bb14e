/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A program for the hazardous places: counts under a contended mutex, or goes into a sandbox.
 *
 * hazard			counts in 8 threads, prints "bound" if the library is there, "secure" if it runs
 *				with the rights of the file's owner, and "counted"; exit status 0 if the sum is
 *				right
 * hazard COMMAND [ARG]...	executes COMMAND where the system calls are fatal that Debian's unit of
 *				redis-server forbids (SystemCallFilter=~@privileged @resources; the groups are
 *				those of `systemd-analyze syscall-filter')
 *
 * Statically linked it does the same, without the library.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 20000 };

static const int forbidden[] = {
	SYS_chown, SYS_fchown, SYS_fchownat, SYS_lchown, SYS_adjtimex, SYS_clock_adjtime, SYS_clock_settime,
	SYS_settimeofday, SYS_delete_module, SYS_finit_module, SYS_init_module, SYS_ioperm, SYS_iopl, SYS_kexec_load,
	SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_bpf, SYS_capset, SYS_chroot, SYS_fanotify_init,
	SYS_open_by_handle_at, SYS_pivot_root, SYS_quotactl, SYS_setdomainname, SYS_setfsuid, SYS_setfsgid,
	SYS_setgroups, SYS_sethostname, SYS_setresuid, SYS_setreuid, SYS_setuid, SYS_vhangup, /* @privileged */
	SYS_ioprio_set, SYS_mbind, SYS_migrate_pages, SYS_move_pages, SYS_sched_setaffinity, SYS_sched_setattr,
	SYS_sched_setparam, SYS_sched_setscheduler, SYS_set_mempolicy, SYS_setpriority, SYS_setrlimit, /* @resources */
};

/* Weak: it is there only if the library is. */
extern const char *parkade_version(void) __attribute__((weak));

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *count(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		sum++;
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static int sandbox(char **command)
{
	struct sock_filter code[2 * sizeof(forbidden) / sizeof(forbidden[0]) + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	size_t n = 1;
	struct sock_fprog program = {.filter = code};

	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) {
		fprintf(stderr, "hazard: seccomp: %s\n", strerror(errno));
		return 125;
	}
	execvp(command[0], command);
	fprintf(stderr, "hazard: %s: %s\n", command[0], strerror(errno));
	return 127;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];

	if (argc > 1)
		return sandbox(argv + 1);
	if (parkade_version)
		puts("bound");
	if (getauxval(AT_SECURE))
		puts("secure");
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, count, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	puts(sum == (long)THREADS * ROUNDS ? "counted" : "miscounted");
	return sum != (long)THREADS * ROUNDS;
}
