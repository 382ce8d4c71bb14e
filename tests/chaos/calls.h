/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Read before each of the library's sources: its system calls go by delays.c, too. */
#include "base/arch/arch.h"

long chaos_syscall(long nr, long a, long b, long c, long d, long e, long f) __attribute__((visibility("hidden")));
#define pk_arch_syscall chaos_syscall
