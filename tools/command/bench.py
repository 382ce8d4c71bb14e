# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade bench: glibc's locks and the library's, or whichever, measured in turns.

The contestants run one after the other, round by round, so that what disturbs meets all of them. A round that others
disturbed is run again, a few times; a cell whose rounds differ gets more of them, whichever way they point. Everything
is written down after each cell, so an interrupted run can go on.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from . import arguments, cells, charts, images, paths, preload, report
from .contest import QUIET, SILENT, Contestant, Failed, Noise
from .progress import progress
from .results import Results, Unreadable

DESCRIPTION = """\
Measures locks: with glibc's functions, under the library, under its policies, under anything that can be
preloaded, in turns, and compares rates, processor time and waits. Writes a report with pictures. The machine
should be idle."""
EPILOG = """\
A contestant is NAME[=LIBRARY][,VARIABLE=VALUE]...: glibc, parkade, a policy (parkade policies are in parkade(7)), or
a name of your own with a library to preload or with settings, as patient,PARKADE_PATIENCE=1000.

exit status: 0 measured; 1 something could not be measured, or --check found what is not good enough;
2 wrong usage; 130 interrupted (--resume goes on)."""
# Times as many rounds, at most, where some were noisy, or where they differ; a quick run has no time for that.
AGAIN = 3
DATA = "data.json"


def expression(text):
    found = arguments.expression(text)
    if not found.groups:
        raise argparse.ArgumentTypeError(f"{text}: a group (...) around the number is wanted")
    return found


def add(commands):
    parser = commands.add_parser("bench", help="measure the library against glibc",
                                 description=DESCRIPTION, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="less than two minutes")
    size.add_argument("--full", dest="size", action="store_const", const="full",
                      help="the whole grid of threads, sections and outside work")
    parser.add_argument("--programs", action="store_true", help="real programs, too, those that are installed")
    parser.add_argument("--only", metavar="GLOB", action="append", help="only these cells, as 'grid:*'; see --list")
    parser.add_argument("--list", action="store_true", help="print the cells, measure nothing")
    parser.add_argument("--contestant", metavar="SPEC", action="append",
                        help="who runs; the first is what the others are compared with (glibc and parkade)")
    parser.add_argument("--library", metavar="FILE", help="the library, where it is not the one installed")
    parser.add_argument("--pairs", type=arguments.positive(int, 1000), metavar="K", help="rounds of each cell, at least (3 or 5)")
    parser.add_argument("--seconds", type=arguments.positive(float, 3600), metavar="S", help="how long a run takes (0.15 to 0.5)")
    parser.add_argument("--output", metavar="DIRECTORY", help="where the report goes (parkade-bench-DATE)")
    parser.add_argument("--resume", metavar="DIRECTORY", help="go on with what is there, with its options")
    parser.add_argument("--report", metavar="DIRECTORY", help="write the report of what is there again")
    parser.add_argument("--match", type=expression, metavar="REGEX",
                        help="with a command: its first group is the number, more is better (else: runs a second)")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a cell is not good enough")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of tables")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="after --, a command to measure instead")
    parser.set_defaults(run=run, parser=parser)


# What makes the plan; saved, so that --resume has the same.
PLAN = "size", "programs", "only", "contestant", "library", "pairs", "seconds", "command"


def make_plan(options):
    """(cells, rounds, seconds)."""
    pattern = options.get("match")
    if options["command"]:
        return [cells.Command(options["command"], re.compile(pattern, re.M) if pattern else None)], \
            options["pairs"] or 5, options["seconds"] or 10
    found, rounds, seconds = cells.plan(options["size"] or "normal", len(os.sched_getaffinity(0)))
    only = options["only"] or ()
    if options["programs"] or any(glob.startswith("programs:") for glob in only):
        found += cells.programs()
    if only:
        found = [cell for cell in found if any(fnmatch.fnmatchcase(cell.id, glob) for glob in only)]
    return found, options["pairs"] or rounds, options["seconds"] or seconds


def make_contestants(options):
    library, listed = options["library"] or paths.LIBRARY, preload.listed() is not None
    found = [Contestant(spec, os.path.abspath(library), listed) for spec in options["contestant"] or ("glibc", "parkade")]
    if len({contestant.name for contestant in found}) < max(2, len(found)):
        raise ValueError("at least two contestants are wanted, of different names")
    return found


