# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""stress-ng's stressors of locks, threads and their kin, each with --verify for a number of operations."""

from concurrent.futures import ThreadPoolExecutor

from kit import first_line, lacking

RANK = 5
TITLE = "stress-ng --verify"
PACKAGES = "stress-ng"
SECONDS = 240
EACH = 2                # seconds of a stressor
# Not those that fork all the time (fork, vfork, daemon, zombie, clone): they take the machine's processes from others.
STRESSORS = ["mutex", "pthread", "futex", "sem", "sem-sysv", "mq", "peterson", "dekker", "membarrier", "rseq", "timer",
             "timerfd", "signal", "sigq", "nanosleep", "clock", "switch", "yield", "poll", "pipe", "eventfd", "epoll", "aio",
             "malloc", "mmap", "msg", "shm", "tee", "prctl", "atomic", "lockf", "flock", "sock", "sigsuspend", "tsearch",
             "hsearch", "qsort", "zlib", "mcontend", "schedpolicy", "hrtimers", "set"]


def missing():
    return lacking("stress-ng")


def version():
    return first_line("stress-ng", "--version")


def one(kit, name):
    result = kit.run(["stress-ng", f"--{name}", "2", "--verify", "--timeout", f"{EACH}s", "--temp-path", kit.place,
                      "--oom-avoid"], EACH + 60)
    said = result.out + result.err
    if result.rc == 2 or "unrecognized option" in said or "skipped" in said and "passed" not in said:
        return "skip"
    return kit.outcome(result)


def run(kit):
    names = [name for name in STRESSORS if kit.wants(name)]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(lambda name: one(kit, name), names)))
