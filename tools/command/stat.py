# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade stat: which locks threads waited for, and where."""

import argparse
import json
import sys

from . import locks

DESCRIPTION = """\
Shows what PARKADE_STATS=file:FILE has written at the exit of processes: the locks for which threads had to wait, those with
the longest waits first, and the places in the program that first waited for them."""
EPILOG = """\
exit status: 0 done; 1 nothing could be read; 2 wrong usage."""


def count(text):
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 32):
        raise argparse.ArgumentTypeError(f"'{text}': not a number above 0")
    return int(text)


def add(commands):
    parser = commands.add_parser("stat", help="show which locks threads waited for", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--top", type=count, default=10, metavar="N", help="how many locks of each process (10)")
    parser.add_argument("--json", action="store_true", help="print a list of objects, with the names of the places")
    parser.set_defaults(run=run)


def run(args):
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
    locks.resolve(reports)
    if args.json:
        print(json.dumps(reports, indent=1))
    else:
        print("\n\n".join("\n".join(locks.describe(report, args.top)) for report in reports))
    return 0
