/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Static probes (USDT) for perf, bpftrace and SystemTap, of provider `parkade`.
 *
 * Those that glibc's nptl has keep its names and arguments (glibc's manual, Mutex
 * probes). A probe is one nop instruction and a note in the file, so it is put where a
 * thread waits or wakes another, never on the way of who finds a lock free: there the
 * program's own functions can be probed. Without sys/sdt.h there are none. */
#ifndef PK_PROBE_H
#define PK_PROBE_H

#ifdef HAVE_SYS_SDT_H
#include <sys/sdt.h>
#define PK_PROBE1(name, a) DTRACE_PROBE1(parkade, name, a)
#define PK_PROBE2(name, a, b) DTRACE_PROBE2(parkade, name, a, b)
#define PK_PROBE3(name, a, b, c) DTRACE_PROBE3(parkade, name, a, b, c)
#else
#define PK_PROBE1(name, a) ((void)(a))
#define PK_PROBE2(name, a, b) ((void)(a), (void)(b))
#define PK_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
