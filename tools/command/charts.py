# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Pictures of the results of `parkade bench', by matplotlib: files, and how they are named."""

import os
import statistics

from .results import counting

COLOURS = ("#666666", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


def pyplot():
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "parkade"     # the same picture twice is the same file
    from matplotlib import pyplot as found
    return found


def panels(results):
    """{(section, outside): {threads: rounds}} of the grid."""
    found = {}
    for entry in results.cells.values():
        if entry["group"] == "grid":
            about = entry["about"]
            found.setdefault((about["section"], about["outside"]), {})[about["threads"]] = counting(entry["rounds"])
    return found


def draw_grid(results, key, label):
    """A panel for each section and work outside; lines of medians over threads, with the least and the most."""
    plot, found = pyplot(), panels(results)
    if not found:
        return None
    from matplotlib import ticker
    sections, outside = (list(dict.fromkeys(pair[n] for pair in found)) for n in (0, 1))
    figure, axes = plot.subplots(len(sections), len(outside), squeeze=False, sharex=True, constrained_layout=True,
                                 figsize=(3.2 * len(outside) + 1, 2.2 * len(sections) + 1))
    for (section, out), by_threads in found.items():
        axis = axes[sections.index(section)][outside.index(out)]
        threads = sorted(by_threads)
        for n, name in enumerate(results.names):
            values = [[part["runs"][n].get(key) or 0 for part in by_threads[count]] for count in threads]
            colour = COLOURS[n % len(COLOURS)]
            axis.plot(threads, [statistics.median(some) for some in values], color=colour, marker=".", label=name)
            axis.fill_between(threads, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.15)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_title(f"{section} held, {out} outside", fontsize="small")
        axis.set_xticks(threads, threads)
        axis.minorticks_off()
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize="x-small")
    axes[0][0].legend(fontsize="x-small")
    figure.supxlabel("threads", fontsize="small")
    figure.supylabel(label, fontsize="small")
    return figure


def draw_programs(results):
    """Real programs, side by side: a bar for each contestant, with the least and the most."""
    rows = [row for row in results.rows() if row.group in ("programs", "command") and row.ratios]
    if not rows:
        return None
    rows.sort(key=lambda row: row.ratio)
    names = list(dict.fromkeys(row.name for row in rows))
    plot = pyplot()
    figure, axis = plot.subplots(figsize=(8, 1 + 0.3 * len(names)), constrained_layout=True)
    thick = 0.8 / len(results.names)
    axis.barh(range(len(names)), [1] * len(names), thick, color=COLOURS[0], label=results.names[0])
    for n, name in enumerate(results.names[1:], 1):
        mine = [row for row in rows if row.number == n]
        axis.barh([names.index(row.name) + n * thick for row in mine], [row.ratio for row in mine], thick,
                  xerr=[[row.ratio - min(row.ratios) for row in mine], [max(row.ratios) - row.ratio for row in mine]],
                  error_kw={"linewidth": 0.8}, color=COLOURS[n % len(COLOURS)], label=name)
    axis.set_yticks([n + 0.4 - thick / 2 for n in range(len(names))], names, fontsize="x-small")
    axis.grid(axis="x", alpha=0.3)
    axis.set_xlabel(f"rate against {results.names[0]}: median, least and most", fontsize="small")
    axis.legend(fontsize="x-small", loc="lower right")
    return figure


def draw_ratios(results):
    """A dot for each cell that is neither of the grid nor a program, with the least and the most."""
    rows = [row for row in results.rows() if row.group not in ("grid", "programs", "command") and row.ratios]
    if not rows:
        return None
    names = list(dict.fromkeys(f"{row.group}: {row.name}" for row in rows))
    names = names[::-1]
    plot = pyplot()
    figure, axis = plot.subplots(figsize=(8, 1 + 0.22 * len(names)), constrained_layout=True)
    for row in rows:
        height = names.index(f"{row.group}: {row.name}") - 0.12 * (row.number - 1)
        colour = COLOURS[row.number % len(COLOURS)]
        axis.plot([min(row.ratios), max(row.ratios)], [height, height], color=colour, linewidth=1)
        axis.plot([row.ratio], [height], color=colour, marker="o", markersize=4)
    axis.axvline(1, color="black", linewidth=0.8)
    from matplotlib import ticker
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.set_yticks(range(len(names)), names, fontsize="x-small")
    axis.grid(axis="x", alpha=0.3)
    axis.set_xlabel(f"rate against {results.names[0]}: median, least and most", fontsize="small")
    for n, name in enumerate(results.names[1:], 1):
        axis.plot([], [], color=COLOURS[n % len(COLOURS)], marker="o", label=name)
    axis.legend(fontsize="x-small")
    return figure


PICTURES = (
    ("programs", "Real programs", draw_programs),
    ("ratios", "Benchmarks but for the grid", draw_ratios),
    ("grid-rate", "Operations a second", lambda results: draw_grid(results, "rate", "operations a second")),
    ("grid-cpu", "Processor time of an operation",
     lambda results: draw_grid(results, "cpu_ns", "processor time of an operation, ns")),
    ("grid-wait", "99.9th percentile of the waits",
     lambda results: draw_grid(results, "p999_ns", "99.9th percentile of the waits, ns")),
)


def draw(results, place):
    """[(name, title)] of the pictures, of which there is a PNG and an SVG in PLACE then."""
    drawn = []
    for name, title, make in PICTURES:
        figure = make(results)
        if figure is None:
            continue
        figure.savefig(os.path.join(place, name + ".png"), dpi=120)
        figure.savefig(os.path.join(place, name + ".svg"), metadata={"Date": None})
        pyplot().close(figure)
        drawn.append((name, title))
    return drawn
