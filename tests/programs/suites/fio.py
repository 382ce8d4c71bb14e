# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""fio with threads that verify what they have written."""

import json
import os

from kit import first_line, lacking

RANK = 12
TITLE = "fio --verify, threads"
PACKAGES = "fio"
SECONDS = 90
JOBS = {f"{engine} {how} {verify}": [f"--ioengine={engine}", f"--rw={how}", f"--verify={verify}"]
        for engine in ("psync", "posixaio", "mmap", "sync", "libaio")
        for how, verify in (("randwrite", "crc32c"), ("write", "sha256"), ("randrw", "xxhash"))}


def missing():
    return lacking("fio")


def version():
    return first_line("fio", "--version", pattern=r"\d+\.\d+")


def run(kit):
    outcomes = {}
    for n, (name, options) in enumerate(JOBS.items()):
        if kit.wants(name):
            place = os.path.join(kit.place, str(n))
            os.mkdir(place)
            result = kit.run(["fio", "--name=job", f"--directory={place}", "--thread", "--numjobs=4", "--size=1m", "--bs=4k",
                              "--iodepth=8", "--verify_fatal=1", "--do_verify=1", "--verify_async=2", "--fallocate=none",
                              "--group_reporting", "--output-format=json", *options], 40)
            try:
                report = json.loads(result.out[result.out.index("{"):])
                wrong = sum(job["error"] for job in report["jobs"])
                written = sum(job["write"]["total_ios"] for job in report["jobs"]) if "rand" not in name else ""
                outcomes[name] = kit.outcome(result, wrong, written)
            except (ValueError, KeyError):
                outcomes[name] = kit.outcome(result, "fail")
    return outcomes
