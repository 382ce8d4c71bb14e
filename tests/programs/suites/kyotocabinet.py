# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Kyoto Cabinet's own tests, which check what they find: rwlocks, spin locks, condition variables, and unlocks that are
not nested."""

import os

from kit import first_line, lacking

RANK = 8
TITLE = "Kyoto Cabinet: its own tests, 4 threads"
PACKAGES = "kyotocabinet-utils"
SECONDS = 200
TESTS = {
    "utilities mutex": ["kcutiltest", "mutex", "-th", "4", "-iv", "-1", "100"],
    "utilities condition": ["kcutiltest", "cond", "-th", "4", "-iv", "0", "200"],
    "utilities threads": ["kcutiltest", "para", "-th", "4", "4000"],
    "cache order": ["kccachetest", "order", "-th", "4", "-rnd", "20000"],
    "cache wicked": ["kccachetest", "wicked", "-th", "4", "-it", "2", "20000"],
    "cache transactions": ["kccachetest", "tran", "-th", "4", "2000"],
    "cache queue": ["kccachetest", "queue", "-th", "4", "-it", "2", "20000"],
    "stash order": ["kcstashtest", "order", "-th", "4", "-rnd", "20000"],
    "stash wicked": ["kcstashtest", "wicked", "-th", "4", "-it", "2", "20000"],
    "stash transactions": ["kcstashtest", "tran", "-th", "4", "-it", "2", "2000"],
    "grass wicked": ["kcgrasstest", "wicked", "-th", "4", "-it", "2", "10000"],
    "grass transactions": ["kcgrasstest", "tran", "-th", "4", "-it", "2", "2000"],
    "prototype order": ["kcprototest", "order", "-th", "4", "-rnd", "20000"],
    "prototype wicked": ["kcprototest", "wicked", "-th", "4", "-it", "2", "20000"],
    "hash order": ["kchashtest", "order", "-th", "4", "-rnd", "FILE", "10000"],
    "hash wicked": ["kchashtest", "wicked", "-th", "4", "-it", "2", "FILE", "5000"],
    "hash transactions": ["kchashtest", "tran", "-th", "2", "-it", "2", "FILE", "500"],
    "tree order": ["kctreetest", "order", "-th", "4", "-rnd", "FILE", "10000"],
    "tree wicked": ["kctreetest", "wicked", "-th", "4", "-it", "2", "FILE", "5000"],
    "directory wicked": ["kcdirtest", "wicked", "-th", "4", "FILE", "200"],
    "forest order": ["kcforesttest", "order", "-th", "4", "FILE", "1000"],
    "forest wicked": ["kcforesttest", "wicked", "-th", "4", "FILE", "300"],
    "any: order": ["kcpolytest", "order", "-th", "4", "-rnd", "FILE.kct", "5000"],
}


def missing():
    return lacking("kccachetest", "kchashtest")


def version():
    return first_line("kcutilmgr", "version")


def run(kit):
    outcomes = {}
    for n, (name, argv) in enumerate(TESTS.items()):
        if kit.wants(name):
            path = os.path.join(kit.place, f"test{n}")
            result = kit.run([argument.replace("FILE", path) for argument in argv], 60)
            wrong = sum("error" in line for line in result.out.splitlines())
            outcomes[name] = kit.outcome(result, "pass" if result.out.rstrip().endswith("ok") and not wrong else "fail")
    return outcomes
