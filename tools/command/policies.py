# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""parkade policies: the policies that the library has."""

import json
import shutil
import textwrap

from . import tables

DESCRIPTION = "Lists the policies that PARKADE_POLICY and `parkade run --policy' take; the default has a star."


def add(commands):
    parser = commands.add_parser("policies", help="list the policies", description=DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.set_defaults(run=run)


def run(args):
    default = tables.OPTIONS["POLICY"]["default"]
    if args.json:
        print(json.dumps([{"name": name, "doc": doc, "default": name == default}
                          for name, doc in tables.POLICIES.items()], indent=2))
        return 0
    left = max(map(len, tables.POLICIES)) + 3
    width = max(shutil.get_terminal_size().columns - 1, left + 30)
    for name, doc in tables.POLICIES.items():
        head = f"{name}{'*' if name == default else ''}".ljust(left)
        print(textwrap.fill(doc, width, initial_indent=head, subsequent_indent=" " * left))
    return 0
