# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade stat: which locks threads waited for, and where; after processes have ended, or while one runs."""

import json
import os
import shutil
import sys
import time

from . import arguments, control, doctor, files, images, locks, paths, process, waits

DESCRIPTION = """\
Shows what PARKADE_STATS=file:FILE has written at the exit of processes: the locks for which threads had to wait, those with
the longest waits first, and the places in the program that first waited for them. With -p, the counters of a process that
runs (started with PARKADE_CONTROL=1, as by `parkade run') and, if it keeps statistics (PARKADE_STATS), its locks."""
EPILOG = """\
exit status: 0 done; 1 nothing could be read; 2 wrong usage."""
PATIENCE = 0.2


COUNT = arguments.positive(int, 1e9)


def add(commands):
    parser = commands.add_parser("stat", help="show which locks threads waited for", description=DESCRIPTION, epilog=EPILOG)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", metavar="FILE")
    what.add_argument("-p", "--pid", type=doctor.process, metavar="PID", help="of a process that runs")
    parser.add_argument("--interval", type=arguments.positive(float, 86400, least=0.05), metavar="S", help="with -p: go on, every S seconds, until ^C")
    parser.add_argument("--count", type=COUNT, metavar="N", help="with --interval: N times, and not until ^C")
    parser.add_argument("--image", type=images.name, metavar="FILE",
                        help="with --interval: in the end, draw how long threads waited over time (.png or .svg)")
    parser.add_argument("--top", type=COUNT, default=10, metavar="N", help="how many locks of each process (10)")
    parser.add_argument("--json", action="store_true", help="print a list of objects, with the names of the places")
    parser.set_defaults(run=run)


def show(reports, args):
    locks.resolve(reports)
    if args.json:
        print(json.dumps(reports, indent=1))
    else:
        print("\n\n".join("\n".join(locks.describe(report, args.top)) for report in reports))


def lacking():
    """Words for where nothing can come, as the module that counts is not there."""
    places = [os.path.join(os.path.dirname(paths.LIBRARY), *where, "parkade-stats.so") for where in (["parkade"], [])]
    return "" if any(map(os.path.exists, places)) else \
        f"; there is no {places[0]}: it belongs to a library that was built with liburcu"


def from_file(args):
    try:
        with open(args.file, encoding="utf-8", errors="replace") as file:
            reports, bad = locks.read(file)
    except OSError as error:
        print(f"parkade stat: error: {args.file}: {error.strerror}{lacking()}", file=sys.stderr)
        return 1
    if bad:
        print(f"parkade stat: warning: {args.file}: {bad} lines are no statistics: ignored", file=sys.stderr)
    if not reports:
        print(f"parkade stat: error: {args.file}: no statistics; they come of PARKADE_STATS=file:{args.file}, "
              f"when a process with the library exits{lacking()}", file=sys.stderr)
        return 1
    show(reports, args)
    return 0


def counters(before, after, passed):
    """Lines: what has happened since, and how often a second."""
    changed = {name: (after[name], after[name] - before.get(name, 0)) for name in after if after[name]}
    wide = max(map(len, changed), default=0)
    for name, (total, new) in changed.items():
        yield f"{name:<{wide}} {total:>14}" + (f" {new / passed:>12.0f}/s" if passed else "")


def on_terminal():
    """Standard output may be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def look(page, name, before, passed, args, history):
    """Show a process once; its counters."""
    fresh = page.ask([], PATIENCE)
    after, pending = page.counters(), {} if fresh else page.pending()
    report, root = control.statistics(args.pid, name, page.policy()), process.root_of(args.pid)
    history.add(time.monotonic(), page.policy(), report)
    if args.json:
        locks.resolve([report] if report else [], root)
        print(json.dumps({"pid": args.pid, "program": name, "policy": page.policy(), "fresh": fresh, "pending": pending,
                          "counters": after, "report": report}), flush=True)
        return after
    lines = [f"{args.pid} {name}: policy {page.policy()}" + ("" if fresh else ": no thread has had to wait just now")]
    lines += [f"not done yet: {' '.join(f'{name}={value}' for name, value in pending.items())}"] if pending else []
    lines += counters(before, after, passed)
    if report:
        locks.resolve([report], root)
        lines += [""] + list(locks.describe(report, args.top))[1:]
    else:
        lines += ["", f"no statistics of locks: the process keeps none (PARKADE_STATS){lacking()}"]
    if on_terminal() and args.interval:
        height = max(shutil.get_terminal_size().lines - 1, 2)
        print("\033[H\033[J" + "\n".join(lines[:height]), flush=True)
    else:
        print("\n".join(lines), flush=True)
    return after


def watch(page, name, args, history):
    before, last = look(page, name, {}, 0, args, history), time.monotonic()
    while args.interval and len(history.looks) != args.count:
        time.sleep(max(0, last + args.interval - time.monotonic()))
        if process.has_ended(args.pid):
            raise process.Unreadable
        now = time.monotonic()
        if not args.json and not on_terminal():
            print()
        before, last = look(page, name, before, now - last, args, history), now


def from_process(args):
    name, history = locks.printable(process.Process(args.pid).name), waits.History()
    try:
        with control.Page(args.pid) as page:
            watch(page, name, args, history)
    except KeyboardInterrupt:
        if not args.interval:
            raise
    except (ProcessLookupError, control.Unreachable, process.Unreadable):
        if not history.looks or not process.has_ended(args.pid):
            raise
        print(f"parkade stat: process {args.pid} has ended", file=sys.stderr)
    if args.image and not waits.draw(history, f"{name}: waits for its locks", args.image):
        print(f"parkade stat: error: {args.image}: nothing to draw: no lock was waited for in that time, or the process keeps "
              "no statistics (PARKADE_STATS)", file=sys.stderr)
        return 1
    return 0


def misuse(args):
    """What does not go together, or null."""
    if not args.interval and (args.count or args.image):
        return "--count and --image go with --interval"
    if args.interval and not args.pid:
        return "--interval goes with --pid"
    return None


def run(args):
    if misuse(args):
        print(f"parkade stat: error: {misuse(args)}", file=sys.stderr)
        return 2
    if args.image:
        files.check(args.image)     # or all that was seen would be lost in the end
    if args.image and not images.can_draw():
        print("parkade stat: error: --image needs matplotlib (python3-matplotlib)", file=sys.stderr)
        return 1
    if not args.pid:
        return from_file(args)
    try:
        return from_process(args)
    except (control.Unreachable, process.Unreadable) as error:
        print(f"parkade stat: error: {error}", file=sys.stderr)
        return 1
