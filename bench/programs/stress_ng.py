# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""stress-ng: its mutex stressor, whose threads change their priorities."""

import common

PACKAGES = "stress-ng"
METRIC = "operations/s"
SECONDS = 2


def missing():
    return common.lacking("stress-ng")


def run(kit, _variant):
    out, err = kit.run(["stress-ng", "--mutex", "2", "--metrics-brief", "-t", "2"])
    figures = r"mutex +(\d+) +([\d.]+)"
    return common.number(figures, out + err), common.number(figures, out + err, 2)
