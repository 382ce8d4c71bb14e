# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Files that a sub-command writes: whole or not at all, and what goes wrong is said of the file that was meant.

An OSError without a file's name is one of standard output, wherever it comes from: main.py ends with it.
"""

import contextlib
import errno
import os
import tempfile


@contextlib.contextmanager
def named(path):
    """What goes wrong in there has to do with that file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def check(path):
    """That it cannot be written is said before there is something to be written; nothing is made or changed."""
    with named(path):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        place = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not os.access(path if os.path.exists(path) else place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def replace(path, text, prefix="tmp"):
    """Put a file in its place that all may read; a link leads to it then as before. What surrogateescape made of bytes
    becomes these again."""
    with named(path):
        path = os.path.realpath(path)
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:  # as /dev/stdout
                file.write(text)
            return
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), prefix=prefix, delete=False) as file:
            try:
                file.write(text.encode("utf-8", "surrogateescape"))
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise


def message(error):
    """An OSError, in a line."""
    return f"{error.filename or 'standard output'}: {error.strerror or error}"
