# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The library's place in LD_PRELOAD, and whether a program gets it."""

import os
import re
import subprocess

from . import paths

LIST = "/etc/ld.so.preload"     # of what every program gets
OURS = re.compile(r"(^|/)libparkade(-[a-z0-9-]+)?\.so(\.[0-9]+)*$")


class Unusable(Exception):
    """The library cannot be preloaded; the text says why."""


def library():
    """What to call the library: where the loader looks anyway, its name will do, and 32-bit programs find their own."""
    path = paths.LIBRARY
    if not os.path.exists(path):
        raise Unusable(f"{path} is not there: is the library's package installed?")
    if re.search(r"[\s:]", path):
        raise Unusable(f"{path}: LD_PRELOAD takes no name with blanks or colons in it")
    return os.path.basename(path) if re.match(r"/usr/lib(64|/[^/]+)?/[^/]+$", path) else path


def names(preload):
    return [name for name in re.split(r"[\s:]+", preload or "") if name]


def ours(preload):
    """The first name there that is the library's, or None."""
    return next((name for name in names(preload) if OURS.search(name)), None)


def listed(root=""):
    """The library's entry in the list for every program, or None."""
    try:
        with open(root + LIST, encoding="utf-8", errors="replace") as file:
            return ours(re.sub("#.*", "", file.read()))
    except OSError:
        return None


def added(preload, name):
    """PRELOAD with the library behind what is in it already: a sanitizer's has to stay the first."""
    kept = [other for other in names(preload) if not OURS.search(other)]
    return ":".join([*kept, name])


def tried(name, environment=None):
    """What /bin/true says with the library preloaded."""
    env = {"LD_PRELOAD": name, "PARKADE_VERBOSE": "2", **(environment or {})}
    result = subprocess.run(["/bin/true"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return result.stderr.decode("utf-8", "replace")
