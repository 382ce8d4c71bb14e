# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The raw results of `parkade bench' as a file, and what they say: medians of the ratios of the runs of one round, with
their spread, and which of them are not good."""

import json
import math
import os
import platform
import statistics
import time

from . import files
from .contest import QUIET

FORMAT = 1
FEWEST = 3                      # rounds, to say how far they are apart
CPU_MOST = 1.10                 # processor time of an operation, against the first contestant's
WAIT_MOST = 5.0                 # the 99.9th percentile of waits, likewise
SHORT = ("0", "2 lines")        # sections, of which those with more threads than CPUs should win by OVER
OVER, MEAN = 2.0, 1.5
WIDE = 0.08                     # the width of ratios whose median says little yet


class Unreadable(Exception):
    pass


def machine():
    model = "unknown"
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {"model": model, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()), "machine": platform.machine()}


class Results:
    """`rounds' of each cell: {"noise": share, "runs": [figures of each contestant]}."""

    def __init__(self, data):
        self.data = data
        self.names = [contestant["name"] for contestant in data["contestants"]]
        self.cells = data["cells"]

    @classmethod
    def new(cls, options, contestants, release, speed):
        return cls({"format": FORMAT, "date": time.strftime("%Y-%m-%d %H:%M"), "release": release, "machine": machine(),
                    "options": options, "speed": speed, "cells": {}, "failed": {},
                    "contestants": [{"name": c.name, "spec": c.spec} for c in contestants]})

    @classmethod
    def load(cls, path):
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            if data["format"] != FORMAT:
                raise Unreadable(f"{path}: its format is {data['format']!r}, not {FORMAT}")
            results = cls(data)
            for cell in results.cells.values():
                for part in cell["rounds"]:
                    if len(part["runs"]) != len(results.names) or not all(run["rate"] >= 0 for run in part["runs"]):
                        raise Unreadable(f"{path}: a round is not of all contestants")
            return results
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"{path}: these are no results ({type(error).__name__}: {error})") from None

    def save(self, path):
        """All or nothing, whenever we are interrupted."""
        with files.named(path), open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
            file.write("\n")
        os.replace(path + ".new", path)

    def add(self, cell, noise, runs, command):
        entry = self.cells.setdefault(cell.id, {"group": cell.group, "name": cell.name, "least": cell.least,
                                                "metric": cell.metric, "about": cell.about, "command": command,
                                                "rounds": []})
        entry["rounds"].append({"noise": round(noise, 4), "runs": runs})

    def rows(self):
        return [Row(entry, self.names, n) for entry in self.cells.values() for n in range(1, len(self.names))
                if entry["rounds"]]

    def is_wide(self, cell_id):
        """Whether the rounds of a cell differ so much that a few more are wanted."""
        entry = self.cells[cell_id]
        return any(row.width > WIDE for row in (Row(entry, self.names, n) for n in range(1, len(self.names))))

    def possible(self):
        """The ratios that a lock could reach in the grid that is handed over in no time, by what one thread does: sections
        one after the other, or a CPU busy for each thread, whichever is less. None where that was not measured."""
        rates = {}
        for row in (row for row in self.rows() if row.group == "lone"):
            where = row.about["section"], row.about["outside"]
            rates[where] = max(rates.get(where, 0), *(row.median(n, "rate") for n in (0, row.number)))
        cells = {row.name: row for row in self.rows() if row.group == "grid" and row.median(0, "rate")}.values()
        cpus = self.data["machine"]["cpus"]
        try:
            return [min(rates[row.about["section"], "0"],
                        min(row.about["threads"], cpus) * rates[row.about["section"], row.about["outside"]])
                    / row.median(0, "rate") for row in cells]
        except KeyError:
            return None


def counting(rounds):
    """The quiet rounds, or all where there are none."""
    return [part for part in rounds if part["noise"] <= QUIET] or rounds


def cpu_of(run):
    """Processor time of an operation, or in proportion to it."""
    if run.get("cpu_ns"):
        return run["cpu_ns"]
    if run.get("cpu_s") and run.get("operations"):
        return run["cpu_s"] * 1e9 / run["operations"]
    return None


def width(ratios):
    """From the lower quartile to the upper one, in parts of the median; 0 where they are too few."""
    if len(ratios) < FEWEST:
        return 0
    lower, median, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return (upper - lower) / median if median else 0


class Row:
    """A cell and a contestant, against the first one."""

    def __init__(self, entry, names, number):
        self.group, self.name, self.least, self.metric = (entry[key] for key in ("group", "name", "least", "metric"))
        self.about, self.command, self.lock = entry["about"], entry["command"], entry.get("lock")
        self.contestant, self.number = names[number], number
        self.rounds = counting(entry["rounds"])
        self.noise = statistics.median(part["noise"] for part in self.rounds)
        self.ratios = self.ratios_of(lambda run: run["rate"])
        self.ratio = statistics.median(self.ratios) if self.ratios else math.nan
        self.width = width(self.ratios)
        self.cpu = self.median_ratio(cpu_of)
        self.wait = self.median_ratio(lambda run: run.get("p999_ns"))
        self.longest = self.median_ratio(lambda run: run.get("longest_ns"))

    def ratios_of(self, figure):
        pairs = [(figure(part["runs"][0]), figure(part["runs"][self.number])) for part in self.rounds]
        return [after / before for before, after in pairs if before and after is not None]

    def median_ratio(self, figure):
        ratios = self.ratios_of(figure)
        return statistics.median(ratios) if ratios else None

    def median(self, number, key):
        """Of a contestant's figures."""
        values = [part["runs"][number].get(key) for part in self.rounds]
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def is_over(self, cpus):
        return self.group == "grid" and self.about["threads"] > cpus and self.about["section"] in SHORT \
            and self.about["outside"] == "0"

    def faults(self, cpus):
        """What is not good about it."""
        found = []
        if math.isnan(self.ratio):
            return ["there is no rate"]
        if round(self.ratio, 3) < self.least:
            found.append(f"rate {self.ratio:.2f}, at least {self.least:g} is wanted")
        elif self.is_over(cpus) and self.ratio < OVER:
            found.append(f"rate {self.ratio:.2f}, {OVER:g} is wanted where threads are many and sections short")
        if self.cpu is not None and self.cpu > CPU_MOST and self.group != "alone":
            found.append(f"processor time {self.cpu:.2f}, at most {CPU_MOST:g} is wanted")
        if self.wait is not None and self.wait > WAIT_MOST:
            found.append(f"p99.9 of the waits {self.wait:.1f}, at most {WAIT_MOST:g} is wanted")
        return found


def geometric_mean(values):
    values = [value for value in values if value > 0]
    return math.exp(statistics.fmean(map(math.log, values))) if values else None
