# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""A progress bar on standard error, with the time that is left: python3-rich's where that is, else a plain one; nothing
where standard error is no terminal."""

import contextlib
import shutil
import sys
import time


def bar(what, part, seconds, width):
    """A line of text."""
    left = f"{seconds:4.0f} s left" if seconds is not None else " " * 11
    room = max(10, min(40, width - len(what) - 22))
    full = int(part * room)
    return f"{what} [{'#' * full}{'.' * (room - full)}] {part:4.0%} {left}"[:width - 1]


@contextlib.contextmanager
def plain(what, stream):
    start, shown = time.monotonic(), [-1.0]

    def advance(part):
        now = time.monotonic()
        if now - shown[0] > 0.1:
            shown[0] = now
            left = (now - start) * (1 - part) / part if part > 0 else None
            stream.write("\r\033[K" + bar(what, part, left, shutil.get_terminal_size().columns))
            stream.flush()
    try:
        yield advance
    finally:
        stream.write("\r\033[K")
        stream.flush()


@contextlib.contextmanager
def progress(what, stream=None):
    """Yields a function that is told which part is done, from 0 to 1."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield lambda part: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    except ImportError:
        with plain(what, stream) as advance:
            yield advance
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(file=stream), transient=True) as shown:
        task = shown.add_task(what, total=1.0)
        yield lambda part: shown.update(task, completed=part)
