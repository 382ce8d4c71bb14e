# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What there is to choose from: the installed policies, and all compositions for the levels of the machine."""

import fnmatch
import itertools
import math
import re

from . import tables

BASIC = ("tkt", "mcs", "clh", "hem")    # lib/admit/compose.c
LOCKS = 4                       # of a composition, at most
DEFAULT = tables.OPTIONS["POLICY"]["default"]
BASE = "glibc"                  # the C library's own locks


class Unknown(Exception):
    pass


def policies():
    """Those of the library, the C library's own locks and the default first."""
    return sorted(tables.POLICIES, key=lambda name: (name != BASE, name != DEFAULT))


def levels_described(description):
    """The levels of a machine that PARKADE_TOPOLOGY describes, the innermost first (lib/rt/topology.c)."""
    if not re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){0,3}(@thread)?", description):
        raise Unknown(f"PARKADE_TOPOLOGY={description}: no machine is described so")
    factors = [int(factor) for factor in re.findall(r"\d+", description)]
    counts = {"core": math.prod(factors[:-1]) if len(factors) > 2 else 1,
              "cache": math.prod(factors[:2]) if len(factors) > 3 else 1, "node": factors[0]}
    levels = []
    for kind, count in counts.items():
        if 1 < count < math.prod(factors):
            while kind == "node" and levels and counts[levels[-1]] <= count:
                levels.pop()    # the same cohorts: the node stays
            if not levels or counts[levels[-1]] > count:
                levels.append(kind)
    return levels


def all_for(levels):
    """{name: environment} of all that may be chosen on a machine with these levels; the name is the policy's."""
    found = {BASE: {"PARKADE_POLICY": BASE}}    # for a COMMAND that runs the library by itself
    for name in policies():
        if name == BASE or name == "clof":
            continue
        found[name] = {"PARKADE_POLICY": name}
        if name == "hmcs":
            found[name]["PARKADE_LEVELS"] = ",".join(levels)
    if levels:
        for locks in itertools.product(BASIC, repeat=len(levels) + 1):
            name = f"clof:{'-'.join(locks)}"
            found[name] = {"PARKADE_POLICY": name, "PARKADE_LEVELS": ",".join(levels)}
    return found


def chosen(found, globs):
    """Those that one of the globs names, and the C library."""
    for pattern in globs:
        if not fnmatch.filter(found, pattern):
            raise Unknown(f"{pattern}: no policy has such a name here")
    return {name: environment for name, environment in found.items()
            if name == BASE or not globs or any(fnmatch.fnmatch(name, pattern) for pattern in globs)}
