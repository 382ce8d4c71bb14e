# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The rates of pairs of CPUs as a map: in the terminal, or as an image by matplotlib."""

import math
import os
import statistics

from . import images

# Of the terminal's 256 colours, from slow to fast.
COLOURS = (17, 18, 19, 20, 26, 32, 38, 37, 36, 71, 106, 142, 178, 214, 208, 202, 196)
DIGITS = "0123456789"


def has_colour(stream):
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def million(rate):
    return f"{rate / 1e6:.3g} million/s"


def cells(cpus, rates, most):
    """(CPUs a cell, rows of rates) for a map of at most so many cells a side: medians, None where nothing was
    measured."""
    step = max(1, -(-len(cpus) // max(1, most)))
    groups = [cpus[i:i + step] for i in range(0, len(cpus), step)]

    def cell(one, other):
        found = [rates[min(a, b), max(a, b)] for a in one for b in other if (min(a, b), max(a, b)) in rates]
        return statistics.median(found) if found else None

    return step, [[cell(one, other) for other in groups] for one in groups]


def text(cpus, rates, width, colour):
    """The lines of a map that is at most WIDTH wide: a digit or a colour for each pair, logarithmic."""
    label = max(len(str(cpu)) for cpu in cpus) + 1
    broad = 2 if label + 2 * len(cpus) < width else 1
    step, rows = cells(cpus, rates, (width - label - 1) // broad)
    low, high = math.log(min(rates.values())), math.log(max(rates.values()))

    def mark(rate, steps):
        return min(int((math.log(rate) - low) / ((high - low) or 1) * steps), steps - 1)

    def cell(rate):
        if rate is None:
            return " " * (broad - 1) + "."
        if colour:
            return f"\033[48;5;{COLOURS[mark(rate, len(COLOURS))]}m{' ' * broad}\033[0m"
        return " " * (broad - 1) + DIGITS[mark(rate, len(DIGITS))]

    lines = [f"{cpus[n * step]:>{label - 1}} " + "".join(map(cell, row)) for n, row in enumerate(rows)]
    if colour:
        scale = "".join(f"\033[48;5;{code}m \033[0m" for code in COLOURS)
        lines.append(f"{million(math.exp(low))} {scale} {million(math.exp(high))}")
    else:
        lines.append(f"0: {million(math.exp(low))}, 9: {million(math.exp(high))}, logarithmic; .: not measured")
    if step > 1:
        lines.append(f"Each row and column stands for {step} CPUs, by their median.")
    return lines


def draw(cpus, rates, path):
    """An image file; darker is faster, as in the paper's figure 1."""
    from matplotlib import colors

    _, rows = cells(cpus, rates, len(cpus))
    side = min(12, max(4, len(cpus) / 12))
    figure, axes = images.page((side + 1, side))
    values = [[math.nan if rate is None else rate / 1e6 for rate in row] for row in rows]
    image = axes.imshow(values, cmap="viridis_r", norm=colors.LogNorm(), interpolation="nearest")
    step = -(-len(cpus) // 16)
    for axis in axes.xaxis, axes.yaxis:
        axis.set_ticks(range(0, len(cpus), step))
        axis.set_ticklabels(cpus[::step])
    axes.set(title="two threads that take turns on a counter", xlabel="CPU of one", ylabel="CPU of the other")
    figure.colorbar(image, label="million increments a second")
    images.save(figure, path)
