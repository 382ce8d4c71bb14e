# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Reads the command line and calls the sub-command.

A sub-command is a module with add(commands), which adds its parser; the function that the parser
sets as `run' gets the arguments and returns the exit status. One that has an exit status of its own for wrong usage
sets `error', too.
"""

import argparse

from . import become, bench, ctl, doctor, launch, paths, policies, stat, system, topology, tune, units

SUBCOMMANDS = (launch, stat, ctl, policies, doctor, bench, topology, tune, units, system)


def parser():
    top = argparse.ArgumentParser(prog="parkade", description="Steers the parkade lock library. See parkade(1); "
                                  "parkade(7) is about the library itself.")
    top.add_argument("--version", action="version", version=f"parkade {paths.VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for module in SUBCOMMANDS:
        module.add(commands)
    return top


def main(arguments=None):
    become.restore_locale()
    top = parser()
    args, unknown = top.parse_known_args(arguments)
    if unknown:
        getattr(args, "error", top.error)(f"unrecognized arguments: {' '.join(unknown)}")
    return args.run(args)
