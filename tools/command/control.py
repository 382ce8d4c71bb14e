# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The control page and the statistics of a running process (lib/rt/control.h, lib/stats/stats.h).

Both are memory of the process, which it keeps open; who may look at its descriptors finds them. What is in them may be
anything: the process may be broken, or another's.
"""

import argparse
import contextlib
import fcntl
import mmap
import os
import re
import struct
import time

from . import locks, process, settings, tables

MAGIC, FORMAT, SIZE = 0x6b637470, 1, 4096
TEXT = 512
PID, REQUEST, ANSWER, KNOWN, ASKED, REPLY, POLICY, KNOBS, COUNTERS = 8, 12, 16, 20, 24, 536, 1048, 1112, 1176
KNOB_NAMES = ("spin", "patience", "batch", "reduction")
LIVE = ("policy",) + KNOB_NAMES          # what may be changed while the process runs
LINE = 64                       # characters of a change, at most
STATS_MAGIC, STATS_FORMAT, STATS_HEAD = 0x6b63706b, 1, 4096
KINDS = ("mutex", "rwlock (read)", "rwlock (write)", "condition", "spin lock")
COHORTS, SITES, TIMES = 4, 4, 16
F_GET_SEALS, F_SEAL_SHRINK = 1034, 2     # of <linux/fcntl.h>; Python has them since 3.9


class Unreachable(Exception):
    """The text says why."""


def text_of(data):
    return locks.printable(data.split(b"\0")[0].decode("utf-8", "replace"))


def expect_alive(pid):
    if process.has_ended(pid):
        raise Unreachable(f"process {pid} has ended")


def opened(pid, name, flags):
    """The process's memory of that name, as a descriptor; None if it has none."""
    directory = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(directory)
    except FileNotFoundError:
        raise Unreachable(f"there is no process {pid}") from None
    except PermissionError:
        expect_alive(pid)       # what nobody has waited for yet is nobody's any more
        raise Unreachable(f"process {pid} is another user's, or protected: ask as that user or root") from None
    for number in numbers:
        with contextlib.suppress(OSError):
            if os.readlink(f"{directory}/{number}") == f"/memfd:{name} (deleted)":
                return os.open(f"{directory}/{number}", flags | os.O_CLOEXEC | os.O_NONBLOCK)   # a pipe may be called so
    return None


def mapped(fd, size, **how):
    """What the library has made cannot be cut short. To look into what can be would be the end of who looks (SIGBUS)."""
    if not fcntl.fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK:
        raise ValueError("not sealed")
    return mmap.mmap(fd, size, **how)


def own_number(pid):
    """The number by which the process knows itself, which another namespace may have given it (a container's)."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
        found = re.search(r"^NSpid:.*?(\d+)$", status.read(), re.MULTILINE)
        if found:
            return int(found[1])
    return pid


class Page:
    """The control page of a process; a context."""

    def __init__(self, pid):
        self.pid = pid
        self.said = self.refused = ""
        self.fd = opened(pid, "parkade-control", os.O_RDWR)
        if self.fd is None:
            expect_alive(pid)
            if process.is_kernels(pid):
                raise Unreachable(f"process {pid} is a thread of the kernel")
            raise Unreachable(f"process {pid} has no control page: it has to be started with PARKADE_CONTROL=1, as by "
                              f"`parkade run'; under policy glibc there is none (`parkade doctor {pid}' says); a program "
                              "that closes all its descriptors loses it")
        try:
            self.page = mapped(self.fd, SIZE)
        except (OSError, ValueError):
            os.close(self.fd)
            raise Unreachable(f"process {pid}: its control page cannot be read") from None

    def __enter__(self):
        if self.word(0) != MAGIC or self.word(4) != FORMAT:
            self.__exit__()
            raise Unreachable(f"process {self.pid}: its control page is not one of this release")
        own, owner = own_number(self.pid), self.word(PID)
        if owner != own:
            self.__exit__()
            of = f"{self.pid} ({own} in its namespace)" if own != self.pid else self.pid
            raise Unreachable(f"process {of} has the page of {owner}, of which it was forked, and none of its own")
        return self

    def __exit__(self, *_):
        self.page.close()
        os.close(self.fd)

    def word(self, at):
        return struct.unpack_from("=I", self.page, at)[0]

    def text(self, at, size):
        return text_of(self.page[at:at + size])

    def pending(self):
        """The changes that were asked for and are still to be done: {name: value}, as far as they can be any."""
        if self.word(ANSWER) == self.word(REQUEST):
            return {}
        found = {}
        for line in self.page[ASKED:ASKED + TEXT].split(b"\0")[0].decode("utf-8", "replace").split("\n"):
            with contextlib.suppress(argparse.ArgumentTypeError):
                name, value = settings.option(line[:LINE])
                if name.lower() in LIVE:
                    found[name.lower()] = value
        return found

    def pause(self, until):
        """Whether there is time left, once a moment has passed."""
        expect_alive(self.pid)
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
        return True

    def lock(self, until):
        """Who asks keeps it for a moment; the process itself, which has no business with it, might for ever."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.pause(until):
                raise Unreachable(f"process {self.pid}: somebody keeps its control page locked")

    def request(self, changes, until):
        """Write a request; (what others have asked for that is in it, too, its number). There is one text for all who ask:
        who has something changed takes along what is still to be done, and who only looks lets it stand, as any request
        has the counters written."""
        self.lock(until)
        try:
            number, before = self.word(REQUEST), self.pending()
            if not changes and number != self.word(ANSWER):
                return before, number
            data = "\n".join(f"{name}={value}" for name, value in {**before, **changes}.items()).encode()
            if len(data) >= TEXT:
                raise Unreachable("too much at once")
            # Where a thread comes by just now, for the request before, it may see some of both. What is asked for here
            # is then done a second time.
            self.page[ASKED:ASKED + TEXT] = data.ljust(TEXT, b"\0")
            number = (number + 1) % (1 << 32)
            struct.pack_into("=I", self.page, REQUEST, number)
            return before, number
        finally:
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def answered(self, number, until):
        """Whether a thread has come by, for that request or a later one."""
        while (self.word(ANSWER) - number) % (1 << 32) >= 1 << 31:
            if not self.pause(until):
                return False
        return True

    def ask(self, lines, patience):
        """Have the process do what the lines say, and look at its counters. False: no thread has come by yet.

        Nobody is kept from asking meanwhile. So the reply may be to another's request, or about a change that was
        pending; then the same is asked again."""
        changes, until, first = dict(line.split("=", 1) for line in lines), time.monotonic() + patience, ""
        self.said = self.refused = ""
        while True:
            before, number = self.request(changes, until)
            if not self.answered(number, until):
                return False
            if not changes:
                return True
            self.said = self.text(REPLY, TEXT)
            if self.word(REQUEST) != number:
                continue
            if not (self.said and before):
                self.refused = "" if self.said else first
                return True
            first = self.said

    def reply(self):
        """What was wrong with the changes, or nothing."""
        return self.said

    def policy(self):
        return self.text(POLICY, 64)

    def knobs(self):
        return dict(zip(KNOB_NAMES, struct.unpack_from(f"={len(KNOB_NAMES)}q", self.page, KNOBS)))

    def counters(self):
        known = min(self.word(KNOWN), len(tables.COUNTERS))
        return dict(zip(tables.COUNTERS, struct.unpack_from(f"={known}Q", self.page, COUNTERS)))


