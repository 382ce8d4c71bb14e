# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade ctl: the policy and a few numbers of a running process."""

import argparse
import sys

from . import arguments, control, doctor, settings

DESCRIPTION = f"""\
Changes the policy of a running process, or {', '.join(control.KNOB_NAMES)}; or shows them. The process has to have been
started with PARKADE_CONTROL=1 (as `parkade run' does) and belong to the same user. It does what is asked when one of its
threads next has to wait for a lock: before, it makes no difference."""
EPILOG = """\
exit status: 0 done; 1 failed; 2 wrong usage; 3 no thread has had to wait yet: it will be done then."""


def change(text):
    name, value = settings.option(text)
    if name.lower() not in control.LIVE:
        raise argparse.ArgumentTypeError(f"{name.lower()} cannot be changed while the process runs, only "
                                         f"{', '.join(control.LIVE)}")
    return f"{name.lower()}={value}"


def add(commands):
    parser = commands.add_parser("ctl", help="change the policy of a running process", description=DESCRIPTION,
                                 epilog=EPILOG)
    parser.add_argument("pid", type=doctor.process, metavar="PID")
    parser.add_argument("changes", type=change, nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--wait", type=arguments.positive(float, 1e6), default=2, metavar="S", help="for the process to do it (2 seconds)")
    parser.set_defaults(run=run)
    arguments.intermix(parser)


def spelled(values):
    return " ".join(f"{name}={value}" for name, value in values.items())


def in_force(page):
    return spelled({"policy": page.policy(), **page.knobs()})


def look(page):
    fresh = page.ask([], 0.1)
    print(in_force(page))
    if not fresh and page.pending():
        print(f"not done yet: {spelled(page.pending())}")
    return 0


def run(args):
    try:
        with control.Page(args.pid) as page:
            if not args.changes:
                return look(page)
            if not page.ask(args.changes, args.wait):
                print(f"parkade ctl: process {args.pid}: no thread has had to wait yet; it will be done then",
                      file=sys.stderr)
                return 3
            if page.reply():
                print(f"parkade ctl: error: process {args.pid}: {page.reply()}; in force is {in_force(page)}", file=sys.stderr)
                return 1
            if page.refused:
                print(f"parkade ctl: warning: process {args.pid}: what was asked for before is not done: {page.refused}",
                      file=sys.stderr)
            print(in_force(page))
            return 0
    except control.Unreachable as error:
        print(f"parkade ctl: error: {error}", file=sys.stderr)
        return 1
