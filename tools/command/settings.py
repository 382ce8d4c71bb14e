# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Settings as the library takes them: checked here, so that a bad one is refused before anything is started.

The rules are those of lib/rt/config.c; the declarations are the same.
"""

import argparse
import os
import re

from . import contestants, machine, tables

VALUE = 256                     # bytes that the library keeps of a value, with the 0 at its end


def is_choice(choices, value):
    """Of a choice that ends in a colon what is before it counts: the colon and what follows may be left out."""
    return any(value.partition(":")[0] == choice[:-1] if choice.endswith(":") else value == choice for choice in choices)


def is_machine(text):
    """What PARKADE_TOPOLOGY can describe (lib/rt/topology.c)."""
    if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9}){0,3}(@thread)?", text):
        return False
    factors = [int(factor) for factor in re.findall("[0-9]+", text)]
    cpus = 1
    for factor in factors:
        cpus *= factor
    return 0 < cpus <= machine.CPUS_MAX and factors[0] <= machine.SOCKETS_MAX


def is_composition(text):
    locks = text.split("-")
    return 2 <= len(locks) <= contestants.LOCKS and set(locks) <= set(contestants.BASIC)


def entries(conf):
    """PARKADE_CONF as [(name, colon, value)]; the library does not take any of one that is too long."""
    if len(os.fsencode(conf)) >= VALUE:
        return []
    parts = conf.split(",")
    return [part.partition(":") for part in (parts if parts[-1] else parts[:-1])]


def fault(name, value):
    """What is wrong with the option's value, or None."""
    row = tables.OPTIONS[name]
    if len(os.fsencode(value)) >= VALUE:
        return f"too long: {VALUE - 1} characters at most"
    if row["kind"] == "INT":
        good = re.fullmatch(r"[ \t\n\v\f\r]*[+-]?[0-9]+", value) and row["min"] <= int(value) <= row["max"]
        return None if good else f"not a number from {row['min']} to {row['max']}"
    if row["kind"] == "ENUM" and not is_choice(row["choices"], value):
        return f"not one of {', '.join(row['choices'])}"
    head, _, rest = value.partition(":")
    if name == "STATS" and head == "file" and not rest:
        return "file:PATH wants a path"
    if name == "POLICY" and rest and not is_composition(rest):
        return f"not clof: and two to four of {', '.join(contestants.BASIC)} with - between"
    if name == "TOPOLOGY" and value and not is_machine(value):
        return "not of the form 2x18 or 2x18x2 or 2x4x3x2, with or without @thread"
    if name == "LEVELS" and value and not set(value.split(",")) <= set(machine.KINDS):
        return f"not some of {','.join(machine.KINDS)}"
    for entry, colon, part in entries(value) if name == "CONF" else ():
        if not colon:
            return f"'{entry}' is not of the form name:value"
        if entry == "conf" or entry != entry.lower() or entry.upper() not in tables.OPTIONS:
            return f"'{entry}': no such option"
        why = fault(entry.upper(), part)
        if why:
            return f"{entry}: '{part}': {why}"
    return None


def values(variables, name):
    """What the variables say of the option, the one that counts first: its own, then those of PARKADE_CONF, each set in
    its turn. The library takes the first that is good."""
    conf = [value for entry, _, value in entries(variables.get("PARKADE_CONF", "")) if entry == name.lower()]
    own = variables.get(f"PARKADE_{name}")
    return ([] if own is None else [own]) + conf[::-1]


def taken(variables, name):
    """The value of the option that the library takes from the variables, or None."""
    return next((value for value in values(variables, name) if fault(name, value) is None), None)


def option(text):
    """NAME=VALUE, in either case and with or without PARKADE_, as (NAME, VALUE)."""
    name, equals, value = text.partition("=")
    name = name.upper().replace("-", "_")
    name = name[len("PARKADE_"):] if name.startswith("PARKADE_") else name
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}': NAME=VALUE is wanted, as in spin=100")
    if name not in tables.OPTIONS:
        raise argparse.ArgumentTypeError(f"'{name.lower()}': no such option; there are "
                                         f"{', '.join(other.lower() for other in tables.OPTIONS)}")
    why = fault(name, value)
    if why:
        raise argparse.ArgumentTypeError(f"{name.lower()}: '{value}': {why}")
    if any(not char.isprintable() for char in value):
        raise argparse.ArgumentTypeError(f"{name.lower()}: what does not print is no value")
    return name, value


def policy(text):
    return option(f"policy={text}")[1]


def arguments(parser):
    """The arguments by which a command takes settings."""
    parser.add_argument("--policy", type=policy, metavar="POLICY", help="how waiting threads queue (parkade policies)")
    parser.add_argument("--set", type=option, action="append", default=[], metavar="NAME=VALUE", dest="settings",
                        help="any other option of parkade(7), as in spin=100; may be repeated")


def environment(args):
    """What those arguments say, as variables."""
    found = dict(args.settings)
    if args.policy:
        found["POLICY"] = args.policy
    return {f"PARKADE_{name}": value for name, value in found.items()}
