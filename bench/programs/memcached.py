# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""memcached under memcaslap: a share of sets, the rest gets. Only the server is preloaded."""

import os
import shutil

import common

PACKAGES = "memcached, libmemcached-tools"
METRIC = "requests/s"
SECONDS = 4
VARIANTS = ("10 % sets", "50 % sets", "90 % sets")
LENGTH = 3


def load_program():
    return shutil.which("memcaslap") or shutil.which("memaslap")


def missing():
    return common.lacking("memcached") + ([] if load_program() else ["memcaslap"])


def run(kit, variant):
    sets, port = int(variant.split()[0]) / 100, common.free_port()
    path = os.path.join(kit.place, "load")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"key\n16 16 1\nvalue\n100 100 1\ncmd\n0 {sets:g}\n1 {1 - sets:g}\n")
    server = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", "64", "-t", str(common.THREADS)]
    with kit.server(server + (["-u", "root"] if os.geteuid() == 0 else []), lambda: common.listens(port)):
        out, _ = kit.run([load_program(), "-s", f"127.0.0.1:{port}", "-T", "1", "-c", "16", "-t", f"{LENGTH}s", "-F", path],
                         preloaded=False)
    rate = common.number(r"TPS: (\d+)", out)
    return rate * LENGTH, LENGTH
