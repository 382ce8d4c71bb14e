# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Kyoto Cabinet: its own test of the in-memory databases, all operations mixed or one kind after the other."""

import common

PACKAGES = "kyotocabinet-utils"
METRIC = "operations/s"
SECONDS = 3
VARIANTS = ("wicked", "order")
LEAST = {"wicked": 1.2}


def missing():
    return common.lacking("kccachetest")


def run(kit, variant):
    if variant == "wicked":
        each = 1000000 // common.THREADS
        out, _ = kit.run(["kccachetest", "wicked", "-th", str(common.THREADS), "-it", "1", "-capcnt", "100000",
                          "-bnum", "100000", str(each)])
    else:
        each = 800000 // common.THREADS
        out, _ = kit.run(["kccachetest", "order", "-th", str(common.THREADS), "-rnd", str(each)])
    seconds = sum(float(line.split()[1]) for line in out.splitlines() if line.startswith("time:"))
    return each * common.THREADS, seconds
