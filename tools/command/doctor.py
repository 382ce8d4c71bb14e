# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade doctor: is the library in use, here or in a process, and what is in its way?"""

import argparse
import os
import re
import sys

from . import control, locks, paths, preload, settings, tables
from .machine import Machine, spell
from .process import Process, Unreadable

DESCRIPTION = """\
With the number of a process: whether it has the library, under which settings, and what is in the way. Without: whether
programs that start here would get it, and what it would see of the machine."""
EPILOG = """\
exit status: 0 the library is in use, or could be; 1 it is not there or switched off (policy glibc), or that cannot be told;
2 wrong usage."""
TUNED = 4095                    # bytes that the library reads of parkade.conf
OVERWRITTEN = "cannot be told: the program has overwritten its environment"
DELEGATED = "mutexes that are robust, process-shared or have a priority protocol, and process-shared rwlocks"


def process(text):
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 22):
        raise argparse.ArgumentTypeError(f"'{text}': not the number of a process")
    return int(text)


def add(commands):
    parser = commands.add_parser("doctor", help="is the library in use, and what is in its way?",
                                 description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("pid", nargs="?", type=process, metavar="PID")
    parser.set_defaults(run=run)


def say(what, text):
    """What is said may be another's: it has no say over the terminal, or over lines."""
    print(f"{what:<11}{locks.printable(text)}")


def bad_settings(environment):
    """Lines about variables that the library does not take."""
    for name, value in sorted(environment.items()):
        if name.startswith("PARKADE_"):
            try:
                settings.option(f"{name}={value}")
            except argparse.ArgumentTypeError as error:
                yield str(error)


def say_settings(environment):
    ours = {name: value for name, value in sorted(environment.items()) if name.startswith("PARKADE_")}
    say("settings", " ".join(f"{name}={value}" for name, value in ours.items()) or "the defaults")
    for line in bad_settings(environment):
        say("hazard", f"ignored: {line}")


def say_machine(machine, environment):
    assumed = settings.taken(environment, "TOPOLOGY")
    levels = ", ".join(f"{len(machine.cohorts(kind, machine.online))} of {kind}" for kind in machine.levels)
    groups = ", the cache groups" if machine.by_group else ""
    say("machine", f"sockets: {len(machine.sockets)}{groups}; levels: {levels or 'none'}" +
        (f"; PARKADE_TOPOLOGY assumes {assumed}" if assumed else ""))
    quota = f", quota of {machine.quota}" if machine.quota is not None else ""
    say("CPUs", f"{spell(machine.usable)}{quota}")


def loaded_as(pid, environment, library):
    """The name by which the loader found the library: LD_PRELOAD's counts first. The file may have another one: that of a
    policy is a link."""
    return preload.ours(environment.get("LD_PRELOAD")) or preload.listed(f"/proc/{pid}/root") or library


def policy(environment, name):
    """What it was started with: a variable of its own, PARKADE_CONF, the library's name, the default."""
    named = re.search(r"(?:^|/)libparkade-([a-z-]+)\.so[^/]*$", name)
    for found in (*settings.values(environment, "POLICY"), named and named[1]):
        if found and settings.is_choice(tables.OPTIONS["POLICY"]["choices"], found):
            return found
    return tables.OPTIONS["POLICY"]["default"]


def tuned(pid, environment, name):
    """What policy auto comes to, and by which file: as the library reads it, but it may have changed since."""
    env = {variable: environment.get(variable, "") for variable in ("PARKADE_TUNED", "XDG_CONFIG_HOME", "HOME")}
    if env["PARKADE_TUNED"]:
        places = [env["PARKADE_TUNED"]]
    else:
        own = [f"{env['XDG_CONFIG_HOME']}/parkade.conf"] if env["XDG_CONFIG_HOME"].startswith("/") else \
            [f"{env['HOME']}/.config/parkade.conf"] if env["HOME"].startswith("/") else []
        places = [*own, "/etc/parkade.conf"]
    named = policy({}, name)
    otherwise = named if named != "auto" else tables.OPTIONS["POLICY"]["default"]
    for path in places:
        try:
            with open(f"/proc/{pid}/root{path}" if path.startswith("/") else f"/proc/{pid}/cwd/{path}", "rb") as file:
                data = file.read(TUNED)
        except OSError:
            continue
        if data:
            # Of one that is longer the line that was cut is left out.
            text = (data[:max(data.rfind(b"\n"), 0)] if len(data) == TUNED else data).decode("utf-8", "replace")
            found = [value for value in re.findall(r"^[ \t\r]*policy[ \t\r]*=[ \t\r]*(.*?)[ \t\r]*$", text, re.MULTILINE)
                     if settings.is_choice(tables.OPTIONS["POLICY"]["choices"], value)]
            return found[-1] if found and found[-1] != "auto" else otherwise, path
    return otherwise, None


def in_force(pid, started, found=None, by=None):
    """The policy now, in words, and whether it is known to be the library's: what the control page says, where there is one;
    who asks for nothing waits for nobody. Of auto: what it came to, and BY which file. STARTED may be None: not to be told."""
    if started is None:
        as_started = OVERWRITTEN
    elif started == "auto":
        as_started = f"auto, as started: {found}" + (f" by {by}, as that is now" if by else ", as no parkade.conf can be read")
    else:
        found, as_started = started, f"{started}, as started"
    off = ("glibc" if started == "glibc" else as_started) + ": its locks are the C library's"
    if started == "glibc":
        return off, False
    try:
        with control.Page(pid) as page:
            now, knobs = page.policy(), page.knobs()
    except control.Unreachable:     # under glibc there is never one
        return (off, False) if found == "glibc" else (as_started, started is not None)
    if not settings.is_choice(tables.OPTIONS["POLICY"]["choices"], now):
        return f"{as_started}; its control page says something else", True
    text = f"{now}, " + ("as started" if now == started else "now" if started is None else f"now; started with {started}")
    return text + "; " + " ".join(f"{name}={value}" for name, value in knobs.items()), True


def hazards(target, environment):
    """What keeps, or would keep, the library out of a process."""
    program, secure = target.program(), target.secure()
    if program.static is None:
        yield f"its program could not be looked into: {program.why}"
    elif program.static:
        yield "it is linked statically: nothing can be preloaded"
    elif program.bits == 32:
        yield "it is a 32-bit program: there the library stands aside"
    for sanitizer in program.sanitizers or ():
        yield f"it is built with {sanitizer}, whose library has to be preloaded before this one" \
            if sanitizer == "AddressSanitizer" else f"it is built with {sanitizer}, which sees nothing of these locks"
    if secure:
        yield "it runs with other rights than its caller's: only `parkade system' reaches it, and it takes no settings"
    if target.library() is None and preload.ours(environment.get("LD_PRELOAD")):
        yield "its LD_PRELOAD names the library, but it has not got it"


def examine(pid):
    target = Process(pid)
    library, environment = target.library(), target.environment()
    taken = {} if target.secure() else environment
    say("process", f"{pid} {target.name}, of {target.user}")
    if library is None:
        say("library", "not loaded: its locks are the C library's")
    else:
        say("library", library)
        name = loaded_as(pid, taken or {}, library)
        chosen = None if taken is None else policy(taken, name)
        text, is_ours = in_force(pid, chosen, *(tuned(pid, taken, name) if chosen == "auto" else ()))
        say("policy", text)
        if environment is None:
            say("settings", OVERWRITTEN)
        else:
            say_settings(environment)
        say("C library", f"has what is never ours: {DELEGATED}")
        say_machine(Machine(usable=os.sched_getaffinity(pid), process=pid), taken or {})
    for hazard in hazards(target, environment or {}):
        say("hazard", hazard)
    return 0 if library is not None and is_ours else 1


def look_around():
    environment = os.environ
    name = preload.library()
    outcome = preload.tried(name)
    works = "parkade: config: PARKADE_POLICY=" in outcome
    say("library", f"{paths.LIBRARY}: " + ("a program that preloads it has it" if works else
                                           f"a program that preloads it says: {outcome.strip() or 'nothing'}"))
    say("C library", os.confstr("CS_GNU_LIBC_VERSION"))
    entry = preload.listed()
    say("system", f"{preload.LIST} names {entry}" if entry else "not enabled for every program (parkade system enable)")
    inherited = preload.ours(environment.get("LD_PRELOAD"))
    say("here", f"LD_PRELOAD names {inherited}" if inherited else "commands do not get it (parkade run -- COMMAND)")
    say_settings(environment)
    say_machine(Machine(), environment)
    return 0 if works else 1


def run(args):
    try:
        return examine(args.pid) if args.pid else look_around()
    except (Unreadable, preload.Unusable) as error:
        print(f"parkade doctor: error: {error}", file=sys.stderr)
    except ProcessLookupError:
        print(f"parkade doctor: error: process {args.pid} has ended", file=sys.stderr)
    return 1
