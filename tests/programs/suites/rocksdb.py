# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""RocksDB's db_bench with threads, in orders that leave the same keys behind, which are then counted, with checksums
verified."""

import os
import re

from kit import first_line, lacking

RANK = 10
TITLE = "RocksDB: concurrent writes, compactions, checksums"
PACKAGES = "rocksdb-tools"
SECONDS = 120
COMMON = ["--compression_type=none", "--num=40000", "--value_size=100", "--seed=7", "--write_buffer_size=1000000",
          "--max_background_jobs=4", "--target_file_size_base=1000000", "--verify_checksum=1", "--stats_interval=0"]
RUNS = {"fill": ["fillseq", "--threads=1"], "overwrite": ["overwrite", "--threads=4"],
        "read while writing": ["readwhilewriting", "--threads=4", "--duration=3"], "merge": ["readrandommergerandom", "--threads=4",
                               "--merge_operator=uint64add", "--duration=3", "--value_size=8"],
        "compact": ["compact,verifychecksum", "--threads=1"], "multi read": ["multireadrandom", "--threads=4", "--duration=2"],
        "seek": ["seekrandom", "--threads=4", "--duration=2"],
        "one cache shard": ["readrandom", "--threads=8", "--duration=2", "--cache_numshardbits=0"]}


def missing():
    return lacking("db_bench", "ldb")


def version():
    return first_line("db_bench", "--version")


def run(kit):
    outcomes = {}
    place = os.path.join(kit.place, "db")
    for name, (what, *options) in RUNS.items():
        own = name == "merge"
        where = os.path.join(kit.place, name.replace(" ", "-")) if own else place
        again = [] if own or name == "fill" else ["--use_existing_db=1"]
        result = kit.run(["db_bench", f"--benchmarks={what}", f"--db={where}", *again, *COMMON, *options], 60)
        bad = re.search(r"Corruption|corrupt|failed|RandomTransactionVerify.*(fail|error)", result.out + result.err)
        outcomes[name] = kit.outcome(result, "fail" if bad else "pass")
    result = kit.run(["ldb", f"--db={place}", "scan", "--key_hex", "--no_value"], 60)
    keys = len(re.findall(r"^0x", result.out, re.M))
    outcomes["keys"] = kit.outcome(result, keys) if keys else kit.outcome(result)
    outcomes["consistency"] = kit.outcome(kit.run(["ldb", f"--db={place}", "checkconsistency"], 60))
    return outcomes
