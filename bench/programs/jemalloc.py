# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""jemalloc with one arena and no thread caches: threads allocate and free 64 bytes. The papers' mmicro.

jemalloc tries its mutex up to 600 times before it locks it, so it hardly ever waits for one, whosever it is. It can be told to
lock at once (but for one more try)."""

import ctypes.util

import common

PACKAGES = "libjemalloc2"
METRIC = "allocations/s"
SECONDS = 2
VARIANTS = ("one arena", "one arena, no spinning of its own")
LEAST = dict.fromkeys(VARIANTS, 1.3)


def missing():
    return common.lacking("cc") + ([] if ctypes.util.find_library("jemalloc") else ["libjemalloc.so.2"])


def prepare(kit):
    common.compile_c(kit, "malloc", "-l:libjemalloc.so.2")


def run(kit, variant):
    settings = "narenas:1,tcache:false" + (",mutex_max_spin:0" if variant == VARIANTS[1] else "")
    return common.client(kit, "malloc", common.THREADS, 1.5, env={"MALLOC_CONF": settings})
