/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The report at exit: a table on standard error, or a line of JSON at the end of a file, where `parkade stat' finds it.
 * Of a file only addresses are given: names of functions are looked up later, by who has the time.
 *
 * Other threads may go on while this runs. The line goes out by one write, so that processes can share a file; when
 * that comes short (a full disk) the line is cut, and skipped by who reads. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "rt/hush.h"
#include "stats/stats.h"

enum { TOP = 10, PER_RECORD = 4096, HEAD = 16384 };

struct text {
	char *at;
	size_t size, len;
};

static __attribute__((format(printf, 2, 3))) void add(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at + t->len, t->size - t->len, format, args);
	va_end(args);
	if (n > 0)
		t->len = t->len + (size_t)n < t->size ? t->len + (size_t)n : t->size - 1;
}

static void add_quoted(struct text *t, const char *s)
{
	add(t, "\"");
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			add(t, "\\%c", *s);
		else if ((unsigned char)*s < ' ')
			add(t, "\\u%04x", *s);
		else
			add(t, "%c", *s);
	add(t, "\"");
}

/* The record, if it is ready and is a lock's. */
static const struct pk_lock *ready(uint64_t n)
{
	const struct pk_lock *lock = &pk_stats_locks[n];

	return pk_load_acquire(&lock->object) && lock->kind < PK_WATCH_KINDS ? lock : NULL; /* S1 */
}

/* What an empty name stands for: the program itself. */
static const char *file_of(const char *name)
{
	static char path[4096];
	ssize_t n;

	if (*name)
		return name;
	n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	return n > 0 ? path : program_invocation_name;
}

static void add_sites(struct text *t, const struct pk_lock *lock)
{
	const char *file;
	uint64_t offset;

	add(t, "\"sites\":[");
	for (int i = 0; i < PK_STATS_SITES && lock->site[i]; i++) {
		add(t, "%s{\"address\":%" PRIu64, i ? "," : "", lock->site[i]);
		if (pk_sites_place(lock->site[i], &file, &offset)) {
			add(t, ",\"file\":");
			add_quoted(t, file_of(file));
			add(t, ",\"offset\":%" PRIu64, offset);
		}
		add(t, "}");
	}
	add(t, "]");
}

static void add_lock(struct text *t, const struct pk_lock *lock)
{
	const struct pk_levels *levels = pk_stats_host->levels;
	const char *comma = "";

	add(t, "{\"object\":%" PRIu64 ",\"kind\":\"%s\",\"name\":", lock->object, pk_stats_kinds[lock->kind]);
	add_quoted(t, pk_stats_name(lock->object));
	add(t,
	    ",\"got\":%" PRIu64 ",\"late\":%" PRIu64 ",\"wait_ns\":%" PRIu64 ",\"wait_max_ns\":%" PRIu64
	    ",\"turns\":%" PRIu64 ",\"turn_ns\":%" PRIu64 ",\"near\":{",
	    pk_load_relaxed(&lock->got), pk_load_relaxed(&lock->late), pk_load_relaxed(&lock->wait_ns),
	    pk_load_relaxed(&lock->wait_max_ns), pk_load_relaxed(&lock->turns), pk_load_relaxed(&lock->turn_ns));
	for (unsigned i = 0; i < levels->n; i++)
		add(t, "\"%s\":%" PRIu64 ",", pk_stats_host->level_name(levels->kind[i]),
		    pk_load_relaxed(&lock->near[i]));
	add(t, "\"system\":%" PRIu64 "},\"times\":[", pk_load_relaxed(&lock->near[PK_COHORTS]));
	for (int i = 0; i < PK_STATS_TIMES; i++)
		add(t, "%s%" PRIu64, i ? "," : "", pk_load_relaxed(&lock->times[i]));
	add(t, "],\"counters\":{");
	for (int i = 0; i < PK_STATS; i++)
		if (pk_load_relaxed(&lock->gained[i])) {
			add(t, "%s\"%s\":%" PRIu64, comma, pk_stats_host->counters[i],
			    pk_load_relaxed(&lock->gained[i]));
			comma = ",";
		}
	add(t, "},");
	add_sites(t, lock);
	add(t, "}");
}

static uint64_t not_counted(void)
{
	uint64_t used = pk_load_relaxed(&pk_stats_head->used), table = pk_stats_head->table;

	return used > table ? used - table : 0;
}

static bool append(const char *path, const struct text *t)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666), why;
	struct pk_hush h;
	ssize_t n;

	pk_hush_begin(&h);
	n = fd < 0 ? -1 : write(fd, t->at, t->len);
	why = errno;
	pk_hush_end(&h, n < 0 ? why : 0);
	if (fd >= 0)
		close(fd);
	errno = n < 0 ? why : n < (ssize_t)t->len ? ENOSPC : 0;
	return !errno;
}

static void write_file(const char *path)
{
	struct text t = {NULL, HEAD + PER_RECORD * pk_stats_used(), 0};
	const char *comma = "";

	t.at = mmap(NULL, t.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t.at == MAP_FAILED) {
		pk_stats_host->print("parkade: warning: %s: %s: no statistics\n", path, strerror(errno));
		return;
	}
	add(&t, "{\"format\":%d,\"pid\":%d,\"program\":", PK_STATS_FORMAT, (int)getpid());
	add_quoted(&t, program_invocation_short_name);
	add(&t, ",\"policy\":");
	add_quoted(&t, pk_load_relaxed(pk_stats_host->policy));
	add(&t, ",\"not_counted\":%" PRIu64 ",\"locks\":[", not_counted());
	for (uint64_t n = 0; n < pk_stats_used(); n++)
		if (ready(n)) {
			add(&t, "%s", comma);
			add_lock(&t, ready(n));
			comma = ",";
		}
	add(&t, "]}\n");
	if (!append(path, &t))
		pk_stats_host->print("parkade: warning: %s: %s: no statistics\n", path, strerror(errno));
	munmap(t.at, t.size);
}

/* The lock with the longest waits behind `last`, in the order of waits and records. */
static const struct pk_lock *next_below(const struct pk_lock *last)
{
	const struct pk_lock *best = NULL;

	for (uint64_t n = 0; n < pk_stats_used(); n++) {
		const struct pk_lock *lock = ready(n);

		if (lock &&
		    (!last || lock->wait_ns < last->wait_ns || (lock->wait_ns == last->wait_ns && lock > last)) &&
		    (!best || lock->wait_ns > best->wait_ns))
			best = lock;
	}
	return best;
}

static void print_lock(const struct pk_lock *lock)
{
	uint64_t waits = lock->got + lock->late, offset = 0;
	const char *name = pk_stats_name(lock->object), *file = NULL, *base;
	char site[128] = "?";

	if (lock->site[0] && pk_sites_place(lock->site[0], &file, &offset)) {
		file = file_of(file);
		base = strrchr(file, '/');
		snprintf(site, sizeof(site), "%.100s+0x%" PRIx64, base ? base + 1 : file, offset);
	}
	pk_stats_host->print(
		"parkade: stat: %12.3f %9" PRIu64 " %10.2f %10.2f %7" PRIu64 "  %-14s %s%s%#" PRIx64 "%s  %s\n",
		(double)lock->wait_ns / 1e6, waits, (double)lock->wait_ns / 1e3 / (double)(waits ? waits : 1),
		(double)lock->wait_max_ns / 1e3, lock->late, pk_stats_kinds[lock->kind], name, *name ? " (" : "",
		lock->object, *name ? ")" : "", site);
}

static void print_table(void)
{
	const struct pk_lock *lock = NULL;
	uint64_t locks = 0;

	for (uint64_t n = 0; n < pk_stats_used(); n++)
		locks += ready(n) != NULL;
	pk_stats_host->print("parkade: stat: %d %s: policy %s: threads waited for %" PRIu64 " locks\n", (int)getpid(),
			     program_invocation_short_name, pk_load_relaxed(pk_stats_host->policy), locks);
	if (not_counted())
		pk_stats_host->print("parkade: stat: the table was full: %" PRIu64
				     " waits for others are not counted\n",
				     not_counted());
	if (locks)
		pk_stats_host->print("parkade: stat: %12s %9s %10s %10s %7s  %-14s %s\n", "waited ms", "waits",
				     "mean us", "longest us", "late", "kind", "lock  where it was first waited for");
	for (int i = 0; i < TOP && (lock = next_below(lock)); i++)
		print_lock(lock);
}

void pk_stats_report(void)
{
	static const char file[] = "file:";

	if (!strncmp(pk_stats_host->where, file, strlen(file)))
		write_file(pk_stats_host->where + strlen(file));
	else
		print_table();
}
