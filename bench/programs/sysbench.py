# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""sysbench: its own tests of mutexes; `threads' yields while it holds them."""

import common

PACKAGES = "sysbench"
METRIC = "operations/s"
SECONDS = 2
VARIANTS = ("mutex", "threads")
LEAST = {"mutex": 1.5}


def missing():
    return common.lacking("sysbench")


def run(kit, variant):
    if variant == "mutex":
        each = 4000000 // common.THREADS
        out, _ = kit.run(["sysbench", "mutex", f"--threads={common.THREADS}", "--mutex-num=1", f"--mutex-locks={each}",
                          "--mutex-loops=0", "run"])
        return each * common.THREADS, common.number(r"total time: *([\d.]+)s", out)
    out, _ = kit.run(["sysbench", "threads", f"--threads={common.THREADS}", "--thread-locks=1", "--time=2", "run"])
    return common.number(r"total number of events: *(\d+)", out), common.number(r"total time: *([\d.]+)s", out)
