# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Measures pairs of CPUs, by the program topology-pairs, in bounded time."""

import os
import select
import statistics
import subprocess
import time

from . import paths

ROUNDS = 3                      # at least, of which the median counts
ROUNDS_WISHED = 7
LEAST_MS, MOST_MS = 5, 100      # for a pair in a round
EXTRA_MS = 1                    # that it takes beside
USED = 0.9                      # of the time, for measuring
LIMIT = 60                      # seconds that no pair needs


class Failed(Exception):
    pass


def affordable(seconds):
    """How many pairs there is time for."""
    return max(1, int(seconds * USED * 1000 / (ROUNDS * (LEAST_MS + EXTRA_MS))))


def plan(count, seconds):
    """(rounds, milliseconds for each pair) for so many pairs."""
    for rounds in range(ROUNDS_WISHED, ROUNDS, -1):
        ms = int(seconds * USED * 1000 / (rounds * count)) - EXTRA_MS
        if ms >= 4 * LEAST_MS:
            break
    else:
        rounds = ROUNDS
        ms = int(seconds * USED * 1000 / (rounds * count)) - EXTRA_MS
    return rounds, min(max(ms, LEAST_MS), MOST_MS)


class Program:
    """topology-pairs, running. Answers are awaited with a limit: it might be stopped, or never get a CPU."""

    def __init__(self, ms):
        path = os.path.join(paths.HELPERS, "topology-pairs")
        try:
            self.child = subprocess.Popen([path, "-m", str(ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise Failed(f"{path}: {error.strerror}: is the package of the parkade command installed?") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        for pipe in self.child.stdin, self.child.stdout, self.child.stderr:
            pipe.close()

    def answer(self):
        text = b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self.child.stdout], [], [], LIMIT)
            more = os.read(self.child.stdout.fileno(), 100) if ready else b""
            if not more:
                self.child.kill()
                said = self.child.stderr.read().decode(errors="replace").strip()
                raise Failed(said or f"topology-pairs {'ended' if ready else 'did not answer'}")
            text += more
        return text.split()

    def rate(self, a, b):
        """Increments a second, or None."""
        try:
            self.child.stdin.write(b"%d %d\n" % (a, b))
        except BrokenPipeError:
            pass                # it says why
        rate = self.answer()[2]
        return None if rate == b"-" else float(rate)


def measure(wanted, seconds, advance):
    """({pair: median rate}, spread) for the pairs in WANTED, within so many seconds or a bit more; ADVANCE is told
    which part is done. The spread is that of a typical pair's rates: their range, relative to the median. A pair is
    left out that could not be measured, or never had its turn."""
    rounds, ms = plan(len(wanted), seconds)
    rates, start = {pair: [] for pair in wanted}, time.monotonic()
    with Program(ms) as program:
        for turn in range(rounds):
            for i, pair in enumerate(wanted):
                if time.monotonic() - start > seconds:
                    break
                # The first turn of all is for the processor to wake up.
                if turn == i == 0:
                    program.rate(*pair)
                rate = program.rate(*pair)
                if rate:
                    rates[pair].append(rate)
                advance((turn * len(wanted) + i + 1) / (rounds * len(wanted)))
    measured = {pair: statistics.median(found) for pair, found in rates.items() if found}
    spreads = [(max(found) - min(found)) / measured[pair] for pair, found in rates.items() if found]
    return measured, statistics.median(spreads) if spreads else 0.0
