# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What a suite of tests/programs has to offer, and what it gets.

A suite is a module with

    RANK        the order in which they are run
    TITLE       what it is, as in the table
    PACKAGES    Debian's, that it needs
    SECONDS     how long one run may take at most; what runs then is killed
    missing()   the programs that are not installed
    version()   of what is tested
    run(kit)    {test: outcome}; with kit.only, of at least these tests

Outcomes are words: "pass", "skip", "fail", "hung" (it was killed), or what was found out, where the other side must find
out the same.  Only what kit.run and kit.server start has the library, never the driver.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
SRCDIR = os.environ.get("PARKADE_SRCDIR", os.path.join(HERE, "..", ".."))
BUILDDIR = os.environ.get("PARKADE_BUILDDIR", os.getcwd())
LIBRARY = os.environ.get("PARKADE_LIB", os.path.join(BUILDDIR, "lib", ".libs", "libparkade.so.1"))
sys.path.append(os.path.join(SRCDIR, "tests"))
from sessions import kill_session  # noqa: E402: it is found there

START = 30              # seconds that a server may take to start or to end


def lacking(*names):
    return [name for name in names if not shutil.which(name)]


def first_line(*argv, pattern=r"\d+(?:\.\d+)+[\w.-]*"):
    """The version in what a program says."""
    try:
        result = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20,
                                check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = re.search(pattern, result.stdout.decode("utf-8", "replace"))
    return found[0] if found else "?"


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


class Kit:
    def __init__(self, place, library, policy, seconds, only, full):
        self.place, self.library, self.policy, self.only, self.full = place, library, policy, only, full
        self.end_of_time = time.monotonic() + seconds
        self.said = []          # last lines, to be shown if something differs
        self.running = set()
        self.cut = False        # the suite may say that its time was over: what is absent is not compared

    def wants(self, test):
        return not self.only or test in self.only

    def preload(self):
        """What the environment needs for the library."""
        settings = {"LD_PRELOAD": self.library} if self.library else {}
        return {**settings, "PARKADE_POLICY": self.policy} if self.library and self.policy else settings

    def environment(self, more, preloaded=True):
        env = {key: os.environ[key] for key in ("PATH",) if key in os.environ}
        return {**env, "HOME": self.place, "TMPDIR": self.place, "LC_ALL": "C.UTF-8",
                **(self.preload() if preloaded else {}), **(more or {})}

    def run(self, argv, seconds=None, preloaded=True, environment=None, cwd=None, text=None, user=None):
        """Run it to its end; .rc is its status, or "hung", .out and .err text, .data what it printed in bytes."""
        left = max(1.0, self.end_of_time - time.monotonic())
        child = subprocess.Popen(argv, env=self.environment(environment, preloaded), cwd=cwd or self.place,
                                 stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, user=user,
                                 group=user, extra_groups=[] if user is not None else None)
        self.running.add(child.pid)
        try:
            out, err = child.communicate(text.encode() if text is not None else None, min(left, seconds or left))
            rc = child.returncode
        except subprocess.TimeoutExpired:
            kill_session(child.pid)
            out, err = child.communicate()
            rc = "hung"
        finally:
            kill_session(child.pid)
            self.running.discard(child.pid)
        result = SimpleNamespace(rc=rc, data=out, out=out.decode("utf-8", "replace"), err=err.decode("utf-8", "replace"))
        if "cannot be preloaded" in result.err:
            result.rc = "not preloaded"
        self.said = [f"{os.path.basename(argv[0])}: {rc}", *result.out.splitlines()[-8:], *result.err.splitlines()[-8:]]
        return result

    def outcome(self, result, *found):
        """The word for a program's end: what it found, where its status is 0."""
        if result.rc == "hung":
            return "hung"
        return "fail" if result.rc != 0 else " ".join(map(str, found)) or "pass"

    @contextlib.contextmanager
    def server(self, argv, is_up, stop=signal.SIGTERM, user=None, environment=None):
        """A server that runs while the block does; is_up() says when it can be used.  Yields what becomes its status."""
        end = SimpleNamespace(rc=None)
        log = os.path.join(self.place, "server.log")
        with open(log, "ab") as out:
            child = subprocess.Popen(argv, env=self.environment(environment), cwd=self.place, stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=out, start_new_session=True, user=user, group=user,
                                     extra_groups=[] if user is not None else None)
        self.running.add(child.pid)
        try:
            start = time.monotonic()
            while not is_up() and child.poll() is None and time.monotonic() - start < START:
                time.sleep(0.05)
            yield end
            child.send_signal(stop)
            end.rc = child.wait(START)
        except subprocess.TimeoutExpired:
            end.rc = "hung"
        finally:
            kill_session(child.pid)
            child.wait()
            self.running.discard(child.pid)
            with open(log, encoding="utf-8", errors="replace") as file:
                self.said = file.read().splitlines()[-15:]

    def end(self):
        for pid in self.running:
            kill_session(pid)
