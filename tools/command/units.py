# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade enable, parkade disable: the library for one systemd service, by a drop-in file of its own."""

import argparse
import contextlib
import glob
import os
import re
import shlex
import subprocess
import sys

from . import files, preload, settings

ENABLE = """\
Writes a drop-in file that preloads the library in one systemd service, shows it, and has systemd read it. The service
gets the library when it is started next."""
DISABLE = "Takes the drop-in file of `parkade enable' away. The service keeps the library until it is started next."
EPILOG = "exit status: 0 done, or nothing to do; 1 failed; 2 wrong usage."
FILE = "50-parkade.conf"
MARK = "# Written by `parkade enable'; `parkade disable' takes it away."


class Failed(Exception):
    pass


def unit(text):
    """The name of a service, with .service where nothing is said."""
    name = text if re.search(r"\.[a-z]+$", text) else f"{text}.service"
    if not re.fullmatch(r"(?!-)[\w:.\\@-]+\.service", name, re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}': not the name of a service, as memcached or getty@tty1.service")
    return name


def root(text):
    """The directory of another system; None if it is this one, by whatever name."""
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"'{text}': there is no such directory")
    return None if os.path.samefile(text, "/") else text


def advise(args, text):
    """Of another system nothing runs."""
    if args.root is None:
        print(f"{text}: systemctl restart {args.unit}")


def add(commands):
    for name, function, text, what in (("enable", enable, ENABLE, "preload the library in a service"),
                                       ("disable", disable, DISABLE, "take it out of a service again")):
        parser = commands.add_parser(name, help=what, description=text, epilog=EPILOG)
        parser.add_argument("unit", type=unit, metavar="UNIT")
        if function is enable:
            settings.arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
        parser.add_argument("--root", type=root, metavar="DIR", help="of another system, which does not run")
        parser.set_defaults(run=lambda args, function=function: checked(function, args))


def place(args):
    return os.path.join(args.root or "/", "etc/systemd/system", f"{args.unit}.d", FILE)


def systemctl(*arguments):
    """What it says, or None where systemd is not in charge."""
    if not os.path.isdir("/run/systemd/system"):
        return None
    try:
        result = subprocess.run(["systemctl", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                check=False)
    except OSError:
        return None
    if result.returncode:
        raise Failed(f"systemctl {' '.join(arguments)}: {result.stderr.strip() or 'failed'}")
    return result.stdout


def shown(args, name):
    """That property of the service; of a template it is one of an instance's, of whatever name."""
    return systemctl("show", f"--property={name}", "--value", args.unit.replace("@.service", "@parkade.service")) or ""


def in_files(args):
    """(file, value) of the LD_PRELOAD that comes of the unit's EnvironmentFile=, or None: the last one counts."""
    found = None
    for pattern in re.findall(r"^(.*) \(ignore_errors=(?:yes|no)\)$", shown(args, "EnvironmentFiles"), re.MULTILINE):
        for path in sorted(glob.glob(pattern)):
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                for value in re.findall(r"^[ \t]*LD_PRELOAD[ \t]*=(.*)$", file.read(), re.MULTILINE):
                    found = path, re.sub("[\"']", " ", value)
    return found


def preloaded(args):
    """The unit's own LD_PRELOAD, which the drop-in file would hide."""
    if args.root is not None:
        return ""
    if shown(args, "LoadState") in ("not-found\n", "masked\n"):
        raise Failed(f"systemd knows no service {args.unit}: systemctl list-units --type=service lists them")
    other = in_files(args)
    if other and not preload.ours(other[1]):
        raise Failed(f"{other[0]} sets LD_PRELOAD, which counts more than a drop-in's: add {preload.library()} there")
    found = shown(args, "Environment")
    values = [word.partition("=")[2] for word in shlex.split(found) if word.startswith("LD_PRELOAD=")]
    return values[-1] if values else ""


def quoted(name, value):
    """An assignment as systemd reads it: % and backslashes are its own."""
    text = f"{name}={value}".replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if re.search(r"[\s'\"\\]", text) else text


def contents(args):
    library = preload.library() if args.root is None else "libparkade.so.1"
    variables = {"LD_PRELOAD": preload.added(preloaded(args), library), **settings.environment(args)}
    return "".join(f"{line}\n" for line in [MARK, "[Service]"] +
                   [f"Environment={quoted(name, value)}" for name, value in variables.items()])


def ours(path):
    """The file's text if `parkade enable' has written it; None if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    if not text.startswith(MARK):
        raise Failed(f"{path} was not written by this command: it is left as it is")
    return text


def reload(args):
    if args.root is None:
        systemctl("daemon-reload")


def enable(args):
    path, text = place(args), contents(args)
    ours(path)
    print(f"{'would write' if args.dry_run else 'writing'} {path}:")
    print("".join(f"    {line}\n" for line in text.splitlines()), end="")
    if args.dry_run:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.replace(path, text)
    reload(args)
    advise(args, "the service has the library when it is started next")


def disable(args):
    path = place(args)
    if ours(path) is None:
        print(f"nothing to do: {path} is not there")
        return
    print(f"{'would remove' if args.dry_run else 'removing'} {path}")
    if args.dry_run:
        return
    os.unlink(path)
    try:
        os.rmdir(os.path.dirname(path))
    except OSError:
        pass                    # there are others' files in it
    reload(args)
    advise(args, "the service keeps the library until it is started next")


def checked(function, args):
    try:
        function(args)
    except (Failed, preload.Unusable) as error:
        print(f"parkade: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if not error.filename:
            raise               # of standard output
        hint = ": run this as root" if isinstance(error, PermissionError) else ""
        print(f"parkade: error: {files.message(error)}{hint}", file=sys.stderr)
        return 1
    return 0
