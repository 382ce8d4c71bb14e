# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What `parkade bench' measures: cells, each a command for parkade-bench, and the plans that they make up."""

import importlib
import json
import os
import sys
import time

from . import locks, paths
from .contest import Contestant, Failed, Kit

TIMES = {"0": 0, "1us": 1000, "10us": 10000}
SECTIONS = ("0", "2 lines", "1us", "10us")
OUTSIDE = ("0", "1us", "10us")
ALONE = ("mutex", "recursive", "errorcheck", "adaptive", "trylock", "rdlock", "wrlock", "signal", "broadcast", "spin")


def program():
    return os.path.join(paths.HELPERS, "parkade-bench")


class Cell:
    """One thing that is measured. `least' is the ratio of rates that is good enough."""
    warm = False                # a run before those that count
    has_locks = False           # of its own, so that it is worth to know which one it is about

    def __init__(self, group, name, least):
        self.group, self.name, self.least = group, name, least
        self.id = f"{group}: {name}"
        self.metric, self.about = "operations/s", {}

    def seconds(self, _asked):
        """About how long a run takes."""
        raise NotImplementedError

    def command(self, contestant, asked):
        """What a person types for a run."""
        raise NotImplementedError

    def ready(self, place):
        """What has to be done once; Failed where it cannot be measured here."""

    def measure(self, contestant, place, asked, speed):
        """The figures of one run; there is a `rate' among them."""
        raise NotImplementedError

    def lock(self, contestant, place, asked, speed):
        """Words for the lock that its threads waited for longest, by one more run with statistics; None if for none."""
        path = os.path.join(place, "locks")
        self.measure(contestant.with_statistics(path), place, asked, speed)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            found = locks.longest_waited(locks.read(file)[0])
        if not found:
            return None
        report, lock = found
        locks.resolve([{"locks": [lock]}])
        where = " < ".join(text if len(text) <= 80 else f"{text[:77]}..." for text in
                           (site["text"] for site in lock["sites"][:2])) or "?"
        return f"{lock['kind']} of {locks.printable(report['program'])}, first waited for at {where}"


class Micro(Cell):
    """A workload of parkade-bench."""

    def __init__(self, group, name, argv, least=0.95, about=None):
        super().__init__(group, name, least)
        self.argv, self.about = argv, about or {}

    def seconds(self, asked):
        return 0.6 if self.argv[0] in ("pipeline", "memory") else asked + 0.05

    def argv_for(self, asked):
        return [program(), *self.argv, "-s", f"{asked:g}"]

    def command(self, contestant, asked):
        return contestant.command(self.argv_for(asked))

    def measure(self, contestant, place, asked, speed):
        kit = Kit(contestant, place, limit=asked * 5 + 60)
        out, _ = kit.run([*self.argv_for(asked), "--json", "--speed", f"{speed:.6f}"])
        try:
            figures = json.loads(out)
        except ValueError:
            raise Failed(f"{contestant.name}: no figures in the output of parkade-bench: {out[-200:]!r}") from None
        figures["entered"] = kit.entered
        return figures


def alone(threads, calls=ALONE):
    what = {1: "one thread", 2: "several threads"}
    return [Micro("alone", f"{call}, {what[n]}", ["alone", "-k", call, "-n", str(n)], 1.0)
            for n in threads for call in calls]


def one_mutex(group, n, section, out):
    how = ["-l", "2"] if section == "2 lines" else ["-H", str(TIMES[section])]
    return Micro(group, f"{n} thread{'s' if n > 1 else ''}, {section} held, {out} outside",
                 ["mutex", "-n", str(n), *how, "-o", str(TIMES[out])],
                 about={"threads": n, "section": section, "outside": out})


def grid(threads, sections=SECTIONS, outside=OUTSIDE):
    return [one_mutex("grid", n, section, out) for section in sections for out in outside for n in threads]


def lone(sections=SECTIONS, outside=OUTSIDE):
    """The grid's work by one thread, from which follows what any lock could reach there (results.py)."""
    return [one_mutex("lone", 1, section, out) for section in sections for out in outside]


