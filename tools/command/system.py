# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade system: the library in /etc/ld.so.preload, for every program.

The work is done by a shell script that is installed with the library: the package manager
runs it, too, where this command or Python need not be installed.
"""

import argparse
import os
import sys

from . import become, paths

DESCRIPTION = """\
Names the library in /etc/ld.so.preload, so that every program that starts from then on has it, takes
it out again, or says how things stand. The new list is tried on a program before it is put in place,
and taken back if a program does not start with it."""
EPILOG = """\
exit status: 0 done, or enabled and working; 1 failed, or not enabled (status); 2 wrong usage;
3 named in the list, but programs do not get it (status)."""


def add(commands):
    parser = commands.add_parser("system", help="switch the library on or off for every program",
                                 description=DESCRIPTION, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["enable", "disable", "status"])
    parser.set_defaults(run=run)


def run(args):
    script = os.path.join(paths.PRIVATE, "system-preload")
    try:
        become.become([script, args.action], os.environ)
    except OSError as error:
        print(f"parkade: error: {script}: {error.strerror}: is the library's package installed?", file=sys.stderr)
        return 1
