# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""RocksDB: db_bench reads at random, through a block cache of one shard."""

import common

PACKAGES = "rocksdb-tools"
METRIC = "reads/s"
SECONDS = 2
LEAST = {"": 1.5}
BASE = ["--num=50000", "--compression_type=none"]
EACH = 600000 // common.THREADS


def missing():
    return common.lacking("db_bench")


def prepare(kit):
    kit.run(["db_bench", f"--db={kit.place}/db", "--benchmarks=fillseq", *BASE])


def run(kit, _variant):
    out, _ = kit.run(["db_bench", f"--db={kit.place}/db", "--benchmarks=readrandom", "--use_existing_db=1",
                      f"--threads={common.THREADS}", f"--reads={EACH}", "--cache_numshardbits=0", *BASE])
    return EACH * common.THREADS, EACH * common.THREADS / common.number(r"^readrandom .* (\d+) ops/sec", out)
