# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Runs programs for one contestant after the other: on glibc, under the library with some settings, under anything else
that can be preloaded.

What a program starts ends with it. A run under the library counts only if the library says at its end that it was there.
"""

import contextlib
import copy
import os
import re
import resource
import shlex
import signal
import subprocess
import tempfile
import time

QUIET = 0.15                    # share of other load above which ratios are doubtful
LIMIT = 120                     # seconds that no single program needs
REPORT = re.compile(r"parkade: \d+ .+?: policy (\S+): (.*)$", re.MULTILINE)    # a program may have left a line open
TROUBLE = re.compile(r"^(?:parkade: warning: .*|.*cannot be preloaded.*)$", re.MULTILINE)

SILENT = "the program closes its standard error before it ends, as coreutils' do, or leaves by _exit, or has not the library"


class Failed(Exception):
    pass


class Contestant:
    """`spec' is NAME[=LIBRARY][,VARIABLE=VALUE]...: glibc; parkade; a policy; a name of one's own with a library to
    preload, or with settings of parkade. IS_EVERYWHERE: every program has the library (/etc/ld.so.preload)."""

    def __init__(self, spec, parkade, is_everywhere=False):
        first, *settings = spec.split(",")
        self.spec = spec
        self.name, _, library = first.partition("=")
        if not self.name or not all(re.fullmatch(r"[A-Za-z_]\w*=.*", setting) for setting in settings):
            raise ValueError(f"{spec}: NAME[=LIBRARY][,VARIABLE=VALUE]... is wanted")
        self.settings = dict(setting.split("=", 1) for setting in settings)
        self.is_ours = not library and self.name != "glibc"
        if self.is_ours and self.name != "parkade" and not settings:
            self.settings["PARKADE_POLICY"] = self.name
        self.library = os.path.abspath(library) if library else parkade if self.is_ours else None
        # It cannot be taken away then; but it can leave all to the C library.
        self.is_switched_off = is_everywhere and self.name == "glibc" and self.library is None
        if self.is_switched_off:
            self.settings.setdefault("PARKADE_POLICY", "glibc")
        if self.library and not os.path.isfile(self.library):
            raise ValueError(f"{spec}: there is no library {self.library}")

    def environment(self):
        env = {key: value for key, value in os.environ.items()
               if not key.startswith("PARKADE_") and key != "LD_PRELOAD"}
        env.update(self.settings)
        if self.library:
            env["LD_PRELOAD"] = self.library
        if self.is_ours:
            env.setdefault("PARKADE_VERBOSE", "1")
        return env

    def with_statistics(self, path):
        """The same, but that each of its processes writes statistics of its locks to that file."""
        other = copy.copy(self)
        other.settings = {**self.settings, "PARKADE_STATS": f"file:{path}"}
        return other

    def command(self, argv):
        """What a person types for such a run."""
        words = [f"{key}={value}" for key, value in self.settings.items()]
        words += [f"LD_PRELOAD={self.library}"] if self.library else []
        return " ".join([*map(shlex.quote, words), *map(shlex.quote, argv)])

    def entered(self, err, may_be_silent=False):
        """How often the library's queue was entered, by its own lines; None for others, and where there are none of a
        program that MAY_BE_SILENT."""
        trouble = TROUBLE.search(err)
        if trouble:
            raise Failed(f"{self.name}: {trouble[0]}")
        if not self.is_ours:
            return None
        reports = REPORT.findall(err)
        if not reports and may_be_silent:
            return None
        if not reports:
            raise Failed(f"{self.name}: the library did not report at the end: {SILENT}")
        return sum(int(dict(pair.split("=", 1) for pair in counters.split())["entered"]) for _, counters in reports)


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Noise:
    """How much of the machine's processor time others use while we measure."""

    def __init__(self):
        self.start = self.read()

    @staticmethod
    def read():
        """(seconds of all processors, of them busy, of those our own). Interrupts count for nobody: the loopback traffic
        of our own runs is in them."""
        with open("/proc/stat", encoding="ascii") as stat:
            ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in stat.readline().split()[1:9]]
        user, nice, system, _idle, _iowait, _irq, _softirq, steal = ticks
        own = resource.getrusage(resource.RUSAGE_SELF)
        return sum(ticks), user + nice + system + steal, own.ru_utime + own.ru_stime + children_seconds()

    def share(self):
        total, busy, own = (now - then for now, then in zip(self.read(), self.start))
        return max(0.0, busy - own) / total if total else 0.0


class Kit:
    """What a program's run is given: a directory, and ways to start processes for one contestant. `cpu' adds up the
    processor time of those that had the contestant's library, `entered' what the library said, which must be there unless
    the programs MAY_BE_SILENT."""

    def __init__(self, contestant, place, limit=LIMIT, may_be_silent=False):
        self.contestant, self.place, self.limit, self.may_be_silent = contestant, place, limit, may_be_silent
        self.cpu, self.entered = 0.0, None

    @contextlib.contextmanager
    def _process(self, argv, preloaded, env):
        if preloaded:
            environment = self.contestant.environment()
        else:
            environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        environment.update({"TMPDIR": self.place, "LC_ALL": "C", **(env or {})})
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment,
                                         cwd=self.place, start_new_session=True)
            except OSError as error:
                raise Failed(f"{argv[0]}: {error.strerror}") from None
            child.said = lambda: [self._text(stream) for stream in (out, err)]
            try:
                yield child
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()

    @staticmethod
    def _text(stream):
        stream.seek(0)
        return stream.read().decode("utf-8", "replace")

    def _finish(self, child, what, preloaded, limit, good):
        before = children_seconds()
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.contestant.name}: {what} did not end within {limit:g} s") from None
        out, err = child.said()
        if child.returncode not in good:
            end = f"signal {-child.returncode}" if child.returncode < 0 else f"status {child.returncode}"
            last = (err.strip() or out.strip() or "it said nothing").splitlines()[-1]
            raise Failed(f"{self.contestant.name}: {what} ended with {end}: {last}")
        if preloaded:
            self.cpu += children_seconds() - before
            entered = self.contestant.entered(err, self.may_be_silent)
            self.entered = entered if entered is None else entered + (self.entered or 0)
        return out, err

    def run(self, argv, preloaded=True, limit=None, env=None, good=(0,)):
        """What the program wrote to standard output and error; Failed if it did not end well."""
        with self._process(argv, preloaded, env) as child:
            return self._finish(child, os.path.basename(argv[0]), preloaded, limit or self.limit, good)

    @contextlib.contextmanager
    def server(self, argv, is_ready, preloaded=True, env=None, good=(0,), stop=signal.SIGTERM):
        """A process that runs meanwhile, from when IS_READY() is true, and is asked to stop at the end."""
        what, end = os.path.basename(argv[0]), time.monotonic() + 30
        with self._process(argv, preloaded, env) as child:
            while not is_ready():
                if child.poll() is not None:
                    said = " ".join(child.said()).strip()[-200:]
                    raise Failed(f"{self.contestant.name}: {what} did not start: {said}")
                if time.monotonic() > end:
                    raise Failed(f"{self.contestant.name}: {what} does not answer")
                time.sleep(0.05)
            yield child
            child.send_signal(stop)
            self._finish(child, what, preloaded, 60, (*good, -stop))
