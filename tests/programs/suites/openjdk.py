# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""java.util.concurrent and monitors on the Java virtual machine, by programs of our own (Concurrent.java): each test
prints a sum that only a machine that loses nothing finds."""

import os
import re

from kit import HERE, first_line, lacking

RANK = 4
TITLE = "OpenJDK: java.util.concurrent, monitors, interrupts, GC"
PACKAGES = "default-jdk-headless"
SECONDS = 150
COLLECTORS = ["-XX:+UseParallelGC", "-XX:+UseG1GC", "-XX:+UseSerialGC"]


def missing():
    return lacking("java", "javac")


def version():
    return first_line("java", "-version", pattern=r"\d+\.\d+\.\d+")


def run(kit):
    built = kit.run(["javac", "-d", kit.place, os.path.join(HERE, "suites", "Concurrent.java")])
    outcomes = {"javac": kit.outcome(built)}
    for collector in COLLECTORS:
        short = re.sub(r".*Use", "", collector)
        result = kit.run(["java", collector, "-Xmx256m", "-cp", kit.place, "Concurrent"], 60)
        for name, found in re.findall(r"^(\w+) (.+)$", result.out, re.M):
            outcomes[f"{short}:{name}"] = found
        outcomes[f"{short}:end"] = kit.outcome(result)
    return outcomes
