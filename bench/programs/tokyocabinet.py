# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Tokyo Cabinet: its own multi-threaded test of the in-memory hash database, typical operations."""

import common

PACKAGES = "tokyocabinet-bin"
METRIC = "operations/s"
SECONDS = 2
EACH = 100000


def missing():
    return common.lacking("tcumttest")


def run(kit, _variant):
    out, _ = kit.run(["tcumttest", "typical", "-nc", str(common.THREADS), str(2 * EACH), str(EACH)])
    return 2 * EACH * common.THREADS, common.number(r"^time: ([\d.]+)", out)