def calibrate():
    """Rounds of an empty loop in a nanosecond: one figure for all, or they would not do the same work."""
    try:
        done = subprocess.run([cells.program(), "--calibrate"], capture_output=True, text=True, timeout=60, check=True,
                              env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"})
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Failed(f"{cells.program()}: {error}") from None


class Bench:
    def __init__(self, results, contestants, rounds, seconds, path):
        self.results, self.contestants, self.path = results, contestants, path
        self.rounds, self.seconds = rounds, seconds
        self.most = rounds * (1 if results.data["options"]["size"] == "quick" else AGAIN)

    def missing(self, cell):
        entry = self.results.cells.get(cell.id)
        quiet = sum(part["noise"] <= QUIET for part in entry["rounds"]) if entry else 0
        done = len(entry["rounds"]) if entry else 0
        if done >= self.most:
            return 0
        return self.rounds - quiet if quiet < self.rounds else int(self.results.is_wide(cell.id))

    def round(self, cell, place):
        noise, runs = Noise(), []
        for contestant in self.contestants:
            runs.append(cell.measure(contestant, place, self.seconds, self.results.data["speed"]))
        self.results.add(cell, noise.share(), runs, [cell.command(contestant, self.seconds) for contestant in self.contestants])

    def cell(self, cell, advance):
        """Measures what is missing of it."""
        with tempfile.TemporaryDirectory(prefix="parkade-bench.") as place:
            cell.ready(place)
            if cell.warm:
                cell.measure(self.contestants[0], place, self.seconds, self.results.data["speed"])
            n = 0
            while self.missing(cell):
                self.round(cell, place)
                n += 1
                advance(min(1, n / self.rounds))
            ours = next((contestant for contestant in self.contestants[1:] if contestant.is_ours), None)
            if cell.has_locks and ours:
                with contextlib.suppress(Failed):       # as without the statistics module
                    self.results.cells[cell.id]["lock"] = cell.lock(ours, place, self.seconds, self.results.data["speed"])

    def all(self, plan):
        """Whether all could be measured."""
        wanted = [cell for cell in plan if self.missing(cell)]
        weight = [cell.seconds(self.seconds) for cell in wanted]
        total, before = sum(weight) or 1, 0
        with progress(f"measuring {len(wanted)} cells") as advance:
            for cell, part in zip(wanted, weight):
                self.results.data["failed"].pop(cell.id, None)
                try:
                    self.cell(cell, lambda share, done=before, part=part: advance((done + part * share) / total))
                except Failed as failure:
                    self.results.data["failed"][cell.id] = str(failure)
                self.results.save(self.path)
                before += part
                advance(before / total)
        return not self.results.data["failed"]


def silent(results, contestants):
    """Contestants under the library of which no run says that it was there."""
    for n, contestant in enumerate(contestants):
        runs = [part["runs"][n] for entry in results.cells.values() for part in entry["rounds"]]
        if contestant.is_ours and runs and all(run["entered"] is None for run in runs):
            yield contestant.name


def finish(args, results, place):
    """Writes and prints the report: the exit status."""
    pictures = charts.draw(results, place) if images.can_draw() else []
    parts = report.write(results, place, pictures)
    if args.json:
        print(json.dumps(results.data))
    else:
        print(report.as_text(parts))
        if not images.can_draw():
            print("There are no pictures: they need matplotlib (Debian, Fedora: python3-matplotlib).")
        print(f"Written: {os.path.join(place, 'report.html')}, report.md, {DATA}")
    cpus = results.data["machine"]["cpus"]
    return int(bool(results.data["failed"]) or args.check and any(row.faults(cpus) for row in results.rows()))


def measure(args):
    if args.resume:
        place = args.resume
        results = Results.load(os.path.join(place, DATA))
        options = results.data["options"]
    else:
        options = {key: getattr(args, key) for key in PLAN}
        options["match"] = args.match.pattern if args.match else None
        results = None
    try:
        contestants = make_contestants(options)
        plan, rounds, seconds = make_plan(options)
    except ValueError as error:
        args.parser.error(str(error))
    if not plan:
        args.parser.error("--only leaves no cell; --list prints them")
    if args.list:
        print("\n".join(cell.id for cell in plan))
        return 0
    if not results:
        place = args.output or time.strftime("parkade-bench-%Y%m%d-%H%M%S")
        if os.path.exists(os.path.join(place, DATA)):
            args.parser.error(f"there are results in {place}: --resume goes on with them")
        results = Results.new(options, contestants, paths.VERSION, calibrate())
        os.makedirs(place, exist_ok=True)
    if any(contestant.is_switched_off for contestant in contestants):
        print(f"parkade: warning: {preload.LIST} names {preload.listed()}: glibc runs with the library loaded and switched "
              "off (PARKADE_POLICY=glibc); without it after `parkade system disable'", file=sys.stderr)
    estimate = sum(cell.seconds(seconds) for cell in plan) * rounds * len(contestants)
    print(f"{len(plan)} cells, {rounds} rounds of {', '.join(c.name for c in contestants)}: about "
          f"{estimate / 60:.0f} minutes{'' if options['size'] == 'quick' else ', and more where rounds differ'}", file=sys.stderr)
    try:
        Bench(results, contestants, rounds, seconds, os.path.join(place, DATA)).all(plan)
    except KeyboardInterrupt:
        results.save(os.path.join(place, DATA))
        print(f"parkade: interrupted; parkade bench --resume {place} goes on", file=sys.stderr)
        return 130
    for name in silent(results, contestants):
        print(f"parkade: remark: {name}: the library did not report at the end of the command: {SILENT}; "
              "PARKADE_STATS=file: is written by the first of these", file=sys.stderr)
    return finish(args, results, place)


def run(args):
    fresh = [f"--{name}" for name in ("programs", "only", "contestant", "library", "pairs", "seconds", "output", "match")
             if getattr(args, name)]
    fresh += [f"--{args.size}"] if args.size else []
    fresh += ["a command"] if args.command else []
    if (args.resume or args.report) and fresh:
        args.parser.error(f"{', '.join(fresh)}: not with --resume or --report, which have it from there")
    if args.resume and args.report:
        args.parser.error("--resume or --report, not both")
    if args.match and not args.command:
        args.parser.error("--match goes with a command")
    try:
        if args.report:
            return finish(args, Results.load(os.path.join(args.report, DATA)), args.report)
        return measure(args)
    except (Failed, Unreadable) as error:
        print(f"parkade: error: {error}", file=sys.stderr)
        return 1
