# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""This process becomes another program, as by env(1): with nothing that Python has changed for itself."""

import contextlib
import errno
import os
import signal

SHELL = "/bin/sh"
# Then the next directory may have it.
ELSEWHERE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT)


def restore_locale(environ=os.environ):
    """LC_CTYPE as it was given to us: in the C locale Python sets another (PEP 538)."""
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        given = [entry for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")]
        if given:
            environ["LC_CTYPE"] = os.fsdecode(given[0].partition(b"=")[2])
        else:
            environ.pop("LC_CTYPE", None)


def restore_signals():
    """Python ignores these from its start on, whatever they were; so they are the default for the program, as for those
    that subprocess starts."""
    for number in signal.SIGPIPE, signal.SIGXFSZ:
        signal.signal(number, signal.SIG_DFL)


def execute(path, command, environment):
    """A file that the kernel does not know how to run is a script of the shell's."""
    try:
        os.execve(path, command, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve(SHELL, [SHELL, path, *command[1:]], environment)


def become(command, environment):
    """Does not return; OSError says why not. The directories are searched as by execvp(3)."""
    name, why = command[0], errno.ENOENT
    restore_signals()
    if "/" in name:
        execute(name, command, environment)
    for place in os.get_exec_path(environment) if name else ():
        try:
            execute(os.path.join(place or ".", name), command, environment)
        except OSError as error:
            if error.errno not in ELSEWHERE:
                raise
            why = errno.EACCES if error.errno == errno.EACCES else why
    raise OSError(why, os.strerror(why), name)
