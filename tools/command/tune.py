# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade tune: which policy is best on this machine, by CLoF's scripted benchmark (SOSP 2021, section 4.3)."""

import argparse
import datetime
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time

from . import arguments, contestants, files, images, lineplot, paths, preload, ranking
from .machine import KINDS, Machine
from .progress import progress

DESCRIPTION = """\
Runs a benchmark under every policy and every composition of locks for the levels of this machine, with few and with
many threads, ranks them for low and for high contention (CLoF, SOSP 2021, section 4.3), and writes the best to the file
that PARKADE_POLICY=auto reads. The best of a round go on to the next, so that most of the time goes into those that
matter."""
EPILOG = """\
COMMAND is a benchmark of your own; {threads} in it becomes the number of threads, and --metric finds its result in
what it prints:

  parkade tune --metric 'readrandom .* ([0-9.]+) micros/op' --less -- \\
      db_bench --benchmarks=readrandom --threads={threads}

exit status: 0 done; 1 failed; 2 wrong usage; 130 interrupted: with --save, the same command goes on."""
FORMAT = 1                      # of the files
ROUNDS = 4                      # of which each has a quarter of the contestants of the one before
KEPT = 8                        # of them, at least
LEAST, MOST = 0.05, 2.0         # seconds for a run of our own benchmark
MARGIN = 0.02                   # by which the default policy may be behind and still be chosen, or more if rates vary
ALWAYS = (contestants.BASE, contestants.DEFAULT, "hmcs")
SHOWN = 8
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


class Failed(Exception):
    pass


def numbers(text):
    parts = text.split(",")
    if not all(re.fullmatch("[0-9]{1,5}", part) and 0 < int(part) <= 10000 for part in parts):
        raise argparse.ArgumentTypeError(f"{text}: numbers from 1 to 10000 are wanted, with commas between")
    return sorted(set(map(int, parts)))


def kinds(text):
    found = [kind for kind in KINDS if kind in text.split(",")]
    if len(found) != len(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text}: some of {','.join(KINDS)} are wanted")
    return found


def add(commands):
    parser = commands.add_parser("tune", help="find the best policy for this machine", description=DESCRIPTION,
                                 epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=arguments.positive(float, 1e7), default=300, metavar="S", help="how long it may take (300)")
    parser.add_argument("--threads", type=numbers, metavar="N,N,...",
                        help="contention levels (1, 2, 4 ... to four times the CPUs)")
    parser.add_argument("--levels", type=kinds, metavar="KIND,...",
                        help="the levels that compositions have (all that the machine has, three at most)")
    parser.add_argument("--policies", action="append", default=[], metavar="GLOB",
                        help="only these, as 'clof:*'; may be given several times")
    parser.add_argument("--contention", choices=(ranking.LOW, ranking.HIGH), default=ranking.LOW,
                        help="which rank the choice goes by (low, which the paper found more balanced)")
    parser.add_argument("--metric", type=arguments.expression, metavar="REGEX",
                        help="finds the result in what COMMAND prints: its group, or all of it, is a number")
    parser.add_argument("--less", action="store_true", help="a lower number is better")
    parser.add_argument("--limit", type=arguments.positive(float, 1e7), default=60, metavar="S",
                        help="how long a single run of COMMAND may take (60)")
    parser.add_argument("--save", metavar="FILE", help="keep every result there, and go on from those that are there")
    parser.add_argument("--output", type=images.name, metavar="FILE", help="draw the ranks: FILE.png or FILE.svg")
    parser.add_argument("--write", metavar="FILE", help="where the choice goes (/etc/parkade.conf for root, else "
                        "parkade.conf in $XDG_CONFIG_HOME or ~/.config)")
    parser.add_argument("--dry-run", action="store_true", help="write no choice")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the benchmark, after --; our own if not given")
    parser.set_defaults(run=run, parser=parser)


def contention_levels(cpus):
    """1, 2, 4 ... up to so many CPUs, these, and two and four times as many."""
    powers = [2 ** n for n in range(14) if 2 ** n < cpus]
    return [*powers, cpus, 2 * cpus, 4 * cpus]


