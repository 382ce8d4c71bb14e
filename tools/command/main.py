# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Reads the command line and calls the sub-command.

A sub-command is a module with add(commands), which adds its parser; the function that the parser
sets as `run' gets the arguments and returns the exit status. One that has an exit status of its own for wrong usage
has its parser's error() say so.
"""

import argparse
import contextlib
import os
import signal
import sys

from . import become, bench, ctl, doctor, files, launch, paths, policies, stat, system, topology, tune, units

SUBCOMMANDS = (launch, stat, ctl, policies, doctor, bench, topology, tune, units, system)
INTERRUPTED, PIPE = 128 + signal.SIGINT, 128 + signal.SIGPIPE      # as a shell says that a signal ended a program


def parser():
    top = argparse.ArgumentParser(prog="parkade", description="Steers the parkade lock library. See parkade(1); "
                                  "parkade(7) is about the library itself.")
    top.add_argument("--version", action="version", version=f"parkade {paths.VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for module in SUBCOMMANDS:
        module.add(commands)
    for command in commands.choices.values():
        command.set_defaults(error=command.error)       # with its own usage, and run's status
    return top


def call(arguments):
    args, unknown = parser().parse_known_args(arguments)
    if unknown:
        args.error(f"unrecognized arguments: {' '.join(unknown)}")
    return args.run(args)


def flush():
    if sys.stdout:
        sys.stdout.flush()


def give_up(status, text=None):
    """What still cannot be written goes nowhere, or Python would try it again at the exit, and complain."""
    try:
        flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if text:
        with contextlib.suppress(OSError):
            print(f"parkade: error: {text}", file=sys.stderr)
    return status


def main(arguments=None):
    become.restore_locale()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")   # what the locale does not have is no reason to fail
    try:
        try:
            status = call(arguments)
        except SystemExit:      # of argparse, which may have printed its help
            flush()
            raise
        flush()
        return status
    except KeyboardInterrupt:
        return give_up(INTERRUPTED)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and not error.filename:
            return give_up(PIPE)
        return give_up(1, files.message(error))
