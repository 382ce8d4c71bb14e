# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The table of broken libraries, twins.ini, and how a row's change is made: for all who build them (tests/broken/broken,
tests/stress/twins, model/check), those who have rows of their own, and tests/rows, which looks whether all find their lines."""

import configparser
import importlib.machinery
import importlib.util
import os


def load(path):
    """A script, which has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(os.path.basename(path), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def rows(words=(), path=os.path.join(os.path.dirname(os.path.abspath(__file__)), "twins.ini")):
    """{name: row} of the rows whose names have all the words."""
    table = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    table.optionxform = str
    with open(path, encoding="utf-8") as text:
        table.read_file(text)
    return {name: dict(table[name]) for name in table.sections() if all(word in name for word in words)}


def lines_of(path):
    """The lines of a source, however they are indented and aligned."""
    with open(path, encoding="utf-8") as source:
        return [" ".join(line.split()) for line in source.read().split("\n")]


def find(tree, row):
    """(the lines of the row's file, which of them it names, what is wrong with the row, if anything)."""
    try:
        lines = lines_of(os.path.join(tree, row["file"]))
    except FileNotFoundError:
        return [], None, f"there is no {row['file']}"
    hits = [n for n, line in enumerate(lines) if row["from"] in line and row.get("after", "") in lines[n - 1]]
    times = sum(lines[n].count(row["from"]) for n in hits)
    if times != 1:
        return lines, None, f"its line occurs {times} times in {row['file']}, not once"
    return lines, hits[0], None


def change(tree, row):
    """Make the row's change in that copy of the sources; returns what is wrong with the row, if anything."""
    lines, number, trouble = find(tree, row)
    if trouble:
        return trouble
    lines[number] = lines[number].replace(row["from"], row["to"])
    with open(os.path.join(tree, row["file"]), "w", encoding="utf-8") as source:
        source.write("\n".join(lines))
    return None
