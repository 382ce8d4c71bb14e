# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What the real programs share. Each is a module beside this one that has

    PACKAGES    where Debian has it
    METRIC      what its rate counts
    SECONDS     about how long a run takes
    VARIANTS    names of variants, where there are some
    LEAST       {variant: the ratio to glibc's rate that is wanted}, where that is not 0.98
    missing()   what is not on this machine, names
    prepare(kit)        what is done once, on glibc, if anything
    run(kit, variant)   (operations, seconds that they took)

A kit (command/contest.py) has a directory, `place', and starts processes: preloaded ones, unless told otherwise.
"""

import contextlib
import os
import re
import shutil
import socket

from command.contest import Failed

CPUS = len(os.sched_getaffinity(0))
THREADS = min(2 * CPUS, 32)
HERE = os.path.dirname(os.path.abspath(__file__))


def lacking(*programs):
    return [name for name in programs if not shutil.which(name)]


def lacking_header(name):
    """C programs are compiled when they are needed."""
    return lacking("cc") + ([] if os.path.exists(f"/usr/include/{name}") else [name])


def number(pattern, text, group=1):
    """The first group of a pattern in what a program has said."""
    found = re.search(pattern, text, re.MULTILINE)
    try:
        return float(found[group])
    except (TypeError, ValueError):
        raise Failed(f"there is no {pattern!r} in the output: {text.strip()[-200:]}") from None


def compile_c(kit, name, *libraries):
    """NAME.c beside this file becomes NAME in the kit's place."""
    kit.run(["cc", "-O2", "-o", os.path.join(kit.place, name), os.path.join(HERE, name + ".c"), "-lpthread", *libraries],
            preloaded=False)


def client(kit, name, *arguments, env=None):
    """(operations, seconds) of such a program, which prints these two numbers."""
    out, _ = kit.run([os.path.join(kit.place, name), *map(str, arguments)], env=env)
    return number(r"^(\d+) operations in ([\d.]+) s", out), number(r"^(\d+) operations in ([\d.]+) s", out, 2)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False