class Benchmark:
    """A command, run with so many threads under a contestant; gives a rate, more is better."""

    def __init__(self, args):
        self.args = args
        self.own = not args.command

    def command(self, threads, seconds):
        if self.own:
            return [os.path.join(paths.HELPERS, "parkade-bench"), "mutex", "--json", f"--seconds={seconds:.3f}",
                    f"--threads={threads}", "--held=35", "--outside=175", "--speed=2.5"]
        return [word.replace("{threads}", str(threads)) for word in self.args.command]

    def run(self, contestant, environment, threads, seconds):
        """The rate; Failed if there is none."""
        env = {name: value for name, value in os.environ.items()
               if name not in ("PARKADE_POLICY", "PARKADE_LEVELS", "PARKADE_CONF")}
        env.update(environment)
        if contestant != contestants.BASE:
            env["LD_PRELOAD"] = preload.added(os.environ.get("LD_PRELOAD"), preload.library())
        try:
            child = subprocess.Popen(self.command(threads, seconds), env=env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise Failed(f"{error.filename}: {error.strerror}") from None
        try:
            text = child.communicate(timeout=self.args.limit)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {self.args.limit:g} s") from None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)    # also what it left behind
            except ProcessLookupError:
                pass
            child.wait()
            child.stdout.close()
        if child.returncode:
            raise Failed(f"exit status {child.returncode}: {last_line(text)}")
        return self.rate(text)

    def rate(self, text):
        metric = re.compile(rf'"rate": ({NUMBER})') if self.own else self.args.metric
        found = metric.search(text)
        value = found and (found[1] if metric.groups else found[0])
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not (0 < number < math.inf):
            raise Failed(f"no result in what it prints: {last_line(text)}")
        return 1 / number if self.args.less else number


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "(nothing)"


class Results:
    """(contestant, threads, rate) of all runs, kept in a file as they come: a line of what was asked, then one each."""

    def __init__(self, path, question):
        self.rows, self.failed, self.file, self.path = [], {}, None, path
        if not path:
            return
        if os.path.exists(path) and os.path.getsize(path):
            self.load(path, question)
            self.file = open(path, "a", encoding="utf-8")
        else:
            self.file = open(path, "w", encoding="utf-8")
            self.keep(question)

    def load(self, path, question):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        whole = text[:text.rfind("\n") + 1]     # the last line may have been cut
        try:
            first, *rows = map(json.loads, whole.splitlines())
            if first != question:
                other = [key for key in question if not isinstance(first, dict) or first.get(key) != question[key]]
                raise Failed(f"{path}: was made with another {', '.join(other)}: take another file, or remove it")
            for row in rows:
                self.note(row["policy"], row["threads"], row["rate"], row.get("why"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Failed(f"{path}: is not of this command") from None
        if whole != text:
            os.truncate(path, len(whole.encode()))

    def keep(self, row):
        if self.file:
            with files.named(self.path):
                self.file.write(json.dumps(row) + "\n")
                self.file.flush()

    def note(self, contestant, threads, rate, why=None):
        if rate is None:
            self.failed[contestant] = str(why)
        else:
            self.rows.append((contestant, threads, float(rate)))

    def add(self, contestant, threads, rate, why=None):
        self.note(contestant, threads, rate, why)
        self.keep({"policy": contestant, "threads": threads, "rate": rate, **({"why": why} if why else {})})

    def ratios(self):
        rates = ranking.medians(row for row in self.rows if row[0] not in self.failed)
        return ranking.relative(rates, contestants.BASE) if contestants.BASE in rates else {}


def race(benchmark, field, levels, results, seconds, advance):
    """Rounds, until the time is over: in the first all run, then the best."""
    start, chance = time.monotonic(), random.Random(len(results.rows))
    runs = {}
    for contestant, threads, _ in results.rows:
        runs[contestant, threads] = runs.get((contestant, threads), 0) + 1

    def part():
        return (time.monotonic() - start) / seconds

    for turn in range(ROUNDS if benchmark.own else 1000000):
        names = [name for name in field if name not in results.failed]
        if turn:
            count = max(KEPT, len(field) // 4 ** turn)
            names = ranking.remaining(results.ratios(), count, ALWAYS)
        todo = [(name, threads) for name in names for threads in levels if runs.get((name, threads), 0) <= turn]
        chance.shuffle(todo)
        todo.sort(key=lambda run: not turn and run[0] != contestants.BASE)  # if that fails, nothing works
        share = seconds * (turn + 1) / ROUNDS - (time.monotonic() - start)
        length = min(max(share / max(1, len(todo)) - 0.01, LEAST), MOST)
        for name, threads in todo:
            # The first round is finished: without it there is nothing to rank.
            if turn and part() >= 1:
                return
            if name in results.failed:
                continue
            try:
                results.add(name, threads, benchmark.run(name, field[name], threads, length))
            except Failed as error:
                if name == contestants.BASE:
                    raise Failed(f"without the library: {error}") from None
                results.add(name, threads, None, str(error))
            runs[name, threads] = runs.get((name, threads), 0) + 1
            advance(min(part(), 0.99))
        if part() >= 1 and turn:
            return


def table(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{cell:<{width}}" if n == 1 else f"{cell:>{width}}"
                      for n, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def describe(ratios, results, levels, choice, contention, noise):
    lines = [f"Rates of a contestant typically vary by {noise:.0%} to either side.", ""]
    for rank in ranking.LOW, ranking.HIGH:
        order = ranking.rank(ratios, rank)
        shown = order[:SHOWN] + [name for name in (*ALWAYS, order[-1]) if name in order[SHOWN:]]
        lines += [f"for {rank} contention; rates of {contestants.BASE}'s own locks are 1:", ""]
        rows = [("", "policy", "score", *(f"{threads} threads" if threads > 1 else "1 thread" for threads in levels))]
        rows += [(str(order.index(name) + 1), name, f"{ranking.score(ratios[name], rank):.2f}",
                  *(f"{ratios[name][threads]:.2f}" for threads in levels)) for name in dict.fromkeys(shown)]
        lines += [*table(rows), ""]
    for name, why in sorted(results.failed.items()):
        lines.append(f"failed: {name}: {why}")
    best = ranking.rank(ratios, contention)[0]
    if choice != best:
        lines.append(f"{best} is not clearly better than the default.")
    lines.append(f"The choice, for {contention} contention: {choice}")
    return lines


def place_of_choice():
    if os.geteuid() == 0:
        return "/etc/parkade.conf"
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if base.startswith("/") else os.path.expanduser("~/.config"), "parkade.conf")


def write_choice(path, choice, environment, what):
    """Put the choice into the file; other settings that are there stay."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:    # a comment may be in any encoding
            kept = [line for line in file.read().splitlines()
                    if not re.match(r"\s*(policy|levels)\s*=|# parkade tune", line)]
    except FileNotFoundError:
        kept = []
    lines = [f"# parkade tune, {datetime.date.today()}: {what}", f"policy={choice}"]
    if environment.get("PARKADE_LEVELS"):
        lines.append(f"levels={environment['PARKADE_LEVELS']}")
    os.makedirs(os.path.dirname(os.path.realpath(path)), exist_ok=True)
    files.replace(path, "\n".join(lines + kept) + "\n", ".parkade.conf.")


def check_usage(args):
    if args.command and not args.metric:
        args.parser.error("COMMAND goes with --metric, which finds its result")
    if not args.command and (args.metric or args.less):
        args.parser.error("--metric and --less go with COMMAND")
    if args.command and not any("{threads}" in word for word in args.command) and len(args.threads or ()) != 1:
        args.parser.error("COMMAND does not say where the number of threads goes: {threads}, or --threads with one")
    if args.levels and len(args.levels) >= contestants.LOCKS:
        args.parser.error(f"--levels: {contestants.LOCKS - 1} at most")


def levels_of(args, machine):
    description = os.environ.get("PARKADE_TOPOLOGY")
    levels = contestants.levels_described(description) if description else machine.levels
    if args.levels and not args.command:    # that may be about another machine
        absent = [kind for kind in args.levels if kind not in levels]
        if absent:
            raise Failed(f"--levels: the machine has no level {', '.join(absent)}, but {', '.join(levels) or 'none'}")
    return (args.levels or levels)[-(contestants.LOCKS - 1):]


def run(args):
    check_usage(args)
    if args.output and not images.can_draw():
        print("parkade: error: --output needs matplotlib (Debian, Fedora: python3-matplotlib)", file=sys.stderr)
        return 1
    try:
        return tune(args)
    except KeyboardInterrupt:
        print("parkade: interrupted" + (f": the same command goes on from {args.save}" if args.save else ""),
              file=sys.stderr)
        return 130
    except (Failed, contestants.Unknown, preload.Unusable) as error:
        print(f"parkade: error: {error}", file=sys.stderr)
        return 1


def tune(args):
    machine = Machine()
    threads = args.threads or contention_levels(len(machine.usable))
    levels = levels_of(args, machine)
    field = contestants.chosen(contestants.all_for(levels), args.policies)
    question = {"format": FORMAT, "threads": threads, "levels": levels, "command": args.command,
                "metric": args.metric.pattern if args.metric else None, "less": args.less,
                "topology": os.environ.get("PARKADE_TOPOLOGY", "")}
    results = Results(args.save, question)
    target = None if args.dry_run else args.write or place_of_choice()
    for path in filter(None, [args.output, target]):
        if path != target or os.path.exists(os.path.dirname(os.path.realpath(path))):   # which is made
            files.check(path)
    with progress(f"{len(field)} policies, {len(threads)} contention levels") as advance:
        race(Benchmark(args), field, threads, results, args.seconds, advance)
    ratios = results.ratios()
    noise = ranking.noise(results.rows, contestants.BASE)
    choice = ranking.choose(ratios, args.contention, contestants.DEFAULT, max(MARGIN, noise))
    if args.output:
        lineplot.draw(ratios, threads, {kind: ranking.rank(ratios, kind)[0] for kind in (ranking.LOW, ranking.HIGH)},
                      ALWAYS, args.output)
    if target:          # before all that is printed: whoever reads that may not read to its end
        what = args.command[0] if args.command else "its own benchmark"
        write_choice(target, choice, field[choice],
                     f"of {len(field)}, for {args.contention} contention, by {os.path.basename(what)}")
    if args.json:
        print(json.dumps({**question, "choice": choice, "environment": field[choice], "noise": round(noise, 4), "failed": results.failed,
                          "ratios": {name: {str(n): round(ratio, 4) for n, ratio in at.items()}
                                     for name, at in ratios.items()},
                          "ranks": {kind: [[name, round(ranking.score(ratios[name], kind), 4)]
                                           for name in ranking.rank(ratios, kind)]
                                    for kind in (ranking.LOW, ranking.HIGH)}}))
    else:
        print("\n".join(describe(ratios, results, threads, choice, args.contention, noise)))
    if target and not args.json:
        print(f"Written to {target}: PARKADE_POLICY=auto reads it.")
    return 0
