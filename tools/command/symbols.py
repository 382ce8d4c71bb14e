# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Addresses in files, as names: by addr2line where that is installed, else by pyelftools' symbols, else as they are."""

import bisect
import os
import re
import subprocess


def by_addr2line(file, offsets):
    """{offset: text} of those that it knows; functions that were inlined there come before the one that they are in."""
    try:
        result = subprocess.run(["addr2line", "-a", "-i", "-f", "-C", "-s", "-e", file,
                                 *(f"{offset:#x}" for offset in offsets)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    answers = re.split(r"^0x[0-9a-f]+\n", result.stdout.decode("utf-8", "replace"), flags=re.MULTILINE)[1:]
    if result.returncode or len(answers) != len(offsets):
        return {}
    found = {}
    for offset, answer in zip(offsets, answers):
        lines = answer.splitlines()
        pairs = [(name, place.split(" ")[0]) for name, place in zip(lines[::2], lines[1::2])]
        if pairs and pairs[-1][0] != "??":
            found[offset] = " < ".join(name if place.startswith("??") else f"{name} ({place})" for name, place in pairs)
    return found


def by_symbols(file, offsets):
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return {}
    functions = []
    try:
        with open(file, "rb") as stream:
            elf = ELFFile(stream)
            for table in filter(None, map(elf.get_section_by_name, (".symtab", ".dynsym"))):
                functions += [(symbol["st_value"], symbol["st_size"], symbol.name) for symbol in table.iter_symbols()
                              if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]]
    except (OSError, ELFError):
        return {}
    functions.sort()
    found = {}
    for offset in offsets:
        at = bisect.bisect(functions, (offset, 1 << 64)) - 1
        if at >= 0 and functions[at][0] <= offset < functions[at][0] + functions[at][1]:
            found[offset] = f"{functions[at][2]}+{offset - functions[at][0]:#x}"
    return found


def names(places, root=""):
    """{(file, offset): text} for a set of return addresses; each gets a text. The files are below that root."""
    found = {}
    for file in {file for file, _ in places}:
        # The call is before the address to which it returns.
        offsets = sorted({offset - 1 for other, offset in places if other == file})
        known = by_addr2line(root + file, offsets) if os.path.isfile(root + file) else {}
        left = [offset for offset in offsets if offset not in known]
        known.update(by_symbols(root + file, left) if left else {})
        for offset in offsets:
            found[file, offset + 1] = known.get(offset, f"{os.path.basename(file)}+{offset + 1:#x}")
    return found
