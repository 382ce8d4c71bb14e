# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade topology: the levels of this machine, as sysfs has them and as they can be measured."""

import argparse
import json
import math
import os
import shutil
import sys

from . import arguments, files, heatmap, hierarchy, images, locks, pairs, settings
from .machine import KINDS, Machine, spell
from .progress import progress

DESCRIPTION = """\
Shows the levels of this machine: the CPUs of a core, those that share the last cache, those of a node and those of a
package, as far as that says something. With --measure, two threads take turns on a counter for each pair of CPUs that
may be used (CLoF, SOSP 2021, section 3.1): a map of how fast they are, the speed-up of each level over the whole
system, the levels that can be told by measuring, and which settings of the library that suggests."""
EPILOG = """\
exit status: 0 done; 1 failed; 2 wrong usage."""
FORMAT = 1                      # of the files
SAME = 0.75                     # share of the pairs in common above which a level is taken for what sysfs says


class Unreadable(Exception):
    pass


def ratio(text):
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 1 < number < 100:
        raise argparse.ArgumentTypeError(f"{text}: a number above 1 and below 100 is wanted")
    return number


def add(commands):
    parser = commands.add_parser("topology", help="show the levels of this machine, or measure them",
                                 description=DESCRIPTION, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--measure", action="store_true", help="measure pairs of CPUs")
    source.add_argument("--load", metavar="FILE", help="take what --save has written, here or on another machine")
    parser.add_argument("--seconds", type=arguments.positive(float, 1e6), default=20, metavar="S",
                        help="how long to measure (20); where that is too short for all pairs, some are chosen")
    parser.add_argument("--gap", type=ratio, default=hierarchy.GAP, metavar="RATIO",
                        help=f"how much faster a level must be than the one around it ({hierarchy.GAP})")
    parser.add_argument("--save", metavar="FILE", help="write what was measured to a file, as JSON")
    parser.add_argument("--output", type=images.name, metavar="FILE", help="draw the map: FILE.png or FILE.svg")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run, parser=parser)


class Measurement:
    """What was measured: `cpus', `rates' of pairs of them, `spread' or None, and `sysfs': [(kind, partition)] of the
    kinds of cohorts that there are, and the `levels' among them."""

    def __init__(self, cpus, rates, sysfs=(), levels=(), spread=None):
        self.cpus, self.rates, self.spread = cpus, rates, spread
        self.sysfs, self.levels = list(sysfs), list(levels)

    def partitions(self):
        """The innermost first."""
        return [partition for _, partition in self.sysfs]

    def pairs(self):
        return len(self.cpus) * (len(self.cpus) - 1) // 2

    def as_json(self):
        return {"format": FORMAT, "cpus": self.cpus, "spread": self.spread, "levels": self.levels,
                "sysfs": [{"kind": kind, "cohorts": partition} for kind, partition in self.sysfs],
                "pairs": [[a, b, rate] for (a, b), rate in sorted(self.rates.items())]}


def from_json(data):
    """The measurement in a saved file; of that only format, cpus and pairs must be there."""
    def number(value, kind=int):
        if isinstance(value, bool) or not isinstance(value, (int, kind)) or not (0 <= value < math.inf):
            raise Unreadable(f"{value!r} is not a number that can be there")
        return value

    try:
        if data["format"] != FORMAT:
            raise Unreadable(f"its format is {data['format']!r}, not {FORMAT}")
        cpus = sorted({number(cpu) for cpu in data["cpus"]})
        rates = {(min(a, b), max(a, b)): number(rate, float) for a, b, rate in data["pairs"]}
        sysfs = [(item["kind"], item["cohorts"]) for item in data.get("sysfs", ())]
        for _, partition in sysfs:
            if sorted(cpu for cohort in partition for cpu in cohort) != cpus or not all(partition):
                raise Unreadable("its cohorts are not all of its CPUs")
        known = set(cpus)
        if not all({a, b} <= known and a != b and rate > 0 for (a, b), rate in rates.items()):
            raise Unreadable("its pairs are not of two CPUs and a rate")
        if any(kind not in KINDS for kind in [*data.get("levels", ()), *(kind for kind, _ in sysfs)]):
            raise Unreadable("it names levels that there are not")
        if not rates:
            raise Unreadable("it has no pairs")
        spread = data.get("spread")
        spread = None if spread is None else number(spread, float)
        return Measurement(cpus, rates, sysfs, data.get("levels", ()), spread)
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"it is no measurement ({type(error).__name__}: {error})") from None


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return from_json(json.load(file))
    except OSError as error:
        raise Unreadable(error.strerror) from None
    except ValueError:
        raise Unreadable("it is not JSON") from None


