# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Python's own tests of what has threads in it."""

import os
import sys
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor

from kit import first_line

RANK = 1
TITLE = "Python: threads, queues, futures, signals, fork, I/O"
PACKAGES = "libpython3-testsuite"
SECONDS = 400
AT_ONCE = 3             # most of them sleep most of the time
EACH = 180

MODULES = ["test_concurrent_futures", "test_threading", "test_thread", "test_threading_local", "test_threadsignals",
           "test_threadedtempfile", "test_threaded_import", "test_queue", "test_sched", "test_fork1", "test_socketserver",
           "test_logging", "test_contextlib_async", "test_asyncio", "test_signal", "test_sqlite3", "test_bufio", "test_gc",
           "test_weakref", "test_functools", "test_context", "test_largefile", "test_multiprocessing_main_handling"]
MORE = ["test_io", "test_subprocess", "test_multiprocessing_fork", "test_multiprocessing_spawn", "test_ssl", "test_socket",
        "test_httpservers", "test_ftplib", "test_urllib2_localnet", "test_faulthandler", "test_tracemalloc"]


def python():
    """The distribution's, as its tests are for it, or the one that runs this."""
    for path in "/usr/bin/python3", sys.executable:
        if os.path.exists(path) and not os.system(f"{path} -c 'import test.test_threading' >/dev/null 2>&1"):
            return path
    return None


def missing():
    return [] if python() else ["test.test_threading"]


def version():
    return first_line(python(), "--version")


def module(kit, name):
    place = os.path.join(kit.place, name)
    os.makedirs(place, exist_ok=True)
    only = [test for test in kit.only or () if test.split(":")[0] == name]
    if kit.only and not only:
        return {}
    matching = [argument for test in only for argument in ("-m", test.split(":", 1)[1])]
    report = os.path.join(place, "report.xml")
    result = kit.run([python(), "-B", "-m", "test", f"--junit-xml={report}", *matching, name], EACH, cwd=place,
                     environment={"TMPDIR": place})
    outcomes = {}
    if os.path.exists(report):
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            outcomes[f"{name}:{case.get('name')}"] = ("fail" if kinds & {"failure", "error"} else
                                                      "skip" if "skipped" in kinds or case.get("result") != "completed"
                                                      else "pass")
    if result.rc == "hung" or not outcomes:
        outcomes[f"{name}:(all)"] = "hung" if result.rc == "hung" else "skip" if result.rc == 0 else "fail"
    return outcomes


def run(kit):
    outcomes = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda name: module(kit, name), MODULES + (MORE if kit.full else [])):
            outcomes.update(found)
    return outcomes
