# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What the process tests share: run a program with or without the library and judge what it did.

A test is a script that runs programs and calls check() on what it saw; a failed check is printed at once and
makes done() exit 1, so that one defect does not hide the next.  Only the program under test is preloaded, never
the script.  The environment of a program is built from nothing but PATH, HOME, TMPDIR and what the test names,
so that settings of the caller cannot leak in.  A program that outlives its time is killed with all that it
started, and counts as failed.
"""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

SRCDIR = os.environ.get("PARKADE_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILDDIR = os.environ.get("PARKADE_BUILDDIR", os.getcwd())
LIB = os.environ.get("PARKADE_LIB", os.path.join(BUILDDIR, "lib", ".libs", "libparkade.so.1"))
CC = os.environ.get("CC", "cc").split()

EXIT_LINE = re.compile(r"parkade: (\d+) (\S+): policy ([^\s:]+):((?: [a-z_]+=\d+)+)")

sys.path.append(os.path.join(SRCDIR, "tests"))
from sessions import kill_session  # noqa: E402: it is found there

if not os.path.isfile(LIB):
    sys.exit(f"{LIB} is not there: nothing can be tested")

failures = 0
checks = 0


def built(name):
    """The path of what was built under that name: the real program or library, never libtool's wrapper."""
    head, tail = os.path.split(name)
    found = filter(os.path.isfile, (os.path.join(BUILDDIR, head, ".libs", tail), os.path.join(BUILDDIR, name)))
    return next(found, None) or sys.exit(f"{name} is not built")


def program(name):
    """The path of a test program of this directory."""
    return built(f"tests/process/{name}")


def module(name):
    """The path of a test library of this directory."""
    return built(f"tests/process/{name}")


def policies():
    """Every policy of the table."""
    with open(os.path.join(SRCDIR, "lib", "rt", "policy.def")) as table:
        rows = re.findall(r'^\s*PK_POLICY\w*\s*\(\s*"?([a-z][a-z0-9_-]*)"?', table.read(), re.M)
    return [row.replace("_", "-") for row in rows] or sys.exit("policy.def has no rows that this script can read")


def cells():
    """(name, settings) of every way to run a program here: first the control, plain glibc (settings None)."""
    return [("control", None)] + [(p, {"PARKADE_POLICY": p}) for p in policies()]


def run(argv, settings=None, timeout=20, preload=(), environment=None, **kwargs):
    """Run argv, with the library when settings are given (a dict, perhaps empty); never raises for what argv does."""
    env = {k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR") if k in os.environ}
    env.update(environment or {})
    libs = list(preload)
    if settings is not None:
        env.update(settings)
        libs.insert(0, LIB)
    if libs:
        env["LD_PRELOAD"] = ":".join(libs)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stderr", subprocess.PIPE)
    child = subprocess.Popen(argv, env=env, start_new_session=True, **kwargs)
    try:
        out, err = child.communicate(timeout=timeout)
        rc = child.returncode if b"cannot be preloaded" not in (err or b"") else "not preloaded"
    except subprocess.TimeoutExpired:
        kill_session(child.pid)
        out, err = child.communicate()
        rc = "timeout"
    return SimpleNamespace(rc=rc, data=out, out=text(out), err=text(err), argv=argv, settings=settings)


def text(data):
    return (data or b"").decode("utf-8", "replace")


def exit_lines(result):
    """The library's lines at exit: [(pid, name, policy, {counter: value})]."""
    lines = []
    for line in result.err.splitlines():
        match = EXIT_LINE.fullmatch(line)
        if match:
            counters = dict(pair.split("=") for pair in match[4].split())
            lines.append((int(match[1]), match[2], match[3], {k: int(v) for k, v in counters.items()}))
    return lines


def entered(result):
    """How often the processes of this run entered the admission queue."""
    return sum(line[3].get("entered", 0) for line in exit_lines(result))


def has_queue(policy):
    """Whether waiters under this policy enter an admission queue (the control's policy is None)."""
    return policy not in (None, "control", "word", "glibc")


def check(condition, what, result=None):
    global failures, checks
    checks += 1
    if condition:
        return True
    failures += 1
    print(f"FAIL: {what}")
    if result is not None:
        print(f"  argv {str(result.argv)[:400]}, settings {result.settings}, rc {result.rc}")
        for stream, content in (("stdout", result.out), ("stderr", result.err)):
            for line in content.splitlines()[-15:]:
                print(f"  {stream}: {line[:200]!r}")
    sys.stdout.flush()
    return False


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(1 if failures else 77)


def left_out(reason):
    """A part of the test cannot be tried here: the others count, and the runner says so."""
    print(f"SKIP: {reason}")


def done():
    print(f"{checks} checks, {failures} failed")
    sys.exit(1 if failures or not checks else 0)
