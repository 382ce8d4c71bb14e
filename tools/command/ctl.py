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
LIVE = ("policy",) + control.KNOB_NAMES


def change(text):
    name, value = settings.option(text)
    if name.lower() not in LIVE:
        raise argparse.ArgumentTypeError(f"{name.lower()} cannot be changed while the process runs, only {', '.join(LIVE)}")
    return f"{name.lower()}={value}"


def add(commands):
    parser = commands.add_parser("ctl", help="change the policy of a running process", description=DESCRIPTION,
                                 epilog=EPILOG)
    parser.add_argument("pid", type=doctor.process, metavar="PID")
    parser.add_argument("changes", type=change, nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--wait", type=arguments.positive(float, 1e6), default=2, metavar="S", help="for the process to do it (2 seconds)")
    parser.set_defaults(run=run)


def show(page):
    print(f"policy={page.policy()} " + " ".join(f"{name}={value}" for name, value in page.knobs().items()))


def run(args):
    try:
        with control.Page(args.pid) as page:
            if not args.changes:
                page.ask([], 0.1)
                show(page)
                return 0
            if not page.ask(args.changes, args.wait):
                print(f"parkade ctl: process {args.pid}: no thread has had to wait yet; it will be done then",
                      file=sys.stderr)
                return 3
            if page.reply():
                print(f"parkade ctl: error: process {args.pid}: {page.reply()}", file=sys.stderr)
                return 1
            show(page)
            return 0
    except control.Unreachable as error:
        print(f"parkade ctl: error: {error}", file=sys.stderr)
        return 1
