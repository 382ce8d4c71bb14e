# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""jemalloc with one arena and no thread caches: threads allocate and free 64 bytes. The papers' mmicro."""

import ctypes.util

import common

PACKAGES = "libjemalloc2"
METRIC = "allocations/s"
SECONDS = 2
LEAST = {"": 1.3}


def missing():
    return common.lacking("cc") + ([] if ctypes.util.find_library("jemalloc") else ["libjemalloc.so.2"])


def prepare(kit):
    common.compile_c(kit, "malloc", "-l:libjemalloc.so.2")


def run(kit, _variant):
    return common.client(kit, "malloc", common.THREADS, 1.5, env={"MALLOC_CONF": "narenas:1,tcache:false"})
