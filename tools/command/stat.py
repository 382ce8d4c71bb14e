# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade stat: which locks threads waited for, and where; after processes have ended, or while one runs."""

import argparse
import json
import shutil
import sys
import time

from . import control, doctor, locks, process

DESCRIPTION = """\
Shows what PARKADE_STATS=file:FILE has written at the exit of processes: the locks for which threads had to wait, those with
the longest waits first, and the places in the program that first waited for them. With -p, the counters of a process that
runs (started with PARKADE_CONTROL=1, as by `parkade run') and, if it keeps statistics (PARKADE_STATS), its locks."""
EPILOG = """\
exit status: 0 done; 1 nothing could be read; 2 wrong usage."""
PATIENCE = 0.2


def count(text):
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 32):
        raise argparse.ArgumentTypeError(f"'{text}': not a number above 0")
    return int(text)


def seconds(text):
    number = float(text)
    if not 0.05 <= number <= 86400:
        raise ValueError
    return number


def add(commands):
    parser = commands.add_parser("stat", help="show which locks threads waited for", description=DESCRIPTION, epilog=EPILOG)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", metavar="FILE")
    what.add_argument("-p", "--pid", type=doctor.process, metavar="PID", help="of a process that runs")
    parser.add_argument("--interval", type=seconds, metavar="S", help="with -p: go on, every S seconds, until ^C")
    parser.add_argument("--top", type=count, default=10, metavar="N", help="how many locks of each process (10)")
    parser.add_argument("--json", action="store_true", help="print a list of objects, with the names of the places")
    parser.set_defaults(run=run)


def show(reports, args):
    locks.resolve(reports)
    if args.json:
        print(json.dumps(reports, indent=1))
    else:
        print("\n\n".join("\n".join(locks.describe(report, args.top)) for report in reports))


def from_file(args):
    try:
        with open(args.file, encoding="utf-8", errors="replace") as file:
            reports, bad = locks.read(file)
    except OSError as error:
        print(f"parkade stat: error: {args.file}: {error.strerror}", file=sys.stderr)
        return 1
    if bad:
        print(f"parkade stat: warning: {args.file}: {bad} lines are no statistics: ignored", file=sys.stderr)
    if not reports:
        print(f"parkade stat: error: {args.file}: no statistics; they come of PARKADE_STATS=file:{args.file}, "
              "when a process with the library exits", file=sys.stderr)
        return 1
    show(reports, args)
    return 0


def counters(before, after, passed):
    """Lines: what has happened since, and how often a second."""
    changed = {name: (after[name], after[name] - before.get(name, 0)) for name in after if after[name]}
    wide = max(map(len, changed), default=0)
    for name, (total, new) in changed.items():
        yield f"{name:<{wide}} {total:>14}" + (f" {new / passed:>12.0f}/s" if passed else "")


def look(page, name, before, passed, args):
    """Show a process once; its counters."""
    fresh = page.ask([], PATIENCE)
    after = page.counters()
    report = control.statistics(args.pid, name, page.policy())
    if args.json:
        locks.resolve([report] if report else [])
        print(json.dumps({"pid": args.pid, "program": name, "policy": page.policy(), "fresh": fresh, "counters": after,
                          "report": report}), flush=True)
        return after
    lines = [f"{args.pid} {name}: policy {page.policy()}" + ("" if fresh else ": no thread has had to wait just now")]
    lines += counters(before, after, passed)
    if report:
        locks.resolve([report])
        lines += [""] + list(locks.describe(report, args.top))[1:]
    if sys.stdout.isatty() and args.interval:
        height = max(shutil.get_terminal_size().lines - 1, 2)
        print("\033[H\033[J" + "\n".join(lines[:height]), flush=True)
    else:
        print("\n".join(lines), flush=True)
    return after


def from_process(args):
    name = locks.printable(process.Process(args.pid).name)
    with control.Page(args.pid) as page:
        before, last = look(page, name, {}, 0, args), time.monotonic()
        while args.interval:
            time.sleep(max(0, last + args.interval - time.monotonic()))
            process.Process(args.pid)
            now = time.monotonic()
            if not args.json and not sys.stdout.isatty():
                print()
            before, last = look(page, name, before, now - last, args), now
    return 0


def run(args):
    if not args.pid:
        return from_file(args)
    try:
        return from_process(args)
    except (control.Unreachable, process.Unreadable) as error:
        print(f"parkade stat: error: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        sys.stderr.close()      # so that nothing is said of a pipe that nobody reads
        return 0
