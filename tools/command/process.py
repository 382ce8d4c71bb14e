# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What /proc says of a process, and its program file of itself."""

import os
import pwd
import re
import struct

from .preload import OURS

AT_SECURE = 23


class Unreadable(Exception):
    """The text says what cannot be seen of the process, and why."""


class Program:
    """A program file: `bits', `static', `sanitizers'; all None where it cannot be read."""

    def __init__(self, path):
        self.bits = self.static = self.sanitizers = None
        try:
            from elftools.common.exceptions import ELFError
            from elftools.elf.elffile import ELFFile
        except ImportError:
            self.why = "python3-pyelftools is not here"
            return
        try:
            with open(path, "rb") as file:
                elf = ELFFile(file)
                bits = elf.elfclass
                kinds = {segment["p_type"] for segment in elf.iter_segments()}
                symbols = elf.get_section_by_name(".dynsym")
                names = {symbol.name for symbol in symbols.iter_symbols()} if symbols else set()
        except (OSError, ELFError) as error:
            self.why = str(error) or "not an ELF file"
            return
        self.bits, self.static = bits, "PT_INTERP" not in kinds
        self.sanitizers = [what for what, name in (("AddressSanitizer", "__asan_init"), ("ThreadSanitizer", "__tsan_init"))
                           if name in names]


def has_ended(pid):
    """A process that nobody has waited for yet has, too; but not one of which only the first thread has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
            text = status.read()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return re.search(r"^State:\s*[ZX]", text, re.MULTILINE) is not None and re.search(r"^Threads:\s*[01]$", text, re.MULTILINE) is not None


def is_kernels(pid):
    """A thread of the kernel has no program."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except FileNotFoundError:
        return not has_ended(pid)
    except OSError:
        pass
    return False


def root_of(pid):
    """What leads to the files that /proc names: in another mount namespace, as a container's, other files are called so. In
    one's own they are named as seen from here, also those of a process that has changed its root."""
    try:
        return "" if os.path.samefile(f"/proc/{pid}/ns/mnt", "/proc/self/ns/mnt") else f"/proc/{pid}/root"
    except OSError:
        return f"/proc/{pid}/root"


class Process:
    def __init__(self, pid):
        self.pid = pid
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                self.name = file.read().rstrip("\n")
            self.uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            raise Unreadable(f"there is no process {pid}") from None

    @property
    def user(self):
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def read(self, name):
        try:
            with open(f"/proc/{self.pid}/{name}", "rb") as file:
                return file.read()
        except PermissionError:
            raise Unreadable(f"process {self.pid} belongs to {self.user}, or is protected: ask as that user or root") from None
        except OSError as error:
            raise Unreadable(f"process {self.pid}: /proc/{self.pid}/{name}: {error.strerror}") from None

    def files(self):
        """The files that are mapped to be run."""
        text = self.read("maps").decode("utf-8", "replace")
        return list(dict.fromkeys(re.findall(r"^\S+ ..x. \S+ \S+ \S+ +(/[^\n]*)$", text, re.MULTILINE)))

    def library(self):
        """The file of the library that it has, or None."""
        return next((file for file in self.files() if OURS.search(re.sub(r" \(deleted\)$", "", file))), None)

    def environment(self):
        """As the program was started; a dictionary. None where something else is there by now: programs that set their title
        (nginx, PostgreSQL) write it over their arguments and their environment, and zeros behind it."""
        data = self.read("environ")
        *entries, rest = data.decode("utf-8", "replace").split("\0")
        if rest or not all(re.match(r"[^=\s]+=", entry) for entry in entries):
            return None
        return dict(entry.split("=", 1) for entry in entries)

    def secure(self):
        """Whether it runs with other rights than who started it."""
        auxv = self.read("auxv")
        word = struct.calcsize("@L")
        values = struct.unpack(f"@{len(auxv) // word}L", auxv[:len(auxv) // word * word])
        return dict(zip(values[::2], values[1::2])).get(AT_SECURE, 0) != 0

    def program(self):
        return Program(f"/proc/{self.pid}/exe")
