# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""OpenJDK: pairs of threads hand a turn to and fro by monitors, which park on condition variables."""

import os

import common

PACKAGES = "openjdk-17-jdk-headless"
METRIC = "turns/s"
SECONDS = 3
TURNS = 30000


def missing():
    return common.lacking("java", "javac")


def prepare(kit):
    kit.run(["javac", "-d", kit.place, os.path.join(common.HERE, "PingPong.java")], preloaded=False)


def run(kit, _variant):
    out, _ = kit.run(["java", "-cp", kit.place, "PingPong", str(common.CPUS), str(TURNS)])
    figures = r"^(\d+) operations in ([\d.]+) s"
    return common.number(figures, out), common.number(figures, out, 2)
