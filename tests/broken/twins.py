# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The table of broken libraries, twins.ini, and how a row's change is made: for all who build them (tests/broken/broken,
tests/stress/twins, model/check)."""

import configparser
import os


def rows(words=(), path=os.path.join(os.path.dirname(os.path.abspath(__file__)), "twins.ini")):
    """{name: row} of the rows whose names have all the words."""
    table = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    table.optionxform = str
    with open(path, encoding="utf-8") as text:
        table.read_file(text)
    return {name: dict(table[name]) for name in table.sections() if all(word in name for word in words)}


def change(tree, row):
    """Make the row's change in that copy of the sources; returns what is wrong with the row, if anything."""
    path = os.path.join(tree, row["file"])
    with open(path, encoding="utf-8") as source:
        lines = source.read().split("\n")
    lines = [" ".join(line.split()) for line in lines]  # however it is indented and aligned
    hits = [n for n, line in enumerate(lines) if row["from"] in line and row.get("after", "") in lines[n - 1]]
    if len(hits) != 1 or lines[hits[0]].count(row["from"]) != 1:
        return f"its line occurs {len(hits)} times in {row['file']}, not once"
    lines[hits[0]] = lines[hits[0]].replace(row["from"], row["to"])
    with open(path, "w", encoding="utf-8") as source:
        source.write("\n".join(lines))
    return None
