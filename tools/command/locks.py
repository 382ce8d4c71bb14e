# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What the statistics module has counted: read from its file, and shown as a table, the longest waits first.

A report is a dictionary: what the module writes (lib/stats/report.c). What is read is checked: it may come from anywhere.
"""

import json

from . import symbols

FORMAT = 1
NUMBERS = ("object", "got", "late", "wait_ns", "wait_max_ns", "turns", "turn_ns")


class Unreadable(Exception):
    pass


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_lock(lock):
    return (isinstance(lock, dict) and all(is_count(lock.get(name)) for name in NUMBERS) and
            all(isinstance(lock.get(name), str) for name in ("kind", "name")) and
            all(isinstance(lock.get(name), dict) and all(map(is_count, lock[name].values())) for name in ("near", "counters"))
            and isinstance(lock.get("times"), list) and all(map(is_count, lock["times"])) and
            isinstance(lock.get("sites"), list) and all(map(is_site, lock["sites"])))


def is_site(site):
    return (isinstance(site, dict) and is_count(site.get("address")) and isinstance(site.get("file", ""), str) and
            is_count(site.get("offset", 0)))


def is_report(report):
    return (isinstance(report, dict) and report.get("format") == FORMAT and is_count(report.get("pid")) and
            all(isinstance(report.get(name), str) for name in ("program", "policy")) and
            is_count(report.get("not_counted")) and isinstance(report.get("locks"), list) and
            all(map(is_lock, report["locks"])))


def read(file):
    """(reports, how many lines were none): one for each process, in the order in which they ended."""
    reports, bad = [], 0
    for line in file:
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            report = None
        if is_report(report):
            reports.append(report)
        else:
            bad += 1
    return reports, bad


def resolve(reports, root=""):
    """Give each call site a `text', from the files below that root."""
    sites = [site for report in reports for lock in report["locks"] for site in lock["sites"]]
    names = symbols.names({(site["file"], site["offset"]) for site in sites if "file" in site and "offset" in site}, root)
    for site in sites:
        site["text"] = printable(names.get((site.get("file"), site.get("offset")), f"{site['address']:#x}"))


def printable(text):
    return "".join(char if char.isprintable() else "?" for char in text)


def longest_waited(reports):
    """(report, lock): the lock of all of them for which threads waited longest; None if for none."""
    found = [(report, lock) for report in reports for lock in report["locks"]]
    return max(found, key=lambda pair: pair[1]["wait_ns"], default=None)


def by_waiting(locks):
    return sorted(locks, key=lambda lock: -lock["wait_ns"])


def share(lock):
    """Which part of the hand-overs between waiters stayed on some level: "-" where there is none to stay on."""
    total = sum(lock["near"].values())
    return f"{1 - lock['near'].get('system', 0) / total:.0%}" if total and len(lock["near"]) > 1 else "-"


def mean(total, count):
    return f"{total / count / 1e3:.1f}" if count else "-"


COLUMNS = ("waited ms", "waits", "late", "mean us", "longest us", "turn us", "near", "kind", "lock")


def row(lock):
    waits = lock["got"] + lock["late"]
    name = printable(lock["name"])
    return (f"{lock['wait_ns'] / 1e6:.3f}", str(waits), str(lock["late"]), mean(lock["wait_ns"], waits),
            f"{lock['wait_max_ns'] / 1e3:.1f}", mean(lock["turn_ns"], lock["turns"]), share(lock), printable(lock["kind"]),
            f"{name} ({lock['object']:#x})" if name else f"{lock['object']:#x}")


def table(locks, top):
    """Lines: a row for each lock, and below it where it was first waited for."""
    rows = [COLUMNS] + [row(lock) for lock in by_waiting(locks)[:top]]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for index, cells in enumerate(rows):
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(cells[:7], widths))
        yield f"{numbers}  {cells[7].ljust(widths[7])}  {cells[8]}"
        if index:
            yield "    " + (" < ".join(site["text"] for site in by_waiting(locks)[index - 1]["sites"]) or "?")


def describe(report, top):
    locks = report["locks"]
    yield f"{report['pid']} {printable(report['program'])}: policy {printable(report['policy'])}: " \
          f"threads waited for {len(locks)} lock{'s' * (len(locks) != 1)}"
    if report["not_counted"]:
        yield f"the table was full: {report['not_counted']} waits for other locks are not counted"
    if locks:
        yield from table(locks, top)
