# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""SQLite: threads share one connection to a database in memory, by a client in C."""

import common

PACKAGES = "libsqlite3-dev"
METRIC = "look-ups/s"
SECONDS = 2


def missing():
    return common.lacking_header("sqlite3.h")


def prepare(kit):
    common.compile_c(kit, "sqlite", "-lsqlite3")


def run(kit, _variant):
    return common.client(kit, "sqlite", common.THREADS, 1.5)