def sysfs_of(machine, cpus):
    """The kinds of cohorts that CPUS are in, as far as they say something about these."""
    found = ((kind, machine.cohorts(kind, cpus)) for kind in KINDS)
    return [(kind, partition) for kind, partition in found if 1 < len(partition) < len(cpus)]


def measure(machine, seconds):
    """The measurement of this machine, or None where there is no pair."""
    cpus = machine.usable
    if len(cpus) < 2:
        return None
    sysfs = sysfs_of(machine, cpus)
    wanted = hierarchy.choose(cpus, [partition for _, partition in sysfs], pairs.affordable(seconds))
    with progress(f"measuring {count(len(wanted), 'pair')} of CPUs") as advance:
        rates, spread = pairs.measure(wanted, seconds, advance)
    if not rates:
        raise pairs.Failed("no two CPUs could be measured")
    return Measurement(cpus, rates, sysfs, machine.levels, round(spread, 4))


class Findings:
    """What a measurement says; `found' are the partitions of the levels that show, the innermost first, `names' the
    kinds that are the same in sysfs, and how much the same. One that is nearly the same is taken for it."""

    def __init__(self, measured, gap):
        self.measured = measured
        partitions = measured.partitions()
        self.is_sample = len(measured.rates) < measured.pairs()
        # Among pairs that are estimated, there are no levels to be found but those by which they are.
        self.is_thin = self.is_sample and not partitions
        self.found, self.names = [], []
        if not self.is_thin:
            rates = hierarchy.complete(measured.cpus, measured.rates, partitions)
            for partition in hierarchy.find_levels(measured.cpus, rates, gap):
                self.add(partition)
        self.speedups = hierarchy.speedups(measured.rates, partitions)
        self.found_speedups = hierarchy.speedups(measured.rates, self.found)
        self.shape = hierarchy.shape(self.found, self.gains())

    def add(self, partition):
        near = [(hierarchy.agreement(partition, other), other) for _, other in self.measured.sysfs]
        share, other = max(near, key=lambda found: found[0], default=(0, None))
        kinds = []
        if share >= SAME:
            partition = other
            kinds = [kind for kind, same in self.measured.sysfs if same == other]
        if partition not in self.found:
            self.found.append(partition)
            self.names.append((kinds, share))

    def gains(self):
        """How much faster each level is than the one around it."""
        rates = [found and found[0] for found in self.found_speedups]
        return [(inner / outer) if inner and outer else 1.0 for inner, outer in zip(rates, rates[1:])]

    def settings(self):
        """[(setting or None, why)]: what the library might be told."""
        if not self.found:
            return [(None, "No level shows: policies with levels have nothing to gain here.")]
        exact = [next((kind for kind in kinds if kind in self.measured.levels), None) for kinds, _ in self.names]
        advice = []
        if all(exact):
            why = "the levels that show" + (", which it has by itself" if exact == self.measured.levels else "")
            advice.append((f"PARKADE_LEVELS={','.join(exact)}", why))
        elif self.shape and hierarchy.in_order(self.found):
            advice.append((f"PARKADE_TOPOLOGY={self.shape}", "sysfs does not have the levels that show"))
        else:
            advice.append((None, "The levels that show are not in sysfs, and not of a form that PARKADE_TOPOLOGY has."))
        if self.shape:
            advice.append((f"PARKADE_TOPOLOGY={self.shape}@thread", "a machine of this shape, on another one"))
        return advice

    def as_json(self):
        def table(names, partitions, speedups):
            return [{"level": name, "cohorts": partition, "rate": found and found[0],
                     "speedup": found and round(found[1], 4)}
                    for name, partition, found in zip(names, partitions, speedups)]

        measured = self.measured
        return {**measured.as_json(),
                "speedups": table([kind for kind, _ in measured.sysfs] + ["system"],
                                  measured.partitions() + [[measured.cpus]], self.speedups),
                "found": [{**row, "agreement": round(share, 4)} for row, (_, share) in zip(
                    table([kinds for kinds, _ in self.names], self.found, self.found_speedups), self.names)],
                "shape": self.shape, "settings": [setting for setting, _ in self.settings() if setting]}


def count(n, what):
    return f"{n} {what}" + ("" if n == 1 else "s")


def each(partition):
    """How many CPUs each cohort has."""
    sizes = sorted({len(cohort) for cohort in partition})
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"


