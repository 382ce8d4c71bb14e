# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Settings as the library takes them: checked here, so that a bad one is refused before anything is started.

The rules are those of lib/rt/config.c; the declarations are the same.
"""

import argparse

from . import tables


def is_choice(choices, value):
    """Behind a colon, what may follow is for the library to judge."""
    return any(value.startswith(choice) if choice.endswith(":") else value == choice for choice in choices)


def option(text):
    """NAME=VALUE, in either case and with or without PARKADE_, as (NAME, VALUE)."""
    name, equals, value = text.partition("=")
    name = name.upper().replace("-", "_")
    name = name[len("PARKADE_"):] if name.startswith("PARKADE_") else name
    row = tables.OPTIONS.get(name)
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}': NAME=VALUE is wanted, as in spin=100")
    if row is None:
        raise argparse.ArgumentTypeError(f"'{name.lower()}': no such option; there are "
                                         f"{', '.join(other.lower() for other in tables.OPTIONS)}")
    if row["kind"] == "INT":
        if not (value.isascii() and value.isdigit() and row["min"] <= int(value) <= row["max"]):
            raise argparse.ArgumentTypeError(f"{name.lower()}: '{value}': not a number from {row['min']} to {row['max']}")
    elif row["kind"] == "ENUM" and not is_choice(row["choices"], value):
        raise argparse.ArgumentTypeError(f"{name.lower()}: '{value}': not one of {', '.join(row['choices'])}")
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
