# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Arguments that more than one sub-command takes, as argparse's types."""

import argparse
import re


def intermix(parser):
    """Options of the parser may stand between its other arguments, too."""
    plain = parser.parse_known_args

    def parse(args=None, namespace=None):
        parser.parse_known_args = plain     # which that calls in its turn
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = parse
    parser.parse_known_args = parse


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
