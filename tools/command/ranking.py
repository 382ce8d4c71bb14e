# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Which contestant is best for low and for high contention (CLoF, SOSP 2021, section 4.3).

The paper takes the weighted average of the throughput over all contention levels, and the inversely weighted one. It
does not print the weights. Here they are the number of threads and its inverse, and what is averaged is the throughput
relative to the C library's at that level: else the level at which a machine happens to be fastest decides alone.
"""

import statistics

LOW, HIGH = "low", "high"


def medians(results):
    """{contestant: {level: median}} of (contestant, level, rate) rows."""
    found = {}
    for contestant, level, rate in results:
        found.setdefault(contestant, {}).setdefault(level, []).append(rate)
    return {contestant: {level: statistics.median(rates) for level, rates in at.items()}
            for contestant, at in found.items()}


def noise(results, contestant):
    """How far that one's rates typically lie from their middle, relative to it: half their range, over all levels."""
    found = {}
    for name, level, rate in results:
        if name == contestant:
            found.setdefault(level, []).append(rate)
    return statistics.median((max(rates) - min(rates)) / 2 / statistics.median(rates) for rates in found.values())


def relative(rates, base):
    """Rates as ratios to the contestant `base'; only those that were measured at all its levels."""
    levels = rates[base]
    return {contestant: {level: at[level] / levels[level] for level in levels}
            for contestant, at in rates.items() if levels.keys() <= at.keys()}


def score(ratios, contention):
    """The weighted average for `low' or `high' contention."""
    weights = {level: level if contention == HIGH else 1 / level for level in ratios}
    return sum(weights[level] * ratio for level, ratio in ratios.items()) / sum(weights.values())


def rank(ratios, contention):
    """Contestants, the best first."""
    return sorted(ratios, key=lambda contestant: (-score(ratios[contestant], contention), contestant))


def choose(ratios, contention, default, margin):
    """The best, or `default' if it is as good but for `margin'."""
    best = rank(ratios, contention)[0]
    if default in ratios and score(ratios[default], contention) >= score(ratios[best], contention) * (1 - margin):
        return default
    return best


def remaining(ratios, count, always):
    """About `count' contestants that are worth another round: the best of both ranks, by turns."""
    kept = [contestant for contestant in always if contestant in ratios]
    for pair in zip(rank(ratios, LOW), rank(ratios, HIGH)):
        if len(kept) >= count:
            break
        kept += [contestant for contestant in dict.fromkeys(pair) if contestant not in kept]
    return kept
