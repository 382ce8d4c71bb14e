# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Rates of contestants over the number of threads as an image, as in figure 9 of the CLoF paper, by matplotlib."""

from . import images


def draw(ratios, levels, best, named, path):
    """A line for each contestant: those of `best' ({for what: contestant}) and `named' ones in colours, others grey."""
    from matplotlib import ticker

    figure, axes = images.page((8, 5))
    labels = {}
    for what, contestant in best.items():
        labels[contestant] = f"{labels[contestant]}, {what}" if contestant in labels else f"{contestant}: best, {what}"
    for contestant in named:
        if contestant in ratios:
            labels.setdefault(contestant, contestant)
    rest = [contestant for contestant in ratios if contestant not in labels]
    for n, contestant in enumerate(rest):
        axes.plot(range(len(levels)), [ratios[contestant][level] for level in levels], color="0.8", linewidth=0.8,
                  label="others" if n == 0 else None)
    for contestant, label in labels.items():
        axes.plot(range(len(levels)), [ratios[contestant][level] for level in levels], marker="o", label=label)
    axes.set_xticks(range(len(levels)), levels)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 3, 4, 6, 8)))
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set(xlabel="threads", ylabel="rate, relative to the C library's own locks")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    images.save(figure, path)