def papers(threads, brief=False):
    """The other workloads."""
    cells = []
    for n in threads:
        cells += [Micro("papers", f"{what}, {n} threads", [*argv, "-n", str(n)]) for what, argv in (
            ("AVL map", ["avl"]), ("AVL map, 1us outside", ["avl", "-o", "1us"]), ("allocator", ["alloc"]),
            ("hash table, 1 % writes", ["hash", "-w", "1"]), ("hash table, 10 % writes", ["hash", "-w", "10"]),
            ("hash table, 50 % writes", ["hash", "-w", "50"]), ("read locks", ["rwlock"]),
            ("write locks", ["rwlock", "-w", "100"]), ("spin lock", ["spin"]), ("barrier", ["barrier"]),
            ("thread pool", ["pool"]), ("bounded buffer", ["buffer"]),
            ("bounded buffer, signal after unlock", ["buffer", "-a"]), ("deadlines", ["deadline"]),
            ("accept mutex", ["accept"]))]
    waiters = "64" if brief else "256"
    cells += [Micro("papers", "ping-pong", ["pingpong"]),
              Micro("papers", "ping-pong, signal after unlock", ["pingpong", "-a"]),
              Micro("papers", f"broadcast to {waiters}", ["broadcast", "-n", waiters]),
              Micro("papers", "pipeline with a lock for each chunk", ["pipeline"])]
    if not brief:
        cells += [Micro("papers", f"broadcast to {waiters}, after unlock", ["broadcast", "-a", "-n", waiters]),
                  *(Micro("memory", f"a {kind}", ["memory", "-k", kind], 0.9) for kind in ("mutex", "rwlock", "cond"))]
    return cells


def plan(size, cpus):
    """(cells, rounds, seconds of a run) of `quick', `normal' or `full'."""
    over = sorted({2, 2 * cpus, 16 * cpus})
    if size == "quick":
        return (alone((1, 2), ("mutex", "trylock", "rdlock", "wrlock", "signal"))
                + grid(over, ("0", "2 lines", "1us"), ("0", "1us")) + papers((2 * cpus,), brief=True)), 3, 0.15
    if size == "normal":
        return alone((1, 2)) + grid(sorted({2, *over, cpus}), outside=("0", "1us")) + papers((2 * cpus,)), 5, 0.4
    return (alone((1, 2)) + lone() + grid((2, 3, 4, 8, 16, 32, 64, 128, 256))
            + papers(sorted({2, 2 * cpus, 8 * cpus}))), 5, 0.5


class Command(Cell):
    """A command of the user's, and the number that it prints, or how long it takes."""
    warm = has_locks = True

    def __init__(self, argv, pattern):
        super().__init__("command", " ".join(argv), 0.95)
        self.argv, self.pattern = argv, pattern
        self.metric = pattern.pattern if pattern else "runs/s"

    def seconds(self, asked):
        return asked

    def command(self, contestant, _asked):
        return contestant.command(self.argv)

    def measure(self, contestant, place, asked, speed):
        kit, start = Kit(contestant, os.getcwd(), limit=3600, may_be_silent=True), time.monotonic()
        out, err = kit.run(self.argv)
        rate = 1 / (time.monotonic() - start)
        if self.pattern:
            found = self.pattern.search(out) or self.pattern.search(err)
            try:
                rate = float(found[1])
            except (TypeError, ValueError):
                raise Failed(f"{contestant.name}: no number by {self.pattern.pattern!r} in the output") from None
        return {"rate": rate, "cpu_s": kit.cpu, "entered": kit.entered}


class Program(Cell):
    """A real program, of those in paths.PROGRAMS: a module each, with one variant or several. common.py beside them
    says what a module has."""
    warm = has_locks = True

    def __init__(self, module, variant):
        name = module.__name__ + (f", {variant}" if variant else "")
        super().__init__("programs", name, getattr(module, "LEAST", {}).get(variant, 0.98))
        self.module, self.variant, self.metric = module, variant, module.METRIC

    def seconds(self, _asked):
        return self.module.SECONDS

    def command(self, contestant, _asked):
        return f"parkade bench --only '{self.id}' --contestant glibc --contestant {contestant.spec}"

    def ready(self, place):
        missing = self.module.missing()
        if missing:
            raise Failed(f"{', '.join(missing)} is not here (Debian: {self.module.PACKAGES})")
        if hasattr(self.module, "prepare"):
            self.module.prepare(Kit(Contestant("glibc", None), place))

    def measure(self, contestant, place, asked, speed):
        kit = Kit(contestant, place)
        operations, seconds = self.module.run(kit, self.variant)
        if not operations or not seconds:
            raise Failed(f"{contestant.name}: {self.name} did nothing")
        return {"rate": operations / seconds, "operations": operations, "cpu_s": kit.cpu, "entered": kit.entered}


def programs():
    """All of them."""
    place = paths.PROGRAMS
    if not os.path.isdir(place):
        raise Failed(f"{place} is not there: is the package complete?")
    if place not in sys.path:
        sys.path.insert(0, place)
    names = sorted(name[:-3] for name in os.listdir(place) if name.endswith(".py") and name != "common.py")
    modules = [importlib.import_module(name) for name in names]
    return [Program(module, variant) for module in modules for variant in getattr(module, "VARIANTS", ("",))]
