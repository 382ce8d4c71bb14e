# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The machine as the library sees it: the same files, read by the same rules (lib/rt/topology.[ch] says which).

A cohort is a group of CPUs at one level of the machine. A partition is a dictionary: the cohort of each CPU.
tests/command/topology compares all this with the library's own code.
"""

import os
import re

KINDS = ("core", "cache", "node", "package")    # the innermost first
CPUS_MAX = 8192
SOCKETS_MAX = 256
TEXT = 4096                     # what the library reads of a file
GROUP_LEAST = 6                 # CPUs of a cache group that is taken for a socket
FILES = {
    "core": ("topology/core_cpus_list", "topology/thread_siblings_list"),
    "cache": ("cache/index4/shared_cpu_list", "cache/index3/shared_cpu_list", "cache/index2/shared_cpu_list"),
    "package": ("topology/package_cpus_list", "topology/core_siblings_list"),
}


def read_file(root, path):
    """The text, or None where there is none."""
    try:
        with open(root + path, "rb") as file:
            return file.read(TEXT - 1).decode("latin-1") or None
    except OSError:
        return None


def ranges(text):
    """The CPUs of a list such as "0-3,8", up to what cannot be understood."""
    at, item = 0, re.compile(r"\s*(\d+)(?:-(\d*))?,?")
    while True:
        found = item.match(text, at)
        if not found:
            return
        at, first = found.end(), int(found[1])
        last = first if found[2] is None else int(found[2] or 0)
        yield from range(first, min(last, CPUS_MAX - 1) + 1)


def spell(cpus):
    """The list of CPUS as sysfs spells it."""
    text, cpus = [], sorted(cpus)
    first = 0
    for i, cpu in enumerate(cpus):
        if i + 1 == len(cpus) or cpus[i + 1] != cpu + 1:
            text.append(f"{cpus[first]}-{cpu}" if first < i else str(cpu))
            first = i + 1
    return ",".join(text)


def read_nodes(root):
    """(how many, the node of each CPU)."""
    text = read_file(root, "/sys/devices/system/node/has_cpu") or ""
    if "-" not in text and "," not in text:
        return 1, {}
    node_of, n = {}, 0
    for node in ranges(text):
        cpus = read_file(root, f"/sys/devices/system/node/node{node}/cpulist") if n < SOCKETS_MAX else None
        if cpus is not None:
            node_of.update((cpu, n) for cpu in ranges(cpus))
            n += 1
    return max(n, 1), node_of


def read_cohorts(root, kind, online):
    """(how many, the cohort of each CPU); one, where that cannot be read."""
    cohort_of, n = {}, 0
    for cpu in online:
        if cpu in cohort_of:
            continue
        texts = (read_file(root, f"/sys/devices/system/cpu/cpu{cpu}/{name}") for name in FILES[kind])
        cpus = ranges(next((text for text in texts if text is not None), ""))
        new = dict.fromkeys((other for other in cpus if other not in cohort_of), n)
        if not new:
            return 1, {}
        cohort_of.update(new)
        n += 1
    return max(n, 1), cohort_of


def read_quota(root, process="self"):
    """How many CPUs the cgroups allow, or None."""
    found = re.search("0::(/[^\n]*)", read_file(root, f"/proc/{process}/cgroup") or "")
    group, quotas = found[1] if found else "", []
    while group:
        limit = re.match(r"\s*(\d+)\s+(\d+)", read_file(root, f"/sys/fs/cgroup{group}/cpu.max") or "")
        if limit and int(limit[2]):
            quotas.append(max(1, int(limit[1]) // int(limit[2])))
        group = group[:group.rindex("/")] or "/" if group != "/" else ""
    return min(quotas, default=None)


class Machine:
    """What sysfs says: `online' and `usable' CPUs, `quota' or None, `partitions' and `counts' of all kinds of cohorts,
    `levels', the kinds that say something, and for each socket how many CPUs may be used. Where the sockets are cache groups
    (`by_group') they are what is told of the nodes."""

    def __init__(self, root="", usable=None, process="self"):
        self.usable = sorted(os.sched_getaffinity(0) if usable is None else usable)
        self.quota = read_quota(root, process)
        self.online = list(ranges(read_file(root, "/sys/devices/system/cpu/online") or ""))
        found = {kind: read_nodes(root) if kind == "node" else read_cohorts(root, kind, self.online) for kind in KINDS}
        self.by_group = found["node"][0] == 1 and self.has_groups(*found["cache"])
        if self.by_group:
            found["node"] = found["cache"]
        self.counts = {kind: count for kind, (count, _) in found.items()}
        self.partitions = {kind: partition for kind, (_, partition) in found.items()}
        self.levels = self.find_levels()
        self.sockets = [0] * self.counts["node"]
        for cpu in self.usable:
            self.sockets[self.cohort("node", cpu)] += 1
        if self.quota is not None and self.quota < len(self.usable):
            self.sockets = [n * self.quota // len(self.usable) for n in self.sockets]

    def has_groups(self, caches, group_of):
        """Of a machine of one node the cache groups are the sockets, if several may be used, with CPUs enough."""
        used = {group_of.get(cpu, 0) for cpu in self.usable}
        usable = len(self.usable) if self.quota is None else min(self.quota, len(self.usable))
        return bool(self.online) and caches <= SOCKETS_MAX and len(used) > 1 and usable // len(used) >= GROUP_LEAST

    def cohort(self, kind, cpu):
        return self.partitions[kind].get(cpu, 0)

    def lies_in(self, kind, around):
        """Each cohort of the kind lies in one of the other."""
        first = {}
        for cpu in range(CPUS_MAX) if kind == "node" else self.partitions[kind]:
            first.setdefault(self.cohort(kind, cpu), cpu)
        return all(self.cohort(around, cpu) == self.cohort(around, first.get(self.cohort(kind, cpu), 0))
                   for cpu in self.online)

    def find_levels(self):
        levels = []
        for kind in KINDS:
            if not 1 < self.counts[kind] < len(self.online) or (kind == "node" and self.by_group):
                continue
            while levels and not (self.counts[levels[-1]] > self.counts[kind] and self.lies_in(levels[-1], kind)):
                if kind != "node":
                    break       # the one within says the same, or is at odds
                levels.pop()
            else:
                levels.append(kind)
        return levels

    def cohorts(self, kind, cpus):
        """Those of CPUS that are in each cohort, as lists; cohorts that have none are left out."""
        groups = {}
        for cpu in cpus:
            groups.setdefault(self.cohort(kind, cpu), []).append(cpu)
        return list(groups.values())

    def as_json(self):
        return {"online": self.online, "usable": self.usable, "quota": self.quota, "sockets": self.sockets,
                "levels": [{"kind": kind, "cohorts": self.cohorts(kind, self.online)} for kind in self.levels]}
