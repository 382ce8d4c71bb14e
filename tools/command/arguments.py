# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Arguments that more than one sub-command takes, as argparse's types."""

import argparse
import re


def positive(kind, most, least=0):
    """A number above 0, of that kind (int, float)."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not (0 < value and least <= value <= most):
            raise argparse.ArgumentTypeError(f"{text}: a number above 0 is wanted, " +
                                             (f"{least:g} at least, " if least else "") + f"{most:g} at most")
        return value
    return parse


def expression(text):
    """A regular expression that finds a number."""
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None