def table(rows):
    """Lines; the first column is aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{cell:<{width}}" if n == 0 else f"{cell:>{width}}"
                      for n, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def row(name, partition, found, *more):
    rate, speedup = (f"{found[0] / 1e6:.2f}", f"{found[1]:.2f}") if found else ("-", "-")
    return (name, str(len(partition)), each(partition), rate, speedup, *more)


def describe_setting(variables):
    """Whether the library takes another machine than this."""
    given, taken = settings.values(variables, "TOPOLOGY"), settings.taken(variables, "TOPOLOGY")
    if any(given) and given[0] != taken:
        yield f"PARKADE_TOPOLOGY={locks.printable(given[0])} is set, but no machine is described so: the library ignores it."
    if taken:
        yield f"PARKADE_TOPOLOGY={taken} is set: the library takes that instead."


def describe_machine(machine):
    online = f"{count(len(machine.online), 'CPU')}: {spell(machine.online)}" if machine.online else "sysfs does not say"
    lines = [("online", online),
             ("usable", f"{count(len(machine.usable), 'CPU')}: {spell(machine.usable)}")]
    if machine.quota is not None:
        lines.append(("quota", f"{count(machine.quota, 'CPU')}, by the cgroup"))
    what = ", the cache groups" if machine.by_group else ""
    lines.append(("sockets", f"{len(machine.sockets)}{what}; CPUs to use on each: {', '.join(map(str, machine.sockets))}"))
    lines = [f"{what:<9}{text}" for what, text in lines]
    lines += describe_setting(os.environ)
    if not machine.levels:
        return lines + ["", "No levels: every CPU is as near to each other, as far as sysfs says."]
    rows = [("level", "cohorts", "CPUs each", "CPUs")]
    for kind in machine.levels:
        partition = machine.cohorts(kind, machine.online)
        names = " | ".join(spell(cohort) for cohort in partition[:4]) + (" | ..." if len(partition) > 4 else "")
        rows.append((kind, str(len(partition)), each(partition), names))
    return lines + [""] + table(rows)


def describe(findings, width, colour):
    measured = findings.measured
    what = f"{count(measured.pairs(), 'pair')} of {len(measured.cpus)} CPUs"
    if findings.is_sample:
        what = f"{len(measured.rates)} of " + what
    lines = [f"{what}; two threads take turns on a counter, increments a second:", ""]
    lines += heatmap.text(measured.cpus, measured.rates, width, colour)
    if measured.spread is not None:
        lines.append(f"The rates of a pair typically varied by {measured.spread:.0%}" +
                     (": too much, is the machine busy?" if measured.spread > 0.3 else "."))
    heads = "cohorts", "CPUs each", "million/s", "speed-up"
    rows = [("sysfs", *heads)]
    rows += [row(kind, partition, found) for (kind, partition), found in zip(measured.sysfs, findings.speedups)]
    rows.append(row("system", [measured.cpus], findings.speedups[-1]))
    lines += ["", *table(rows), ""]
    if findings.found:
        rows = [("found", *heads, "in sysfs")]
        for n, partition in enumerate(findings.found):
            kinds, share = findings.names[n]
            near = ", ".join(kinds) + (f", to {share:.0%}" if share < 1 else "") if kinds else "-"
            rows.append(row(str(n + 1), partition, findings.found_speedups[n], near))
        rows.append(row("system", [measured.cpus], findings.found_speedups[-1], ""))
        lines += [*table(rows), ""]
    elif findings.is_thin:
        lines += ["To find levels that sysfs does not have, all pairs must be measured: --seconds says how long.", ""]
    for setting, why in findings.settings() if not findings.is_thin else ():
        lines.append(f"{setting}    # {why}" if setting else why)
    return lines


def show(lines):
    print("\n".join(lines).rstrip())


def finish(args, measured):
    findings = Findings(measured, args.gap)
    if args.save:
        files.replace(args.save, json.dumps(measured.as_json()) + "\n")
    if args.output:
        heatmap.draw(measured.cpus, measured.rates, args.output)
    return findings


def run(args):
    if not args.measure and not args.load and (args.save or args.output):
        args.parser.error("--save and --output go with --measure or --load")
    if args.output and not images.can_draw():
        print("parkade: error: --output needs matplotlib (Debian, Fedora: python3-matplotlib)", file=sys.stderr)
        return 1
    try:
        for path in filter(None, (args.save, args.output)):
            files.check(path)
        machine = None if args.load else Machine()
        measured = load(args.load) if args.load else measure(machine, args.seconds) if args.measure else None
        findings = finish(args, measured) if measured else None
    except Unreadable as error:
        print(f"parkade: error: {args.load}: {error}", file=sys.stderr)
        return 1
    except pairs.Failed as error:
        print(f"parkade: error: {error}", file=sys.stderr)
        return 1
    if args.json:
        report = findings.as_json() if findings else {}
        if machine:
            report["machine"] = machine.as_json()
        print(json.dumps(report))
        return 0
    parts = [describe_machine(machine)] if machine else []
    if findings:
        parts.append(describe(findings, shutil.get_terminal_size().columns, heatmap.has_colour(sys.stdout)))
    elif args.measure:
        parts.append(["One CPU may be used: there is no pair to measure."])
    show(line for part in parts for line in [*part, ""])
    return 0