class Places:
    """Addresses of a process as places in files."""

    def __init__(self, pid):
        self.parts = []
        first, root = {}, process.root_of(pid)
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            for start, end, offset, file in re.findall(
                    r"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \S+ +(/[^\n]*)$", maps.read(), re.MULTILINE):
                start, end = int(start, 16), int(end, 16)
                first.setdefault(file, start - int(offset, 16))
                self.parts.append((start, end, file, 0 if self.is_fixed(root + file) else first[file]))

    @staticmethod
    def is_fixed(file):
        """A program that is not position-independent: its addresses are those of the file."""
        if os.path.isfile(file):
            with contextlib.suppress(OSError), open(file, "rb") as stream:
                return stream.read(18)[16:18] in (b"\2\0", b"\0\2")
        return False

    def site(self, address):
        for start, end, file, base in self.parts:
            if start <= address < end:
                return {"address": address, "file": file, "offset": address - base}
        return {"address": address}


def read_lock(data, levels, counters, places):
    """A lock's row; None if it is none."""
    object_, kind = struct.unpack_from("=2Q", data, 16)
    if not object_ or kind >= len(KINDS):
        return None
    sites = struct.unpack_from(f"={SITES}Q", data, 32)
    got, late, wait_ns, wait_max_ns, turns, turn_ns = struct.unpack_from("=6Q", data, 96)
    near = struct.unpack_from(f"={COHORTS + 1}Q", data, 160)
    gained = struct.unpack_from(f"={len(counters)}Q", data, 200 + 8 * TIMES)
    return {"object": object_, "kind": KINDS[kind], "name": "", "got": got, "late": late, "wait_ns": wait_ns,
            "wait_max_ns": wait_max_ns, "turns": turns, "turn_ns": turn_ns,
            "near": {**dict(zip(levels, near)), "system": near[COHORTS]},
            "times": list(struct.unpack_from(f"={TIMES}Q", data, 200)),
            "counters": {name: n for name, n in zip(counters, gained) if n},
            "sites": [places.site(address) for address in sites if address]}


def statistics(pid, name, policy):
    """The report of a process that runs, as locks.py has it; None if it keeps no statistics."""
    fd = opened(pid, "parkade-stats", os.O_RDONLY)
    if fd is None:
        return None
    try:
        size = os.fstat(fd).st_size
        with mapped(fd, 0, prot=mmap.PROT_READ) as memory:
            magic, form, record, table, used = struct.unpack_from("=5Q", memory, 0)
            if not magic:       # nobody has begun to write there
                return None
            levels = list(filter(None, text_of(memory[48:112]).split(",")))[:COHORTS]
            counters = list(filter(None, text_of(memory[112:2160]).split(",")))
            if (magic, form) != (STATS_MAGIC, STATS_FORMAT) or record < 200 + 8 * (TIMES + len(counters)) or \
                    STATS_HEAD + record * table > size:
                raise Unreachable(f"process {pid}: its statistics are not of this release")
            places = Places(pid)
            parts = (memory[STATS_HEAD + n * record:STATS_HEAD + (n + 1) * record] for n in range(min(used, table)))
            found, names = [], {}
            for part in parts:
                lock = read_lock(part, levels, counters, places)
                if lock:
                    found.append(lock)
                elif struct.unpack_from("=Q", part, 24)[0] == len(KINDS):
                    names[struct.unpack_from("=Q", part, 16)[0]] = text_of(part[64:96])
    except (OSError, ValueError, struct.error):
        raise Unreachable(f"process {pid}: its statistics cannot be read") from None
    finally:
        os.close(fd)
    for lock in found:
        lock["name"] = names.get(lock["object"], "")
    return {"format": locks.FORMAT, "pid": pid, "program": name, "policy": policy, "not_counted": max(used - table, 0),
            "locks": [lock for lock in found if lock["got"] + lock["late"]]}
