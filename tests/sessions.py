# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""How what a test has started is killed: for the runner, and for the tests that start programs themselves."""

import os
import signal
import time


def processes():
    """{number: (parent, session)} of all that run; zombies do not."""
    table = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="latin-1") as stat:
                state, parent, _, session = stat.read().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue            # it ended meanwhile
        if state not in "ZX":
            table[int(name)] = int(parent), int(session)
    return table


def kill_session(leader):
    """Kill all that still runs in a session, and in those that its processes have begun.

    The process group is not enough: Check gives each test a group of its own; nor is the session: a test that is killed
    may be a script that has its programs in sessions of their own, to kill them in the same way; nor to look once: Check
    begins the next test meanwhile.
    """
    sessions, doomed, hopeless = {leader}, {leader}, time.monotonic() + 10
    while doomed and time.monotonic() < hopeless:
        table, doomed, more = processes(), set(), True
        while more:
            more = {pid for pid, (parent, session) in table.items() if session in sessions or parent in doomed} - doomed
            doomed |= more
            sessions |= {table[pid][1] for pid in more}
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if doomed:
            time.sleep(0.01)    # until they are gone
