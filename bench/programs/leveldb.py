# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""LevelDB: threads read at random from one database, by a client in C. The papers' readrandom."""

import common

PACKAGES = "libleveldb-dev"
METRIC = "reads/s"
SECONDS = 3


def missing():
    return common.lacking_header("leveldb/c.h")


def prepare(kit):
    common.compile_c(kit, "leveldb", "-lleveldb")


def run(kit, _variant):
    return common.client(kit, "leveldb", common.THREADS, 1.5)
