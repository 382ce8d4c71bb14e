# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade run: one command with the library, and with settings that were checked."""

import argparse
import os
import sys

from . import become, preload, settings

DESCRIPTION = """\
Runs a command with the library preloaded, behind what LD_PRELOAD names already. The process becomes the command: its
exit status is that of parkade. `parkade stat -p' and `parkade ctl' reach it (PARKADE_CONTROL=1)."""
EPILOG = """\
exit status: the command's; 125 parkade failed; 126 the command cannot be run; 127 it was not found."""
FAILED, CANNOT, NOT_FOUND = 125, 126, 127


def add(commands):
    parser = commands.add_parser("run", help="run a command with the library", description=DESCRIPTION, epilog=EPILOG)

    def error(message):
        """Wrong usage must not look like the command's own exit status."""
        parser.print_usage(sys.stderr)
        parser.exit(FAILED, f"{parser.prog}: error: {message}\n")
    parser.error = error
    settings.arguments(parser)
    parser.add_argument("--stats", action="store_true", help="at its exit, say which locks threads waited for (unless stats=file: has them written)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="[--] COMMAND [ARGUMENT ...]")
    parser.set_defaults(run=run)


def run(args):
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        print("parkade run: error: which command? As in: parkade run --policy cna -- make -j8", file=sys.stderr)
        return FAILED
    try:
        name = preload.library()
    except preload.Unusable as error:
        print(f"parkade run: error: {error}", file=sys.stderr)
        return FAILED
    environment = {**os.environ, **settings.environment(args)}
    environment.setdefault("PARKADE_CONTROL", "1")
    # A file that was named says more.
    if args.stats and (settings.taken(environment, "STATS") or "").partition(":")[0] != "file":
        environment["PARKADE_STATS"] = "on"
    environment["LD_PRELOAD"] = preload.added(environment.get("LD_PRELOAD"), name)
    try:
        become.become(command, environment)
    except OSError as error:
        print(f"parkade run: error: {command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT
