# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Image files, by matplotlib, which need not be there."""

import argparse
import importlib.util

from . import files

KINDS = (".png", ".svg")


def name(path):
    """An argument that names one."""
    if not path.endswith(KINDS):
        raise argparse.ArgumentTypeError(f"{path}: a name with {' or '.join(KINDS)} at its end is wanted")
    return path


def can_draw():
    return importlib.util.find_spec("matplotlib") is not None


def page(size):
    """(figure, axes), in inches; no display is needed."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, constrained_layout=True)


def save(figure, path):
    """The same image gives the same file."""
    from matplotlib import pyplot

    with files.named(path):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.endswith(".svg") else None)
    pyplot.close(figure)
