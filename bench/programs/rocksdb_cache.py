# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""RocksDB: cache_bench looks up and inserts in a cache of one shard, keys skewed."""

import common

PACKAGES = "rocksdb-tools"
METRIC = "operations/s"
SECONDS = 2
EACH = 400000


def missing():
    return common.lacking("cache_bench")


def run(kit, _variant):
    out, err = kit.run(["cache_bench", f"-threads={common.THREADS}", "-num_shard_bits=0", "-skewed=true",
                        "-cache_size=67108864", "-value_bytes=1024", f"-ops_per_thread={EACH}"])
    rate = common.number(r"(?:ops/sec|QPS) *[=:] *(\d+)", out + err)
    return EACH * common.THREADS, EACH * common.THREADS / rate
